//! Elements that could not be written, until the gap map can be: bounded, however long the disk refuses.

use core::ops::Range;

use ledger::{Stage, StageCounts};
use units::RangeSet;

use crate::gaps::GapRecord;

/// Maximum number of separate ranges; more are reported as one span with a count.
const MAX_RANGES: usize = 1_024;

/// Elements that were given up, by position.
#[derive(Default)]
pub(super) struct Outage {
    ranges: RangeSet,
    folded: Option<Loss>,
}

/// Loss that becomes a gap of the archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loss {
    pub(super) positions: Range<u64>,
    pub(super) lost: StageCounts,
    pub(super) unexplained: u64,
    /// True if the span has other elements too; the counts are exact, their places are unknown.
    pub(super) apportioned: bool,
}

impl Outage {
    /// Adds elements that could not be written; returns the number of new ones.
    pub(super) fn add(&mut self, positions: Range<u64>) -> u64 {
        let added = self.ranges.insert(positions);
        if self.ranges.range_count() > MAX_RANGES {
            let ranges = core::mem::take(&mut self.ranges);
            let hull = ranges.iter().next().map_or(0, |range| range.start)
                ..ranges.iter().next_back().map_or(0, |range| range.end);
            self.fold(hull, &StageCounts::of(Stage::ArchiveWrite, ranges.len()), 0);
        }
        added
    }

    /// Adds a gap of the reader that could not be kept either; its counts are kept, its evidence is dropped.
    pub(super) fn add_gap(&mut self, gap: &GapRecord) {
        self.fold(gap.positions.clone(), &gap.lost, gap.unexplained + gap.unsettled);
    }

    fn fold(&mut self, positions: Range<u64>, lost: &StageCounts, unexplained: u64) {
        let none = Loss {
            positions: positions.clone(),
            lost: StageCounts::default(),
            unexplained: 0,
            apportioned: true,
        };
        let folded = self.folded.get_or_insert(none);
        folded.positions.start = folded.positions.start.min(positions.start);
        folded.positions.end = folded.positions.end.max(positions.end);
        folded.lost.add(lost);
        folded.unexplained += unexplained;
    }

    /// Takes all losses out, in the order of the stream.
    pub(super) fn take(&mut self) -> Vec<Loss> {
        let plain = |range: Range<u64>| Loss {
            lost: StageCounts::of(Stage::ArchiveWrite, range.end - range.start),
            positions: range,
            unexplained: 0,
            apportioned: false,
        };
        let ranges = core::mem::take(&mut self.ranges);
        self.folded.take().into_iter().chain(ranges.iter().map(plain)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_more_than_fits_makes_one_span_with_the_exact_count() {
        let mut outage = Outage::default();
        for range in 0..MAX_RANGES as u64 {
            assert_eq!(outage.add(range * 10..range * 10 + 3), 3);
        }
        assert_eq!(outage.ranges.range_count(), MAX_RANGES);
        outage.add(50_000..50_001);
        let losses = outage.take();
        assert_eq!(losses.len(), 1);
        assert_eq!(losses[0].positions, 0..50_001);
        assert_eq!(losses[0].lost[Stage::ArchiveWrite], MAX_RANGES as u64 * 3 + 1);
        assert!(losses[0].apportioned && outage.take().is_empty());
    }
}
