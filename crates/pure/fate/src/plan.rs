//! Which change to try against a loss.

use std::collections::BTreeMap;

use ledger::Stage;

use crate::cure::{Change, Cure};
use crate::verdict::{Place, Verdict};

/// A change to try, and what it is to help against.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Where on the way they were lost.
    pub stage: Stage,
    /// Where on this host.
    pub place: Place,
    /// How many, while that was watched.
    pub lost: u64,
    /// Why.
    pub why: String,
    /// What to change; `None` where a person or another program has to do it.
    pub change: Option<Change>,
    /// What helps in the long run, or where nothing can be changed here.
    pub by_hand: Vec<Cure>,
}

/// What was lost while it was watched, with the change that helps most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plans(BTreeMap<(Stage, Place), Plan>);

impl Plans {
    /// Takes what a look found.
    pub fn take(&mut self, verdict: &Verdict) {
        let (now, later): (Vec<&Cure>, Vec<&Cure>) =
            verdict.cures.iter().partition(|cure| cure.change.as_ref().is_some_and(acts_at_once));
        let change = now.first().and_then(|cure| cure.change.clone());
        let plan = Plan {
            stage: verdict.stage,
            place: verdict.place.clone(),
            lost: 0,
            why: verdict.why.clone(),
            change: None,
            by_hand: later.into_iter().cloned().collect(),
        };
        let plan = self.0.entry((verdict.stage, verdict.place.clone())).or_insert(plan);
        plan.lost += verdict.count;
        if size(change.as_ref()) > size(plan.change.as_ref()) {
            plan.change = change;
        }
    }

    /// Returns them, the largest loss first.
    #[must_use]
    pub fn into_plans(self) -> Vec<Plan> {
        let mut plans: Vec<Plan> = self.0.into_values().collect();
        plans.sort_by_key(|plan| std::cmp::Reverse(plan.lost));
        plans
    }
}

/// Tells whether a change can be made and taken back here, and acts on programs that run.
fn acts_at_once(change: &Change) -> bool {
    match change {
        // What sockets are given when they are opened.
        Change::Sysctl { name, before, .. } => before.is_some() && !name.starts_with("net.core.rmem_"),
        Change::ReceiveBuffer { .. } => true,
        // Priorities can stop a host; a person decides.
        Change::Priority { .. } => false,
    }
}

const fn size(change: Option<&Change>) -> u64 {
    match change {
        Some(Change::Sysctl { value, .. }) => *value,
        Some(Change::ReceiveBuffer { asked_bytes, .. }) => *asked_bytes,
        Some(Change::Priority { .. }) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn verdict(stage: Stage, count: u64, cures: Vec<Cure>) -> Verdict {
        Verdict {
            stage,
            place: Place::Namespace,
            count,
            unit: Unit::Datagrams,
            is_apportioned: false,
            evidence: Vec::new(),
            cause: None,
            why: "because".to_owned(),
            cures,
            datagrams: Vec::new(),
            not_observed: None,
        }
    }

    fn buffer(asked_bytes: u64) -> Cure {
        let local = "127.0.0.1:1".parse().unwrap();
        let change = Change::ReceiveBuffer { cookie: 1, local, pid: 2, asked_bytes, before_bytes: 1 };
        Cure::by_change("", change)
    }

    #[test]
    fn the_largest_change_that_acts_at_once_is_tried_and_the_others_are_for_a_person() {
        let mut plans = Plans::default();
        let later = Cure::by_sysctl("", "net.core.rmem_max", 9_000, Some(1));
        for asked in [100, 300, 200] {
            plans.take(&verdict(Stage::ReceiverSocketBuffer, 5, vec![buffer(asked), later.clone()]));
        }
        plans.take(&verdict(Stage::ReceiverNoSocket, 50, vec![Cure::by_hand("start it")]));
        let plans = plans.into_plans();
        assert_eq!((plans[0].stage, plans[0].lost, &plans[0].change), (Stage::ReceiverNoSocket, 50, &None));
        assert_eq!((plans[1].lost, &plans[1].change), (15, &buffer(300).change));
        assert_eq!(plans[1].by_hand, [later]);
    }

    #[test]
    fn what_could_not_be_taken_back_is_not_tried() {
        let backlog = |before| Cure::by_sysctl("", "net.core.netdev_max_backlog", 2_000, before);
        let change = |cure: Cure| {
            let mut plans = Plans::default();
            plans.take(&verdict(Stage::ReceiverBacklog, 1, vec![cure]));
            plans.into_plans().remove(0).change
        };
        assert_eq!(change(backlog(None)), None);
        assert_eq!(change(backlog(Some(1_000))), backlog(Some(1_000)).change);
    }
}
