//! Ports for tests: each is assigned to one test of a process, and is outside the kernel's ephemeral range.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the kernel's ephemeral range (`net.ipv4.ip_local_port_range`): a port in that range could be taken between
/// this check and its use, and two tests that join groups at one port would receive each other's datagrams.
const FIRST: u16 = 12_000;
const COUNT: u16 = 18_000;

/// Returns an unused UDP port that no other test of this process has.
///
/// # Panics
/// If all are taken.
#[must_use]
pub fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Another process, of another suite, starts at another port.
    let start = process::id().wrapping_mul(97);
    let numbers = (0..COUNT).map(|_| start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut ports = numbers.map(|number| FIRST + (number % u32::from(COUNT)) as u16);
    let is_free = |port: &u16| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    ports.find(is_free).expect("a machine has a free port")
}

/// Returns an address of this host without a receiver.
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

/// Returns another one, whose readers begin with the first datagram they receive: a delayed reader may miss a stream's
/// beginning.
///
/// # Panics
/// If all ports are taken.
#[must_use]
pub fn private_bus_from_now() -> String {
    format!("{}&start=now", private_bus())
}
