//! End-to-end scenes: the real command `tallycast` in network namespaces, with real losses.
//!
//! A scene is a [`Lan`] of hosts around a bridge and the [`Command`]s that run on them. Everything a scene
//! makes ends with it, also when it fails: namespaces, processes, links. The scenes themselves are in
//! `tests/`; those with a lan need root and `ip`, and say so when they skip. What needs one host only runs on
//! the loopback interface, on a [`private_bus`].

mod lan;
mod process;
mod web;

pub use lan::{Host, Lan};
pub use process::{Command, WATCHDOG, binary, wait_until};
pub use web::{get_json, get_on};

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns a lan with these hosts, or says why the scene cannot run here and returns `None`.
#[must_use]
pub fn lan_or_skip(hosts: &[&str]) -> Option<Lan> {
    match Lan::new(hosts) {
        Ok(lan) => Some(lan),
        Err(reason) => {
            println!("SKIPPED: {reason}");
            None
        }
    }
}

/// Returns a bus on the loopback interface that no other scene uses.
///
/// # Panics
/// If no UDP port can be had.
#[must_use]
pub fn private_bus() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Below the ports that the kernel gives to anybody who asks for none: one of those could be taken between this look and its use.
    let start = std::process::id().wrapping_mul(97);
    let candidates = std::iter::repeat_with(|| start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut ports = candidates.take(18_000).map(|number| 12_000 + (number % 18_000) as u16);
    let port = ports.find(|port| UdpSocket::bind(("0.0.0.0", *port)).is_ok());
    format!("udp://239.84.0.0:{}?iface=lo", port.expect("a machine has a free port"))
}
