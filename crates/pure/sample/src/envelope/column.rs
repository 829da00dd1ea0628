//! A pixel column's samples, and the grid of the columns.

use core::ops::Range;

use units::WallTime;

use super::values::ElementReader;
use crate::Block;

/// Content of a pixel column: the extremes of its samples, and their number.
///
/// A column with `present < expected` holds a hole; with `present == 0` there is nothing to draw, and
/// `min` and `max` are NaN. A sample whose value is NaN is present but does not move the extremes.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Smallest value, NaN if there is none.
    pub min: f64,
    /// Largest value, NaN if there is none.
    pub max: f64,
    /// Number of samples that arrived.
    pub present: u64,
    /// Number of samples in the column, whether they arrived or not.
    pub expected: u64,
    /// Number of samples present that are NaN.
    pub not_a_number: u64,
    /// True if exactly the column's own samples were counted.
    ///
    /// If not, they were no longer in memory individually, and the extremes and counts are those of the
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
    pub const EMPTY: Self =
        Self { min: f64::NAN, max: f64::NAN, present: 0, expected: 0, not_a_number: 0, exact: true };

    /// Takes another column's samples in, for instance those of the archive.
    pub fn merge(&mut self, other: &Self) {
        // `f64::min` and `max` ignore a NaN on one side, so an empty side changes nothing.
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.present += other.present;
        self.expected += other.expected;
        self.not_a_number += other.not_a_number;
        self.exact &= other.exact;
    }

    /// Takes a run of samples in that all arrived.
    ///
    /// Cost: one pass without branches.
    pub fn take(&mut self, values: &[f64]) {
        let (mut min, mut max, mut not_a_number) = (f64::INFINITY, f64::NEG_INFINITY, 0_u64);
        for &value in values {
            // A NaN compares false and so moves neither.
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
            not_a_number += u64::from(value.is_nan());
        }
        if not_a_number < values.len() as u64 {
            self.min = self.min.min(min);
            self.max = self.max.max(max);
        }
        self.present += values.len() as u64;
        self.expected += values.len() as u64;
        self.not_a_number += not_a_number;
    }

    /// Returns whether samples of the column are missing.
    #[must_use]
    pub const fn has_hole(&self) -> bool {
        self.present < self.expected
    }
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
    }

    #[test]
    fn an_empty_column_changes_nothing_it_is_merged_into() {
        let mut column = Column::EMPTY;
        column.take(&[3.0]);
        column.merge(&Column::EMPTY);
        assert_eq!((column.min, column.max, column.present), (3.0, 3.0, 1));
    }
}
