//! The notation of quantities known from iperf3: decimal rates, binary sizes, seconds without a unit.

use std::str::FromStr;
use std::time::Duration;

use units::text::{self, QuantityError};

use crate::throughput::Rate;

/// Error for a text that is not a quantity of the expected kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct NotationError {
    text: String,
    wanted: &'static str,
}

/// The processors of both ends' threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPair {
    /// The processor of the client's threads.
    pub client: usize,
    /// The processor of the server's threads.
    pub server: Option<usize>,
}

impl FromStr for Rate {
    type Err = NotationError;

    /// Reads decimal bits a second such as `100M`, or datagrams a second such as `1000pps`.
    fn from_str(text: &str) -> Result<Self, NotationError> {
        let wanted = "a rate: write 100M, 2.5G, 64K, 1000pps, or 0 for as fast as possible";
        let rate = match text.strip_suffix("pps") {
            Some(units) => scaled(units, 1_000).map(Self::Units),
            None => scaled(text, 1_000).map(Self::Bits),
        };
        rate.ok_or_else(|| NotationError { text: text.to_owned(), wanted })
    }
}

/// Reads a size: binary bytes such as `64K` or `4M`, or with a full unit as elsewhere.
///
/// # Errors
/// [`NotationError`] for anything else.
pub fn size(text: &str) -> Result<usize, NotationError> {
    let error = || NotationError { text: text.to_owned(), wanted: "a size: write 1472, 64K, 4M or 8MiB" };
    let plain = scaled(text, 1_024).and_then(|bytes| usize::try_from(bytes).ok());
    plain.or_else(|| text::size_bytes(text).ok()).ok_or_else(error)
}

/// Reads a time: seconds such as `10` or `0.5`, or with its unit as elsewhere.
///
/// # Errors
/// [`NotationError`] for anything else.
pub fn time(text: &str) -> Result<Duration, NotationError> {
    let error = || NotationError { text: text.to_owned(), wanted: "a time: write 10, 0.5 or 500ms" };
    let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.or_else(|| text::duration(text).ok()).ok_or_else(error)
}

/// Reads a part of a whole, such as `0.01` or `1%`, in millionths.
///
/// # Errors
/// [`QuantityError`] for anything else.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a probability is from 0 to 1")]
pub fn millionths(text: &str) -> Result<u32, QuantityError> {
    text::probability(text).map(|part| (part * 1e6).round() as u32)
}

impl FromStr for CpuPair {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let wanted = "a processor, or two: write 2 for this end, 2,3 for this end and the server";
        let error = || NotationError { text: text.to_owned(), wanted };
        let cpu = |text: &str| text.trim().parse().map_err(|_| error());
        match text.split_once(',') {
            None => Ok(Self { client: cpu(text)?, server: None }),
            Some((client, server)) => Ok(Self { client: cpu(client)?, server: Some(cpu(server)?) }),
        }
    }
}

/// Reads a number with a suffix for its scale; `None` if it is not a number, negative, or too large.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "compared with the range before")]
fn scaled(text: &str, base: u64) -> Option<u64> {
    let text = text.trim();
    let power = match text.chars().last()?.to_ascii_lowercase() {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        _ => 0,
    };
    let number: f64 = text[..text.len() - usize::from(power > 0)].parse().ok()?;
    let value = number * base.pow(power) as f64;
    // 2^53: the largest range in which a float is exact for whole numbers.
    (0.0..=9_007_199_254_740_992.0).contains(&value).then_some(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_and_may_be_datagrams() {
        for (text, rate) in [
            ("0", Rate::Bits(0)),
            ("100M", Rate::Bits(100_000_000)),
            ("2.5g", Rate::Bits(2_500_000_000)),
            ("64K", Rate::Bits(64_000)),
            ("10kpps", Rate::Units(10_000)),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
        for text in ["", "M", "-1M", "fast", "1e300", "NaN", "inf", "1 MB", "pps", "é"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [("1472", 1_472), ("64K", 65_536), ("4M", 4 << 20), ("8MiB", 8 << 20), ("0", 0)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert!(size("-1").is_err() && size("much").is_err());
    }

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        for (text, millis) in [("10", 10_000), ("0.5", 500), ("200ms", 200), ("2m", 120_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(time("-1").is_err() && time("soon").is_err());
    }

    #[test]
    fn processors_come_alone_or_in_pairs() {
        assert_eq!("2".parse(), Ok(CpuPair { client: 2, server: None }));
        assert_eq!("0,1".parse(), Ok(CpuPair { client: 0, server: Some(1) }));
        assert!("".parse::<CpuPair>().is_err() && "1,".parse::<CpuPair>().is_err());
    }
}
