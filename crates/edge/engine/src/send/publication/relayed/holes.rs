//! The holes of a relayed stream whose outcomes may still change.
//!
//! An outcome is told of ranges of positions, in parts and more than once. Which element of several in a hole has which
//! outcome nobody knows: as in tallies, the outcomes of a range lie in it in their order.

use std::collections::BTreeMap;
use std::ops::Range;

use ledger::{HopCounts, HopShare, Outcome};

/// Maximum number of holes remembered, as many as a reader remembers gaps; of older ones outcomes no longer change.
const MAX_HOLES: usize = 8_192;
/// Maximum number of parts of a hole with different outcomes, so that a hostile peer cannot make one grow.
const MAX_PARTS: usize = 1_024;

/// Hop and outcome of elements.
type Cause = (u8, Outcome);

/// The newest holes, and the sum of all.
#[derive(Default)]
pub(super) struct Holes {
    /// By their first positions; the parts of each lie side by side.
    newest: BTreeMap<u64, Vec<(Range<u64>, Cause)>>,
    inherited: HopCounts,
}

impl Holes {
    /// Returns the outcomes of all elements that were ever in a hole.
    pub(super) const fn inherited(&self) -> &HopCounts {
        &self.inherited
    }

    /// Adds a hole behind all others.
    pub(super) fn push(&mut self, positions: Range<u64>, shares: &HopCounts) {
        self.inherited.add_all(shares);
        self.newest.insert(positions.start, in_order(&positions, shares).collect());
        if self.newest.len() > MAX_HOLES {
            self.newest.pop_first();
        }
    }

    /// Changes outcomes; returns the holes that changed, with all their outcomes.
    pub(super) fn settle(
        &mut self,
        positions: &Range<u64>,
        shares: &HopCounts,
    ) -> Vec<(Range<u64>, HopCounts)> {
        let first =
            self.newest.range(..=positions.start).next_back().map_or(positions.start, |(start, _)| *start);
        let mut news = Vec::new();
        for parts in self.newest.range_mut(first..positions.end).map(|(_, parts)| parts) {
            let before = sum(parts);
            for (range, cause) in in_order(positions, shares) {
                if parts.len() < MAX_PARTS {
                    overwrite(parts, &range, cause);
                }
            }
            let after = sum(parts);
            if before != after {
                self.inherited.subtract_all(&before);
                self.inherited.add_all(&after);
                let (first, last) = (&parts[0].0, &parts[parts.len() - 1].0);
                news.push((first.start..last.end, after));
            }
        }
        news
    }
}

/// Divides positions into ranges of one cause, in the order of the shares.
fn in_order(positions: &Range<u64>, shares: &HopCounts) -> impl Iterator<Item = (Range<u64>, Cause)> {
    let mut start = positions.start;
    shares.shares().map(move |HopShare { hop, outcome, count }| {
        let range = start..start + count;
        start = range.end;
        (range, (hop, outcome))
    })
}

/// Gives the part of a hole that lies in a range another cause.
fn overwrite(parts: &mut Vec<(Range<u64>, Cause)>, range: &Range<u64>, cause: Cause) {
    let mut after: Vec<(Range<u64>, Cause)> = Vec::with_capacity(parts.len() + 2);
    for (part, of_part) in parts.drain(..) {
        let start = range.start.clamp(part.start, part.end);
        let end = range.end.clamp(start, part.end);
        for (piece, cause) in [(part.start..start, of_part), (start..end, cause), (end..part.end, of_part)] {
            match after.last_mut() {
                _ if piece.is_empty() => {}
                Some((last, of_last)) if *of_last == cause => last.end = piece.end,
                _ => after.push((piece, cause)),
            }
        }
    }
    *parts = after;
}

fn sum(parts: &[(Range<u64>, Cause)]) -> HopCounts {
    let share = |(range, (hop, outcome)): &(Range<u64>, Cause)| HopShare {
        hop: *hop,
        outcome: *outcome,
        count: range.end - range.start,
    };
    parts.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::Stage;

    const WAITS: Cause = (1, Outcome::Unsettled);
    const LATE: Cause = (1, Outcome::Lost(Stage::Deadline));
    const LAG: Cause = (0, Outcome::Lost(Stage::ReaderLag));

    fn shares(of: &[(Cause, u64)]) -> HopCounts {
        of.iter()
            .map(|((hop, outcome), count)| HopShare { hop: *hop, outcome: *outcome, count: *count })
            .collect()
    }

    #[test]
    fn parts_of_a_hole_settle_one_by_one() {
        let mut holes = Holes::default();
        holes.push(10..20, &shares(&[(WAITS, 10)]));
        assert_eq!(
            holes.settle(&(12..15), &shares(&[(LATE, 3)])),
            [(10..20, shares(&[(WAITS, 7), (LATE, 3)]))]
        );
        assert_eq!(holes.settle(&(12..15), &shares(&[(LATE, 3)])), [], "nothing new");
        let all = shares(&[(LAG, 4), (LATE, 6)]);
        assert_eq!(holes.settle(&(10..20), &all), [(10..20, all.clone())]);
        assert_eq!(*holes.inherited(), all);
    }

    #[test]
    fn one_range_settles_in_all_holes_that_it_meets_and_nowhere_else() {
        let mut holes = Holes::default();
        for start in [0, 10, 30] {
            holes.push(start..start + 10, &shares(&[(WAITS, 10)]));
        }
        // Elements 20 to 30 arrived.
        let news = holes.settle(&(5..35), &shares(&[(LAG, 10), (LATE, 20)]));
        let expected = [
            (0..10, shares(&[(WAITS, 5), (LAG, 5)])),
            (10..20, shares(&[(LAG, 5), (LATE, 5)])),
            (30..40, shares(&[(LATE, 5), (WAITS, 5)])),
        ];
        assert_eq!(news, expected);
        assert_eq!(holes.inherited().total(), 30);
        assert_eq!(holes.settle(&(20..30), &shares(&[(LATE, 10)])), []);
    }

    #[test]
    fn old_holes_and_endless_parts_are_given_up() {
        let mut holes = Holes::default();
        for start in 0..=MAX_HOLES as u64 {
            holes.push(10 * start..10 * start + 10, &shares(&[(WAITS, 10)]));
        }
        assert_eq!(holes.settle(&(0..10), &shares(&[(LATE, 10)])), []);
        let mut holes = Holes::default();
        holes.push(0..10_000, &shares(&[(WAITS, 10_000)]));
        for at in (0..10_000).step_by(2) {
            holes.settle(&(at..at + 1), &shares(&[(LATE, 1)]));
        }
        assert!(holes.newest[&0].len() < MAX_PARTS + 2);
        assert_eq!(holes.inherited().total(), 10_000);
    }
}
