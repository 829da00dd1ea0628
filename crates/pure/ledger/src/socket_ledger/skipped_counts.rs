//! Elements that the publisher skipped without listing them, by its running totals: what those rose by between two
//! tallies, less what was listed.
//!
//! A count names a stage and the positions between two tallies, and not the elements. Those of a gap without missing
//! numbers get its stage as far as it cannot be that of elements elsewhere. What is listed later takes precedence, also over
//! elements that were explained already.

use core::ops::Range;
use std::collections::VecDeque;

use crate::Stage;
use crate::entry::Entry;

/// Maximum number of counts that are kept for gaps still to be declared.
const MAX_COUNTS: usize = 1_024;

/// Whether the totals count every element that was skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counting {
    /// All of them.
    Exact,
    /// Only those of whole samples: a relay skips parts of samples, too.
    WholeSamples,
}

/// The counts by stage, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct SkippedCounts(VecDeque<SkippedCount>);

#[derive(Clone, Debug)]
struct SkippedCount {
    stage: Stage,
    positions: Range<u64>,
    /// Elements that it explains.
    taken: u64,
    remaining: u64,
}

impl SkippedCount {
    const fn overlaps(&self, positions: &Range<u64>) -> bool {
        self.positions.start < positions.end && positions.start < self.positions.end
    }
}

impl SkippedCounts {
    /// Adds a count of unlisted elements.
    pub(super) fn add(&mut self, stage: Stage, positions: Range<u64>, count: u64) {
        if self.0.len() == MAX_COUNTS {
            self.0.pop_front();
        }
        self.0.push_back(SkippedCount { stage, positions, taken: 0, remaining: count });
    }

    /// Records that so many elements within these positions are listed after all. Returns those that were explained in
    /// their place, with the positions within which they are.
    pub(super) fn listed(
        &mut self,
        positions: &Range<u64>,
        stage: Stage,
        mut elements: u64,
    ) -> Vec<(Range<u64>, u64)> {
        let mut withdrawn = Vec::new();
        for count in self.0.iter_mut().filter(|count| count.stage == stage && count.overlaps(positions)) {
            let left = elements.min(count.remaining);
            let taken = (elements - left).min(count.taken);
            count.remaining -= left;
            count.taken -= taken;
            elements -= left + taken;
            if taken > 0 {
                withdrawn.push((count.positions.clone(), taken));
            }
        }
        withdrawn
    }

    /// Returns the positions of the counts that may explain elements within these; empty: none may.
    pub(super) fn around(&self, positions: &Range<u64>) -> Range<u64> {
        let may = |count: &&SkippedCount| count.remaining > 0 && count.overlaps(positions);
        let start = self.0.iter().filter(may).map(|count| count.positions.start).min();
        let end = self.0.iter().filter(may).map(|count| count.positions.end).max();
        start.unwrap_or_default()..end.unwrap_or_default()
    }

    /// Explains elements of a gap that have neither number nor stage, where up to `hidden` elements of the same counts may
    /// lie elsewhere. If the totals are exact, elements between two tallies that the other stages' counts leave over have
    /// this one.
    pub(super) fn explain(&mut self, entry: &mut Entry, hidden: u64, counting: Counting) {
        for index in 0..self.0.len() {
            let SkippedCount { stage, ref positions, remaining, .. } = self.0[index];
            let (gap, open) = (&entry.gap.positions, entry.elements_without_stage());
            if remaining == 0 || open == 0 || !self.0[index].overlaps(gap) {
                continue;
            }
            let inside = gap.end.min(positions.end) - gap.start.max(positions.start);
            let inside = open.saturating_sub(entry.gap.len() - inside);
            let others = self.0.iter().filter(|other| other.stage != stage && other.overlaps(positions));
            let left_over = match counting {
                Counting::Exact => inside.saturating_sub(others.map(|other| other.remaining).sum()),
                Counting::WholeSamples => 0,
            };
            let count = left_over.max(remaining.saturating_sub(hidden)).min(open).min(remaining);
            self.0[index].remaining -= count;
            self.0[index].taken += count;
            entry.name_skipped_by_totals(stage, count);
        }
    }

    /// Forgets counts of elements below a position.
    pub(super) fn forget_below(&mut self, position: u64) {
        while self.0.front().is_some_and(|count| count.positions.end <= position) {
            self.0.pop_front();
        }
    }
}
