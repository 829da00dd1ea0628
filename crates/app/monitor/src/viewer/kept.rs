//! Columns that a page has already: a following view moves by whole columns, so a frame repeats none that stayed the
//! same.

use sample::ColumnGrid;
use units::WallTime;
use wire::{Extremes, MeanShare, TraceShape};

/// The columns of a trace in the view's previous frame.
#[derive(Debug)]
pub(super) struct Kept {
    from: WallTime,
    column_ns: u64,
    first: u32,
    columns: Vec<Column>,
    has_means: bool,
}

/// The extremes of a column, and its mean for a page that reads it.
type Column = ([f64; 2], Option<MeanShare>);

impl Kept {
    /// Takes the columns of a shape; `None` if it has none.
    pub(super) fn of(shape: &TraceShape, grid: &ColumnGrid) -> Option<Self> {
        let TraceShape::Columns { first, extremes, means, .. } = shape else { return None };
        let mean = |place: usize| means.as_ref().map(|means| means[place]);
        let columns = extremes.to_vec().into_iter().enumerate().map(|(place, pair)| (pair, mean(place)));
        let (columns, has_means) = (columns.collect(), means.is_some());
        Some(Self { from: grid.from, column_ns: grid.column_ns, first: *first, columns, has_means })
    }

    /// Returns the shape for a page that has the `previous` columns: without leading ones that are those.
    pub(super) fn sent_after(&self, previous: Option<&Self>) -> TraceShape {
        let kept = previous.map_or(0, |previous| previous.unchanged(self));
        let changed = &self.columns[kept..];
        let means = changed.iter().filter_map(|(_, mean)| *mean).collect();
        let count = u32::try_from(kept).expect("a view has few columns");
        TraceShape::Columns {
            kept: count,
            first: self.first + count,
            extremes: Extremes::exact(changed.iter().map(|(pair, _)| *pair).collect()),
            means: self.has_means.then_some(means),
        }
    }

    /// Returns how many leading columns of the next frame are at the same times and have the same content as here.
    fn unchanged(&self, next: &Self) -> usize {
        let grid = ColumnGrid { from: next.from, column_ns: next.column_ns, count: 0 };
        let Some(begin) = self.place_of(&grid, next.first) else { return 0 };
        let pairs = self.columns[begin..].iter().zip(&next.columns);
        pairs.take_while(|(old, new)| same(&old.0, &new.0) && old.1 == new.1).count()
    }

    /// Returns the place of a grid's column here.
    fn place_of(&self, grid: &ColumnGrid, column: u32) -> Option<usize> {
        let width = i64::try_from(self.column_ns).ok()?;
        let moved = grid.from.nanos_since(self.from);
        if grid.column_ns != self.column_ns || moved % width != 0 {
            return None;
        }
        let place = (moved / width).checked_add(i64::from(column))?.checked_sub(i64::from(self.first))?;
        usize::try_from(place).ok().filter(|place| *place < self.columns.len())
    }
}

fn same(a: &[f64; 2], b: &[f64; 2]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shape as it is sent, and records it for the next one.
    fn without_kept(shape: TraceShape, grid: &ColumnGrid, previous: &mut Option<Kept>) -> TraceShape {
        let kept = Kept::of(&shape, grid);
        let sent = kept.as_ref().map_or(shape, |kept| kept.sent_after(previous.as_ref()));
        *previous = kept;
        sent
    }

    const EMPTY: [f64; 2] = [f64::NAN; 2];

    fn grid(from_ns: i64, column_ns: u64) -> ColumnGrid {
        ColumnGrid { from: WallTime::from_nanos(from_ns), column_ns, count: 8 }
    }

    fn columns(first: u32, extremes: &[[f64; 2]]) -> TraceShape {
        TraceShape::Columns { kept: 0, first, extremes: Extremes::exact(extremes.to_vec()), means: None }
    }

    /// Sends the shape; returns the columns kept, the first sent, and how many.
    fn sent(shape: TraceShape, grid: &ColumnGrid, previous: &mut Option<Kept>) -> (u32, u32, usize) {
        match without_kept(shape, grid, previous) {
            TraceShape::Columns { kept, first, extremes, .. } => (kept, first, extremes.len()),
            TraceShape::Points(points) => (0, 0, points.len()),
        }
    }

    #[test]
    fn only_what_is_new_or_changed_is_sent() {
        let mut previous = None;
        let [a, b, c, d] = [[0.0, 1.0], [0.1, 1.1], [0.2, 1.2], [0.3, 1.3]];
        assert_eq!(sent(columns(2, &[a, b, EMPTY, c]), &grid(0, 10), &mut previous), (0, 2, 4));
        // Two columns later: one slid out of the window that begins with a, and d is new.
        assert_eq!(sent(columns(0, &[a, b, EMPTY, c, d]), &grid(20, 10), &mut previous), (4, 4, 1));
        assert_eq!(sent(columns(0, &[b, EMPTY, c, d]), &grid(30, 10), &mut previous), (4, 4, 0));
        assert_eq!(sent(columns(0, &[b, a, c, d]), &grid(30, 10), &mut previous), (1, 1, 3));
    }

    #[test]
    fn a_column_whose_mean_alone_has_changed_is_sent() {
        let mut previous = None;
        let pair = [0.0, 1.0];
        let with_mean = |mean: f64| TraceShape::Columns {
            kept: 0,
            first: 0,
            extremes: Extremes::exact(vec![pair; 3]),
            means: Some([0.5, mean, 0.5].map(|mean| MeanShare::of(mean, pair)).to_vec()),
        };
        assert_eq!(sent(with_mean(0.5), &grid(0, 10), &mut previous), (0, 0, 3));
        assert_eq!(sent(with_mean(0.5), &grid(0, 10), &mut previous), (3, 3, 0));
        let shape = without_kept(with_mean(0.25), &grid(0, 10), &mut previous);
        let TraceShape::Columns { kept: 1, extremes, means: Some(means), .. } = shape else {
            panic!("one column kept")
        };
        assert_eq!((extremes.len(), means[0]), (2, MeanShare::of(0.25, pair)));
    }

    #[test]
    fn nothing_is_kept_of_another_grid_or_over_points() {
        let mut previous = None;
        let pair = [[1.0, 2.0]; 3];
        assert_eq!(sent(columns(0, &pair), &grid(0, 10), &mut previous), (0, 0, 3));
        assert_eq!(sent(columns(0, &pair), &grid(0, 20), &mut previous), (0, 0, 3));
        assert_eq!(sent(columns(0, &pair), &grid(5, 20), &mut previous), (0, 0, 3));
        assert_eq!(sent(columns(0, &pair), &grid(-35, 20), &mut previous), (0, 0, 3));
        assert_eq!(sent(TraceShape::Points(Vec::new()), &grid(-35, 20), &mut previous), (0, 0, 0));
        assert_eq!(sent(columns(0, &pair), &grid(-35, 20), &mut previous), (0, 0, 3));
    }
}
