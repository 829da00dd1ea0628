//! End-to-end scenes: the real command `tallycast` in network namespaces, with real losses.
//!
//! A scene is a [`Lan`] of hosts around a bridge and the [`Command`]s that run on them. Everything a scene makes
//! ends with it, also if it fails: namespaces, processes, links. The scenes themselves are in `tests/`; those with
//! a lan need root and `ip`, and report when they skip. Scenes of one host only run on the loopback interface, on a
//! [`private_bus`].

mod accounts;
mod lan;
mod process;
mod program;
mod web;

pub use accounts::Accounts;
pub use lan::{Host, Lan};
pub use process::{Command, binary};
pub use program::Program;
pub use support::ports::{private_bus, private_bus_from_now};
pub use support::{WATCHDOG, wait_until};
pub use web::{get_json, get_on};

/// Returns a lan with these hosts, or reports why the scene cannot run here and returns `None`.
#[must_use]
pub fn lan_or_skip(hosts: &[&str]) -> Option<Lan> {
    support::or_skip(Lan::new(hosts))
}
