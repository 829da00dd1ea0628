//! Totals of one app's commands, and the law that they keep.
//!
//! `received = applied + refused + expired + superseded + failed + uncertain + pending` after every input. No term is
//! computed from the others: `received` counts when a command is taken, `pending` counts up when its intent is noted
//! and down when it is settled, and each outcome counts when it is decided.

use crate::bytes::MAX_COUNT;
use crate::{Answer, Rule};

/// Number of rules.
const RULES: usize = Rule::ALL.len();

/// Totals of one app's commands.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Commands that were taken, each once.
    pub received: u64,
    /// Those that took effect.
    pub applied: u64,
    /// Those that a rule refused.
    pub refused: u64,
    /// Those whose deadline passed.
    pub expired: u64,
    /// Those that a later command replaced.
    pub superseded: u64,
    /// Those that the app could not apply.
    pub failed: u64,
    /// Those of which the app cannot tell.
    pub uncertain: u64,
    /// Those that wait, or whose effect is under way.
    pub pending: u64,
    /// Repetitions of a command by the network or its sender, outside the law.
    pub repeated: u64,
    /// Refused commands by rule.
    by_rule: [u64; RULES],
}

impl Totals {
    /// Counts a command that was decided when it arrived.
    pub(crate) fn attempt(&mut self, answer: &Answer) {
        self.received += 1;
        self.outcome(answer);
    }

    /// Counts commands that a rule refused and no record tells of one by one. More than an app can have refused are those
    /// of a forged log, and are not counted.
    pub(crate) fn omitted(&mut self, rule: Rule, count: u64) {
        if self.received.checked_add(count).is_some_and(|received| received <= MAX_COUNT) {
            self.received += count;
            self.refused += count;
            self.by_rule[usize::from(rule.code())] += count;
        }
    }

    /// Counts a command that waits for its decision.
    pub(crate) fn intent(&mut self) {
        self.received += 1;
        self.pending += 1;
    }

    /// Counts the decision of a command that waited.
    ///
    /// # Panics
    /// If no command waits.
    pub(crate) fn settle(&mut self, answer: &Answer) {
        self.pending = self.pending.checked_sub(1).expect("only a pending command is settled");
        self.outcome(answer);
    }

    /// Returns the totals without the commands that wait.
    pub(crate) const fn decided(mut self) -> Self {
        self.received -= self.pending;
        self.pending = 0;
        self
    }

    fn outcome(&mut self, answer: &Answer) {
        match answer {
            Answer::Accepted => unreachable!("accepted is no outcome"),
            Answer::Refused { rule } => {
                self.refused += 1;
                self.by_rule[usize::from(rule.code())] += 1;
            }
            Answer::Expired => self.expired += 1,
            Answer::Superseded => self.superseded += 1,
            Answer::Applied(_) => self.applied += 1,
            Answer::Failed { .. } => self.failed += 1,
            Answer::Uncertain => self.uncertain += 1,
        }
    }

    /// Returns the totals with these numbers of refused commands; `None` if the law does not hold then.
    pub(crate) fn with_refused(mut self, by_rule: Vec<(Rule, u64)>) -> Option<Self> {
        for (rule, count) in by_rule {
            self.by_rule[usize::from(rule.code())] = count;
            self.refused = self.refused.checked_add(count)?;
        }
        self.holds().then_some(self)
    }

    /// Returns the number of commands that one rule refused.
    #[must_use]
    pub const fn refused_by(&self, rule: Rule) -> u64 {
        self.by_rule[rule as usize]
    }

    /// Returns whether the law holds, for the sum and for the rules.
    #[must_use]
    pub fn holds(&self) -> bool {
        let sum = |counts: &[u64]| counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
        let parts = [
            self.applied,
            self.refused,
            self.expired,
            self.superseded,
            self.failed,
            self.uncertain,
            self.pending,
        ];
        sum(&parts) == Some(self.received) && sum(&self.by_rule) == Some(self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_counts_once() {
        let mut totals = Totals::default();
        let answers = [
            Answer::Refused { rule: Rule::Range },
            Answer::Expired,
            Answer::Superseded,
            Answer::Failed { reason: String::new() },
            Answer::Uncertain,
        ];
        for answer in &answers {
            totals.intent();
            assert!(totals.holds() && totals.pending == 1);
            totals.settle(answer);
            totals.attempt(answer);
            assert!(totals.holds() && totals.pending == 0);
        }
        assert_eq!((totals.received, totals.refused_by(Rule::Range), totals.uncertain), (10, 2, 2));
    }

    #[test]
    fn a_missing_outcome_breaks_the_law() {
        assert!(!Totals { received: 1, ..Totals::default() }.holds());
        assert!(!Totals { received: 1, refused: 1, ..Totals::default() }.holds());
    }
}
