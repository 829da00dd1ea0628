//! Who reports to this publisher, and how often each may.
//!
//! Source: RFC 3550 §6.2–6.3: all reports together keep within a share of the stream's bandwidth, so the
//! interval grows with the number of readers. Readers do not hear each other here; the tallies tell them
//! the count and the interval.

use core::time::Duration;
use std::collections::BTreeMap;

use units::{Instant, ReaderId};
use wire::Report;

/// The reports' share of the stream's bandwidth (RFC 3550 §6.2).
const BUDGET_SHARE: f64 = 0.05;
/// What the interval aims at. Reports come at random, and from readers not counted yet: so that the budget
/// holds in every window and not only on average, the aim is below it (`tests/scenes/crowd.rs`).
const AIM: f64 = 0.75;
/// The least budget, for slow streams. Units: bit/s.
const MIN_BUDGET_BITS_PER_SECOND: f64 = 8_000.0;
/// No reader reports more often than this, however large the budget.
pub(crate) const MIN_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// A reader that has been silent for so many intervals is gone (RFC 3550 §6.3.5).
const SILENT_INTERVALS: u32 = 5;
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
    next_sweep: Instant,
}

impl Readers {
    pub(super) fn new(stream_bytes_per_second: f64, now: Instant) -> Self {
        Self {
            budget_bits_per_second: (stream_bytes_per_second * 8.0 * BUDGET_SHARE)
                .max(MIN_BUDGET_BITS_PER_SECOND),
            mean_report_bytes: TYPICAL_REPORT_BYTES,
            table: BTreeMap::new(),
            next_sweep: now,
        }
    }

    /// Takes a report in; tells whether the reader is new.
    ///
    /// Reports are cumulative and the last wins; beyond [`MAX_READERS`] new readers are not kept.
    pub(super) fn heard(&mut self, now: Instant, report: &Report, size_bytes: usize) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a datagram's size is small")]
        let size = size_bytes as f64 + HEADERS_BYTES;
        self.mean_report_bytes += (size - self.mean_report_bytes) / 16.0;
        let is_new = !self.table.contains_key(&report.reader);
        if is_new && self.table.len() == MAX_READERS {
            return false;
        }
        self.table.insert(report.reader, ReaderReport { report: report.clone(), heard: now });
        is_new
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
        MIN_REPORT_INTERVAL.max(Duration::from_secs_f64(seconds))
    }

    /// Forgets readers that have been silent for too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        let patience = self.report_interval() * SILENT_INTERVALS;
        self.table.retain(|_, reader| now.since(reader.heard) < patience);
        self.next_sweep = now + MIN_REPORT_INTERVAL;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ReaderReport> {
        self.table.values()
    }
}
