//! Where readers were told the outcomes of a range to be, as long as some of its elements are unsettled.
//!
//! A relay knows the outcomes within a range by their counts alone, and lays them out in an order of its own. Readers keep
//! what they were told of an element, so those that settle must be those that were told to be unsettled.

use core::ops::Range;
use std::collections::VecDeque;

use ledger::{HopCounts, HopShare, Outcome, Stage};
use wire::{Inherited, Skipped};

/// Maximum number of ranges that are remembered. Those that settle later are laid out anew, and the cumulative counts of
/// the hops before repair what readers make of it.
const MAX_RANGES: usize = 1_024;

/// Ranges with unsettled elements, each as its parts of one outcome.
#[derive(Debug, Default)]
pub(super) struct Unsettled(VecDeque<Vec<Skipped>>);

impl Unsettled {
    /// Lays out the outcomes of a range that is told for the first time.
    pub(super) fn tell(&mut self, positions: &Range<u64>, shares: &HopCounts) -> Vec<Skipped> {
        let parts = laid_out(positions.clone(), counts_of(shares));
        self.remember(&parts);
        parts
    }

    /// Returns the parts of a range whose outcome is another one than was told.
    pub(super) fn settle(&mut self, positions: &Range<u64>, shares: &HopCounts) -> Vec<Skipped> {
        let known = self.0.iter().position(|parts| span(parts) == *positions);
        let before = known.and_then(|place| self.0.remove(place));
        let Some((now, news)) = before.and_then(|parts| settled(&parts, counts_of(shares))) else {
            self.0.retain(|parts| !overlap(&span(parts), positions));
            return self.tell(positions, shares);
        };
        self.remember(&now);
        news
    }

    fn remember(&mut self, parts: &[Skipped]) {
        if !parts.iter().any(is_unsettled) {
            return;
        }
        if self.0.len() == MAX_RANGES {
            self.0.pop_front();
        }
        self.0.push_back(parts.to_vec());
    }
}

/// Lays the outcomes that are not told yet out over the unsettled parts, while the settled ones stay. Returns all parts, and
/// those with another outcome than before; `None` if the outcome of a settled part has changed.
fn settled(parts: &[Skipped], mut counts: Vec<(Inherited, u64)>) -> Option<(Vec<Skipped>, Vec<Skipped>)> {
    for part in parts.iter().filter(|part| !is_unsettled(part)) {
        let (_, count) = counts.iter_mut().find(|(outcome, _)| Some(*outcome) == part.inherited)?;
        *count = count.checked_sub(super::len(&part.positions))?;
    }
    let (mut now, mut news) = (Vec::new(), Vec::new());
    for part in parts {
        if !is_unsettled(part) {
            now.push(part.clone());
            continue;
        }
        let mut open = part.positions.clone();
        while !open.is_empty() {
            let (outcome, count) = counts.iter_mut().find(|(_, count)| *count > 0)?;
            let taken = (*count).min(super::len(&open));
            *count -= taken;
            let piece = inherited(open.start..open.start + taken, *outcome);
            open.start += taken;
            if piece.inherited != part.inherited {
                news.push(piece.clone());
            }
            now.push(piece);
        }
    }
    Some((now, news))
}

/// Splits positions into ranges of one outcome, in the order of the counts.
fn laid_out(positions: Range<u64>, counts: Vec<(Inherited, u64)>) -> Vec<Skipped> {
    let mut start = positions.start;
    let part = |(outcome, count): (Inherited, u64)| {
        let range = start..start + count;
        start = range.end;
        inherited(range, outcome)
    };
    counts.into_iter().map(part).collect()
}

fn counts_of(shares: &HopCounts) -> Vec<(Inherited, u64)> {
    let of = |HopShare { hop, outcome, count }| (Inherited { hop, outcome, cause: None }, count);
    shares.shares().map(of).collect()
}

const fn inherited(positions: Range<u64>, outcome: Inherited) -> Skipped {
    Skipped { positions, stage: Stage::Source, inherited: Some(outcome) }
}

fn is_unsettled(part: &Skipped) -> bool {
    part.inherited.is_some_and(|it| it.outcome == Outcome::Unsettled)
}

fn span(parts: &[Skipped]) -> Range<u64> {
    let [start, end] = [parts.first(), parts.last()].map(|part| part.map(|it| &it.positions));
    start.map_or(0, |first| first.start)..end.map_or(0, |last| last.end)
}

const fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares<const N: usize>(shares: [(u8, Outcome, u64); N]) -> HopCounts {
        shares.into_iter().map(|(hop, outcome, count)| HopShare { hop, outcome, count }).collect()
    }

    fn told(parts: &[Skipped]) -> Vec<(Range<u64>, u8, Outcome)> {
        let of = |part: &Skipped| {
            let Inherited { hop, outcome, .. } = part.inherited.unwrap();
            (part.positions.clone(), hop, outcome)
        };
        parts.iter().map(of).collect()
    }

    const DEADLINE: Outcome = Outcome::Lost(Stage::Deadline);

    #[test]
    fn elements_settle_where_they_were_told_to_be_unsettled_whichever_hop_they_were_lost_on() {
        let mut unsettled = Unsettled::default();
        let before = shares([(0, Outcome::Unexplained, 4), (1, DEADLINE, 8), (1, Outcome::Unsettled, 6)]);
        let parts = unsettled.tell(&(100..118), &before);
        assert_eq!(
            told(&parts),
            [(100..104, 0, Outcome::Unexplained), (104..112, 1, DEADLINE), (112..118, 1, Outcome::Unsettled)]
        );
        let between = shares([(0, Outcome::Unexplained, 8), (1, DEADLINE, 8), (1, Outcome::Unsettled, 2)]);
        let news = unsettled.settle(&(100..118), &between);
        assert_eq!(told(&news), [(112..116, 0, Outcome::Unexplained)]);
        let after = shares([(0, Outcome::Unexplained, 8), (1, DEADLINE, 10)]);
        let news = unsettled.settle(&(100..118), &after);
        assert_eq!(told(&news), [(116..118, 1, DEADLINE)]);
        assert!(unsettled.0.is_empty(), "nothing is left to settle");
    }

    #[test]
    fn what_is_not_remembered_or_contradicts_what_was_told_is_laid_out_anew() {
        let mut unsettled = Unsettled::default();
        let before = shares([(1, DEADLINE, 8), (1, Outcome::Unsettled, 2)]);
        unsettled.tell(&(0..10), &before);
        let fewer = shares([(0, Outcome::Unexplained, 4), (1, DEADLINE, 6)]);
        let anew = [(0..4, 0, Outcome::Unexplained), (4..10, 1, DEADLINE)];
        assert_eq!(told(&unsettled.settle(&(0..10), &fewer)), anew);
        unsettled.tell(&(0..10), &before);
        let part = shares([(0, Outcome::Unexplained, 4)]);
        assert_eq!(told(&unsettled.settle(&(6..10), &part)), [(6..10, 0, Outcome::Unexplained)]);
        assert!(unsettled.0.is_empty(), "what was told of it holds no more");
    }

    #[test]
    fn of_too_many_ranges_the_oldest_are_forgotten() {
        let mut unsettled = Unsettled::default();
        let one = shares([(0, Outcome::Unsettled, 1)]);
        (0..2_000).for_each(|at| drop(unsettled.tell(&(at..at + 1), &one)));
        assert_eq!(unsettled.0.len(), MAX_RANGES);
        assert_eq!(unsettled.0[0][0].positions, 976..977);
    }
}
