//! Any text as each of the kernel's files that the doctor reads, and as the rules of a firewall.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Maximum number of processors of a Linux build: the shortest text that claims more than it has.
const PROCESSORS: usize = 8_192;

fuzz_target!(|text: &str| {
    let count = sys::fuzz::read_text(text);
    assert!(count <= 4 * text.len() + PROCESSORS, "{count} things are in {} bytes", text.len());
    doctor::fuzz::read_text(text);
    if let Some(chains) = doctor::fuzz::read_rules(text.as_bytes()) {
        assert!(chains.len() <= text.len());
    }
});
