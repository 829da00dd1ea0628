//! Envelopes: the plotted form of a stream, with peaks, means and holes preserved at every zoom.
//!
//! An [`Envelope`] follows one element of a stream through the epochs of its publisher. It keeps the newest samples
//! individually and increasingly coarse extremes and means of older ones, in bounded memory, and answers for any grid of pixel
//! columns. Samples are never skipped to save time: a column holds the extremes and the mean of all its samples, and a hole stays
//! a hole. Not here: the contents of the archive, which arrive as blocks through [`ColumnGrid::add_block`], and the
//! frames sent to a page, which are in the `wire` crate.

mod column;
mod pyramid;
mod tail;
mod timeline;
mod values;

use core::ops::Range;

use units::{Epoch, WallTime};

pub use column::{Column, ColumnGrid};
pub use values::ElementReader;

use crate::{Block, Schema};
use pyramid::Pyramid;
use tail::Tail;
pub(crate) use timeline::index_at;
use timeline::{Step, Timeline};

/// Sizes of an [`Envelope`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnvelopeConfig {
    /// Number of newest samples that are kept individually, 8 bytes each.
    pub tail_samples: usize,
    /// Samples in one bucket of the finest level, a power of two.
    pub bucket_samples: u64,
    /// Number of levels, each four times as coarse as the one below.
    pub levels: u32,
    /// Number of buckets per level, 32 bytes each.
    pub buckets_per_level: usize,
}

impl Default for EnvelopeConfig {
    /// Reaches back 537 million samples (9 minutes of 1 MHz, 17 days of 360 Hz) in at most 3.3 MB.
    ///
    /// A level spans eight screens of 2,000 columns of one bucket each, so that a bucket on the boundary between two
    /// columns is small relative to them. A slow stream uses only the memory that its samples need.
    fn default() -> Self {
        Self { tail_samples: 16_384, bucket_samples: 32, levels: 6, buckets_per_level: 16_384 }
    }
}

/// The live memory of one element of a stream.
#[derive(Clone, Debug)]
pub struct Envelope {
    reader: ElementReader,
    /// The publisher's current epoch, and the slot of the first sample received of it.
    origin: Option<EpochOrigin>,
    /// Slots count the samples of all epochs in one line, with one missing slot at the seam of two.
    start: u64,
    timeline: Timeline,
    tail: Tail,
    pyramid: Pyramid,
    newest: Option<(WallTime, f64)>,
    scratch: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct EpochOrigin {
    epoch: Epoch,
    first_index: u64,
    first_slot: u64,
}

/// A single sample, or a mark that the line is interrupted before the next one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Time of the sample.
    pub time: WallTime,
    /// Value of the sample; `None` marks a hole of any length.
    pub value: Option<f64>,
}

/// A single sample with its position in the stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kept {
    /// Epoch and index of the sample; `None` in an epoch before the current one.
    pub place: Option<(Epoch, u64)>,
    /// Time of the sample.
    pub time: WallTime,
    /// Value of the sample.
    pub value: f64,
}

impl Envelope {
    /// Makes the memory of the element at `element` within a sample; `None` if a sample is shorter.
    ///
    /// # Panics
    /// If the configuration has a zero, buckets of no power of two, or of more than 2¹⁵ samples.
    #[must_use]
    pub fn new(schema: &Schema, element: usize, config: EnvelopeConfig) -> Option<Self> {
        Some(Self {
            reader: ElementReader::new(schema, element)?,
            origin: None,
            start: 0,
            timeline: Timeline::new(schema.rate),
            tail: Tail::new(config.tail_samples),
            pyramid: Pyramid::new(config.bucket_samples, config.levels, config.buckets_per_level),
            newest: None,
            scratch: Vec::new(),
        })
    }

    /// Takes a block of the stream. Blocks arrive in the order of their indices; what was seen already is
    /// passed over, and indices between two blocks are a hole.
    ///
    /// Cost: one pass over the element's values, no allocation once the memory is full.
    ///
    /// # Panics
    /// If the block has another schema than this was made for.
    pub fn push(&mut self, block: &Block) {
        let first_slot = self.slot_of(block);
        let seen = self.tail.next().saturating_sub(first_slot).min(block.samples);
        if seen == block.samples {
            return;
        }
        let slot = first_slot + seen;
        let time = block.time_of(block.first_index + seen);
        if self.timeline.step(slot, time) == Step::SetBack {
            self.forget(slot);
        }
        self.skip_to(slot);
        self.timeline.note(slot, time);
        let mut values = core::mem::take(&mut self.scratch);
        values.clear();
        self.reader.read(block, &mut values);
        for run in self.reader.present(block) {
            let run = run.start.max(seen as usize)..run.end.max(seen as usize);
            self.take(first_slot + run.start as u64, &values[run]);
        }
        self.scratch = values;
        self.skip_to(first_slot + block.samples);
        if let Some(kept_from) = self.pyramid.first_slot() {
            self.timeline.forget_before(kept_from.min(self.tail.first()));
        }
    }

    /// Returns the content of each column of a grid.
    ///
    /// Columns whose samples, at least at their edges, are still kept individually are exact; so are older
    /// ones whose edges are those of buckets. For the others see [`Column::exact`].
    /// Cost: per column two look-ups in time, the samples of two ragged edges and a few buckets.
    #[must_use]
    pub fn columns(&self, grid: &ColumnGrid) -> Vec<Column> {
        let first = self.slot_at(grid.from);
        let mut left = first;
        (1..=grid.count)
            .map(|number| {
                let right = self.slot_at(grid.edge(number));
                let column = self.summarise(left, right, first);
                left = right;
                column
            })
            .collect()
    }

    /// Returns the samples from `from` up to, not including, `to` that are still kept one by one.
    ///
    /// One point without a value precedes a sample after a hole or a jump of time.
    #[must_use]
    pub fn points(&self, from: WallTime, to: WallTime) -> Vec<Point> {
        let first = self.slot_at(from).max(self.tail.first());
        let mut points = Vec::new();
        // A range that begins behind a hole begins with a sample: there is nothing before it to bridge.
        let mut hole = None;
        for slot in first..self.slot_at(to) {
            let value = self.tail.value(slot);
            let time = self.timeline.time_of(slot);
            if value.is_none() || (self.timeline.interrupted_at(slot) && !points.is_empty()) {
                hole.get_or_insert(time);
            }
            if value.is_some() {
                points.extend(hole.take().map(|time| Point { time, value: None }));
                points.push(Point { time, value });
            }
        }
        points.extend(hole.map(|time| Point { time, value: None }));
        points
    }

    /// Returns the samples from `from` up to, not including, `to` that are still kept one by one, with their positions.
    #[must_use]
    pub fn kept(&self, from: WallTime, to: WallTime) -> Vec<Kept> {
        let first = self.slot_at(from).max(self.tail.first());
        let place = |slot: u64| {
            let origin = self.origin.filter(|origin| slot >= origin.first_slot)?;
            Some((origin.epoch, origin.first_index + (slot - origin.first_slot)))
        };
        let kept = (first..self.slot_at(to)).filter_map(|slot| {
            let value = self.tail.value(slot)?;
            Some(Kept { place: place(slot), time: self.timeline.time_of(slot), value })
        });
        kept.collect()
    }

    /// Returns the newest sample.
    #[must_use]
    pub const fn newest(&self) -> Option<(WallTime, f64)> {
        self.newest
    }

    /// Returns the time of the oldest data in this memory; older data are in the archive.
    #[must_use]
    pub fn memory_from(&self) -> Option<WallTime> {
        self.origin.map(|_| self.timeline.time_of(self.start.max(self.pyramid.first_slot().unwrap_or(0))))
    }

    /// Returns the time from which every sample is kept individually, as [`Envelope::points`] needs.
    #[must_use]
    pub fn points_from(&self) -> Option<WallTime> {
        self.origin.map(|_| self.timeline.time_of(self.tail.first()))
    }

    /// Returns the slot of the block's first sample, and begins a new epoch if the block belongs to one.
    fn slot_of(&mut self, block: &Block) -> u64 {
        let next = self.tail.next();
        let origin = match self.origin {
            Some(origin) if origin.epoch == block.epoch => origin,
            before => EpochOrigin {
                epoch: block.epoch,
                first_index: block.first_index,
                // One missing slot separates the epochs, however fast the publisher restarted.
                first_slot: if before.is_some() { next + 1 } else { next },
            },
        };
        self.origin = Some(origin);
        // Samples before the first received one of an epoch were not requested and precede its slot.
        (origin.first_slot + block.first_index).saturating_sub(origin.first_index)
    }

    fn take(&mut self, slot: u64, values: &[f64]) {
        self.skip_to(slot);
        self.tail.take(values);
        self.pyramid.take(slot, values);
        if let Some(value) = values.last() {
            let last = slot + values.len() as u64 - 1;
            self.newest = Some((self.timeline.time_of(last), *value));
        }
    }

    fn skip_to(&mut self, slot: u64) {
        let missing = slot.saturating_sub(self.tail.next());
        if missing > 0 {
            self.tail.skip(missing);
            self.pyramid.skip_to(slot);
        }
    }

    /// Drops everything and restarts at `slot`.
    fn forget(&mut self, slot: u64) {
        self.start = slot;
        self.timeline.clear();
        self.tail.restart(slot);
        self.pyramid.clear();
    }

    /// Returns the first slot at or after `time`, within the known range.
    fn slot_at(&self, time: WallTime) -> u64 {
        self.timeline.first_at_or_after(time).clamp(self.start, self.tail.next())
    }

    /// Sums up the slots of a column of the grid that begins in slot `first`, with as few look-ups as the
    /// levels allow.
    fn summarise(&self, start: u64, end: u64, first: u64) -> Column {
        let mut column = Column::EMPTY;
        let mut slot = start;
        while slot < end {
            // A bucket that is still filling holds nothing beyond the newest slot.
            let bucket_end = if end == self.tail.next() { u64::MAX } else { end };
            if let Some(found) = self.pyramid.beginning_at(slot, bucket_end) {
                column.merge(&found.content);
                column.expected += found.slots.end.min(end) - slot.max(self.start);
                slot = found.slots.end;
            } else if slot >= self.tail.first() {
                let edge = (slot | (self.pyramid.finest() - 1)) + 1;
                self.tail.fold(slot..edge.min(end), &mut column);
                slot = edge;
            } else {
                slot = self.summarise_coarsely(slot..end, first, &mut column);
            }
        }
        column
    }

    /// Adds the finest bucket that covers the first of `slots`, whose samples are no longer kept; returns
    /// its end.
    ///
    /// A bucket counts in the column of its first sample, or in the grid's first, and in every column that is entirely
    /// within its samples. So no peak is lost, none shows twice where columns are wider than buckets, and nothing shows
    /// in a hole outside the bucket.
    fn summarise_coarsely(&self, slots: Range<u64>, first: u64, column: &mut Column) -> u64 {
        column.exact = false;
        let Some(found) = self.pyramid.covering(slots.start) else {
            // Forgotten by all levels: the archive's.
            return self.pyramid.first_slot().map_or(slots.end, |kept| kept.max(slots.start + 1));
        };
        let begins_in = |place: u64| slots.contains(&place) || slots.start == first && place < slots.start;
        let Range { start, end } = found.present;
        let shows = end > slots.start && (begins_in(start) || start < slots.start && end >= slots.end);
        if shows {
            column.merge(&found.content);
            column.expected += end - start;
        }
        if begins_in(found.slots.start) {
            let known = found.slots.start.max(self.start)..found.slots.end.min(self.tail.next());
            column.expected += (known.end - known.start).saturating_sub(end - start);
        }
        found.slots.end
    }
}

#[cfg(test)]
mod tests;
