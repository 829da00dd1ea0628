//! Cells of a table: which are values, and the decimal sign of the whole text.

use std::borrow::Cow;

use super::clock;
use crate::NumberError;
use crate::numbers::{is_missing, is_truth, parse_float};

/// Decimal sign of a text: the first number with one decides, and no other is accepted afterwards.
///
/// Otherwise `1,234` would be 1.234 in one row and a thousand in the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Decimal {
    #[default]
    Open,
    Point,
    Comma,
}

impl Decimal {
    /// Returns a number as it is written with a decimal point.
    pub(crate) fn with_point<'a>(&mut self, text: &'a str) -> Result<Cow<'a, str>, NumberError> {
        let sign = match (text.contains('.'), comma_as_point(text)) {
            (false, Some(pointed)) => (Self::Comma, Cow::Owned(pointed)),
            (true, None) => (Self::Point, Cow::Borrowed(text)),
            _ => return Ok(Cow::Borrowed(text)),
        };
        if *self == Self::Open {
            *self = sign.0;
        }
        if *self == sign.0 { Ok(sign.1) } else { Err(NumberError::OtherDecimal(text.to_owned())) }
    }
}

/// Returns a number whose one comma is a decimal sign, with a point instead.
fn comma_as_point(text: &str) -> Option<String> {
    let (whole, decimals) = text.split_once(',')?;
    let is_decimal = decimals.starts_with(|sign: char| sign.is_ascii_digit());
    is_decimal.then(|| format!("{whole}.{decimals}")).filter(|pointed| pointed.parse::<f64>().is_ok())
}

/// Returns whether a cell is a number, with either decimal sign.
pub(crate) fn is_number(text: &str) -> bool {
    parse_float(text).is_some() || comma_as_point(text).is_some()
}

/// Returns whether a number has a decimal comma.
pub(crate) fn has_decimal_comma(text: &str) -> bool {
    comma_as_point(text).is_some()
}

/// Returns whether a cell can stand in a row: a number, a truth value, a time, or the sign that a value is missing.
pub(crate) fn is_value(text: &str) -> bool {
    is_number(text) || is_truth(text) || (is_missing(text) && !text.is_empty()) || clock::is_moment(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_decimal_sign_holds_for_the_whole_text() {
        let mut decimal = Decimal::default();
        assert_eq!(decimal.with_point("7").unwrap(), "7");
        assert_eq!(decimal.with_point("-1,5e3").unwrap(), "-1.5e3");
        assert_eq!(decimal.with_point("0,25").unwrap(), "0.25");
        let said = decimal.with_point("1.5").unwrap_err().to_string();
        assert!(said.contains("`1.5`") && said.contains("decimal"), "{said}");
        let mut decimal = Decimal::default();
        decimal.with_point("1.5").unwrap();
        assert!(decimal.with_point("1,234").is_err());
        // Both signs in one number are left as they are: no number.
        assert_eq!(decimal.with_point("1.234,5").unwrap(), "1.234,5");
    }

    #[test]
    fn cells_of_rows_are_told_from_words() {
        for value in ["1", "-2e-3", "1,5", "0x1F", "NaN", "true", "NA", "--", "12:00:01.5", "2026-01-01"] {
            assert!(is_value(value), "{value}");
        }
        for word in ["", "OL", "time", "V", "CH1", "1,2,3", "1,", "m/s", "#1"] {
            assert!(!is_value(word), "{word}");
        }
    }
}
