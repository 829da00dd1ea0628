//! Dominion's timer rule: a count that a timer raises every period and every finished cycle lowers.
//!
//! Source: "Data-Exchange Efficiency in Middleware Systems with UDP and Shared Memory" (DLR, TU Braunschweig): a timer
//! thread raises a counting semaphore every cycle; above 100 it reports a timer error and resets it to 10.

/// Number of pending cycles above which an alarm is raised.
pub const ALARM_ABOVE: u64 = 100;
/// Number of pending cycles assumed after an alarm.
pub const AFTER_ALARM: u64 = 10;

/// Number of pending cycles, and of alarms.
///
/// A schedule without catch-up never lowers the count again: here it is the number of skipped
/// cycles, and an alarm means that this many were skipped since the last alarm.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimerRule {
    pending: u64,
    alarms: u64,
}

impl TimerRule {
    /// Notes that `periods` periods have begun; returns how many alarms that raised.
    pub const fn elapsed(&mut self, periods: u64) -> u64 {
        let Some(beyond) = self.pending.saturating_add(periods).checked_sub(ALARM_ABOVE + 1) else {
            self.pending += periods;
            return 0;
        };
        // Distance that the count covers from one alarm to the next.
        let stride = ALARM_ABOVE + 1 - AFTER_ALARM;
        let alarms = 1 + beyond / stride;
        self.pending = AFTER_ALARM + beyond % stride;
        self.alarms += alarms;
        alarms
    }

    /// Notes that a cycle has finished.
    pub const fn finished(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// Returns how many cycles are pending.
    #[must_use]
    pub const fn pending(&self) -> u64 {
        self.pending
    }

    /// Returns how many alarms there were.
    #[must_use]
    pub const fn alarms(&self) -> u64 {
        self.alarms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hundred_pending_cycles_are_no_alarm_and_one_more_is() {
        let mut rule = TimerRule::default();
        assert_eq!((rule.elapsed(100), rule.pending()), (0, 100));
        assert_eq!((rule.elapsed(1), rule.pending(), rule.alarms()), (1, 10, 1));
        assert_eq!((rule.elapsed(90), rule.pending()), (0, 100));
        assert_eq!((rule.elapsed(1), rule.pending(), rule.alarms()), (1, 10, 2));
    }

    #[test]
    fn an_app_that_finishes_every_cycle_is_never_behind() {
        let mut rule = TimerRule::default();
        for _ in 0..1_000 {
            assert_eq!(rule.elapsed(1), 0);
            rule.finished();
        }
        rule.finished();
        assert_eq!(rule, TimerRule::default());
    }

    proptest! {
        #[test]
        fn many_periods_at_once_are_the_same_as_one_by_one(spans in prop::collection::vec(0_u64..1_000, 0..20)) {
            let (mut at_once, mut singly) = (TimerRule::default(), TimerRule::default());
            for span in spans {
                let mut alarms = 0;
                (0..span).for_each(|_| alarms += singly.elapsed(1));
                prop_assert_eq!(at_once.elapsed(span), alarms);
                at_once.finished();
                singly.finished();
                prop_assert_eq!(at_once, singly);
            }
        }
    }
}
