//! Times of the samples: within an epoch they never go back, however this process is delayed.

use std::time::Duration;

use tallycast::{SampleRate, SteadyClock, WallTime};
use units::Instant;

/// Minimum deviation of the clock that counts as a step; less is wake-up delay or drift.
const STEP_NS: i64 = 100_000_000;
/// Most that a publisher's times may be ahead of the clock before it begins a new epoch.
const LEAD_NS: i64 = 1_000_000_000;

/// The times of samples that are given out on a plan: by count and rate from the beginning on.
///
/// The delay of a sample's departure does not affect its time. Only a step of the system's clock does, if it persists;
/// a step back larger than a publisher compensates begins a new epoch.
pub(super) struct PacedTimes {
    rate: SampleRate,
    clock: SteadyClock,
    began: Instant,
    began_at: WallTime,
    /// Time of the newest sample that has its own.
    newest: WallTime,
}

/// Times of samples that arrive in real time: by count and rate while the clock agrees.
///
/// Arrivals are read from a [`SteadyClock`]; after a step back larger than a publisher compensates, times restart.
pub(super) struct LiveTimes {
    rate: SampleRate,
    /// The time of a sample, from which the others' follow.
    anchor: Option<(u64, WallTime)>,
    /// Earliest time of the next sample: the beginning, or just after the newest sample.
    earliest: WallTime,
}

impl PacedTimes {
    /// Begins with sample 0, at a moment on both clocks.
    pub(super) fn begin(rate: SampleRate, (began, began_at): (Instant, WallTime)) -> Self {
        let mut clock = SteadyClock::new();
        clock.read((began, began_at));
        Self { rate, clock, began, began_at, newest: began_at }
    }

    /// Returns the time of a sample, for a moment on both clocks.
    pub(super) fn time_of(&mut self, index: u64, now: (Instant, WallTime)) -> WallTime {
        let began_at = self.began_at(now);
        self.rate.time_of(index, 0, began_at)
    }

    /// Returns the time after a while since the beginning, for a moment on both clocks.
    pub(super) fn time_after(&mut self, after: Duration, now: (Instant, WallTime)) -> WallTime {
        let time = self.began_at(now).offset(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX));
        // A clock that was set back a little is waited for; by more, an epoch begins.
        let is_early = (0..=LEAD_NS).contains(&self.newest.nanos_since(time));
        self.newest = if is_early { self.newest } else { time };
        self.newest
    }

    /// Returns the beginning by the clock of this moment.
    fn began_at(&mut self, (now, wall): (Instant, WallTime)) -> WallTime {
        let elapsed = i64::try_from(now.since(self.began).as_nanos()).unwrap_or(i64::MAX);
        let began_at = self.clock.read((now, wall)).wall.offset(-elapsed);
        if began_at.nanos_since(self.began_at).unsigned_abs() > STEP_NS.unsigned_abs() {
            self.began_at = began_at;
        }
        self.began_at
    }
}

impl LiveTimes {
    /// Begins with nothing before `now`.
    pub(super) const fn begin(rate: SampleRate, now: WallTime) -> Self {
        Self { rate, anchor: None, earliest: now }
    }

    /// Returns the time of the first of `samples`, the last of which was taken when they arrived.
    ///
    /// If samples come faster than their rate, times run ahead of the clock rather than go back.
    pub(super) fn first_of(&mut self, index: u64, samples: u64, arrived: WallTime) -> WallTime {
        let lasted =
            i64::try_from(self.rate.duration_of(samples.saturating_sub(1)).as_nanos()).unwrap_or(i64::MAX);
        let by_clock = arrived.offset(-lasted);
        let by_count = self.anchor.map(|(anchor, time)| self.rate.time_of(index, anchor, time));
        let agrees = |time: &WallTime| by_clock.nanos_since(*time).unsigned_abs() <= STEP_NS.unsigned_abs();
        let first = by_count.filter(agrees).unwrap_or_else(|| {
            let first = by_clock.max(self.earliest);
            self.anchor = Some((index, first));
            first
        });
        self.earliest = self.rate.time_of(index + samples.saturating_sub(1), index, first).offset(1);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const START: i64 = 1_700_000_000_000_000_000;

    fn rate(text: &str) -> SampleRate {
        text.parse().unwrap()
    }

    fn at(millis: i64) -> WallTime {
        WallTime::from_nanos(START + millis * MS)
    }

    /// A moment on both clocks; the wall clock was set by `step`.
    fn moment(millis: u64, step: i64) -> (Instant, WallTime) {
        (Instant::from_nanos(millis * 1_000_000), at(i64::try_from(millis).unwrap() + step))
    }

    #[test]
    fn a_pause_of_the_process_leaves_no_trace_in_paced_times() {
        let mut times = PacedTimes::begin(rate("1k"), moment(50, 0));
        assert_eq!(times.time_of(0, moment(55, 0)), at(50));
        assert_eq!(times.time_of(5, moment(205, 0)), at(55), "150 ms late");
        assert_eq!(times.time_of(55, moment(210, 0)), at(105));
    }

    #[test]
    fn times_of_their_own_keep_their_distances_and_never_go_back() {
        let mut times = PacedTimes::begin(rate("1k"), moment(0, 0));
        let after = Duration::from_millis;
        assert_eq!(times.time_after(after(3), moment(900, 0)), at(3));
        assert_eq!(times.time_after(after(703), moment(900, 0)), at(703));
        for (later, step) in [(1_000, -400), (3_100, -400)] {
            times.time_after(after(703), moment(later, step));
        }
        assert_eq!(times.time_after(after(3_050), moment(3_100, -400)), at(2_650));
        assert_eq!(times.time_after(after(3_060), moment(3_100, -400)), at(2_660));
    }

    #[test]
    fn a_clock_that_was_set_is_followed_in_either_direction_once_that_has_lasted() {
        for step in [5_000, -5_000] {
            let mut times = PacedTimes::begin(rate("1k"), moment(10_000, 0));
            assert_eq!(times.time_of(10, moment(10_010, 99)), at(10_010));
            assert_eq!(times.time_of(20, moment(10_020, step)), at(10_020));
            assert_eq!(times.time_of(30, moment(10_030, 0)), at(10_030), "only for a moment");
            assert_eq!(times.time_of(40, moment(10_040, step)), at(10_040));
            assert_eq!(times.time_of(2_050, moment(12_050, step)), at(12_050 + step));
            assert_eq!(times.time_of(2_060, moment(12_060, step)), at(12_060 + step));
        }
    }

    #[test]
    fn a_burst_at_the_beginning_does_not_come_before_it() {
        let mut times = LiveTimes::begin(rate("10"), at(0));
        assert_eq!(times.first_of(0, 1_000, at(3)), at(0));
        // The clock is far behind now: times wait for it, each later than the one before.
        let last = at(99_900);
        assert_eq!(times.first_of(1_000, 1, at(1_000)), last.offset(1));
        assert_eq!(times.first_of(1_001, 1, at(1_100)), last.offset(2));
        assert_eq!(times.first_of(1_002, 1, at(100_100)), at(100_000).offset(2), "the clock has caught up");
    }

    #[test]
    fn a_flood_never_goes_back() {
        let mut times = LiveTimes::begin(rate("50k"), at(0));
        let (mut index, mut newest) = (0, at(0));
        for block in 0..300_u32 {
            let samples = 1_000 + u64::from(block % 7) * 500;
            // Blocks of 20 ms and more arrive every millisecond.
            let first = times.first_of(index, samples, at(i64::from(block)));
            assert!(block == 0 || first > newest, "block {block}");
            newest = rate("50k").time_of(index + samples - 1, index, first);
            index += samples;
        }
    }

    #[test]
    fn a_pause_of_the_source_is_seen_in_live_times() {
        let mut times = LiveTimes::begin(rate("100"), at(0));
        assert_eq!(times.first_of(0, 1, at(10)), at(10));
        assert_eq!(times.first_of(1, 1, at(27)), at(20), "a little late is on time");
        assert_eq!(times.first_of(2, 1, at(5_000)), at(5_000));
        assert_eq!(times.first_of(3, 1, at(5_011)), at(5_010));
    }
}
