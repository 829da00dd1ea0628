//! The newest samples one by one: for columns narrower than a bucket, ragged edges, and single points.

use core::ops::Range;
use std::collections::VecDeque;

use units::RangeSet;

use super::column::Column;

/// A bounded run of the newest slots, each with its value or marked as missing.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    capacity: usize,
    first: u64,
    values: VecDeque<f64>,
    missing: RangeSet,
}

impl Tail {
    pub(super) const fn new(capacity: usize) -> Self {
        Self { capacity, first: 0, values: VecDeque::new(), missing: RangeSet::new() }
    }

    /// Drops everything and restarts at `slot`.
    pub(super) fn restart(&mut self, slot: u64) {
        self.first = slot;
        self.values.clear();
        self.missing = RangeSet::new();
    }

    pub(super) fn take(&mut self, values: &[f64]) {
        self.values.extend(values);
        self.trim();
    }

    /// Records that the next `count` samples are missing.
    pub(super) fn skip(&mut self, count: u64) {
        // Of a hole longer than the tail only its end would stay anyway.
        let unkept = count.saturating_sub(self.capacity as u64);
        if unkept > 0 {
            self.restart(self.next() + unkept);
        }
        let from = self.next();
        self.missing.insert(from..from + count - unkept);
        self.values.extend((unkept..count).map(|_| f64::NAN));
        self.trim();
    }

    /// Returns the first slot that is kept.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Returns the slot behind the last.
    pub(super) fn next(&self) -> u64 {
        self.first + self.values.len() as u64
    }

    /// Returns the value in `slot`, `None` if it is missing or no longer kept.
    pub(super) fn value(&self, slot: u64) -> Option<f64> {
        let place = usize::try_from(slot.checked_sub(self.first)?).ok()?;
        self.values.get(place).copied().filter(|_| !self.missing.contains(slot))
    }

    /// Adds the samples of `slots`, all of which are kept, to a column.
    pub(super) fn fold(&self, slots: Range<u64>, column: &mut Column) {
        let mut start = slots.start;
        for hole in self.missing.intersection(slots.clone()) {
            self.fold_present(start..hole.start, column);
            column.expected += hole.end - hole.start;
            start = hole.end;
        }
        self.fold_present(start..slots.end, column);
    }

    fn fold_present(&self, slots: Range<u64>, column: &mut Column) {
        let (start, end) = ((slots.start - self.first) as usize, (slots.end - self.first) as usize);
        let (front, back) = self.values.as_slices();
        let split = front.len();
        column.take(&front[start.min(split)..end.min(split)]);
        column.take(&back[start.max(split) - split..end.max(split) - split]);
    }

    fn trim(&mut self) {
        let surplus = self.values.len().saturating_sub(self.capacity);
        self.values.drain(..surplus);
        self.missing.remove(self.first..self.first + surplus as u64);
        self.first += surplus as u64;
    }
}
