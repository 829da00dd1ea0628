//! Timetable that keeps a processor busy for a share of the time: artificial load.

use core::time::Duration;

use units::Instant;

/// The whole, in millionths.
const WHOLE_PPM: u32 = 1_000_000;

/// A timetable of busy and idle slices.
///
/// Period k begins at `start + k · period` and begins busy. The times are fixed relative to the start: a late
/// caller does less work and does not catch up, so the actual consumption must be measured.
///
/// ```
/// use core::time::Duration;
/// use probe::{DutyCycle, Phase};
/// use units::Instant;
///
/// let millis = |millis| Instant::ORIGIN + Duration::from_millis(millis);
/// let load = DutyCycle::new(300_000, Duration::from_millis(10), Instant::ORIGIN);
/// assert_eq!(load.at(millis(42)), Phase::Busy { until: millis(43) });
/// assert_eq!(load.at(millis(43)), Phase::Idle { until: millis(50) });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DutyCycle {
    start: Instant,
    period: Duration,
    busy: Duration,
}

/// Task at a given time, and its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Work.
    Busy {
        /// End of the busy slice.
        until: Instant,
    },
    /// Sleep.
    Idle {
        /// End of the idle slice.
        until: Instant,
    },
}

impl DutyCycle {
    /// Creates a timetable that is busy for `share_ppm` millionths of each period, at most all of it.
    ///
    /// # Panics
    /// If the period is zero.
    #[must_use]
    pub fn new(share_ppm: u32, period: Duration, start: Instant) -> Self {
        assert!(!period.is_zero(), "a period has a length");
        let nanos = period.as_nanos() * u128::from(share_ppm.min(WHOLE_PPM)) / u128::from(WHOLE_PPM);
        let busy = Duration::from_nanos(u64::try_from(nanos).expect("no longer than the period"));
        Self { start, period, busy }
    }

    /// Returns the task at `now`; idle before the start.
    #[must_use]
    pub fn at(&self, now: Instant) -> Phase {
        if now < self.start {
            return Phase::Idle { until: self.start };
        }
        let period = self.period.as_nanos();
        let into = u64::try_from(now.since(self.start).as_nanos() % period).expect("less than a period");
        let began = now - Duration::from_nanos(into);
        let next = began + self.period;
        if Duration::from_nanos(into) >= self.busy {
            return Phase::Idle { until: next };
        }
        Phase::Busy { until: began + self.busy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Instant = Instant::from_nanos(5_000);
    const PERIOD: Duration = Duration::from_nanos(100);

    #[test]
    fn a_period_begins_busy_and_ends_idle() {
        let load = DutyCycle::new(300_000, PERIOD, START);
        let at = |nanos: u64| load.at(START + Duration::from_nanos(nanos));
        let moment = |nanos: u64| START + Duration::from_nanos(nanos);
        assert_eq!(load.at(Instant::ORIGIN), Phase::Idle { until: START });
        assert_eq!(at(0), Phase::Busy { until: moment(30) });
        assert_eq!(at(29), Phase::Busy { until: moment(30) });
        assert_eq!(at(30), Phase::Idle { until: moment(100) });
        assert_eq!(at(100), Phase::Busy { until: moment(130) });
    }

    #[test]
    fn nothing_is_never_busy_and_everything_is_never_idle() {
        for nanos in [0, 1, 99, 100, 12_345] {
            let now = START + Duration::from_nanos(nanos);
            assert!(matches!(DutyCycle::new(0, PERIOD, START).at(now), Phase::Idle { .. }), "{nanos}");
            assert!(
                matches!(DutyCycle::new(2_000_000, PERIOD, START).at(now), Phase::Busy { .. }),
                "{nanos}"
            );
        }
    }

    proptest! {
        #[test]
        fn whoever_keeps_to_it_is_busy_for_its_share(
            share_ppm in 0_u32..=1_000_000,
            period_us in 1_u64..50_000,
            periods in 1_u32..50,
        ) {
            let period = Duration::from_micros(period_us);
            let load = DutyCycle::new(share_ppm, period, START);
            let end = START + period * periods;
            let (mut now, mut busy, mut steps) = (START, Duration::ZERO, 0);
            while now < end {
                let until = match load.at(now) {
                    Phase::Busy { until } => {
                        busy += until.since(now);
                        until
                    }
                    Phase::Idle { until } => until,
                };
                prop_assert!(until > now, "time goes on");
                now = until;
                steps += 1;
            }
            prop_assert!(now == end && steps <= 2 * periods);
            let nanos = period.as_nanos() * u128::from(share_ppm) / 1_000_000;
            prop_assert_eq!(busy.as_nanos(), nanos * u128::from(periods));
        }
    }
}
