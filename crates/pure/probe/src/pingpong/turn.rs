//! Which sizes are exchanged, and how often each.

use core::time::Duration;

use units::Instant;

/// The largest message of source 003. Units: bytes.
pub const LARGEST_OF_SOURCE_003: u64 = 9_288_586;

/// The factor between two sizes of a curve: coarse enough for a short measurement, fine enough to see where it bends.
const STEP: u64 = 4;

/// Returns the sizes of a curve: powers of four from one byte on, and the largest itself.
#[must_use]
pub fn sizes(largest: u64) -> Vec<u64> {
    let powers = core::iter::successors(Some(1), |size: &u64| size.checked_mul(STEP));
    powers.take_while(|size| *size < largest).chain([largest]).collect()
}

/// How long a size is exchanged: until one of both is reached, but [`Turn::FEWEST`] times in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Until {
    /// So long.
    pub time: Duration,
    /// So often.
    pub exchanges: u64,
}

/// The exchanges of one size.
///
/// Those of the first part are not measured: a connection is only then as fast as it gets. They are
/// in the account.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    until: Until,
    began: Instant,
    exchanged: u64,
}

impl Turn {
    /// How often a size is measured, however long it takes: fewer have no median.
    pub const FEWEST: u64 = 3;
    /// How many exchanges of a size are not measured, at most.
    pub const UNMEASURED: u64 = 10;
    /// Which part of the exchanges is not measured. Units: one of so many.
    const UNMEASURED_PART: u64 = 10;

    /// Begins.
    #[must_use]
    pub const fn begin(until: Until, now: Instant) -> Self {
        Self { until, began: now, exchanged: 0 }
    }

    /// Tells whether to exchange once more.
    #[must_use]
    pub fn goes_on(&self, now: Instant) -> bool {
        let measured = self.exchanged.saturating_sub(self.unmeasured());
        measured < Self::FEWEST
            || (measured < self.until.exchanges && now.since(self.began) < self.until.time)
    }

    /// Takes note of an exchange, complete or lost; tells whether it is measured.
    pub fn exchanged(&mut self) -> bool {
        self.exchanged += 1;
        self.exchanged > self.unmeasured()
    }

    /// Returns how many exchanges at the beginning are not measured: at least one, and no larger part of a small number.
    fn unmeasured(&self) -> u64 {
        (self.until.exchanges / Self::UNMEASURED_PART).clamp(1, Self::UNMEASURED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_curve_of_the_source_ends_with_its_largest_message_exactly() {
        let sizes = sizes(LARGEST_OF_SOURCE_003);
        assert_eq!(
            sizes,
            [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 9_288_586]
        );
        assert_eq!((super::sizes(1), super::sizes(4), super::sizes(5)), (vec![1], vec![1, 4], vec![1, 4, 5]));
    }

    #[test]
    fn a_slow_size_is_measured_often_enough_for_a_median() {
        let until = Until { time: Duration::from_millis(1), exchanges: 100 };
        let mut turn = Turn::begin(until, Instant::ORIGIN);
        let (mut now, mut measured) = (Instant::ORIGIN, 0);
        while turn.goes_on(now) {
            now += Duration::from_secs(1);
            measured += u64::from(turn.exchanged());
        }
        assert_eq!(measured, Turn::FEWEST);
    }

    proptest! {
        #[test]
        fn a_turn_ends_by_count_or_by_time_and_not_before(
            exchanges in 1_u64..500,
            millis in 1_u64..100,
            takes_us in 1_u64..2_000,
        ) {
            let until = Until { time: Duration::from_millis(millis), exchanges };
            let mut turn = Turn::begin(until, Instant::ORIGIN);
            let (mut now, mut measured) = (Instant::ORIGIN, 0);
            while turn.goes_on(now) {
                now += Duration::from_micros(takes_us);
                measured += u64::from(turn.exchanged());
            }
            prop_assert!(measured >= Turn::FEWEST.min(exchanges.max(Turn::FEWEST)));
            prop_assert!(measured <= exchanges.max(Turn::FEWEST));
            let is_over = now.since(Instant::ORIGIN) >= until.time;
            prop_assert!(measured >= exchanges || is_over);
        }
    }
}
