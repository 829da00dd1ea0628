//! Message sizes of a curve, and the number of exchanges of each.

use core::time::Duration;

use units::Instant;

/// Largest message of Petri 2007. Units: bytes.
pub const LARGEST_OF_PETRI_2007: u64 = 9_288_586;

/// Factor between two sizes of a curve: coarse enough for a short measurement, fine enough to show where it bends.
const FACTOR: u64 = 4;

/// Returns the sizes of a curve: powers of four from one byte on, and the largest itself.
#[must_use]
pub fn sizes(largest: u64) -> Vec<u64> {
    let powers = core::iter::successors(Some(1), |size: &u64| size.checked_mul(FACTOR));
    powers.take_while(|size| *size < largest).chain([largest]).collect()
}

/// Limits of a size step: it ends at the first one reached, but not before [`SizeStep::FEWEST`] exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Until {
    /// Time limit.
    pub time: Duration,
    /// Exchange limit.
    pub exchanges: u64,
}

/// The exchanges of one size.
///
/// Exchanges at the beginning are not measured, because a connection needs them to reach its speed. They count in
/// the account.
#[derive(Clone, Copy, Debug)]
pub struct SizeStep {
    until: Until,
    began: Instant,
    unmeasured: u64,
    measured: u64,
    is_measuring: bool,
}

impl SizeStep {
    /// Minimum number of measured exchanges, however long they take: fewer have no median.
    pub const FEWEST: u64 = 3;
    /// Maximum number of exchanges of a size that are not measured; at least one is not.
    pub const UNMEASURED: u64 = 10;
    /// Share of the time, or of the exchanges, that is not measured: one part in this many.
    const UNMEASURED_PART: u32 = 10;

    /// Begins a size step.
    #[must_use]
    pub const fn begin(until: Until, now: Instant) -> Self {
        Self { until, began: now, unmeasured: 0, measured: 0, is_measuring: false }
    }

    /// Returns whether to exchange once more.
    #[must_use]
    pub fn goes_on(&self, now: Instant) -> bool {
        let is_enough = self.measured >= self.until.exchanges || now.since(self.began) >= self.until.time;
        self.measured < Self::FEWEST || !is_enough
    }

    /// Records an exchange, complete or lost, that ended at `now`; returns whether it is measured.
    pub fn exchanged(&mut self, now: Instant) -> bool {
        let is_measured = self.is_measuring;
        if is_measured {
            self.measured += 1;
        } else {
            self.unmeasured += 1;
            let of_exchanges =
                (self.until.exchanges / u64::from(Self::UNMEASURED_PART)).min(Self::UNMEASURED);
            let is_time = now.since(self.began) >= self.until.time / Self::UNMEASURED_PART;
            self.is_measuring = is_time || self.unmeasured >= of_exchanges;
        }
        is_measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_curve_of_the_source_ends_with_its_largest_message_exactly() {
        let sizes = sizes(LARGEST_OF_PETRI_2007);
        assert_eq!(
            sizes,
            [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 9_288_586]
        );
        assert_eq!((super::sizes(1), super::sizes(4), super::sizes(5)), (vec![1], vec![1, 4], vec![1, 4, 5]));
    }

    #[test]
    fn a_slow_size_is_measured_often_enough_for_a_median() {
        let until = Until { time: Duration::from_millis(1), exchanges: 100 };
        let mut size_step = SizeStep::begin(until, Instant::ORIGIN);
        let (mut now, mut measured) = (Instant::ORIGIN, 0);
        while size_step.goes_on(now) {
            now += Duration::from_secs(1);
            measured += u64::from(size_step.exchanged(now));
        }
        assert_eq!(measured, SizeStep::FEWEST);
    }

    #[test]
    fn what_is_not_measured_is_one_exchange_of_slow_ones_and_ten_of_fast_ones() {
        let unmeasured = |takes: Duration| {
            let until = Until { time: Duration::from_millis(500), exchanges: 1_000 };
            let mut size_step = SizeStep::begin(until, Instant::ORIGIN);
            let (mut now, mut unmeasured) = (Instant::ORIGIN, 0);
            while size_step.goes_on(now) {
                now += takes;
                unmeasured += u64::from(!size_step.exchanged(now));
            }
            unmeasured
        };
        // A tenth of the time is 50 ms.
        assert_eq!(unmeasured(Duration::from_millis(60)), 1);
        assert_eq!(unmeasured(Duration::from_millis(20)), 3);
        assert_eq!(unmeasured(Duration::from_micros(50)), SizeStep::UNMEASURED);
    }

    proptest! {
        #[test]
        fn a_size_step_ends_by_count_or_by_time_and_not_before(
            exchanges in 1_u64..500,
            millis in 1_u64..100,
            takes_us in 1_u64..2_000,
        ) {
            let until = Until { time: Duration::from_millis(millis), exchanges };
            let mut size_step = SizeStep::begin(until, Instant::ORIGIN);
            let (mut now, mut measured) = (Instant::ORIGIN, 0);
            while size_step.goes_on(now) {
                now += Duration::from_micros(takes_us);
                measured += u64::from(size_step.exchanged(now));
            }
            prop_assert!(measured >= SizeStep::FEWEST.min(exchanges.max(SizeStep::FEWEST)));
            prop_assert!(measured <= exchanges.max(SizeStep::FEWEST));
            let is_over = now.since(Instant::ORIGIN) >= until.time;
            prop_assert!(measured >= exchanges || is_over);
        }
    }
}
