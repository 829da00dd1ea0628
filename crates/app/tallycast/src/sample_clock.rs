//! Times of samples for a publisher that gives none: by their count and rate, kept close to the clock.
//!
//! Samples are published after they were taken, sometimes long after: a process that was delayed catches up
//! in a burst. So lateness alone proves nothing about the samples, and their count is trusted; a clock that
//! stays ahead for longer than catching up takes runs at another rate, and so does one that falls behind.
//! Steps of a clock are handled [elsewhere](crate::SteadyClock): they do not arrive here before they have
//! lasted.

use std::time::Duration;

use units::{SampleRate, WallTime};

use crate::timeline::MAX_LEAD;

/// Maximum difference between count and clock.
const TOLERANCE: Duration = Duration::from_millis(100);
/// Time within which a delayed publisher has caught up, or never will.
const PATIENCE: Duration = Duration::from_secs(2);

/// The times of one stream's samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SampleClock {
    /// Index and time of a sample.
    anchor: Option<(u64, WallTime)>,
    /// Time since which samples have been late.
    late_since: Option<WallTime>,
    /// True if the count has run ahead of the clock, which is being followed.
    falls_back: bool,
}

impl SampleClock {
    /// Returns the time of the sample `index`, the first of `samples`, the last of which is taken at `now`.
    ///
    /// It may be before the times given to previous samples: the [timeline](crate::timeline) ensures that no
    /// times go back.
    pub(crate) fn time_of(&mut self, index: u64, samples: u64, rate: SampleRate, now: WallTime) -> WallTime {
        let by_clock = now.offset(-nanos(rate.duration_of(samples.saturating_sub(1))));
        let believed = self.anchor.map(|(anchor, time)| rate.time_of(index, anchor, time));
        believed.filter(|by_count| self.holds(*by_count, by_clock)).unwrap_or_else(|| {
            (self.anchor, self.late_since) = (Some((index, by_clock)), None);
            by_clock
        })
    }

    /// Notes the time that a sample was given.
    pub(crate) const fn told(&mut self, index: u64, time: WallTime) {
        self.anchor = Some((index, time));
    }

    /// Resets the count: the clock was set, or an epoch begins.
    pub(crate) const fn begin_anew(&mut self) {
        *self = Self { anchor: None, late_since: None, falls_back: false };
    }

    /// Returns whether the count is still trusted.
    fn holds(&mut self, by_count: WallTime, by_clock: WallTime) -> bool {
        let (late_ns, tolerance_ns) = (by_clock.nanos_since(by_count), nanos(TOLERANCE));
        // Samples that arrive a second or more ahead of their rate were taken before: no clock gives their
        // times.
        let is_ahead = -late_ns > tolerance_ns && -late_ns <= nanos(MAX_LEAD);
        self.falls_back = is_ahead || self.falls_back && (-nanos(MAX_LEAD)..0).contains(&late_ns);
        if late_ns <= tolerance_ns {
            self.late_since = None;
            return !self.falls_back;
        }
        let since = *self.late_since.get_or_insert(by_clock);
        by_clock.nanos_since(since) <= nanos(PATIENCE)
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> WallTime {
        WallTime::from_nanos(1_763_756_051_000_000_000 + ms * 1_000_000)
    }

    /// Publishes samples of 1 kHz given as (milliseconds, number); returns the begin of each block, in
    /// milliseconds.
    fn times(blocks: &[(i64, u64)]) -> Vec<i64> {
        let (mut clock, mut index) = (SampleClock::default(), 0);
        let rate = "1000".parse().unwrap();
        let mut time = |&(ms, samples): &(i64, u64)| {
            let time = clock.time_of(index, samples, rate, at(ms - 1));
            index += samples;
            time.nanos_since(at(0)) / 1_000_000
        };
        blocks.iter().map(&mut time).collect()
    }

    #[test]
    fn the_last_sample_is_taken_now() {
        let time =
            |samples, rate: &str| SampleClock::default().time_of(0, samples, rate.parse().unwrap(), at(10));
        assert_eq!((time(1, "0.1"), time(10, "1000")), (at(10), at(1)));
    }

    #[test]
    fn times_follow_the_count_whenever_blocks_come() {
        assert_eq!(times(&[(10, 10), (21, 10), (95, 10), (96, 70), (100, 0)]), [0, 10, 20, 30, 100]);
    }

    #[test]
    fn who_was_held_up_makes_up_for_it_without_a_jump_in_time() {
        // Delayed for 400 ms, then 50 ms of samples every 5 ms.
        let mut blocks = vec![(10, 10), (20, 10)];
        blocks.extend((0..9).map(|k| (420 + 5 * k, 50)));
        let expected: Vec<i64> = [0, 10].into_iter().chain((0..9).map(|k| 20 + 50 * k)).collect();
        assert_eq!(times(&blocks), expected);
    }

    #[test]
    fn a_clock_that_falls_behind_the_count_is_followed_until_it_has_caught_up() {
        // 90 ms ahead is within tolerance; 120 ms is not, and then neither is 50 ms.
        let told = times(&[(100, 100), (110, 100), (180, 100), (230, 100), (330, 100), (431, 100)]);
        assert_eq!(told, [0, 100, 80, 130, 230, 330]);
    }

    #[test]
    fn a_flood_is_not_held_to_the_clock() {
        assert_eq!(times(&[(1, 2_000), (2, 2_000), (3, 2_000)]), [-1_999, 1, 2_001]);
    }

    #[test]
    fn a_clock_that_is_ahead_is_followed_when_nobody_made_up_for_it() {
        let hour = 3_600_000;
        let ahead: Vec<(i64, u64)> = (0..30).map(|k| (hour + 100 * (k + 1), 100)).collect();
        let told = times(&[&[(100, 100)], &ahead[..]].concat());
        assert_eq!(told[1..22], (0..21).map(|k| 100 * (k + 1)).collect::<Vec<_>>()[..], "{told:?}");
        assert_eq!(told[22..], (21..30).map(|k| hour + 100 * k).collect::<Vec<_>>()[..], "{told:?}");
    }
}
