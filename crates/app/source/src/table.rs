//! Tables whose columns have types: Parquet, and Arrow IPC with Feather.
//!
//! With a time column the rate is derived from it and a longer step is a hole; irregular times are kept as they are;
//! without a time column the rate must be given. Tables of the archive also have the stream's description and the index of
//! every sample: those then give rate, channels and holes exactly. Decimals are the integers of their digits, with the
//! scale in the schema. The two formats differ in [`ColumnFile`]; the meaning of columns is the same in both.

mod arrow_file;
mod arrow_places;
mod described;
mod layout;
mod meaning;
mod parquet_file;
#[cfg(test)]
mod tests;
mod time;
mod values;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;

use sample::{Channel, Schema, StreamName};
use units::WallTime;

use crate::columns::{Chosen, choose, moment, time_place};
use crate::dtypes::common_dtype;
use crate::grid::{Grid, Keep, OWN_TIMES_SAID, OwnTimes, Pace, ROWS_FOR_RATE, Timed, pace_over};
use crate::piece::samples_at_once;
use crate::{ColumnError, Description, DtypeError, FileOptions, GridError, HoleKind, NanPolicy, Piece};
use crate::{Source, SourceError, TimeColumn as TimeChoice, Timing};

use arrow_file::ArrowFile;
pub(crate) use arrow_file::is_arrow;
use layout::{Column, Leaf, Nesting, parts_of};
use meaning::Meaning;
use parquet_file::ParquetFile;
use time::{TimeColumn, all_told};
use values::Values;

/// Table with typed columns being played.
pub struct Table {
    description: Description,
    file: Box<dyn ColumnFile>,
    columns: Vec<Column>,
    places: Places,
    nan: NanPolicy,
    /// Rows of the columns, then of those that determine the places.
    rows: Box<dyn Rows>,
    /// Number of rows of the file before the current batch.
    rows_before: u64,
    batch: Batch,
    /// Runs of the batch that are still to be returned.
    runs: VecDeque<Run>,
    /// Number of samples missing behind the last run.
    missing: u64,
}

/// Error of a table with typed columns, with its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file is not Parquet, damaged, truncated, or compressed with an unsupported codec.
    #[error("not readable as Parquet: {0}\nif it is compressed with brotli, write it with zstd")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// The file is not Arrow IPC, damaged or truncated.
    #[error("not readable as Arrow: {0}\nwrite it again, for example with pyarrow.feather.write_feather")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The file is Feather of version 1.
    #[error(
        "a Feather file of version 1 is not supported\n\
         convert it: pyarrow.feather.write_feather(pyarrow.feather.read_table(FILE), FILE)"
    )]
    OldFeather,
    /// The file cannot be read.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
    /// A column has no numbers.
    #[error("column `{column}` holds {holds}, not numbers\nchoose other columns with --columns")]
    NotNumbers {
        /// Name of the column.
        column: String,
        /// Its content.
        holds: String,
    },
    /// The time column has no times.
    #[error("column `{column}` holds {holds}, not times\nignore it with --time none, and set --rate")]
    NotTimes {
        /// Name of the column.
        column: String,
        /// Its content.
        holds: String,
    },
    /// A unit is named for times that have one.
    #[error("the type of column `{0}` gives the unit of its times\nomit --time-unit")]
    UnitGiven(String),
    /// A form of text is named for times that are numbers.
    #[error(
        "the times of column `{0}` are numbers\nname their unit with --time-unit: s, ms, us, ns, min or h"
    )]
    NotText(String),
    /// A time zone is named for times that need none.
    #[error("the times of column `{0}` are not local\nomit --time-zone")]
    NotLocal(String),
    /// The columns have no common dtype, or a number has no exact form in it.
    #[error(transparent)]
    Dtype(#[from] DtypeError),
    /// A value is missing or not finite.
    #[error(
        "row {row}, column `{column}`: {what}\naccept it as NaN with --allow-nan, which needs float columns"
    )]
    Value {
        /// Number of the row, from 0.
        row: u64,
        /// Name of the column.
        column: String,
        /// Content in place of a value.
        what: &'static str,
    },
    /// A time or an index does not fit the grid.
    #[error("row {row}: {source}")]
    Time {
        /// Number of the row, from 0.
        row: u64,
        /// Error of the grid.
        source: GridError,
    },
    /// The rate cannot be derived from the times of the first rows.
    #[error(transparent)]
    Rate(#[from] GridError),
    /// The columns cannot be chosen as requested.
    #[error(transparent)]
    Columns(#[from] ColumnError),
    /// There are no rows.
    #[error("the table has no rows")]
    Empty,
    /// The description in an archive's table cannot be read.
    #[error(
        "its metadata `tallycast.description` cannot be read: {0}\n\
         export it again, or write the table without that entry and set --rate"
    )]
    Description(#[from] serde_json::Error),
    /// An archive's table has a later version.
    #[error(
        "its metadata `tallycast.description` has version {0}, this program reads 1\nuse a newer tallycast"
    )]
    LaterDescription(u64),
    /// Rows of a list column differ in length.
    #[error(
        "row {row}, column `{column}`: its shape is not {shape:?} as in the first row or the description\n\
         choose other columns with --columns"
    )]
    Shape {
        /// Number of the row, from 0.
        row: u64,
        /// Name of the column.
        column: String,
        /// Shape of the other rows.
        shape: Vec<u32>,
    },
}

/// File of columns, which can be read from its beginning any number of times.
trait ColumnFile: Send {
    fn leaves(&self) -> &[Leaf];

    /// Returns the description in its metadata, if it is from an archive.
    fn description(&self) -> Option<String>;

    /// Begins to read some of the columns.
    fn begin(&self, leaves: &[usize]) -> Result<Box<dyn Rows>, TableError>;

    /// Returns the length of the first list with elements in a column; `None` if there is none.
    fn first_length(&self, leaf: usize) -> Result<Option<usize>, TableError>;
}

/// Rows of some columns, run by run.
trait Rows: Send {
    /// Goes to the next run of at most so many rows, and returns their number; 0 at the end.
    fn advance(&mut self, at_most: usize) -> Result<usize, TableError>;

    /// Reads a column of the run, by its place among those begun. Every column must be read once in each run.
    ///
    /// The inner `Err` is the number of a row in the run that has another structure.
    fn read(&mut self, place: usize, nesting: Nesting) -> Result<Result<Values, usize>, TableError>;
}

/// Columns that determine the places of the rows.
struct Places {
    time: Option<TimeColumn>,
    /// Number of the leaf column with the sample indices.
    index: Option<usize>,
    grid: Option<Grid>,
    /// Check of the times that samples keep; their places follow from the index, if there is one.
    own: Option<OwnTimes>,
}

/// Rows that were read and are not yet returned.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Flags of the rows that lack an element.
    partial: Vec<bool>,
    /// Times of the rows, if samples keep them.
    times: Vec<WallTime>,
}

/// Consecutive rows of a batch, and the number of samples missing before them.
struct Run {
    hole_before: u64,
    rows: Range<usize>,
}

/// Takes the first column of times as the time column if none has the name of one, and no rate is given.
fn with_time_by_type(options: &FileOptions, leaves: &[Leaf], headings: &[Channel]) -> FileOptions {
    let mut options = options.clone();
    let is_open = options.time == TimeChoice::Auto && options.rate.is_none();
    if is_open && time_place(headings, &options.time).is_ok_and(|it| it.is_none()) {
        let is_time = |leaf: &Leaf| leaf.is_flat() && matches!(leaf.meaning, Meaning::Times { .. });
        let found = leaves.iter().position(is_time);
        options.time = found.map_or(TimeChoice::Auto, |at| TimeChoice::Named(headings[at].name.clone()));
    }
    options
}

impl Table {
    /// Opens a Parquet file, and reads its footer and its first times.
    ///
    /// # Errors
    /// [`SourceError::Table`], [`SourceError::Schema`] if the file or its channels are invalid.
    pub fn open_parquet(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        Self::of(Box::new(ParquetFile::open(path)?), name, options)
    }

    /// Opens an Arrow file or stream, and reads its schema and its first times.
    ///
    /// # Errors
    /// As [`open_parquet`](Self::open_parquet).
    pub fn open_arrow(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        Self::of(Box::new(ArrowFile::open(path)?), name, options)
    }

    fn of(file: Box<dyn ColumnFile>, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        if file.begin(&[])?.advance(1)? == 0 {
            return Err(TableError::Empty.into());
        }
        let leaves = file.leaves();
        let described = file.description().as_deref().map(described::schema_in).transpose()?;
        let headings: Vec<Channel> =
            leaves.iter().enumerate().map(|(at, leaf)| leaf.heading(at, described.as_ref())).collect();
        let options = &with_time_by_type(options, leaves, &headings);
        let chosen = choose(&headings, options).map_err(TableError::from)?;
        let mut places = Places::of(&chosen, &*file, &headings, options)?;
        let column = |at: &usize| Column::new(*at, &leaves[*at], described.as_ref());
        let mut columns = chosen.channels.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        for column in columns.iter_mut().filter(|column| column.nesting.elements == 0) {
            column.set_length(file.first_length(column.leaf)?.unwrap_or(0))?;
        }
        let types: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.dtype)).collect();
        let dtype = common_dtype(&types, options.dtype).map_err(TableError::from)?;
        let times = places.first_times(&*file)?;
        let pace = match &described {
            // The declared rate of a recording is not called into question by its clock.
            Some(described) if options.rate.is_none() && !options.own_times => {
                Pace { rate: described.rate, is_own: described.has_own_times() && places.index.is_some() }
            }
            _ => {
                let keep = Keep::of(options.own_times, places.index.is_some());
                pace_over(&times, options.rate, keep).map_err(TableError::from)?
            }
        };
        let channels = columns.iter().map(|column| column.channel.clone()).collect();
        let mut schema = Schema::new(dtype, pace.rate, channels)?;
        schema.labels = described.map(|described| described.labels).unwrap_or_default();
        let schema = pace.labelled(schema);
        let start = times.first().and_then(|row| moment(row.time_ns));
        let description = Description { name, schema, timing: Timing::Recorded { start }, samples: None };
        places.begin(pace);
        let rows = begin(&*file, &columns, &places)?;
        Ok(Self {
            description,
            file,
            columns,
            places,
            nan: options.nan,
            rows,
            rows_before: 0,
            batch: Batch::default(),
            runs: VecDeque::new(),
            missing: 0,
        })
    }

    /// Reads the next batch; `false` at the end.
    fn read_batch(&mut self) -> Result<bool, TableError> {
        self.rows_before += self.batch.partial.len() as u64;
        self.batch.partial.clear();
        let at_most = samples_at_once(NonZeroU64::MAX, self.description.schema.sample_bytes());
        let count = self.rows.advance(at_most)?;
        if count == 0 {
            return Ok(self.end());
        }
        self.place_rows(count)?;
        let holes = self.read_places(count)?;
        self.find_runs(holes);
        Ok(true)
    }

    /// Reports the samples missing behind the last row, once.
    fn end(&mut self) -> bool {
        let hole_before = std::mem::take(&mut self.missing);
        if hole_before > 0 {
            self.runs.push_back(Run { hole_before, rows: 0..0 });
        }
        hole_before > 0
    }

    /// Reads every column and copies its elements to their places in the rows.
    fn place_rows(&mut self, count: usize) -> Result<(), TableError> {
        let schema = &self.description.schema;
        let (row_bytes, (part, _)) = (schema.sample_bytes(), parts_of(schema.dtype));
        let (batch, row) = (&mut self.batch, |row: usize| self.rows_before + row as u64);
        batch.bytes.resize(count * row_bytes, 0);
        batch.partial.resize(count, false);
        let may_lack = self.places.index.is_some();
        let (mut numbers, mut offset) = (Vec::new(), 0);
        for (place, column) in self.columns.iter().enumerate() {
            let width = column.nesting.row_numbers();
            let refuse = |place: usize, what| {
                let (row, column) = (row(place / width), column.name.clone());
                Err(TableError::Value { row, column, what })
            };
            let values = self.rows.read(place, column.nesting)?.map_err(|at| {
                let (column, shape) = (column.name.clone(), column.channel.shape.clone());
                TableError::Shape { row: row(at), column, shape }
            })?;
            if !self.nan.fills(schema.dtype) {
                for place in values.nulls() {
                    if !may_lack {
                        return refuse(place, "a null");
                    }
                    batch.partial[place / width] = true;
                }
            }
            if let Some(place) = values.not_finite().filter(|_| self.nan == NanPolicy::Refuse) {
                return refuse(place, "not a finite number");
            }
            numbers.clear();
            values.append(parts_of(column.dtype).0, part, &mut numbers).map_err(|(place, number)| {
                let (row, column) = (row(place / width), column.name.clone());
                DtypeError::Inexact { row, column, number, dtype: part }
            })?;
            let size = width * part.size_bytes();
            for (row, elements) in batch.bytes.chunks_exact_mut(row_bytes).zip(numbers.chunks_exact(size)) {
                row[offset..offset + size].copy_from_slice(elements);
            }
            offset += size;
        }
        Ok(())
    }

    /// Reads the places of the rows: returns the number of samples missing before each, and keeps their times if those
    /// are their own.
    fn read_places(&mut self, count: usize) -> Result<Vec<u64>, TableError> {
        let (indices, times) = self.places.read(&mut *self.rows, self.columns.len(), self.rows_before)?;
        let at = |row: usize| move |source| TableError::Time { row: row as u64, source };
        let before = usize::try_from(self.rows_before).unwrap_or(usize::MAX);
        if let (Some(own), Some(times)) = (&mut self.places.own, &times) {
            let time = |(row, time): (usize, &i128)| own.next(*time).map_err(at(before + row));
            self.batch.times = times.iter().enumerate().map(time).collect::<Result<_, _>>()?;
        }
        let Some(grid) = &mut self.places.grid else { return Ok(vec![0; count]) };
        let on_grid = indices.map(|indices| indices.into_iter().map(i128::from).collect()).or(times);
        let hole = |(row, place)| grid.hole_before(place).map_err(at(before + row));
        on_grid.unwrap_or_default().into_iter().enumerate().map(hole).collect()
    }

    /// Finds the consecutive rows. A row that lacks an element is left out whole: missing elements must not be
    /// invented.
    fn find_runs(&mut self, holes: Vec<u64>) {
        for (row, hole) in holes.into_iter().enumerate() {
            self.missing = self.missing.saturating_add(hole);
            if self.batch.partial[row] {
                self.missing = self.missing.saturating_add(1);
                continue;
            }
            match self.runs.back_mut() {
                Some(run) if self.missing == 0 => run.rows.end = row + 1,
                _ => {
                    let hole_before = std::mem::take(&mut self.missing);
                    self.runs.push_back(Run { hole_before, rows: row..row + 1 });
                }
            }
        }
    }
}

/// Begins to read the columns, and behind them those that determine the places.
fn begin(file: &dyn ColumnFile, columns: &[Column], places: &Places) -> Result<Box<dyn Rows>, TableError> {
    let leaves: Vec<usize> = columns.iter().map(|column| column.leaf).chain(places.leaves()).collect();
    file.begin(&leaves)
}

impl Source for Table {
    fn description(&self) -> &Description {
        &self.description
    }

    fn decided(&self) -> Option<String> {
        self.places.own.map(|_| OWN_TIMES_SAID.to_owned())
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        while self.runs.is_empty() {
            if !self.read_batch()? {
                return Ok(Piece::End);
            }
        }
        let run = self.runs.front_mut().expect("there is one");
        let piece = if run.hole_before > 0 {
            let samples = run.hole_before.min(at_most.get());
            run.hole_before -= samples;
            Piece::Hole { samples, why: HoleKind::Recording }
        } else {
            let sample_bytes = self.description.schema.sample_bytes();
            let count = samples_at_once(at_most, sample_bytes).min(run.rows.len());
            let first = run.rows.start;
            run.rows.start += count;
            let samples = &self.batch.bytes[first * sample_bytes..][..count * sample_bytes];
            if self.places.own.is_some() {
                Piece::Timed { samples, times: &self.batch.times[first..][..count] }
            } else {
                Piece::Samples(samples)
            }
        };
        if run.hole_before == 0 && run.rows.is_empty() {
            self.runs.pop_front();
        }
        Ok(piece)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        let pace = Pace::of(&self.description.schema);
        self.places.begin(pace);
        self.rows = begin(&*self.file, &self.columns, &self.places)?;
        self.rows_before = 0;
        self.batch.partial.clear();
        self.runs.clear();
        self.missing = 0;
        Ok(())
    }
}

impl Places {
    fn of(
        chosen: &Chosen,
        file: &dyn ColumnFile,
        headings: &[Channel],
        options: &FileOptions,
    ) -> Result<Self, TableError> {
        let leaves = file.leaves();
        chosen.time.iter().chain(&chosen.index).try_for_each(|place| leaves[*place].check_flat())?;
        if let Some(index) = chosen.index {
            leaves[index].check_numbers()?;
        }
        let column = |at: usize| TimeColumn::new(at, &leaves[at], &headings[at], options)?.settled(file);
        let time = chosen.time.map(column).transpose()?;
        Ok(Self { time, index: chosen.index, grid: None, own: None })
    }

    /// Starts at the first row.
    fn begin(&mut self, pace: Pace) {
        self.own = pace.is_own.then(OwnTimes::default);
        self.grid = pace.grid(self.index.is_some(), self.time.is_some());
    }

    /// Returns the leaf columns with the indices, and with the times where those are needed.
    fn leaves(&self) -> impl Iterator<Item = usize> + use<> {
        let time = self.time.as_ref().filter(|_| self.index.is_none() || self.own.is_some());
        self.index.into_iter().chain(time.map(|time| time.leaf))
    }

    /// Reads the indices and the times of a run, whose columns begin at a place.
    #[expect(clippy::type_complexity, reason = "the two kinds of places of the same rows")]
    fn read(
        &self,
        rows: &mut dyn Rows,
        place: usize,
        rows_before: u64,
    ) -> Result<(Option<Vec<u64>>, Option<Vec<i128>>), TableError> {
        let indices = self.index.map(|_| read_indices(rows, place, rows_before)).transpose()?;
        let place = place + usize::from(indices.is_some());
        let time = self.time.as_ref().filter(|_| indices.is_none() || self.own.is_some());
        let times = time.map(|time| time.read(rows, place, rows_before)).transpose()?;
        Ok((indices, times))
    }

    /// Reads the times of the first rows, from which the rate is derived, over as many runs as they take.
    fn first_times(&self, file: &dyn ColumnFile) -> Result<Vec<Timed>, TableError> {
        let Some(time) = &self.time else { return Ok(Vec::new()) };
        let leaves: Vec<usize> = [time.leaf].into_iter().chain(self.index).collect();
        let mut rows = file.begin(&leaves)?;
        let mut timed = Vec::new();
        while timed.len() < ROWS_FOR_RATE {
            let before = timed.len() as u64;
            let count = rows.advance(ROWS_FOR_RATE - timed.len())?;
            if count == 0 {
                break;
            }
            let times = time.read(&mut *rows, 0, before)?;
            let indices = match self.index {
                Some(_) => read_indices(&mut *rows, 1, before)?,
                None => (before..before + count as u64).collect(),
            };
            timed.extend(indices.into_iter().zip(times).map(|(index, time_ns)| Timed { index, time_ns }));
        }
        Ok(timed)
    }
}

fn read_indices(rows: &mut dyn Rows, place: usize, rows_before: u64) -> Result<Vec<u64>, TableError> {
    let indices = flat(rows.read(place, Nesting::FLAT)?).indices();
    all_told(indices, rows_before, || GridError::NotIndex("null, negative or no integer".to_owned()))
}

/// Returns the values of a column without lists, whose rows cannot differ.
fn flat(values: Result<Values, usize>) -> Values {
    values.unwrap_or_else(|_| unreachable!("the column was checked to be flat"))
}
