//! When cycles begin and until when they must be called back, all from one shared start.

use core::time::Duration;

use units::Instant;

/// The times of a run, the same for writer and reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// When cycle 0 begins, on the clock that both processes read.
    pub start: Instant,
    /// From the beginning of a cycle to that of the next.
    pub cycle_time: Duration,
    /// How many cycles a run has.
    pub cycles: u32,
}

/// Callbacks of one side against their deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Callback {
    /// How many came.
    pub count: u64,
    /// How many of them came after their deadline.
    pub late: u64,
    /// How long before its deadline the one closest to it came; negative if after. Units: nanoseconds.
    pub least_slack_ns: Option<i64>,
}

impl Schedule {
    /// Returns when a cycle is to be sent.
    #[must_use]
    pub fn begin(&self, cycle: u32) -> Instant {
        self.start + self.cycle_time * cycle
    }

    /// Returns the last moment at which a cycle's callback is in time.
    #[must_use]
    pub fn deadline(&self, cycle: u32) -> Instant {
        self.begin(cycle) + self.cycle_time
    }

    /// Returns when the last cycle must have been called back.
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
