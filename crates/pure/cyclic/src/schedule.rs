//! Due times of cycles: absolute moments that never drift, the same for all apps of one period on
//! all hosts.

use core::time::Duration;

use units::{Instant, RateError, SampleRate, WallTime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Shortest period; a shorter one cannot be kept by sleeping (`sys::clock`: a sleep ends some
/// microseconds late).
const MIN_PERIOD: Duration = Duration::from_micros(50);

/// Period of the calls of an app's function, and their phase within it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Time from one cycle to the next.
    pub period: Duration,
    /// Delay of a cycle after each whole multiple of the period; less than the period.
    pub phase: Duration,
}

/// The due times of a cyclic app: `start + index · period` on the monotonic clock.
///
/// The start is the next whole multiple of the period in UTC plus the phase, converted to the
/// monotonic clock once. So apps of one period begin their cycles together on hosts whose clocks
/// agree, and a step of the wall clock has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    period: Duration,
    start: Instant,
    start_time: WallTime,
    next: u64,
}

/// Index and due time of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// Index of the cycle, from 0; skipped cycles have an index too.
    pub index: u64,
    /// Due time on the monotonic clock.
    pub at: Instant,
    /// Due time in UTC, by the clock as it was when the schedule was created: a whole multiple of
    /// the period plus the phase.
    pub time: WallTime,
}

/// Reason why a duration cannot be a period.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodError {
    /// The period is too short to be kept.
    #[error("a period of {0:?} is shorter than {MIN_PERIOD:?}\nchoose a longer one; 10 ms is the default")]
    TooShort(Duration),
    /// The phase is not within the period.
    #[error(
        "a phase of {phase:?} is not within the period of {period:?}\nchoose a shorter one, such as a third of it"
    )]
    Phase {
        /// The phase asked for.
        phase: Duration,
        /// The period asked for.
        period: Duration,
    },
    /// Its frequency is not a fraction that a stream can have.
    #[error("a period of {0:?} cannot be written as a sample rate\nuse fewer digits, such as 10 ms")]
    NoRate(Duration),
}

impl Beat {
    /// Returns one cycle per period as an exact fraction.
    ///
    /// # Errors
    /// [`PeriodError`] if the period is too short or is not a sample rate, or the phase is not
    /// within it.
    pub fn rate(self) -> Result<SampleRate, PeriodError> {
        let Self { period, phase } = self;
        let rate = rate_of(period)?;
        if phase >= period {
            return Err(PeriodError::Phase { phase, period });
        }
        Ok(rate)
    }
}

impl Schedule {
    /// Creates the schedule of a period; `clocks` are both clocks read at one moment, at or after
    /// which the first cycle is due.
    ///
    /// # Errors
    /// [`PeriodError`] if the period is too short or is not a sample rate, or the phase is not
    /// within it.
    pub fn aligned(beat: Beat, clocks: (Instant, WallTime)) -> Result<Self, PeriodError> {
        beat.rate()?;
        let Beat { period, phase } = beat;
        let (now, time) = clocks;
        let nanos = i64::try_from(period.as_nanos()).map_err(|_| PeriodError::NoRate(period))?;
        let phase = i64::try_from(phase.as_nanos()).map_err(|_| PeriodError::NoRate(period))?;
        let since_last = time.offset(-phase).as_nanos().rem_euclid(nanos);
        let wait = if since_last == 0 { 0 } else { nanos - since_last };
        let start = now + Duration::from_nanos(wait.unsigned_abs());
        Ok(Self { period, start, start_time: time.offset(wait), next: 0 })
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Returns the next cycle.
    #[must_use]
    pub fn due(&self) -> Due {
        self.due_of(self.next)
    }

    /// Returns the time that the wall clock would show at a moment if it had not been set since the
    /// schedule was created.
    #[must_use]
    pub fn time_at(&self, now: Instant) -> WallTime {
        let nanos = i128::from(now.as_nanos()) - i128::from(self.start.as_nanos());
        self.start_time.offset(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// Ends the current cycle; returns how many cycles after it are skipped because their time has
    /// passed.
    ///
    /// A cycle that ends at the due time of the next one is in time. Skipped cycles are never
    /// caught up: the next cycle is the first that is due now or later.
    pub fn ended(&mut self, now: Instant) -> u64 {
        let following = self.next + 1;
        let elapsed = u128::from(now.since(self.start).as_nanos() as u64);
        let due_next = u64::try_from(elapsed.div_ceil(self.period.as_nanos())).unwrap_or(u64::MAX);
        self.next = due_next.max(following);
        self.next - following
    }

    fn due_of(&self, index: u64) -> Due {
        let nanos = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX).saturating_mul(index);
        let time = self.start_time.offset(i64::try_from(nanos).unwrap_or(i64::MAX));
        Due { index, at: self.start + Duration::from_nanos(nanos), time }
    }
}

fn rate_of(period: Duration) -> Result<SampleRate, PeriodError> {
    if period < MIN_PERIOD {
        return Err(PeriodError::TooShort(period));
    }
    let no_rate = || PeriodError::NoRate(period);
    let nanos = u64::try_from(period.as_nanos()).map_err(|_| no_rate())?;
    let divisor = greatest_common_divisor(NANOS_PER_SECOND, nanos);
    let part = |value: u64| u32::try_from(value / divisor).map_err(|_| no_rate());
    SampleRate::new(part(NANOS_PER_SECOND)?, part(nanos)?).map_err(|_: RateError| no_rate())
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Duration = Duration::from_millis(10);
    const BEAT: Beat = Beat { period: PERIOD, phase: Duration::ZERO };

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn cycles_begin_at_whole_multiples_of_the_period_in_utc() {
        // The wall clock is 3 ms past a multiple; the monotonic clock has an unrelated time.
        let schedule =
            Schedule::aligned(BEAT, (at(500), WallTime::from_nanos(70_000_000 + 3_000_000))).unwrap();
        let due = schedule.due();
        assert_eq!((due.index, due.at, due.time), (0, at(7_000_500), WallTime::from_nanos(80_000_000)));
        let on_time = Schedule::aligned(BEAT, (at(500), WallTime::from_nanos(70_000_000))).unwrap();
        assert_eq!(on_time.due().at, at(500), "a multiple itself is not waited for another period");
        let before_1970 = Schedule::aligned(BEAT, (at(0), WallTime::from_nanos(-1))).unwrap();
        assert_eq!(before_1970.due().time, WallTime::from_nanos(0));
    }

    #[test]
    fn a_cycle_that_ends_at_the_next_due_time_is_in_time_and_a_nanosecond_later_is_not() {
        for (end, skipped, next) in
            [(9_999_999, 0, 1), (10_000_000, 0, 1), (10_000_001, 1, 2), (20_000_000, 1, 2)]
        {
            let mut schedule = Schedule::aligned(BEAT, (at(0), WallTime::from_nanos(0))).unwrap();
            assert_eq!((schedule.ended(at(end)), schedule.due().index), (skipped, next), "{end}");
            assert_eq!(schedule.due().at, at(next * 10_000_000));
        }
    }

    #[test]
    fn a_phase_lies_within_the_period_and_puts_every_cycle_that_much_later() {
        let schedule = |phase: u64, wall: i64| {
            let beat = Beat { period: PERIOD, phase: Duration::from_nanos(phase) };
            Schedule::aligned(beat, (at(0), WallTime::from_nanos(wall)))
                .map(|schedule| schedule.due().time.as_nanos())
        };
        assert_eq!(schedule(3_000_000, 20_000_000), Ok(23_000_000));
        assert_eq!(schedule(3_000_000, 23_000_000), Ok(23_000_000));
        assert_eq!(schedule(3_000_000, 23_000_001), Ok(33_000_000));
        assert_eq!(schedule(9_999_999, 0), Ok(9_999_999));
        let refused = PeriodError::Phase { phase: PERIOD, period: PERIOD };
        assert_eq!(schedule(10_000_000, 0), Err(refused));
    }

    #[test]
    fn periods_that_are_rates_are_taken_and_others_refused() {
        assert_eq!(rate_of(PERIOD), Ok(SampleRate::hz(100).unwrap()));
        assert_eq!(
            rate_of(Duration::from_nanos(3_333_333)),
            Ok(SampleRate::new(1_000_000_000, 3_333_333).unwrap())
        );
        assert_eq!(rate_of(Duration::from_secs(3_600)), Ok(SampleRate::new(1, 3_600).unwrap()));
        assert!(rate_of(MIN_PERIOD).is_ok());
        let short = MIN_PERIOD - Duration::from_nanos(1);
        assert_eq!(rate_of(short), Err(PeriodError::TooShort(short)));
        let odd = Duration::from_nanos((1 << 32) + 1);
        assert_eq!(rate_of(odd), Err(PeriodError::NoRate(odd)));
    }

    proptest! {
        /// Due times stay on the grid and increase, and no cycle is skipped before its time,
        /// however long cycles take.
        #[test]
        fn due_times_never_drift_and_never_come_in_bursts(
            period in 50_000_u64..20_000_000,
            wall in any::<i32>(),
            phase in 0_u64..50_000,
            runs in prop::collection::vec(0_u64..100_000_000, 1..50),
        ) {
            let begin = (at(1_000), WallTime::from_nanos(i64::from(wall)));
            let mut schedule = Schedule::aligned(Beat { period: Duration::from_nanos(period), phase: Duration::from_nanos(phase) }, begin).unwrap();
            let first = schedule.due();
            let mut executed = 0;
            let mut total_skipped = 0;
            for run in runs {
                let due = schedule.due();
                prop_assert_eq!(due.at, first.at + Duration::from_nanos(due.index * period));
                prop_assert_eq!(due.time.as_nanos().rem_euclid(period as i64), phase as i64);
                prop_assert_eq!(schedule.time_at(due.at), due.time);
                let end = due.at + Duration::from_nanos(run);
                let skipped = schedule.ended(end);
                executed += 1;
                total_skipped += skipped;
                prop_assert_eq!(schedule.due().index, executed + total_skipped);
                prop_assert!(schedule.due().at >= end, "nothing is made up for");
                prop_assert!(schedule.due().at < end.max(due.at + Duration::from_nanos(1)) + Duration::from_nanos(period));
            }
        }
    }
}
