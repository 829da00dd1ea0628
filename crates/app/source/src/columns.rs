//! Choice of a table's columns: channels, time and sample index.

use sample::Channel;

use crate::grid::nanos_per_unit;
use crate::{FileOptions, TimeColumn};

/// Earliest time that is taken for a moment in UTC; smaller times count from the beginning of the recording.
///
/// Units: nanoseconds since 1970; the beginning of the year 2000. No recording lasts 30 years.
const EARLIEST_MOMENT_NS: i128 = 946_684_800_000_000_000;

/// Reason why columns cannot be chosen as requested.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// The column does not exist.
    #[error("unknown column `{asked}`; the columns are {present}")]
    NoColumn {
        /// Requested column.
        asked: String,
        /// Existing columns.
        present: String,
    },
    /// The unit of a time column is unknown.
    #[error("unknown unit `{unit}` of the time column `{column}`; use s, ms, us or ns")]
    TimeUnit {
        /// Name of the column.
        column: String,
        /// Unit in its heading.
        unit: String,
    },
    /// No column is left for a channel.
    #[error("the table has a time column but no values\nkeep the time as a channel with --time none")]
    NoChannels,
    /// There is neither a time column nor a rate.
    #[error(
        "the table has no time column, so its rate is unknown\nset it with --rate, or name the column with --time"
    )]
    NoRate,
}

/// Columns before the channels in the archive's exports (`docs/reference/formats/archive.md`, "Exports").
const LEADING: [&str; 2] = [INDEX, TIME];
const INDEX: &str = "index";
const TIME: &str = "time_ns";
/// Prefix that the archive gives to a channel whose name equals one of those.
const ESCAPE: &str = "channel:";

/// Chosen columns.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// Column of the time, and its unit in nanoseconds.
    pub(crate) time: Option<(usize, i128)>,
    /// Column of the sample index: only a column `index` together with times `time_ns`.
    pub(crate) index: Option<usize>,
    /// Columns of the channels.
    pub(crate) channels: Vec<usize>,
}

impl Chosen {
    /// Returns whether a row that lacks a value is a sample of which that element never arrived.
    ///
    /// Only if rows have their sample index: then missing elements are known to be missing.
    pub(crate) const fn is_recorded(&self) -> bool {
        self.index.is_some()
    }
}

/// Returns whether a column has the name of one before the channels in the archive's exports.
pub(crate) fn is_leading(column: &str) -> bool {
    LEADING.contains(&column)
}

/// Returns the name of the channel in a column with this heading.
pub(crate) fn channel_name(column: &str) -> &str {
    column.strip_prefix(ESCAPE).filter(|name| is_leading(name)).unwrap_or(column)
}

/// Chooses columns by the options and by the headings.
pub(crate) fn choose(headings: &[Channel], options: &FileOptions) -> Result<Chosen, ColumnError> {
    let time = time_place(headings, &options.time)?;
    let time = time.map(|place| Ok((place, unit_of(&headings[place])?))).transpose()?;
    let index = time.filter(|(time, _)| headings[*time].name == TIME);
    let index = index.and_then(|_| headings.iter().position(|heading| heading.name == INDEX));
    let is_free = |place: &usize| time.is_none_or(|(time, _)| time != *place) && index != Some(*place);
    let channels = channel_places(headings, &options.columns, is_free)?;
    if time.is_none() && options.rate.is_none() {
        return Err(ColumnError::NoRate);
    }
    Ok(Chosen { time, index, channels })
}

/// Returns the column of the time.
pub(crate) fn time_place(headings: &[Channel], time: &TimeColumn) -> Result<Option<usize>, ColumnError> {
    match time {
        TimeColumn::None => Ok(None),
        TimeColumn::Named(name) => position(headings, name).map(Some),
        TimeColumn::Auto => Ok(headings.iter().position(is_time)),
    }
}

/// Returns the columns of the channels: those that are wanted, else all that are free.
pub(crate) fn channel_places(
    headings: &[Channel],
    wanted: &[String],
    is_free: impl FnMut(&usize) -> bool,
) -> Result<Vec<usize>, ColumnError> {
    let channels: Vec<usize> = if wanted.is_empty() {
        (0..headings.len()).filter(is_free).collect()
    } else {
        wanted.iter().map(|name| position(headings, name)).collect::<Result<_, _>>()?
    };
    if channels.is_empty() { Err(ColumnError::NoChannels) } else { Ok(channels) }
}

/// Returns a time as a moment in UTC, if it can be one.
pub(crate) fn moment(time_ns: i128) -> Option<units::WallTime> {
    let moment = i64::try_from(time_ns).ok().filter(|_| time_ns >= EARLIEST_MOMENT_NS);
    moment.map(units::WallTime::from_nanos)
}

fn position(headings: &[Channel], name: &str) -> Result<usize, ColumnError> {
    headings.iter().position(|heading| heading.name == name).ok_or_else(|| {
        let present: Vec<&str> = headings.iter().map(|heading| heading.name.as_str()).collect();
        ColumnError::NoColumn { asked: name.to_owned(), present: present.join(", ") }
    })
}

fn is_time(heading: &Channel) -> bool {
    let name = heading.name.to_lowercase();
    ["t", "time", "timestamp"].contains(&name.as_str()) || in_nanos(&name)
}

/// Returns whether a name contains its unit, as in our own archive.
fn in_nanos(name: &str) -> bool {
    ["t_ns", "time_ns", "timestamp_ns"].contains(&name)
}

/// Returns the unit of a time column by its name or heading. Units: nanoseconds.
pub(crate) fn unit_of(heading: &Channel) -> Result<i128, ColumnError> {
    if in_nanos(&heading.name.to_lowercase()) {
        return Ok(1);
    }
    let unknown = || ColumnError::TimeUnit { column: heading.name.clone(), unit: heading.unit.clone() };
    nanos_per_unit(&heading.unit).ok_or_else(unknown)
}

/// Returns the most frequent delimiter of a table's first line: of equals, the first of comma, semicolon and tab.
pub(crate) fn delimiter_of(line: &[u8]) -> u8 {
    let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    // The last of equals wins, so the comma comes last.
    [b'\t', b';', b','].into_iter().max_by_key(count).expect("there are three")
}

/// Returns whether a table's first line names its columns: one of its fields is neither empty nor a number.
pub(crate) fn is_header<'a>(mut fields: impl Iterator<Item = &'a str>) -> bool {
    fields.any(|field| !field.is_empty() && field.parse::<f64>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equally_frequent_delimiters_the_comma_comes_first() {
        for (line, delimiter) in [("1,2;3\t4", b','), ("1;2\t3", b';'), ("1\t2\t3;4", b'\t'), ("1", b',')] {
            assert_eq!(delimiter_of(line.as_bytes()), delimiter, "{line}");
        }
    }

    #[test]
    fn a_header_has_a_field_that_is_neither_empty_nor_a_number() {
        for (line, names_columns) in [("1,,2.5e3", false), ("1,b", true), (",", false)] {
            assert_eq!(is_header(line.split(',')), names_columns, "{line}");
        }
    }
}
