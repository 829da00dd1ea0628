//! Due times of a publisher's samples: by count and rate from one moment on, so that no drift accumulates.

use std::time::Duration;

use units::{Instant, SampleRate};

/// Maximum delay of a schedule, beyond which it restarts: longer delays are not caught up in a burst. Shorter
/// delays are caught up, so that they do not change the rate.
const MAX_BEHIND: Duration = Duration::from_millis(100);

/// Due times of samples.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    rate: SampleRate,
    /// A sample index, and the time at which that many samples had been taken.
    start: Option<(u64, Instant)>,
}

impl Schedule {
    pub(crate) const fn new(rate: SampleRate) -> Self {
        Self { rate, start: None }
    }

    /// Returns the time at which the last of `samples` has been taken, the first of which is `first_index`.
    ///
    /// The first call starts the schedule: its samples are taken from `now` on.
    pub(crate) fn due(&mut self, now: Instant, first_index: u64, samples: u64) -> Instant {
        let (index, since) = *self.start.get_or_insert((first_index, now));
        let next_index = first_index + samples;
        let due = since + self.rate.duration_of(next_index - index);
        if due + MAX_BEHIND >= now {
            return due;
        }
        self.start = Some((next_index, now));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn schedule(rate: &str) -> Schedule {
        Schedule::new(rate.parse().unwrap())
    }

    #[test]
    fn a_day_of_blocks_does_not_drift() {
        let mut schedule = schedule("360");
        let mut now = at(5);
        for block in 0..86_400 * 36 {
            now = schedule.due(now, block * 10, 10);
        }
        assert_eq!(now, at(5) + Duration::from_secs(86_400));
    }

    #[test]
    fn a_short_delay_is_caught_up_with() {
        let mut schedule = schedule("1000");
        assert_eq!(schedule.due(at(0), 0, 10), at(10_000_000));
        let late = at(120_000_000);
        assert_eq!(schedule.due(late, 10, 10), at(20_000_000), "100 ms behind: at once");
        assert_eq!(schedule.due(late, 20, 200), at(220_000_000), "as if nothing had been");
    }

    #[test]
    fn a_longer_one_begins_the_schedule_anew() {
        let mut schedule = schedule("1000");
        assert_eq!(schedule.due(at(0), 0, 10), at(10_000_000));
        let late = at(120_000_001);
        assert_eq!(schedule.due(late, 10, 10), late);
        assert_eq!(schedule.due(late, 20, 10), late + Duration::from_millis(10));
    }

    #[test]
    fn what_the_source_skipped_took_its_time_too() {
        let mut schedule = schedule("1000");
        assert_eq!(schedule.due(at(0), 0, 10), at(10_000_000));
        assert_eq!(schedule.due(at(10_000_000), 40, 10), at(50_000_000));
    }
}
