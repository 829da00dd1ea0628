//! Which columns of a table are channels, and which ones are the time and the sample index.

use sample::Channel;

use crate::grid::nanos_per_unit;
use crate::{FileOptions, TimeColumn};

/// Times from here on are moments in UTC, smaller ones count from the beginning of the recording.
///
/// Units: nanoseconds since 1970; the beginning of the year 2000. No recording lasts 30 years.
const EARLIEST_MOMENT_NS: i128 = 946_684_800_000_000_000;

/// Says why columns cannot be chosen as asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// A column that is not there.
    #[error("unknown column `{asked}`; the columns are {present}")]
    NoColumn {
        /// The one asked for.
        asked: String,
        /// Those that are there.
        present: String,
    },
    /// A time in a unit that is none.
    #[error("unknown unit `{unit}` of the time column `{column}`; use s, ms, us or ns")]
    TimeUnit {
        /// The column.
        column: String,
        /// Its unit.
        unit: String,
    },
    /// Nothing is left to be a channel.
    #[error("the table has a time column but no values\nkeep the time as a channel with --time none")]
    NoChannels,
    /// Neither a time column nor a rate.
    #[error(
        "the table has no time column, so its rate is unknown\nset it with --rate, or name the column with --time"
    )]
    NoRate,
}

/// The columns before the channels in what the archive writes (`docs/formats/archive.md`, "Exports").
const LEADING: [&str; 2] = [INDEX, TIME];
const INDEX: &str = "index";
const TIME: &str = "time_ns";
/// What the archive puts before the name of a channel that would hide one of those.
const ESCAPE: &str = "channel:";

/// The choice.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// Where the time is, and how many nanoseconds its unit has.
    pub(crate) time: Option<(usize, i128)>,
    /// Where the sample index is: in a column `index` beside the times `time_ns`, and nowhere else.
    pub(crate) index: Option<usize>,
    /// Where the channels are.
    pub(crate) channels: Vec<usize>,
}

impl Chosen {
    /// Tells whether a row that lacks a value is a sample of which that element never came.
    ///
    /// Only where rows say which samples they are: then what is missing is known to be.
    pub(crate) const fn is_recorded(&self) -> bool {
        self.index.is_some()
    }
}

/// Tells whether a column of this name is one of those before the channels in what the archive writes.
pub(crate) fn is_leading(column: &str) -> bool {
    LEADING.contains(&column)
}

/// Returns the name of the channel in a column of this name.
pub(crate) fn channel_name(column: &str) -> &str {
    column.strip_prefix(ESCAPE).filter(|name| is_leading(name)).unwrap_or(column)
}

/// Chooses by what was asked for and by the headings.
pub(crate) fn choose(headings: &[Channel], options: &FileOptions) -> Result<Chosen, ColumnError> {
    let time = match &options.time {
        TimeColumn::None => None,
        TimeColumn::Named(name) => Some(position(headings, name)?),
        TimeColumn::Auto => headings.iter().position(is_time),
    };
    let time = time.map(|place| Ok((place, unit_of(&headings[place])?))).transpose()?;
    let index = time.filter(|(time, _)| headings[*time].name == TIME);
    let index = index.and_then(|_| headings.iter().position(|heading| heading.name == INDEX));
    let is_free = |place: &usize| time.is_none_or(|(time, _)| time != *place) && index != Some(*place);
    let channels: Vec<usize> = if options.columns.is_empty() {
        (0..headings.len()).filter(is_free).collect()
    } else {
        options.columns.iter().map(|name| position(headings, name)).collect::<Result<_, _>>()?
    };
    if channels.is_empty() {
        return Err(ColumnError::NoChannels);
    }
    if time.is_none() && options.rate.is_none() {
        return Err(ColumnError::NoRate);
    }
    Ok(Chosen { time, index, channels })
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

/// Names that carry their unit, as our own archive writes them.
fn in_nanos(name: &str) -> bool {
    ["t_ns", "time_ns", "timestamp_ns"].contains(&name)
}

fn unit_of(heading: &Channel) -> Result<i128, ColumnError> {
    if in_nanos(&heading.name.to_lowercase()) {
        return Ok(1);
    }
    let unknown = || ColumnError::TimeUnit { column: heading.name.clone(), unit: heading.unit.clone() };
    nanos_per_unit(&heading.unit).ok_or_else(unknown)
}
