//! Times of rows: numbers in a unit, and dates with times of day in a time zone.
//!
//! A date is read as ISO 8601 has it, as `31.12.2026`, `31-Dec-2026` or, with the order known, `12/31/2026`. A time
//! without an offset is local: in the named time zone, else in that of the host. A local time that the zone has twice
//! or not at all is refused.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use super::cell::Decimal;
use crate::grid::{NANOS_PER_SECOND, nanos_by_size, nanos_per_unit, parse_time};
use crate::{ColumnError, GridError};

const NANOS_PER_MINUTE: i128 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: i128 = 60 * NANOS_PER_MINUTE;

/// Unit of a time column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    /// Decimal numbers of this many nanoseconds.
    Nanos(i128),
    /// Text such as `2026-11-21T20:15:00Z`, `31.12.2026 20:15`, `20:15:00.5`; local without an offset.
    Iso,
    /// The same, with the day before the month in `03/04/2026`.
    DayFirst,
    /// The same, with the month before the day in `03/04/2026`.
    MonthFirst,
}

impl TimeUnit {
    /// Names of the units, for the user.
    pub const NAMES: [&'static str; 9] = ["s", "ms", "us", "ns", "min", "h", "iso", "dmy", "mdy"];

    /// Returns the unit of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "iso" => Some(Self::Iso),
            "dmy" => Some(Self::DayFirst),
            "mdy" => Some(Self::MonthFirst),
            _ => nanos_per_unit(name).map(Self::Nanos),
        }
    }
}

/// Time zone of local times.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    zone: TimeZone,
    name: String,
}

impl Zone {
    /// Returns the time zone of a name in the system's database or of a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`
    /// (POSIX.1, TZ); without a name the host's.
    pub(crate) fn open(name: Option<&str>) -> Result<Self, ColumnError> {
        let Some(name) = name else { return Ok(Self::of_host()) };
        let zone = TimeZone::get(name).or_else(|_| TimeZone::posix(name));
        let zone = zone.map_err(|_| ColumnError::TimeZone(name.to_owned()))?;
        Ok(Self { zone, name: name.to_owned() })
    }

    /// A host that names no time zone keeps UTC (tzset(3)).
    fn of_host() -> Self {
        let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
        let name = zone.iana_name().unwrap_or("this host").to_owned();
        Self { zone, name }
    }

    /// Returns the moment at which the clocks of the zone show a time, which counts as if it were UTC.
    ///
    /// Units: nanoseconds since 1970.
    pub(crate) fn nanos_of_local(&self, local_ns: i128) -> Result<i128, GridError> {
        let as_utc = Timestamp::from_nanosecond(local_ns).map_err(|_| GridError::OutsideClock)?;
        let local = TimeZone::UTC.to_datetime(as_utc);
        self.nanos(local, &local.to_string())
    }

    fn nanos(&self, local: DateTime, text: &str) -> Result<i128, GridError> {
        let moment = self.zone.to_ambiguous_timestamp(local).unambiguous();
        let outside = |_| GridError::NotInZone { text: text.to_owned(), zone: self.name.clone() };
        moment.map(Timestamp::as_nanosecond).map_err(outside)
    }
}

/// Reader of a row's time.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// Column of the date, if it has one of its own.
    pub(crate) date: Option<usize>,
    /// Column of the time.
    pub(crate) time: usize,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Number { nanos: i128, told_by: &'static str },
    Date { zone: Zone, order: Option<Order>, is_local: bool },
}

/// Order of day and month where both are numbers and slashes or hyphens stand between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    DayFirst,
    MonthFirst,
}

/// What is known of a time column besides its cells.
pub(crate) struct TimeHints<'a> {
    /// Unit that the user names.
    pub(crate) asked: Option<TimeUnit>,
    /// Unit in the heading. Units: nanoseconds.
    pub(crate) told: Option<i128>,
    /// Time zone that the user names.
    pub(crate) zone: Option<&'a str>,
}

/// Moment as the text has it.
enum Moment {
    Instant(Timestamp),
    Local(DateTime),
    /// Nanoseconds since midnight, or since the beginning.
    OfDay(i128),
}

impl Clock {
    /// Chooses the reading of a column: as the user, the heading or the first cell says.
    pub(crate) fn new(
        time: usize,
        date: Option<usize>,
        hints: &TimeHints<'_>,
        first: &str,
    ) -> Result<Self, TimeError> {
        let dates = |order| {
            Ok::<_, ColumnError>(Form::Date { zone: Zone::open(hints.zone)?, order, is_local: false })
        };
        let form = match (hints.asked, hints.told) {
            (Some(TimeUnit::Nanos(nanos)), _) => Form::Number { nanos, told_by: "as asked" },
            (Some(TimeUnit::Iso), _) => dates(None)?,
            (Some(TimeUnit::DayFirst), _) => dates(Some(Order::DayFirst))?,
            (Some(TimeUnit::MonthFirst), _) => dates(Some(Order::MonthFirst))?,
            (None, _) if is_moment(first) => dates(None)?,
            (None, Some(nanos)) => Form::Number { nanos, told_by: "as its heading says" },
            (None, None) => {
                let pointed = Decimal::default().with_point(first).unwrap_or(Cow::Borrowed(first));
                let nanos = nanos_by_size(parse_time(&pointed, NANOS_PER_SECOND)?)?;
                let told_by =
                    if nanos == NANOS_PER_SECOND { "unless told otherwise" } else { "by their size" };
                Form::Number { nanos, told_by }
            }
        };
        Ok(Self { date, time, form })
    }

    /// Reads the time of a row. Units: nanoseconds, since 1970 or since the beginning.
    pub(crate) fn read(&mut self, fields: &[Cow<'_, str>], decimal: &mut Decimal) -> Result<i128, GridError> {
        let text = match self.date {
            Some(date) => Cow::Owned(format!("{} {}", fields[date], fields[self.time])),
            None => Cow::Borrowed(&*fields[self.time]),
        };
        match &mut self.form {
            Form::Number { nanos, .. } => {
                let pointed = decimal.with_point(&text).map_err(|_| GridError::NotTime(text.to_string()))?;
                parse_time(&pointed, *nanos)
            }
            Form::Date { zone, order, is_local } => match moment(&text, order)? {
                Moment::Instant(at) => Ok(at.as_nanosecond()),
                Moment::Local(local) => {
                    *is_local = true;
                    zone.nanos(local, &text)
                }
                Moment::OfDay(nanos) => Ok(nanos),
            },
        }
    }

    /// Describes the form of the times, once one was read.
    pub(crate) fn form(&self) -> String {
        match &self.form {
            Form::Number { nanos, told_by } => format!("{}, {told_by}", unit_name(*nanos)),
            Form::Date { zone, is_local: true, .. } => format!("local times of {}", zone.name),
            Form::Date { .. } => "times of day, or times with an offset".to_owned(),
        }
    }
}

/// Reason why a time column cannot be read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// The time zone is unknown.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// The first cell is no time.
    #[error(transparent)]
    Grid(#[from] GridError),
}

fn unit_name(nanos: i128) -> &'static str {
    match nanos {
        1 => "nanoseconds",
        1_000 => "microseconds",
        1_000_000 => "milliseconds",
        NANOS_PER_SECOND => "seconds",
        NANOS_PER_MINUTE => "minutes",
        _ => "hours",
    }
}

/// Returns whether a cell is a date, a time of day, or both.
pub(crate) fn is_moment(text: &str) -> bool {
    let begins = text.starts_with(|sign: char| sign.is_ascii_digit());
    // A date whose order is unknown is one nevertheless.
    begins
        && text.contains([':', '-', '/', '.'])
        && !matches!(moment(text, &mut None), Err(GridError::NotTime(_)))
}

/// Returns whether a cell is a date without a time of day.
pub(crate) fn is_date(text: &str) -> bool {
    !matches!(date(text, &mut None), Err(GridError::NotTime(_)))
}

/// Returns whether a cell is a time of day without a date.
pub(crate) fn is_time_of_day(text: &str) -> bool {
    time_of_day(text).is_some()
}

fn moment(text: &str, order: &mut Option<Order>) -> Result<Moment, GridError> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Moment::Instant(at));
    }
    if let Some(nanos) = time_of_day(text) {
        return Ok(Moment::OfDay(nanos));
    }
    let not_time = || GridError::NotTime(text.to_owned());
    let in_utc = text.strip_suffix("UTC").or(text.strip_suffix("GMT")).or(text.strip_suffix('Z'));
    let bare = in_utc.unwrap_or(text).trim();
    let (day, of_day) = bare.split_once(' ').or_else(|| iso_parts(bare)).unwrap_or((bare, "0:00"));
    let nanos =
        time_of_day(of_day.trim()).filter(|nanos| *nanos < 24 * NANOS_PER_HOUR).ok_or_else(not_time)?;
    let nanos = i64::try_from(nanos).map_err(|_| not_time())?;
    let midnight = date(day, order)?.to_datetime(Time::midnight());
    let local = midnight.checked_add(jiff::SignedDuration::from_nanos(nanos)).map_err(|_| not_time())?;
    match in_utc {
        None => Ok(Moment::Local(local)),
        Some(_) => TimeZone::UTC.to_timestamp(local).map(Moment::Instant).map_err(|_| not_time()),
    }
}

/// Splits `2026-12-31T20:15`; in `31-Oct-2026` the letter is no sign of a time.
fn iso_parts(text: &str) -> Option<(&str, &str)> {
    let (day, rest) = text.split_at_checked("2026-12-31".len())?;
    rest.strip_prefix('T').map(|of_day| (day, of_day))
}

/// Reads `12:30`, `12:30:01.5` and `1:30:01 PM`. Units: nanoseconds since midnight.
fn time_of_day(text: &str) -> Option<i128> {
    let upper = text.to_ascii_uppercase();
    let half =
        upper.strip_suffix("AM").map(|rest| (rest, 0)).or(upper.strip_suffix("PM").map(|rest| (rest, 12)));
    let (digits, noon) = half.map_or((upper.as_str(), None), |(rest, noon)| (rest.trim_end(), Some(noon)));
    let mut parts = digits.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next());
    let hour = match noon {
        Some(noon) => whole(hour, 12)? % 12 + noon,
        None => whole(hour, 9_999)?,
    };
    let second = second.map_or(Some(0), second_nanos)?;
    let nanos =
        i128::from(hour) * NANOS_PER_HOUR + i128::from(whole(minute, 59)?) * NANOS_PER_MINUTE + second;
    parts.next().is_none().then_some(nanos)
}

fn second_nanos(text: &str) -> Option<i128> {
    let pointed = text.replace(',', ".");
    let is_plain =
        pointed.starts_with(|sign: char| sign.is_ascii_digit()) && !pointed.contains(['e', 'E', '-']);
    let nanos = parse_time(&pointed, NANOS_PER_SECOND).ok().filter(|_| is_plain)?;
    (nanos < NANOS_PER_MINUTE).then_some(nanos)
}

fn whole(text: &str, most: u32) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|value| is_plain && *value <= most)
}

/// Reads a date of three parts.
fn date(text: &str, order: &mut Option<Order>) -> Result<Date, GridError> {
    let not_time = || GridError::NotTime(text.to_owned());
    let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
    let [first, middle, last] = parts[..] else { return Err(not_time()) };
    let number = |part: &str| whole(part, 9_999).ok_or_else(not_time);
    let (year, month, day) = if first.len() == 4 {
        (number(first)?, number(middle)?, number(last)?)
    } else if last.len() != 4 {
        return Err(not_time());
    } else if let Some(month) = month_named(middle) {
        (number(last)?, month, number(first)?)
    } else {
        let (first, middle) = (number(first)?, number(middle)?);
        let day_first = text.contains('.') || order_of(first, middle, order, text)? == Order::DayFirst;
        if day_first { (number(last)?, middle, first) } else { (number(last)?, first, middle) }
    };
    let small = |value: u32| i8::try_from(value).map_err(|_| not_time());
    let year = i16::try_from(year).map_err(|_| not_time())?;
    Date::new(year, small(month)?, small(day)?).map_err(|_| not_time())
}

/// Returns the order of day and month; the first date of which only one is possible decides.
fn order_of(first: u32, middle: u32, known: &mut Option<Order>, text: &str) -> Result<Order, GridError> {
    let possible = match (first > 12, middle > 12) {
        (true, _) => Some(Order::DayFirst),
        (false, true) => Some(Order::MonthFirst),
        (false, false) => None,
    };
    match (possible, *known) {
        (None, None) => Err(GridError::TwoDates(text.to_owned())),
        (Some(possible), Some(known)) if possible != known => Err(GridError::NotTime(text.to_owned())),
        (Some(order), _) | (None, Some(order)) => Ok(*known.insert(order)),
    }
}

/// Returns the number of a month of three letters.
fn month_named(text: &str) -> Option<u32> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let place = MONTHS.iter().position(|month| text.eq_ignore_ascii_case(month))?;
    u32::try_from(place + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds of 2026-12-31T20:15:00Z.
    const EVENING: i128 = 1_798_748_100 * NANOS_PER_SECOND;

    fn clock(asked: Option<TimeUnit>, zone: &str, first: &str) -> Result<Clock, TimeError> {
        Clock::new(0, None, &TimeHints { asked, told: None, zone: Some(zone) }, first)
    }

    fn read(unit: Option<TimeUnit>, zone: &str, text: &str) -> Result<i128, String> {
        let mut clock = clock(unit, zone, text).map_err(|error| error.to_string())?;
        let fields = [Cow::Borrowed(text)];
        clock.read(&fields, &mut Decimal::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn dates_are_read_in_the_forms_that_instruments_write() {
        for text in [
            "2026-12-31T20:15:00Z",
            "2026-12-31T21:15:00+01:00",
            "2026-12-31 20:15",
            "2026/12/31 20:15:00",
            "31.12.2026 20:15:00.000",
            "31-Dec-2026 20:15:00",
            "31-DEC-2026 20:15",
            "12/31/2026 8:15:00 PM",
            "31/12/2026 20:15:00,000",
            "2026-12-31 20:15:00 UTC",
        ] {
            assert_eq!(read(None, "UTC", text), Ok(EVENING), "{text}");
        }
        assert_eq!(
            read(None, "UTC", "2026-12-31"),
            Ok(EVENING - 20 * NANOS_PER_HOUR - 15 * NANOS_PER_MINUTE)
        );
        assert_eq!(read(None, "UTC", "0:01:02.5"), Ok(62_500_000_000));
        assert_eq!(read(None, "UTC", "12:00:00 AM"), Ok(0));
    }

    #[test]
    fn a_local_time_is_that_of_the_zone_and_one_that_it_has_twice_is_refused() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(read(None, berlin, "2026-12-31 21:15:00"), Ok(EVENING));
        for text in ["2026-10-25 02:30:00", "2026-03-29 02:30:00"] {
            let said = read(None, berlin, text).unwrap_err();
            assert!(said.contains(berlin) && said.contains("--time-zone"), "{said}");
        }
        let said = read(None, "Mars/Olympus", "2026-12-31").unwrap_err();
        assert!(said.contains("Mars/Olympus"), "{said}");
    }

    #[test]
    fn day_and_month_are_not_guessed() {
        let said = read(None, "UTC", "03/04/2026").unwrap_err();
        assert!(said.contains("dmy") && said.contains("mdy"), "{said}");
        let april = read(Some(TimeUnit::DayFirst), "UTC", "03/04/2026").unwrap();
        assert_eq!(read(None, "UTC", "2026-04-03"), Ok(april));
        let march = read(Some(TimeUnit::MonthFirst), "UTC", "03/04/2026").unwrap();
        assert_eq!(read(None, "UTC", "2026-03-04"), Ok(march));
        assert_eq!(read(None, "UTC", "03.04.2026"), Ok(april), "points stand in dates with the day first");
        // The order of the first date holds for those behind it.
        let mut clock = clock(None, "UTC", "13/01/2026").unwrap();
        let mut read = |text| clock.read(&[Cow::Borrowed(text)], &mut Decimal::default());
        let first = read("13/01/2026").unwrap();
        assert_eq!(read("01/02/2026").unwrap() - first, 19 * 24 * NANOS_PER_HOUR);
        assert!(read("01/31/2026").is_err());
    }

    #[test]
    fn the_size_of_numbers_tells_their_unit_where_seconds_are_impossible() {
        let second = 1_700_000_000 * NANOS_PER_SECOND;
        for (text, form) in [
            ("1700000000", "seconds"),
            ("1700000000000", "milliseconds, by their size"),
            ("1700000000000000", "microseconds, by their size"),
            ("1700000000000000000", "nanoseconds, by their size"),
        ] {
            assert_eq!(read(None, "UTC", text), Ok(second), "{text}");
            assert!(clock(None, "UTC", text).unwrap().form().contains(form), "{text}");
        }
        for text in ["12.5", "-3"] {
            assert!(clock(None, "UTC", text).unwrap().form().contains("seconds"), "{text}");
        }
        let said = read(None, "UTC", "45000000000").unwrap_err();
        assert!(said.contains("2262") && said.contains("--time-unit"), "{said}");
        assert_eq!(read(Some(TimeUnit::Nanos(1_000)), "UTC", "45000000000"), Ok(45_000 * NANOS_PER_SECOND));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "noon", "25:61", "2026-13-01", "2026-12-31 24:00", "1.2.3", "31.12.26", "1-2", "12:00:60"]
        {
            assert!(read(None, "UTC", text).is_err(), "{text}");
            assert!(!is_moment(text), "{text}");
        }
        assert!(!is_moment("1.5") && !is_moment("-1") && is_moment("03/04/2026"));
    }
}
