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

/// Durations in a list or a range, written `1ms,2.5ms` or `1..14ms`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Durations(pub(crate) Vec<Duration>);

/// How many durations a range may have: more are a slip of the keyboard.
const MOST_IN_RANGE: u32 = 1_000;

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

/// Reads a rate: decimal bits a second.
pub(crate) fn bits_per_second(text: &str) -> Result<f64, QuantityError> {
    let error = || QuantityError { text: text.to_owned(), wanted: "a rate: write 100M, 2.5G or 1Gbit/s" };
    let (number, unit) = split(text.trim().strip_suffix("bit/s").unwrap_or(text));
    let scale = match unit.trim() {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        _ => return Err(error()),
    };
    let value: f64 = number.parse().map_err(|_| error())?;
    Some(value * scale).filter(|bits| bits.is_finite() && *bits > 0.0).ok_or_else(error)
}

impl FromStr for Durations {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parts = text.split(',').map(|part| {
            part.split_once("..")
                .map_or_else(|| duration(part).map(|one| vec![one]), |(first, last)| range(first, last))
        });
        let durations = parts.collect::<Result<Vec<_>, _>>()?.concat();
        Ok(Self(durations))
    }
}

/// Reads a range of whole numbers of one unit, both ends included.
fn range(first: &str, last: &str) -> Result<Vec<Duration>, QuantityError> {
    let wanted = "a range of durations: write 1..14ms, both ends included";
    let error = || QuantityError { text: format!("{first}..{last}"), wanted };
    let (number, unit) = split(last);
    let (first, last): (u32, u32) =
        (first.trim().parse().map_err(|_| error())?, number.parse().map_err(|_| error())?);
    if first > last || last - first >= MOST_IN_RANGE {
        return Err(error());
    }
    (first..=last).map(|number| duration(&format!("{number}{unit}")).map_err(|_| error())).collect()
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
    fn rates_are_decimal_bits_a_second() {
        for (text, bits) in [
            ("100M", 1e8),
            ("2.5G", 2.5e9),
            ("1 Gbit/s", 1e9),
            ("64kbit/s", 64e3),
            ("7", 7.0),
            ("950m", 950e6),
            ("1g", 1e9),
        ] {
            assert_eq!(bits_per_second(text), Ok(bits), "{text}");
        }
        for text in ["", "0", "-1M", "1X", "fast", "1MB"] {
            assert!(bits_per_second(text).is_err(), "{text}");
        }
    }

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
    fn durations_come_in_lists_and_ranges() {
        let millis = |text: &str| {
            let durations: Durations = text.parse().unwrap();
            durations.0.into_iter().map(|it| it.as_secs_f64() * 1e3).collect::<Vec<_>>()
        };
        assert_eq!(millis("5ms"), [5.0]);
        assert_eq!(millis("1ms,2.5ms"), [1.0, 2.5]);
        assert_eq!(millis("1..3ms,10ms"), [1.0, 2.0, 3.0, 10.0]);
        assert_eq!(millis("7..7ms"), [7.0]);
        assert_eq!(millis("1..1000us").len(), 1_000);
        for text in ["", "3..1ms", "1..14", "1ms..2ms", "0..1000us", "1..", "..2ms", "1,2ms"] {
            assert!(text.parse::<Durations>().is_err(), "{text}");
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
