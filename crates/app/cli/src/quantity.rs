//! Lists and ranges of quantities as arguments of the command; single quantities are in `units::text`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use units::text::{QuantityError, duration, probability};

/// A probability, written `0.01` or `1%`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub(crate) struct Probability(pub(crate) f64);

/// Durations in a list or a range, written `1ms,2.5ms` or `1..14ms`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Durations(pub(crate) Vec<Duration>);

/// Maximum number of durations in a range: more are a typing error.
const MOST_IN_RANGE: u32 = 1_000;

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
    let expected = "a range of durations: write 1..14ms, both ends included";
    let error = || QuantityError::new(&format!("{first}..{last}"), expected);
    let end = last.find(char::is_alphabetic).unwrap_or(last.len());
    let (number, unit) = (last[..end].trim(), &last[end..]);
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
        probability(text).map(Self)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
