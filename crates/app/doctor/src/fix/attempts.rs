//! Changes that `fix` has tried per loss, and the choice of the next.

use std::collections::{BTreeMap, BTreeSet};

use diagnose::{Change, Place, Plan, Subject};
use ledger::Stage;

use super::FixOutcome;

/// Attempts by the place of the loss.
#[derive(Default)]
pub(super) struct Attempts(BTreeMap<(Stage, Place), OfLoss>);

#[derive(Default)]
struct OfLoss {
    subjects: BTreeSet<Subject>,
    /// Final result, once no further change is to be tried.
    outcome: Option<FixOutcome>,
}

impl Attempts {
    /// Returns the largest loss for which a change remains to be tried, and the change; `None` where only the user
    /// can act.
    pub(super) fn next(&mut self, plans: &[Plan]) -> Option<(Plan, Option<Change>)> {
        plans.iter().find_map(|plan| {
            let is_new = !self.0.contains_key(&plan.key());
            let of_loss = self.0.entry(plan.key()).or_default();
            let mut changes = plan.changes.iter().filter(|_| of_loss.outcome.is_none());
            let change = changes.find(|it| !of_loss.subjects.contains(&it.subject())).cloned();
            of_loss.subjects.extend(change.as_ref().map(Change::subject));
            (is_new || change.is_some()).then(|| (plan.clone(), change))
        })
    }

    pub(super) fn leave(&mut self, plan: &Plan, outcome: FixOutcome) {
        self.0.entry(plan.key()).or_default().outcome = Some(outcome);
    }

    /// Returns whether losses without an effective change remain.
    pub(super) fn outcome(self) -> FixOutcome {
        let is_fine = |it: &OfLoss| it.outcome == Some(FixOutcome::Fixed);
        if self.0.values().all(is_fine) { FixOutcome::Fixed } else { FixOutcome::LossesRemain }
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
        let mut attempts = Attempts::default();
        let mut next = || attempts.next(&plans).map(|(_, change)| change);
        assert_eq!([next(), next(), next()], [Some(Some(loosen("a"))), Some(Some(loosen("b"))), None]);
        assert_eq!(attempts.outcome(), FixOutcome::LossesRemain);
    }

    #[test]
    fn where_one_helped_no_other_is_tried() {
        let plans = [plan(Stage::ReceiverIp, &[loosen("a"), loosen("b")])];
        let mut attempts = Attempts::default();
        let (of, _) = attempts.next(&plans).unwrap();
        attempts.leave(&of, FixOutcome::Fixed);
        assert_eq!(attempts.next(&plans), None);
        assert_eq!(attempts.outcome(), FixOutcome::Fixed);
    }

    #[test]
    fn what_only_a_person_can_do_is_said_once_and_a_loss_that_comes_later_too() {
        let by_hand = plan(Stage::ReceiverNoSocket, &[]);
        let mut attempts = Attempts::default();
        let (of, change) = attempts.next(std::slice::from_ref(&by_hand)).unwrap();
        assert_eq!((of.stage, change), (Stage::ReceiverNoSocket, None));
        attempts.leave(&of, FixOutcome::Fixed);
        let plans = [by_hand, plan(Stage::ReceiverIp, &[loosen("a")])];
        assert_eq!(attempts.next(&plans).and_then(|(_, change)| change), Some(loosen("a")));
        assert_eq!(attempts.outcome(), FixOutcome::LossesRemain, "nothing helped against that one");
    }
}
