//! Counters of one input of a cyclic app, cycle by cycle.
//!
//! With `P` the app's period and `S` the input's own (one sample), the newest sample is **due**
//! while it is younger than `P + S` at the cycle's due time: one sample period to acquire it, one
//! app period to deliver it. If it is older, a newer sample should have arrived.

use core::time::Duration;

use units::{Histogram, WallTime};

/// Samples and losses that a cycle found at an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct News {
    /// Number of whole samples that arrived since the last cycle.
    pub samples: u64,
    /// Time at which the newest sample was taken; `None` if none has arrived yet.
    pub newest: Option<WallTime>,
    /// Number of elements found to be lost since the last cycle.
    pub lost_elements: u64,
}

/// Freshness of an input in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// A new sample arrived in time.
    New,
    /// A new sample arrived, but a newer one should have.
    Late,
    /// No new sample arrived, and none was due.
    Held,
    /// No new sample arrived although one was due, or none has ever arrived.
    Missed,
}

/// The counters of one input.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct InputCounters {
    /// Number of samples that arrived.
    pub samples: u64,
    /// Number of elements known to be lost along the path.
    pub lost_elements: u64,
    /// Number of cycles without the sample that was due.
    pub missed: u64,
    /// Number of cycles with a new sample when a newer one should have arrived.
    pub late: u64,
    /// Age of the newest sample at the due time of the last cycle, if any had arrived; negative
    /// where the clocks of two hosts disagree. Units: ns.
    pub age_ns: Option<i64>,
    /// Ages of the newest sample in all cycles.
    pub ages: Histogram,
}

impl InputCounters {
    /// Counts the result of a cycle that was due at `due`; `span` is the sum of the app's period
    /// and the input's own.
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
