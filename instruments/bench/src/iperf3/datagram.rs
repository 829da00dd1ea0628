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

use units::Instant;

use super::results::MOST;

/// Datagram by which a client opens a stream, in its own byte order: the number 0x36373839.
pub(super) const HELLO: [u8; 4] = 0x3637_3839_u32.to_ne_bytes();
/// Answer of a server: 0x39383736.
pub(super) const ANSWER: [u8; 4] = 0x3938_3736_u32.to_ne_bytes();
/// Answer of servers older than 3.10: 987654321.
pub(super) const OLD_ANSWER: [u8; 4] = 987_654_321_u32.to_ne_bytes();

/// Number of newest sequence numbers that are remembered individually; an older one cannot be told from a
/// duplicate, and counts as one. A link of 10 Gbit/s carries as many large datagrams in 80 ms.
const WINDOW: u64 = 65_536;

/// Maximum distance of a number above the highest so far; one beyond it is damaged or forged, and would count
/// datagrams as missing that were never sent. Ten minutes of the smallest datagrams at 100 Gbit/s are fewer.
const MOST_AHEAD: u64 = 1 << 36;

/// The header of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// Sending time, by the sender's clock.
    pub(super) sent: Duration,
    /// Number in the header: the lower 32 bits, if the header has no more.
    pub(super) number: u64,
}

impl Header {
    /// Writes the header at the beginning of a datagram, which has room for it.
    pub(super) fn write(self, wide: bool, datagram: &mut [u8]) {
        #[expect(clippy::cast_possible_truncation, reason = "seconds wrap, as they do in iperf3")]
        let seconds = self.sent.as_secs() as u32;
        datagram[..4].copy_from_slice(&seconds.to_be_bytes());
        datagram[4..8].copy_from_slice(&self.sent.subsec_micros().to_be_bytes());
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
        Some(Self { sent, number })
    }
}

/// Relation of a datagram's number to those seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// Higher than all before it.
    New,
    /// Lower than one before it, and not seen yet.
    OutOfOrder,
    /// Seen already, or too old to decide.
    Duplicate,
}

/// Record of the numbers that arrived, and of those missing below the highest.
#[derive(Debug)]
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
    /// One bit for each of the newest numbers: bit `n % WINDOW` is set if `n` arrived.
    came: Box<[u64]>,
    jitter: Jitter,
}

impl SequenceTracker {
    pub(super) fn new() -> Self {
        let came = vec![0; usize::try_from(WINDOW / 64).expect("a small number")].into_boxed_slice();
        Self {
            highest: 0,
            received: 0,
            missing: 0,
            out_of_order: 0,
            duplicates: 0,
            came,
            jitter: Jitter::default(),
        }
    }

    /// Counts a datagram that arrived at `now`; `None` if no datagram of this test can have its number.
    pub(super) fn record(&mut self, wide: bool, header: Header, now: Instant) -> Option<Seen> {
        let number = if wide { header.number } else { self.widened(header.number) };
        let seen = self.is_believed(number).then(|| self.classify(number))?;
        if seen != Seen::Duplicate {
            self.received += 1;
            self.jitter.record(header.sent, now);
        }
        Some(seen)
    }

    /// Returns the smoothed difference of transit times. Units: seconds.
    pub(super) const fn jitter_s(&self) -> f64 {
        self.jitter.smoothed_s
    }

    /// Returns whether a number is plausible. Numbers begin with 1, do not leap, and stay below the limit of a
    /// peer's results too, so that sums over all streams fit.
    fn is_believed(&self, number: u64) -> bool {
        (1..=MOST.min(self.highest + MOST_AHEAD)).contains(&number)
    }

    fn classify(&mut self, number: u64) -> Seen {
        if number > self.highest {
            self.advance(number);
            return Seen::New;
        }
        if self.highest - number >= WINDOW || self.has(number) {
            self.duplicates += 1;
            return Seen::Duplicate;
        }
        self.mark(number);
        self.missing -= 1;
        self.out_of_order += 1;
        Seen::OutOfOrder
    }

    fn advance(&mut self, number: u64) {
        let skipped = number - self.highest - 1;
        if skipped >= WINDOW {
            self.came.fill(0);
        } else {
            (self.highest + 1..number).for_each(|number| self.forget(number));
        }
        self.missing += skipped;
        self.highest = number;
        self.mark(number);
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.came[word] & bit != 0
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.came[word] |= bit;
    }

    fn forget(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.came[word] &= !bit;
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

fn place(number: u64) -> (usize, u64) {
    let position = number % WINDOW;
    (usize::try_from(position / 64).expect("below the window"), 1 << (position % 64))
}

/// Jitter between arrivals, smoothed. Source: RFC 3550, section 6.4.1 and appendix A.8.
#[derive(Debug, Default)]
struct Jitter {
    transit_s: Option<f64>,
    smoothed_s: f64,
}

impl Jitter {
    fn record(&mut self, sent: Duration, now: Instant) {
        let transit = now.since(Instant::ORIGIN).as_secs_f64() - sent.as_secs_f64();
        if let Some(before) = self.transit_s.replace(transit) {
            self.smoothed_s += ((transit - before).abs() - self.smoothed_s) / 16.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: Instant = Instant::ORIGIN;

    fn header(number: u64) -> Header {
        Header { sent: Duration::ZERO, number }
    }

    /// The beginning of a datagram of iperf 3.12, with 32 bits and with 64.
    const OBSERVED: [u8; 16] = [0, 0, 0xe9, 0xa3, 0, 0x0d, 0x10, 0x94, 0, 0, 0, 1, 0xaa, 0xc8, 0x14, 0x39];
    const OBSERVED_WIDE: [u8; 16] = [0, 0, 0xe9, 0xa6, 0, 5, 0x4f, 0xae, 0, 0, 0, 0, 0, 0, 0, 1];

    #[test]
    fn headers_are_read_as_observed() {
        let sent = Duration::from_secs(59_811) + Duration::from_micros(0xd1094);
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
        let mut tracker = SequenceTracker::new();
        let top = u64::from(u32::MAX);
        // Without the numbers before, all of which are missing.
        tracker.record(false, header(top / 2), NOW);
        assert_eq!(tracker.record(false, header(0), NOW), None, "no datagram has the number 0");
        for low in [top - 1, top, 0, 1, 2] {
            assert_eq!(tracker.record(false, header(low), NOW), Some(Seen::New), "{low}");
        }
        assert_eq!(tracker.highest, top + 3);
        assert_eq!(tracker.record(false, header(top), NOW), Some(Seen::Duplicate));
        assert_eq!(tracker.highest, tracker.received + tracker.missing);
    }

    #[test]
    fn an_absurd_number_changes_nothing() {
        let mut tracker = SequenceTracker::new();
        for absurd in [0, MOST_AHEAD + 1, u64::MAX] {
            assert_eq!(tracker.record(true, header(absurd), NOW), None, "{absurd}");
        }
        assert_eq!((tracker.highest, tracker.received, tracker.missing), (0, 0, 0));
        assert_eq!(tracker.record(true, header(MOST_AHEAD), NOW), Some(Seen::New));
        assert_eq!((tracker.received, tracker.missing), (1, MOST_AHEAD - 1));
    }

    #[test]
    fn many_leaps_end_at_the_largest_number_that_is_believed() {
        let mut tracker = SequenceTracker::new();
        for leap in 1..=MOST / MOST_AHEAD {
            assert_eq!(tracker.record(true, header(leap * MOST_AHEAD), NOW), Some(Seen::New), "{leap}");
        }
        assert_eq!((tracker.highest, tracker.record(true, header(MOST + 1), NOW)), (MOST, None));
        assert_eq!(tracker.highest, tracker.received + tracker.missing);
    }

    #[test]
    fn what_comes_too_late_to_tell_is_a_duplicate() {
        for (number, seen) in [(2, Seen::OutOfOrder), (1, Seen::Duplicate)] {
            let mut tracker = SequenceTracker::new();
            tracker.record(true, header(WINDOW + 1), NOW);
            assert_eq!(tracker.record(true, header(number), NOW), Some(seen), "{number}");
        }
    }

    #[test]
    fn jitter_of_an_even_stream_is_zero_and_grows_by_a_sixteenth() {
        let mut jitter = Jitter::default();
        let millis = Duration::from_millis;
        jitter.record(millis(0), NOW + millis(7));
        jitter.record(millis(10), NOW + millis(17));
        assert!(jitter.smoothed_s.abs() < 1e-12);
        jitter.record(millis(20), NOW + millis(43));
        assert!((jitter.smoothed_s - 0.001).abs() < 1e-12, "{jitter:?}");
    }

    proptest! {
        #[test]
        fn the_tracker_agrees_with_a_set(numbers in prop::collection::vec(1..200_u64, 0..400), wide in any::<bool>()) {
            let (mut tracker, mut set) = (SequenceTracker::new(), BTreeSet::new());
            for number in &numbers {
                let before = set.last().copied().unwrap_or(0);
                let expected = match (set.insert(*number), *number > before) {
                    (true, true) => Seen::New,
                    (true, false) => Seen::OutOfOrder,
                    (false, _) => Seen::Duplicate,
                };
                prop_assert_eq!(tracker.record(wide, header(*number), NOW), Some(expected));
                prop_assert_eq!(tracker.highest, tracker.received + tracker.missing);
            }
            prop_assert_eq!(tracker.received, set.len() as u64);
            prop_assert_eq!(tracker.received + tracker.duplicates, numbers.len() as u64);
        }

        #[test]
        fn a_header_is_read_as_written(seconds in any::<u32>(), micros in 0..1_000_000_u64, number in 1..=u32::MAX, wide in any::<bool>()) {
            let sent = Duration::from_secs(u64::from(seconds)) + Duration::from_micros(micros);
            let header = Header { sent, number: u64::from(number) };
            let mut datagram = [0; 16];
            header.write(wide, &mut datagram);
            prop_assert_eq!(Header::parse(wide, &datagram), Some(header));
        }

        #[test]
        fn no_datagram_is_a_panic(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..50), wide in any::<bool>()) {
            let mut tracker = SequenceTracker::new();
            for header in datagrams.iter().filter_map(|it| Header::parse(wide, it)) {
                tracker.record(wide, header, NOW);
                prop_assert_eq!(tracker.highest, tracker.received + tracker.missing);
            }
        }
    }
}
