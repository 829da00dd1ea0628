//! Parquet files: columns are read row group by row group through the crate's column readers.
//!
//! The crate's Arrow layer is not used: a sample needs its values side by side, which is neither Arrow's order nor
//! Parquet's, so every value is moved once in any case. Snappy, zstd, lz4 and gzip are supported.

mod meaning;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use half::f16;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, Int96};
use parquet::errors::ParquetError as CrateError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use sample::Dtype;

use super::arrow_file::nanos_of;
use super::described::KEY;
use super::layout::{Leaf, Nesting};
use super::meaning::{Meaning, NANOS_PER_DAY};
use super::values::Values;
use super::{ColumnFile, Rows, TableError};

/// Number of rows of a group in which the first list is looked for; rows before it are null.
const ROWS_FOR_LENGTH: usize = 64;
/// Day of 1970-01-01 in an INT96, a Julian day.
const FIRST_DAY: i128 = 2_440_588;

/// Parquet file.
pub(super) struct ParquetFile {
    file: Arc<SerializedFileReader<File>>,
    leaves: Vec<Leaf>,
}

/// Rows of some columns of a Parquet file.
struct ParquetRows {
    file: Arc<SerializedFileReader<File>>,
    leaves: Vec<usize>,
    /// Number of the next row group, and the readers of the current one.
    next_group: usize,
    readers: Vec<ColumnReader>,
    rows_left: usize,
    /// Number of rows of the current run.
    count: usize,
}

impl ParquetFile {
    /// Opens a file and reads its footer.
    pub(super) fn open(path: &Path) -> Result<Self, TableError> {
        let file = SerializedFileReader::new(File::open(path)?)?;
        check_places(file.metadata())?;
        let metadata = file.metadata().file_metadata();
        let columns = metadata.schema_descr().columns();
        let mut leaves: Vec<Leaf> = columns.iter().map(|column| leaf_of(column, columns)).collect();
        mark_durations(&mut leaves, metadata);
        Ok(Self { file: Arc::new(file), leaves })
    }
}

impl ColumnFile for ParquetFile {
    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn description(&self) -> Option<String> {
        let pairs = self.file.metadata().file_metadata().key_value_metadata().into_iter().flatten();
        pairs.filter(|pair| pair.key == KEY).find_map(|pair| pair.value.clone())
    }

    fn begin(&self, leaves: &[usize]) -> Result<Box<dyn Rows>, TableError> {
        let (file, leaves) = (Arc::clone(&self.file), leaves.to_vec());
        Ok(Box::new(ParquetRows { file, leaves, next_group: 0, readers: Vec::new(), rows_left: 0, count: 0 }))
    }

    fn first_length(&self, leaf: usize) -> Result<Option<usize>, TableError> {
        for group in 0..self.file.num_row_groups() {
            let group = self.file.get_row_group(group)?;
            let rows = rows_of(group.metadata()).min(ROWS_FOR_LENGTH);
            let length = first_length(group.get_column_reader(leaf)?, rows, descriptor(&self.file, leaf))?;
            if length.is_some() {
                return Ok(length);
            }
        }
        Ok(None)
    }
}

impl Rows for ParquetRows {
    fn advance(&mut self, at_most: usize) -> Result<usize, TableError> {
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(0);
            }
            let group = self.file.get_row_group(self.next_group)?;
            let readers = self.leaves.iter().map(|leaf| group.get_column_reader(*leaf));
            self.readers = readers.collect::<Result<_, _>>()?;
            self.rows_left = rows_of(group.metadata());
            self.next_group += 1;
        }
        self.count = at_most.min(self.rows_left);
        self.rows_left -= self.count;
        Ok(self.count)
    }

    fn read(&mut self, place: usize, nesting: Nesting) -> Result<Result<Values, usize>, TableError> {
        let column = descriptor(&self.file, self.leaves[place]);
        let entries = Entries::read(&mut self.readers[place], self.count, column)?;
        Ok(entries.regular(nesting))
    }
}

fn descriptor(file: &SerializedFileReader<File>, leaf: usize) -> &ColumnDescPtr {
    &file.metadata().file_metadata().schema_descr().columns()[leaf]
}

fn rows_of(group: &RowGroupMetaData) -> usize {
    usize::try_from(group.num_rows()).unwrap_or(0)
}

/// Rejects a footer with a negative offset or size: the library panics on one.
pub(super) fn check_places(metadata: &ParquetMetaData) -> Result<(), CrateError> {
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

/// Gives durations their meaning. Parquet has no type for them: Arrow writes integers, and its own schema beside them.
fn mark_durations(leaves: &mut [Leaf], metadata: &FileMetaData) {
    let schema = parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata());
    let Ok(schema) = schema else { return };
    for leaf in leaves.iter_mut().filter(|leaf| leaf.is_flat()) {
        let field = schema.field_with_name(&leaf.name).ok();
        if let Some(DataType::Duration(unit)) = field.map(Field::data_type) {
            leaf.meaning = Meaning::times(nanos_of(*unit));
        }
    }
}

fn leaf_of(column: &ColumnDescriptor, columns: &[ColumnDescPtr]) -> Leaf {
    let (path, lists) = (column.path(), column.max_rep_level());
    let parts = path.parts();
    // `list.element` or the like; a map and a list of groups have several columns.
    let is_alone = || columns.iter().filter(|other| other.path().parts()[0] == parts[0]).count() == 1;
    let is_grouped = match lists {
        0 => column.max_def_level() > 1,
        1 => parts.len() > 3 || !is_alone(),
        _ => false,
    };
    let name = if lists > 0 { parts[0].clone() } else { path.string() };
    Leaf { name, meaning: meaning::meaning_of(column), lists, is_grouped }
}

/// Numbers of some rows and the levels that tell their structure; both are empty in a column that is always there.
struct Entries {
    values: Values,
    repetition: Vec<i16>,
    definition: Vec<i16>,
}

impl Entries {
    /// Reads the numbers of exactly `count` rows; those below the highest level are null.
    fn read(reader: &mut ColumnReader, count: usize, column: &ColumnDescriptor) -> Result<Self, TableError> {
        let defined = column.max_def_level();
        let (mut definition, mut repetition) = (Vec::new(), Vec::new());
        macro_rules! read {
            ($reader:expr, $convert:expr) => {{
                let mut values = Vec::new();
                let (records, ..) =
                    $reader.read_records(count, Some(&mut definition), Some(&mut repetition), &mut values)?;
                if records < count {
                    return Err(CrateError::EOF("a column ends before its row group".into()).into());
                }
                let mut values = values.into_iter().map($convert);
                if definition.is_empty() {
                    values.map(|value| value.map(Some)).collect::<Result<_, CrateError>>()?
                } else {
                    let value = |level: &i16| {
                        if *level == defined { values.next().transpose() } else { Ok(None) }
                    };
                    definition.iter().map(value).collect::<Result<_, CrateError>>()?
                }
            }};
        }
        let is_half = column.physical_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY
            && meaning::meaning_of(column).plain_dtype() == Some(Dtype::F4);
        let values = match reader {
            ColumnReader::BoolColumnReader(reader) => Values::Bool(read!(reader, Ok)),
            ColumnReader::Int32ColumnReader(reader) => Values::Int32(read!(reader, Ok)),
            ColumnReader::Int64ColumnReader(reader) => Values::Int64(read!(reader, Ok)),
            ColumnReader::FloatColumnReader(reader) => Values::Float(read!(reader, Ok)),
            ColumnReader::DoubleColumnReader(reader) => Values::Double(read!(reader, Ok)),
            ColumnReader::Int96ColumnReader(reader) => {
                Values::Wide(read!(reader, |time| Ok(nanos_since_1970(&time))))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                Values::Wide(read!(reader, |digits| integer_of(&digits)))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) if is_half => {
                Values::Float(read!(reader, |bytes| half_of(&bytes)))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                Values::Wide(read!(reader, |digits| integer_of(&digits)))
            }
        };
        Ok(Self { values, repetition, definition })
    }

    /// Arranges the numbers in rows of the same length. `Err` of the number of a row with another.
    fn regular(self, nesting: Nesting) -> Result<Values, usize> {
        let Self { values, repetition, .. } = self;
        Ok(match values {
            Values::Bool(values) => Values::Bool(regular(values, &repetition, nesting)?),
            Values::Int32(values) => Values::Int32(regular(values, &repetition, nesting)?),
            Values::Int64(values) => Values::Int64(regular(values, &repetition, nesting)?),
            Values::Float(values) => Values::Float(regular(values, &repetition, nesting)?),
            Values::Double(values) => Values::Double(regular(values, &repetition, nesting)?),
            Values::Wide(values) => Values::Wide(regular(values, &repetition, nesting)?),
        })
    }
}

/// Returns the length of the first list with elements in the next rows; `None` if there is none.
fn first_length(
    mut reader: ColumnReader,
    rows: usize,
    column: &ColumnDescriptor,
) -> Result<Option<usize>, TableError> {
    let Entries { definition, repetition, values } = Entries::read(&mut reader, rows, column)?;
    let element_level = element_level(column);
    let has_element = |at: &usize| definition.get(*at).is_none_or(|level| *level >= element_level);
    let Some(begin) = (0..values.len()).find(has_element) else { return Ok(None) };
    Ok(Some(1 + repetition[begin + 1..].iter().take_while(|level| **level > 0).count()))
}

/// Returns the lowest definition level at which there is an element, null or not.
fn element_level(column: &ColumnDescriptor) -> i16 {
    let is_optional = column.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
    column.max_def_level() - i16::from(is_optional)
}

/// Returns an INT96 as a time: nanoseconds of a day, and the day.
#[expect(clippy::cast_possible_wrap, reason = "the day is signed")]
fn nanos_since_1970(time: &Int96) -> i128 {
    let &[low, high, day] = time.data() else { unreachable!("an INT96 has three words") };
    (i128::from(day as i32) - FIRST_DAY) * NANOS_PER_DAY + (i128::from(high) << 32) + i128::from(low)
}

/// Returns the integer of a decimal's bytes: big-endian, two's complement.
fn integer_of(digits: &ByteArray) -> Result<i128, CrateError> {
    let bytes = digits.data();
    let too_long = || CrateError::General("a decimal has more than 16 bytes".into());
    let missing = 16_usize.checked_sub(bytes.len()).ok_or_else(too_long)?;
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { 0xFF } else { 0 };
    let mut wide = [sign; 16];
    wide[missing..].copy_from_slice(bytes);
    Ok(i128::from_be_bytes(wide))
}

/// Returns a float of two bytes.
fn half_of(bytes: &ByteArray) -> Result<f32, CrateError> {
    let two =
        bytes.data().try_into().map_err(|_| CrateError::General("a FLOAT16 has not two bytes".into()))?;
    Ok(f16::from_le_bytes(two).to_f32())
}

/// Arranges a column's values in rows of the same length; a complex number that is null counts as its two parts.
///
/// `Err` of the number of a row that has another shape. The repetition level of a number is the number of lists around
/// it that continue from the number before it: none at the beginning of a row, all but the innermost at that of a
/// complex number. Source: Dremel (Melnik et al. 2010, §4.1), as in Parquet's "Nested Encoding".
fn regular<T: Copy>(
    values: Vec<Option<T>>,
    repetition: &[i16],
    nesting: Nesting,
) -> Result<Vec<Option<T>>, usize> {
    if nesting.lists == 0 {
        return Ok(values);
    }
    let row_numbers = nesting.row_numbers();
    let mut regular = Vec::with_capacity(values.len());
    let mut entries = values.into_iter().zip(repetition.iter().copied()).peekable();
    while let Some((value, level)) = entries.next() {
        let (row, place) = (regular.len() / row_numbers, regular.len() % row_numbers);
        match (level, place) {
            (0, 0) => {}
            (0, _) => return Err(row),
            (_, 0) => return Err(row - 1),
            _ if nesting.parts == 2 && level == nesting.lists => return Err(row),
            _ => {}
        }
        regular.push(value);
        if nesting.parts == 2 {
            match entries.next_if(|(_, level)| *level == nesting.lists) {
                Some((imaginary, _)) => regular.push(imaginary),
                None if value.is_none() => regular.push(None),
                None => return Err(row),
            }
        }
    }
    if regular.len().is_multiple_of(row_numbers) { Ok(regular) } else { Err(regular.len() / row_numbers) }
}
