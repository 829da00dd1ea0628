//! Events of runs, and their bytes: one sample each.

use minicbor::{Decode, Encode};
use units::WallTime;

use crate::labels::check_labels;
use crate::{LabelError, Labels, RunId};

/// Size of an event in a sample: it fits into one datagram.
pub const EVENT_BYTES: usize = 1_024;

/// Longest names of hosts and principals in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// The run starts.
    Start,
    /// The run stops.
    Stop,
}

/// A run started or stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Random number that tells events apart: the same event may come several times.
    pub number: u64,
    /// The run.
    pub id: RunId,
    /// What happened.
    pub what: What,
    /// When, by the clock of the host where it was said.
    pub time: WallTime,
    /// Station where it was said.
    pub host: String,
    /// Principal who said it, as the host names it.
    pub by: String,
    /// Labels of the run; of a stop those of the start that it belongs to, as far as they are known there.
    pub labels: Labels,
    /// Of a stop: time of the start that it belongs to; `None` if that is not known there.
    pub started: Option<WallTime>,
}

/// Error in an event or in its bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The labels need too much room.
    #[error("the event has {0} bytes; at most {EVENT_BYTES} fit into a sample\nuse fewer or shorter labels")]
    TooLong(usize),
    /// An invalid label.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The bytes are no event.
    #[error("the sample is no event of a run: {0}")]
    Malformed(&'static str),
}

/// An event as it is encoded: a CBOR map (RFC 8949 §3.1); a reader skips keys that it does not know.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Encoded {
    #[n(0)]
    number: u64,
    #[n(1)]
    id: String,
    #[n(2)]
    what: u8,
    #[n(3)]
    time_ns: i64,
    #[n(4)]
    host: String,
    #[n(5)]
    by: String,
    #[n(6)]
    labels: Labels,
    #[n(7)]
    started_ns: Option<i64>,
}

impl Event {
    /// Returns the event as a sample: a CBOR map, then zeros up to [`EVENT_BYTES`].
    ///
    /// # Errors
    /// [`EventError::TooLong`] if the labels need too much room; [`EventError::Label`] for invalid ones.
    pub fn to_bytes(&self) -> Result<[u8; EVENT_BYTES], EventError> {
        check_labels(&self.labels)?;
        let cut = |name: &str| name.chars().filter(|it| !it.is_control()).take(MAX_NAME_BYTES / 4).collect();
        let encoded = Encoded {
            number: self.number,
            id: self.id.as_str().to_owned(),
            what: match self.what {
                What::Start => 1,
                What::Stop => 2,
            },
            time_ns: self.time.as_nanos(),
            host: cut(&self.host),
            by: cut(&self.by),
            labels: self.labels.clone(),
            started_ns: self.started.map(WallTime::as_nanos),
        };
        let bytes = minicbor::to_vec(&encoded).expect("a vector takes every byte");
        let mut sample = [0; EVENT_BYTES];
        let room = sample.get_mut(..bytes.len()).ok_or(EventError::TooLong(bytes.len()))?;
        room.copy_from_slice(&bytes);
        Ok(sample)
    }

    /// Returns the event of a sample.
    ///
    /// # Errors
    /// [`EventError`] if the bytes are not those of an event.
    pub fn from_bytes(sample: &[u8]) -> Result<Self, EventError> {
        if sample.len() != EVENT_BYTES {
            return Err(EventError::Malformed("its size is another"));
        }
        let mut decoder = minicbor::Decoder::new(sample);
        let read: Result<Encoded, _> = decoder.decode();
        let encoded = read.map_err(|_| EventError::Malformed("it is not the map of CBOR that events are"))?;
        if sample[decoder.position()..].iter().any(|byte| *byte != 0) {
            return Err(EventError::Malformed("bytes other than zero follow"));
        }
        check_labels(&encoded.labels)?;
        let names = [&encoded.host, &encoded.by];
        if names.iter().any(|name| name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control)) {
            return Err(EventError::Malformed("host and principal are not names"));
        }
        Ok(Self {
            number: encoded.number,
            id: encoded.id.parse().map_err(|_| EventError::Malformed("its id is not one word"))?,
            what: match encoded.what {
                1 => What::Start,
                2 => What::Stop,
                _ => return Err(EventError::Malformed("it is neither start nor stop")),
            },
            time: WallTime::from_nanos(encoded.time_ns),
            host: encoded.host,
            by: encoded.by,
            labels: encoded.labels,
            started: encoded.started_ns.map(WallTime::from_nanos),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(labels: Labels, started: Option<i64>) -> Event {
        Event {
            number: u64::MAX,
            id: "shot-17".parse().unwrap(),
            what: if started.is_some() { What::Stop } else { What::Start },
            time: WallTime::from_nanos(1_795_292_100_500_000_001),
            host: "daq-3".to_owned(),
            by: "ada".to_owned(),
            labels,
            started: started.map(WallTime::from_nanos),
        }
    }

    proptest! {
        #[test]
        fn an_event_is_read_as_it_was_written(
            labels in proptest::collection::btree_map("[a-z]{1,8}", "[ -~]{0,16}", 0..20),
            started in proptest::option::of(any::<i64>()),
        ) {
            let event = event(labels, started);
            prop_assert_eq!(Event::from_bytes(&event.to_bytes().unwrap()), Ok(event));
        }

        #[test]
        fn no_bytes_of_a_stranger_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            bytes.resize(EVENT_BYTES, 0);
            let _ = Event::from_bytes(&bytes);
        }
    }

    #[test]
    fn a_part_of_an_event_and_a_longer_one_are_refused() {
        let bytes = event(Labels::from([("a".to_owned(), "b".to_owned())]), Some(7)).to_bytes().unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for cut in 0..=end {
            let mut part = bytes;
            part[cut..].fill(0);
            assert_ne!(Event::from_bytes(&part), Event::from_bytes(&bytes), "{cut}");
        }
        let mut longer = bytes;
        longer[EVENT_BYTES - 1] = 1;
        assert_eq!(Event::from_bytes(&longer), Err(EventError::Malformed("bytes other than zero follow")));
        assert!(Event::from_bytes(&bytes[1..]).is_err());
    }

    #[test]
    fn labels_that_do_not_fit_are_refused_with_their_size() {
        let labels = |count: usize| (0..count).map(|it| (format!("k{it}"), "v".repeat(256))).collect();
        assert!(event(labels(3), None).to_bytes().is_ok());
        assert!(
            matches!(event(labels(4), None).to_bytes(), Err(EventError::TooLong(size)) if size > EVENT_BYTES)
        );
    }

    #[test]
    fn the_names_of_a_host_and_a_principal_are_cut_to_their_room() {
        let long = Event { host: "ü".repeat(200), ..event(Labels::new(), None) };
        assert_eq!(Event::from_bytes(&long.to_bytes().unwrap()).unwrap().host, "ü".repeat(32));
    }
}
