//! When samples were taken, for a publisher that does not say: by their count and rate, held to the clock.
//!
//! Samples are handed over after they were taken, sometimes long after: a process that was held up makes up for
//! it in a rush. So being late says nothing about the samples, and their count is believed; a clock that is
//! ahead for longer than anybody makes up for runs at another rate, and so does one that falls behind. A clock
//! that is set is [another matter](crate::SteadyClock): its steps do not come here before they have lasted.

use std::time::Duration;

use units::{SampleRate, WallTime};

use crate::timeline::MAX_LEAD;

/// Count and clock may differ by so much.
const TOLERANCE: Duration = Duration::from_millis(100);
/// Whoever was held up has made up for it after so long, or never will.
const PATIENCE: Duration = Duration::from_secs(2);

/// The times of one stream's samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SampleClock {
    /// A sample's index, and when it was taken.
    anchor: Option<(u64, WallTime)>,
    /// Since when samples have been coming too late.
    late_since: Option<WallTime>,
    /// The count has run ahead of the clock, which is being followed.
    falls_back: bool,
}

impl SampleClock {
    /// Returns when the sample `index` was taken, the first of `samples` that are handed over at `now`.
    ///
    /// That may lie before what the samples in front of it were told to be: the [timeline](crate::timeline) sees to it
    /// that no times go back.
    pub(crate) fn time_of(&mut self, index: u64, samples: u64, rate: SampleRate, now: WallTime) -> WallTime {
        let by_clock = now.offset(-nanos(rate.duration_of(samples)));
        let believed = self.anchor.map(|(anchor, time)| rate.time_of(index, anchor, time));
        believed.filter(|by_count| self.holds(*by_count, by_clock)).unwrap_or_else(|| {
            (self.anchor, self.late_since) = (Some((index, by_clock)), None);
            by_clock
        })
    }

    /// Takes note of which time was told of a sample.
    pub(crate) const fn told(&mut self, index: u64, time: WallTime) {
        self.anchor = Some((index, time));
    }

    /// Forgets what was counted: the clock was set, or an epoch begins.
    pub(crate) const fn begin_anew(&mut self) {
        *self = Self { anchor: None, late_since: None, falls_back: false };
    }

    /// Tells whether the count is still believed.
    fn holds(&mut self, by_count: WallTime, by_clock: WallTime) -> bool {
        let (late_ns, tolerance_ns) = (by_clock.nanos_since(by_count), nanos(TOLERANCE));
        // What comes by the second faster than its rate was taken before: no clock says when.
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

    /// Samples of 1 kHz handed over as (milliseconds, how many); returns when each block began, in milliseconds.
    fn times(blocks: &[(i64, u64)]) -> Vec<i64> {
        let (mut clock, mut index) = (SampleClock::default(), 0);
        let rate = "1000".parse().unwrap();
        let mut time = |&(ms, samples): &(i64, u64)| {
            let time = clock.time_of(index, samples, rate, at(ms));
            index += samples;
            time.nanos_since(at(0)) / 1_000_000
        };
        blocks.iter().map(&mut time).collect()
    }

    #[test]
    fn times_follow_the_count_whenever_blocks_come() {
        assert_eq!(times(&[(10, 10), (21, 10), (95, 10), (96, 70), (100, 0)]), [0, 10, 20, 30, 100]);
    }

    #[test]
    fn who_was_held_up_makes_up_for_it_without_a_jump_in_time() {
        // Held up for 400 ms, then 50 ms of samples every 5 ms.
        let mut blocks = vec![(10, 10), (20, 10)];
        blocks.extend((0..9).map(|k| (420 + 5 * k, 50)));
        let expected: Vec<i64> = [0, 10].into_iter().chain((0..9).map(|k| 20 + 50 * k)).collect();
        assert_eq!(times(&blocks), expected);
    }

    #[test]
    fn a_clock_that_falls_behind_the_count_is_followed_until_it_has_caught_up() {
        // 90 ms ahead is on time; 120 ms is not, and then neither is 50 ms.
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
