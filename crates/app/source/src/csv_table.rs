//! CSV tables, with an optional header with units and an optional time column.
//!
//! The delimiter is comma, semicolon or tab, the most frequent one in the first line; `#` begins a comment. With a
//! time column the rate is derived from it, and a longer step is a hole of the recording; without one the rate must
//! be given. A column of sample indices, as the archive exports it, gives the holes exactly.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use sample::{Channel, Dtype, Schema, StreamName};
use units::SampleRate;

use crate::columns::{Chosen, channel_name, choose, delimiter_of, is_header, moment};
use crate::grid::{Grid, ROWS_FOR_RATE, Timed, parse_index, parse_time, rate_over};
use crate::numbers::{heading, numbered_channels, push_text};
use crate::piece::samples_at_once;
use crate::{ColumnError, Description, FileOptions, GridError, HoleKind, NanPolicy, NumberError};
use crate::{Piece, Source, SourceError, Timing};

/// Maximum size of the first line that is searched for the delimiter: all of it, unless the file is no text.
const MAX_FIRST_LINE_BYTES: u64 = 1 << 20;

/// CSV file being played.
pub struct CsvTable {
    description: Description,
    layout: Layout,
    nan: NanPolicy,
    records: csv::Reader<File>,
    record: StringRecord,
    grid: Option<Grid>,
    /// Number of samples missing before the next ones.
    hole_left: u64,
    /// True if `record` was read but not yet returned.
    record_waits: bool,
    /// Error behind samples that were returned first.
    failure: Option<CsvError>,
    buffer: Vec<u8>,
}

/// Error of a CSV file, with its line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// A line has more or fewer fields than the first.
    #[error("line {line} has {found} fields, the first line has {expected}")]
    Ragged {
        /// Number of the line, from 1.
        line: u64,
        /// Number of its fields.
        found: usize,
        /// Number of fields in the first line.
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
    /// There is no line of values.
    #[error("the table has no line of values")]
    Empty,
    /// A line is not UTF-8.
    #[error("line {line} is not UTF-8 text\nconvert the file, for example with iconv -f LATIN1 -t UTF-8")]
    Encoding {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The text cannot be parsed at all.
    #[error("the text cannot be read: {0}")]
    Text(#[from] csv::Error),
    /// The file cannot be read.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Layout of the file.
struct Layout {
    path: PathBuf,
    delimiter: u8,
    has_header: bool,
    headings: Vec<Channel>,
    chosen: Chosen,
}

impl CsvTable {
    /// Opens a file and reads its layout from the first lines.
    ///
    /// # Errors
    /// [`SourceError::Csv`], [`SourceError::Schema`] if the file or its channels are invalid.
    pub fn open(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        let layout = Layout::read(path, options)?;
        let times = layout.first_times()?;
        let rate = rate_over(&times, options.rate).map_err(CsvError::from)?;
        let schema = Schema::new(options.dtype.unwrap_or(Dtype::F8), rate, layout.channels())?;
        let start = times.first().and_then(|row| moment(row.time_ns));
        let description = Description { name, schema, timing: Timing::Recorded { start }, samples: None };
        Ok(Self {
            records: layout.records()?,
            grid: layout.grid(rate),
            description,
            layout,
            nan: options.nan,
            record: StringRecord::new(),
            hole_left: 0,
            record_waits: false,
            failure: None,
            buffer: Vec::new(),
        })
    }

    /// Fills the buffer with up to `count` samples, stopping at a hole or at the end.
    fn fill(&mut self, count: usize) -> Result<(), CsvError> {
        let target_bytes = count * self.description.schema.sample_bytes();
        while self.buffer.len() < target_bytes {
            if !self.record_waits {
                if !self.layout.read_record(&mut self.records, &mut self.record)? {
                    return Ok(());
                }
                if let Some(grid) = &mut self.grid {
                    let hole = self.layout.hole_before(grid, &self.record)?;
                    self.hole_left = self.hole_left.saturating_add(hole);
                }
                if self.lacks_an_element() {
                    self.hole_left = self.hole_left.saturating_add(1);
                    continue;
                }
                self.record_waits = true;
            }
            if self.hole_left > 0 {
                return Ok(());
            }
            self.push_record()?;
            self.record_waits = false;
        }
        Ok(())
    }

    /// Returns whether the record is a sample that was recorded in part: it is left out, because missing elements
    /// must not be invented.
    fn lacks_an_element(&self) -> bool {
        let as_nan = self.nan.fills(self.description.schema.dtype);
        let Chosen { channels, .. } = &self.layout.chosen;
        self.layout.chosen.is_recorded() && !as_nan && channels.iter().any(|at| self.record[*at].is_empty())
    }

    fn push_record(&mut self) -> Result<(), CsvError> {
        let whole_bytes = self.buffer.len();
        for index in &self.layout.chosen.channels {
            let pushed =
                push_text(&self.record[*index], self.description.schema.dtype, self.nan, &mut self.buffer);
            if let Err(source) = pushed {
                self.buffer.truncate(whole_bytes);
                let column = self.layout.headings[*index].name.clone();
                return Err(CsvError::Field { line: self.layout.line_of(&self.record), column, source });
            }
        }
        Ok(())
    }
}

impl Source for CsvTable {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        self.buffer.clear();
        if self.hole_left == 0 {
            let count = samples_at_once(at_most, self.description.schema.sample_bytes());
            match self.fill(count) {
                Err(failure) if self.buffer.is_empty() => return Err(failure.into()),
                filled => self.failure = filled.err(),
            }
        }
        if !self.buffer.is_empty() {
            return Ok(Piece::Samples(&self.buffer));
        }
        if self.hole_left > 0 {
            let samples = self.hole_left.min(at_most.get());
            self.hole_left -= samples;
            return Ok(Piece::Hole { samples, why: HoleKind::Recording });
        }
        Ok(Piece::End)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.records = self.layout.records()?;
        self.grid = self.layout.grid(self.description.schema.rate);
        self.hole_left = 0;
        self.record_waits = false;
        self.failure = None;
        Ok(())
    }
}

impl Layout {
    fn read(path: &Path, options: &FileOptions) -> Result<Self, CsvError> {
        let delimiter = delimiter_in(path)?;
        let everything = Chosen { time: None, index: None, channels: Vec::new() };
        let mut layout = Self {
            path: path.to_owned(),
            delimiter,
            has_header: false,
            headings: Vec::new(),
            chosen: everything,
        };
        let mut first = StringRecord::new();
        if !layout.next_record(&mut layout.records()?, &mut first)? {
            return Err(CsvError::Empty);
        }
        layout.has_header = is_header(first.iter());
        layout.headings = if layout.has_header {
            first.iter().enumerate().map(|(index, text)| heading(text, index)).collect()
        } else {
            numbered_channels(first.len())
        };
        layout.chosen = choose(&layout.headings, options)?;
        if !layout.read_record(&mut layout.records()?, &mut first)? {
            return Err(CsvError::Empty);
        }
        Ok(layout)
    }

    /// Opens the file at its first line of values.
    fn records(&self) -> Result<csv::Reader<File>, CsvError> {
        Ok(csv::ReaderBuilder::new()
            .delimiter(self.delimiter)
            .has_headers(self.has_header)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            // The number of fields is checked here, so that the message has the line.
            .flexible(true)
            .from_path(&self.path)?)
    }

    /// Reads one line of values; `false` at the end.
    fn read_record(
        &self,
        records: &mut csv::Reader<File>,
        record: &mut StringRecord,
    ) -> Result<bool, CsvError> {
        if !self.next_record(records, record)? {
            return Ok(false);
        }
        let (found, expected) = (record.len(), self.headings.len());
        if found != expected {
            return Err(CsvError::Ragged { line: self.line_of(record), found, expected });
        }
        Ok(true)
    }

    fn next_record(
        &self,
        records: &mut csv::Reader<File>,
        record: &mut StringRecord,
    ) -> Result<bool, CsvError> {
        records.read_record(record).map_err(|error| match error.kind() {
            csv::ErrorKind::Utf8 { .. } => first_foreign_line(&self.path),
            _ => error.into(),
        })
    }

    fn channels(&self) -> Vec<Channel> {
        let headings = self.chosen.channels.iter().map(|place| &self.headings[*place]);
        headings.map(|it| Channel::new(channel_name(&it.name), it.unit.as_str())).collect()
    }

    fn grid(&self, rate: SampleRate) -> Option<Grid> {
        self.chosen.index.map(|_| Grid::by_index()).or(self.chosen.time.map(|_| Grid::by_time(rate)))
    }

    /// Reads the times of the rows from which the rate is derived; empty without a time column.
    fn first_times(&self) -> Result<Vec<Timed>, CsvError> {
        let mut rows = Vec::new();
        let Some((place, nanos_per_unit)) = self.chosen.time else { return Ok(rows) };
        let mut records = self.records()?;
        let mut record = StringRecord::new();
        while rows.len() < ROWS_FOR_RATE && self.read_record(&mut records, &mut record)? {
            let index = self.chosen.index.map_or(Ok(rows.len() as u64), |place| parse_index(&record[place]));
            let timed = index.and_then(|index| {
                parse_time(&record[place], nanos_per_unit).map(|time_ns| Timed { index, time_ns })
            });
            rows.push(timed.map_err(|source| CsvError::Time { line: self.line_of(&record), source })?);
        }
        Ok(rows)
    }

    /// Returns the number of the line that has a record, from 1.
    ///
    /// The reader's own position is that of the blank and comment lines skipped before the record. Cost: reads the
    /// file again from there, which is acceptable for an error message only.
    fn line_of(&self, record: &StringRecord) -> u64 {
        let Some(position) = record.position() else { return 0 };
        let skipped = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(position.byte()))?;
            let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
            let is_skipped = |line: &[u8]| matches!(line, [] | [b'\r'] | [b'#', ..]);
            Ok(lines.take_while(|line| is_skipped(line)).count())
        });
        position.line() + skipped.unwrap_or(0) as u64
    }

    fn hole_before(&self, grid: &mut Grid, record: &StringRecord) -> Result<u64, CsvError> {
        let place = match (self.chosen.index, self.chosen.time) {
            (Some(at), _) => parse_index(&record[at]).map(i128::from),
            (None, Some((at, nanos_per_unit))) => parse_time(&record[at], nanos_per_unit),
            (None, None) => return Ok(0),
        };
        let hole = place.and_then(|place| grid.hole_before(place));
        hole.map_err(|source| CsvError::Time { line: self.line_of(record), source })
    }
}

fn delimiter_in(path: &Path) -> Result<u8, CsvError> {
    let mut first = Vec::new();
    let mut reader = BufReader::new(File::open(path)?);
    while reader.by_ref().take(MAX_FIRST_LINE_BYTES).read_until(b'\n', &mut first)? > 0
        && (first.starts_with(b"#") || first.trim_ascii().is_empty())
    {
        first.clear();
    }
    Ok(delimiter_of(&first))
}

/// Finds the first line that is not UTF-8. Cost: reads the file again, which is acceptable for an error message only.
fn first_foreign_line(path: &Path) -> CsvError {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return error.into(),
    };
    let mut lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let place = lines.position(|line| std::str::from_utf8(&line).is_err());
    CsvError::Encoding { line: place.unwrap_or(0) as u64 + 1 }
}

#[cfg(test)]
mod tests;
