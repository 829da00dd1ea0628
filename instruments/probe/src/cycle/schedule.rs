//! Start times and callback deadlines of cycles, all from one shared start.

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Instant;

/// Times of a run, the same for writer and reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Start of cycle 0, on the clock that both processes read.
    pub start: Instant,
    /// Time from the start of a cycle to the start of the next.
    pub cycle_time: Duration,
    /// Number of cycles in a run.
    pub cycles: u32,
}

/// Callbacks and their deadlines: callback k, from 0, is late after start + (k + 1) cycle times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// Number of callbacks.
    pub count: u64,
    /// Number of late ones.
    pub late: u64,
    /// Time from the closest callback to its deadline; negative if it came after, null without any.
    pub least_slack_ns: Option<i64>,
}

impl Schedule {
    /// Returns the time at which a cycle is to be sent.
    #[must_use]
    pub fn begin(&self, cycle: u32) -> Instant {
        self.start + self.cycle_time * cycle
    }

    /// Returns the deadline of a cycle's callback.
    #[must_use]
    pub fn deadline(&self, cycle: u32) -> Instant {
        self.begin(cycle) + self.cycle_time
    }

    /// Returns the deadline of the last cycle's callback.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.begin(self.cycles)
    }
}

impl Callback {
    /// Counts the callback of a cycle.
    pub fn count(&mut self, schedule: &Schedule, cycle: u32, now: Instant) {
        let deadline = schedule.deadline(cycle);
        let signed = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let slack = signed(deadline.since(now)) - signed(now.since(deadline));
        self.count += 1;
        self.late += u64::from(now > deadline);
        self.least_slack_ns = Some(self.least_slack_ns.map_or(slack, |least| least.min(slack)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule =
        Schedule { start: Instant::from_nanos(5_000), cycle_time: Duration::from_nanos(100), cycles: 10 };

    #[test]
    fn deadlines_stand_on_the_start_and_not_on_each_other() {
        assert_eq!(SCHEDULE.begin(0), Instant::from_nanos(5_000));
        assert_eq!(SCHEDULE.deadline(0), Instant::from_nanos(5_100));
        assert_eq!(SCHEDULE.deadline(9), Instant::from_nanos(6_000));
        assert_eq!(SCHEDULE.end(), SCHEDULE.deadline(9));
    }

    #[test]
    fn a_callback_at_its_deadline_is_in_time_and_one_nanosecond_after_is_not() {
        let mut callback = Callback::default();
        callback.count(&SCHEDULE, 3, Instant::from_nanos(5_400));
        assert_eq!(callback, Callback { count: 1, late: 0, least_slack_ns: Some(0) });
        callback.count(&SCHEDULE, 4, Instant::from_nanos(5_501));
        assert_eq!(callback, Callback { count: 2, late: 1, least_slack_ns: Some(-1) });
        callback.count(&SCHEDULE, 5, Instant::from_nanos(5_550));
        assert_eq!(callback, Callback { count: 3, late: 1, least_slack_ns: Some(-1) });
    }

    #[test]
    fn being_late_once_does_not_make_the_next_in_time_or_late() {
        let mut callback = Callback::default();
        callback.count(&SCHEDULE, 0, Instant::from_nanos(5_199));
        callback.count(&SCHEDULE, 1, Instant::from_nanos(5_200));
        assert_eq!((callback.count, callback.late), (2, 1));
    }
}
