//! Who reports to this publisher, and how often each may.
//!
//! Source: RFC 3550 §6.2–6.3: all reports together keep within a share of the stream's bandwidth, so the
//! interval grows with the number of readers. Readers do not hear each other here; the tallies tell them
//! the count and the interval.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use units::{Instant, ReaderId};
use wire::Report;

use super::patience::Patience;

/// The reports' share of the stream's bandwidth (RFC 3550 §6.2).
const BUDGET_SHARE: f64 = 0.05;
/// What the interval aims at. Reports come at random, and from readers not counted yet: so that the budget
/// holds in every window and not only on average, the aim is below it (`tests/scenes/crowd.rs`).
const AIM: f64 = 0.75;
/// The least budget, for slow streams. Units: bit/s.
const MIN_BUDGET_BITS_PER_SECOND: f64 = 8_000.0;
/// No reader reports more often than this, however large the budget.
pub(crate) const MIN_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// However many readers there are, or pretend to be, each may report so often. The budget holds up to a thousand
/// readers of the slowest stream; a flood of made-up ones does not silence the real ones for longer.
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(600);
/// The most readers whose reports are kept; a table of 64 Ki reports takes some 50 MB.
const MAX_READERS: usize = 65_536;
/// The size a report is taken to have until the first has come. Units: bytes, with IP and UDP headers.
const TYPICAL_REPORT_BYTES: f64 = 400.0;
/// What IPv4 and UDP add to a report. Units: bytes.
const HEADERS_BYTES: f64 = 28.0;

/// A reader's last report and when it came.
#[derive(Clone, PartialEq, Debug)]
pub struct ReaderReport {
    /// What it said.
    pub report: Report,
    /// When it came.
    pub heard: Instant,
}

/// The table of readers.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    budget_bits_per_second: f64,
    mean_report_bytes: f64,
    table: BTreeMap<ReaderId, ReaderReport>,
    /// The readers in the table, the longest silent first.
    by_silence: BTreeSet<(Instant, ReaderId)>,
    /// How many readers have a receive buffer of a size, for the sizes that were told.
    buffers: BTreeMap<u32, u32>,
    patience: Patience,
    next_sweep: Instant,
}

impl Readers {
    pub(super) fn new(stream_bytes_per_second: f64, now: Instant) -> Self {
        Self {
            budget_bits_per_second: (stream_bytes_per_second * 8.0 * BUDGET_SHARE)
                .max(MIN_BUDGET_BITS_PER_SECOND),
            mean_report_bytes: TYPICAL_REPORT_BYTES,
            table: BTreeMap::new(),
            by_silence: BTreeSet::new(),
            buffers: BTreeMap::new(),
            patience: Patience::new(MIN_REPORT_INTERVAL),
            next_sweep: now,
        }
    }

    /// Takes a report in; tells whether the reader is new.
    ///
    /// Reports are cumulative and the last wins; beyond [`MAX_READERS`] a new reader takes the place of the one
    /// that has been silent for longest.
    pub(super) fn heard(&mut self, now: Instant, report: &Report, size_bytes: usize) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a datagram's size is small")]
        let size = size_bytes as f64 + HEADERS_BYTES;
        self.mean_report_bytes += (size - self.mean_report_bytes) / 16.0;
        let is_new = !self.forget(report.reader);
        if self.table.len() == MAX_READERS
            && let Some((_, silent)) = self.by_silence.first().copied()
        {
            self.forget(silent);
        }
        self.by_silence.insert((now, report.reader));
        if report.receive_buffer_bytes > 0 {
            *self.buffers.entry(report.receive_buffer_bytes).or_default() += 1;
        }
        self.table.insert(report.reader, ReaderReport { report: report.clone(), heard: now });
        self.patience.follow(now, self.report_interval());
        is_new
    }

    /// Takes a reader out of the table; tells whether it was there.
    fn forget(&mut self, reader: ReaderId) -> bool {
        let Some(ReaderReport { report, heard }) = self.table.remove(&reader) else { return false };
        self.by_silence.remove(&(heard, reader));
        if let Some(count) = self.buffers.get_mut(&report.receive_buffer_bytes) {
            *count -= 1;
            if *count == 0 {
                self.buffers.remove(&report.receive_buffer_bytes);
            }
        }
        true
    }

    /// Returns the smallest receive buffer of those that readers told.
    pub(super) fn smallest_buffer(&self) -> Option<u32> {
        self.buffers.first_key_value().map(|(bytes, _)| *bytes)
    }

    /// Tells whether a reader has reported on this life.
    pub(super) fn knows(&self, reader: ReaderId) -> bool {
        self.table.contains_key(&reader)
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.table.len()).expect("the table is bounded")
    }

    /// Returns the interval that keeps all readers' reports within the budget.
    pub(super) fn report_interval(&self) -> Duration {
        let readers = f64::from(self.count().max(1));
        let seconds = readers * self.mean_report_bytes * 8.0 / (AIM * self.budget_bits_per_second);
        Duration::from_secs_f64(seconds).clamp(MIN_REPORT_INTERVAL, MAX_REPORT_INTERVAL)
    }

    /// Forgets readers that have been silent for too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        let silent = |heard: Instant| now.since(heard);
        let long_silent =
            self.by_silence.iter().take_while(|(heard, _)| silent(*heard) >= self.patience.least());
        let gone = long_silent.filter(|(heard, _)| silent(*heard) >= self.patience.with_reader_heard(*heard));
        for reader in gone.map(|(_, reader)| *reader).collect::<Vec<_>>() {
            self.forget(reader);
        }
        self.patience.follow(now, self.report_interval());
        self.next_sweep = now + MIN_REPORT_INTERVAL;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ReaderReport> {
        self.table.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{AccountState, NetworkRows, ReaderRows};
    use units::{Epoch, StreamId};

    fn report(reader: u64, receive_buffer_bytes: u32) -> Report {
        Report {
            stream: StreamId(1),
            epoch: Epoch { start_ns: 1, life: 1 },
            reader: ReaderId(reader),
            name: String::new(),
            state: AccountState::Open,
            age: Duration::ZERO,
            receive_buffer_bytes,
            datagrams: NetworkRows::default(),
            elements: ReaderRows::default(),
            waiting: None,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_full_table_forgets_the_longest_silent_for_a_new_reader() {
        let mut readers = Readers::new(1_000.0, at(0));
        for reader in 0..MAX_READERS as u64 {
            assert!(readers.heard(Instant::from_nanos(reader), &report(reader, 0), 200));
        }
        assert!(!readers.heard(at(1), &report(0, 0), 200), "it has spoken again");
        assert!(readers.heard(at(2), &report(u64::MAX, 0), 200), "a new one is taken");
        assert_eq!(readers.count() as usize, MAX_READERS);
        assert!(readers.knows(ReaderId(0)) && readers.knows(ReaderId(u64::MAX)));
        assert!(!readers.knows(ReaderId(1)), "the longest silent has gone");
    }

    #[test]
    fn a_flood_of_readers_does_not_silence_the_others_for_hours() {
        let mut readers = Readers::new(1_000.0, at(0));
        for reader in 0..MAX_READERS as u64 {
            readers.heard(at(1), &report(reader, 0), 200);
        }
        assert_eq!(readers.report_interval(), Duration::from_secs(600));
        readers.sweep(at(1) + Duration::from_secs(3_000));
        assert_eq!((readers.count(), readers.report_interval()), (0, MIN_REPORT_INTERVAL));
    }

    #[test]
    fn a_reader_that_waits_as_a_crowd_did_is_not_forgotten_with_the_crowd() {
        let mut readers = Readers::new(1_000.0, at(0));
        // As large as reports are taken to be, so that the interval depends on the readers alone.
        let size_bytes = 372;
        for reader in 0..40 {
            readers.heard(at(0), &report(reader, 0), size_bytes);
        }
        let interval = readers.report_interval();
        assert_eq!(interval.as_secs(), 21);
        readers.heard(at(80), &report(7, 0), size_bytes);
        (1..=107).for_each(|seconds| readers.sweep(at(seconds)));
        assert_eq!((readers.count(), readers.report_interval()), (1, MIN_REPORT_INTERVAL));
        (108..=186).for_each(|seconds| readers.sweep(at(seconds)));
        assert!(readers.knows(ReaderId(7)), "five of the intervals that it waits by are not over");
        readers.sweep(at(187));
        assert_eq!(readers.count(), 0);
    }

    #[test]
    fn who_was_heard_when_the_crowd_had_gone_is_missed_soon() {
        let mut readers = Readers::new(1_000.0, at(0));
        for reader in 0..40 {
            readers.heard(at(0), &report(reader, 0), 372);
        }
        readers.heard(at(80), &report(7, 0), 372);
        readers.sweep(at(107));
        readers.heard(at(110), &report(8, 0), 372);
        readers.sweep(at(114));
        assert!(readers.knows(ReaderId(8)));
        readers.sweep(at(116));
        assert!(!readers.knows(ReaderId(8)), "although one that was silent before it is waited for");
        assert!(readers.knows(ReaderId(7)));
    }

    #[test]
    fn the_smallest_buffer_is_that_of_a_reader_that_is_still_there() {
        let mut readers = Readers::new(1e6, at(0));
        assert_eq!(readers.smallest_buffer(), None);
        readers.heard(at(0), &report(1, 0), 200);
        assert_eq!(readers.smallest_buffer(), None, "one that does not know its own");
        readers.heard(at(0), &report(2, 65_536), 200);
        readers.heard(at(3), &report(3, 425_984), 200);
        readers.heard(at(3), &report(1, 425_984), 200);
        assert_eq!(readers.smallest_buffer(), Some(65_536));
        readers.sweep(at(6));
        assert_eq!(readers.smallest_buffer(), Some(425_984));
        readers.heard(at(7), &report(1, 300_000), 200);
        assert_eq!(readers.smallest_buffer(), Some(300_000), "the last word counts");
    }
}
