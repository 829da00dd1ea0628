//! Complete CSV files, compressed or not, with their holes.
//!
//! How the text is laid out is decided by [`Head`]. With a time column the rate is derived from it, and a longer step is a
//! hole of the recording; irregular times are kept as they are. Without a time column the rate must be given, unless the
//! file states it. A column of sample indices, as the archive exports it, gives the holes exactly. For files that grow: [`CsvFollower`](crate::CsvFollower).

use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use sample::{Dtype, Schema, StreamName};
use units::WallTime;

use crate::columns::moment;
use crate::csv::{Head, Layout, LineError, Place, RowError, TextLines, TextOptions, is_passed_over};
use crate::grid::{Grid, Keep, OWN_TIMES_SAID, OwnTimes, Pace, ROWS_FOR_RATE, Timed, pace_over, rate_beside};
use crate::piece::samples_at_once;
use crate::text_file;
use crate::{ColumnError, Description, FileOptions, GridError, HeadError, HoleKind, NanPolicy, NumberError};
use crate::{Piece, Source, SourceError, Timing};

type Text = TextLines<Box<dyn Read + Send>>;

/// CSV file being played.
pub struct CsvTable {
    path: PathBuf,
    options: FileOptions,
    description: Description,
    /// Layout before the first row; `reading` learns from the rows.
    layout: Layout,
    reading: Layout,
    nan: NanPolicy,
    text: Text,
    grid: Option<Grid>,
    /// Check of the times that samples keep.
    own: Option<OwnTimes>,
    /// Number of samples missing before the next ones.
    hole_left: u64,
    /// Elements of a row that was read but not yet returned, and its time if samples keep theirs.
    waiting: Vec<u8>,
    waiting_time: Option<WallTime>,
    /// Error behind samples that were returned first.
    failure: Option<CsvError>,
    buffer: Vec<u8>,
    times: Vec<WallTime>,
}

/// Error of a CSV file, with its line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The first lines give no layout.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A line has more or fewer fields than the table has columns.
    #[error(
        "line {line} has {found} fields, expected {expected}\n\
         pass over lines before the table with --skip, or repair the line"
    )]
    Ragged {
        /// Number of the line, from 1.
        line: u64,
        /// Number of its fields.
        found: usize,
        /// Number of columns.
        expected: usize,
    },
    /// A field is no valid element.
    #[error("line {line}, column `{column}`: {source}")]
    Field {
        /// Number of the line, from 1.
        line: u64,
        /// Heading of the column.
        column: String,
        /// Error of the field.
        source: NumberError,
    },
    /// A field of the first line, which does not name the columns, is no valid element.
    #[error(
        "line {line}, column `{column}`: {source}\n\
         if the line names the columns, pass over it with --skip {line} and name the channels with --name-channels"
    )]
    FirstField {
        /// Number of the line, from 1.
        line: u64,
        /// Number of the column as its name.
        column: String,
        /// Error of the field.
        source: NumberError,
    },
    /// A time or an index does not fit the grid.
    #[error("line {line}: {source}")]
    Time {
        /// Number of the line, from 1.
        line: u64,
        /// Error of the grid.
        source: GridError,
    },
    /// The rate cannot be derived from the times of the first rows.
    #[error(transparent)]
    Rate(#[from] GridError),
    /// The columns cannot be chosen as requested.
    #[error(transparent)]
    Columns(#[from] ColumnError),
    /// Another file has the name when it is to be played again.
    #[error("the file has changed: its first lines differ from before\nstart again to publish the new one")]
    Changed,
    /// There is no line of values.
    #[error("the table has no line of values")]
    Empty,
    /// A line is too long.
    #[error("line {line} is longer than 1 MiB\ncheck that it is a text file")]
    TooLong {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The file cannot be read.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
}

impl CsvTable {
    /// Opens a file and reads its layout from the first lines.
    ///
    /// # Errors
    /// [`SourceError::Csv`], [`SourceError::Schema`] if the file or its channels are invalid.
    pub fn open(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        let layout = layout_of(path, options)?;
        let times = first_times(path, &layout)?;
        let pace = pace_of(&layout, &times, options)?;
        let mut channels = layout.channels();
        if options.channel_names.len() == channels.len() {
            channels
                .iter_mut()
                .zip(&options.channel_names)
                .for_each(|(channel, name)| channel.name.clone_from(name));
        }
        let schema = Schema::new(options.dtype.unwrap_or(Dtype::F8), pace.rate, channels)?;
        let schema = pace.labelled(schema);
        let start = times.first().and_then(|row| moment(row.time_ns));
        let description = Description { name, schema, timing: Timing::Recorded { start }, samples: None };
        Ok(Self {
            text: rows_of(path, &layout)?,
            grid: grid_of(&layout, pace),
            own: pace.is_own.then(OwnTimes::default),
            path: path.to_owned(),
            options: options.clone(),
            description,
            reading: layout.clone(),
            layout,
            nan: options.nan,
            hole_left: 0,
            waiting: Vec::new(),
            waiting_time: None,
            failure: None,
            buffer: Vec::new(),
            times: Vec::new(),
        })
    }

    /// Fills the buffer with up to `count` samples, stopping at a hole or at the end.
    fn fill(&mut self, count: usize) -> Result<(), CsvError> {
        let target_bytes = count * self.description.schema.sample_bytes();
        while self.buffer.len() < target_bytes {
            if self.waiting.is_empty() && !self.read_row()? || self.hole_left > 0 {
                return Ok(());
            }
            self.buffer.append(&mut self.waiting);
            self.times.extend(self.waiting_time.take());
        }
        Ok(())
    }

    /// Reads the next row that has elements, and the hole before it; `false` at the end.
    fn read_row(&mut self) -> Result<bool, CsvError> {
        let as_elements = (self.description.schema.dtype, self.nan);
        while let Some((line, text)) = next_row(&mut self.text)? {
            let place = self
                .reading
                .read(text, as_elements, &mut self.waiting)
                .map_err(|error| at_line(&self.layout, line, error))?;
            let placed = self.place(&place).inspect_err(|_| self.waiting.clear());
            placed.map_err(|source| CsvError::Time { line, source })?;
            if !self.waiting.is_empty() {
                return Ok(true);
            }
            // Missing elements must not be invented: the sample is left out.
            self.hole_left = self.hole_left.saturating_add(1);
        }
        Ok(false)
    }

    /// Takes the place of a row: the hole before it, and its time if samples keep theirs.
    fn place(&mut self, place: &Place) -> Result<(), GridError> {
        if let (Some(own), Some(time_ns)) = (&mut self.own, place.time_ns) {
            self.waiting_time = Some(own.next(time_ns)?);
        }
        if let (Some(grid), Some(place)) = (&mut self.grid, place.index.map(i128::from).or(place.time_ns)) {
            self.hole_left = self.hole_left.saturating_add(grid.hole_before(place)?);
        }
        Ok(())
    }
}

impl Source for CsvTable {
    fn description(&self) -> &Description {
        &self.description
    }

    fn decided(&self) -> Option<String> {
        let own = self.own.map(|_| format!("; {OWN_TIMES_SAID}")).unwrap_or_default();
        Some(self.layout.said() + &own)
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        self.buffer.clear();
        self.times.clear();
        if self.hole_left == 0 {
            let count = samples_at_once(at_most, self.description.schema.sample_bytes());
            match self.fill(count) {
                Err(failure) if self.buffer.is_empty() => return Err(failure.into()),
                filled => self.failure = filled.err(),
            }
        }
        if !self.buffer.is_empty() {
            let (samples, times) = (&self.buffer[..], &self.times[..]);
            return Ok(if self.own.is_some() {
                Piece::Timed { samples, times }
            } else {
                Piece::Samples(samples)
            });
        }
        if self.hole_left > 0 {
            let samples = self.hole_left.min(at_most.get());
            self.hole_left -= samples;
            return Ok(Piece::Hole { samples, why: HoleKind::Recording });
        }
        Ok(Piece::End)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        if layout_of(&self.path, &self.options)?.found != self.layout.found {
            return Err(CsvError::Changed.into());
        }
        let pace = Pace::of(&self.description.schema);
        self.text = rows_of(&self.path, &self.layout)?;
        self.grid = grid_of(&self.layout, pace);
        self.own = pace.is_own.then(OwnTimes::default);
        self.reading = self.layout.clone();
        self.hole_left = 0;
        self.waiting.clear();
        self.waiting_time = None;
        self.failure = None;
        Ok(())
    }
}

/// Returns whether the text of a file is a table: one of its first lines is a row.
pub(crate) fn is_table(path: &Path) -> std::io::Result<bool> {
    let mut text = TextLines::new(text_file::open(path)?);
    let mut head = Head::new(TextOptions::from(&FileOptions::default()));
    loop {
        match text.advance() {
            Ok(true) if text.bytes().contains(&0) => return Ok(false),
            Ok(true) => {}
            Ok(false) | Err(LineError::TooLong) => return Ok(false),
            Err(LineError::Io(error)) => return Err(error),
        }
        match head.take(text.number(), text.bytes()) {
            Ok(None) => {}
            // An error tells the user more than an unknown file type.
            Ok(Some(_)) | Err(_) => return Ok(true),
        }
    }
}

fn layout_of(path: &Path, options: &FileOptions) -> Result<Layout, CsvError> {
    let mut text = TextLines::new(text_file::open(path)?);
    let mut head = Head::new(TextOptions::from(options));
    while advance(&mut text)? {
        if let Some(layout) = head.take(text.number(), text.bytes())? {
            return Ok(layout);
        }
    }
    head.finish()?.ok_or(CsvError::Empty)
}

/// Opens the file at its first row.
fn rows_of(path: &Path, layout: &Layout) -> Result<Text, CsvError> {
    let mut text = TextLines::new(text_file::open(path)?);
    for _ in 1..layout.found.first_row {
        advance(&mut text)?;
    }
    Ok(text)
}

/// Reads the times of the rows from which the rate is derived; empty without a time column.
fn first_times(path: &Path, layout: &Layout) -> Result<Vec<Timed>, CsvError> {
    let mut rows = Vec::new();
    if layout.clock.is_none() {
        return Ok(rows);
    }
    let (mut text, mut reading) = (rows_of(path, layout)?, layout.clone());
    while rows.len() < ROWS_FOR_RATE
        && let Some((line, row)) = next_row(&mut text)?
    {
        let place = reading.place_of(row).map_err(|error| at_line(layout, line, error))?;
        let index = place.index.unwrap_or(rows.len() as u64);
        rows.extend(place.time_ns.map(|time_ns| Timed { index, time_ns }));
    }
    Ok(rows)
}

fn pace_of(layout: &Layout, times: &[Timed], options: &FileOptions) -> Result<Pace, CsvError> {
    let keep = Keep::of(options.own_times, layout.found.index.is_some());
    match (&layout.clock, layout.found.rate) {
        (None, Some(stated)) if keep != Keep::Always => {
            Ok(Pace { rate: rate_beside(stated, options.rate)?, is_own: false })
        }
        (None, None) if options.rate.is_none() => Err(ColumnError::NoRate.into()),
        _ => Ok(pace_over(times, options.rate, keep)?),
    }
}

fn grid_of(layout: &Layout, pace: Pace) -> Option<Grid> {
    pace.grid(layout.found.index.is_some(), layout.clock.is_some())
}

fn advance(text: &mut Text) -> Result<bool, CsvError> {
    text.advance().map_err(|error| match error {
        LineError::TooLong => CsvError::TooLong { line: text.number() },
        LineError::Io(error) => error.into(),
    })
}

/// Reads the next line that is neither blank nor a comment, with its number; `None` at the end.
fn next_row(text: &mut Text) -> Result<Option<(u64, &str)>, CsvError> {
    while advance(text)? {
        if !is_passed_over(text.bytes()) {
            let line = text.number();
            let row = std::str::from_utf8(text.bytes()).map_err(|_| HeadError::Encoding { line })?;
            return Ok(Some((line, row)));
        }
    }
    Ok(None)
}

fn at_line(layout: &Layout, line: u64, error: RowError) -> CsvError {
    let is_first = line == layout.found.first_row
        && layout.found.header_line.is_none()
        && layout.found.instrument.is_none();
    match error {
        RowError::Field { column, source, .. } if is_first => CsvError::FirstField { line, column, source },
        RowError::Ragged { found, expected } => CsvError::Ragged { line, found, expected },
        RowError::Field { column, source, .. } => CsvError::Field { line, column, source },
        RowError::Time(source) => CsvError::Time { line, source },
    }
}

#[cfg(test)]
mod tests;
