//! A publisher's tallies of its own losses: ranges by number, and running totals that repair the rest.

use core::ops::Range;

use units::RangeSet;

use super::skipped_counts::SkippedCounts;
use super::upstream::Upstream;
use crate::brackets::{Brackets, LedgerKey};
use crate::entry::Entry;
use crate::{EvidenceSource, Stage, StageCounts};

/// Maximum number of ranges remembered for each stage; beyond it the lowest are forgotten. A publisher repeats only
/// its newest 32, so that only a forger could need more.
const MAX_NAMED_RANGES: usize = 4_096;

/// The publisher's tallies, remembered until the gaps they belong to are settled.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderTallies {
    numbers: Vec<(Stage, EvidenceSource, RangeSet)>,
    positions: Vec<(Stage, RangeSet)>,
    /// Numbers listed since the last tally although they are below it: refusals that reached the publisher late. Its
    /// totals include them, too.
    named_below: StageCounts,
    last_tally: Option<Totals>,
    last_sample_totals: Option<Totals>,
    /// Elements that were skipped between two tallies without being listed.
    pub(super) skipped: SkippedCounts,
    /// What was told of the hops before a relay.
    pub(super) upstream: Upstream,
}

#[derive(Clone, Copy, Debug)]
struct Totals {
    at: u64,
    counts: StageCounts,
}

/// A total that rose between two tallies by more than was listed.
pub(super) struct Rise {
    pub(super) stage: Stage,
    pub(super) count: u64,
    pub(super) between: Range<u64>,
}

impl SenderTallies {
    /// Creates the tallies of a reader that was present when the epoch began: nothing had been lost before.
    pub(super) fn from_the_beginning() -> Self {
        let nothing = Some(Totals { at: 0, counts: StageCounts::default() });
        Self { last_tally: nothing, last_sample_totals: nothing, ..Self::default() }
    }

    /// Records that a reader of a relayed stream was present when the relay took it up at this position: its totals count
    /// all below as skipped.
    pub(super) fn never_offered_below(&mut self, position: u64) {
        if let Some(totals) = self.last_sample_totals.as_mut().filter(|totals| totals.at == 0) {
            *totals = Totals { at: position, counts: StageCounts::of(Stage::Source, position) };
        }
    }

    /// Remembers listed numbers; returns whether any of them is new.
    pub(super) fn remember_numbers(
        &mut self,
        numbers: Range<u64>,
        stage: Stage,
        source: EvidenceSource,
    ) -> bool {
        let below = numbers.start..numbers.end.min(self.last_tally.map_or(0, |last| last.at));
        let known = self.numbers.iter().position(|(of, from, _)| (*of, *from) == (stage, source));
        let index = known.unwrap_or_else(|| {
            self.numbers.push((stage, source, RangeSet::new()));
            self.numbers.len() - 1
        });
        let set = &mut self.numbers[index].2;
        if !below.is_empty() {
            let news = (below.end - below.start) - set.count_in(below);
            self.named_below[stage] = self.named_below[stage].saturating_add(news);
        }
        insert_bounded(set, numbers) > 0
    }

    /// Remembers listed positions; returns the number of elements that are new.
    pub(super) fn remember_positions(&mut self, positions: Range<u64>, stage: Stage) -> u64 {
        if let Some((_, set)) = self.positions.iter_mut().find(|(of, _)| *of == stage) {
            return insert_bounded(set, positions);
        }
        let news = positions.end - positions.start;
        self.positions.push((stage, core::iter::once(positions).collect()));
        news
    }

    /// Applies the known evidence to a gap that has just been declared.
    pub(super) fn apply_to(&self, entry: &mut Entry, ledger: LedgerKey, brackets: &mut Brackets) {
        for (stage, source, set) in &self.numbers {
            for numbers in set.intersection(entry.gap.numbers.clone()) {
                entry.name_exactly(numbers, *stage, *source, ledger, brackets);
            }
        }
        for (stage, set) in &self.positions {
            for positions in set.intersection(entry.gap.positions.clone()) {
                entry.name_skipped(positions, *stage);
            }
        }
        for (positions, told) in self.upstream.within(&entry.gap.positions) {
            entry.name_inherited(&positions, told);
        }
    }

    /// Compares running totals of withheld datagrams with those of the previous tally.
    pub(super) fn withheld_rose(&mut self, number: u64, totals: &StageCounts) -> Vec<Rise> {
        let named = |stage: Stage, between: Range<u64>| {
            let sets = self.numbers.iter().filter(|(of, _, _)| *of == stage);
            let above: u64 = sets.map(|(_, _, set)| set.count_in(between.clone())).sum();
            above.saturating_add(self.named_below[stage])
        };
        let rises = rises(self.last_tally, number, totals, named);
        if remember(&mut self.last_tally, number, totals) {
            self.named_below = StageCounts::default();
        }
        rises
    }

    /// Compares running totals of skipped elements with those of the previous tally. They count whole samples, so that up
    /// to `begun` elements of a rise may lie before that tally.
    pub(super) fn skipped_rose(&mut self, position: u64, totals: &StageCounts, begun: impl Fn(u64) -> u64) {
        let begun = self.last_sample_totals.map_or(0, |last| begun(last.at));
        let named = |stage: Stage, between: Range<u64>| {
            let sets = self.positions.iter().filter(|(of, _)| *of == stage);
            let named: u64 = sets.map(|(_, set)| set.count_in(between.clone())).sum();
            named.saturating_add(begun)
        };
        for Rise { stage, count, between } in rises(self.last_sample_totals, position, totals, named) {
            self.skipped.add(stage, between, count);
        }
        remember(&mut self.last_sample_totals, position, totals);
    }

    /// Forgets totals from before this number or position: the next tally becomes the new reference.
    pub(super) fn forget_totals_below(&mut self, number: u64, position: u64) {
        self.last_tally = self.last_tally.filter(|last| last.at >= number);
        self.last_sample_totals = self.last_sample_totals.filter(|last| last.at >= position);
    }

    /// Forgets evidence that no gap can need any more, but not the reference for the next tally's totals.
    pub(super) fn forget_below(&mut self, number: u64, position: u64) {
        let keep = self.last_tally.map_or(number, |last| last.at.min(number));
        for (_, _, set) in &mut self.numbers {
            set.remove(0..keep);
        }
        let keep = self.last_sample_totals.map_or(position, |last| last.at.min(position));
        for (_, set) in &mut self.positions {
            set.remove(0..keep);
        }
        self.skipped.forget_below(position);
    }
}

fn rises(
    last: Option<Totals>,
    at: u64,
    totals: &StageCounts,
    named: impl Fn(Stage, Range<u64>) -> u64,
) -> Vec<Rise> {
    let Some(last) = last.filter(|last| at > last.at) else { return Vec::new() };
    let between = last.at..at;
    let unnamed = |stage: Stage| {
        let rise = totals[stage].saturating_sub(last.counts[stage]);
        rise.saturating_sub(named(stage, between.clone()))
    };
    let rise = |stage| Rise { stage, count: unnamed(stage), between: between.clone() };
    Stage::ALL.into_iter().map(rise).filter(|rise| rise.count > 0).collect()
}

/// Keeps the totals of the highest tally; returns whether they are these.
fn remember(last: &mut Option<Totals>, at: u64, counts: &StageCounts) -> bool {
    let is_newer = last.is_none_or(|last| at > last.at);
    if is_newer {
        *last = Some(Totals { at, counts: *counts });
    }
    is_newer
}

/// Adds a range; returns how much of it is new.
fn insert_bounded(set: &mut RangeSet, range: Range<u64>) -> u64 {
    let news = set.insert(range);
    if set.range_count() > MAX_NAMED_RANGES {
        let lowest = set.iter().next();
        lowest.map(|lowest| set.remove(lowest));
    }
    news
}
