//! Layout of a table: what was decided from its first lines, and the reading of its rows by it.

use std::borrow::Cow;

use sample::{Channel, Dtype};
use units::SampleRate;

use super::cell::Decimal;
use super::clock::{self, Clock, TimeHints, TimeUnit};
use super::fields::{Separator, filled};
use super::head::{HeadError, TextOptions};
use crate::columns::{
    channel_name, channel_places, dated_channel_name, index_place, is_dated_export, time_place, unit_told,
};
use crate::grid::parse_index;
use crate::numbers::push_text;
use crate::{GridError, NanPolicy, NumberError, TimeColumn};

/// Layout of a table.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Lines and headings; its index column is the one that was decided.
    pub(crate) found: Found,
    pub(crate) clock: Option<Clock>,
    /// Columns of the channels.
    pub(crate) channels: Vec<usize>,
    /// True if the text is an export of the archive with dates.
    is_dated: bool,
    decimal: Decimal,
}

/// Parts of a layout that are found in the lines, before the roles of the columns are known.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Found {
    /// Instrument or program that wrote the text, if it is one of those with rules of their own.
    pub(crate) instrument: Option<&'static str>,
    pub(crate) separator: Separator,
    pub(crate) header_line: Option<u64>,
    pub(crate) unit_line: Option<u64>,
    /// Number of the first line of values, from 1.
    pub(crate) first_row: u64,
    /// Headings of all columns, by name and unit.
    pub(crate) headings: Vec<Channel>,
    /// Rate that the file states instead of times.
    pub(crate) rate: Option<SampleRate>,
    /// Column of the sample index.
    pub(crate) index: Option<usize>,
    /// Columns of the instrument's own that are no channels unless chosen.
    pub(crate) left_out: Vec<usize>,
}

/// Place of a row on the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    /// Units: nanoseconds.
    pub(crate) time_ns: Option<i128>,
    pub(crate) index: Option<u64>,
}

/// Reason why a line is no row.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub(crate) enum RowError {
    #[error("{found} fields, expected {expected}")]
    Ragged { found: usize, expected: usize },
    #[error("column `{column}`: {source}")]
    Field { column: String, place: usize, source: NumberError },
    #[error(transparent)]
    Time(#[from] GridError),
}

impl Layout {
    /// Gives the columns their roles, by the options, the headings and the first row.
    pub(crate) fn new(
        found: Found,
        first: &[Cow<'_, str>],
        options: &TextOptions,
    ) -> Result<Self, HeadError> {
        let headings = &found.headings;
        let time = time_place(headings, &options.time)?
            .or_else(|| dated_column(&first[..headings.len()], &options.time));
        let date = time.and_then(|time| date_column(headings, time, first));
        let is_dated = is_dated_export(headings) && time == Some(1) && clock::is_moment(&first[1]);
        let index = found.index.or(is_dated.then_some(0)).or_else(|| index_place(headings, time));
        let is_free = |place: &usize| {
            time != Some(*place)
                && date != Some(*place)
                && index != Some(*place)
                && !found.left_out.contains(place)
        };
        let channels = channel_places(headings, &options.columns, is_free)?;
        let clock = time.map(|time| clock_of(&headings[time], (time, date), first, options));
        let clock = clock.transpose().map_err(|source| HeadError::Time { line: found.first_row, source })?;
        let found = Found { index, ..found };
        let mut layout = Self { found, clock, channels, is_dated, decimal: Decimal::default() };
        // A row whose time is wrong is refused in its place; here it only tells the form of the times.
        let mut tried = layout.clone();
        if tried.place(first).is_ok() {
            layout.clock = tried.clock;
        }
        Ok(layout)
    }

    /// Returns the channels, by name and unit.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        let name = if self.is_dated { dated_channel_name } else { channel_name };
        let headings = self.channels.iter().map(|place| &self.found.headings[*place]);
        headings.map(|it| Channel::new(name(&it.name), it.unit.as_str())).collect()
    }

    /// Reads the place of a line.
    pub(crate) fn place_of(&mut self, line: &str) -> Result<Place, RowError> {
        let fields = self.fields(line)?;
        Ok(self.place(&fields)?)
    }

    /// Reads a row: appends its elements, and returns its place.
    ///
    /// With an index, a row in which an element is missing appends nothing: it was recorded in part.
    pub(crate) fn read(
        &mut self,
        line: &str,
        (dtype, nan): (Dtype, NanPolicy),
        out: &mut Vec<u8>,
    ) -> Result<Place, RowError> {
        let fields = self.fields(line)?;
        let place = self.place(&fields)?;
        let is_partial = self.found.index.is_some() && self.channels.iter().any(|at| fields[*at].is_empty());
        if is_partial && !nan.fills(dtype) {
            return Ok(place);
        }
        let whole_bytes = out.len();
        for at in &self.channels {
            let pointed = self.decimal.with_point(&fields[*at]);
            if let Err(source) = pointed.and_then(|text| push_text(&text, dtype, nan, out)) {
                out.truncate(whole_bytes);
                return Err(RowError::Field {
                    column: self.found.headings[*at].name.clone(),
                    place: *at,
                    source,
                });
            }
        }
        Ok(place)
    }

    /// Splits a row. Empty fields behind the last column are no fields, and text behind a `#` that is one too many for
    /// a row is a comment.
    fn fields<'a>(&self, line: &'a str) -> Result<Vec<Cow<'a, str>>, RowError> {
        let expected = self.found.headings.len();
        let fits = |fields: &Vec<Cow<'a, str>>| fields.len() >= expected && filled(fields) <= expected;
        let bare = line.split_once('#').map(|(row, _)| self.found.separator.split(row)).filter(fits);
        let fields = bare.unwrap_or_else(|| self.found.separator.split(line));
        if fits(&fields) {
            return Ok(fields);
        }
        let found = if fields.len() < expected { fields.len() } else { filled(&fields) };
        Err(RowError::Ragged { found, expected })
    }

    fn place(&mut self, fields: &[Cow<'_, str>]) -> Result<Place, GridError> {
        let index = self.found.index.map(|at| parse_index(&fields[at])).transpose()?;
        let clock = self.clock.as_mut().map(|clock| clock.read(fields, &mut self.decimal));
        Ok(Place { time_ns: clock.transpose()?, index })
    }

    /// Describes what was decided, in one line.
    pub(crate) fn said(&self) -> String {
        let kind = self.found.instrument.map_or_else(|| "CSV".to_owned(), |name| format!("CSV of {name}"));
        let separated = if self.found.headings.len() > 1 { self.found.separator.name() } else { "lines" };
        let header = match (self.found.header_line, self.found.unit_line) {
            (None, _) => "no header row, columns are numbered".to_owned(),
            (Some(header), None) => format!("header row {header}"),
            (Some(header), Some(unit)) => format!("header row {header}, units in row {unit}"),
        };
        let rows = format!("values from row {}", self.found.first_row);
        [format!("{kind} separated by {separated}"), header, rows, self.said_of_time()].join("; ")
            + &self.said_of_rest()
    }

    fn said_of_time(&self) -> String {
        match (&self.clock, self.found.rate) {
            (Some(clock), _) => {
                let name = |place: usize| format!("`{}`", self.found.headings[place].name);
                let date = clock.date.map_or_else(String::new, |date| format!("{} and ", name(date)));
                format!("time in {date}{}: {}", name(clock.time), clock.form())
            }
            (None, Some(rate)) => format!("{rate} samples/s as the file states"),
            (None, None) => "no time column".to_owned(),
        }
    }

    fn said_of_rest(&self) -> String {
        let rest = self.found.left_out.iter().filter(|place| !self.channels.contains(place));
        let names =
            rest.map(|place| self.found.headings[*place].name.as_str()).filter(|name| !name.is_empty());
        let names: Vec<&str> = names.collect();
        if names.is_empty() { String::new() } else { format!("; without {}", names.join(", ")) }
    }
}

/// Returns the first column whose cell has a date and a time of day, else one of them: it cannot be a channel.
fn dated_column(first: &[Cow<'_, str>], asked: &TimeColumn) -> Option<usize> {
    if *asked != TimeColumn::Auto {
        return None;
    }
    let place = |is_one: &dyn Fn(&str) -> bool| first.iter().position(|cell| is_one(cell));
    let is_both =
        |cell: &str| clock::is_moment(cell) && !clock::is_date(cell) && !clock::is_time_of_day(cell);
    place(&is_both).or_else(|| place(&clock::is_time_of_day)).or_else(|| place(&clock::is_moment))
}

/// Returns the column of the date, if the time column has times of day: one that is named so, or the one before.
fn date_column(headings: &[Channel], time: usize, first: &[Cow<'_, str>]) -> Option<usize> {
    let is_date = |place: &usize| *place != time && clock::is_date(&first[*place]);
    let is_named =
        |place: &usize| ["date", "datum", "day"].contains(&headings[*place].name.to_lowercase().as_str());
    let named = (0..headings.len()).find(|place| is_named(place) && is_date(place));
    let date = named.or_else(|| time.checked_sub(1).filter(is_date));
    date.filter(|_| clock::is_time_of_day(&first[time]))
}

fn clock_of(
    heading: &Channel,
    (time, date): (usize, Option<usize>),
    first: &[Cow<'_, str>],
    options: &TextOptions,
) -> Result<Clock, clock::TimeError> {
    let is_number = options.time_unit.is_none() && !clock::is_moment(&first[time]);
    let in_text = (heading.unit == "iso").then_some(TimeUnit::Iso);
    let told = if is_number && in_text.is_none() { unit_told(heading)? } else { None };
    let of_heading = ["UTC", "GMT"].contains(&heading.unit.as_str()).then_some("UTC");
    let zone = options.time_zone.as_deref().or(of_heading);
    Clock::new(time, date, &TimeHints { asked: options.time_unit.or(in_text), told, zone }, &first[time])
}
