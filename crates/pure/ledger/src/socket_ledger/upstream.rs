//! Losses before a relay, as its tallies tell them: outcomes of ranges, and cumulative counts that repair the rest.
//!
//! A tally names the outcomes of its newest ranges only, and may be lost; its counts include all losses since the
//! stream's publisher began. What the counts rose by since the first tally, and no range told, belongs to elements of
//! which nothing else is known, oldest first.

use core::ops::Range;

use crate::causes::{Causes, Told};
use crate::{HopCounts, HopShare, Outcome};

/// Maximum number of ranges whose outcome is remembered, for gaps still to be declared, and so that ranges that are told
/// again are not counted twice; beyond it the lowest are forgotten. A relay repeats only its newest 16.
const MAX_TOLD_RANGES: usize = 4_096;

/// What the tallies of a relay told of earlier hops.
#[derive(Clone, Debug, Default)]
pub(super) struct Upstream {
    causes: Causes,
    /// Position below which ranges have been forgotten, and are told in vain.
    forgotten: u64,
    /// Elements whose outcome was told by range. A relay may tell it before its counts include it, so that those told
    /// before the first counts are among them, too: the counts never explain more than there is.
    named: HopCounts,
    totals: Option<Totals>,
}

#[derive(Clone, Debug)]
struct Totals {
    /// Counts of the first tally.
    first: HopCounts,
    /// Position of the newest one, and its counts.
    at: u64,
    newest: HopCounts,
}

/// Losses on earlier hops that no range told.
#[derive(Clone, Debug)]
pub(super) struct Untold {
    counts: HopCounts,
    /// Limit for each hop: a count of one stage may have moved to `unexplained` of its hop.
    per_hop: Vec<u64>,
}

impl Upstream {
    /// Records the outcome of a range; returns whether it is news.
    pub(super) fn remember(&mut self, positions: Range<u64>, told: Told) -> bool {
        let positions = positions.start.max(self.forgotten)..positions.end;
        if positions.is_empty() {
            return false;
        }
        let news = self.causes.insert(positions, told);
        self.forgotten = self.forgotten.max(self.causes.keep_newest(MAX_TOLD_RANGES));
        for (count, known) in &news {
            if let Some(known) = known.filter(|known| known.is_settled()) {
                self.named.take(known.share(*count));
            }
            if told.is_settled() {
                self.named.add(told.share(*count));
            }
        }
        !news.is_empty()
    }

    /// Returns the known outcomes of these positions.
    pub(super) fn within(&self, positions: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Told)> + use<> {
        self.causes.within(positions)
    }

    /// Records the counts of a tally at this position.
    pub(super) fn counts(&mut self, at: u64, counts: &HopCounts) {
        match &mut self.totals {
            Some(totals) if at >= totals.at => {
                totals.at = at;
                totals.newest.clone_from(counts);
            }
            Some(_) => {}
            None => self.totals = Some(Totals { first: counts.clone(), at, newest: counts.clone() }),
        }
    }

    /// Begins anew for the next account of the epoch: earlier losses are in the one before.
    pub(super) fn begin_again(&mut self) {
        if let Some(totals) = &mut self.totals {
            totals.first.clone_from(&totals.newest);
            self.named = HopCounts::default();
        }
    }

    /// Returns the losses that were counted since the first tally and not told by range.
    pub(super) fn untold(&self) -> Option<Untold> {
        let Totals { first, newest, .. } = self.totals.as_ref()?;
        let (mut counts, mut per_hop) = (HopCounts::default(), Vec::new());
        for (hop, rows) in (0..).zip(newest.hops()) {
            let before = first.rows(hop);
            let told = self.named.rows(hop);
            per_hop.push(rows.total().saturating_sub(before.total()).saturating_sub(told.total()));
            for (outcome, count) in rows.nonzero() {
                let before = before.count(outcome).saturating_add(told.count(outcome));
                let count = count.saturating_sub(before);
                if count > 0 {
                    counts.add(HopShare { hop, outcome, count });
                }
            }
        }
        Some(Untold { counts, per_hop })
    }
}

impl Untold {
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of losses.
    pub(super) fn len(&self) -> u64 {
        let of_hop = |(hop, limit): (u8, &u64)| self.counts.rows(hop).total().min(*limit);
        (0..).zip(&self.per_hop).map(of_hop).sum()
    }

    /// Takes up to this number of losses, on this hop if one is given.
    pub(super) fn take(&mut self, mut wanted: u64, hop: Option<u8>) -> HopCounts {
        let mut taken = HopCounts::default();
        for share in self.counts.clone().shares().filter(|share| hop.is_none_or(|hop| share.hop == hop)) {
            let limit = &mut self.per_hop[usize::from(share.hop)];
            let share = HopShare { count: share.count.min(wanted).min(*limit), ..share };
            if share.count > 0 {
                wanted -= share.count;
                *limit -= share.count;
                self.counts.subtract(share);
                taken.add(share);
            }
        }
        taken
    }

    /// Takes losses for elements of a gap: for those told as unsettled on a hop from that hop, and for this number of
    /// others from any.
    pub(super) fn take_for(&mut self, open: &HopCounts, others: u64) -> (HopCounts, HopCounts) {
        let mut of_open = HopCounts::default();
        for share in open.shares().filter(|share| share.outcome == Outcome::Unsettled) {
            of_open.add_all(&self.take(share.count, Some(share.hop)));
        }
        (of_open, self.take(others, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;

    const LATE: Outcome = Outcome::Lost(Stage::Late);

    fn counts(shares: &[(u8, Outcome, u64)]) -> HopCounts {
        shares.iter().map(|&(hop, outcome, count)| HopShare { hop, outcome, count }).collect()
    }

    #[test]
    fn what_rose_and_was_not_told_is_left() {
        let mut upstream = Upstream::default();
        assert!(upstream.untold().is_none());
        upstream.counts(100, &counts(&[(0, LATE, 50)]));
        upstream.remember(110..114, Told { hop: 0, outcome: LATE, cause: None });
        upstream.remember(114..120, Told { hop: 0, outcome: Outcome::Unsettled, cause: None });
        upstream.counts(200, &counts(&[(0, LATE, 60), (1, Outcome::Unexplained, 2)]));
        upstream.counts(150, &counts(&[(0, LATE, 90)]));
        let mut untold = upstream.untold().unwrap();
        assert_eq!(untold.counts, counts(&[(0, LATE, 6), (1, Outcome::Unexplained, 2)]));
        let open = counts(&[(0, Outcome::Unsettled, 5)]);
        let (of_open, others) = untold.take_for(&open, 9);
        assert_eq!((of_open.total(), others.total()), (5, 3), "five of hop 0, then all that is left");
        upstream.begin_again();
        assert_eq!(upstream.untold().unwrap().counts, HopCounts::default());
    }

    #[test]
    fn what_is_forgotten_is_not_counted_again() {
        let mut upstream = Upstream::default();
        upstream.counts(0, &HopCounts::default());
        for _ in 0..3 {
            upstream.remember(0..1 << 58, Told { hop: 0, outcome: LATE, cause: None });
            for start in 0..MAX_TOLD_RANGES as u64 {
                let start = (1 << 58) + 2 * start;
                upstream.remember(start..start + 1, Told { hop: 1, outcome: LATE, cause: None });
            }
        }
        assert_eq!(upstream.causes.len(), MAX_TOLD_RANGES);
        let named = &upstream.named;
        assert_eq!((named.rows(0).total(), named.rows(1).total()), (1 << 58, MAX_TOLD_RANGES as u64));
    }

    #[test]
    fn a_count_that_moved_to_unexplained_is_not_taken_twice() {
        let mut upstream = Upstream::default();
        upstream.counts(0, &HopCounts::default());
        upstream.remember(0..7, Told { hop: 0, outcome: LATE, cause: None });
        upstream.counts(9, &counts(&[(0, Outcome::Unexplained, 8)]));
        assert_eq!(upstream.untold().unwrap().take(9, None).total(), 1);
    }
}
