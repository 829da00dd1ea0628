//! A pixel column's samples, and the grid of the columns.

use core::ops::Range;

use units::WallTime;

use super::values::ElementReader;
use crate::Block;

/// Content of a pixel column: the extremes and the mean of its samples, and their number.
///
/// A column with `present < expected` holds a hole; with `present == 0` there is nothing to draw, and
/// `min`, `max` and `mean` are NaN. A sample whose value is NaN is present but in none of them.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Smallest value, NaN if there is none.
    pub min: f64,
    /// Largest value, NaN if there is none.
    pub max: f64,
    /// Arithmetic mean of the values, NaN if there is none; not finite if one of them is not.
    pub mean: f64,
    /// Number of samples that arrived.
    pub present: u64,
    /// Number of samples in the column, whether they arrived or not.
    pub expected: u64,
    /// Number of samples present that are NaN.
    pub not_a_number: u64,
    /// True if exactly the column's own samples were counted.
    ///
    /// If not, they were no longer in memory individually, and extremes, mean and counts are those of the
    /// finest available buckets: no peak is lost, but it may appear one bucket aside.
    pub exact: bool,
}

/// Equal pixel columns in time: column `k` covers `from + k·column_ns` up to, not including, its successor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnGrid {
    /// The left edge.
    pub from: WallTime,
    /// The width of one column in nanoseconds; not zero.
    pub column_ns: u64,
    /// Number of columns.
    pub count: u32,
}

impl Column {
    /// A column without any samples.
    pub const EMPTY: Self = Self {
        min: f64::NAN,
        max: f64::NAN,
        mean: f64::NAN,
        present: 0,
        expected: 0,
        not_a_number: 0,
        exact: true,
    };

    /// Takes another column's samples in, which must be others than its own: those that both have would count twice.
    pub fn merge(&mut self, other: &Self) {
        // `f64::min` and `max` ignore a NaN on one side, so an empty side changes nothing.
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.mean = joined_mean((self.mean, self.values()), (other.mean, other.values()));
        self.present += other.present;
        self.expected += other.expected;
        self.not_a_number += other.not_a_number;
        self.exact &= other.exact;
    }

    /// Becomes `other` if that has more of the samples of the same stretch of time: the archive and live memory both
    /// have those that were recorded and not yet forgotten.
    pub fn complete_from(&mut self, other: &Self) {
        if other.present > self.present {
            *self = *other;
        }
    }

    /// Takes a run of samples in that all arrived.
    ///
    /// Cost: two passes without branches.
    pub fn take(&mut self, values: &[f64]) {
        let (mut min, mut max, mut not_a_number) = (f64::INFINITY, f64::NEG_INFINITY, 0_u64);
        for &value in values {
            // A NaN compares false and so moves neither.
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
            not_a_number += u64::from(value.is_nan());
        }
        let numbers = values.len() as u64 - not_a_number;
        if numbers > 0 {
            self.min = self.min.min(min);
            self.max = self.max.max(max);
            // Differences from one of the values are small where the values are large and alike.
            let mean = min + sum_above(min, values) / numbers as f64;
            self.mean = joined_mean((self.mean, self.values()), (mean, numbers));
        }
        self.present += values.len() as u64;
        self.expected += values.len() as u64;
        self.not_a_number += not_a_number;
    }

    /// Returns the number of samples that are numbers.
    const fn values(&self) -> u64 {
        self.present - self.not_a_number
    }

    /// Returns whether samples of the column are missing.
    #[must_use]
    pub const fn has_hole(&self) -> bool {
        self.present < self.expected
    }
}

/// Returns the mean of two sets of values, each given as its mean and count; NaN if both are empty.
pub(super) fn joined_mean(a: (f64, u64), b: (f64, u64)) -> f64 {
    match (a.1, b.1) {
        (_, 0) => a.0,
        (0, _) => b.0,
        (left, right) => a.0 + (b.0 - a.0) * (right as f64 / (left + right) as f64),
    }
}

/// Returns the sum of the values' distances from `base`, without those that are NaN.
///
/// Four sums at a time: one alone would wait for each addition.
fn sum_above(base: f64, values: &[f64]) -> f64 {
    let above = |value: &f64| {
        let distance = value - base;
        if value.is_nan() { 0.0 } else { distance }
    };
    let (groups, rest) = values.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for [a, b, c, d] in groups {
        sums[0] += above(a);
        sums[1] += above(b);
        sums[2] += above(c);
        sums[3] += above(d);
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest.iter().map(above).sum::<f64>()
}

impl ColumnGrid {
    /// Returns the left edge of column `index`; that of `count` is the grid's right edge.
    #[must_use]
    pub fn edge(&self, index: u32) -> WallTime {
        let nanos = self.column_ns.saturating_mul(u64::from(index));
        self.from.offset(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// Returns as many empty columns as the grid has.
    #[must_use]
    pub fn empty_columns(&self) -> Vec<Column> {
        vec![Column::EMPTY; self.count as usize]
    }

    /// Adds a block's samples of one element to their columns, for data that come as blocks in any order, such as those
    /// of an archive.
    ///
    /// Only what is in blocks can be counted: samples missing between blocks are the caller's to add to
    /// `expected`.
    ///
    /// # Panics
    /// If `columns` has another length than the grid, or `reader` was made for another schema.
    pub fn add_block(&self, columns: &mut [Column], block: &Block, reader: ElementReader) {
        assert_eq!(columns.len(), self.count as usize, "the columns are this grid's");
        let mut values = Vec::new();
        reader.read(block, &mut values);
        let present = reader.present(block);
        let index_at = |edge: WallTime| first_at_or_after(block, edge);
        let mut left = index_at(self.edge(0));
        for (number, column) in (1..).zip(columns) {
            let right = index_at(self.edge(number));
            for run in present.iter().map(|run| overlap(run, &(left..right))) {
                column.take(&values[run.clone()]);
                column.expected -= run.len() as u64;
            }
            column.expected += (right - left) as u64;
            left = right;
        }
    }
}

/// Returns which sample of the block, counted from its first, is the first at or after `time`.
fn first_at_or_after(block: &Block, time: WallTime) -> usize {
    let index = super::timeline::index_at(block.schema.rate, block.first_index, block.t0, time);
    let index = index.clamp(block.first_index, block.next_index());
    usize::try_from(index - block.first_index).expect("a block fits in memory")
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    #[test]
    fn a_value_that_is_not_a_number_is_counted_and_not_drawn() {
        let mut column = Column::EMPTY;
        column.take(&[f64::NAN]);
        assert!(column.min.is_nan() && column.max.is_nan());
        column.take(&[2.0, f64::NAN, -1.0]);
        assert_eq!((column.min, column.max), (-1.0, 2.0));
        assert_eq!((column.present, column.expected, column.not_a_number), (4, 4, 2));
        assert!(!column.has_hole());
    }

    #[test]
    fn an_infinite_value_is_a_value() {
        let mut column = Column::EMPTY;
        column.take(&[f64::INFINITY]);
        assert_eq!((column.min, column.max), (f64::INFINITY, f64::INFINITY));
        assert!(column.mean.is_nan());
    }

    #[test]
    fn an_empty_column_changes_nothing_it_is_merged_into() {
        let mut column = Column::EMPTY;
        column.take(&[3.0]);
        column.merge(&Column::EMPTY);
        assert_eq!((column.min, column.max, column.mean, column.present), (3.0, 3.0, 3.0, 1));
    }

    #[test]
    fn samples_that_two_columns_have_count_once() {
        let (mut all, mut some) = (Column::EMPTY, Column::EMPTY);
        all.take(&[0.0, 1.0, 5.0]);
        some.take(&[0.0, 1.0]);
        let told = |column: &Column| (column.min, column.max, column.mean, column.present, column.expected);
        for (mut column, other) in
            [(all, some), (some, all), (all, all), (all, Column::EMPTY), (Column::EMPTY, all)]
        {
            column.complete_from(&other);
            assert_eq!(told(&column), (0.0, 5.0, 2.0, 3, 3));
        }
    }

    #[test]
    fn a_mean_is_that_of_all_values_in_whatever_parts_they_came() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let offset = if random.chance(0.5) { 499_654_096.0 } else { -0.5 };
            let value = |random: &mut Random| {
                if random.chance(0.1) { f64::NAN } else { offset + random.below(1_000) as f64 / 1e6 }
            };
            let values: Vec<f64> = (0..random.below(300)).map(|_| value(&mut random)).collect();
            let (mut column, mut rest) = (Column::EMPTY, values.as_slice());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
                let mut part = Column::EMPTY;
                part.take(now);
                if random.chance(0.5) {
                    column.merge(&part)
                } else {
                    column.take(now)
                }
                rest = later;
            }
            let numbers = values.iter().filter(|value| !value.is_nan());
            let above: f64 = numbers.clone().map(|value| value - offset).sum();
            let mean = offset + above / numbers.count() as f64;
            // A thousandth of what the values differ by, on an offset 10¹¹ times as large.
            let close = (column.mean - mean).abs() < 1e-6 || column.mean.is_nan() && mean.is_nan();
            assert!(close, "seed {seed}: {} is not {mean}", column.mean);
        }
    }

    #[test]
    fn the_mean_of_a_constant_is_that_constant() {
        let mut column = Column::EMPTY;
        for count in 1..40 {
            column.take(&vec![0.1; count]);
        }
        assert_eq!(column.mean, 0.1);
    }
}
