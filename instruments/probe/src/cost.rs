//! Cost of moving data on an end system: processor cycles per bit.
//!
//! Source: Gu and Grossman, "Optimizing UDP-based Protocol Implementations" (PFLDnet 2005), §2: megahertz of
//! processor per megabit a second, which is cycles per bit, for sending and receiving separately.

use core::time::Duration;

/// Returns megahertz per megabit a second: the cycles of `cpu` at `cpu_mhz`, divided by `bits`.
///
/// `None` if nothing was moved, or the frequency is not a positive number.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "bits of a run are far below 2^53")]
pub fn mhz_per_mbit(cpu: Duration, cpu_mhz: f64, bits: u64) -> Option<f64> {
    let is_known = cpu_mhz.is_finite() && cpu_mhz > 0.0 && bits > 0;
    is_known.then(|| cpu.as_secs_f64() * cpu_mhz * 1e6 / bits as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_whole_processor_of_a_gigahertz_at_a_gigabit_a_second_costs_one() {
        let cost = mhz_per_mbit(Duration::from_secs(1), 1_000.0, 1_000_000_000);
        assert_eq!(cost, Some(1.0));
        // The first row of the source: 22 % of one of 1,500 MHz at 1,500 Mbit/s.
        let cost = mhz_per_mbit(Duration::from_millis(220), 1_500.0, 1_500_000_000).unwrap();
        assert!((cost - 0.22).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn what_is_not_known_has_no_cost() {
        assert_eq!(mhz_per_mbit(Duration::from_secs(1), 1_000.0, 0), None);
        for mhz in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(mhz_per_mbit(Duration::from_secs(1), mhz, 1), None, "{mhz}");
        }
    }

    proptest! {
        #[test]
        fn the_cost_does_not_depend_on_how_long_it_was_measured(
            cpu_us in 1_u64..1_000_000, mhz in 1.0_f64..10_000.0, bits in 1_u64..1_000_000_000, times in 1_u32..100,
        ) {
            let cpu = Duration::from_micros(cpu_us);
            let once = mhz_per_mbit(cpu, mhz, bits).unwrap();
            let longer = mhz_per_mbit(cpu * times, mhz, bits * u64::from(times)).unwrap();
            prop_assert!((once - longer).abs() <= once * 1e-9);
        }
    }
}
