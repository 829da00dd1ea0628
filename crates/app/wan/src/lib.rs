//! Live streams across a wide-area network: `tallycast relay`.
//!
//! A relay has three books in one process: it reads the streams of its bus like any reader, carries their elements over
//! one reliable leg, and publishes them on the other bus with the indices that they have at home. What decides is in
//! `relay`, a pure crate; this one drives it. Start with [`Near`], which reads and dials, and [`Far`], which listens and
//! publishes.

mod bus;
mod deadline;
mod far;
mod leg;
mod near;
mod notice;
mod outlet;
mod pauses;
mod streams;

pub use bus::BusOutlet;
pub use deadline::{DeadlineError, HAND_OVER, LONGEST_DEADLINE, check_deadline, check_way};
pub use far::{Far, FarSettings};
pub use near::{Near, NearSettings, RelayError};
pub use notice::{LegState, Notice, State, StreamState};
pub use outlet::{Outlet, OutletKey};

/// Returns a random number that no other process has.
#[must_use]
pub fn random_life() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
