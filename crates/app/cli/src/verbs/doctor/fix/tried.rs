//! Changes that `fix` has tried per loss, and the choice of the next.

use std::collections::{BTreeMap, BTreeSet};

use doctor::{Change, Place, Plan, Stage, Subject};

use crate::Outcome;

/// Attempts by the place of the loss.
#[derive(Default)]
pub(super) struct Tried(BTreeMap<(Stage, Place), Attempts>);

#[derive(Default)]
struct Attempts {
    subjects: BTreeSet<Subject>,
    /// Final result, once no further change is to be tried.
    outcome: Option<Outcome>,
}

impl Tried {
    /// Returns the largest loss for which a change remains to be tried, and the change; `None` where only the user
    /// can act.
    pub(super) fn next(&mut self, plans: &[Plan]) -> Option<(Plan, Option<Change>)> {
        plans.iter().find_map(|plan| {
            let is_new = !self.0.contains_key(&plan.key());
            let attempts = self.0.entry(plan.key()).or_default();
            let mut changes = plan.changes.iter().filter(|_| attempts.outcome.is_none());
            let change = changes.find(|it| !attempts.subjects.contains(&it.subject())).cloned();
            attempts.subjects.extend(change.as_ref().map(Change::subject));
            (is_new || change.is_some()).then(|| (plan.clone(), change))
        })
    }

    pub(super) fn leave(&mut self, plan: &Plan, outcome: Outcome) {
        self.0.entry(plan.key()).or_default().outcome = Some(outcome);
    }

    /// Losses without an effective change remain.
    pub(super) fn outcome(self) -> Outcome {
        let is_fine = |it: &Attempts| it.outcome == Some(Outcome::Fine);
        if self.0.values().all(is_fine) { Outcome::Fine } else { Outcome::Found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(stage: Stage, changes: &[Change]) -> Plan {
        let (place, why, changes) = (Place::Namespace, String::new(), changes.to_vec());
        Plan { stage, place, lost: 5, why, changes, by_hand: Vec::new() }
    }

    fn loosen(device: &str) -> Change {
        Change::Sysctl { name: format!("net.ipv4.conf.{device}.rp_filter"), value: 2, before: Some(1) }
    }

    #[test]
    fn where_one_change_did_not_help_the_next_is_tried_and_then_nothing() {
        let plans = [plan(Stage::ReceiverIp, &[loosen("a"), loosen("b")])];
        let mut tried = Tried::default();
        let mut next = || tried.next(&plans).map(|(_, change)| change);
        assert_eq!([next(), next(), next()], [Some(Some(loosen("a"))), Some(Some(loosen("b"))), None]);
        assert_eq!(tried.outcome(), Outcome::Found);
    }

    #[test]
    fn where_one_helped_no_other_is_tried() {
        let plans = [plan(Stage::ReceiverIp, &[loosen("a"), loosen("b")])];
        let mut tried = Tried::default();
        let (of, _) = tried.next(&plans).unwrap();
        tried.leave(&of, Outcome::Fine);
        assert_eq!(tried.next(&plans), None);
        assert_eq!(tried.outcome(), Outcome::Fine);
    }

    #[test]
    fn what_only_a_person_can_do_is_said_once_and_a_loss_that_comes_later_too() {
        let by_hand = plan(Stage::ReceiverNoSocket, &[]);
        let mut tried = Tried::default();
        let (of, change) = tried.next(std::slice::from_ref(&by_hand)).unwrap();
        assert_eq!((of.stage, change), (Stage::ReceiverNoSocket, None));
        tried.leave(&of, Outcome::Fine);
        let plans = [by_hand, plan(Stage::ReceiverIp, &[loosen("a")])];
        assert_eq!(tried.next(&plans).and_then(|(_, change)| change), Some(loosen("a")));
        assert_eq!(tried.outcome(), Outcome::Found, "nothing helped against that one");
    }
}
