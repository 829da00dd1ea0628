//! Times on the command line: `2026-11-21T20:15:00.5Z`, nanoseconds since 1970, or relative to a recording.
//!
//! Days are counted in the proleptic Gregorian calendar by eras of 400 years, after H. Hinnant, "chrono-Compatible
//! Low-Level Date Algorithms".

use std::str::FromStr;

use units::WallTime;
use units::text::{self, QuantityError};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// A moment, perhaps relative to a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
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
    "invalid time `{0}`: write 2026-11-21T20:15:00Z, nanoseconds since 1970, +10s after the start or -30s before the end"
)]
pub(crate) struct MomentError(String);

impl Moment {
    /// Returns the moment in UTC, for a recording that lasted from `start` to `end`.
    pub(crate) const fn in_recording(self, start: WallTime, end: WallTime) -> WallTime {
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
        utc(text).map(|nanos| Self::At(WallTime::from_nanos(nanos))).ok_or_else(error)
    }
}

/// Writes a moment in UTC, to the millisecond.
pub(crate) fn text(time: WallTime) -> String {
    let nanos = time.as_nanos();
    let (seconds, millis) = (nanos.div_euclid(SECOND_NS), nanos.rem_euclid(SECOND_NS) / 1_000_000);
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

fn utc(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next().unwrap_or(Some(0))?);
    let days = days_of(year, month, day);
    let sane = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !sane || date.next().is_some() || time.next().is_some() || date_of(days) != (year, month, day) {
        return None;
    }
    let nanos: i64 =
        if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").get(..9)?.parse().ok()? };
    let seconds = days * DAY_SECONDS + hour * 3_600 + minute * 60 + second;
    seconds.checked_mul(SECOND_NS)?.checked_add(nanos)
}

/// Counts the days from 1 January 1970 to a date.
const fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns year, month and day, given the days since 1 January 1970.
const fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + if month <= 2 { 1 } else { 0 }, month, day)
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
        ] {
            assert_eq!(text(WallTime::from_nanos(nanos)), written);
            assert_eq!(written.parse(), Ok(Moment::At(WallTime::from_nanos(nanos))), "{written}");
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
        ] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
