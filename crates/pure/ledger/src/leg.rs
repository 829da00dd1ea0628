//! The account of a reader behind a ring: what the bridge delivered since the reader joined, less what the
//! ring took back before the reader came to it.

use core::ops::Range;
use std::collections::BTreeMap;

use units::RangeSet;

use crate::shares::Shares;
use crate::{Account, AccountState, Gap, ReaderRows, Stage};

/// A reader's running account over the records of a ring.
///
/// Every record carries the cumulative elements delivered and missing before it, so a reader that was lapped
/// takes differences: what had been delivered is `reader_lag`, what had been missing is missing here too.
///
/// Source: architecture, "The account, precisely", rule 11.
#[derive(Clone, Debug)]
pub struct Leg {
    per_sample: u32,
    first_position: u64,
    next_position: u64,
    delivered: u64,
    reader_lag: u64,
    /// The bridge's running totals as they should stand before the next record.
    totals: Totals,
    gaps: BTreeMap<u64, Shares>,
    missing: Shares,
    /// Elements missing in records that were lapped, and where; their stages are told by settlements.
    lapped_missing: u64,
    lapped: RangeSet,
    state: AccountState,
}

/// Cumulative elements before a record: delivered and missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Totals {
    delivered: u64,
    missing: u64,
}

impl Leg {
    /// Opens the account at a record that begins at `position` and carries these `[delivered, missing]`.
    ///
    /// # Panics
    /// If `position` is inside a sample.
    #[must_use]
    pub fn join(per_sample: u32, totals: [u64; 2], position: u64) -> Self {
        assert!(position.is_multiple_of(u64::from(per_sample)), "an account begins with a whole sample");
        let [delivered, missing] = totals;
        Self {
            per_sample,
            first_position: position,
            next_position: position,
            delivered: 0,
            reader_lag: 0,
            totals: Totals { delivered, missing },
            gaps: BTreeMap::new(),
            missing: Shares::default(),
            lapped_missing: 0,
            lapped: RangeSet::new(),
            state: AccountState::Open,
        }
    }

    /// Books a record of elements that the reader was handed.
    pub fn delivered(&mut self, positions: Range<u64>) {
        let elements = positions.end - positions.start;
        self.delivered += elements;
        self.totals.delivered += elements;
        self.next_position = positions.end;
    }

    /// Books a gap that was declared in the flow of records.
    pub fn gap(&mut self, gap: &Gap) {
        self.totals.missing += gap.len();
        self.next_position = gap.positions.end;
        self.replace(gap);
    }

    /// Books news of a gap: its stages changed.
    pub fn settled(&mut self, gap: &Gap) {
        if self.gaps.contains_key(&gap.id) {
            self.replace(gap);
        } else if self.lapped.count_in(gap.positions.clone()) == gap.len() && gap.len() <= self.lapped_missing
        {
            self.lapped_missing -= gap.len();
            self.lapped.remove(gap.positions.clone());
            self.replace(gap);
        }
        // Otherwise the gap was declared before this reader joined: not its loss.
    }

    /// Books that the ring overtook the reader, who goes on at a record with these `[delivered, missing]`.
    ///
    /// Returns the positions that the reader was not handed.
    pub fn lapped(&mut self, totals: [u64; 2]) -> Range<u64> {
        let [delivered, missing] = totals;
        let lost = delivered - self.totals.delivered;
        let gone = missing - self.totals.missing;
        self.totals = Totals { delivered, missing };
        self.reader_lag += lost;
        self.lapped_missing += gone;
        let span = self.next_position..self.next_position + lost + gone;
        self.lapped.insert(span.clone());
        self.next_position = span.end;
        span
    }

    /// Ends the account with the bridge's own: what it knows of lapped gaps is taken over, the rest of them
    /// is unexplained.
    pub fn end(&mut self, bridge: &Account) {
        for gap in &bridge.gaps {
            self.settled(gap);
        }
        self.finish(bridge.state);
    }

    /// Ends the account because the reader leaves: what is unsettled becomes unexplained.
    pub fn cut(&mut self) {
        self.finish(AccountState::Cut);
    }

    fn finish(&mut self, state: AccountState) {
        self.state = state;
        self.missing.unexplained += self.lapped_missing + self.missing.unsettled;
        self.missing.unsettled = 0;
        self.lapped_missing = 0;
    }

    /// Returns one behind the last position accounted for.
    #[must_use]
    pub const fn next_position(&self) -> u64 {
        self.next_position
    }

    /// Returns the reader's rows.
    #[must_use]
    pub fn rows(&self) -> ReaderRows {
        let per_sample = u64::from(self.per_sample);
        let next = self.next_position.div_ceil(per_sample);
        let mut lost = self.missing.lost;
        lost[Stage::ReaderLag] += self.reader_lag;
        ReaderRows {
            first: self.first_position / per_sample,
            next,
            per_sample: self.per_sample,
            delivered: self.delivered,
            lost,
            unexplained: self.missing.unexplained,
            unsettled: self.missing.unsettled + self.lapped_missing,
            in_flight: next * per_sample - self.next_position,
        }
    }

    /// Returns where the account stands.
    #[must_use]
    pub const fn state(&self) -> AccountState {
        self.state
    }

    fn replace(&mut self, gap: &Gap) {
        let shares = Shares { lost: gap.lost, unexplained: gap.unexplained, unsettled: gap.unsettled };
        if let Some(before) = self.gaps.insert(gap.id, shares) {
            self.missing.subtract(&before);
        }
        self.missing.add(&shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GapKind, StageCounts};

    fn gap(id: u64, positions: Range<u64>, lost: StageCounts) -> Gap {
        let unsettled = positions.end - positions.start - lost.total();
        let (kind, evidence) = (GapKind::Missing, Vec::new());
        Gap {
            id,
            kind,
            positions,
            numbers: 0..1,
            lost,
            unexplained: 0,
            unsettled,
            apportioned: false,
            evidence,
        }
    }

    #[test]
    fn a_lapped_reader_takes_differences() {
        let mut leg = Leg::join(2, [100, 10], 110);
        leg.delivered(110..120);
        assert_eq!(leg.lapped([150, 14]), 120..164);
        leg.delivered(164..170);
        let rows = leg.rows();
        assert_eq!((rows.delivered, rows.lost[Stage::ReaderLag], rows.unsettled), (16, 40, 4));
        assert_eq!(rows.check(), Ok(()));
    }

    #[test]
    fn settlements_of_lapped_gaps_find_their_way() {
        let mut leg = Leg::join(1, [0, 0], 0);
        leg.lapped([6, 4]);
        leg.settled(&gap(3, 2..5, StageCounts::of(Stage::Injected, 3)));
        let rows = leg.rows();
        assert_eq!((rows.lost[Stage::Injected], rows.unsettled), (3, 1));
        leg.cut();
        assert_eq!(leg.rows().unexplained, 1);
        assert_eq!(leg.rows().check(), Ok(()));
    }

    #[test]
    fn what_was_lost_before_the_reader_joined_is_not_its_loss() {
        let mut leg = Leg::join(1, [5, 5], 10);
        leg.settled(&gap(0, 2..7, StageCounts::of(Stage::Late, 5)));
        assert_eq!(leg.rows().lost.total(), 0);
        leg.gap(&gap(1, 10..12, StageCounts::default()));
        leg.settled(&gap(1, 10..12, StageCounts::of(Stage::Injected, 2)));
        assert_eq!(leg.rows().lost[Stage::Injected], 2);
        assert_eq!(leg.rows().check(), Ok(()));
    }
}
