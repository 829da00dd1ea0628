//! Tables in Parquet: numeric columns, read batch by batch through the crate's column readers.
//!
//! The crate's Arrow layer is not used: a sample needs its values side by side, which is neither Arrow's
//! order nor Parquet's, so every value is moved once either way. With a time column the rate is read off it
//! and a longer step is a hole; without one the rate must be given. Snappy, zstd, lz4 and gzip are read.

mod values;

use std::fs::File;
use std::num::NonZeroU64;
use std::path::Path;

use parquet::basic::{LogicalType, TimeUnit, Type as PhysicalType};
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError as CrateError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use sample::{Channel, Dtype, Schema, StreamName};

use crate::columns::{choose, moment};
use crate::grid::{Grid, ROWS_FOR_RATE, rate_over};
use crate::numbers::heading;
use crate::piece::samples_at_once;
use crate::{ColumnError, Description, FileOptions, GridError, HoleKind, NanPolicy, Piece, Source};
use crate::{SourceError, Timing};

use values::Values;

/// A Parquet file being played.
pub struct ParquetTable {
    description: Description,
    file: SerializedFileReader<File>,
    columns: Vec<Column>,
    time: Option<Time>,
    grid: Option<Grid>,
    nan: NanPolicy,
    /// Which row group comes next, and the readers of the present one.
    next_group: usize,
    readers: Vec<ColumnReader>,
    rows_left: usize,
    /// Rows of the file before the present batch.
    rows_before: u64,
    batch: Batch,
}

/// Says what is wrong with a Parquet file, and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParquetError {
    /// Not Parquet, damaged, truncated, or compressed in a way that is not read.
    #[error("this cannot be read as Parquet: {0}\nif it is compressed with brotli, write it with zstd")]
    Format(#[from] CrateError),
    /// A column that is not numbers.
    #[error("column `{column}` holds {holds}, not single numbers\nchoose other columns with --columns")]
    NotNumbers {
        /// The column.
        column: String,
        /// What it holds.
        holds: String,
    },
    /// 64-bit integers beside something else.
    #[error(
        "columns `{first}` ({first_dtype}) and `{second}` ({second_dtype}) have no type in common that keeps \
         every digit\nchoose columns of one type with --columns, or take the loss with --dtype f8"
    )]
    Mixed {
        /// A column.
        first: String,
        /// Its type.
        first_dtype: Dtype,
        /// Another.
        second: String,
        /// Its type.
        second_dtype: Dtype,
    },
    /// Another type was asked for.
    #[error("the columns are {actual}, not {asked}\nleave --dtype out, or ask for f4 or f8")]
    WrongDtype {
        /// What they are.
        actual: Dtype,
        /// What was asked for.
        asked: Dtype,
    },
    /// A value that is missing or not finite.
    #[error(
        "row {row}, column `{column}`: {what}\nlet it through as NaN with --allow-nan, which needs float columns"
    )]
    Value {
        /// Counted from 0.
        row: u64,
        /// The column.
        column: String,
        /// What is there instead of a value.
        what: &'static str,
    },
    /// A time that does not fit the grid.
    #[error("row {row}: {source}")]
    Time {
        /// Counted from 0.
        row: u64,
        /// What is wrong with it.
        source: GridError,
    },
    /// The times of the first rows give no rate.
    #[error(transparent)]
    Rate(#[from] GridError),
    /// The columns cannot be chosen as asked.
    #[error(transparent)]
    Columns(#[from] ColumnError),
    /// No rows.
    #[error("the table has no rows")]
    Empty,
}

/// A column that becomes a channel.
struct Column {
    index: usize,
    name: String,
    dtype: Dtype,
}

/// The column that is the time.
#[derive(Clone, Copy)]
struct Time {
    index: usize,
    nanos_per_unit: i128,
}

/// Rows that are read and not yet handed over.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    rows: usize,
    handed_over: usize,
    /// Rows that have a hole before them, in order, with its samples.
    holes: std::collections::VecDeque<(usize, u64)>,
}

impl ParquetTable {
    /// Opens a file and reads its footer and its first times.
    ///
    /// # Errors
    /// [`SourceError::Parquet`], [`SourceError::Schema`].
    pub fn open(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        let opened = File::open(path).map_err(crate::OpenError::from)?;
        let file = SerializedFileReader::new(opened).map_err(ParquetError::from)?;
        if file.metadata().file_metadata().num_rows() <= 0 {
            return Err(ParquetError::Empty.into());
        }
        let descriptors = file.metadata().file_metadata().schema_descr().columns();
        let headings: Vec<Channel> = descriptors
            .iter()
            .enumerate()
            .map(|(index, column)| heading(&column.path().string(), index))
            .collect();
        let chosen = choose(&headings, options).map_err(ParquetError::from)?;
        let time = chosen.time.map(|(index, nanos_per_unit)| Time {
            index,
            nanos_per_unit: timestamp_unit(&descriptors[index]).unwrap_or(nanos_per_unit),
        });
        let column = |index: &usize| -> Result<Column, ParquetError> {
            let name = headings[*index].name.clone();
            Ok(Column { index: *index, dtype: dtype_of(&descriptors[*index], &name)?, name })
        };
        let columns = chosen.channels.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let dtype = common_dtype(&columns, options.dtype)?;
        let times = first_times(&file, time)?;
        let rate = rate_over(&times, options.rate).map_err(ParquetError::from)?;
        let channels = chosen.channels.iter().map(|index| headings[*index].clone()).collect();
        let schema = Schema::new(dtype, rate, channels)?;
        let start = times.first().and_then(|time| moment(*time));
        let description = Description { name, schema, timing: Timing::Recorded { start }, samples: None };
        Ok(Self {
            description,
            file,
            columns,
            time,
            grid: time.map(|_| Grid::new(rate)),
            nan: options.nan,
            next_group: 0,
            readers: Vec::new(),
            rows_left: 0,
            rows_before: 0,
            batch: Batch::default(),
        })
    }

    /// Reads the next batch; an empty one is the end.
    fn read_batch(&mut self) -> Result<(), ParquetError> {
        self.rows_before += self.batch.rows as u64;
        self.batch = Batch { bytes: std::mem::take(&mut self.batch.bytes), ..Batch::default() };
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(());
            }
            self.begin_group()?;
        }
        let count = samples_at_once(NonZeroU64::MAX, self.description.schema.sample_bytes());
        let count = count.min(self.rows_left);
        self.place_rows(count)?;
        self.batch.rows = count;
        self.rows_left -= count;
        if let (Some(time), Some(grid)) = (self.time, &mut self.grid) {
            let reader = self.readers.last_mut().expect("the time's reader is the last");
            for (row, time_ns) in times_of(reader, count, time, self.rows_before)?.into_iter().enumerate() {
                let hole = grid.hole_before(time_ns);
                let hole =
                    hole.map_err(|source| ParquetError::Time { row: self.rows_before + row as u64, source })?;
                if hole > 0 {
                    self.batch.holes.push_back((row, hole));
                }
            }
        }
        Ok(())
    }

    fn begin_group(&mut self) -> Result<(), ParquetError> {
        let group = self.file.get_row_group(self.next_group)?;
        let indices = self.columns.iter().map(|column| column.index).chain(self.time.map(|time| time.index));
        self.readers = indices.map(|index| group.get_column_reader(index)).collect::<Result<_, _>>()?;
        self.rows_left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        self.next_group += 1;
        Ok(())
    }

    /// Reads every column and puts its elements where they belong in the rows.
    fn place_rows(&mut self, count: usize) -> Result<(), ParquetError> {
        let schema = &self.description.schema;
        let (dtype, size, row_bytes) = (schema.dtype, schema.dtype.size_bytes(), schema.sample_bytes());
        self.batch.bytes.resize(count * row_bytes, 0);
        let mut elements = Vec::new();
        for (place, (column, reader)) in self.columns.iter().zip(&mut self.readers).enumerate() {
            let values = Values::read(reader, count)?;
            if let Some((row, what)) = values.not_finite(self.nan, dtype) {
                let row = self.rows_before + row as u64;
                return Err(ParquetError::Value { row, column: column.name.clone(), what });
            }
            elements.clear();
            values.append(column.dtype, dtype, &mut elements);
            let rows = self.batch.bytes.chunks_exact_mut(row_bytes);
            for (row, element) in rows.zip(elements.chunks_exact(size)) {
                row[place * size..][..size].copy_from_slice(element);
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
        if self.batch.handed_over == self.batch.rows {
            self.read_batch()?;
        }
        let batch = &mut self.batch;
        if batch.rows == 0 {
            return Ok(Piece::End);
        }
        let mut until = batch.rows;
        if let Some((row, hole_left)) = batch.holes.front_mut() {
            if *row == batch.handed_over {
                let samples = (*hole_left).min(at_most.get());
                *hole_left -= samples;
                if *hole_left == 0 {
                    batch.holes.pop_front();
                }
                return Ok(Piece::Hole { samples, why: HoleKind::Recording });
            }
            until = *row;
        }
        let sample_bytes = self.description.schema.sample_bytes();
        let first = batch.handed_over;
        let count = samples_at_once(at_most, sample_bytes).min(until - first);
        batch.handed_over += count;
        Ok(Piece::Samples(&batch.bytes[first * sample_bytes..][..count * sample_bytes]))
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.next_group = 0;
        self.readers.clear();
        self.rows_left = 0;
        self.rows_before = 0;
        self.batch = Batch::default();
        self.grid = self.grid.map(|_| Grid::new(self.description.schema.rate));
        Ok(())
    }
}

/// Returns the dtype of a column, refusing what is not single numbers.
fn dtype_of(column: &ColumnDescriptor, name: &str) -> Result<Dtype, ParquetError> {
    let refuse = |holds: String| ParquetError::NotNumbers { column: name.to_owned(), holds };
    if column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return Err(refuse("lists or nested groups".to_owned()));
    }
    let integer = match column.logical_type_ref() {
        None => None,
        Some(LogicalType::Integer(integer)) => Some((integer.bit_width, integer.is_signed)),
        Some(other) => return Err(refuse(format!("{other:?}"))),
    };
    match (column.physical_type(), integer) {
        (PhysicalType::BOOLEAN, _) => Ok(Dtype::Bool),
        (PhysicalType::FLOAT, _) => Ok(Dtype::F4),
        (PhysicalType::DOUBLE, _) => Ok(Dtype::F8),
        (PhysicalType::INT32, Some((8, true))) => Ok(Dtype::I8),
        (PhysicalType::INT32, Some((8, false))) => Ok(Dtype::U8),
        (PhysicalType::INT32, Some((16, true))) => Ok(Dtype::I16),
        (PhysicalType::INT32, Some((16, false))) => Ok(Dtype::U16),
        (PhysicalType::INT32, Some((_, false))) => Ok(Dtype::U32),
        (PhysicalType::INT32, _) => Ok(Dtype::I32),
        (PhysicalType::INT64, Some((_, false))) => Ok(Dtype::U64),
        (PhysicalType::INT64, _) => Ok(Dtype::I64),
        (other, _) => Err(refuse(format!("{other}"))),
    }
}

/// Returns the type that keeps every digit of all columns, or the one asked for.
fn common_dtype(columns: &[Column], asked: Option<Dtype>) -> Result<Dtype, ParquetError> {
    let first = &columns[0];
    let other = columns.iter().find(|column| column.dtype != first.dtype);
    match (asked, other) {
        (Some(asked @ (Dtype::F4 | Dtype::F8)), _) => Ok(asked),
        (Some(asked), None) if asked == first.dtype => Ok(asked),
        (Some(asked), _) => Err(ParquetError::WrongDtype { actual: first.dtype, asked }),
        (None, None) => Ok(first.dtype),
        (None, Some(second)) => {
            let wide = |column: &&Column| matches!(column.dtype, Dtype::I64 | Dtype::U64);
            if !columns.iter().any(|column| wide(&column)) {
                return Ok(Dtype::F8);
            }
            Err(ParquetError::Mixed {
                first: first.name.clone(),
                first_dtype: first.dtype,
                second: second.name.clone(),
                second_dtype: second.dtype,
            })
        }
    }
}

fn timestamp_unit(column: &ColumnDescriptor) -> Option<i128> {
    match column.logical_type_ref()? {
        LogicalType::Timestamp(timestamp) => Some(match timestamp.unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        }),
        _ => None,
    }
}

/// Reads the times of as many rows of the first group as the rate is read from.
fn first_times(file: &SerializedFileReader<File>, time: Option<Time>) -> Result<Vec<i128>, ParquetError> {
    let Some(time) = time else { return Ok(Vec::new()) };
    let group = file.get_row_group(0)?;
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0).min(ROWS_FOR_RATE);
    times_of(&mut group.get_column_reader(time.index)?, rows, time, 0)
}

fn times_of(
    reader: &mut ColumnReader,
    count: usize,
    time: Time,
    rows_before: u64,
) -> Result<Vec<i128>, ParquetError> {
    let unit = time.nanos_per_unit;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a time in a float is no better"
    )]
    let of_float = |value: f64| value.is_finite().then(|| (value * unit as f64).round() as i128);
    let times: Vec<Option<i128>> = match Values::read(reader, count)? {
        Values::Int32(values) => {
            values.into_iter().map(|value| value.map(|value| i128::from(value) * unit)).collect()
        }
        Values::Int64(values) => {
            values.into_iter().map(|value| value.map(|value| i128::from(value) * unit)).collect()
        }
        Values::Float(values) => {
            values.into_iter().map(|value| value.and_then(|value| of_float(f64::from(value)))).collect()
        }
        Values::Double(values) => values.into_iter().map(|value| value.and_then(of_float)).collect(),
        Values::Bool(values) => vec![None; values.len()],
    };
    let place = |(row, time): (usize, Option<i128>)| {
        let not_time = || GridError::NotTime("null or not finite".to_owned());
        time.ok_or_else(|| ParquetError::Time { row: rows_before + row as u64, source: not_time() })
    };
    times.into_iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests;
