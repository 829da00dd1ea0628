//! Vectors over time: columns that have the maxima of the samples in them, bin by bin.
//!
//! A column is a stretch between two multiples of its width since 1970. Widths are powers of two, so that a wide column
//! consists of whole narrow ones and is exactly the maximum of the samples in it, whichever columns it was made from.
//! A [`Waterfall`] follows a stream in bounded memory; [`Waterfall::of_stretch`] takes the blocks of an archive.

mod bins;
mod columns;
#[cfg(test)]
mod tests;

use std::ops::Range;

use units::{Epoch, SampleRate, WallTime};

pub use bins::BinReader;
pub use columns::WaterfallColumn;

use crate::envelope::index_at;
use crate::{Block, Schema};
use columns::Columns;

/// Narrowest columns, 1 ms: faster vectors than that are seen as their maxima.
const NARROWEST_NS: u64 = 1 << 20;
/// Widest columns, five hours: enough for one vector in a day.
const WIDEST_NS: u64 = 1 << 44;
/// A sample is drawn at its time to an eighth of the period.
const COLUMNS_PER_PERIOD: u64 = 8;
/// The widest columns reach back at least two days.
const REACH_NS: u64 = 1 << 47;
/// Each level's columns are four of the level below.
const STEP: u64 = 4;

/// Sizes of a [`Waterfall`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaterfallConfig {
    /// Maximum number of bins; vectors of more elements have blocks of them as bins.
    pub bins: u32,
    /// Number of columns of each width that are kept.
    pub columns: usize,
}

impl Default for WaterfallConfig {
    /// Keeps 257 bins, those of a spectrum of 512 samples, each; any window that ends at the newest sample has 1,024
    /// columns. At most 22 MB if the stream lasts for days.
    fn default() -> Self {
        Self { bins: 320, columns: 2_048 }
    }
}

/// A place in a stream: samples from this one on are behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPlace {
    /// Epoch of the sample.
    pub epoch: Epoch,
    /// Index of the sample; `u64::MAX` if only the time is known.
    pub index: u64,
    /// Time of the sample.
    pub time: WallTime,
}

/// The live memory of a vector channel, or of one matrix of a sample: columns of several widths.
#[derive(Clone, Debug)]
pub struct Waterfall {
    reader: BinReader,
    /// From narrow to wide.
    levels: Vec<Columns>,
    /// The place behind the last sample taken.
    next: Option<StreamPlace>,
    first: Option<StreamPlace>,
    /// The place behind which it takes no sample.
    end: Option<StreamPlace>,
    rate: SampleRate,
    has_own_times: bool,
    scratch: Vec<f32>,
}

/// Returns the width of the narrowest columns that are kept of samples at this rate.
#[must_use]
pub fn narrowest_column(rate: SampleRate) -> u64 {
    let period = u64::try_from(rate.duration_of(1).as_nanos()).unwrap_or(WIDEST_NS);
    let share = (period / COLUMNS_PER_PERIOD).clamp(NARROWEST_NS, WIDEST_NS);
    1 << share.ilog2()
}

impl Waterfall {
    /// Makes the memory of a channel's matrix `plane`, or of the last one if there are fewer.
    ///
    /// # Panics
    /// If the schema has no such channel.
    #[must_use]
    pub fn new(schema: &Schema, channel: usize, plane: u32, config: WaterfallConfig) -> Self {
        let narrowest = narrowest_column(schema.rate);
        let mut widths = vec![narrowest];
        while widths[widths.len() - 1].saturating_mul(config.columns as u64) < REACH_NS {
            widths.push(widths[widths.len() - 1] * STEP);
        }
        let level = |width: u64| Columns::new(width, i64::MIN..i64::MAX, config.columns);
        let levels = widths.into_iter().map(level).collect();
        Self::with_levels(schema, BinReader::new(schema, channel, plane, config.bins), levels)
    }

    /// Makes the columns of a stretch of time, `numbers` of this width, of blocks in the order of time.
    ///
    /// # Panics
    /// If the schema has no such channel, or the width is 0.
    #[must_use]
    pub fn of_stretch(schema: &Schema, reader: BinReader, width_ns: u64, numbers: Range<i64>) -> Self {
        Self::with_levels(schema, reader, vec![Columns::new(width_ns, numbers, usize::MAX)])
    }

    fn with_levels(schema: &Schema, reader: BinReader, levels: Vec<Columns>) -> Self {
        let (has_own_times, rate) = (schema.has_own_times(), schema.rate);
        let (next, first, end) = (None, None, None);
        Self { reader, levels, next, first, end, rate, has_own_times, scratch: Vec::new() }
    }

    /// Takes no sample from this place on.
    #[must_use]
    pub const fn up_to(mut self, end: Option<StreamPlace>) -> Self {
        self.end = end;
        self
    }

    /// Counts the samples that never arrived between the last one and the end: the stream goes on there.
    pub fn finish(&mut self) {
        if let Some(end) = self.end {
            self.miss_before(&end);
        }
    }

    /// Returns the bins of its columns.
    #[must_use]
    pub const fn reader(&self) -> &BinReader {
        &self.reader
    }

    /// Takes a block of the stream. Samples that were seen already are passed over, and those missing since the block
    /// before are counted in their columns.
    ///
    /// Cost: one pass over the samples, and over their bins for each width.
    ///
    /// # Panics
    /// If the block has another schema than this was made for.
    pub fn push(&mut self, block: &Block) {
        let place = |index: u64| StreamPlace { epoch: block.epoch, index, time: block.time_of(index) };
        let is_behind = |end: StreamPlace, place: &StreamPlace| {
            let is_later = place.epoch == end.epoch && place.index >= end.index;
            is_later || place.time >= end.time
        };
        let end = self.end;
        let is_wanted = |place: &StreamPlace| !end.is_some_and(|end| is_behind(end, place));
        let first = self.next_in(block.epoch).unwrap_or(0).max(block.first_index);
        let mut places = (first..block.next_index()).map(place).take_while(is_wanted).peekable();
        if places.peek().is_some() {
            self.miss_before(&place(block.first_index));
        }
        for place in places {
            let present = self.reader.read(block, place.index - block.first_index, &mut self.scratch);
            for level in &mut self.levels {
                let number = level.number_of(place.time);
                level.add(number, present.then_some(self.scratch.as_slice()), 1);
            }
            self.first.get_or_insert(place);
            let index = place.index + 1;
            self.next = Some(StreamPlace { index, time: block.time_of(index), ..place });
        }
    }

    /// Returns the index behind the last sample taken, if that was of this epoch.
    fn next_in(&self, epoch: Epoch) -> Option<u64> {
        self.next.filter(|next| next.epoch == epoch).map(|next| next.index)
    }

    /// Counts samples between the last one and a later one, which never arrived, in their columns, as far back as columns
    /// are kept.
    fn miss_before(&mut self, later: &StreamPlace) {
        let next = self.next_in(later.epoch).filter(|_| !self.has_own_times);
        let Some(indices) = next.map(|next| next..later.index).filter(|missing| !missing.is_empty()) else {
            return;
        };
        let rate = self.rate;
        let index_of = |time: WallTime| index_at(rate, later.index, later.time, time);
        let time_of = |index: u64| rate.time_of(index, later.index, later.time);
        for level in &mut self.levels {
            let last = level.number_of(time_of(indices.end - 1));
            // Narrow columns have one sample each, wide ones are next to each other: the last ones of either are kept.
            let newest = indices.end.saturating_sub(level.most() as u64).max(indices.start);
            let first = level.number_of(time_of(newest)).min(level.earliest_beside(last));
            let mut index = index_of(level.edge(first.max(level.first()))).max(indices.start);
            while index < indices.end {
                let number = level.number_of(time_of(index));
                let end = index_of(level.edge(number + 1)).clamp(index + 1, indices.end);
                level.add(number, None, end - index);
                index = end;
            }
        }
    }

    /// Returns the least width from `width_ns` on at which nothing since `from` was forgotten, or the widest.
    #[must_use]
    pub fn width_reaching(&self, width_ns: u64, from: WallTime) -> u64 {
        let reaches = |level: &&Columns| level.forgotten_before().is_none_or(|before| before <= from);
        let width_ns = width_ns.max(self.levels[0].width_ns());
        let own = self.level(width_ns).filter(reaches).map(|_| width_ns);
        let wider = || self.levels.iter().filter(|level| level.width_ns() > width_ns).find(reaches);
        let widest = self.levels[self.levels.len() - 1].width_ns().max(width_ns);
        own.or_else(|| wider().map(Columns::width_ns)).unwrap_or(widest)
    }

    /// Returns the place from which columns of this width are known; `None` before the first sample.
    #[must_use]
    pub fn known_from(&self, width_ns: u64) -> Option<StreamPlace> {
        let (first, next) = (self.first?, self.next?);
        let forgotten = self.level(width_ns)?.forgotten_before().filter(|before| *before > first.time);
        Some(match forgotten {
            None => first,
            // Which event is the first from then on is not known.
            Some(time) if self.has_own_times => StreamPlace { index: u64::MAX, time, ..next },
            Some(before) => {
                let index = index_at(self.rate, next.index, next.time, before);
                StreamPlace { index, time: self.rate.time_of(index, next.index, next.time), ..next }
            }
        })
    }

    /// Returns the columns `numbers` of this width in which a sample was due, each with `merged` bins of the reader as
    /// one. There is none of a width that is no multiple of a level's.
    ///
    /// # Panics
    /// If `merged` is 0.
    #[must_use]
    pub fn columns(&self, width_ns: u64, numbers: Range<i64>, merged: u32) -> Vec<WaterfallColumn> {
        self.level(width_ns).map_or_else(Vec::new, |level| level.columns(width_ns, numbers, merged))
    }

    /// Returns the level with the widest columns of which such a column consists.
    fn level(&self, width_ns: u64) -> Option<&Columns> {
        self.levels.iter().rev().find(|level| width_ns.is_multiple_of(level.width_ns()))
    }

    /// Returns the memory that its columns take.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.levels.iter().map(Columns::size_bytes).sum()
    }

    /// Keeps no more columns of each width than there are now.
    pub fn stop_growing(&mut self) {
        self.levels.iter_mut().for_each(Columns::stop_growing);
    }
}
