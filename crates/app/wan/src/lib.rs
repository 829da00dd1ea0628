//! Live streams across a wide-area network: `tallycast relay`.
//!
//! A relay has three accounts in one process: it reads the streams of its bus like any reader, carries their elements
//! over one reliable link, and publishes them on the other bus with the indices that they have at home. The decisions
//! are in `relay`, a pure crate; this one drives it. Start with [`Near`], which reads and dials, and [`Far`], which
//! listens and publishes.

mod backfill;
mod bus;
mod deadline;
mod driver;
mod far;
mod link;
mod look_up;
mod near;
mod notice;
mod pauses;
mod peers;
mod publication;
mod readers;
mod standby;
mod streams;

pub use backfill::Source;
pub use bus::BusPublication;
pub use deadline::{DeadlineError, HAND_OVER, LONGEST_DEADLINE, check_deadline, check_way};
pub use far::{Far, FarSettings};
pub use look_up::LookUp;
pub use near::{Near, NearSettings, RelayError};
pub use notice::Notice;
pub use peers::ListedPeers;
pub use publication::{Publication, PublicationKey, Wanted};
pub use relay::DEFAULT_DEADLINE;

/// Returns a random number that no other process has.
#[must_use]
pub fn random_incarnation() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
