//! One gap in the ledger: the attribution of its numbers, and the resulting classes of its elements.

use core::ops::Range;

use units::{Instant, RangeSet};

use crate::apportion::apportion;
use crate::brackets::{BracketId, Brackets, LedgerKey};
use crate::causes::{Causes, Told};
use crate::shares::Shares;
use crate::{Evidence, EvidenceSource, Gap, GapKind, HopCounts, HopShare, Outcome, Stage, StageCounts, Unit};

/// Maximum number of late datagrams recorded singly in one gap, and of runs of different attribution: more than any
/// healthy network shows, so that forged datagrams cannot make a gap grow. Further ones are not counted.
const MAX_DETAILS: usize = 4_096;

/// A declared gap with the attributions of its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) gap: Gap,
    pub(crate) declared: Instant,
    pub(crate) cause: Grounds,
    /// True once the time for evidence has passed: numbers without attribution are then unexplained.
    pub(crate) expired: bool,
    /// The gap's datagrams by class; `gap` itself holds the elements.
    pub(crate) datagrams: Shares,
    /// The attributions of numbers, sorted and disjoint. A number without one is unsettled.
    attributions: Vec<Attribution>,
    /// Numbers that the socket dropped by exact evidence and that its counter does not include yet.
    uncounted: RangeSet,
    /// Numbers that arrived late, with the elements they carried.
    late: Vec<(u64, Range<u64>)>,
    /// Elements that never had a number, with their stage.
    skipped: Vec<(Range<u64>, Stage)>,
    /// Elements that never had a number according to the publisher's totals, without their positions.
    skipped_by_totals: StageCounts,
    /// The same by a relay's counts of losses on earlier hops.
    skipped_by_upstream: u64,
    /// Of a relayed stream, what is known of losses on earlier hops.
    before: Option<Before>,
}

/// Losses of a gap on the hops before a relay.
#[derive(Clone, Debug)]
struct Before {
    /// The hop on which the relay sends; not zero.
    hop: u8,
    /// Outcomes by range.
    causes: Causes,
    /// Outcomes by the relay's counts, of elements of which no range is told.
    by_totals: HopCounts,
    /// True once no more news is awaited.
    is_over: bool,
}

/// Reason for declaring numbers missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grounds {
    /// Enough higher numbers arrived.
    Overtaken,
    /// A tally reported them as sent, and they did not arrive in time.
    Awaited,
    /// None can arrive: there is no number, or the reader has left.
    Certain,
}

#[derive(Clone, Debug)]
struct Attribution {
    numbers: Range<u64>,
    basis: Basis,
}

#[derive(Clone, Copy, Debug)]
enum Basis {
    Exact(Stage, EvidenceSource),
    Bracketed(Stage, EvidenceSource, BracketId),
    Unexplained,
}

/// The stage that a datagram's loss was attributed to before it moved; `None` is unexplained.
pub(crate) type AttributedStage = Option<Stage>;

impl Entry {
    pub(crate) fn new(
        id: u64,
        numbers: Range<u64>,
        positions: Range<u64>,
        declared: Instant,
        cause: Grounds,
    ) -> Self {
        let gap = Gap {
            id,
            kind: GapKind::Missing,
            unsettled: positions.end - positions.start,
            positions,
            numbers: numbers.clone(),
            lost: StageCounts::default(),
            inherited: HopCounts::default(),
            unexplained: 0,
            apportioned: false,
            evidence: Vec::new(),
        };
        let datagrams = Shares { unsettled: numbers.end - numbers.start, ..Shares::default() };
        Self {
            gap,
            declared,
            cause,
            expired: false,
            datagrams,
            attributions: Vec::new(),
            uncounted: RangeSet::new(),
            late: Vec::new(),
            skipped: Vec::new(),
            skipped_by_totals: StageCounts::default(),
            skipped_by_upstream: 0,
            before: None,
        }
    }

    /// Records that the stream was relayed, and that its relay sends on this hop; `is_over` if no more news of
    /// earlier hops is awaited.
    pub(crate) fn relayed_on(&mut self, hop: u8, is_over: bool) {
        let (causes, by_totals) = (Causes::default(), HopCounts::default());
        self.before = Some(Before { hop, causes, by_totals, is_over });
    }

    /// Records the outcome of elements on an earlier hop.
    pub(crate) fn name_inherited(&mut self, positions: &Range<u64>, told: Told) {
        let start = positions.start.max(self.gap.positions.start);
        let end = positions.end.min(self.gap.positions.end);
        if let Some(before) = self.before.as_mut().filter(|before| before.causes.len() < MAX_DETAILS)
            && start < end
        {
            before.causes.insert(start..end, told);
        }
    }

    /// Ends the wait for news of earlier hops.
    pub(crate) fn give_up_inherited(&mut self) {
        self.before.iter_mut().for_each(|before| before.is_over = true);
    }

    /// Replaces what the relay's counts say: the outcomes, and the number of elements that they are of although no tally said
    /// that those were skipped.
    pub(crate) fn name_inherited_by_totals(&mut self, by_totals: HopCounts, skipped: u64) {
        if let Some(before) = &mut self.before {
            before.by_totals = by_totals;
            self.skipped_by_upstream = skipped;
        }
    }

    /// Returns what the relay's counts say.
    pub(crate) fn inherited_by_totals(&self) -> Option<(&HopCounts, u64)> {
        self.before.as_ref().map(|before| (&before.by_totals, self.skipped_by_upstream))
    }

    /// Returns whether the relay's counts may say more of it: of elements without a stage, or without an outcome on an
    /// earlier hop.
    pub(crate) fn may_be_repaired(&self) -> bool {
        self.gap.unexplained > 0 || self.gap.inherited.unsettled() > 0
    }

    /// Returns whether the relay's counts have said something of it.
    pub(crate) fn is_repaired(&self) -> bool {
        self.inherited_by_totals().is_some_and(|(by_totals, _)| !by_totals.is_empty())
    }

    /// Returns the elements lost before the relay whose outcomes ranges tell, and the number of those of which none
    /// does; without those of which the relay's counts alone say that they were skipped.
    pub(crate) fn inherited_by_range(&self) -> (HopCounts, u64) {
        if self.before.is_none() {
            return (HopCounts::default(), 0);
        }
        let told = self.told_by_range().map(|(range, told)| told.share(range.end - range.start));
        let told: HopCounts = told.collect();
        let untold = self.gap.lost[Stage::Source] - self.skipped_by_upstream - told.total();
        (told, untold)
    }

    /// Returns the ranges lost before the relay whose outcomes are told.
    fn told_by_range(&self) -> impl Iterator<Item = (Range<u64>, Told)> {
        let source = self.skipped.iter().filter(|(_, stage)| *stage == Stage::Source);
        let before =
            self.before.as_ref().map(|before| source.flat_map(|(range, _)| before.causes.within(range)));
        before.into_iter().flatten()
    }

    /// Returns whether a number is among those missing here and has not arrived late.
    pub(crate) fn misses(&self, number: u64) -> bool {
        self.gap.numbers.contains(&number)
            && self.late.len() < MAX_DETAILS
            && !self.late.iter().any(|(late, _)| *late == number)
    }

    /// Attributes numbers to a stage on exact evidence; returns what that moved from another class.
    ///
    /// Exact evidence takes precedence over bracketed evidence, and of two exact ones the earlier stage along the
    /// path. Once the time for evidence has passed, the socket's counter has been matched: numbers are then
    /// attributed to the socket only as far as it has counted more.
    pub(crate) fn name_exactly(
        &mut self,
        numbers: Range<u64>,
        stage: Stage,
        source: EvidenceSource,
        ledger: LedgerKey,
        brackets: &mut Brackets,
    ) -> Vec<(AttributedStage, u64)> {
        if self.attributions.len() >= MAX_DETAILS {
            return Vec::new();
        }
        let mut open = RangeSet::new();
        open.insert(numbers.start.max(self.gap.numbers.start)..numbers.end.min(self.gap.numbers.end));
        for (late, _) in &self.late {
            open.remove(*late..late + 1);
        }
        for attribution in &self.attributions {
            if matches!(attribution.basis, Basis::Exact(named, _) if named <= stage) {
                open.remove(attribution.numbers.clone());
            }
        }
        if self.expired && stage.is_counted_by_socket() {
            self.leave_what_is_matched(&mut open, ledger, brackets);
        }
        let mut moved = Vec::new();
        for numbers in open.iter() {
            moved.extend(self.clear(numbers.clone(), brackets));
            if stage.is_counted_by_socket() && !self.expired {
                self.uncounted.insert(numbers.clone());
            }
            self.attributions.push(Attribution { numbers, basis: Basis::Exact(stage, source) });
        }
        self.count_named(ledger, brackets);
        self.attributions.sort_by_key(|attribution| attribution.numbers.start);
        moved
    }

    /// Keeps in `open` only numbers for which the socket's counter has an unmatched count.
    fn leave_what_is_matched(&self, open: &mut RangeSet, ledger: LedgerKey, brackets: &mut Brackets) {
        for attribution in
            self.attributions.iter().filter(|attribution| matches!(attribution.basis, Basis::Bracketed(..)))
        {
            open.remove(attribution.numbers.clone());
        }
        let uncounted: Vec<_> =
            open.iter().flat_map(|numbers| brackets.take_named(ledger, numbers)).collect();
        for numbers in uncounted {
            open.remove(numbers);
        }
    }

    /// Matches exact evidence of the socket's drops with its counter, so that these counts explain no others.
    pub(crate) fn count_named(&mut self, ledger: LedgerKey, brackets: &mut Brackets) {
        let uncounted = core::mem::take(&mut self.uncounted);
        self.uncounted.extend(uncounted.iter().flat_map(|numbers| brackets.take_named(ledger, numbers)));
    }

    /// Matches the remaining exact evidence once the counter has had time to rise: the counts include it, but not
    /// necessarily in the bracket of its number.
    pub(crate) fn count_named_anywhere(&mut self, ledger: LedgerKey, brackets: &mut Brackets) {
        self.count_named(ledger, brackets);
        for numbers in core::mem::take(&mut self.uncounted).iter() {
            brackets.take_nearby(ledger, numbers);
        }
    }

    /// Returns whether the socket's counter does not include some drops of exact evidence yet.
    pub(crate) fn awaits_count(&self) -> bool {
        !self.uncounted.is_empty()
    }

    /// Attributes elements to a stage before numbering; returns the number of them for which it is news in the place of the
    /// totals' word that there were so many.
    pub(crate) fn name_skipped(&mut self, positions: Range<u64>, stage: Stage) -> u64 {
        let start = positions.start.max(self.gap.positions.start);
        let end = positions.end.min(self.gap.positions.end);
        if self.skipped.len() >= MAX_DETAILS || start >= end {
            return 0;
        }
        let mut open = RangeSet::new();
        open.insert(start..end);
        let known =
            self.late.iter().map(|(_, range)| range).chain(self.skipped.iter().map(|(range, _)| range));
        for range in known {
            open.remove(range.clone());
        }
        self.skipped.extend(open.iter().map(|range| (range, stage)));
        self.give_totals_back(stage)
    }

    /// Withdraws an explanation by totals that exact evidence replaces; returns the number of elements of its own stage.
    fn give_totals_back(&mut self, named: Stage) -> u64 {
        let before = self.skipped_by_totals[named];
        let excess = |entry: &Self| entry.count_elements_with_stage().total().saturating_sub(entry.gap.len());
        self.skipped_by_upstream -= self.skipped_by_upstream.min(excess(self));
        for stage in core::iter::once(named).chain(Stage::ALL) {
            self.withdraw_totals(stage, excess(self));
        }
        before - self.skipped_by_totals[named]
    }

    /// Returns whether the publisher's totals explain any of it by this stage.
    pub(crate) fn is_explained_by_totals(&self, stage: Stage) -> bool {
        self.skipped_by_totals[stage] > 0
    }

    /// Withdraws an explanation by totals of up to so many elements; returns how many they were.
    pub(crate) fn withdraw_totals(&mut self, stage: Stage, most: u64) -> u64 {
        let withdrawn = self.skipped_by_totals[stage].min(most);
        self.skipped_by_totals[stage] -= withdrawn;
        withdrawn
    }

    /// Returns whether these elements are missing here and not yet known to belong to another number.
    pub(crate) fn could_have_held(&self, positions: &Range<u64>) -> bool {
        // A tally between two holes of the source is inside what all other parties see as one hole.
        let overlaps = |range: &Range<u64>| {
            !positions.is_empty() && range.start < positions.end && positions.start < range.end
        };
        self.gap.positions.start <= positions.start
            && positions.end <= self.gap.positions.end
            && !self.late.iter().any(|(_, range)| overlaps(range))
            && !self.skipped.iter().any(|(range, _)| overlaps(range))
    }

    /// Returns the number of elements without a stage that cannot get one from a number: no number is missing here.
    pub(crate) fn elements_without_stage(&self) -> u64 {
        if self.misses_numbers() { 0 } else { self.elements_without_position() }
    }

    /// Returns the same number, with those that got their stage from the relay's counts.
    pub(crate) fn elements_without_stage_but_by_upstream(&self) -> u64 {
        self.elements_without_stage() + self.skipped_by_upstream
    }

    /// Returns the number of elements that numbers may have had: numbers are missing here.
    pub(crate) fn elements_behind_numbers(&self) -> u64 {
        if self.misses_numbers() { self.elements_without_position() } else { 0 }
    }

    fn misses_numbers(&self) -> bool {
        self.gap.numbers.end - self.gap.numbers.start > self.late.len() as u64
    }

    /// Returns the number of elements that have not arrived and of which it is not known that they were skipped.
    fn elements_without_position(&self) -> u64 {
        self.gap.len() - self.count_elements_with_stage().total()
    }

    /// Attributes elements that never had a number to a stage by the publisher's totals.
    pub(crate) fn name_skipped_by_totals(&mut self, stage: Stage, count: u64) {
        self.skipped_by_totals[stage] += count;
    }

    /// Records that a number arrived after all; returns the attribution of its loss, if any.
    pub(crate) fn arrived_late(
        &mut self,
        number: u64,
        positions: Range<u64>,
        brackets: &mut Brackets,
    ) -> Vec<(AttributedStage, u64)> {
        let moved = self.clear(number..number + 1, brackets);
        self.late.push((number, positions));
        moved
    }

    /// Ends the wait for evidence: counts of brackets are matched, the rest is unexplained.
    pub(crate) fn settle(&mut self, ledger: LedgerKey, brackets: &mut Brackets) {
        let mut open = RangeSet::new();
        open.insert(self.gap.numbers.clone());
        for (late, _) in &self.late {
            open.remove(*late..late + 1);
        }
        for attribution in &self.attributions {
            open.remove(attribution.numbers.clone());
        }
        let uncovered: Vec<_> = open.iter().collect();
        for numbers in uncovered {
            for found in brackets.explain(ledger, numbers) {
                open.remove(found.numbers.clone());
                let basis = Basis::Bracketed(found.stage, found.source, found.bracket);
                self.attributions.push(Attribution { numbers: found.numbers, basis });
            }
        }
        self.attributions
            .extend(open.iter().map(|numbers| Attribution { numbers, basis: Basis::Unexplained }));
        self.attributions.sort_by_key(|attribution| attribution.numbers.start);
        self.expired = true;
    }

    /// Removes the attributions of `numbers`, returns counts to their brackets and reports what was removed.
    fn clear(&mut self, numbers: Range<u64>, brackets: &mut Brackets) -> Vec<(AttributedStage, u64)> {
        self.uncounted.remove(numbers.clone());
        let mut moved = Vec::new();
        let mut kept = Vec::with_capacity(self.attributions.len() + 1);
        for attribution in self.attributions.drain(..) {
            let start = attribution.numbers.start.max(numbers.start);
            let end = attribution.numbers.end.min(numbers.end);
            if start >= end {
                kept.push(attribution);
                continue;
            }
            let count = end - start;
            if let Basis::Bracketed(_, _, bracket) = attribution.basis {
                brackets.release(bracket, count);
            }
            moved.push((attribution.basis.stage(), count));
            let sides = [attribution.numbers.start..start, end..attribution.numbers.end];
            let sides = sides.into_iter().filter(|side| !side.is_empty());
            kept.extend(sides.map(|numbers| Attribution { numbers, basis: attribution.basis }));
        }
        self.attributions = kept;
        moved
    }

    /// Recounts datagrams and elements from the attributions.
    pub(crate) fn recount(&mut self) {
        self.datagrams = self.count_datagrams();
        let (elements, apportioned) = self.count_elements();
        self.gap.lost = elements.lost;
        self.gap.unexplained = elements.unexplained;
        self.gap.unsettled = elements.unsettled;
        self.gap.apportioned = apportioned;
        self.gap.inherited = self.count_inherited();
        self.gap.apportioned |= self.before.as_ref().is_some_and(|before| !before.by_totals.is_empty());
        self.gap.evidence = self.evidence();
    }

    /// Counts the elements lost before a relay by hop and outcome; those of which nothing is told wait on the last hop
    /// before it.
    fn count_inherited(&self) -> HopCounts {
        let Some(before) = self.before.as_ref().filter(|_| self.gap.lost[Stage::Source] > 0) else {
            return HopCounts::default();
        };
        let (mut counts, count) = self.inherited_by_range();
        let count = count + self.skipped_by_upstream;
        if count > 0 {
            counts.add(HopShare { hop: before.hop - 1, outcome: Outcome::Unsettled, count });
        }
        before.by_totals.shares().for_each(|share| counts.settle(share));
        if before.is_over {
            counts.give_up();
        }
        counts
    }

    fn count_datagrams(&self) -> Shares {
        let mut shares = self.count_carriers();
        shares.lost[Stage::Late] += self.late.len() as u64;
        shares
    }

    /// Counts the numbers that have not arrived at all.
    fn count_carriers(&self) -> Shares {
        let mut shares = Shares::default();
        for attribution in &self.attributions {
            let count = attribution.numbers.end - attribution.numbers.start;
            match attribution.basis.stage() {
                Some(stage) => shares.lost[stage] += count,
                None => shares.unexplained += count,
            }
        }
        let missing = self.gap.numbers.end - self.gap.numbers.start - self.late.len() as u64;
        shares.unsettled = missing - shares.total();
        shares
    }

    /// Counts the elements whose stage is known without their numbers.
    fn count_elements_with_stage(&self) -> Shares {
        let mut elements = Shares { lost: self.skipped_by_totals, ..Shares::default() };
        elements.lost[Stage::Source] += self.skipped_by_upstream;
        for (_, range) in &self.late {
            elements.lost[Stage::Late] += range.end - range.start;
        }
        for (range, stage) in &self.skipped {
            elements.lost[*stage] += range.end - range.start;
        }
        elements
    }

    /// Counts the elements by class; returns also whether shares had to be apportioned by the numbers.
    fn count_elements(&self) -> (Shares, bool) {
        let mut elements = self.count_elements_with_stage();
        let rest = self.gap.len() - elements.total();
        let carriers = self.count_carriers();
        if carriers.total() > 0 {
            let weights = carriers.weights();
            elements.add_weights(&apportion(rest, &weights));
            let classes = weights.iter().filter(|weight| **weight > 0).count();
            return (elements, classes > 1 && rest > 0);
        }
        if self.expired {
            elements.unexplained += rest;
        } else {
            elements.unsettled += rest;
        }
        (elements, false)
    }

    fn evidence(&self) -> Vec<Evidence> {
        let mut list: Vec<Evidence> = Vec::new();
        let mut add = |stage, count, unit, source| {
            let same = |known: &&mut Evidence| known.stage == stage && known.source == source;
            match list.iter_mut().find(same) {
                Some(known) => known.count += count,
                None => list.push(Evidence { stage, count, unit, source }),
            }
        };
        for (range, stage) in &self.skipped {
            add(*stage, range.end - range.start, Unit::Elements, EvidenceSource::TallyRange);
        }
        for (range, told) in self.told_by_range() {
            if let (Outcome::Lost(stage), Some(cause)) = (told.outcome, told.cause) {
                add(stage, range.end - range.start, Unit::Elements, EvidenceSource::GivenUp(cause));
            }
        }
        for (stage, count) in self.skipped_by_totals.nonzero() {
            add(stage, count, Unit::Elements, EvidenceSource::SampleTotals);
        }
        if self.skipped_by_upstream > 0 {
            let source = EvidenceSource::SampleTotals;
            add(Stage::Source, self.skipped_by_upstream, Unit::Elements, source);
        }
        for attribution in &self.attributions {
            if let Basis::Exact(stage, source) | Basis::Bracketed(stage, source, _) = attribution.basis {
                add(stage, attribution.numbers.end - attribution.numbers.start, Unit::Datagrams, source);
            }
        }
        if !self.late.is_empty() {
            add(Stage::Late, self.late.len() as u64, Unit::Datagrams, EvidenceSource::LateArrival);
        }
        list
    }
}

impl Basis {
    const fn stage(self) -> AttributedStage {
        match self {
            Self::Exact(stage, _) | Self::Bracketed(stage, _, _) => Some(stage),
            Self::Unexplained => None,
        }
    }
}
