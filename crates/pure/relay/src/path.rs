//! The path between both ends as they know it, and the deadline that it can keep.

use core::time::Duration;

/// Reserve of a deadline for handing samples over at the far end: missing samples are given up this long before it.
pub const HANDOVER: Duration = Duration::from_millis(2);
/// Deadline where neither a reader nor a relay has one.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(1);
/// Largest deadline: the near end keeps samples that it cannot send this long.
pub const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// State of the connection, as its machine has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Smoothed round trip.
    pub round_trip: Duration,
    /// The clock by which the connection stamps packets, at the instant of this input. Units: microseconds.
    pub clock_us: u32,
    /// Number of messages that it takes now.
    pub room: u32,
    /// Maximum size of a message that is one packet. Units: bytes.
    pub message_bytes: usize,
    /// False while the peer does not answer.
    pub is_up: bool,
}

/// Returns the least deadline that a path with this round trip can keep: half of it, and the time for handing over.
#[must_use]
pub fn least_deadline(round_trip: Duration) -> Duration {
    round_trip / 2 + HANDOVER
}
