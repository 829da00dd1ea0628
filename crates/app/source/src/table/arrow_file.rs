//! Arrow IPC files and streams, which are also Feather files of version 2: columns are read batch by batch.
//!
//! The segments of an archive are such streams. Batches may be compressed with LZ4 or zstd.
//!
//! Source: Apache Arrow columnar format, "Serialization and Interprocess Communication"; `Schema.fbs`.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef, TimeUnit};
use sample::Dtype;

use super::described::KEY;
use super::layout::{Leaf, Nesting};
use super::meaning::{Meaning, NANOS_PER_DAY, TimesZone};
use super::values::Values;
use super::{ColumnFile, Rows, TableError, arrow_places};

/// First bytes of a file; a stream begins with its first message.
pub(super) const MAGIC: &[u8] = b"ARROW1";
/// First bytes of a Feather file of version 1.
const OLD_FEATHER: &[u8] = b"FEA1";
/// First bytes of a message in a stream.
pub(super) const CONTINUATION: &[u8] = &[0xFF; 4];

/// Returns whether a file is one of Arrow, by its first bytes.
pub(crate) fn is_arrow(start: &[u8]) -> bool {
    [MAGIC, OLD_FEATHER, CONTINUATION].iter().any(|magic| start.starts_with(magic))
}

/// Arrow file or stream.
pub(super) struct ArrowFile {
    file: File,
    schema: SchemaRef,
    leaves: Vec<Leaf>,
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Rows of some columns of an Arrow file.
struct ArrowRows {
    batches: Batches,
    batch: Option<RecordBatch>,
    /// Rows of the batch that are in the current run.
    run: std::ops::Range<usize>,
}

impl ArrowFile {
    /// Opens a file and reads its schema.
    pub(super) fn open(path: &Path) -> Result<Self, TableError> {
        let file = File::open(path)?;
        arrow_places::check(&file)?;
        let schema = opened(&file, None)?.1;
        let leaves = schema.fields().iter().map(|field| leaf_of(field)).collect();
        Ok(Self { file, schema, leaves })
    }
}

/// Opens the batches of a file, with some of its columns, and returns the schema of the file.
fn opened(file: &File, columns: Option<Vec<usize>>) -> Result<(Batches, SchemaRef), TableError> {
    let mut reader = BufReader::new(file.try_clone()?);
    reader.rewind()?;
    let mut start = Vec::new();
    reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut start)?;
    reader.rewind()?;
    if start.starts_with(OLD_FEATHER) {
        return Err(TableError::OldFeather);
    }
    if start == MAGIC {
        let batches = FileReader::try_new(reader, columns)?;
        let schema = batches.schema();
        return Ok((Box::new(batches), schema));
    }
    let batches = StreamReader::try_new(reader, columns)?;
    let schema = batches.schema();
    Ok((Box::new(batches), schema))
}

impl ColumnFile for ArrowFile {
    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn description(&self) -> Option<String> {
        self.schema.metadata().get(KEY).cloned()
    }

    fn begin(&self, leaves: &[usize]) -> Result<Box<dyn Rows>, TableError> {
        let (batches, _) = opened(&self.file, Some(leaves.to_vec()))?;
        Ok(Box::new(ArrowRows { batches, batch: None, run: 0..0 }))
    }

    fn first_length(&self, leaf: usize) -> Result<Option<usize>, TableError> {
        for batch in opened(&self.file, Some(vec![leaf]))?.0 {
            let length = first_length(batch?.column(0));
            if length.is_some() {
                return Ok(length);
            }
        }
        Ok(None)
    }
}

impl Rows for ArrowRows {
    fn advance(&mut self, at_most: usize) -> Result<usize, TableError> {
        while self.batch.as_ref().is_none_or(|batch| self.run.end == batch.num_rows()) {
            let Some(batch) = self.batches.next().transpose()? else {
                (self.batch, self.run) = (None, 0..0);
                return Ok(0);
            };
            (self.batch, self.run) = (Some(batch), 0..0);
        }
        let rows = self.batch.as_ref().map_or(0, RecordBatch::num_rows);
        self.run = self.run.end..(self.run.end + at_most).min(rows);
        Ok(self.run.len())
    }

    fn read(&mut self, place: usize, nesting: Nesting) -> Result<Result<Values, usize>, TableError> {
        let batch = self.batch.as_ref().expect("a run is within a batch");
        Ok(values_of(batch.column(place), self.run.clone(), nesting))
    }
}

fn leaf_of(field: &Field) -> Leaf {
    let (mut inner, mut lists) = (field.data_type(), 0);
    while let DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) = inner {
        (inner, lists) = (item.data_type(), lists + 1);
    }
    let is_grouped = matches!(inner, DataType::Struct(_) | DataType::Map(..));
    Leaf { name: field.name().clone(), meaning: meaning_of(inner), lists, is_grouped }
}

fn meaning_of(data_type: &DataType) -> Meaning {
    Meaning::plain(match data_type {
        DataType::Boolean => Dtype::Bool,
        DataType::Int8 => Dtype::I8,
        DataType::Int16 => Dtype::I16,
        DataType::Int32 => Dtype::I32,
        DataType::Int64 => Dtype::I64,
        DataType::UInt8 => Dtype::U8,
        DataType::UInt16 => Dtype::U16,
        DataType::UInt32 => Dtype::U32,
        DataType::UInt64 => Dtype::U64,
        DataType::Float16 | DataType::Float32 => Dtype::F4,
        DataType::Float64 => Dtype::F8,
        DataType::Decimal32(_, scale) => return Meaning::decimals(Dtype::I32, (*scale).into()),
        DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            return Meaning::decimals(Dtype::I64, (*scale).into());
        }
        DataType::Date32 => return Meaning::times(NANOS_PER_DAY),
        DataType::Date64 => return Meaning::times(1_000_000),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => {
            return Meaning::times(nanos_of(*unit));
        }
        DataType::Timestamp(unit, zone) => {
            // With any zone the values count from 1970 in UTC.
            let zone = if zone.is_some() { TimesZone::Utc } else { TimesZone::Local };
            return Meaning::Times { nanos_per_unit: nanos_of(*unit), zone };
        }
        other => return Meaning::Other(format!("{other}")),
    })
}

/// Returns the number of nanoseconds in a unit.
pub(super) const fn nanos_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// List of a row: the places of its items among those of the whole column.
fn items_of(array: &dyn Array, row: usize) -> std::ops::Range<usize> {
    match array.data_type() {
        DataType::List(_) => {
            let offsets = array.as_list::<i32>().value_offsets();
            place(offsets[row])..place(offsets[row + 1])
        }
        DataType::LargeList(_) => {
            let offsets = array.as_list::<i64>().value_offsets();
            place(offsets[row])..place(offsets[row + 1])
        }
        _ => {
            let list = array.as_fixed_size_list();
            list.value_offset_at(row)..list.value_offset_at(row + 1)
        }
    }
}

fn place<T: TryInto<usize, Error: std::fmt::Debug>>(offset: T) -> usize {
    offset.try_into().expect("offsets were checked when the batch was read")
}

fn inner_of(array: &dyn Array) -> &ArrayRef {
    match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().values(),
        DataType::LargeList(_) => array.as_list::<i64>().values(),
        _ => array.as_fixed_size_list().values(),
    }
}

/// Returns the length of the first list with elements; `None` if there is none.
fn first_length(array: &dyn Array) -> Option<usize> {
    let lists = (0..array.len()).filter(|row| array.is_valid(*row));
    lists.map(|row| items_of(array, row).len()).find(|length| *length > 0)
}

/// Reads the numbers of some rows, as many in each. `Err` of the number of a row with another number of them.
///
/// A complex number that is null counts as its two parts.
fn values_of(array: &dyn Array, rows: std::ops::Range<usize>, nesting: Nesting) -> Result<Values, usize> {
    let (mut array, count) = (array, rows.len());
    let mut places: Vec<Option<usize>> = rows.map(Some).collect();
    for list in 0..nesting.lists {
        let is_innermost = list + 1 == nesting.lists;
        let is_complex = is_innermost && nesting.parts > 1;
        let length = if is_complex { nesting.parts } else { nesting.elements };
        let mut items = Vec::with_capacity(places.len() * length);
        for (at, place) in places.iter().enumerate() {
            match place.filter(|place| array.is_valid(*place)) {
                Some(place) if items_of(array, place).len() == length => {
                    items.extend(items_of(array, place).map(Some));
                }
                None if is_complex || length == 1 => items.extend(std::iter::repeat_n(None, length)),
                _ => return Err(at / (places.len() / count)),
            }
        }
        (places, array) = (items, inner_of(array));
    }
    Ok(at_places(array, &places))
}

/// Reads the numbers at some places, `None` where they are null.
fn at_places(array: &dyn Array, places: &[Option<usize>]) -> Values {
    use DataType as Type;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let ints = |values| Values::Int32(values);
    let longs = |values| Values::Int64(values);
    match array.data_type() {
        Type::Boolean => {
            let values = array.as_boolean();
            let value = |place: &Option<usize>| {
                place.filter(|place| values.is_valid(*place)).map(|place| values.value(place))
            };
            Values::Bool(places.iter().map(value).collect())
        }
        Type::Int8 => ints(picked::<Int8Type, _>(array, places, i32::from)),
        Type::Int16 => ints(picked::<Int16Type, _>(array, places, i32::from)),
        Type::Int32 => ints(picked::<Int32Type, _>(array, places, |it| it)),
        Type::UInt8 => ints(picked::<UInt8Type, _>(array, places, i32::from)),
        Type::UInt16 => ints(picked::<UInt16Type, _>(array, places, i32::from)),
        Type::UInt32 => ints(picked::<UInt32Type, _>(array, places, u32::cast_signed)),
        Type::Date32 => ints(picked::<Date32Type, _>(array, places, |it| it)),
        Type::Time32(Second) => ints(picked::<Time32SecondType, _>(array, places, |it| it)),
        Type::Time32(_) => ints(picked::<Time32MillisecondType, _>(array, places, |it| it)),
        Type::Int64 => longs(picked::<Int64Type, _>(array, places, |it| it)),
        Type::UInt64 => longs(picked::<UInt64Type, _>(array, places, u64::cast_signed)),
        Type::Date64 => longs(picked::<Date64Type, _>(array, places, |it| it)),
        Type::Time64(Microsecond) => longs(picked::<Time64MicrosecondType, _>(array, places, |it| it)),
        Type::Time64(_) => longs(picked::<Time64NanosecondType, _>(array, places, |it| it)),
        Type::Timestamp(Second, _) => longs(picked::<TimestampSecondType, _>(array, places, |it| it)),
        Type::Timestamp(Millisecond, _) => {
            longs(picked::<TimestampMillisecondType, _>(array, places, |it| it))
        }
        Type::Timestamp(Microsecond, _) => {
            longs(picked::<TimestampMicrosecondType, _>(array, places, |it| it))
        }
        Type::Timestamp(Nanosecond, _) => longs(picked::<TimestampNanosecondType, _>(array, places, |it| it)),
        Type::Duration(Second) => longs(picked::<DurationSecondType, _>(array, places, |it| it)),
        Type::Duration(Millisecond) => longs(picked::<DurationMillisecondType, _>(array, places, |it| it)),
        Type::Duration(Microsecond) => longs(picked::<DurationMicrosecondType, _>(array, places, |it| it)),
        Type::Duration(Nanosecond) => longs(picked::<DurationNanosecondType, _>(array, places, |it| it)),
        Type::Float16 => Values::Float(picked::<Float16Type, _>(array, places, half::f16::to_f32)),
        Type::Float32 => Values::Float(picked::<Float32Type, _>(array, places, |it| it)),
        Type::Float64 => Values::Double(picked::<Float64Type, _>(array, places, |it| it)),
        Type::Decimal32(..) => Values::Wide(picked::<Decimal32Type, _>(array, places, i128::from)),
        Type::Decimal64(..) => Values::Wide(picked::<Decimal64Type, _>(array, places, i128::from)),
        Type::Decimal128(..) => Values::Wide(picked::<Decimal128Type, _>(array, places, |it| it)),
        other => unreachable!("columns of {other} are refused when the table is opened"),
    }
}

fn picked<T: ArrowPrimitiveType, V>(
    array: &dyn Array,
    places: &[Option<usize>],
    value: impl Fn(T::Native) -> V,
) -> Vec<Option<V>> {
    let values = array.as_primitive::<T>();
    let pick = |place: &Option<usize>| {
        place.filter(|place| values.is_valid(*place)).map(|place| value(values.value(place)))
    };
    places.iter().map(pick).collect()
}
