//! The newest ranges of positions that never got a number, each with its cause.

use std::collections::VecDeque;

use ledger::Stage;
use wire::{MAX_RANGES, Skipped};

use super::queue::{goes_on_with, without};

/// Maximum number of settled ranges that wait to be listed. Of more, the oldest are left to the cumulative counts of
/// the hops before.
const MAX_SETTLED: usize = 1_024;

/// The ranges of the next tally, oldest first.
#[derive(Debug)]
pub(in crate::sender) struct Ranges {
    listed: Vec<Skipped>,
    /// Ranges whose cause has become known since they were listed.
    settled: VecDeque<Skipped>,
}

impl Ranges {
    /// Lists what was never offered on this hop: everything below the first position.
    pub(super) fn new(first_position: u64) -> Self {
        let never_offered = Skipped { positions: 0..first_position, stage: Stage::Source, inherited: None };
        let listed = if first_position > 0 { vec![never_offered] } else { Vec::new() };
        Self { listed, settled: VecDeque::new() }
    }

    /// Lists a range; returns whether it is not just more of the last one.
    pub(super) fn list(&mut self, hole: Skipped) -> bool {
        if let Some(last) = self.listed.last_mut()
            && goes_on_with(last, &hole)
        {
            last.positions.end = hole.positions.end;
            return false;
        }
        if self.listed.len() == MAX_RANGES {
            self.listed.remove(0);
        }
        self.listed.push(hole);
        true
    }

    /// Takes the new cause of a range that was skipped; empty ones have none.
    pub(super) fn settle(&mut self, settled: Skipped) {
        if settled.positions.is_empty() {
            return;
        }
        if self.settled.len() == MAX_SETTLED {
            self.settled.pop_front();
        }
        self.settled.push_back(settled);
    }

    /// Returns whether settled ranges wait to be listed.
    pub(super) fn is_settling(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Lists the next settled range with its new cause, and with no other; returns the number of ranges that this adds, 0
    /// if none has settled.
    pub(super) fn relist(&mut self) -> usize {
        let Some(settled) = self.settled.pop_front() else { return 0 };
        let before = self.listed.len();
        for range in core::mem::take(&mut self.listed) {
            let parts = without(range, &settled.positions).into_iter();
            self.listed.extend(parts.filter(|part| !part.positions.is_empty()));
        }
        match self.listed.last_mut() {
            Some(last) if goes_on_with(last, &settled) => last.positions.end = settled.positions.end,
            _ => self.listed.push(settled),
        }
        let added = self.listed.len().saturating_sub(before).max(1);
        self.listed.drain(..self.listed.len().saturating_sub(MAX_RANGES));
        added
    }

    /// Returns the ranges of the next tally.
    pub(in crate::sender) fn listed(&self) -> &[Skipped] {
        &self.listed
    }
}

#[cfg(test)]
mod tests {
    use core::ops::Range;

    use ledger::Outcome;
    use wire::Inherited;

    use super::*;

    const UNSETTLED: Inherited = Inherited { hop: 0, outcome: Outcome::Unsettled, cause: None };
    const NETWORK: Inherited = Inherited { hop: 0, outcome: Outcome::Lost(Stage::Network), cause: None };

    fn inherited(positions: Range<u64>, cause: Inherited) -> Skipped {
        Skipped { positions, stage: Stage::Source, inherited: Some(cause) }
    }

    fn told(ranges: &Ranges) -> Vec<(Range<u64>, Inherited)> {
        let of = |range: &Skipped| (range.positions.clone(), range.inherited.unwrap());
        ranges.listed().iter().map(of).collect()
    }

    #[test]
    fn ranges_grow_while_cause_and_stage_are_the_same() {
        let mut ranges = Ranges::new(0);
        assert!(ranges.list(inherited(4..6, UNSETTLED)));
        assert!(!ranges.list(inherited(6..9, UNSETTLED)));
        assert!(ranges.list(inherited(9..10, NETWORK)));
        assert!(ranges.list(inherited(11..12, NETWORK)));
        assert_eq!(told(&ranges), [(4..9, UNSETTLED), (9..10, NETWORK), (11..12, NETWORK)]);
    }

    #[test]
    fn what_settles_is_listed_again_with_its_new_cause_alone() {
        let mut ranges = Ranges::new(0);
        ranges.list(inherited(10..30, UNSETTLED));
        ranges.list(inherited(40..50, UNSETTLED));
        ranges.settle(inherited(15..20, NETWORK));
        ranges.settle(inherited(20..20, NETWORK));
        assert_eq!((ranges.relist(), ranges.relist()), (2, 0));
        let rest = [(10..15, UNSETTLED), (20..30, UNSETTLED), (40..50, UNSETTLED), (15..20, NETWORK)];
        assert_eq!(told(&ranges), rest);
    }

    #[test]
    fn only_the_newest_are_listed_and_what_was_never_offered_has_no_cause() {
        let mut ranges = Ranges::new(7);
        assert_eq!((ranges.listed().len(), ranges.listed()[0].inherited), (1, None));
        for at in 0..MAX_RANGES as u64 {
            ranges.list(inherited(10 + 2 * at..11 + 2 * at, NETWORK));
        }
        assert_eq!(ranges.listed()[0].positions, 10..11);
        ranges.settle(inherited(12..13, UNSETTLED));
        ranges.settle(inherited(0..1, UNSETTLED));
        while ranges.relist() > 0 {}
        let told = told(&ranges);
        assert_eq!(told.len(), MAX_RANGES);
        assert_eq!(told[MAX_RANGES - 2..], [(12..13, UNSETTLED), (0..1, UNSETTLED)]);
    }

    #[test]
    fn of_too_many_that_settle_the_oldest_are_left_out() {
        let mut ranges = Ranges::new(0);
        (0..=MAX_SETTLED as u64).for_each(|at| ranges.settle(inherited(2 * at..2 * at + 1, NETWORK)));
        assert_eq!((ranges.settled.len(), ranges.settled[0].positions.start), (MAX_SETTLED, 2));
    }
}
