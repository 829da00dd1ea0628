//! Outcomes of elements on earlier hops, by their positions.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::{Cause, HopShare, Outcome};

/// Outcome of an element on an earlier hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub(crate) hop: u8,
    pub(crate) outcome: Outcome,
    /// Why the link gave it up, if that is told.
    pub(crate) cause: Option<Cause>,
}

/// Runs of positions with their outcomes, disjoint.
#[derive(Clone, Default, Debug)]
pub(crate) struct Causes {
    /// End and outcome of each run, by its start.
    runs: BTreeMap<u64, (u64, Told)>,
}

impl Told {
    /// Returns whether it is known where the element was lost, or that nobody will know.
    pub(crate) fn is_settled(self) -> bool {
        self.outcome != Outcome::Unsettled
    }

    pub(crate) const fn share(self, count: u64) -> HopShare {
        HopShare { hop: self.hop, outcome: self.outcome, count }
    }

    /// Returns whether this is news: tallies may arrive in another order, and what was known remains known.
    fn replaces(self, known: Self) -> bool {
        const fn rank(told: Told) -> u8 {
            match told.outcome {
                Outcome::Unsettled => 0,
                Outcome::Unexplained => 1,
                Outcome::Lost(_) => 2,
            }
        }
        self != known && rank(self) >= rank(known)
    }
}

impl Causes {
    /// Records the outcome of these positions; returns the numbers of elements for which it is news, with the outcome
    /// known before.
    pub(crate) fn insert(&mut self, positions: Range<u64>, told: Told) -> Vec<(u64, Option<Told>)> {
        let Range { start, end } = positions;
        let (mut news, mut at) = (Vec::new(), start);
        for (run, known) in self.overlapping(start..end) {
            let inside = run.start.max(start)..run.end.min(end);
            self.put_new(at..inside.start, told, &mut news);
            at = inside.end;
            if told.replaces(known) {
                self.runs.remove(&run.start);
                self.put(run.start..inside.start, known);
                self.put(inside.end..run.end, known);
                self.put(inside.clone(), told);
                news.push((inside.end - inside.start, Some(known)));
            }
        }
        self.put_new(at..end, told, &mut news);
        news
    }

    fn put_new(&mut self, run: Range<u64>, told: Told, news: &mut Vec<(u64, Option<Told>)>) {
        if run.start < run.end {
            news.push((run.end - run.start, None));
        }
        self.put(run, told);
    }

    fn put(&mut self, run: Range<u64>, told: Told) {
        if run.start < run.end {
            self.runs.insert(run.start, (run.end, told));
        }
    }

    fn overlapping(&self, positions: Range<u64>) -> Vec<(Range<u64>, Told)> {
        let before = self.runs.range(..positions.start).next_back();
        let inside = self.runs.range(positions.start..positions.end.max(positions.start));
        let all = before.into_iter().chain(inside).map(|(start, (end, told))| (*start..*end, *told));
        all.filter(|(run, _)| run.end > positions.start).collect()
    }

    /// Returns the parts of these positions whose outcome is known.
    pub(crate) fn within(&self, positions: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Told)> + use<> {
        let Range { start, end } = *positions;
        let clip = move |(run, told): (Range<u64>, Told)| (run.start.max(start)..run.end.min(end), told);
        self.overlapping(start..end).into_iter().map(clip)
    }

    /// Returns the number of runs.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Forgets the lowest runs until no more than this number remain; returns the position behind the last of them.
    pub(crate) fn keep_newest(&mut self, count: usize) -> u64 {
        let mut forgotten = 0;
        while self.runs.len() > count
            && let Some((_, (end, _))) = self.runs.pop_first()
        {
            forgotten = end;
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use units::Random;

    const LATE: Outcome = Outcome::Lost(Stage::Late);
    const DEADLINE: Outcome = Outcome::Lost(Stage::Deadline);

    fn told(hop: u8, outcome: Outcome) -> Told {
        Told { hop, outcome, cause: None }
    }

    #[test]
    fn what_is_known_stays_known_and_what_was_open_is_settled() {
        let mut causes = Causes::default();
        assert_eq!(causes.insert(10..20, told(0, Outcome::Unsettled)), [(10, None)]);
        assert_eq!(causes.insert(15..25, told(1, LATE)), [(5, Some(told(0, Outcome::Unsettled))), (5, None)]);
        assert_eq!(causes.insert(0..30, told(0, Outcome::Unsettled)), [(10, None), (5, None)]);
        assert_eq!(causes.insert(0..30, told(0, Outcome::Unexplained)).len(), 3, "not over a stage");
        let parts: Vec<_> = causes.within(&(12..22)).collect();
        let late = told(1, LATE);
        assert_eq!(parts, [(12..15, told(0, Outcome::Unexplained)), (15..20, late), (20..22, late)]);
        assert_eq!(causes.insert(15..25, told(1, LATE)), [], "no news");
        assert_eq!(causes.keep_newest(1), 25);
        assert_eq!(causes.within(&(0..90)).collect::<Vec<_>>(), [(25..30, told(0, Outcome::Unexplained))]);
    }

    #[test]
    fn runs_agree_with_a_list_of_single_positions() {
        let outcomes = [Outcome::Unsettled, Outcome::Unexplained, LATE, DEADLINE];
        let mut random = Random::new(3);
        for _ in 0..300 {
            let (mut causes, mut single) = (Causes::default(), [None; 40]);
            for _ in 0..12 {
                let start = random.below(40);
                let end = (start + random.below(12)).min(40);
                let new = told(0, outcomes[usize::try_from(random.below(4)).unwrap()]);
                let mut changed = 0;
                for place in &mut single[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()] {
                    if place.is_none_or(|known| new.replaces(known)) {
                        *place = Some(new);
                        changed += 1;
                    }
                }
                let news: u64 = causes.insert(start..end, new).iter().map(|(count, _)| count).sum();
                assert_eq!(news, changed);
                let mut found = [None; 40];
                for (run, told) in causes.within(&(0..40)) {
                    for position in run {
                        assert!(found[usize::try_from(position).unwrap()].replace(told).is_none());
                    }
                }
                assert_eq!(found, single);
            }
        }
    }
}
