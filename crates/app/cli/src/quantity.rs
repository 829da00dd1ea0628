//! Quantities as people write them: `30s`, `500ms`, `1%`, `64MiB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units of time, the longest first, with their nanoseconds.
const TIME_UNITS: [(&str, f64); 7] =
    [("h", 3.6e12), ("min", 6e10), ("m", 6e10), ("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
/// Units of size. Binary ones are for buffers, decimal ones for those who think so.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Says that a text is no quantity of the kind wanted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub(crate) struct QuantityError {
    text: String,
    wanted: &'static str,
}

/// A probability, written `0.01` or `1%`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub(crate) struct Probability(pub(crate) f64);

/// Reads a duration: a number and its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, QuantityError> {
    let wanted = "a duration: write 30s, 500ms, 2m or 1h";
    let error = || QuantityError { text: text.to_owned(), wanted };
    let (number, unit) = split(text);
    let value: f64 = number.parse().map_err(|_| error())?;
    let nanos = TIME_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| nanos * value);
    let seconds = nanos.filter(|nanos| *nanos >= 0.0).ok_or_else(error)? / 1e9;
    Duration::try_from_secs_f64(seconds).map_err(|_| error())
}

/// Reads a size: a number of bytes, or a whole number and its unit.
pub(crate) fn size_bytes(text: &str) -> Result<usize, QuantityError> {
    let error = || QuantityError { text: text.to_owned(), wanted: "a size: write 4096, 64KiB, 8MiB or 1MB" };
    let (number, unit) = split(text);
    let value: u64 = number.parse().map_err(|_| error())?;
    let scale = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let bytes = scale.and_then(|scale| value.checked_mul(scale)).ok_or_else(error)?;
    usize::try_from(bytes).map_err(|_| error())
}

impl FromStr for Probability {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wanted = "a probability: write 1% or 0.01, from 0 to 1";
        let error = || QuantityError { text: text.to_owned(), wanted };
        let (number, divisor) = text.trim().strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        let value: f64 = number.trim().parse().map_err(|_| error())?;
        Some(Self(value / divisor)).filter(|it| (0.0..=1.0).contains(&it.0)).ok_or_else(error)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    (text[..end].trim_end(), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, millis) in [("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("1.5 s", 1_500), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["30", "", "s", "-1s", "1 fortnight", "nans", "1e300h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn probabilities_are_parts_or_percents() {
        assert_eq!("1%".parse(), Ok(Probability(0.01)));
        assert_eq!("0.05".parse(), Ok(Probability(0.05)));
        assert_eq!("100 %".parse(), Ok(Probability(1.0)));
        for text in ["101%", "-1%", "1.01", "NaN", "", "%", "two"] {
            assert!(text.parse::<Probability>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        assert_eq!(size_bytes("4096"), Ok(4_096));
        assert_eq!(size_bytes("4KiB"), Ok(4_096));
        assert_eq!(size_bytes("1MB"), Ok(1_000_000));
        for text in ["", "4 K", "-1", "1.5MiB", "99999999TiB"] {
            assert!(size_bytes(text).is_err(), "{text}");
        }
    }
}
