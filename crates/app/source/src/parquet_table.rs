//! Parquet tables: numeric columns, read batch by batch through the crate's column readers.
//!
//! The crate's Arrow layer is not used: a sample needs its values side by side, which is neither Arrow's order nor
//! Parquet's, so every value is moved once in any case. With a time column the rate is derived from it and a longer
//! step is a hole; without one the rate must be given. Tables of the archive also have the stream's description and
//! the index of every sample: those then give rate, channels and holes exactly. Decimals are the integers of their
//! digits, with the scale in the schema. Snappy, zstd, lz4 and gzip are supported.

mod described;
mod layout;
mod meaning;
#[cfg(test)]
mod tests;
mod values;

use std::collections::VecDeque;
use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;

use parquet::basic::Type as PhysicalType;
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError as CrateError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use sample::{Channel, Dtype, Schema, StreamName};
use units::WallTime;

use crate::columns::{Chosen, choose, moment, time_place};
use crate::dtypes::common_dtype;
use crate::grid::{Grid, ROWS_FOR_RATE, Timed, rate_over};
use crate::piece::{at_regular_times, samples_at_once};
use crate::{ColumnError, Description, DtypeError, FileOptions, GridError, HoleKind, NanPolicy, Piece};
use crate::{Source, SourceError, TimeColumn as TimeChoice, Timing};

use layout::{Column, check_flat, element_level, heading_of, parts_of};
use meaning::Meaning;
use values::{Values, first_length};

/// Parquet file being played.
pub struct ParquetTable {
    description: Description,
    file: SerializedFileReader<File>,
    columns: Vec<Column>,
    places: Places,
    nan: NanPolicy,
    /// Number of the next row group, and the readers of the current one.
    next_group: usize,
    readers: Vec<ColumnReader>,
    rows_left: usize,
    /// Number of rows of the file before the current batch.
    rows_before: u64,
    batch: Batch,
    /// Runs of the batch that are still to be returned.
    runs: VecDeque<Run>,
    /// Number of samples missing behind the last run.
    missing: u64,
}

/// Error of a Parquet file, with its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParquetError {
    /// The file is not Parquet, damaged, truncated, or compressed with an unsupported codec.
    #[error("not readable as Parquet: {0}\nif it is compressed with brotli, write it with zstd")]
    Format(#[from] CrateError),
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

/// Number of rows of a group in which the first list is looked for; rows before it are null.
const ROWS_FOR_LENGTH: usize = 64;

/// Columns that determine the places of the rows.
#[derive(Clone, Copy)]
struct Places {
    time: Option<TimeColumn>,
    /// Number of the leaf column with the sample indices.
    index: Option<usize>,
    grid: Option<Grid>,
    /// The samples keep the times of the time column; their places follow from the index.
    keeps_times: bool,
}

/// Time column.
#[derive(Clone, Copy)]
struct TimeColumn {
    leaf: usize,
    nanos_per_unit: i128,
    /// Number of parts of a unit that a value counts, if it is a decimal.
    divisor: i128,
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
fn with_time_by_type(options: &FileOptions, leaves: &[ColumnDescPtr], headings: &[Channel]) -> FileOptions {
    let mut options = options.clone();
    let is_open = options.time == TimeChoice::Auto && options.rate.is_none();
    if is_open && time_place(headings, &options.time).is_ok_and(|it| it.is_none()) {
        let is_time = |leaf: &ColumnDescPtr| matches!(Meaning::of(leaf), Meaning::Times { .. });
        let found = leaves.iter().position(is_time).filter(|at| check_flat(&leaves[*at], "").is_ok());
        options.time = found.map_or(TimeChoice::Auto, |at| TimeChoice::Named(headings[at].name.clone()));
    }
    options
}

/// Finds the length of a column of lists that is not described: that of the first list.
fn measure(
    column: &mut Column,
    file: &SerializedFileReader<File>,
    descriptor: &ColumnDescriptor,
) -> Result<(), ParquetError> {
    let mut group = 0;
    while column.nesting.elements == 0 {
        if group == file.num_row_groups() {
            return column.set_length(0);
        }
        let rows = file.get_row_group(group)?;
        let count = rows_of(rows.metadata()).min(ROWS_FOR_LENGTH);
        let mut reader = rows.get_column_reader(column.leaf)?;
        if let Some(length) = first_length(&mut reader, count, column.nesting, element_level(descriptor))? {
            column.set_length(length)?;
        }
        group += 1;
    }
    Ok(())
}

fn rows_of(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}

/// Rejects a footer with a negative offset or size: the library panics on one.
fn check_places(metadata: &ParquetMetaData) -> Result<(), CrateError> {
    for chunk in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
        let first = chunk.dictionary_page_offset().unwrap_or(0);
        if first.min(chunk.data_page_offset()).min(chunk.compressed_size()) < 0 {
            let column = chunk.column_path();
            return Err(CrateError::General(format!(
                "its footer is damaged: column {column} has a negative offset or size"
            )));
        }
    }
    Ok(())
}

impl ParquetTable {
    /// Opens a file and reads its footer and its first times.
    ///
    /// # Errors
    /// [`SourceError::Parquet`], [`SourceError::Schema`] if the file or its channels are invalid.
    pub fn open(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        let opened = File::open(path).map_err(crate::OpenError::from)?;
        let file = SerializedFileReader::new(opened).map_err(ParquetError::from)?;
        check_places(file.metadata()).map_err(ParquetError::from)?;
        let metadata = file.metadata().file_metadata();
        if metadata.num_rows() <= 0 {
            return Err(ParquetError::Empty.into());
        }
        let leaves = metadata.schema_descr().columns();
        let described = described::schema_of(metadata)?;
        let headings: Vec<Channel> =
            leaves.iter().enumerate().map(|(at, leaf)| heading_of(at, leaf, described.as_ref())).collect();
        let options = &with_time_by_type(options, leaves, &headings);
        let chosen = choose(&headings, options).map_err(ParquetError::from)?;
        let mut places = Places::of(&chosen, leaves, &headings)?;
        let column = |at: &usize| Column::new(*at, leaves, described.as_ref());
        let mut columns = chosen.channels.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        columns.iter_mut().try_for_each(|column| measure(column, &file, &leaves[column.leaf]))?;
        let types: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.dtype)).collect();
        let dtype = common_dtype(&types, options.dtype).map_err(ParquetError::from)?;
        let times = places.first_times(&file)?;
        let rate = match (&described, options.rate) {
            // The declared rate of a recording is not called into question by its clock.
            (Some(described), None) => described.rate,
            (_, asked) => rate_over(&times, asked).map_err(ParquetError::from)?,
        };
        places.begin(rate);
        let mut schema =
            Schema::new(dtype, rate, columns.iter().map(|column| column.channel.clone()).collect())?;
        schema.labels = described.map(|described| described.labels).unwrap_or_default();
        places.keeps_times = schema.has_own_times() && options.rate.is_none() && places.index.is_some();
        let schema = if places.keeps_times { schema } else { at_regular_times(schema) };
        let start = times.first().and_then(|row| moment(row.time_ns));
        let description = Description { name, schema, timing: Timing::Recorded { start }, samples: None };
        Ok(Self {
            description,
            file,
            columns,
            places,
            nan: options.nan,
            next_group: 0,
            readers: Vec::new(),
            rows_left: 0,
            rows_before: 0,
            batch: Batch::default(),
            runs: VecDeque::new(),
            missing: 0,
        })
    }

    /// Reads the next batch; `false` at the end.
    fn read_batch(&mut self) -> Result<bool, ParquetError> {
        self.rows_before += self.batch.partial.len() as u64;
        self.batch.partial.clear();
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(self.end());
            }
            self.begin_group()?;
        }
        let count = samples_at_once(NonZeroU64::MAX, self.description.schema.sample_bytes());
        let count = count.min(self.rows_left);
        self.place_rows(count)?;
        self.read_times(count)?;
        self.rows_left -= count;
        self.find_runs()?;
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

    fn begin_group(&mut self) -> Result<(), ParquetError> {
        let group = self.file.get_row_group(self.next_group)?;
        let leaves = self.columns.iter().map(|column| column.leaf).chain(self.places.leaves());
        self.readers = leaves.map(|leaf| group.get_column_reader(leaf)).collect::<Result<_, _>>()?;
        self.rows_left = rows_of(group.metadata());
        self.next_group += 1;
        Ok(())
    }

    /// Reads every column and copies its elements to their places in the rows.
    fn place_rows(&mut self, count: usize) -> Result<(), ParquetError> {
        let schema = &self.description.schema;
        let (row_bytes, (part, _)) = (schema.sample_bytes(), parts_of(schema.dtype));
        let (batch, row) = (&mut self.batch, |row: usize| self.rows_before + row as u64);
        batch.bytes.resize(count * row_bytes, 0);
        batch.partial.resize(count, false);
        let may_lack = self.places.index.is_some();
        let (mut numbers, mut offset) = (Vec::new(), 0);
        for (column, reader) in self.columns.iter().zip(&mut self.readers) {
            let width = column.nesting.row_numbers();
            let refuse = |place: usize, what| {
                let (row, column) = (row(place / width), column.name.clone());
                Err(ParquetError::Value { row, column, what })
            };
            let values = Values::of(reader, count, column)?.map_err(|at| {
                let (column, shape) = (column.name.clone(), column.channel.shape.clone());
                ParquetError::Shape { row: row(at), column, shape }
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

    /// Reads the times that the samples keep.
    fn read_times(&mut self, count: usize) -> Result<(), ParquetError> {
        let (Some(time), true) = (self.places.time, self.places.keeps_times) else { return Ok(()) };
        let reader = self.readers.last_mut().expect("the time column is the last");
        let times = time.read(reader, count, self.rows_before)?;
        let times =
            times.into_iter().map(|time| i64::try_from(time).ok().map(WallTime::from_nanos)).collect();
        self.batch.times = all_told(times, self.rows_before, || {
            GridError::NotTime("a time beyond the year 2262".to_owned())
        })?;
        Ok(())
    }

    /// Finds the consecutive rows. A row that lacks an element is left out whole: missing elements must not be
    /// invented.
    fn find_runs(&mut self) -> Result<(), ParquetError> {
        let rows = self.batch.partial.len();
        let holes = match self.readers.get_mut(self.columns.len()) {
            Some(reader) => self.places.holes(reader, rows, self.rows_before)?,
            None => vec![0; rows],
        };
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
        Ok(())
    }
}

impl Source for ParquetTable {
    fn description(&self) -> &Description {
        &self.description
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
            if self.places.keeps_times {
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
        self.next_group = 0;
        self.readers.clear();
        self.rows_left = 0;
        self.rows_before = 0;
        self.batch.partial.clear();
        self.runs.clear();
        self.missing = 0;
        self.places.begin(self.description.schema.rate);
        Ok(())
    }
}

impl Places {
    fn of(chosen: &Chosen, leaves: &[ColumnDescPtr], headings: &[Channel]) -> Result<Self, ParquetError> {
        for place in chosen.time.iter().map(|(place, _)| place).chain(&chosen.index) {
            check_flat(&leaves[*place], &headings[*place].name)?;
        }
        let column = |(leaf, by_name): (usize, i128)| {
            let not_times = |holds| ParquetError::NotTimes { column: headings[leaf].name.clone(), holds };
            TimeColumn::new(leaf, &leaves[leaf], by_name).map_err(not_times)
        };
        let time = chosen.time.map(column).transpose()?;
        Ok(Self { time, index: chosen.index, grid: None, keeps_times: false })
    }

    /// Starts at the first row.
    fn begin(&mut self, rate: units::SampleRate) {
        self.grid = self.index.map(|_| Grid::by_index()).or(self.time.map(|_| Grid::by_time(rate)));
    }

    /// Returns the leaf column from which the holes follow, and that of the times if samples keep them.
    fn leaves(&self) -> impl Iterator<Item = usize> {
        let time = self.time.map(|time| time.leaf);
        let kept = time.filter(|_| self.keeps_times);
        self.index.or(time).into_iter().chain(kept)
    }

    /// Reads the times of the first rows, from which the rate is derived, over as many groups as they take.
    fn first_times(&self, file: &SerializedFileReader<File>) -> Result<Vec<Timed>, ParquetError> {
        let Some(time) = self.time else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        for group in 0..file.num_row_groups() {
            let group = file.get_row_group(group)?;
            let before = rows.len() as u64;
            let count = rows_of(group.metadata()).min(ROWS_FOR_RATE - rows.len());
            let times = time.read(&mut group.get_column_reader(time.leaf)?, count, before)?;
            let indices = match self.index {
                Some(leaf) => read_indices(&mut group.get_column_reader(leaf)?, count, before)?,
                None => (before..before + count as u64).collect(),
            };
            rows.extend(indices.into_iter().zip(times).map(|(index, time_ns)| Timed { index, time_ns }));
            if rows.len() == ROWS_FOR_RATE {
                break;
            }
        }
        Ok(rows)
    }

    /// Returns the number of samples missing before each of the next rows.
    fn holes(
        &mut self,
        reader: &mut ColumnReader,
        rows: usize,
        rows_before: u64,
    ) -> Result<Vec<u64>, ParquetError> {
        let places: Vec<i128> = match (self.index, self.time) {
            (Some(_), _) => read_indices(reader, rows, rows_before)?.into_iter().map(i128::from).collect(),
            (None, Some(time)) => time.read(reader, rows, rows_before)?,
            (None, None) => Vec::new(),
        };
        let grid = self.grid.as_mut().expect("what has a column has a grid");
        let hole = |(row, place): (usize, i128)| {
            let at = |source| ParquetError::Time { row: rows_before + row as u64, source };
            grid.hole_before(place).map_err(at)
        };
        places.into_iter().enumerate().map(hole).collect()
    }
}

impl TimeColumn {
    /// Examines a time column, whose name may tell the unit if its type does not. `Err` of a description of anything
    /// else.
    fn new(leaf: usize, descriptor: &ColumnDescriptor, by_name: i128) -> Result<Self, String> {
        let (nanos_per_unit, decimals) = match Meaning::of(descriptor) {
            Meaning::Times { nanos_per_unit } => (nanos_per_unit, 0),
            Meaning::Numbers { dtype: Dtype::F4, .. }
                if descriptor.physical_type() != PhysicalType::FLOAT =>
            {
                return Err("floats of two bytes".to_owned());
            }
            Meaning::Numbers { decimals, .. } => (by_name, decimals),
            Meaning::Other(holds) => return Err(holds),
        };
        let divisor = 10_i128.checked_pow(decimals).ok_or("decimals of more than 38 digits")?;
        Ok(Self { leaf, nanos_per_unit, divisor })
    }

    /// Reads the times of the next rows. Units: nanoseconds.
    fn read(
        self,
        reader: &mut ColumnReader,
        count: usize,
        rows_before: u64,
    ) -> Result<Vec<i128>, ParquetError> {
        let times = Values::plain(reader, count)?.times(self.nanos_per_unit, self.divisor);
        let not_time = || GridError::NotTime("null or not finite".to_owned());
        all_told(times, rows_before, not_time)
    }
}

fn read_indices(reader: &mut ColumnReader, count: usize, rows_before: u64) -> Result<Vec<u64>, ParquetError> {
    let indices = Values::plain(reader, count)?.indices();
    all_told(indices, rows_before, || GridError::NotIndex("null, negative or no integer".to_owned()))
}

/// Returns the places of all rows, or the number of the first row without one as an error.
fn all_told<T>(
    told: Vec<Option<T>>,
    rows_before: u64,
    otherwise: impl Fn() -> GridError,
) -> Result<Vec<T>, ParquetError> {
    let place = |(row, told): (usize, Option<T>)| {
        told.ok_or_else(|| ParquetError::Time { row: rows_before + row as u64, source: otherwise() })
    };
    told.into_iter().enumerate().map(place).collect()
}
