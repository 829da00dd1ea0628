//! Our side of the tests: a port, and streams with content known to both sides.

use std::net::SocketAddr;

use engine::{PortOptions, ReliablePort};
use udt::SocketId;

use crate::{byte_at, bytes_from};

/// Size of one write.
pub const MEGABYTE: u64 = 1_000_000;

/// Opens a port on the loopback interface.
///
/// # Panics
/// If no port can be opened.
#[must_use]
pub fn port(offloads: bool) -> ReliablePort {
    let options = PortOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        receive_buffer_bytes: 8 << 20,
        send_buffer_bytes: 1 << 20,
        offloads,
        seed: u64::from(std::process::id()),
        secret: [1; 16],
        keys: None,
    };
    ReliablePort::open(&options).expect("loopback has room for a port")
}

/// Sends the beginning of the stream.
///
/// # Panics
/// If the connection breaks.
pub fn send(ours: &ReliablePort, socket: SocketId, total: u64) {
    let mut sent = 0;
    while sent < total {
        let block = bytes_from(sent, (total - sent).min(MEGABYTE));
        let mut rest = &block[..];
        while !rest.is_empty() {
            let taken = ours.send(socket, rest, None).expect("the connection holds");
            rest = &rest[taken..];
        }
        sent += block.len() as u64;
    }
}

/// Receives the beginning of the stream, and compares every byte.
///
/// # Panics
/// If the connection breaks or ends early, or a byte is wrong.
pub fn receive(ours: &ReliablePort, socket: SocketId, total: u64) {
    let mut bytes = vec![0; 1 << 20];
    let mut place = 0;
    while place < total {
        let count = ours.receive(socket, &mut bytes, None).expect("the connection holds");
        assert!(count > 0, "it ended after {place} of {total}");
        let wrong = bytes[..count].iter().zip(place..).find(|(byte, place)| **byte != byte_at(*place));
        assert_eq!(wrong, None);
        place += count as u64;
    }
}
