//! Any bytes as a signed statement: refused, or written again as the same bytes; without a signature it claims nothing.
#![no_main]

use keys::PublicKey;
use libfuzzer_sys::fuzz_target;
use proof::Statement;

fuzz_target!(|bytes: &[u8]| {
    let Ok(statement) = Statement::decode(bytes) else { return };
    assert_eq!(statement.encode(), bytes);
    assert!(statement.first <= statement.next_interval());
    assert_eq!(statement.heads().count(), statement.entries.len() + 1);
    statement.check(&PublicKey([0; 32])).expect_err("nobody signed it");
});
