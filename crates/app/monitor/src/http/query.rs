//! The query of a request: read within bounds, with errors as text.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use units::WallTime;
use units::text::duration;

use crate::refused::Refused;

/// A request's query.
pub(crate) struct Query(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let read = axum::extract::Query::try_from_uri(&parts.uri);
        let axum::extract::Query(fields) = read
            .map_err(|error| Refused::bad(error.to_string(), "write the query as name=value&name=value"))?;
        Ok(Self(fields))
    }
}

impl Query {
    /// Returns a field that must be there.
    pub(crate) fn text(&self, name: &str) -> Result<&str, Refused> {
        let missing = || Refused::bad(format!("`{name}` is missing"), format!("add {name}=… to the query"));
        self.0.get(name).map(String::as_str).ok_or_else(missing)
    }

    /// Returns a field that may be there.
    pub(crate) fn optional(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a number within bounds, or `otherwise` if it is not there.
    pub(crate) fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        name: &str,
        bounds: std::ops::RangeInclusive<T>,
        otherwise: T,
    ) -> Result<T, Refused> {
        let Some(text) = self.optional(name) else { return Ok(otherwise) };
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| {
            let help = format!("write a whole number from {} to {}", bounds.start(), bounds.end());
            Refused::bad(format!("{name}={text} cannot be used"), help)
        })
    }

    /// Returns a time, or `otherwise` if it is not there.
    pub(crate) fn time(&self, name: &str, otherwise: WallTime) -> Result<WallTime, Refused> {
        // Half the range on either side leaves room for every span.
        let bounds = i64::MIN / 2..=i64::MAX / 2;
        self.number(name, bounds, otherwise.as_nanos()).map(WallTime::from_nanos)
    }

    /// Returns a span such as `500ms`, `60s`, `10m` or `2h` in nanoseconds.
    pub(crate) fn span_ns(&self, name: &str, otherwise: i64) -> Result<i64, Refused> {
        let Some(text) = self.optional(name) else { return Ok(otherwise) };
        let help = "write a span as 500ms, 60s, 10m, 2h or 1d, up to ten years";
        span_ns(text).ok_or_else(|| Refused::bad(format!("{name}={text} is not a span"), help))
    }
}

/// Reads a span of time in nanoseconds; a number without a unit is in seconds.
fn span_ns(text: &str) -> Option<i64> {
    const TEN_YEARS_NS: i64 = 3_660 * 86_400 * 1_000_000_000;
    let is_seconds = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let span = duration(&if is_seconds { format!("{text}s") } else { text.to_owned() }).ok()?;
    i64::try_from(span.as_nanos()).ok().filter(|span| (1..=TEN_YEARS_NS).contains(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        let uri = format!("http://localhost/?{text}").parse().unwrap();
        Query(axum::extract::Query::try_from_uri(&uri).unwrap().0)
    }

    #[test]
    fn numbers_outside_their_bounds_are_refused_with_the_bounds() {
        assert_eq!(query("points=16384").number("points", 1..=16_384, 9), Ok(16_384));
        assert_eq!(query("").number("points", 1..=16_384, 9), Ok(9));
        for text in ["points=0", "points=16385", "points=-1", "points=many", "points="] {
            assert!(query(text).number("points", 1..=16_384, 9).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_have_units() {
        for (text, nanos) in [
            ("60s", 60_000_000_000),
            ("1.5s", 1_500_000_000),
            ("250ms", 250_000_000),
            ("2h", 7_200_000_000_000),
            ("5", 5_000_000_000),
        ] {
            assert_eq!(span_ns(text), Some(nanos), "{text}");
        }
        for text in ["0s", "s", "-1s", "1y", "99999999999d"] {
            assert_eq!(span_ns(text), None, "{text}");
        }
    }
}
