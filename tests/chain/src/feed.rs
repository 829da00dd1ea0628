//! A near bus as its reader sees it: records of samples, and of elements that were missing before.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use ledger::{HopCounts, HopShare, Outcome, Stage};
use sample::{Channel, Dtype, Schema};
use units::{Epoch, Instant, Random, SampleRate, WallTime};
use wire::{Clock, Description};

use crate::diary::Diary;

/// Form of a feed.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Name of the stream.
    pub name: String,
    /// Elements per sample, of one byte each.
    pub elements: u32,
    /// Samples per second.
    pub hz: u32,
    /// Elements per record.
    pub record: u64,
    /// Share of records that were missing before.
    pub missing: f64,
    /// Time for which the ring keeps records for a reader that joins.
    pub kept: Duration,
}

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it was written.
    pub at: Instant,
    /// Its positions.
    pub positions: Range<u64>,
    /// Outcome of all its elements, if they are missing.
    pub missing: Option<Outcome>,
}

/// A stream's publisher and the ring behind it.
#[derive(Debug)]
pub struct Feed {
    /// Form of the stream.
    pub shape: Shape,
    /// Outcomes of its positions.
    pub diary: Diary,
    random: Random,
    next_position: u64,
    next_at: Instant,
    end_at: Instant,
    ring: VecDeque<Record>,
    /// Ranges whose outcome is told later, and when.
    unsettled: VecDeque<(Instant, Range<u64>)>,
}

/// Returns the value at a position.
#[must_use]
pub(crate) const fn value(position: u64) -> u8 {
    (position.wrapping_mul(31) ^ (position >> 7)).to_le_bytes()[0]
}

/// Returns shares with one outcome on hop 0.
#[must_use]
pub(crate) fn shares(outcome: Outcome, count: u64) -> HopCounts {
    [HopShare { hop: 0, outcome, count }].into_iter().collect()
}

impl Shape {
    /// Returns the description of the stream.
    ///
    /// # Panics
    /// If the shape has no samples.
    #[must_use]
    pub fn description(&self) -> Description {
        let channel = Channel { shape: vec![self.elements], ..Channel::new("x", "V") };
        let rate = SampleRate::hz(self.hz).expect("a rate");
        Description {
            name: self.name.parse().expect("a name"),
            schema: Schema::new(Dtype::U8, rate, vec![channel]).expect("a schema"),
            report_port: 9_000,
            station: "daq".to_owned(),
            unknown: sample::UnknownEntries::new(),
        }
    }

    /// Returns the stream's identity.
    #[must_use]
    pub fn stream(&self) -> units::StreamId {
        let Description { name, schema, .. } = self.description();
        wire::stream_id(&name, &schema)
    }

    /// Returns the time of a sample.
    ///
    /// # Panics
    /// If the shape has no samples.
    #[must_use]
    pub fn time_of(&self, index: u64) -> WallTime {
        SampleRate::hz(self.hz).expect("a rate").time_of(index, 0, WallTime::from_nanos(1_000))
    }

    /// Returns the time between two records.
    pub(crate) fn period(&self) -> Duration {
        let per_s = u64::from(self.elements) * u64::from(self.hz);
        Duration::from_nanos(self.record * 1_000_000_000 / per_s)
    }
}

impl Feed {
    /// Creates a feed that publishes during a span of time.
    #[must_use]
    pub fn new(shape: Shape, seed: u64, incarnation: u64, span: Range<Instant>) -> Self {
        Self {
            diary: Diary::new(Epoch { start_ns: 1_000 + incarnation, incarnation: seed + 1 }),
            random: Random::for_purpose(seed + incarnation * 1_000_003, "feed"),
            next_position: 0,
            next_at: span.start,
            end_at: span.end,
            ring: VecDeque::new(),
            unsettled: VecDeque::new(),
            shape,
        }
    }

    /// Returns whether all was published.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next_at >= self.end_at
    }

    /// Returns when the next record is due, or an outcome is told.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let settles = self.unsettled.front().map(|(at, _)| *at);
        Instant::earlier((!self.is_over()).then_some(self.next_at), settles)
    }

    /// Writes what is due into the ring.
    pub fn produce(&mut self, now: Instant) {
        while self.next_at <= now && !self.is_over() {
            let positions = self.next_position..self.next_position + self.shape.record;
            self.next_position = positions.end;
            let is_missing = self.random.chance(self.shape.missing);
            let missing = is_missing.then(|| match self.random.chance(0.3) {
                true => {
                    self.unsettled.push_back((self.next_at + 300 * crate::MS, positions.clone()));
                    Outcome::Unsettled
                }
                false => Outcome::Lost(Stage::Network),
            });
            if is_missing {
                self.diary.missing.insert(positions.clone());
            }
            self.ring.push_back(Record { at: self.next_at, positions, missing });
            self.next_at += self.shape.period();
        }
        self.diary.end = self.is_over().then_some(self.next_position);
        while self.ring.front().is_some_and(|record| now > record.at + self.shape.kept) {
            self.ring.pop_front();
        }
    }

    /// Returns the records from a position on.
    #[must_use]
    pub fn records_from(&self, position: u64) -> Vec<Record> {
        self.ring.iter().filter(|record| record.positions.start >= position).cloned().collect()
    }

    /// Returns the first position at which a reader can join.
    #[must_use]
    pub fn join(&self) -> u64 {
        let per_sample = u64::from(self.shape.elements);
        let mut starts = self.ring.iter().map(|record| record.positions.start);
        let first = starts.find(|start| start.is_multiple_of(per_sample));
        first.unwrap_or_else(|| self.next_position.next_multiple_of(per_sample))
    }

    /// Returns the next range whose outcome is known now.
    pub fn settle(&mut self, now: Instant) -> Option<Range<u64>> {
        let is_due = self.unsettled.front().is_some_and(|(at, _)| *at <= now);
        if is_due { self.unsettled.pop_front().map(|(_, positions)| positions) } else { None }
    }

    /// Returns the bytes of a range.
    #[must_use]
    pub fn bytes(positions: Range<u64>) -> Vec<u8> {
        positions.map(value).collect()
    }

    /// Returns the clock of its times.
    #[must_use]
    pub const fn clock() -> Clock {
        Clock::Ptp
    }

    /// Returns one behind the last position.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.next_position
    }
}
