//! Plan: changes to try against a loss.

pub(crate) mod proof;
pub mod tunables;

use std::collections::BTreeMap;

use ledger::Stage;

use crate::remedy::{Change, Remedy};
use crate::watch::finding::{Finding, Place};
use tunables::{Snapshots, Tunables};

/// Losses at a place, and changes to try against them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Stage of the losses.
    pub stage: Stage,
    /// Place on this host.
    pub place: Place,
    /// Number of losses while it was watched.
    pub lost: u64,
    /// Explanation of the loss.
    pub why: String,
    /// Changes, the most likely first; empty where a person or another program has to make them.
    pub changes: Vec<Change>,
    /// Remedies for the long run, or where nothing can be changed here.
    pub by_hand: Vec<Remedy>,
}

/// Plans for all losses while they were watched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plans(BTreeMap<(Stage, Place), Plan>);

impl Plans {
    /// Takes a finding.
    pub fn take(&mut self, finding: &Finding) {
        let (now, later): (Vec<&Remedy>, Vec<&Remedy>) =
            finding.remedies.iter().partition(|remedy| remedy.change.as_ref().is_some_and(acts_at_once));
        let plan = Plan {
            stage: finding.stage,
            place: finding.place.clone(),
            lost: 0,
            why: finding.why.clone(),
            changes: Vec::new(),
            by_hand: later.into_iter().cloned().collect(),
        };
        let plan = self.0.entry((finding.stage, finding.place.clone())).or_insert(plan);
        plan.lost += finding.count;
        for change in now.into_iter().filter_map(|remedy| remedy.change.clone()) {
            plan.take(change);
        }
    }

    /// Returns the processes whose threads should run sooner: their nice values must be read.
    pub fn starved(&self) -> impl Iterator<Item = u32> {
        self.0.values().filter_map(Plan::starved)
    }

    /// Returns the plans, the largest loss first, with the changes that follow from the tunables read meanwhile, in
    /// the order of time.
    #[must_use]
    pub fn into_plans(self, snapshots: &[Tunables]) -> Vec<Plan> {
        let mut plans: Vec<Plan> = self.0.into_values().collect();
        plans.iter_mut().for_each(|plan| plan.apply_snapshots(Snapshots(snapshots)));
        plans.sort_by_key(|plan| std::cmp::Reverse(plan.lost));
        plans
    }
}

impl Plan {
    /// Returns the identity of the plan among others.
    #[must_use]
    pub fn key(&self) -> (Stage, Place) {
        (self.stage, self.place.clone())
    }

    /// Adds a change; of two changes of the same subject the larger one stays.
    fn take(&mut self, change: Change) {
        match self.changes.iter_mut().find(|it| it.subject() == change.subject()) {
            Some(known) if size(known) < size(&change) => *known = change,
            Some(_) => {}
            None => self.changes.push(change),
        }
    }

    fn starved(&self) -> Option<u32> {
        self.by_hand.iter().find_map(|remedy| match remedy.change {
            Some(Change::Priority { pid }) => Some(pid),
            _ => None,
        })
    }

    /// Adds changes from the tunables. A starved reader needs a processor first: a larger buffer only lasts a little
    /// longer.
    fn apply_snapshots(&mut self, snapshots: Snapshots<'_>) {
        let sooner = self.starved().and_then(|pid| snapshots.niceness(pid));
        self.changes.splice(0..0, sooner);
        self.changes.extend(snapshots.changes(self.stage, &self.place, self.lost));
    }
}

/// Returns the traffic at the place where losses at a stage are counted, in the same unit; `None` where the datagrams
/// delivered to readers are that count.
#[must_use]
pub fn passed(stage: Stage, place: &Place, snapshots: &[Tunables]) -> Option<u64> {
    Snapshots(snapshots).passed(stage, place)
}

/// Returns whether a change can be made and undone here, and affects running programs.
fn acts_at_once(change: &Change) -> bool {
    match change {
        // Not the settings that sockets get when they are opened.
        Change::Sysctl { before, .. } => before.is_some() && change.is_of_plans(),
        Change::SysctlNumbers { .. } => change.is_of_plans(),
        Change::ReceiveBuffer { .. }
        | Change::QueueLimit { .. }
        | Change::TransmitQueue { .. }
        | Change::Niceness { .. } => true,
        // Real-time priorities can stall a host; a person decides.
        Change::Priority { .. } => false,
    }
}

fn size(change: &Change) -> u64 {
    match change {
        Change::Sysctl { value, .. } => *value,
        Change::SysctlNumbers { values, .. } => values.last().copied().unwrap_or(0),
        Change::ReceiveBuffer { asked_bytes, .. } => *asked_bytes,
        Change::QueueLimit { limit, .. } => (*limit).into(),
        Change::TransmitQueue { packets, .. } => (*packets).into(),
        Change::Niceness { .. } | Change::Priority { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::tunables::Threads;
    use super::*;
    use crate::{ThreadNice, Unit};

    fn finding(stage: Stage, count: u64, remedies: Vec<Remedy>) -> Finding {
        Finding {
            stage,
            place: Place::Namespace,
            count,
            unit: Unit::Datagrams,
            is_apportioned: false,
            evidence: Vec::new(),
            levels: Vec::new(),
            cause: None,
            why: "because".to_owned(),
            remedies,
            datagrams: Vec::new(),
            not_observed: None,
        }
    }

    fn buffer(asked_bytes: u64) -> Remedy {
        let local = "127.0.0.1:1".parse().unwrap();
        let change = Change::ReceiveBuffer { cookie: 1, local, pid: 2, asked_bytes, before_bytes: 1 };
        Remedy::by_change("", change)
    }

    #[test]
    fn the_largest_change_that_acts_at_once_is_tried_and_the_others_are_for_a_person() {
        let mut plans = Plans::default();
        let later = Remedy::by_sysctl("", "net.core.rmem_max", 9_000, Some(1));
        for asked in [100, 300, 200] {
            plans.take(&finding(Stage::ReceiverSocketBuffer, 5, vec![buffer(asked), later.clone()]));
        }
        plans.take(&finding(Stage::ReceiverNoSocket, 50, vec![Remedy::by_hand("start it")]));
        let plans = plans.into_plans(&[]);
        assert_eq!((plans[0].stage, plans[0].lost), (Stage::ReceiverNoSocket, 50));
        assert_eq!(plans[0].changes, []);
        assert_eq!((plans[1].lost, &plans[1].changes[..]), (15, buffer(300).change.as_slice()));
        assert_eq!(plans[1].by_hand, [later]);
    }

    #[test]
    fn what_could_not_be_taken_back_is_not_tried() {
        let backlog = |before| Remedy::by_sysctl("", "net.core.netdev_max_backlog", 2_000, before);
        let change = |remedy: Remedy| {
            let mut plans = Plans::default();
            plans.take(&finding(Stage::ReceiverBacklog, 1, vec![remedy]));
            plans.into_plans(&[]).remove(0).changes
        };
        assert_eq!(change(backlog(None)), []);
        assert_eq!(change(backlog(Some(1_000))), backlog(Some(1_000)).change.as_slice());
    }

    #[test]
    fn a_starved_reader_gets_a_processor_first_and_a_larger_buffer_if_that_did_not_help() {
        let mut plans = Plans::default();
        let fifo = Remedy::by_change("", Change::Priority { pid: 2 });
        plans.take(&finding(Stage::ReceiverSocketBuffer, 5, vec![fifo.clone(), buffer(300)]));
        assert_eq!(plans.starved().collect::<Vec<_>>(), [2]);
        let ordinary = vec![ThreadNice { tid: 2, nice: 0 }, ThreadNice { tid: 3, nice: -15 }];
        let threads = Threads { started: 9, ordinary: ordinary.clone() };
        let snapshot = Tunables { processes: BTreeMap::from([(2, threads)]), ..Tunables::default() };
        let plan = plans.into_plans(&[snapshot]).remove(0);
        let sooner = Change::Niceness { pid: 2, started: 9, nice: -10, before: ordinary };
        assert_eq!(plan.changes, [sooner, buffer(300).change.unwrap()]);
        assert_eq!(plan.by_hand, [fifo]);
    }
}
