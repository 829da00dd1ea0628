//! Reading quantities: a number and its unit.

use core::time::Duration;

/// Units of time and their nanoseconds.
const TIME_UNITS: [(&str, u128); 10] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ns", 1),
];

/// Maximum number of durations in a range: more are a typing error.
const MOST_IN_RANGE: u32 = 1_000;

/// Units of size: binary ones for buffers, decimal ones for files and rates.
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

/// A text that is not a quantity of the expected kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct QuantityError {
    text: String,
    expected: &'static str,
}

impl QuantityError {
    /// Returns the error for a text where something was expected: `a size: write 4096 or 64KiB`.
    #[must_use]
    pub fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

/// Reads a duration: a decimal number and `ns`, `us`, `µs`, `ms`, `s`, `m`, `min`, `h` or `d`. It is exact to the nanosecond.
///
/// # Errors
/// [`QuantityError`] for anything else, and for more than a [`Duration`] can hold.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    let read = || {
        let (number, unit) = split(text);
        let (_, unit_nanos) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
        let nanos = scaled(number, *unit_nanos)?;
        let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
        Some(Duration::new(seconds, u32::try_from(nanos % 1_000_000_000).ok()?))
    };
    read().ok_or_else(|| QuantityError::new(text, "a duration: write 30s, 500ms, 2m, 1h or 1d"))
}

/// Durations read from one text. With this alias, clap takes the list as one value, not as a repeated argument.
pub type Durations = Vec<Duration>;

/// Reads durations in a list or a range of whole numbers: `1ms,2.5ms` or `1..14ms`, both ends included.
///
/// # Errors
/// [`QuantityError`] for anything else.
pub fn durations(text: &str) -> Result<Durations, QuantityError> {
    let parts = text.split(',').map(|part| {
        part.split_once("..")
            .map_or_else(|| duration(part).map(|one| vec![one]), |(first, last)| range(first, last))
    });
    Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
}

fn range(first: &str, last: &str) -> Result<Durations, QuantityError> {
    let expected = "a range of durations: write 1..14ms, both ends included";
    let error = || QuantityError::new(&format!("{first}..{last}"), expected);
    let (number, unit) = split(last);
    let (first, last): (u32, u32) =
        (first.trim().parse().map_err(|_| error())?, number.parse().map_err(|_| error())?);
    if first > last || last - first >= MOST_IN_RANGE {
        return Err(error());
    }
    (first..=last).map(|number| duration(&format!("{number}{unit}")).map_err(|_| error())).collect()
}

/// Reads a size in bytes: a whole number and, if it is not in bytes, `kB`, `MB`, `GB`, `KiB`, `MiB`, `GiB` or `TiB`.
///
/// # Errors
/// [`QuantityError`] for anything else, and beyond the address space.
pub fn size_bytes(text: &str) -> Result<usize, QuantityError> {
    let read = || {
        let (number, unit) = split(text);
        let (_, scale) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
        usize::try_from(number.parse::<u64>().ok()?.checked_mul(*scale)?).ok()
    };
    read().ok_or_else(|| QuantityError::new(text, "a size: write 4096, 64KiB, 8MiB or 1MB"))
}

/// Reads a rate in bits per second: a decimal number above 0, a decimal prefix `k`, `M`, `G` or `T` in either case, and `bit/s` or not.
///
/// # Errors
/// [`QuantityError`] for anything else.
pub fn bits_per_second(text: &str) -> Result<f64, QuantityError> {
    let read = || {
        let (number, unit) = split(text.trim().strip_suffix("bit/s").unwrap_or(text));
        let scale = match unit.trim() {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "g" | "G" => 1e9,
            "t" | "T" => 1e12,
            _ => return None,
        };
        let value: f64 = number.parse().ok()?;
        Some(value * scale).filter(|bits| bits.is_finite() && *bits > 0.0)
    };
    read().ok_or_else(|| QuantityError::new(text, "a rate: write 100M, 2.5G or 1Gbit/s"))
}

/// Reads a probability from 0 to 1: `0.01` or `1%`.
///
/// # Errors
/// [`QuantityError`] for anything else.
pub fn probability(text: &str) -> Result<f64, QuantityError> {
    let (number, divisor) = text.trim().strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let value = number.trim().parse::<f64>().ok().map(|value| value / divisor);
    let value = value.filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| QuantityError::new(text, "a probability: write 1% or 0.01, from 0 to 1"))
}

/// Returns a decimal number times a scale, rounded to a whole.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    /// More digits than that change nothing: the largest scale is below 10^14.
    const MAX_FRACTION_DIGITS: usize = 18;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    whole.checked_mul(scale)?.checked_add((part * scale + divisor / 2) / divisor)
}

/// Splits a text at its first letter.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_alphabetic).unwrap_or(text.len());
    (text[..end].trim_end(), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        let millis = [
            ("30s", 30_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("2min", 120_000),
            ("1.5 s", 1_500),
            (".5s", 500),
            ("0s", 0),
            ("1d", 86_400_000),
        ];
        for (text, millis) in millis {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "30",
            "",
            "s",
            ".s",
            "-1s",
            "+1s",
            "1 fortnight",
            "nans",
            "1e300h",
            "1e3s",
            "99999999999999999999d",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_exact_to_the_nanosecond() {
        assert_eq!(duration("0.0000000015s"), Ok(Duration::from_nanos(2)));
        assert_eq!(duration("365.000000000000001d"), Ok(Duration::from_secs(365 * 86_400)));
        assert_eq!(duration("31536000.123456789s"), Ok(Duration::new(31_536_000, 123_456_789)));
        assert_eq!(duration("1µs"), duration("1us"));
    }

    #[test]
    fn durations_come_in_lists_and_ranges() {
        let millis = |text: &str| {
            let durations = durations(text).expect(text);
            durations.into_iter().map(|it| it.as_secs_f64() * 1e3).collect::<Vec<_>>()
        };
        assert_eq!(millis("5ms"), [5.0]);
        assert_eq!(millis("1ms,2.5ms"), [1.0, 2.5]);
        assert_eq!(millis("1..3ms,10ms"), [1.0, 2.0, 3.0, 10.0]);
        assert_eq!(millis("7..7ms"), [7.0]);
        assert_eq!(millis("1..1000us").len(), 1_000);
        for text in ["", "3..1ms", "1..14", "1ms..2ms", "0..1000us", "1..", "..2ms", "1,2ms"] {
            assert!(durations(text).is_err(), "{text}");
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

    #[test]
    fn rates_are_decimal_bits_per_second() {
        let rates = [
            ("100M", 1e8),
            ("2.5G", 2.5e9),
            ("1 Gbit/s", 1e9),
            ("64kbit/s", 64e3),
            ("7", 7.0),
            ("950m", 950e6),
            ("1g", 1e9),
        ];
        for (text, bits) in rates {
            assert_eq!(bits_per_second(text), Ok(bits), "{text}");
        }
        for text in ["", "0", "-1M", "1X", "fast", "1MB"] {
            assert!(bits_per_second(text).is_err(), "{text}");
        }
    }

    #[test]
    fn probabilities_are_parts_or_percents() {
        assert_eq!(
            (probability("1%"), probability("0.05"), probability("100 %")),
            (Ok(0.01), Ok(0.05), Ok(1.0))
        );
        for text in ["101%", "-1%", "1.01", "NaN", "", "%", "two"] {
            assert!(probability(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_text_and_what_to_write() {
        let error = duration("soon").expect_err("no duration").to_string();
        assert_eq!(error, "`soon` is not a duration: write 30s, 500ms, 2m, 1h or 1d");
    }
}
