//! Times as text: `2026-11-21T20:15:00.5Z`, nanoseconds since 1970, or relative to a recording.
//!
//! The command line and Python read them here, so that a text means the same in both.

use std::str::FromStr;

use jiff::Timestamp;
use units::WallTime;
use units::text::{self, QuantityError};

/// A moment, perhaps relative to a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// In UTC.
    At(WallTime),
    /// Offset in nanoseconds after the start of the recording: `+10s`.
    AfterStart(i64),
    /// Offset in nanoseconds before its end: `-30s`.
    BeforeEnd(i64),
}

/// Error for an invalid time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "invalid time `{0}`\nwrite 2026-11-21T20:15:00Z (with Z or an offset such as +01:00), nanoseconds since 1970, +10s after the start or -30s before the end"
)]
pub struct MomentError(String);

impl Moment {
    /// Returns the moment in UTC, for a recording that lasted from `start` to `end`.
    #[must_use]
    pub const fn in_recording(self, start: WallTime, end: WallTime) -> WallTime {
        match self {
            Self::At(time) => time,
            Self::AfterStart(nanos) => start.offset(nanos),
            Self::BeforeEnd(nanos) => end.offset(-nanos),
        }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        let error = || MomentError(text.to_owned());
        let nanos = |duration: &str| -> Result<i64, QuantityError> {
            Ok(i64::try_from(text::duration(duration)?.as_nanos()).unwrap_or(i64::MAX))
        };
        if let Some(duration) = text.strip_prefix('+') {
            return nanos(duration).map(Self::AfterStart).map_err(|_| error());
        }
        if let Ok(nanos) = text.parse() {
            return Ok(Self::At(WallTime::from_nanos(nanos)));
        }
        if let Some(duration) = text.strip_prefix('-') {
            return nanos(duration).map(Self::BeforeEnd).map_err(|_| error());
        }
        let utc = text.parse::<Timestamp>().map_err(|_| error())?;
        let nanos = i64::try_from(utc.as_nanosecond()).map_err(|_| error())?;
        Ok(Self::At(WallTime::from_nanos(nanos)))
    }
}

/// Writes a moment in UTC, to the millisecond.
#[must_use]
pub fn moment_text(time: WallTime) -> String {
    let utc = Timestamp::from_nanosecond(time.as_nanos().into())
        .expect("the calendar covers 64 bits of nanoseconds");
    format!("{utc:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_back_as_written() {
        for (written, nanos) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999_000_000),
            ("2026-11-21T20:15:00.500Z", 1_795_292_100_500_000_000),
            ("1969-12-31T23:59:59.000Z", -1_000_000_000),
            ("1969-12-31T23:59:59.999Z", -1_000_000),
        ] {
            assert_eq!(moment_text(WallTime::from_nanos(nanos)), written);
            assert_eq!(written.parse(), Ok(Moment::At(WallTime::from_nanos(nanos))), "{written}");
        }
    }

    #[test]
    fn written_moments_leave_out_what_is_below_a_millisecond() {
        for (nanos, written) in [
            (1_999_999, "1970-01-01T00:00:00.001Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (i64::MIN, "1677-09-21T00:12:43.145Z"),
            (i64::MAX, "2262-04-11T23:47:16.854Z"),
        ] {
            assert_eq!(moment_text(WallTime::from_nanos(nanos)), written);
        }
    }

    #[test]
    fn moments_are_read_to_the_nanosecond() {
        for (text, nanos) in [
            ("1970-01-01T00:00:00.000000001Z", 1),
            ("1970-01-01T00:01Z", 60_000_000_000),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1969-12-31T18:30:00-05:30", 0),
            ("1970-01-01 00:00:01Z", 1_000_000_000),
            ("1677-09-21T00:12:43.145224192Z", i64::MIN),
            ("2262-04-11T23:47:16.854775807Z", i64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Moment::At(WallTime::from_nanos(nanos))), "{text}");
        }
    }

    #[test]
    fn moments_may_be_relative_to_a_recording() {
        let (start, end) = (WallTime::from_nanos(1_000), WallTime::from_nanos(60_000_000_000));
        let at = |text: &str| text.parse::<Moment>().unwrap().in_recording(start, end).as_nanos();
        assert_eq!(at("+10s"), 10_000_001_000);
        assert_eq!(at("-30s"), 30_000_000_000);
        assert_eq!(at("-1000"), -1_000, "a bare number is a count of nanoseconds");
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "now",
            "2026-02-29T00:00:00Z",
            "2026-11-21",
            "2026-11-21T25:00:00Z",
            "+10",
            "2026-11-21T20:15:00",
            "1677-09-21T00:12:43.145224191Z",
            "2262-04-11T23:47:16.854775808Z",
        ] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
