//! A relay's reports about itself: events as they happen, and values of its state.

use std::net::SocketAddr;
use std::time::Duration;

use relay::{Ages, Cause, Degraded};
use serde::Serialize;
use tallycast::RelayAge;

/// Event of a relay.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Notice {
    /// It waits for near relays at this address.
    Listening {
        /// The address, with the port that the kernel chose.
        address: SocketAddr,
    },
    /// The link is up.
    Connected {
        /// Address of the other relay.
        peer: SocketAddr,
    },
    /// The link is down; connecting is tried again for ever. Reported once until it is up.
    Disconnected {
        /// Address of the other relay.
        peer: SocketAddr,
        /// The reason.
        reason: String,
        /// Pause before the next attempt; none at the end that listens. Units: seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_in_s: Option<f64>,
    },
    /// The other relay has identified itself.
    Met {
        /// Address of the other relay.
        peer: SocketAddr,
        /// Its station.
        station: String,
    },
    /// A stream is carried from this position on.
    Opened {
        /// Name of the stream.
        stream: String,
        /// Position of its first element on the link.
        position: u64,
    },
    /// A stream is not carried.
    Refused {
        /// Name of the stream.
        stream: String,
        /// The reason.
        reason: String,
    },
    /// Readers beyond the link want another deadline or priority.
    Wanted {
        /// Name of the stream.
        stream: String,
        /// Deadline from now on. Units: nanoseconds.
        deadline_ns: u64,
        /// Priority from now on.
        priority: u8,
    },
    /// A stream has ended, and the far end has an outcome for all of it.
    Closed {
        /// Name of the stream.
        stream: String,
    },
    /// A stream is not published, because another station publishes it on the bus.
    StandingBy {
        /// Name of the stream.
        stream: String,
        /// The other station.
        station: String,
    },
    /// A stream is published here from this position on, because the other publication is silent.
    TookOver {
        /// Name of the stream.
        stream: String,
        /// The position.
        position: u64,
    },
    /// The path is short enough for the deadline again, after a warning.
    DeadlineKept {
        /// Name of the stream.
        stream: String,
    },
    /// The list of peers has changed.
    Relisted {
        /// Number of listed peers.
        peers: usize,
    },
    /// Samples that an archive missed have come from the other station's, and are stored.
    Refilled {
        /// Name of the stream.
        stream: String,
        /// Epoch of its origin.
        epoch: String,
        /// Samples that came.
        samples: u64,
        /// Samples that are still missing and may come.
        missing: u64,
        /// Samples that are missing in the other archive, too, in part or wholly.
        lacking: u64,
    },
    /// A degraded mode; reported once until it is over.
    Warning {
        /// The degradation, and what can be done.
        what: String,
    },
}

/// Returns ages for a state.
pub(crate) fn age_state(ages: Ages) -> RelayAge {
    let Ages { median, percentile_99, largest } = ages;
    RelayAge { p50_ns: nanos(median), p99_ns: nanos(percentile_99), largest_ns: nanos(largest) }
}

/// Returns elements given up for a state, by the causes that occurred.
pub(crate) fn cause_states(counts: [u64; 4]) -> Vec<(String, u64)> {
    let causes = Cause::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
    causes.map(|(cause, count)| (cause.name().to_owned(), count)).collect()
}

/// Names a degraded mode in a state.
pub(crate) const fn degraded_name(degraded: Degraded) -> &'static str {
    match degraded {
        Degraded::TooFar => "too_far",
        Degraded::Bandwidth => "bandwidth",
    }
}

/// Returns a time for a notice.
pub(crate) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// Returns a time as whole nanoseconds.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
