//! Ports for tests: each is given to one test of a process, and the kernel gives it to nobody who asks for none.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that the kernel chooses from (`net.ipv4.ip_local_port_range`): one of these could be taken between this look
/// and its use, and two tests that listen to groups at one port would hear each other.
const FIRST: u16 = 12_000;
const COUNT: u16 = 18_000;

/// Returns a UDP port that nobody uses, and that no other test of this process is given.
///
/// # Panics
/// If all are taken.
#[must_use]
pub fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Another process, of another suite, begins elsewhere.
    let start = process::id().wrapping_mul(97);
    let numbers = (0..COUNT).map(|_| start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut ports = numbers.map(|number| FIRST + (number % u32::from(COUNT)) as u16);
    let is_free = |port: &u16| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    ports.find(is_free).expect("a machine has a free port")
}

/// Returns an address of this host at which nobody receives.
///
/// # Panics
/// If all ports are taken.
#[must_use]
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free()).into()
}

/// Returns a bus on the loopback interface that no other test uses.
///
/// # Panics
/// If all ports are taken.
#[must_use]
pub fn private_bus() -> String {
    format!("udp://239.84.0.0:{}?iface=lo", free())
}
