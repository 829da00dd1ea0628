//! Sample rates as exact fractions: 360 Hz and 48 kHz have no whole period in nanoseconds.

use core::convert::Infallible;
use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::WallTime;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A rate of samples as a fraction.
///
/// Units: samples per second, `numerator / denominator`. A period of 10 s is 1/10.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "Fraction")]
pub struct SampleRate {
    numerator: NonZeroU32,
    denominator: NonZeroU32,
}

/// Rate as it is read: not yet positive, nor in lowest terms.
#[derive(Deserialize)]
struct Fraction {
    numerator: u32,
    denominator: u32,
}

/// Error for text or numbers that are not a sample rate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// A rate of zero or a denominator of zero.
    #[error("a sample rate of {numerator}/{denominator} is not positive")]
    NotPositive {
        /// Numerator as given.
        numerator: u32,
        /// Denominator as given.
        denominator: u32,
    },
    /// Text that is neither a number nor a fraction.
    #[error(
        "`{0}` is not a sample rate; write samples per second as 360, 0.5, 48k, 1M or a fraction like 1000/3"
    )]
    Unreadable(String),
}

impl SampleRate {
    /// Makes a rate of `numerator / denominator` samples per second, in lowest terms.
    ///
    /// # Errors
    /// [`RateError::NotPositive`] if either is zero.
    pub fn new(numerator: u32, denominator: u32) -> Result<Self, RateError> {
        let divisor = greatest_common_divisor(numerator, denominator).max(1);
        match (NonZeroU32::new(numerator / divisor), NonZeroU32::new(denominator / divisor)) {
            (Some(numerator), Some(denominator)) => Ok(Self { numerator, denominator }),
            _ => Err(RateError::NotPositive { numerator, denominator }),
        }
    }

    /// Makes a rate of whole samples per second.
    ///
    /// # Errors
    /// [`RateError::NotPositive`] if it is zero.
    pub fn hz(samples_per_second: u32) -> Result<Self, RateError> {
        Self::new(samples_per_second, 1)
    }

    /// Returns the numerator, in lowest terms.
    #[must_use]
    pub const fn numerator(self) -> u32 {
        self.numerator.get()
    }

    /// Returns the denominator, in lowest terms.
    #[must_use]
    pub const fn denominator(self) -> u32 {
        self.denominator.get()
    }

    /// Returns samples per second as a float, for display and budgets.
    #[must_use]
    pub fn as_hz(self) -> f64 {
        f64::from(self.numerator()) / f64::from(self.denominator())
    }

    /// Returns the time of sample `index` when sample `anchor_index` was at `anchor`.
    ///
    /// Exact to the nanosecond (rounded down), however far the index is from the anchor; saturates at the
    /// ends of [`WallTime`].
    #[must_use]
    pub fn time_of(self, index: u64, anchor_index: u64, anchor: WallTime) -> WallTime {
        if let Some(samples) = index.checked_sub(anchor_index)
            && let Ok(nanos) = i64::try_from(self.duration_of(samples).as_nanos())
        {
            return anchor.offset(nanos);
        }
        let samples = i128::from(index) - i128::from(anchor_index);
        let nanos = (samples * i128::from(self.denominator()) * NANOS_PER_SECOND)
            .div_euclid(i128::from(self.numerator()));
        let clamped = nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        anchor.offset(i64::try_from(clamped).expect("clamped to the range of i64"))
    }

    /// Returns the number of whole samples in `duration`.
    #[must_use]
    pub fn samples_in(self, duration: Duration) -> u64 {
        let samples = duration.as_nanos() * u128::from(self.numerator())
            / (u128::from(self.denominator()) * 1_000_000_000);
        u64::try_from(samples).unwrap_or(u64::MAX)
    }

    /// Returns the duration of `samples` samples, rounded down to the nanosecond.
    #[must_use]
    pub fn duration_of(self, samples: u64) -> Duration {
        let (numerator, denominator) = (u64::from(self.numerator()), u64::from(self.denominator()));
        // The usual case: a 64-bit division is several times faster than a 128-bit one.
        let small = denominator.checked_mul(1_000_000_000).and_then(|nanos| nanos.checked_mul(samples));
        if let Some(small) = small {
            return Duration::from_nanos(small / numerator);
        }
        let nanos = u128::from(samples) * u128::from(denominator) * 1_000_000_000 / u128::from(numerator);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl TryFrom<Fraction> for SampleRate {
    type Error = RateError;

    fn try_from(Fraction { numerator, denominator }: Fraction) -> Result<Self, RateError> {
        Self::new(numerator, denominator)
    }
}

impl TryFrom<u32> for SampleRate {
    type Error = RateError;

    /// Converts whole samples per second.
    fn try_from(samples_per_second: u32) -> Result<Self, RateError> {
        Self::hz(samples_per_second)
    }
}

impl TryFrom<&str> for SampleRate {
    type Error = RateError;

    fn try_from(text: &str) -> Result<Self, RateError> {
        text.parse()
    }
}

/// A value that is already a rate converts without error; builders that accept `TryInto<SampleRate>` need this.
impl From<Infallible> for RateError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for SampleRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator() == 1 {
            write!(formatter, "{}", self.numerator())
        } else {
            write!(formatter, "{}/{}", self.numerator(), self.denominator())
        }
    }
}

impl FromStr for SampleRate {
    type Err = RateError;

    /// Reads `360`, `0.5`, `48k`, `2.5M` or `1000/3`; a trailing `Hz` is allowed.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let unreadable = || RateError::Unreadable(text.to_owned());
        let bare = text.trim().trim_end_matches("Hz").trim_end();
        if let Some((numerator, denominator)) = bare.split_once('/') {
            let numerator = numerator.trim().parse().map_err(|_| unreadable())?;
            let denominator = denominator.trim().parse().map_err(|_| unreadable())?;
            return Self::new(numerator, denominator);
        }
        let (digits, scale) = match bare.strip_suffix(['k', 'M']) {
            Some(digits) if bare.ends_with('k') => (digits, 1_000_u64),
            Some(digits) => (digits, 1_000_000),
            None => (bare, 1),
        };
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
        let denominator = 10_u64.checked_pow(u32::try_from(decimals.len()).map_err(|_| unreadable())?);
        let joined: u64 = format!("{whole}{decimals}").parse().map_err(|_| unreadable())?;
        let denominator = denominator.ok_or_else(unreadable)?;
        let numerator = joined.checked_mul(scale).ok_or_else(unreadable)?;
        let divisor = greatest_common_divisor_u64(numerator, denominator).max(1);
        let fit = |value: u64| u32::try_from(value / divisor).map_err(|_| unreadable());
        Self::new(fit(numerator)?, fit(denominator)?)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    u32::try_from(greatest_common_divisor_u64(u64::from(a), u64::from(b)))
        .expect("a divisor is not larger than what it divides")
}

const fn greatest_common_divisor_u64(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> SampleRate {
        text.parse().unwrap()
    }

    #[test]
    fn a_day_of_360_hz_does_not_drift() {
        let day = 86_400 * 360;
        let start = WallTime::from_nanos(1_000);
        assert_eq!(rate("360").time_of(day, 0, start), start.offset(86_400_000_000_000));
    }

    #[test]
    fn times_before_the_anchor_round_down_too() {
        let anchor = WallTime::from_nanos(0);
        assert_eq!(rate("3").time_of(0, 1, anchor), WallTime::from_nanos(-333_333_334));
    }

    #[test]
    fn people_write_rates_in_many_ways() {
        assert_eq!(rate("48k"), SampleRate::hz(48_000).unwrap());
        assert_eq!(rate("1M"), SampleRate::hz(1_000_000).unwrap());
        assert_eq!(rate("0.5 Hz"), SampleRate::new(1, 2).unwrap());
        assert_eq!(rate("1000/3"), SampleRate::new(1000, 3).unwrap());
        assert_eq!(rate("2.5k"), SampleRate::hz(2_500).unwrap());
    }

    #[test]
    fn plain_numbers_and_text_become_rates() {
        assert_eq!(SampleRate::try_from(360), Ok(rate("360")));
        assert_eq!(SampleRate::try_from("1000/3"), Ok(rate("1000/3")));
        assert!(SampleRate::try_from(0).is_err() && SampleRate::try_from("fast").is_err());
    }

    #[test]
    fn what_is_not_a_positive_rate_is_refused() {
        for text in ["", "0", "-1", "k", "1/0", "fast", "1e3", "99999999999", "1.5.2"] {
            assert!(text.parse::<SampleRate>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn samples_and_durations_are_each_others_inverse() {
        let ecg = rate("360");
        assert_eq!(ecg.samples_in(Duration::from_secs(10)), 3_600);
        assert_eq!(ecg.duration_of(3_600), Duration::from_secs(10));
    }
}
