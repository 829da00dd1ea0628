//! What became of one input of a cyclic app, cycle by cycle.
//!
//! With `P` the app's period and `S` the input's own (one sample), the newest sample is **due** while it is younger than
//! `P + S` at the cycle's due time: one sample's time to be taken, one period to be handed over. Older, a newer one
//! should have been there.

use core::time::Duration;

use units::WallTime;

use crate::Histogram;

/// What a cycle found at an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct News {
    /// Whole samples that came since the last cycle.
    pub samples: u64,
    /// When the newest of all was taken, if any has ever come.
    pub newest: Option<WallTime>,
    /// Elements that are known to be lost since the last cycle.
    pub lost_elements: u64,
}

/// How fresh an input was in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// A new sample, in time.
    New,
    /// A new sample, and a newer one should have been there.
    Late,
    /// No new sample, and none was due.
    Held,
    /// No new sample although one was due, or none has ever come.
    Missed,
}

/// The counters of one input.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct InputCounters {
    /// Samples that came.
    pub samples: u64,
    /// Elements that are known to be lost on the way.
    pub lost_elements: u64,
    /// Cycles without the sample that was due.
    pub missed: u64,
    /// Cycles with a new sample where a newer one should have been there.
    pub late: u64,
    /// How old the newest sample was when the last cycle was due, if any had come; below zero where the clocks of two
    /// hosts disagree. Units: ns.
    pub age_ns: Option<i64>,
    /// How old it was in every cycle.
    pub ages: Histogram,
}

impl InputCounters {
    /// Counts what a cycle that was due at `due` found; `span` is the app's period and the input's own together.
    pub fn looked(&mut self, due: WallTime, span: Duration, news: &News) -> Freshness {
        self.samples += news.samples;
        self.lost_elements += news.lost_elements;
        self.age_ns = news.newest.map(|newest| due.nanos_since(newest));
        let in_time = self.age_ns.is_some_and(|age| i128::from(age) < span.as_nanos() as i128);
        if let Some(age) = self.age_ns {
            self.ages.record(Duration::from_nanos(u64::try_from(age).unwrap_or(0)));
        }
        match (news.samples > 0, in_time) {
            (true, true) => Freshness::New,
            (true, false) => {
                self.late += 1;
                Freshness::Late
            }
            (false, true) => Freshness::Held,
            (false, false) => {
                self.missed += 1;
                Freshness::Missed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(20);

    fn news(samples: u64, taken_ns: i64) -> News {
        News { samples, newest: Some(WallTime::from_nanos(taken_ns)), lost_elements: 0 }
    }

    #[test]
    fn a_sample_is_in_time_until_it_is_as_old_as_both_periods() {
        let due = WallTime::from_nanos(20_000_000);
        let mut counters = InputCounters::default();
        assert_eq!(counters.looked(due, SPAN, &news(1, 1)), Freshness::New);
        assert_eq!(counters.looked(due, SPAN, &news(1, 0)), Freshness::Late);
        assert_eq!(counters.looked(due, SPAN, &news(0, 1)), Freshness::Held);
        assert_eq!(counters.looked(due, SPAN, &news(0, 0)), Freshness::Missed);
        assert_eq!((counters.samples, counters.late, counters.missed, counters.ages.count()), (2, 1, 1, 4));
    }

    #[test]
    fn what_never_came_is_missed_and_has_no_age() {
        let mut counters = InputCounters::default();
        assert_eq!(counters.looked(WallTime::from_nanos(0), SPAN, &News::default()), Freshness::Missed);
        assert_eq!((counters.age_ns, counters.ages.count()), (None, 0));
    }

    #[test]
    fn a_sample_from_a_clock_that_is_ahead_is_new() {
        let mut counters = InputCounters::default();
        assert_eq!(counters.looked(WallTime::from_nanos(0), SPAN, &news(1, 5)), Freshness::New);
        assert_eq!((counters.age_ns, counters.ages.max()), (Some(-5), Duration::ZERO));
    }
}
