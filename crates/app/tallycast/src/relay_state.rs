//! The state of a relay: it prints it each second, and shows it on its board for `relay --list`, `top` and `/metrics`.
//!
//! A board may be that of another version: what is not known is passed over, what is missing has its default.

use engine::RelayOnHost;
use serde::{Deserialize, Serialize};

/// State of a relay.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayState {
    /// `near` if it reads its bus and dials, `far` if it listens and publishes.
    pub role: String,
    /// Its station.
    pub station: String,
    /// Handshakes and datagrams of others than listed peers, which got no answer.
    pub turned_away: u64,
    /// Its links.
    pub links: Vec<RelayLink>,
    /// Work on holes of archives, where there is an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backfill: Option<RelayBackfill>,
}

/// State of a link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayLink {
    /// Address of the other relay.
    pub peer: String,
    /// Station of the other relay, once it is known.
    pub station: Option<String>,
    /// Whether there is a connection whose peer answers.
    pub is_up: bool,
    /// Smoothed round trip, once it is measured. Units: nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Packets sent again; at a far end those that came more than once.
    pub repaired_packets: u64,
    /// Packets sent for the first time; at a far end those received.
    pub sent_packets: u64,
    /// Messages and records that were not as they must be, and were ignored.
    pub ignored: u64,
    /// Bytes of samples that wait at this end: to be sent, or behind holes. Both are bounded by the deadline.
    pub waiting_bytes: u64,
    /// Its streams.
    pub streams: Vec<RelayStream>,
}

/// State of a stream on a link. Units: elements.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayStream {
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
    /// Deadline from end to end. Units: nanoseconds.
    pub deadline_ns: Option<u64>,
    /// Precedence where not all streams fit: the higher goes first.
    pub priority: u8,
    /// Elements given up by this end, by cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<(String, u64)>,
    /// Ages in the second before the state; none where nothing was sent or published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<RelayAge>,
    /// Reason why it is not relayed as it should be now; told by the near end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

/// Ages of samples since their publisher had them, by estimate: when a near end sent them, or a far end published them.
/// Units: nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayAge {
    /// Median.
    pub p50_ns: u64,
    /// Not exceeded by 99 of 100 messages.
    pub p99_ns: u64,
    /// The largest.
    pub largest_ns: u64,
}

/// Backfill: holes in the archive of the far end, which are filled from that of the near end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayBackfill {
    /// Samples that a far end fetched and stored, or a near end sent.
    pub samples: u64,
    /// Size of these samples.
    pub bytes: u64,
    /// Requests and answers that were refused.
    pub refused: u64,
    /// Samples that the archive of a far end misses.
    pub missing: u64,
    /// Number of consecutive ranges of them.
    pub ranges: u64,
    /// Samples among them that the archive of the near end lacks, too, in part or wholly.
    pub lacking: u64,
    /// Reasons why holes are not filled now, by stream; without a name for the archive as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<(String, String)>,
}

impl RelayState {
    /// Reads the state of a relay of this host; `None` if it is none.
    #[must_use]
    pub fn read(relay: &RelayOnHost) -> Option<Self> {
        serde_json::from_slice(&relay.state).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(state: &str) -> Option<RelayState> {
        RelayState::read(&RelayOnHost { pid: 7, state: state.as_bytes().to_vec() })
    }

    #[test]
    fn a_state_is_read_from_a_board_as_it_was_shown() {
        let stream = RelayStream {
            name: "lab/a".to_owned(),
            first: 1,
            next: 101,
            delivered: 90,
            missing: 4,
            given_up: 5,
            in_flight: 1,
            deadline_ns: Some(400),
            priority: 3,
            causes: vec![("repair".to_owned(), 5)],
            age: Some(RelayAge { p50_ns: 1, p99_ns: 2, largest_ns: 3 }),
            degraded: Some("too_far".to_owned()),
        };
        let link = RelayLink {
            peer: "10.0.0.1:7400".to_owned(),
            station: Some("far".to_owned()),
            is_up: true,
            round_trip_ns: Some(7),
            repaired_packets: 2,
            sent_packets: 9,
            ignored: 3,
            waiting_bytes: 4_096,
            streams: vec![stream],
        };
        let errors = vec![("lab/a".to_owned(), "no space left on device".to_owned())];
        let backfill =
            RelayBackfill { samples: 1, bytes: 8, refused: 2, missing: 3, ranges: 2, lacking: 1, errors };
        let backfill = Some(backfill);
        let (role, station) = ("near".to_owned(), "home".to_owned());
        let state = RelayState { role, station, turned_away: 2, links: vec![link], backfill };
        for state in [state, RelayState { links: vec![RelayLink::default()], ..RelayState::default() }] {
            assert_eq!(read(&serde_json::to_string(&state).unwrap()), Some(state));
        }
    }

    #[test]
    fn a_state_of_another_version_is_read_as_far_as_it_is_known_and_anything_else_is_none() {
        let state = read(
            r#"{"role":"far","novel":1,"links":[{"peer":"10.0.0.1:7400","round_trip_ns":5,"streams":[
                {"name":"lab/a","causes":[["repair",5]],"age":{"p50_ns":1,"p99_ns":2,"largest_ns":3}}]}]}"#,
        );
        let link = &state.unwrap().links[0];
        assert_eq!((link.round_trip_ns, link.station.as_deref(), link.is_up), (Some(5), None, false));
        let stream = &link.streams[0];
        assert_eq!((stream.causes[0].clone(), stream.given_up), (("repair".to_owned(), 5), 0));
        assert_eq!(stream.age, Some(RelayAge { p50_ns: 1, p99_ns: 2, largest_ns: 3 }));
        for no_state in ["", "[]x", r#"{"role":5}"#, r#"{"links":[{"streams":{}}]}"#] {
            assert_eq!(read(no_state), None, "{no_state}");
        }
    }
}
