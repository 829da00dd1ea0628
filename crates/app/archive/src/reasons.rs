//! Reasons why elements are missing, from the gap records that cover a range of positions.

use core::ops::Range;

use ledger::{GapKind, StageCounts};
use serde::Serialize;

use crate::gaps::GapRecord;

/// Missing elements by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Reasons {
    /// Lost elements by stage.
    pub lost: StageCounts,
    /// Elements without evidence in time, or without a record.
    pub unexplained: u64,
    /// Elements for which evidence may still come.
    pub unsettled: u64,
    /// Elements of a time without a recorder or without a publisher.
    pub reader_absent: u64,
}

impl Reasons {
    /// Returns the reasons for a range of missing elements, from gap records.
    ///
    /// Units: positions, as in [`GapRecord::positions`].
    #[must_use]
    pub fn of<'a>(positions: &Range<u64>, gaps: impl IntoIterator<Item = &'a GapRecord>) -> Self {
        let mut reasons = Self::default();
        let touches =
            |gap: &&GapRecord| gap.positions.start < positions.end && positions.start < gap.positions.end;
        gaps.into_iter().filter(touches).for_each(|gap| reasons.count(gap, positions));
        // Elements without a record are missing all the same.
        reasons.unexplained += (positions.end - positions.start).saturating_sub(reasons.total());
        reasons
    }

    /// Returns the total number of elements.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lost.total() + self.unexplained + self.unsettled + self.reader_absent
    }

    /// Adds the counts of other elements.
    pub fn add(&mut self, other: &Self) {
        self.lost.add(&other.lost);
        self.unexplained += other.unexplained;
        self.unsettled += other.unsettled;
        self.reader_absent += other.reader_absent;
    }

    /// Returns the names of all nonzero reasons with their counts, stages first.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let stages = self.lost.nonzero().map(|(stage, count)| (stage.name(), count));
        let rest = [
            ("unexplained", self.unexplained),
            ("unsettled", self.unsettled),
            ("reader_absent", self.reader_absent),
        ];
        stages.chain(rest.into_iter().filter(|(_, count)| *count > 0))
    }

    fn count(&mut self, gap: &GapRecord, missing: &Range<u64>) {
        let overlap = gap.positions.end.min(missing.end) - gap.positions.start.max(missing.start);
        match gap.kind {
            GapKind::ReaderAbsent | GapKind::PublisherAbsent => self.reader_absent += overlap,
            GapKind::Missing if missing.start <= gap.positions.start && gap.positions.end <= missing.end => {
                self.lost.add(&gap.lost);
                self.unexplained += gap.unexplained;
                self.unsettled += gap.unsettled;
            }
            // Only a part of the gap is in the range, and the exact places of its stages are not known.
            GapKind::Missing => match gap.leading_stage() {
                Some(stage) => self.lost[stage] += overlap.min(gap.lost[stage]),
                None => self.unexplained += overlap.min(gap.unexplained + gap.unsettled),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::{GapKey, Origin};
    use ledger::Stage;
    use units::WallTime;

    fn gap(positions: Range<u64>, injected: u64, unexplained: u64) -> GapRecord {
        GapRecord {
            key: GapKey { session: 1, origin: Origin::Reader, id: positions.start },
            kind: GapKind::Missing,
            positions,
            numbers: 0..0,
            lost: StageCounts::of(Stage::Injected, injected),
            inherited: ledger::HopCounts::default(),
            unexplained,
            unsettled: 0,
            apportioned: false,
            t0: WallTime::default(),
            t1: None,
            evidence: Vec::new(),
        }
    }

    #[test]
    fn every_missing_element_has_one_reason() {
        let gaps = [gap(0..10, 10, 0), gap(20..30, 6, 4), gap(40..50, 0, 10)];
        let reasons = |positions: Range<u64>| {
            let reasons = Reasons::of(&positions, &gaps);
            assert_eq!(reasons.total(), positions.end - positions.start);
            (reasons.lost[Stage::Injected], reasons.unexplained)
        };
        assert_eq!(reasons(0..50), (16, 34), "20 of which no record speaks");
        assert_eq!(reasons(25..30), (5, 0), "a part of a gap goes by its leading stage");
        assert_eq!(reasons(45..60), (0, 15));
        assert_eq!(reasons(10..20), (0, 10));
    }

    #[test]
    fn a_time_in_which_nobody_recorded_is_its_own_reason() {
        let absent = GapRecord { kind: GapKind::ReaderAbsent, ..gap(5..15, 0, 0) };
        let reasons = Reasons::of(&(0..10), &[absent]);
        assert_eq!((reasons.reader_absent, reasons.unexplained), (5, 5));
        assert_eq!(reasons.named().collect::<Vec<_>>(), [("unexplained", 5), ("reader_absent", 5)]);
    }
}
