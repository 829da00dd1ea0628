//! Timing of playback: a recording's own rate, kept without drift and without bursts.
//!
//! Pure arithmetic over elapsed time; the owner of the clock calls it. The due samples are computed from the time
//! since the beginning, never by adding up periods, so an error cannot grow. A caller that was delayed gets at most
//! [`Playback::burst`] samples at once and [`Playback::REST`] of rest before more.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;
use core::time::Duration;

use units::{RateError, SampleRate};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Speed of playback relative to real time, as an exact fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed(SampleRate);

/// Error: the text is not a speed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not a speed; write 1 for true time, 10 for ten times as fast, 0.5 or 1/2 for half")]
pub struct SpeedError {
    /// Text of the speed.
    pub text: String,
    /// Error of parsing the fraction.
    pub source: RateError,
}

impl Speed {
    /// Makes a speed of `numerator / denominator`.
    ///
    /// # Errors
    /// [`RateError::NotPositive`] if either is zero.
    pub fn new(numerator: u32, denominator: u32) -> Result<Self, RateError> {
        SampleRate::new(numerator, denominator).map(Self)
    }

    /// Returns a speed of one, which is real time.
    ///
    /// # Panics
    /// Never: one is positive.
    #[must_use]
    pub fn true_time() -> Self {
        Self(SampleRate::hz(1).expect("one is positive"))
    }

    /// Returns the time that a recorded time takes at this speed.
    pub(crate) fn playing_time(self, recorded: Duration) -> Duration {
        let parts = recorded.as_nanos().saturating_mul(self.0.denominator().into());
        let nanos = parts / u128::from(self.0.numerator());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self::true_time()
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    /// Parses `1`, `0.5`, `10`, `3/2`; a trailing `x` is allowed.
    fn from_str(text: &str) -> Result<Self, SpeedError> {
        let bare = text.trim().trim_end_matches('x');
        bare.parse().map(Self).map_err(|source| SpeedError { text: text.to_owned(), source })
    }
}

/// Plan that gives the number of samples due at a given time.
///
/// Sample `n` is due once its period is over, so `rate × speed × elapsed` samples, rounded down, are due in
/// all. Holes count like samples: they take their time too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Playback {
    /// Samples per second of playing time, `numerator / denominator`: products of two `u32` each.
    numerator: NonZeroU64,
    denominator: NonZeroU64,
}

impl Playback {
    /// Minimum pause between two hand-overs.
    ///
    /// The sender joins blocks that are no more than 5 ms apart, so waking more often has no benefit.
    pub const REST: Duration = Duration::from_millis(5);

    /// Maximum delay that is caught up at once.
    ///
    /// Ten pauses: a caller that was delayed catches up at up to ten times the rate, and even a busy machine that
    /// sleeps 50 ms instead of 5 keeps the true rate on average.
    pub const BURST: Duration = Duration::from_millis(50);

    /// Creates the plan for samples of a rate, played at a speed.
    #[must_use]
    pub fn new(rate: SampleRate, speed: Speed) -> Self {
        let product = |a: u32, b: u32| {
            NonZeroU64::new(u64::from(a) * u64::from(b)).expect("rates have no zero in their fractions")
        };
        Self {
            numerator: product(rate.numerator(), speed.0.numerator()),
            denominator: product(rate.denominator(), speed.0.denominator()),
        }
    }

    /// Returns the number of samples to hand over now.
    ///
    /// Units: `elapsed` since the beginning; `already` samples handed over since then. At most
    /// [`Playback::burst`], zero if nothing is due.
    #[must_use]
    pub fn due(&self, elapsed: Duration, already: u64) -> u64 {
        self.samples_by(elapsed).saturating_sub(already).min(self.burst())
    }

    /// Returns the time to wait from `elapsed` on, when `already` samples have been handed over.
    ///
    /// At least [`Playback::REST`], so that a late caller catches up in steps; longer if the next sample is not due
    /// before.
    #[must_use]
    pub fn next_due(&self, elapsed: Duration, already: u64) -> Duration {
        self.time_of(already.saturating_add(1)).saturating_sub(elapsed).max(Self::REST)
    }

    /// Returns the maximum number of samples that are handed over at once.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.samples_by(Self::BURST).max(1)
    }

    /// Returns the number of samples due by `elapsed`, independent of those already handed over.
    fn samples_by(&self, elapsed: Duration) -> u64 {
        // 64 bits of nanoseconds are 584 years; with a 64-bit numerator the product fits into 128 bits.
        let nanos = u128::from(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        let per_nanos = u128::from(self.denominator.get()) * u128::from(NANOS_PER_SECOND);
        u64::try_from(nanos * u128::from(self.numerator.get()) / per_nanos).unwrap_or(u64::MAX)
    }

    /// Returns the earliest time by which `count` samples are due.
    fn time_of(&self, count: u64) -> Duration {
        let per_nanos = u128::from(self.denominator.get()) * u128::from(NANOS_PER_SECOND);
        let nanos = u128::from(count).saturating_mul(per_nanos).div_ceil(u128::from(self.numerator.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn plan(rate: &str, speed: &str) -> Playback {
        Playback::new(rate.parse().unwrap(), speed.parse().unwrap())
    }

    /// Plays until `end`, waking `late` after every deadline; returns the number of samples handed over.
    fn play(plan: Playback, end: Duration, late: Duration) -> u64 {
        let (mut elapsed, mut already) = (Duration::ZERO, 0);
        loop {
            already += plan.due(elapsed, already);
            elapsed += plan.next_due(elapsed, already) + late;
            if elapsed > end {
                return already + plan.due(end, already);
            }
        }
    }

    #[test]
    fn a_day_at_360_hz_is_exact() {
        let plan = plan("360", "1");
        assert_eq!(plan.samples_by(DAY), 31_104_000);
        assert_eq!(plan.samples_by(DAY - Duration::from_nanos(1)), 31_103_999);
        assert_eq!(plan.time_of(31_104_000), DAY);
        assert_eq!(play(plan, DAY, Duration::ZERO), 31_104_000);
    }

    #[test]
    fn waking_late_every_time_loses_nothing() {
        let late = Duration::from_micros(7_300);
        assert_eq!(play(plan("360", "1"), Duration::from_secs(3_600), late), 1_296_000);
        assert_eq!(play(plan("1M", "1"), Duration::from_secs(10), late), 10_000_000);
    }

    #[test]
    fn every_sample_is_due_exactly_when_its_time_says() {
        for (rate, speed) in [("360", "1"), ("48k", "0.5"), ("1000/3", "7/3"), ("0.1", "1"), ("1M", "1")] {
            let plan = plan(rate, speed);
            for count in [1, 2, 3, 359, 360, 361, 1_000_003] {
                let time = plan.time_of(count);
                assert_eq!(plan.samples_by(time), count, "{rate} × {speed}");
                assert_eq!(plan.samples_by(time - Duration::from_nanos(1)), count - 1, "{rate} × {speed}");
            }
        }
    }

    #[test]
    fn whoever_was_held_up_catches_up_in_bounded_steps() {
        let plan = plan("1000", "1");
        assert_eq!(plan.burst(), 50);
        assert_eq!(plan.due(Duration::from_secs(60), 0), 50);
        assert_eq!(plan.next_due(Duration::from_secs(60), 50), Playback::REST);
    }

    #[test]
    fn slow_signals_are_waited_for() {
        let plan = plan("0.1", "1");
        assert_eq!(plan.due(Duration::from_secs(9), 0), 0);
        assert_eq!(plan.next_due(Duration::from_secs(9), 0), Duration::from_secs(1));
        assert_eq!(plan.due(Duration::from_secs(10), 0), 1);
    }

    #[test]
    fn speed_multiplies_the_rate_exactly() {
        assert_eq!(plan("360", "2").samples_by(DAY), 62_208_000);
        assert_eq!(plan("360", "1/3").samples_by(DAY), 10_368_000);
        assert_eq!(plan("360", "10x"), plan("3600", "1"));
        assert!("fast".parse::<Speed>().unwrap_err().to_string().contains("10 for ten times"));
        assert!("0".parse::<Speed>().is_err());
    }

    #[test]
    fn the_ends_of_the_ranges_do_not_overflow() {
        let plan = plan("4294967295", "4294967295");
        assert_eq!(plan.samples_by(Duration::MAX), u64::MAX);
        let plan = Playback::new(SampleRate::new(1, u32::MAX).unwrap(), Speed::new(1, u32::MAX).unwrap());
        assert_eq!(plan.next_due(Duration::ZERO, u64::MAX), Duration::from_nanos(u64::MAX));
        assert_eq!(plan.due(Duration::MAX, 0), 0);
    }
}
