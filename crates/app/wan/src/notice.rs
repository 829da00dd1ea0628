//! What a relay tells about itself: events as they happen, and its state.

use std::net::SocketAddr;
use std::time::Duration;

use relay::{Ages, Degraded};
use serde::Serialize;

use crate::backfill::BackfillState;

/// Event of a relay.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Notice {
    /// It waits for others at this address.
    Listening {
        /// The address, with the port that the kernel chose.
        address: SocketAddr,
    },
    /// The link is there.
    Connected {
        /// Address of the other relay.
        peer: SocketAddr,
    },
    /// The link is gone, or could not be made; it is tried again for ever. Said once until it is there.
    Disconnected {
        /// Address of the other relay.
        peer: SocketAddr,
        /// The reason.
        reason: String,
        /// Pause before the next attempt; none at the end that is dialled. Units: seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_in_s: Option<f64>,
    },
    /// The other relay has said who it is.
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
    /// All of an ended stream has been answered for.
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
    /// Something is worse than it should be; said once until it is better.
    Warning {
        /// What it is, and what can be done.
        what: String,
    },
}

/// State of a relay.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct State {
    /// `near` or `far`.
    pub role: &'static str,
    /// Its station.
    pub station: String,
    /// Handshakes and datagrams of others than listed peers: they got no answer.
    pub turned_away: u64,
    /// The links.
    pub links: Vec<LinkState>,
    /// What is done to fill holes of archives, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backfill: Option<BackfillState>,
}

/// State of a link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkState {
    /// Address of the other relay.
    pub peer: SocketAddr,
    /// Station of the other relay, once it is known.
    pub station: Option<String>,
    /// Whether there is a connection whose peer answers.
    pub is_up: bool,
    /// Smoothed round trip. Units: nanoseconds; absent until it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Packets sent again.
    pub repaired_packets: u64,
    /// Packets sent for the first time.
    pub sent_packets: u64,
    /// Messages and records that were not as they must be, and were ignored.
    pub ignored: u64,
    /// Bytes that wait: at the near end to be sent, at the far end behind holes. Both are bounded by the deadline.
    pub waiting_bytes: u64,
    /// The streams.
    pub streams: Vec<StreamState>,
}

/// State of a stream on a link. Units: elements.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StreamState {
    /// Name of the stream.
    pub name: String,
    /// First position of its account on the link.
    pub first: u64,
    /// One behind the last position of the account.
    pub next: u64,
    /// Elements published on the other bus.
    pub delivered: u64,
    /// Elements that were missing before the link.
    pub missing: u64,
    /// Elements that the link lost.
    pub given_up: u64,
    /// Elements that wait or are in flight.
    pub in_flight: u64,
    /// Deadline that is kept. Units: nanoseconds.
    pub deadline_ns: u64,
    /// Precedence where not all streams fit: the higher goes first.
    pub priority: u8,
    /// Elements given up by this end, by cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<(&'static str, u64)>,
    /// Ages since the last state: of what a near end sent, or a far end published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<AgeState>,
    /// Why it is not relayed as it should be now; told by the near end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<&'static str>,
}

/// Ages of samples since their publisher had them, by estimate. Units: nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AgeState {
    /// Median.
    pub p50_ns: u64,
    /// Not exceeded by 99 of 100.
    pub p99_ns: u64,
    /// The largest.
    pub largest_ns: u64,
}

impl From<Ages> for AgeState {
    fn from(ages: Ages) -> Self {
        let Ages { median, percentile_99, largest } = ages;
        Self { p50_ns: nanos(median), p99_ns: nanos(percentile_99), largest_ns: nanos(largest) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_from_a_board_as_it_was_shown() {
        let stream = StreamState {
            name: "lab/a".to_owned(),
            first: 1,
            next: 101,
            delivered: 90,
            missing: 4,
            given_up: 5,
            in_flight: 1,
            deadline_ns: 4,
            priority: 6,
            causes: vec![("repair", 5)],
            age: Some(AgeState { p50_ns: 1, p99_ns: 2, largest_ns: 3 }),
            degraded: Some(degraded_name(Degraded::TooFar)),
        };
        let link = LinkState {
            peer: "10.0.0.1:7400".parse().unwrap(),
            station: Some("far".to_owned()),
            is_up: true,
            round_trip_ns: Some(7),
            repaired_packets: 2,
            sent_packets: 9,
            ignored: 3,
            waiting_bytes: 11,
            streams: vec![stream],
        };
        let state = State {
            role: "near",
            station: "home".to_owned(),
            turned_away: 4,
            links: vec![link],
            backfill: None,
        };
        let shown = serde_json::to_vec(&state).unwrap();
        let read = tallycast::RelayState::read(&tallycast::RelayOnHost { pid: 1, state: shown }).unwrap();
        assert_eq!((read.role.as_str(), read.station.as_str(), read.turned_away), ("near", "home", 4));
        let link = &read.links[0];
        assert_eq!(
            (link.peer.as_str(), link.station.as_deref(), link.is_up),
            ("10.0.0.1:7400", Some("far"), true)
        );
        let packets = (link.round_trip_ns, link.repaired_packets, link.sent_packets, link.ignored);
        assert_eq!((packets, link.waiting_bytes), ((Some(7), 2, 9, 3), 11));
        let stream = &link.streams[0];
        assert_eq!((stream.delivered, stream.missing, stream.given_up, stream.in_flight), (90, 4, 5, 1));
        assert_eq!((stream.causes[0].0.as_str(), stream.causes[0].1), ("repair", 5));
        assert_eq!(stream.age.map(|age| [age.p50_ns, age.p99_ns, age.largest_ns]), Some([1, 2, 3]));
        assert_eq!((stream.degraded.as_deref(), stream.deadline_ns), (Some("too_far"), Some(4)));
    }
}
