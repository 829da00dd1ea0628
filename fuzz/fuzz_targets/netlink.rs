//! Any bytes as the kernel's netlink answer: links, queue disciplines, sockets; the parser invents none.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Minimum size of each: the header of a message.
const LEAST_BYTES: usize = 16;

fuzz_target!(|answer: &[u8]| {
    for count in sys::fuzz::read_netlink(answer) {
        assert!(count <= answer.len() / LEAST_BYTES);
    }
});
