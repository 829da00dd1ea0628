//! The form of a trace that a page reads: earlier pages read neither exact and kept columns nor means.

use wire::{Extremes, TraceShape};

use crate::view::ViewRequest;

/// Returns the shape as the page of this request reads it.
pub(super) fn as_read_by(request: &ViewRequest, shape: TraceShape) -> TraceShape {
    match shape {
        TraceShape::Columns { kept, first, extremes, means } => {
            let means = means.filter(|_| request.means);
            let extremes = if request.exact { extremes } else { Extremes::rounded(&extremes.to_vec()) };
            TraceShape::Columns { kept, first, extremes, means }
        }
        TraceShape::Points(_) => shape,
    }
}
