//! The host's wall clock without short-lived steps, for times of samples.
//!
//! A wall clock is set: by NTP, by an operator, when a virtual machine resumes. It may be set back again a
//! moment later. It is compared with the monotonic clock, which is never set: small differences, as of a
//! clock that is slewed, are followed immediately, a step only when it has lasted.

use std::time::Duration;

use units::{Instant, WallTime};

/// Maximum difference that is not a step: less than any that matters to the times of samples, more than a
/// clock is slewed between two readings.
const STEP_NS: i64 = 100_000_000;
/// Duration of a step after which it is accepted.
const PATIENCE: Duration = Duration::from_secs(2);

/// A wall clock that follows a step of the host's clock only after it has lasted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyClock {
    /// Accepted difference between the wall clock and the monotonic clock.
    offset_ns: Option<i64>,
    /// Another difference that was observed, and since when.
    doubted: Option<(i64, Instant)>,
}

/// Reading of a [`SteadyClock`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SteadyTime {
    /// The time in UTC.
    pub wall: WallTime,
    /// Step of the clock that is accepted with this reading; 0 otherwise.
    ///
    /// Units: nanoseconds, negative where it was set back.
    pub step_ns: i64,
}

impl SteadyClock {
    /// Creates a clock that accepts the first reading.
    #[must_use]
    pub const fn new() -> Self {
        Self { offset_ns: None, doubted: None }
    }

    /// Returns the time, from a reading of both clocks at one moment.
    pub fn read(&mut self, (now, wall): (Instant, WallTime)) -> SteadyTime {
        let elapsed_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let offset_ns = wall.as_nanos().saturating_sub(elapsed_ns);
        let believed = *self.offset_ns.get_or_insert(offset_ns);
        let step_ns = offset_ns.saturating_sub(believed);
        if step_ns.unsigned_abs() <= STEP_NS.unsigned_abs() {
            return self.believe(offset_ns, now, 0);
        }
        let is_same = |(other, _): &(i64, Instant)| offset_ns.abs_diff(*other) <= STEP_NS.unsigned_abs();
        let (_, since) = self.doubted.filter(is_same).unwrap_or((offset_ns, now));
        if now.since(since) > PATIENCE {
            return self.believe(offset_ns, now, step_ns);
        }
        self.doubted = Some((offset_ns, since));
        SteadyTime { wall: WallTime::from_nanos(elapsed_ns.saturating_add(believed)), step_ns: 0 }
    }

    fn believe(&mut self, offset_ns: i64, now: Instant, step_ns: i64) -> SteadyTime {
        (self.offset_ns, self.doubted) = (Some(offset_ns), None);
        let elapsed_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        SteadyTime { wall: WallTime::from_nanos(elapsed_ns.saturating_add(offset_ns)), step_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const HOUR: i64 = 3_600_000;
    const START_NS: i64 = 1_763_756_051_000_000_000;

    /// Reads a clock at moments (milliseconds since the start, total step by then); returns the accepted
    /// steps.
    fn said(readings: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut clock = SteadyClock::new();
        let mut read = |&(ms, set): &(i64, i64)| {
            let now = Instant::from_nanos(u64::try_from((1_000_000 + ms) * MS).unwrap());
            let time = clock.read((now, WallTime::from_nanos(START_NS + (ms + set) * MS)));
            ((time.wall.as_nanos() - START_NS) / MS - ms, time.step_ns / MS)
        };
        readings.iter().map(&mut read).collect()
    }

    #[test]
    fn a_clock_that_is_slewed_is_followed_at_once() {
        assert_eq!(said(&[(0, 0), (10, 3), (20, 100), (30, 0)]), [(0, 0), (3, 0), (100, 0), (0, 0)]);
    }

    #[test]
    fn a_step_of_a_moment_is_not_followed_in_either_direction() {
        for step in [HOUR, -HOUR] {
            let told = said(&[(0, 0), (10, step), (2_010, step), (2_011, 0), (9_000, step), (9_001, 0)]);
            assert!(told.iter().all(|it| *it == (0, 0)), "{told:?}");
        }
    }

    #[test]
    fn a_step_that_lasts_is_followed_once_after_two_seconds() {
        for step in [HOUR, -HOUR, 101, -101] {
            let told =
                said(&[(0, 0), (10, step), (2_010, step), (2_011, step), (2_012, step), (9_000, step)]);
            assert_eq!(told, [(0, 0), (0, 0), (0, 0), (step, step), (step, 0), (step, 0)]);
        }
    }

    #[test]
    fn a_clock_that_steps_again_has_to_last_again() {
        let told = said(&[(0, 0), (10, HOUR), (1_500, -HOUR), (2_500, -HOUR), (3_501, -HOUR)]);
        assert_eq!(told, [(0, 0), (0, 0), (0, 0), (0, 0), (-HOUR, -HOUR)]);
    }

    #[test]
    fn a_slow_reader_sees_a_step_at_its_second_look() {
        assert_eq!(said(&[(0, 0), (60_000, HOUR), (120_000, HOUR)]), [(0, 0), (0, 0), (HOUR, HOUR)]);
    }
}
