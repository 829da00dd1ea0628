//! The form of a trace that a page reads: earlier pages read neither exact and kept columns nor means.

use sample::ColumnGrid;
use wire::{Extremes, TraceShape};

use super::kept::{Kept, without_kept};
use crate::view::ViewRequest;

/// Returns the shape as the page of this request reads it; `kept` are the columns that the page has.
pub(super) fn as_read_by(
    request: &ViewRequest,
    shape: TraceShape,
    grid: &ColumnGrid,
    kept: &mut Option<Kept>,
) -> TraceShape {
    let shape = match shape {
        TraceShape::Columns { kept, first, extremes, means } => {
            let means = means.filter(|_| request.means);
            let extremes = if request.exact { extremes } else { Extremes::rounded(&extremes.to_vec()) };
            TraceShape::Columns { kept, first, extremes, means }
        }
        TraceShape::Points(_) => shape,
    };
    if request.exact { without_kept(shape, grid, kept) } else { shape }
}
