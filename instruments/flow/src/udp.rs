//! The sockets of a flow of datagrams: one that sends and counts the outcomes, one that receives until the end.

mod outcomes;
mod receiver;
mod sender;

pub use outcomes::Outcomes;
pub use receiver::{Counting, Receiver, receive_buffer_bytes};
pub use sender::{Sender, to};

/// Buffer of a socket by default: 208 KiB, which the kernel reports doubled.
const SYSTEM_BUFFER_BYTES: usize = 106_496;

/// Returns the note on a buffer that the kernel clamped.
pub fn said_if_clamped(buffer: sys::Buffer) -> Option<String> {
    buffer.clamped().then(|| buffer.to_string())
}
