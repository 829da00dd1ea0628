//! Rows of a CSV file that grows: lines as they are completed. Bytes in, rows out.
//!
//! Comma, semicolon, tab or space, whichever the first line has; `#` begins a comment; the first line names the
//! columns, with units, unless it is numbers.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use sample::Channel;

use super::{FollowError, FollowOptions, Followed, Rows, TimeUnit};
use crate::columns::{channel_places, delimiter_of, is_header, time_place, unit_of};
use crate::grid::parse_time;
use crate::numbers::{heading, push_text};

/// Maximum length of a line: longer ones are binary data, not lines.
const MAX_LINE_BYTES: usize = 1 << 20;

/// One file, from its beginning or from any line on.
#[derive(Debug)]
pub(super) struct Tail {
    options: FollowOptions,
    /// Start of an incomplete line.
    partial: Vec<u8>,
    columns: Option<Columns>,
    /// First line that is no comment.
    header: Option<String>,
    lines: u64,
    position: u64,
}

/// Roles of a table's columns.
#[derive(Debug)]
struct Columns {
    delimiter: char,
    count: usize,
    channels: Arc<[Channel]>,
    /// Column of each channel.
    places: Vec<usize>,
    time: Option<(usize, TimeUnit)>,
}

impl Tail {
    /// Begins a file.
    pub(super) const fn new(options: FollowOptions) -> Self {
        Self { options, partial: Vec::new(), columns: None, header: None, lines: 0, position: 0 }
    }

    /// Continues behind the part read before, of which `header` is the first line.
    pub(super) fn skip_to(&mut self, position: u64, header: Option<&str>) -> Result<(), FollowError> {
        self.position = position;
        header.map_or(Ok(()), |header| self.choose(header).map(|_| ()))
    }

    /// Returns the number of bytes in completed lines.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes of an incomplete last line.
    pub(super) fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Returns the first line that is no comment.
    pub(super) fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// Takes bytes; appends the rows and refusals of the lines that they complete.
    pub(super) fn feed(&mut self, data: &[u8], out: &mut Vec<Followed>) -> Result<(), FollowError> {
        self.partial.extend_from_slice(data);
        let whole_bytes = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if self.partial.len() - whole_bytes > MAX_LINE_BYTES {
            return Err(FollowError::LongLine);
        }
        let rest = self.partial.split_off(whole_bytes);
        let whole = std::mem::replace(&mut self.partial, rest);
        self.position += whole_bytes as u64;
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            let Ok(line) = str::from_utf8(line) else {
                out.push(Followed::Refused(format!("line {} is not UTF-8 text", self.lines)));
                continue;
            };
            self.take(without_comment(line), out)?;
        }
        Ok(())
    }

    fn take(&mut self, line: &str, out: &mut Vec<Followed>) -> Result<(), FollowError> {
        if line.is_empty() || (self.columns.is_none() && self.choose(line)?) {
            return Ok(());
        }
        let columns = self.columns.as_ref().expect("chosen above");
        if !matches!(out.last(), Some(Followed::Rows(rows)) if Arc::ptr_eq(&rows.channels, &columns.channels))
        {
            out.push(Followed::Rows(Rows::new(columns)));
        }
        let Some(Followed::Rows(rows)) = out.last_mut() else { unreachable!("pushed above") };
        let refused = columns.push(line, &self.options, rows).err();
        if rows.count == 0 {
            out.pop();
        }
        out.extend(refused.map(|why| Followed::Refused(format!("line {}: {why}", self.lines))));
        Ok(())
    }

    /// Reads the columns from the first line; returns whether it is a header and not a row.
    fn choose(&mut self, line: &str) -> Result<bool, FollowError> {
        let delimiter = separator_of(line);
        let first: Vec<&str> = fields(line, delimiter).collect();
        let is_header = is_header(first.iter().copied());
        // Streams of bridges have been published under these names; those of `pub --file` are ch0, ch1, ….
        let unnamed = |index| Channel::new(format!("channel{index}"), "");
        let of_column =
            |(index, text): (usize, &&str)| if is_header { heading(text, index) } else { unnamed(index) };
        let headings: Vec<Channel> = first.iter().enumerate().map(of_column).collect();
        let time = time_place(&headings, &self.options.time)?;
        let places = channel_places(&headings, &self.options.columns, |place| time != Some(*place))?;
        let of_channel = |place: &usize| {
            let Channel { name, unit, .. } = &headings[*place];
            Channel::new(name.as_str(), if unit.is_empty() { self.options.unit.as_str() } else { unit })
        };
        let channels = places.iter().map(of_channel).collect();
        let time =
            time.map(|place| Ok::<_, FollowError>((place, self.time_unit(&headings[place])?))).transpose()?;
        self.columns = Some(Columns { delimiter, count: headings.len(), channels, places, time });
        self.header = Some(line.to_owned());
        Ok(is_header)
    }

    fn time_unit(&self, heading: &Channel) -> Result<TimeUnit, FollowError> {
        match self.options.time_unit {
            Some(unit) => Ok(unit),
            None if heading.unit == "iso" => Ok(TimeUnit::Iso),
            None => Ok(TimeUnit::Nanos(unit_of(heading)?)),
        }
    }
}

impl Columns {
    /// Appends a row, or returns why the line is not one.
    fn push(&self, line: &str, options: &FollowOptions, rows: &mut Rows) -> Result<(), String> {
        let fields: Vec<&str> = fields(line, self.delimiter).collect();
        if fields.len() != self.count {
            return Err(format!("{} fields where the first line has {}", fields.len(), self.count));
        }
        let time = self.time.map(|(place, unit)| unit.read(fields[place])).transpose()?;
        let whole_bytes = rows.elements.len();
        for (place, channel) in self.places.iter().zip(self.channels.iter()) {
            if let Err(why) = push_text(fields[*place], options.dtype, options.nan, &mut rows.elements) {
                rows.elements.truncate(whole_bytes);
                return Err(format!("column `{}`: {why}", channel.name));
            }
        }
        rows.times_ns.extend(time);
        rows.count += 1;
        Ok(())
    }
}

impl Rows {
    fn new(columns: &Columns) -> Self {
        let channels = Arc::clone(&columns.channels);
        Self { channels, count: 0, elements: Vec::new(), times_ns: Vec::new() }
    }
}

impl TimeUnit {
    /// Reads a time. Units: nanoseconds.
    fn read(self, text: &str) -> Result<i64, String> {
        let nanos = match self {
            Self::Nanos(unit) => parse_time(text, unit).ok().and_then(|nanos| i64::try_from(nanos).ok()),
            Self::Iso => iso_nanos(text),
        };
        nanos.ok_or_else(|| format!("`{text}` is not a time"))
    }
}

/// Reads a date and time with an offset, or in UTC. Units: nanoseconds since 1970.
fn iso_nanos(text: &str) -> Option<i64> {
    let in_utc = |local: DateTime| Offset::UTC.to_timestamp(local).ok();
    let moment = text.parse::<Timestamp>().ok().or_else(|| text.parse().ok().and_then(in_utc))?;
    i64::try_from(moment.as_nanosecond()).ok()
}

/// Returns the delimiter of a line.
fn separator_of(line: &str) -> char {
    let delimiter = char::from(delimiter_of(line.as_bytes()));
    // Without any delimiter, spaces separate, unless one may be part of a heading: `current [A]`.
    if !line.contains([delimiter, '[']) && line.contains(' ') { ' ' } else { delimiter }
}

fn fields(line: &str, delimiter: char) -> impl Iterator<Item = &str> {
    let parts = line.split(delimiter).map(|field| field.trim().trim_matches('"'));
    parts.filter(move |field| delimiter != ' ' || !field.is_empty())
}

/// Returns the text of a line before a comment.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or(line).trim()
}

/// Returns the first complete line that is no comment.
pub(super) fn first_line(head: &[u8]) -> Option<String> {
    let whole = &head[..head.iter().rposition(|byte| *byte == b'\n')?];
    let lines = whole.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    lines.map(|line| without_comment(&line).to_owned()).find(|line| !line.is_empty())
}
