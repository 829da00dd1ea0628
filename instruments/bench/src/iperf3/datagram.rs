//! Datagrams of a test over UDP: their header, and the tracking of sequence numbers.
//!
//! ```text
//!  0        4        8              12 or 16
//!  | seconds | micros | number (u32 or u64) | payload: anything
//! ```
//!
//! All big-endian. Seconds and microseconds are of the sender's own clock, good for differences only. Numbers
//! begin with 1. Source: observed between two programs of iperf 3.12.

use std::time::Duration;

use probe::flow::{Jitter, Seen, SeenNumbers};
use units::Instant;

use super::results::MOST;

/// Datagram by which a client opens a stream, in its own byte order: the number 0x36373839.
pub(super) const HELLO: [u8; 4] = 0x3637_3839_u32.to_ne_bytes();
/// Answer of a server: 0x39383736.
pub(super) const ANSWER: [u8; 4] = 0x3938_3736_u32.to_ne_bytes();
/// Answer of servers older than 3.10: 987654321.
pub(super) const OLD_ANSWER: [u8; 4] = 987_654_321_u32.to_ne_bytes();

/// Maximum distance of a number above the highest so far; one beyond it is damaged or forged, and would count
/// datagrams as missing that were never sent. Ten minutes of the smallest datagrams at 100 Gbit/s are fewer.
const MOST_AHEAD: u64 = 1 << 36;

/// The header of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// Sending time, by the sender's clock.
    pub(super) sent: Instant,
    /// Number in the header: the lower 32 bits, if the header has no more.
    pub(super) number: u64,
}

impl Header {
    /// Writes the header at the beginning of a datagram, which has room for it.
    pub(super) fn write(self, wide: bool, datagram: &mut [u8]) {
        let sent = self.sent.since(Instant::ORIGIN);
        #[expect(clippy::cast_possible_truncation, reason = "seconds wrap, as they do in iperf3")]
        let seconds = sent.as_secs() as u32;
        datagram[..4].copy_from_slice(&seconds.to_be_bytes());
        datagram[4..8].copy_from_slice(&sent.subsec_micros().to_be_bytes());
        let number = self.number.to_be_bytes();
        if wide {
            datagram[8..16].copy_from_slice(&number);
        } else {
            datagram[8..12].copy_from_slice(&number[4..]);
        }
    }

    /// Reads the header; `None` if the datagram is too short.
    pub(super) fn parse(wide: bool, datagram: &[u8]) -> Option<Self> {
        let (seconds, rest) = datagram.split_first_chunk::<4>()?;
        let (micros, rest) = rest.split_first_chunk::<4>()?;
        let number = if wide {
            u64::from_be_bytes(*rest.first_chunk()?)
        } else {
            u64::from(u32::from_be_bytes(*rest.first_chunk()?))
        };
        let sent = Duration::from_secs(u64::from(u32::from_be_bytes(*seconds)))
            + Duration::from_micros(u64::from(u32::from_be_bytes(*micros)));
        Some(Self { sent: Instant::ORIGIN + sent, number })
    }
}

/// Relation of a datagram's number to those seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrived {
    /// Above all before it.
    New,
    /// Below one before it, and not seen yet.
    OutOfOrder,
    /// Seen already, or too old to decide.
    Duplicate,
}

/// Record of the numbers that arrived, and of those missing below the highest.
#[derive(Debug, Default)]
pub(super) struct SequenceTracker {
    /// The highest number seen.
    pub(super) highest: u64,
    /// Count of numbers that arrived.
    pub(super) received: u64,
    /// Count of numbers missing below the highest. Counted independently: `highest = received + missing` is a
    /// check.
    pub(super) missing: u64,
    pub(super) out_of_order: u64,
    pub(super) duplicates: u64,
    seen: SeenNumbers,
    jitter: Jitter,
}

impl SequenceTracker {
    /// Counts a datagram that arrived at `now`; `None` if no datagram of this test can have its number.
    pub(super) fn record(&mut self, wide: bool, header: Header, now: Instant) -> Option<Arrived> {
        let number = if wide { header.number } else { self.widened(header.number) };
        let arrived = self.is_believed(number).then(|| self.classify(number))?;
        if arrived == Arrived::Duplicate {
            self.duplicates += 1;
        } else {
            self.received += 1;
            self.jitter.take(now, header.sent);
        }
        Some(arrived)
    }

    /// Returns the smoothed difference of transit times. Units: seconds.
    pub(super) fn jitter_s(&self) -> f64 {
        self.jitter.nanos().unwrap_or(0.0) / 1e9
    }

    /// Returns whether a number is plausible. Numbers begin with 1, do not leap, and stay below the limit of a
    /// peer's results too, so that sums over all streams fit.
    fn is_believed(&self, number: u64) -> bool {
        (1..=MOST.min(self.highest + MOST_AHEAD)).contains(&number)
    }

    fn classify(&mut self, number: u64) -> Arrived {
        if self.seen.mark(number) != Seen::First {
            return Arrived::Duplicate;
        }
        if number > self.highest {
            self.missing += number - self.highest - 1;
            self.highest = number;
            return Arrived::New;
        }
        self.missing -= 1;
        self.out_of_order += 1;
        Arrived::OutOfOrder
    }

    /// Returns the number nearest to the highest that has these lower 32 bits: iperf3's counters wrap in long tests.
    fn widened(&self, low: u64) -> u64 {
        const TURN: u64 = 1 << 32;
        let near = (self.highest & !(TURN - 1)) | low;
        let candidates = [near.checked_sub(TURN), Some(near), near.checked_add(TURN)];
        let distance = |number: &u64| number.abs_diff(self.highest);
        candidates.into_iter().flatten().min_by_key(distance).unwrap_or(near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::flow::WINDOW_NUMBERS;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: Instant = Instant::ORIGIN;

    fn header(number: u64) -> Header {
        Header { sent: NOW, number }
    }

    /// The beginning of a datagram of iperf 3.12, with 32 bits and with 64.
    const OBSERVED: [u8; 16] = [0, 0, 0xe9, 0xa3, 0, 0x0d, 0x10, 0x94, 0, 0, 0, 1, 0xaa, 0xc8, 0x14, 0x39];
    const OBSERVED_WIDE: [u8; 16] = [0, 0, 0xe9, 0xa6, 0, 5, 0x4f, 0xae, 0, 0, 0, 0, 0, 0, 0, 1];

    #[test]
    fn headers_are_read_as_observed() {
        let sent = NOW + Duration::from_secs(59_811) + Duration::from_micros(0xd1094);
        assert_eq!(Header::parse(false, &OBSERVED), Some(Header { sent, number: 1 }));
        assert_eq!(Header::parse(true, &OBSERVED_WIDE).map(|it| it.number), Some(1));
        assert_eq!(HELLO.map(u32::from).iter().sum::<u32>(), 0x36 + 0x37 + 0x38 + 0x39);
        for len in 0..12 {
            assert_eq!(Header::parse(false, &OBSERVED[..len]), None, "{len}");
        }
        assert_eq!(Header::parse(true, &OBSERVED_WIDE[..15]), None);
    }

    #[test]
    fn counters_of_32_bits_may_wrap() {
        let mut tracker = SequenceTracker::default();
        let top = u64::from(u32::MAX);
        // Without the numbers before, all of which are missing.
        tracker.record(false, header(top / 2), NOW);
        assert_eq!(tracker.record(false, header(0), NOW), None, "no datagram has the number 0");
        for low in [top - 1, top, 0, 1, 2] {
            assert_eq!(tracker.record(false, header(low), NOW), Some(Arrived::New), "{low}");
        }
        assert_eq!(tracker.highest, top + 3);
        assert_eq!(tracker.record(false, header(top), NOW), Some(Arrived::Duplicate));
        assert_eq!(tracker.highest, tracker.received + tracker.missing);
    }

    #[test]
    fn an_absurd_number_changes_nothing() {
        let mut tracker = SequenceTracker::default();
        for absurd in [0, MOST_AHEAD + 1, u64::MAX] {
            assert_eq!(tracker.record(true, header(absurd), NOW), None, "{absurd}");
        }
        assert_eq!((tracker.highest, tracker.received, tracker.missing), (0, 0, 0));
        assert_eq!(tracker.record(true, header(MOST_AHEAD), NOW), Some(Arrived::New));
        assert_eq!((tracker.received, tracker.missing), (1, MOST_AHEAD - 1));
    }

    #[test]
    fn many_leaps_end_at_the_largest_number_that_is_believed() {
        let mut tracker = SequenceTracker::default();
        for leap in 1..=MOST / MOST_AHEAD {
            assert_eq!(tracker.record(true, header(leap * MOST_AHEAD), NOW), Some(Arrived::New), "{leap}");
        }
        assert_eq!((tracker.highest, tracker.record(true, header(MOST + 1), NOW)), (MOST, None));
        assert_eq!(tracker.highest, tracker.received + tracker.missing);
    }

    #[test]
    fn what_comes_too_late_to_tell_is_a_duplicate() {
        for (number, seen) in [(64, Arrived::OutOfOrder), (63, Arrived::Duplicate)] {
            let mut tracker = SequenceTracker::default();
            tracker.record(true, header(WINDOW_NUMBERS), NOW);
            assert_eq!(tracker.record(true, header(number), NOW), Some(seen), "{number}");
        }
    }

    #[test]
    fn jitter_of_an_even_stream_is_zero_and_grows_by_a_sixteenth() {
        let mut tracker = SequenceTracker::default();
        let moment = |millis: u64| NOW + Duration::from_millis(millis);
        for (number, sent, came, jitter_s) in [(1, 0, 7, 0.0), (2, 10, 17, 0.0), (3, 20, 43, 0.001)] {
            tracker.record(true, Header { sent: moment(sent), number }, moment(came));
            assert!((tracker.jitter_s() - jitter_s).abs() < 1e-12, "{tracker:?}");
        }
    }

    proptest! {
        #[test]
        fn the_tracker_agrees_with_a_set(numbers in prop::collection::vec(1..200_u64, 0..400), wide in any::<bool>()) {
            let (mut tracker, mut set) = (SequenceTracker::default(), BTreeSet::new());
            for number in &numbers {
                let before = set.last().copied().unwrap_or(0);
                let expected = match (set.insert(*number), *number > before) {
                    (true, true) => Arrived::New,
                    (true, false) => Arrived::OutOfOrder,
                    (false, _) => Arrived::Duplicate,
                };
                prop_assert_eq!(tracker.record(wide, header(*number), NOW), Some(expected));
                prop_assert_eq!(tracker.highest, tracker.received + tracker.missing);
            }
            prop_assert_eq!(tracker.received, set.len() as u64);
            prop_assert_eq!(tracker.received + tracker.duplicates, numbers.len() as u64);
        }

        #[test]
        fn a_header_is_read_as_written(seconds in any::<u32>(), micros in 0..1_000_000_u64, number in 1..=u32::MAX, wide in any::<bool>()) {
            let sent = NOW + Duration::from_secs(u64::from(seconds)) + Duration::from_micros(micros);
            let header = Header { sent, number: u64::from(number) };
            let mut datagram = [0; 16];
            header.write(wide, &mut datagram);
            prop_assert_eq!(Header::parse(wide, &datagram), Some(header));
        }

        #[test]
        fn no_datagram_is_a_panic(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..50), wide in any::<bool>()) {
            let mut tracker = SequenceTracker::default();
            for header in datagrams.iter().filter_map(|it| Header::parse(wide, it)) {
                tracker.record(wide, header, NOW);
                prop_assert_eq!(tracker.highest, tracker.received + tracker.missing);
            }
        }
    }
}
