//! Frequency at which processors worked: the samples of each, weighted by its busy time.
//!
//! An idle processor shows its lowest frequency, and one that has just become idle a falling one. A plain mean over
//! all processors, or a sample at the end, would describe idle processors.

use core::time::Duration;

/// Ratio of the highest to the lowest frequency from which the frequency counts as unsteady.
const STEADY: f64 = 1.1;

/// Frequency samples of processors, weighted by busy time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BusyFrequency {
    /// Megahertz times seconds of work.
    megacycles: f64,
    busy_seconds: f64,
    /// Sum over all samples, busy or not.
    plain_sum: f64,
    looks: u32,
    least: Option<f64>,
    most: Option<f64>,
}

impl BusyFrequency {
    /// Records a processor's frequency and its busy time since the previous sample.
    ///
    /// Units: megahertz; a value that is not a positive number counts as not seen.
    pub fn take(&mut self, mhz: f64, busy: Duration) {
        if !mhz.is_finite() || mhz <= 0.0 {
            return;
        }
        self.plain_sum += mhz;
        self.looks += 1;
        if busy.is_zero() {
            return;
        }
        self.megacycles += mhz * busy.as_secs_f64();
        self.busy_seconds += busy.as_secs_f64();
        self.least = Some(self.least.map_or(mhz, |least| least.min(mhz)));
        self.most = Some(self.most.map_or(mhz, |most| most.max(mhz)));
    }

    /// Returns the mean frequency during work, in megahertz; the mean of all samples if no work was seen, and
    /// `None` if there are no samples.
    #[must_use]
    pub fn mhz(&self) -> Option<f64> {
        if self.busy_seconds > 0.0 {
            return Some(self.megacycles / self.busy_seconds);
        }
        (self.looks > 0).then(|| self.plain_sum / f64::from(self.looks))
    }

    /// Returns the lowest and the highest frequency during work; `None` if no work was seen.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        self.least.zip(self.most)
    }
}

/// Returns whether work was done at frequencies more than a tenth apart.
#[must_use]
pub fn is_unsteady(least_mhz: f64, most_mhz: f64) -> bool {
    most_mhz > least_mhz * STEADY
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn who_idles_does_not_lower_the_frequency_of_who_works() {
        let mut seen = BusyFrequency::default();
        seen.take(3_000.0, ms(90));
        seen.take(800.0, ms(0));
        assert_eq!((seen.mhz(), seen.range()), (Some(3_000.0), Some((3_000.0, 3_000.0))));
        seen.take(1_000.0, ms(90));
        assert_eq!((seen.mhz(), seen.range()), (Some(2_000.0), Some((1_000.0, 3_000.0))));
    }

    #[test]
    fn what_is_too_short_for_a_tick_has_the_plain_mean_and_no_range() {
        let mut seen = BusyFrequency::default();
        assert_eq!((seen.mhz(), seen.range()), (None, None));
        seen.take(1_000.0, ms(0));
        seen.take(3_000.0, ms(0));
        for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            seen.take(nothing, ms(10));
        }
        assert_eq!((seen.mhz(), seen.range()), (Some(2_000.0), None));
    }

    #[test]
    fn a_tenth_is_steady_and_more_is_not() {
        assert!(!is_unsteady(1_000.0, 1_100.0));
        assert!(is_unsteady(1_000.0, 1_101.0));
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_what_was_seen(
            looks in prop::collection::vec((1.0_f64..6_000.0, 1_u64..1_000), 1..20),
        ) {
            let mut seen = BusyFrequency::default();
            looks.iter().for_each(|(mhz, busy)| seen.take(*mhz, ms(*busy)));
            let ((least, most), mean) = (seen.range().unwrap(), seen.mhz().unwrap());
            prop_assert!(least <= mean * (1.0 + 1e-9) && mean <= most * (1.0 + 1e-9));
        }
    }
}
