//! A range of the stream that a reader missed because the ring overtook it.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::shares::Shares;
use crate::{Evidence, EvidenceSource, Gap, GapKind, HopCounts, Stage, StageCounts, Unit};

/// Maximum number of lines of evidence in the gap of a lap.
const MAX_EVIDENCE: usize = 32;
/// Maximum number of gaps inside one lap: a bridge remembers no more when the lap ends, and sends no updates of
/// others.
const MAX_INSIDE: usize = super::MAX_GAPS;

/// The gap of one lap: delivered elements become the reader's lag, missing ones get their stages from the gaps
/// inside, as the bridge reports them.
#[derive(Clone, Debug)]
pub(super) struct Lap {
    gap: Gap,
    lag: Evidence,
    /// Elements of gaps inside that have not been reported.
    untold: u64,
    /// The gaps inside by their start.
    inside: BTreeMap<u64, Gap>,
    /// Sum of their losses on earlier hops.
    inherited: HopCounts,
}

impl Lap {
    /// Creates the gap of a lap over `positions`, of which `delivered` elements had been delivered: their loss has this
    /// stage and evidence.
    pub(super) fn new(
        positions: Range<u64>,
        delivered: u64,
        (stage, source): (Stage, EvidenceSource),
    ) -> Self {
        let untold = positions.end - positions.start - delivered;
        let lag = Evidence { stage, count: delivered, unit: Unit::Elements, source };
        let gap = Gap {
            id: positions.start,
            kind: GapKind::Missing,
            positions,
            numbers: 0..0,
            lost: StageCounts::of(stage, delivered),
            inherited: HopCounts::default(),
            unexplained: 0,
            unsettled: untold,
            apportioned: untold > 0,
            evidence: vec![lag.clone()],
        };
        Self { gap, lag, untold, inside: BTreeMap::new(), inherited: HopCounts::default() }
    }

    pub(super) const fn gap(&self) -> &Gap {
        &self.gap
    }

    /// Ends the wait for evidence.
    pub(super) fn end(&mut self) {
        self.gap.give_up();
        self.inherited.give_up();
        self.inside.values_mut().for_each(Gap::give_up);
    }

    /// Returns the number of known gaps inside.
    pub(super) fn known(&self) -> usize {
        self.inside.len()
    }

    /// Applies an update of a gap inside; returns whether it changed this one.
    pub(super) fn learn(&mut self, news: &Gap) -> bool {
        let Range { start, end } = news.positions;
        if news.is_empty() || start < self.gap.positions.start || end > self.gap.positions.end {
            return false;
        }
        let before = match self.inside.get(&start) {
            Some(known) if known.positions != news.positions || known == news => return false,
            Some(known) => Shares::of(known),
            None if news.len() > self.untold || self.inside.len() == MAX_INSIDE => return false,
            None => {
                self.untold -= news.len();
                // Until now it was unsettled, or unexplained if the account has ended.
                let unsettled = news.len().min(self.gap.unsettled);
                Shares { unsettled, unexplained: news.len() - unsettled, ..Shares::default() }
            }
        };
        self.inside.insert(start, news.clone());
        let mut shares = Shares { inherited: self.inherited.clone(), ..Shares::of(&self.gap) };
        shares.subtract(&before);
        shares.add(&Shares::of(news));
        let Shares { lost, inherited, unexplained, unsettled } = shares;
        self.inherited = inherited;
        let inherited = self.inherited.completed(lost[Stage::Source]);
        let inside = self.inside.values().flat_map(|gap| &gap.evidence);
        let evidence = core::iter::once(&self.lag).chain(inside).take(MAX_EVIDENCE).cloned().collect();
        let gap = Gap { lost, inherited, unexplained, unsettled, evidence, ..self.gap.clone() };
        let changed = gap != self.gap;
        self.gap = gap;
        changed
    }
}
