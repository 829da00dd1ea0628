//! Readers that report to this publisher, and the interval of their reports.
//!
//! Source: RFC 3550 §6.2–6.3: all reports together keep within a share of the stream's bandwidth, so the interval
//! grows with the number of readers. Readers do not receive each other's reports here; tallies give them the count
//! and the interval. The effect of forged readers is bounded by [`sources`](super::sources).

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use units::{Instant, ReaderId};
use wire::Report;

use super::patience::{Patience, SILENT_INTERVALS};
use super::sources::{Slot, Sources};

/// The reports' share of the stream's bandwidth (RFC 3550 §6.2).
const BUDGET_SHARE: f64 = 0.05;
/// Share of the budget that the interval aims at. Reports come at random, and from readers not counted yet: the aim
/// is below the budget so that it holds in every window and not only on average (`tests/scenes/crowd.rs`).
const AIM: f64 = 0.75;
/// Minimum budget, for slow streams. Units: bit/s.
const MIN_BUDGET_BITS_PER_SECOND: f64 = 8_000.0;
/// Minimum interval of one reader's reports, however large the budget.
pub(crate) const MIN_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum interval of one reader's reports, however many readers there are or are forged. The budget holds up to a
/// thousand readers of the slowest stream; a flood of forged readers does not silence the real ones for longer.
pub(crate) const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of readers whose reports are kept; a table of 16 Ki reports takes some 15 MB.
const MAX_READERS: usize = 16_384;
/// Number of further readers expected for each new one of a growing crowd. With four, the next ones of a crowd of the
/// slowest stream report half a minute later (`tests/scenes/crowd.rs`).
const ANTICIPATED_PER_NEW: usize = 3;
/// Assumed size of a report until the first has arrived. Units: bytes, with IP and UDP headers.
const TYPICAL_REPORT_BYTES: f64 = 400.0;
/// Maximum size with which a report counts: the longest name and all stages in datagrams and in elements. Units:
/// bytes, with headers.
const LONGEST_REPORT_BYTES: f64 = 800.0;
/// Size of the IPv4 and UDP headers of a report. Units: bytes.
const HEADERS_BYTES: f64 = 28.0;

/// A reader's latest report and its arrival.
#[derive(Clone, PartialEq, Debug)]
pub struct ReaderReport {
    /// The report.
    pub report: Report,
    /// Time of its arrival.
    pub heard: Instant,
}

/// Counters of the reports that a publisher received. Units: reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ReportStats {
    /// Accepted.
    pub taken: u64,
    /// Of another stream or epoch.
    pub foreign: u64,
    /// Of new readers at an address that has the maximum number of readers, all of them proven.
    pub too_many: u64,
    /// In the name of a reader that continues to report from another address.
    pub borrowed: u64,
    /// Readers that were forgotten before their time, in favour of others. Units: readers.
    pub displaced: u64,
}

/// The table of readers.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    budget_bits_per_second: f64,
    mean_report_bytes: f64,
    table: BTreeMap<ReaderId, Entry>,
    sources: Sources,
    stats: ReportStats,
    /// Number of readers in the last tally.
    told: usize,
    anticipated: Option<Anticipated>,
    /// The readers in the table, the longest silent first.
    by_silence: BTreeSet<(Instant, ReaderId)>,
    /// Number of readers per reported size of receive buffer.
    buffers: BTreeMap<u32, u32>,
    patience: Patience,
    next_sweep: Instant,
}

/// Expected readers of a growing crowd, most of whom have not reported yet.
#[derive(Clone, Copy, Debug)]
struct Anticipated {
    readers: usize,
    until: Instant,
}

/// An entry of the table of readers.
#[derive(Clone, Debug)]
struct Entry {
    last: ReaderReport,
    from: IpAddr,
    /// Time of its first report, and the position in the stream that it had reached then.
    first: (Instant, u64),
    is_proven: bool,
}

/// A report as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub(super) report: &'a Report,
    pub(super) from: IpAddr,
    pub(super) size_bytes: usize,
    /// The next number of the publisher: no reader can have received it or a later one.
    pub(super) next_number: u64,
}

impl Readers {
    pub(super) fn new(stream_bytes_per_second: f64, now: Instant) -> Self {
        Self {
            budget_bits_per_second: (stream_bytes_per_second * 8.0 * BUDGET_SHARE)
                .max(MIN_BUDGET_BITS_PER_SECOND),
            mean_report_bytes: TYPICAL_REPORT_BYTES,
            table: BTreeMap::new(),
            sources: Sources::default(),
            stats: ReportStats::default(),
            told: 0,
            anticipated: None,
            by_silence: BTreeSet::new(),
            buffers: BTreeMap::new(),
            patience: Patience::new(MIN_REPORT_INTERVAL),
            next_sweep: now,
        }
    }

    /// Records a report; returns whether the reader is new.
    ///
    /// Reports are cumulative and the last wins. Beyond [`MAX_READERS`], and beyond what its address may have, a new
    /// reader takes the slot of an unproven one, the longest silent first.
    pub(super) fn heard(&mut self, now: Instant, arrived: Arrived<'_>) -> bool {
        let Arrived { report, from, size_bytes, .. } = arrived;
        let known = self.table.get(&report.reader);
        if known.is_some_and(|known| known.is_proven && known.from != from) {
            self.stats.borrowed += 1;
            return false;
        }
        let is_new = known.is_none();
        let has_moved = known.is_some_and(|known| known.from != from);
        let first = known.map_or((now, report.datagrams.next), |known| known.first);
        let is_proven = known.is_some_and(|known| known.is_proven || known.goes_on(now, &arrived));
        // The new slot is found before the old one is given up: a refused report changes nothing.
        if (is_new || has_moved) && !self.make_room(from, is_new) {
            self.stats.too_many += 1;
            return false;
        }
        self.forget(report.reader);
        self.stats.taken += 1;
        #[expect(clippy::cast_precision_loss, reason = "a datagram's size is small")]
        let size = (size_bytes as f64 + HEADERS_BYTES).min(LONGEST_REPORT_BYTES);
        self.mean_report_bytes += (size - self.mean_report_bytes) / 16.0;
        self.by_silence.insert((now, report.reader));
        self.sources.add(from, now, report.reader, is_proven);
        if report.receive_buffer_bytes > 0 {
            *self.buffers.entry(report.receive_buffer_bytes).or_default() += 1;
        }
        let last = ReaderReport { report: report.clone(), heard: now };
        self.table.insert(report.reader, Entry { last, from, first, is_proven });
        self.patience.follow(now, self.report_interval());
        is_new
    }

    /// Makes room for one more reader at `from`, and in the table if it `is_new` there; returns whether there is a
    /// slot.
    fn make_room(&mut self, from: IpAddr, is_new: bool) -> bool {
        let leaves = match self.sources.slot(from) {
            Slot::None => return false,
            Slot::Of(reader) => Some(reader),
            Slot::Free if !is_new || self.table.len() < MAX_READERS => None,
            Slot::Free => {
                let silent = || self.by_silence.first().map(|(_, reader)| *reader);
                self.sources.longest_silent().or_else(silent)
            }
        };
        if let Some(reader) = leaves {
            self.forget(reader);
            self.stats.displaced += 1;
        }
        true
    }

    /// Removes a reader from the table.
    fn forget(&mut self, reader: ReaderId) {
        let Some(Entry { last, from, is_proven, .. }) = self.table.remove(&reader) else { return };
        let ReaderReport { report, heard } = last;
        self.by_silence.remove(&(heard, reader));
        self.sources.remove(from, heard, reader, is_proven);
        if let Some(count) = self.buffers.get_mut(&report.receive_buffer_bytes) {
            *count -= 1;
            if *count == 0 {
                self.buffers.remove(&report.receive_buffer_bytes);
            }
        }
    }

    /// Records that a tally is being sent, and whether it is early because of new readers.
    ///
    /// Tallies cannot follow every few readers of a crowd: the crowd is assumed to keep growing for as long as
    /// readers are waited for. Few of them therefore report before they learn of each other.
    pub(super) fn told(&mut self, now: Instant, is_crowd: bool) {
        let counted = self.sources.counted();
        let growth = counted.saturating_sub(std::mem::replace(&mut self.told, counted));
        let readers = growth * ANTICIPATED_PER_NEW;
        if is_crowd && self.anticipated.is_none_or(|anticipated| anticipated.readers <= readers) {
            self.anticipated = Some(Anticipated { readers, until: now });
            let until = now + self.report_interval() * SILENT_INTERVALS;
            self.anticipated = Some(Anticipated { readers, until });
            self.patience.follow(now, self.report_interval());
        }
    }

    /// Records a report on another stream or epoch.
    pub(super) const fn foreign(&mut self) {
        self.stats.foreign += 1;
    }

    /// Returns the counters of received reports.
    pub(super) const fn stats(&self) -> ReportStats {
        self.stats
    }

    /// Returns the smallest receive buffer that readers reported.
    pub(super) fn smallest_buffer(&self) -> Option<u32> {
        self.buffers.first_key_value().map(|(bytes, _)| *bytes)
    }

    /// Returns whether a reader has reported on this epoch.
    pub(super) fn knows(&self, reader: ReaderId) -> bool {
        self.table.contains_key(&reader)
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.table.len()).expect("the table is bounded")
    }

    /// Returns the interval that keeps all readers' reports within the budget.
    pub(super) fn report_interval(&self) -> Duration {
        let anticipated = self.anticipated.map_or(0, |anticipated| anticipated.readers);
        #[expect(clippy::cast_precision_loss, reason = "the table is bounded")]
        let readers = (self.sources.counted() + anticipated).max(1) as f64;
        let seconds = readers * self.mean_report_bytes * 8.0 / (AIM * self.budget_bits_per_second);
        Duration::from_secs_f64(seconds).clamp(MIN_REPORT_INTERVAL, MAX_REPORT_INTERVAL)
    }

    /// Forgets readers that have been silent for too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.anticipated = self.anticipated.filter(|anticipated| now < anticipated.until);
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
        self.table.values().map(|entry| &entry.last)
    }
}

impl Entry {
    /// Returns whether a reader that reports again has followed the stream, and the rules, since its first report.
    fn goes_on(&self, now: Instant, arrived: &Arrived<'_>) -> bool {
        let (since, had_heard) = self.first;
        let has_heard = arrived.report.datagrams.next;
        self.from == arrived.from
            && now.since(since) >= MIN_REPORT_INTERVAL
            && has_heard > had_heard
            && has_heard <= arrived.next_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use ledger::{AccountState, NetworkRows, ReaderRows};
    use units::{Epoch, StreamId};

    fn report(reader: u64, receive_buffer_bytes: u32) -> Report {
        Report {
            stream: StreamId(1),
            epoch: Epoch { start_ns: 1, incarnation: 1 },
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

    /// A report from an address that only this reader has.
    fn hear(readers: &mut Readers, now: Instant, report: &Report, size_bytes: usize) -> bool {
        let from = Ipv6Addr::from(u128::from(report.reader.0)).into();
        readers.heard(now, Arrived { report, from, size_bytes, next_number: 1_000 })
    }

    fn hear_from(readers: &mut Readers, now: Instant, host: u8, reader: u64, next: u64) -> bool {
        let mut report = report(reader, 0);
        report.datagrams.next = next;
        let from = Ipv4Addr::new(10, 0, 0, host).into();
        readers.heard(now, Arrived { report: &report, from, size_bytes: 372, next_number: 1_000 })
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_full_table_forgets_the_longest_silent_for_a_new_reader() {
        let mut readers = Readers::new(1_000.0, at(0));
        for reader in 0..MAX_READERS as u64 {
            assert!(hear(&mut readers, Instant::from_nanos(reader), &report(reader, 0), 200));
        }
        assert!(!hear(&mut readers, at(1), &report(0, 0), 200), "it has spoken again");
        assert!(hear(&mut readers, at(2), &report(u64::MAX, 0), 200), "a new one is taken");
        assert_eq!(readers.count() as usize, MAX_READERS);
        assert!(readers.knows(ReaderId(0)) && readers.knows(ReaderId(u64::MAX)));
        assert!(!readers.knows(ReaderId(1)), "the longest silent has gone");
    }

    #[test]
    fn a_crowd_that_one_address_makes_up_costs_no_more_than_sixteen_readers() {
        let mut readers = Readers::new(1_000.0, at(0));
        for reader in 0..10 {
            hear_from(&mut readers, at(1), 1, 1_000_000 + reader, 10);
            hear_from(&mut readers, at(3), 1, 1_000_000 + reader, 20);
        }
        let honest = readers.report_interval();
        for reader in 0..100_000 {
            hear_from(&mut readers, at(4), 66, reader, 10);
        }
        assert_eq!(readers.count(), 10 + 256);
        let longer = readers.report_interval().as_secs_f64() / honest.as_secs_f64();
        assert!((longer - 2.6).abs() < 1e-6, "26 readers instead of 10: {longer}");
        assert_eq!(readers.stats().displaced, 100_000 - 256);
        assert!((0..10).all(|reader| readers.knows(ReaderId(1_000_000 + reader))), "who went on stays");
        // A real reader at the forger's address gets a slot all the same, and keeps it.
        hear_from(&mut readers, at(4), 66, 2_000_000, 10);
        hear_from(&mut readers, at(5), 66, 2_000_000, 11);
        for reader in 0..1_000 {
            hear_from(&mut readers, at(6), 66, 3_000_000 + reader, 10);
        }
        assert!(readers.knows(ReaderId(2_000_000)));
    }

    #[test]
    fn only_who_goes_on_and_hears_the_stream_is_proven() {
        let proven = |second: Instant, host: u8, next: u64| {
            let mut readers = Readers::new(1_000.0, at(0));
            hear_from(&mut readers, at(1), 1, 7, 10);
            hear_from(&mut readers, second, host, 7, next);
            readers.table[&ReaderId(7)].is_proven
        };
        assert!(proven(at(2), 1, 11) && proven(at(2), 1, 1_000));
        assert!(!proven(at(2), 1, 10), "it has heard nothing since");
        assert!(!proven(at(2), 1, 1_001), "it has heard what was never sent");
        assert!(!proven(at(2) - Duration::from_nanos(1), 1, 11), "sooner than readers report");
        assert!(!proven(at(2), 2, 11), "from elsewhere");
        let mut readers = Readers::new(1_000.0, at(0));
        hear_from(&mut readers, at(1), 1, 7, u64::MAX);
        hear_from(&mut readers, at(2), 1, 7, u64::MAX);
        assert!(!readers.table[&ReaderId(7)].is_proven, "nothing comes behind the last number there is");
    }

    #[test]
    fn an_address_full_of_proven_readers_takes_no_more() {
        let mut readers = Readers::new(1e6, at(0));
        for reader in 0..256 {
            hear_from(&mut readers, at(1), 1, reader, 10);
            hear_from(&mut readers, at(3), 1, reader, 20);
        }
        assert!(!hear_from(&mut readers, at(4), 1, 256, 10));
        assert!(hear_from(&mut readers, at(4), 2, 257, 10), "at another address");
        assert_eq!((readers.count(), readers.stats().too_many, readers.stats().displaced), (257, 1, 0));
    }

    #[test]
    fn a_reader_that_moves_takes_no_place_that_its_new_address_does_not_have() {
        let mut readers = Readers::new(1e6, at(0));
        for reader in 0..256 {
            hear_from(&mut readers, at(1), 1, reader, 10);
            hear_from(&mut readers, at(3), 1, reader, 20);
        }
        hear_from(&mut readers, at(4), 2, 300, 10);
        hear_from(&mut readers, at(5), 1, 300, 11);
        assert_eq!((readers.count(), readers.stats().too_many), (257, 1));
    }

    #[test]
    fn nobody_speaks_in_the_name_of_a_proven_reader() {
        let mut readers = Readers::new(1_000.0, at(0));
        hear_from(&mut readers, at(1), 1, 7, 10);
        hear_from(&mut readers, at(3), 1, 7, 20);
        assert!(!hear_from(&mut readers, at(4), 2, 7, 30));
        let said = readers.iter().next().unwrap();
        assert_eq!((said.report.datagrams.next, readers.stats().borrowed), (20, 1));
        // Once it is gone, its name is free.
        readers.sweep(at(9));
        assert!(hear_from(&mut readers, at(9), 2, 7, 30));
    }

    #[test]
    fn a_flood_of_readers_does_not_silence_the_others_for_hours() {
        let mut readers = Readers::new(1_000.0, at(0));
        for reader in 0..MAX_READERS as u64 {
            hear(&mut readers, at(1), &report(reader, 0), 200);
        }
        assert_eq!(readers.report_interval(), Duration::from_secs(600), "from as many addresses");
        readers.sweep(at(1) + Duration::from_secs(3_000));
        assert_eq!((readers.count(), readers.report_interval()), (0, MIN_REPORT_INTERVAL));
    }

    #[test]
    fn a_reader_that_waits_as_a_crowd_did_is_not_forgotten_with_the_crowd() {
        let mut readers = Readers::new(1_000.0, at(0));
        // As large as the assumed size, so that the interval depends on the readers alone.
        let size_bytes = 372;
        for reader in 0..40 {
            hear(&mut readers, at(0), &report(reader, 0), size_bytes);
        }
        let interval = readers.report_interval();
        assert_eq!(interval.as_secs(), 21);
        hear(&mut readers, at(80), &report(7, 0), size_bytes);
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
            hear(&mut readers, at(0), &report(reader, 0), 372);
        }
        hear(&mut readers, at(80), &report(7, 0), 372);
        readers.sweep(at(107));
        hear(&mut readers, at(110), &report(8, 0), 372);
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
        hear(&mut readers, at(0), &report(1, 0), 200);
        assert_eq!(readers.smallest_buffer(), None, "one that does not know its own");
        hear(&mut readers, at(0), &report(2, 65_536), 200);
        hear(&mut readers, at(3), &report(3, 425_984), 200);
        hear(&mut readers, at(3), &report(1, 425_984), 200);
        assert_eq!(readers.smallest_buffer(), Some(65_536));
        readers.sweep(at(6));
        assert_eq!(readers.smallest_buffer(), Some(425_984));
        hear(&mut readers, at(7), &report(1, 300_000), 200);
        assert_eq!(readers.smallest_buffer(), Some(300_000), "the last word counts");
    }
}
