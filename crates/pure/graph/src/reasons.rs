//! Causes of missing samples, reported before or after the gap itself is seen.

use core::ops::Range;
use std::collections::VecDeque;

use ledger::Stage;
use sample::Schema;

use crate::Hole;

/// The most reasons kept: those of a burst of losses in one stream between two blocks.
const MAX_REASONS: usize = 64;

/// The stages of the newest holes of one epoch, by sample index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reasons(VecDeque<(Range<u64>, Stage)>);

impl Reasons {
    pub(crate) fn note(&mut self, indices: Range<u64>, stage: Stage) {
        self.0.push_back((indices, stage));
        if self.0.len() > MAX_REASONS {
            self.0.pop_front();
        }
    }

    /// Notes the stage, if known, of every sample of which an element is missing.
    pub(crate) fn note_hole(&mut self, hole: &Hole, schema: &Schema) {
        if let Some(stage) = hole.stage {
            let per_sample = u64::from(schema.elements_per_sample());
            self.note(hole.positions.start / per_sample..hole.positions.end.div_ceil(per_sample), stage);
        }
    }

    /// Returns the newest reason for any of `indices`.
    pub(crate) fn of(&self, indices: &Range<u64>) -> Option<Stage> {
        self.0.iter().rev().find(|(reason, _)| overlap(reason, indices)).map(|(_, stage)| *stage)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

pub(crate) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}
