//! A stream's counts over all its epochs, as `/metrics` gives them: counters that never fall.
//!
//! An account may move a settled loss from one stage to another when a late datagram arrives. The counters keep the
//! stage of the first settlement, and the move has its own counter (rule 15 of the account).

use std::collections::BTreeMap;

use ledger::{NetworkRows, Outcome, Stage, StageCounts};
use tallycast::StreamAccount;
use units::Epoch;

/// Number of epochs whose accounts may still change: settlement takes seconds, and restarts are rarely more frequent.
const MAX_EPOCHS: usize = 8;

/// Counts in one unit: datagrams or elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Handed over.
    pub(crate) arrived: u64,
    /// Settled losses by stage, as they were first settled.
    pub(crate) lost: StageCounts,
    /// Settled losses that nothing explains.
    pub(crate) unexplained: u64,
}

/// A stream's counts over all epochs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Totals of epochs that receive no more events.
    past: EpochTotals,
    epochs: BTreeMap<Epoch, EpochTotals>,
}

#[derive(Clone, Debug, Default)]
struct EpochTotals {
    /// Of datagrams and of elements.
    counts: [Counts; 2],
    moved: BTreeMap<Move, u64>,
    unsettled: [u64; 2],
    /// Elements lost on the hops before, as they were first settled, and those that wait for evidence there.
    hops: BTreeMap<(u8, Outcome), u64>,
}

/// From which class to which; `None` is unexplained.
pub(crate) type Move = (Option<Stage>, Stage);

impl Totals {
    /// Opens an account: the epoch is new, or joined again.
    pub(crate) fn begin(&mut self, epoch: Epoch) {
        if let Some(before) = self.epochs.remove(&epoch) {
            self.past.add(&before);
        }
        self.epochs.insert(epoch, EpochTotals::default());
        while self.epochs.len() > MAX_EPOCHS {
            if let Some((_, oldest)) = self.epochs.pop_first() {
                self.past.add(&oldest);
            }
        }
    }

    /// Takes the present state of an epoch's account.
    pub(crate) fn take(&mut self, account: &StreamAccount) {
        let Some(epoch) = self.epochs.get_mut(&account.epoch) else { return };
        for moved in &account.reclassified {
            let most = epoch.moved.entry((moved.from, moved.to)).or_default();
            *most = (*most).max(moved.datagrams);
        }
        let [datagrams, elements] = &mut epoch.counts;
        if let Some(rows) = &account.account.datagrams {
            datagrams.rise(&first_settled(rows, &epoch.moved));
            epoch.unsettled[0] = rows.unsettled;
        }
        let rows = &account.account.elements;
        elements.rise(&Counts { arrived: rows.delivered, lost: rows.lost, unexplained: rows.unexplained });
        epoch.unsettled[1] = rows.unsettled;
        epoch.hops.retain(|(_, outcome), _| *outcome != Outcome::Unsettled);
        for share in account.account.hops.shares() {
            let most = epoch.hops.entry((share.hop, share.outcome)).or_default();
            *most = (*most).max(share.count);
        }
    }

    /// Returns the counts of datagrams and of elements.
    pub(crate) fn counts(&self) -> [Counts; 2] {
        self.whole().counts
    }

    /// Returns the moves of settled datagrams from class to class.
    pub(crate) fn moves(&self) -> BTreeMap<Move, u64> {
        self.whole().moved
    }

    /// Returns how many datagrams and elements still wait for evidence.
    pub(crate) fn unsettled(&self) -> [u64; 2] {
        let open = self.epochs.values().map(|epoch| epoch.unsettled);
        open.fold([0; 2], |sum, epoch| [sum[0] + epoch[0], sum[1] + epoch[1]])
    }

    /// Returns the elements that relayed streams lost on earlier hops, by hop and outcome.
    pub(crate) fn hops(&self) -> BTreeMap<(u8, Outcome), u64> {
        let mut hops = self.whole().hops;
        hops.retain(|(_, outcome), _| *outcome != Outcome::Unsettled);
        for ((hop, outcome), count) in self.epochs.values().flat_map(|epoch| &epoch.hops) {
            if *outcome == Outcome::Unsettled {
                *hops.entry((*hop, *outcome)).or_default() += count;
            }
        }
        hops
    }

    fn whole(&self) -> EpochTotals {
        let mut whole = self.past.clone();
        self.epochs.values().for_each(|epoch| whole.add(epoch));
        whole
    }
}

impl EpochTotals {
    fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(counts, more)| counts.add(more));
        other.hops.iter().for_each(|(which, count)| *self.hops.entry(*which).or_default() += count);
        other.moved.iter().for_each(|(which, count)| *self.moved.entry(*which).or_default() += count);
    }
}

/// Undoes the moves, so that every loss is at the stage of its first settlement.
fn first_settled(rows: &NetworkRows, moved: &BTreeMap<Move, u64>) -> Counts {
    let mut counts = Counts { arrived: rows.received, lost: rows.lost, unexplained: rows.unexplained };
    for ((from, to), count) in moved {
        counts.lost[*to] = counts.lost[*to].saturating_sub(*count);
        match from {
            Some(stage) => counts.lost[*stage] += count,
            None => counts.unexplained += count,
        }
    }
    counts
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.lost.add(&other.lost);
        self.unexplained += other.unexplained;
    }

    /// Rises to `other` if that is larger: a counter never falls.
    fn rise(&mut self, other: &Self) {
        self.arrived = self.arrived.max(other.arrived);
        for stage in Stage::ALL {
            self.lost[stage] = self.lost[stage].max(other.lost[stage]);
        }
        self.unexplained = self.unexplained.max(other.unexplained);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene;
    use tallycast::AccountState;

    fn account(stage: Stage, datagrams: u64, unexplained: u64) -> StreamAccount {
        let mut account = scene::account(&scene::info("lab/x", 100), AccountState::Open);
        account.account.elements.lost = StageCounts::of(stage, datagrams * 10);
        account.account.datagrams = Some(NetworkRows {
            lost: StageCounts::of(stage, datagrams),
            unexplained,
            ..NetworkRows::default()
        });
        account
    }

    #[test]
    fn counters_go_on_over_epochs() {
        let epoch = account(Stage::Injected, 0, 0).epoch;
        let mut totals = Totals::default();
        totals.begin(epoch);
        totals.take(&account(Stage::Injected, 3, 0));
        totals.begin(epoch);
        totals.take(&account(Stage::Injected, 2, 0));
        assert_eq!(totals.counts()[0].lost[Stage::Injected], 5);
        assert_eq!(totals.counts()[1].lost[Stage::Injected], 50);
    }

    #[test]
    fn losses_on_earlier_hops_go_on_over_epochs_and_what_waits_there_is_that_of_now() {
        let share = |hop, outcome, count| ledger::HopShare { hop, outcome, count };
        let (link, waiting) = (Outcome::Lost(Stage::Deadline), Outcome::Unsettled);
        let take = |totals: &mut Totals, shares: &[ledger::HopShare]| {
            let mut account = account(Stage::Source, 1, 0);
            account.account.hops = shares.iter().copied().collect();
            totals.take(&account);
        };
        let epoch = account(Stage::Source, 0, 0).epoch;
        let mut totals = Totals::default();
        totals.begin(epoch);
        take(&mut totals, &[share(1, waiting, 10)]);
        assert_eq!(totals.hops(), [((1, waiting), 10)].into());
        take(&mut totals, &[share(1, link, 7), share(1, waiting, 3)]);
        assert_eq!(totals.hops(), [((1, link), 7), ((1, waiting), 3)].into());
        totals.begin(epoch);
        assert_eq!(totals.hops(), [((1, link), 7)].into(), "nothing of an epoch before waits");
        take(&mut totals, &[share(1, link, 2)]);
        assert_eq!(totals.hops(), [((1, link), 9)].into());
    }

    #[test]
    fn a_late_datagram_moves_no_counter_but_that_of_moves() {
        let mut totals = Totals::default();
        totals.begin(account(Stage::Network, 0, 0).epoch);
        totals.take(&account(Stage::Network, 0, 4));
        let mut later = account(Stage::Late, 1, 3);
        later.reclassified = vec![ledger::Reclassified { from: None, to: Stage::Late, datagrams: 1 }];
        totals.take(&later);
        let [datagrams, _] = totals.counts();
        assert_eq!((datagrams.unexplained, datagrams.lost[Stage::Late]), (4, 0));
        assert_eq!(totals.moves()[&(None, Stage::Late)], 1);
    }
}
