//! The length of a window: a number of samples, or a time that is a whole number of them.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::SampleRate;
use units::text::QuantityError;

/// Number of samples that become one, or the time that they take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Every {
    /// So many samples: `100`.
    Samples(u32),
    /// The samples of a time: `10ms`.
    Time(Duration),
}

/// Reason why a window cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EveryError {
    /// Neither a number nor a duration.
    #[error("`{text}` is neither a number of samples nor a duration ({cause})")]
    Text {
        /// The text.
        text: String,
        /// Reason why it is no duration.
        cause: QuantityError,
    },
    /// A time that does not contain a whole number of samples, 2 or more.
    #[error(
        "{} is not a whole number of samples, 2 or more, at {rate} samples per second; the nearest is {nearest} samples, {}",
        Every::Time(*.time), Every::Time(.rate.duration_of(u64::from(*.nearest)))
    )]
    Uneven {
        /// The time.
        time: Duration,
        /// The input's rate.
        rate: SampleRate,
        /// Nearest number of samples.
        nearest: u32,
    },
}

impl Every {
    /// Returns the number of samples at a rate.
    ///
    /// # Errors
    /// [`EveryError::Uneven`].
    pub fn samples(self, rate: SampleRate) -> Result<u32, EveryError> {
        let time = match self {
            Self::Samples(samples) => return Ok(samples),
            Self::Time(time) => time,
        };
        // Exact: samples = time × numerator / (denominator × 10⁹).
        let product = time.as_nanos().saturating_mul(u128::from(rate.numerator()));
        let divisor = u128::from(rate.denominator()) * 1_000_000_000;
        let samples = u32::try_from((product + divisor / 2) / divisor).unwrap_or(u32::MAX);
        if product.is_multiple_of(divisor) && samples >= 2 && u128::from(samples) * divisor == product {
            return Ok(samples);
        }
        Err(EveryError::Uneven { time, rate, nearest: samples.max(2) })
    }
}

impl Every {
    /// Returns the smallest number of samples that takes this time.
    pub(crate) fn samples_at_least(self, rate: SampleRate) -> u64 {
        let time = match self {
            Self::Samples(samples) => return u64::from(samples),
            Self::Time(time) => time,
        };
        let product = time.as_nanos().saturating_mul(u128::from(rate.numerator()));
        let samples = product.div_ceil(u128::from(rate.denominator()) * 1_000_000_000);
        u64::try_from(samples).unwrap_or(u64::MAX)
    }
}

impl FromStr for Every {
    type Err = EveryError;

    fn from_str(text: &str) -> Result<Self, EveryError> {
        if let Ok(samples) = text.parse() {
            return Ok(Self::Samples(samples));
        }
        let time = units::text::duration(text);
        time.map(Self::Time).map_err(|cause| EveryError::Text { text: text.to_owned(), cause })
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Samples(samples) => write!(f, "{samples}"),
            // In the largest unit that is exact, so that it is read as the same time.
            Self::Time(time) => match time.as_nanos() {
                ns if ns.is_multiple_of(1_000_000_000) => write!(f, "{}s", ns / 1_000_000_000),
                ns if ns.is_multiple_of(1_000_000) => write!(f, "{}ms", ns / 1_000_000),
                ns if ns.is_multiple_of(1_000) => write!(f, "{}us", ns / 1_000),
                ns => write!(f, "{ns}ns"),
            },
        }
    }
}

impl Serialize for Every {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Samples(samples) => serializer.serialize_u32(*samples),
            Self::Time(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number of samples (100) or a duration (\"10ms\")")]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(samples) => Ok(Self::Samples(samples)),
            Written::Text(text) => text.parse().map_err(Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_whole_number_of_samples_or_the_nearest_is_named() {
        let samples = |every: &str, rate: &str| every.parse::<Every>()?.samples(rate.parse().unwrap());
        assert_eq!(samples("10ms", "1000"), Ok(10));
        assert_eq!(samples("7", "1000/3"), Ok(7));
        assert_eq!(samples("9ms", "1000/3"), Ok(3));
        assert_eq!(
            samples("1ms", "44100").unwrap_err().to_string(),
            "1ms is not a whole number of samples, 2 or more, at 44100 samples per second; \
             the nearest is 44 samples, 997732ns"
        );
        assert!(matches!(samples("1ms", "1000"), Err(EveryError::Uneven { nearest: 2, .. })));
        assert!(matches!(samples("soon", "1000"), Err(EveryError::Text { .. })));
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        for text in ["100", "10ms", "1500us", "3s", "997732ns"] {
            assert_eq!(text.parse::<Every>().unwrap().to_string(), text);
        }
    }
}
