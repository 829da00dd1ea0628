//! Columns of one width.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use units::WallTime;

/// A column of a waterfall: the maxima of its samples, bin by bin, and their number.
#[derive(Clone, PartialEq, Debug)]
pub struct WaterfallColumn {
    /// It is the time from `number` widths up to, not including, `number + 1` widths since 1970.
    pub number: i64,
    /// Number of samples that arrived, at least in part.
    pub present: u64,
    /// Number of samples that were due.
    pub expected: u64,
    /// Maxima, NaN in bins without a number; empty if no sample arrived.
    pub bins: Arc<[f32]>,
}

impl WaterfallColumn {
    /// Takes another column's samples in, which must be others than its own.
    pub fn merge(&mut self, other: &Self) {
        self.present += other.present;
        self.expected += other.expected;
        self.join(&other.bins);
    }

    fn join(&mut self, bins: &[f32]) {
        if self.bins.is_empty() {
            self.bins = bins.into();
            return;
        }
        let own = Arc::make_mut(&mut self.bins);
        own.iter_mut().zip(bins).for_each(|(own, other)| *own = own.max(*other));
    }

    /// Becomes `other` if that has more of the samples of the same stretch of time: the archive and live memory both
    /// have those that were recorded and not yet forgotten.
    pub fn complete_from(&mut self, other: &Self) {
        if other.present > self.present {
            *self = other.clone();
        }
    }

    /// Returns the column with this many bins as one.
    ///
    /// # Panics
    /// If `merged` is 0.
    #[must_use]
    pub fn with_merged(&self, merged: u32) -> Self {
        let largest = |bins: &[f32]| bins.iter().copied().fold(f32::NAN, f32::max);
        let bins = self.bins.chunks(merged as usize).map(largest).collect();
        Self { bins, ..self.clone() }
    }
}

/// Columns of one width in which a sample was due, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    width_ns: u64,
    /// Others are passed over.
    numbers: Range<i64>,
    most: usize,
    columns: VecDeque<WaterfallColumn>,
    has_forgotten: bool,
    /// Memory of the bins of a column.
    bins_bytes: usize,
}

impl Columns {
    pub(super) const fn new(width_ns: u64, numbers: Range<i64>, most: usize) -> Self {
        Self { width_ns, numbers, most, columns: VecDeque::new(), has_forgotten: false, bins_bytes: 0 }
    }

    pub(super) const fn width_ns(&self) -> u64 {
        self.width_ns
    }

    fn width(&self) -> i64 {
        i64::try_from(self.width_ns).unwrap_or(i64::MAX)
    }

    pub(super) fn number_of(&self, time: WallTime) -> i64 {
        time.as_nanos().div_euclid(self.width())
    }

    /// Returns the time at which a column begins.
    pub(super) fn edge(&self, number: i64) -> WallTime {
        WallTime::from_nanos(number.saturating_mul(self.width()))
    }

    /// Returns the number of columns that are kept.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of the first column that it may have.
    pub(super) const fn first(&self) -> i64 {
        self.numbers.start
    }

    /// Returns the earliest column that is kept beside column `last` if there is one of every number.
    pub(super) fn earliest_beside(&self, last: i64) -> i64 {
        last.saturating_sub(i64::try_from(self.most).unwrap_or(i64::MAX))
    }

    /// Adds `expected` samples to a column, which have these bins if they arrived.
    pub(super) fn add(&mut self, number: i64, bins: Option<&[f32]>, expected: u64) {
        if !self.numbers.contains(&number) || expected == 0 {
            return;
        }
        let is_last = self.columns.back().is_none_or(|last| last.number < number);
        let place = if is_last {
            self.columns.len()
        } else {
            self.columns.partition_point(|column| column.number < number)
        };
        if self.columns.get(place).is_none_or(|column| column.number != number) {
            if place == 0 && self.has_forgotten {
                return;
            }
            let column = WaterfallColumn { number, present: 0, expected: 0, bins: Arc::from([]) };
            self.columns.insert(place, column);
        }
        let column = &mut self.columns[place];
        column.expected += expected;
        if let Some(bins) = bins {
            column.present += expected;
            self.bins_bytes = size_of_val(bins);
            column.join(bins);
        }
        while self.columns.len() > self.most {
            self.columns.pop_front();
            self.has_forgotten = true;
        }
    }

    /// Returns the time before which columns were forgotten.
    pub(super) fn forgotten_before(&self) -> Option<WallTime> {
        let oldest = self.columns.front().filter(|_| self.has_forgotten)?;
        Some(self.edge(oldest.number))
    }

    /// Returns columns of a multiple of this width.
    pub(super) fn columns(&self, width_ns: u64, numbers: Range<i64>, merged: u32) -> Vec<WaterfallColumn> {
        let parts = i64::try_from(width_ns / self.width_ns).unwrap_or(i64::MAX);
        let first = numbers.start.saturating_mul(parts);
        let place = self.columns.partition_point(|column| column.number < first);
        let mut found: Vec<WaterfallColumn> = Vec::new();
        for part in self.columns.range(place..) {
            let number = part.number.div_euclid(parts);
            if number >= numbers.end {
                break;
            }
            match found.last_mut() {
                Some(column) if column.number == number => column.merge(part),
                _ => found.push(WaterfallColumn { number, ..part.clone() }),
            }
        }
        if merged > 1 {
            found.iter_mut().for_each(|column| *column = column.with_merged(merged));
        }
        found
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.columns.len() * (self.bins_bytes + size_of::<WaterfallColumn>())
    }

    pub(super) fn stop_growing(&mut self) {
        self.most = self.most.min(self.columns.len().max(1));
    }
}
