//! Any bytes as output of the hook in the kernel, as the kernel's types, and as the list of its functions.
#![no_main]

use bpf::fuzz::{Symbols, Types, read_copy};
use diagnose::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let runs = read_copy(bytes, &[Profile::TALLYCAST, Profile::RTP]);
    // A train of 65,535 datagrams, and one run for those without a number.
    assert!(runs.len() <= usize::from(u16::MAX) + 1);
    if let Some(types) = Types::parse(bytes) {
        let reasons = types.enumeration("skb_drop_reason");
        assert!(reasons.len() <= bytes.len());
        let _ = types.tracepoint_values("kfree_skb");
    }
    if let Ok(text) = core::str::from_utf8(bytes) {
        let symbols = Symbols::parse(text);
        assert_eq!(symbols.is_empty(), symbols.name(u64::MAX).is_none());
    }
});
