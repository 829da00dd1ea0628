//! Choice of a table's columns: channels, time and sample index.

use sample::Channel;

use crate::grid::{NANOS_PER_SECOND, nanos_per_unit};
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
    #[error(
        "unknown unit `{unit}` of the time column `{column}`\n\
         name it with --time-unit: s, ms, us, ns, min, h, or iso, dmy, mdy for dates"
    )]
    TimeUnit {
        /// Name of the column.
        column: String,
        /// Unit in its heading.
        unit: String,
    },
    /// The time zone is unknown.
    #[error(
        "unknown time zone `{0}`\nuse a name of the system's time zone database, such as Europe/Berlin or UTC"
    )]
    TimeZone(String),
    /// Two channels would have the same name.
    #[error("two columns are named `{0}`\nchoose columns with --columns, or rename one of them in the file")]
    Twice(String),
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
/// Column of the times in exports with dates.
const DATED: &str = "time";
/// Prefix that the archive gives to a channel whose name equals one of those.
const ESCAPE: &str = "channel:";

/// Chosen columns.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// Column of the time.
    pub(crate) time: Option<usize>,
    /// Column of the sample index: only a column `index` together with times `time_ns`.
    pub(crate) index: Option<usize>,
    /// Columns of the channels.
    pub(crate) channels: Vec<usize>,
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
    let index = index_place(headings, time);
    let is_free = |place: &usize| time != Some(*place) && index != Some(*place);
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

/// Returns whether a column has a usual name of times, with a unit behind it or not: `time`, `t_ms`.
pub(crate) fn is_time(heading: &Channel) -> bool {
    let name = heading.name.to_lowercase();
    let base = suffix_unit(&name).map_or(name.as_str(), |(base, _)| base);
    ["t", "time", "timestamp", "datetime", "date_time", "date/time", "time stamp", "x-axis"].contains(&base)
}

/// Divides a name that ends with a unit, as in our own archive: `time_ns`. `t_min` is a minimum, not a time.
fn suffix_unit(name: &str) -> Option<(&str, i128)> {
    let (base, unit) = name.rsplit_once('_').filter(|(_, unit)| !unit.is_empty())?;
    nanos_per_unit(unit).filter(|nanos| *nanos <= NANOS_PER_SECOND).map(|nanos| (base, nanos))
}

/// Returns the unit of a time column that its heading or its name tells. Units: nanoseconds.
pub(crate) fn unit_told(heading: &Channel) -> Result<Option<i128>, ColumnError> {
    if heading.unit.is_empty() {
        return Ok(suffix_unit(&heading.name.to_lowercase()).map(|(_, nanos)| nanos));
    }
    let unknown = || ColumnError::TimeUnit { column: heading.name.clone(), unit: heading.unit.clone() };
    nanos_per_unit(&heading.unit).ok_or_else(unknown).map(Some)
}

/// Returns the column of the sample index: `index` beside the times of an export of the archive.
pub(crate) fn index_place(headings: &[Channel], time: Option<usize>) -> Option<usize> {
    time.filter(|time| headings[*time].name == TIME)?;
    headings.iter().position(|heading| heading.name == INDEX)
}

/// Returns whether a table is an export of the archive with dates, before whose channels these columns are.
pub(crate) fn is_dated_export(headings: &[Channel]) -> bool {
    matches!(headings, [index, time, ..] if index.name == INDEX && time.name == DATED)
}

/// Returns the name of the channel in a column of an export with dates.
pub(crate) fn dated_channel_name(column: &str) -> &str {
    column.strip_prefix(ESCAPE).filter(|name| is_leading(name) || *name == DATED).unwrap_or(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_column_is_told_by_its_name_and_its_unit_by_the_heading_or_the_name() {
        let told = |name: &str, unit: &str| {
            let heading = Channel::new(name, unit);
            (is_time(&heading), unit_told(&heading).ok().flatten())
        };
        assert_eq!(told("Time", "ms"), (true, Some(1_000_000)));
        assert_eq!(told("time_us", ""), (true, Some(1_000)));
        assert_eq!(told("timestamp", ""), (true, None));
        assert_eq!(told("x-axis", "second"), (true, Some(NANOS_PER_SECOND)));
        assert_eq!(told("uptime_ms", ""), (false, Some(1_000_000)));
        assert_eq!(told("runtime", ""), (false, None));
        assert_eq!(told("t_min", ""), (false, None));
        assert!(unit_told(&Channel::new("t", "fortnights")).is_err());
    }
}
