//! Times of one epoch as readers get them: they never go back.
//!
//! Within a block times follow the rate. If a block would begin before the previous sample was taken, because
//! a clock was set or samples come a little faster than their rate, its beginning is postponed, and the rest
//! catches up: at every seam the next sample comes half a period sooner than by the rate, and a block may be
//! cut to have more seams.

use std::time::Duration;

use units::{SampleRate, WallTime};

/// Maximum step back of times that is absorbed by shorter intervals; the caller handles larger ones.
pub(crate) const MAX_LEAD: Duration = Duration::from_secs(1);
/// Number of runs into which a block that catches up is cut, each a record and a datagram of its own, if they
/// are long enough.
const RUNS: u64 = 64;
/// Minimum number of samples that share the cost of a run, unless the block has fewer.
const MIN_RUN_SAMPLES: u64 = 8;
/// Maximum number of samples of a run: a second is caught up within two and a half minutes.
const MAX_RUN_SAMPLES: u64 = 64;

/// The times of an epoch's samples so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    /// Time that the newest sample was given.
    newest: Option<WallTime>,
}

/// Samples whose times follow the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Time of the first sample.
    pub(crate) first: WallTime,
    pub(crate) samples: u64,
}

impl Timeline {
    /// Returns how far `requested` is before the newest sample; zero if it is not.
    pub(crate) fn lead_over(&self, requested: WallTime) -> Duration {
        let lead_ns = self.newest.map_or(0, |newest| newest.nanos_since(requested));
        Duration::from_nanos(u64::try_from(lead_ns).unwrap_or(0))
    }

    /// Returns how many of the next `samples`, the first of them taken at `requested`, form the next run, and
    /// its time.
    ///
    /// `of_block` is the size of the block that they are the rest of.
    pub(crate) fn next_run(&self, rate: SampleRate, requested: WallTime, samples: u64, of_block: u64) -> Run {
        let Some(newest) = self.newest.filter(|newest| requested.nanos_since(*newest) < 0) else {
            return Run { first: requested, samples };
        };
        let half_period_ns = i64::try_from(rate.duration_of(1).as_nanos() / 2).unwrap_or(i64::MAX).max(1);
        let first = WallTime::from_nanos(newest.as_nanos().saturating_add(half_period_ns)).max(requested);
        let catches_up = first > requested && self.lead_over(requested) <= MAX_LEAD;
        let run = if catches_up { run_samples(of_block) } else { samples };
        // A rest that would be too small is included.
        let is_last = samples < run.saturating_mul(2);
        Run { first, samples: if is_last { samples } else { run } }
    }

    /// Returns the maximum number of runs for a block whose first sample was taken at `requested`.
    pub(crate) fn most_runs(&self, requested: WallTime, of_block: u64) -> usize {
        let is_cut = self.lead_over(requested) > Duration::ZERO;
        let runs = if is_cut { of_block.div_ceil(run_samples(of_block)) } else { 1 };
        usize::try_from(runs).unwrap_or(usize::MAX)
    }

    /// Notes samples that were given their times.
    pub(crate) fn told(&mut self, rate: SampleRate, run: Run) {
        if let Some(last) = run.samples.checked_sub(1) {
            let last = rate.time_of(last, 0, run.first);
            self.newest = Some(self.newest.map_or(last, |newest| newest.max(last)));
        }
    }
}

/// Returns the number of samples between two seams of a block that catches up.
fn run_samples(of_block: u64) -> u64 {
    (of_block / RUNS).clamp(MIN_RUN_SAMPLES, MAX_RUN_SAMPLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn at(ms: i64) -> WallTime {
        WallTime::from_nanos(1_763_756_051_000_000_000 + ms * MS)
    }

    /// Gives times to blocks of (milliseconds, number) samples; returns the time of every sample, in
    /// microseconds.
    fn told(rate: &str, blocks: &[(i64, u64)]) -> Vec<i64> {
        let (rate, mut timeline, mut times) = (rate.parse().unwrap(), Timeline::default(), Vec::new());
        for &(ms, of_block) in blocks {
            let (mut requested, mut left) = (at(ms), of_block);
            while left > 0 {
                let run = timeline.next_run(rate, requested, left, of_block);
                timeline.told(rate, run);
                let time = |index| rate.time_of(index, 0, run.first).nanos_since(at(0)) / 1_000;
                times.extend((0..run.samples).map(time));
                requested = rate.time_of(run.samples, 0, requested);
                left -= run.samples;
            }
        }
        times
    }

    fn never_goes_back(times: &[i64]) -> bool {
        times.is_sorted()
    }

    #[test]
    fn blocks_that_follow_each_other_are_told_as_they_are() {
        assert_eq!(told("1k", &[(0, 3), (3, 2), (50, 1)]), [0, 1_000, 2_000, 3_000, 4_000, 50_000]);
        assert_eq!(told("1k", &[(0, 3), (2, 1)]), [0, 1_000, 2_000, 2_000], "the same time is not before");
    }

    #[test]
    fn a_block_that_would_begin_before_the_one_in_front_catches_up_at_its_seams() {
        // 2.5 ms too early: five seams that save half a millisecond each.
        let times = told("1k", &[(0, 10), (6, 100)]);
        assert!(never_goes_back(&times), "{times:?}");
        assert_eq!(times[10], 9_500);
        assert_eq!(times[109], 105_000, "on time in the end");
        let late: Vec<i64> = (0..100).map(|k| times[10 + k as usize] - 6_000 - 1_000 * k).collect();
        assert!(late.iter().all(|late| (0..=3_500).contains(late)), "{late:?}");
    }

    #[test]
    fn single_samples_catch_up_too() {
        let times = told("10", &[(0, 1), (100, 1), (50, 1), (150, 1), (250, 1), (350, 1)]);
        assert_eq!(times, [0, 100_000, 150_000, 150_000, 250_000, 350_000]);
    }

    #[test]
    fn a_step_of_a_second_is_made_up_for_in_time() {
        for (rate, per_block, block_ms) in [("1k", 100, 100), ("48k", 480, 10), ("200k", 200_000, 1_000)] {
            let blocks =
                (0..150_000 / block_ms).map(|k| (k * block_ms - if k > 0 { 1_000 } else { 0 }, per_block));
            let blocks: Vec<_> = blocks.collect();
            let times = told(rate, &blocks);
            assert!(never_goes_back(&times), "{rate}");
            let last = blocks.last().unwrap().0 * 1_000;
            assert_eq!(times[times.len() - usize::try_from(per_block).unwrap()], last, "{rate}");
        }
    }

    #[test]
    fn what_lies_too_far_ahead_is_not_cut_to_pieces() {
        let mut timeline = Timeline::default();
        let rate = "1k".parse().unwrap();
        timeline.told(rate, Run { first: at(5_000), samples: 1 });
        assert_eq!(timeline.lead_over(at(3_999)), Duration::from_millis(1_001));
        assert_eq!(timeline.next_run(rate, at(3_999), 640, 640).samples, 640);
        assert_eq!(timeline.next_run(rate, at(4_000), 640, 640).samples, 10);
        assert_eq!(timeline.next_run(rate, at(4_000), 15, 15).samples, 15, "no run of a few samples is left");
    }
}
