//! Due times of a flow's datagrams: evenly spaced, in bursts no larger than a quantum, without catching up.

use core::time::Duration;

use units::Instant;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Maximum time one burst may stand for: what a sleep on a loaded host occasionally overruns.
const QUANTUM: Duration = Duration::from_millis(1);

/// Maximum number of units in a burst, however fast the flow. Source: twice what one `sendmmsg` takes.
const MOST_IN_BURST: u32 = 64;

/// Target rate of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowRate {
    /// No limit.
    Unlimited,
    /// `units` units in `nanos` nanoseconds; neither is zero.
    Limited {
        /// Numerator.
        units: u64,
        /// Denominator.
        nanos: u128,
    },
}

/// Answer of a pace: units due now, or the time of the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Number of units due now.
    Now(u32),
    /// Nothing before this time.
    At(Instant),
}

/// The timetable of a flow.
///
/// Unit `n` is due `n` periods after the beginning. A late caller finds at most one quantum due: the units that a
/// stall delayed are [skipped](Self::skipped), not sent as a burst that would itself be lost.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: FlowRate,
    quantum: u32,
    /// Due time of unit 0 of those counted in `handed`.
    anchor: Instant,
    handed: u64,
    skipped: u64,
}

impl FlowRate {
    /// Returns the rate of `bits_per_second` in units of `unit_bytes`; unlimited if either is zero.
    #[must_use]
    pub fn of_bits(bits_per_second: u64, unit_bytes: u64) -> Self {
        if bits_per_second == 0 || unit_bytes == 0 {
            return Self::Unlimited;
        }
        Self::Limited { units: bits_per_second, nanos: u128::from(unit_bytes) * 8 * NANOS_PER_SECOND }
    }

    /// Returns the rate of `units_per_second`; unlimited if it is zero.
    #[must_use]
    pub const fn of_units(units_per_second: u64) -> Self {
        match units_per_second {
            0 => Self::Unlimited,
            units => Self::Limited { units, nanos: NANOS_PER_SECOND },
        }
    }

    /// Returns the number of whole units that fit into a duration; `u64::MAX` without a limit.
    fn units_in(self, duration: Duration) -> u64 {
        match self {
            Self::Unlimited => u64::MAX,
            Self::Limited { units, nanos } => {
                u64::try_from(duration.as_nanos() * u128::from(units) / nanos).unwrap_or(u64::MAX)
            }
        }
    }

    /// Returns the time that `count` units take, rounded up; zero without a limit.
    fn time_of(self, count: u64) -> Duration {
        match self {
            Self::Unlimited => Duration::ZERO,
            Self::Limited { units, nanos } => {
                let nanos = u128::from(count).saturating_mul(nanos).div_ceil(u128::from(units));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

impl Pace {
    /// Creates a timetable whose first unit is due at `start`.
    #[must_use]
    pub fn new(rate: FlowRate, start: Instant) -> Self {
        let in_quantum = u32::try_from(rate.units_in(QUANTUM)).unwrap_or(u32::MAX);
        Self { rate, quantum: in_quantum.clamp(1, MOST_IN_BURST), anchor: start, handed: 0, skipped: 0 }
    }

    /// Returns what is due at `now`.
    pub fn due(&mut self, now: Instant) -> Due {
        if self.rate == FlowRate::Unlimited {
            return Due::Now(self.quantum);
        }
        if now < self.anchor {
            return Due::At(self.anchor);
        }
        let by_now = self.rate.units_in(now.since(self.anchor)).saturating_add(1);
        let owed = by_now.saturating_sub(self.handed);
        if owed == 0 {
            return Due::At(self.anchor + self.rate.time_of(self.handed));
        }
        let quantum = u64::from(self.quantum);
        if owed > quantum {
            self.skipped += owed - quantum;
            self.handed += owed - quantum;
        }
        Due::Now(u32::try_from(owed.min(quantum)).expect("a quantum is small"))
    }

    /// Records that `count` units were handed over.
    pub fn hand(&mut self, count: u32) {
        self.handed += u64::from(count);
    }

    /// Returns the number of units that a stall prevented from being sent.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the maximum number of units due at once.
    #[must_use]
    pub const fn quantum(&self) -> u32 {
        self.quantum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Instant = Instant::from_nanos(5_000_000);

    fn at(micros: u64) -> Instant {
        START + Duration::from_micros(micros)
    }

    #[test]
    fn units_are_due_one_by_one_and_evenly() {
        // 1,250 bytes at 10 Mbit/s: one per millisecond.
        let mut pace = Pace::new(FlowRate::of_bits(10_000_000, 1_250), START);
        assert_eq!(pace.due(Instant::ORIGIN), Due::At(START));
        for number in 0..100 {
            assert_eq!(pace.due(at(1_000 * number)), Due::Now(1));
            pace.hand(1);
            assert_eq!(pace.due(at(1_000 * number)), Due::At(at(1_000 * (number + 1))));
        }
        assert_eq!(pace.skipped(), 0);
    }

    #[test]
    fn after_a_stall_a_quantum_is_due_and_the_rest_is_skipped() {
        // 10,000 per second: a quantum is 10.
        let mut pace = Pace::new(FlowRate::of_units(10_000), START);
        assert_eq!(pace.due(at(1_000_000)), Due::Now(10));
        pace.hand(10);
        assert_eq!((pace.skipped(), pace.due(at(1_000_000))), (10_001 - 10, Due::At(at(1_000_100))));
    }

    #[test]
    fn without_a_limit_a_burst_is_always_due() {
        let mut pace = Pace::new(FlowRate::of_bits(0, 1_000), START);
        for _ in 0..3 {
            assert_eq!(pace.due(START), Due::Now(MOST_IN_BURST));
            pace.hand(MOST_IN_BURST);
        }
        assert_eq!(pace.skipped(), 0);
        assert_eq!(FlowRate::of_bits(1, 0), FlowRate::Unlimited);
    }

    #[test]
    fn a_long_flow_does_not_drift() {
        // 3 units in 7 ns, for a day.
        let rate = FlowRate::Limited { units: 3, nanos: 7 };
        let day = Duration::from_secs(86_400);
        assert_eq!(rate.units_in(day), 86_400_000_000_000 * 3 / 7);
        assert!(rate.time_of(rate.units_in(day)) <= day && rate.time_of(rate.units_in(day) + 1) > day);
    }

    proptest! {
        #[test]
        fn every_unit_is_sent_or_skipped_and_no_burst_exceeds_the_quantum(
            rate in 1_u64..2_000_000,
            waits in prop::collection::vec(0_u64..3_000, 1..200),
        ) {
            let mut pace = Pace::new(FlowRate::of_units(rate), START);
            let (mut now, mut sent) = (START, 0);
            for wait in waits {
                now += Duration::from_micros(wait);
                if let Due::Now(count) = pace.due(now) {
                    prop_assert!((1..=pace.quantum()).contains(&count));
                    pace.hand(count);
                    sent += u64::from(count);
                }
                let owed = u64::try_from(now.since(START).as_nanos() * u128::from(rate) / 1_000_000_000).unwrap() + 1;
                prop_assert_eq!(sent + pace.skipped(), owed);
            }
        }
    }
}
