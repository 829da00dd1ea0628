//! Any bytes as the kernel's answer by netlink: links, queue disciplines, sockets; none is made up.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Each is at least the head of a message.
const LEAST_BYTES: usize = 16;

fuzz_target!(|answer: &[u8]| {
    for count in sys::fuzz::read_netlink(answer) {
        assert!(count <= answer.len() / LEAST_BYTES);
    }
});
