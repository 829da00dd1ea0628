//! Live streams over a long link: both ends of the link between two relays.
//!
//! The *near end* reads streams of a bus and sends their samples over a reliable connection, the link; the *far end*
//! takes them from it and publishes them on another bus. Positions, times and the origin epoch of a sample are the same
//! on both buses. Samples that do not reach the far end within the deadline are given up, and every element that is
//! missing there has its hop and stage.
//!
//! Start with [`NearEnd`] and [`FarEnd`]; their messages are in [`frame`]. [`SecondConnection`] decides when the near end
//! makes another connection. Connections, encryption and buses are not in this crate, only messages, decisions and
//! counters.
//!
//! Source: `docs/protocol/relay.md`.

mod ages;
mod far;
pub mod frame;
mod near;
mod path;
mod second_connection;

pub use ages::Ages;
pub use far::{FarConfig, FarEnd, FarEvent, FarFault, FarInput, FarOutput, FarTotals, Publish, WantedBy};
pub use frame::Refusal;
pub use ledger::Cause;
pub use near::{
    Began, Degraded, Elements, Fault, NearAccount, NearConfig, NearEnd, NearEvent, NearInput, NearOutput,
};
pub use path::{DEFAULT_DEADLINE, HANDOVER, MAX_DEADLINE, Path, least_deadline};
pub use second_connection::{FirstConnection, Second, SecondConnection, Step, silence_bound};

/// Largest number of a hop: that of the bus behind the last relay of a chain.
#[expect(clippy::cast_possible_truncation, reason = "eight")]
pub(crate) const MAX_HOP: u8 = wire::MAX_HOPS as u8;
/// Maximum number of streams on one link: each costs a message in both directions ten times a second.
pub const MAX_STREAMS: usize = 1_024;
