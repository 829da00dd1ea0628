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
mod tests {
    use super::*;
    use crate::open_file;
    use crate::piece::testing::{drain, floats};
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    /// A column to write: values with definition levels where it is optional.
    enum Content {
        Int32(Vec<i32>),
        Int64(Vec<i64>),
        Double(Vec<f64>, Option<Vec<i16>>),
        Text(Vec<&'static str>),
    }

    fn write(message: &str, columns: &[Content], groups: usize) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
        let schema = Arc::new(parse_message_type(message).unwrap());
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer =
            SerializedFileWriter::new(file.reopen().unwrap(), schema, Arc::new(properties)).unwrap();
        for _ in 0..groups {
            let mut group = writer.next_row_group().unwrap();
            for column in columns {
                let mut into = group.next_column().unwrap().unwrap();
                match column {
                    Content::Int32(values) => into.typed::<Int32Type>().write_batch(values, None, None),
                    Content::Int64(values) => into.typed::<Int64Type>().write_batch(values, None, None),
                    Content::Double(values, levels) => {
                        into.typed::<DoubleType>().write_batch(values, levels.as_deref(), None)
                    }
                    Content::Text(values) => {
                        let values: Vec<ByteArray> =
                            values.iter().map(|value| ByteArray::from(*value)).collect();
                        into.typed::<ByteArrayType>().write_batch(&values, None, None)
                    }
                }
                .unwrap();
                into.close().unwrap();
            }
            group.close().unwrap();
        }
        writer.close().unwrap();
        file
    }

    fn at(rate: &str) -> FileOptions {
        FileOptions { rate: Some(rate.parse().unwrap()), ..FileOptions::default() }
    }

    fn refusal(file: &tempfile::NamedTempFile, options: &FileOptions) -> String {
        match open_file(file.path(), options) {
            Err(error) => error.to_string(),
            Ok(mut source) => drain(&mut source).unwrap_err().to_string(),
        }
    }

    #[test]
    fn columns_of_one_type_stay_as_they_are_over_all_groups() {
        let message =
            "message m { required int32 a (INTEGER(16, true)); required int32 b (INTEGER(16, true)); }";
        let file = write(message, &[Content::Int32(vec![1, -2]), Content::Int32(vec![3, 4])], 2);
        let mut source = open_file(file.path(), &at("10")).unwrap();
        assert_eq!(source.description().schema.dtype, Dtype::I16);
        let (bytes, _) = drain(&mut source).unwrap();
        assert_eq!(floats(&source, &bytes), [1.0, 3.0, -2.0, 4.0, 1.0, 3.0, -2.0, 4.0]);
        source.rewind().unwrap();
        assert_eq!(drain(&mut source).unwrap().0, bytes);
    }

    #[test]
    fn a_timestamp_column_gives_the_rate_the_start_and_the_holes() {
        let message = "message m { required int64 time (TIMESTAMP(MILLIS, true)); required double current; }";
        let start_ms = 1_604_102_400_000;
        let times = vec![start_ms, start_ms + 10, start_ms + 20, start_ms + 50];
        let file =
            write(message, &[Content::Int64(times), Content::Double(vec![1.0, 2.0, 3.0, 4.0], None)], 1);
        let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
        assert_eq!(source.description().schema.rate, "100".parse().unwrap());
        let start = units::WallTime::from_nanos(start_ms * 1_000_000);
        assert_eq!(source.description().timing, Timing::Recorded { start: Some(start) });
        let (bytes, holes) = drain(&mut source).unwrap();
        assert_eq!(floats(&source, &bytes), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(holes, [(3, 2, HoleKind::Recording)]);
    }

    #[test]
    fn mixed_columns_become_floats_only_where_no_digit_is_lost() {
        let narrow = write(
            "message m { required int32 a; required double b; }",
            &[Content::Int32(vec![7]), Content::Double(vec![0.5], None)],
            1,
        );
        let mut source = open_file(narrow.path(), &at("1")).unwrap();
        let (bytes, _) = drain(&mut source).unwrap();
        assert_eq!(floats(&source, &bytes), [7.0, 0.5]);
        let wide = write(
            "message m { required int64 a; required double b; }",
            &[Content::Int64(vec![7]), Content::Double(vec![0.5], None)],
            1,
        );
        assert!(refusal(&wide, &at("1")).contains("`a` (i64) and `b` (f8)"));
        let asked = FileOptions { dtype: Some(Dtype::F8), ..at("1") };
        assert!(open_file(wide.path(), &asked).is_ok());
        let asked = FileOptions { dtype: Some(Dtype::I16), ..at("1") };
        assert!(refusal(&wide, &asked).contains("not i16"));
    }

    #[test]
    fn nulls_and_nan_are_refused_with_their_row() {
        let message = "message m { optional double a; }";
        let null = write(message, &[Content::Double(vec![1.0, 2.0], Some(vec![1, 0, 1]))], 1);
        assert!(refusal(&null, &at("1")).contains("row 1, column `a`: a null"));
        let allowed = FileOptions { nan: NanPolicy::Allow, ..at("1") };
        let mut source = open_file(null.path(), &allowed).unwrap();
        let (bytes, _) = drain(&mut source).unwrap();
        assert!(floats(&source, &bytes)[1].is_nan());
        let nan = write(message, &[Content::Double(vec![1.0, f64::NAN], Some(vec![1, 1]))], 1);
        assert!(refusal(&nan, &at("1")).contains("row 1, column `a`: not a finite"));
    }

    #[test]
    fn what_is_not_numbers_is_refused_by_name() {
        let message = "message m { required binary who (STRING); required double a; }";
        let file = write(message, &[Content::Text(vec!["me"]), Content::Double(vec![1.0], None)], 1);
        assert!(refusal(&file, &at("1")).contains("column `who` holds String"));
        let chosen = FileOptions { columns: vec!["a".into()], ..at("1") };
        assert!(open_file(file.path(), &chosen).is_ok());
        assert!(
            refusal(&file, &FileOptions { columns: vec!["a".into()], ..FileOptions::default() })
                .contains("--rate")
        );
    }

    #[test]
    fn truncated_and_foreign_files_are_refused() {
        let file = write("message m { required double a; }", &[Content::Double(vec![1.0; 1_000], None)], 1);
        let whole = std::fs::read(file.path()).unwrap();
        for len in [4, 12, whole.len() / 2, whole.len() - 1] {
            std::fs::write(file.path(), &whole[..len]).unwrap();
            assert!(refusal(&file, &at("1")).contains("cannot be read as Parquet"), "{len}");
        }
        let empty = write("message m { required double a; }", &[], 0);
        assert!(refusal(&empty, &at("1")).contains("no rows"));
    }
}
