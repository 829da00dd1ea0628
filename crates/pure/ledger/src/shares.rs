//! Missing datagrams or elements, divided into classes.

use crate::{Gap, HopCounts, Stage, StageCounts};

/// Missing datagrams or elements: lost by stage, unexplained, or still waiting for evidence.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Shares {
    pub(crate) lost: StageCounts,
    /// Of those lost at stage `source`, the hop and stage at which they were.
    pub(crate) inherited: HopCounts,
    pub(crate) unexplained: u64,
    pub(crate) unsettled: u64,
}

impl Shares {
    /// Returns the missing elements of a gap.
    pub(crate) fn of(gap: &Gap) -> Self {
        Self {
            lost: gap.lost,
            inherited: gap.inherited.clone(),
            unexplained: gap.unexplained,
            unsettled: gap.unsettled,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.lost.total() + self.unexplained + self.unsettled
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.lost.add(&other.lost);
        self.inherited.add_all(&other.inherited);
        self.unexplained += other.unexplained;
        self.unsettled += other.unsettled;
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.lost.subtract(&other.lost);
        self.inherited.subtract_all(&other.inherited);
        self.unexplained -= other.unexplained;
        self.unsettled -= other.unsettled;
    }

    /// Returns the weights of the classes in the order stages, unexplained, unsettled.
    pub(crate) fn weights(&self) -> Vec<u64> {
        let stages = Stage::ALL.into_iter().map(|stage| self.lost[stage]);
        stages.chain([self.unexplained, self.unsettled]).collect()
    }

    /// Adds counts given in the order of [`Shares::weights`].
    pub(crate) fn add_weights(&mut self, counts: &[u64]) {
        let (stages, rest) = counts.split_at(Stage::ALL.len());
        for (stage, count) in Stage::ALL.into_iter().zip(stages) {
            self.lost[stage] += count;
        }
        self.unexplained += rest[0];
        self.unsettled += rest[1];
    }
}
