//! Layout of a Parquet table: names and types of columns, and the order of a sample's elements in them.
//!
//! Single numbers are read from any table. Lists are arrays or complex numbers, which only the description of an
//! archive's table distinguishes; without one they are refused.

use parquet::basic::{LogicalType, TimeUnit, Type as PhysicalType};
use parquet::schema::types::ColumnDescriptor;
use sample::{Channel, Dtype, Schema};

use super::ParquetError;
use crate::columns::{channel_name, is_leading};
use crate::numbers::heading;

/// Column that becomes a channel.
pub(super) struct Column {
    /// Number of the leaf column in the file.
    pub(super) leaf: usize,
    pub(super) name: String,
    /// Type of its elements.
    pub(super) dtype: Dtype,
    pub(super) channel: Channel,
    pub(super) nesting: Nesting,
}

/// Structure of a row's elements in a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nesting {
    /// Number of elements in one row.
    pub(super) elements: usize,
    /// Number of numbers in one element: two if it is complex.
    pub(super) parts: usize,
    /// Number of lists around a number.
    pub(super) lists: i16,
    /// Definition level at which nothing is null.
    pub(super) defined: i16,
}

impl Nesting {
    /// Returns the number of numbers in a row.
    pub(super) const fn row_numbers(self) -> usize {
        self.elements * self.parts
    }
}

impl Column {
    /// Examines a leaf column: described, if it still matches the description, or of single numbers.
    pub(super) fn new(
        leaf: usize,
        descriptor: &ColumnDescriptor,
        described: Option<&Schema>,
    ) -> Result<Self, ParquetError> {
        let name = column_name(descriptor);
        if let Some((channel, nesting)) = described.and_then(|schema| as_described(descriptor, &name, schema))
        {
            let dtype = described.expect("the channel is its").dtype;
            return Ok(Self { leaf, name, dtype, channel: channel.clone(), nesting });
        }
        check_flat(descriptor, &name)?;
        let dtype = number_dtype(descriptor)
            .map_err(|holds| ParquetError::NotNumbers { column: name.clone(), holds })?;
        let read = heading(&name, leaf);
        let channel = Channel::new(channel_name(&read.name), read.unit);
        let nesting = Nesting { elements: 1, parts: 1, lists: 0, defined: descriptor.max_def_level() };
        Ok(Self { leaf, name, dtype, channel, nesting })
    }
}

/// Returns the heading by which a column is chosen: for a described one its name unchanged.
pub(super) fn heading_of(leaf: usize, descriptor: &ColumnDescriptor, described: Option<&Schema>) -> Channel {
    let name = column_name(descriptor);
    if described.is_some() { Channel::new(name, "") } else { heading(&name, leaf) }
}

/// Returns a column's name: for a list that of the list, not of its content.
fn column_name(descriptor: &ColumnDescriptor) -> String {
    let path = descriptor.path();
    if descriptor.max_rep_level() > 0 { path.parts()[0].clone() } else { path.string() }
}

/// Rejects lists and nested groups.
pub(super) fn check_flat(descriptor: &ColumnDescriptor, name: &str) -> Result<(), ParquetError> {
    if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        let (column, holds) = (name.to_owned(), "lists or nested groups".to_owned());
        return Err(ParquetError::NotNumbers { column, holds });
    }
    Ok(())
}

/// Returns the channel of a column by the description, and the structure of its elements; `None` if it has none, or
/// no longer matches.
fn as_described<'a>(
    descriptor: &ColumnDescriptor,
    name: &str,
    schema: &'a Schema,
) -> Option<(&'a Channel, Nesting)> {
    let is_it = |channel: &&Channel| channel.name == channel_name(name) && !is_leading(name);
    let channel = schema.channels.iter().find(is_it)?;
    let (part, parts) = parts_of(schema.dtype);
    let lists = i16::from(!channel.shape.is_empty()) + i16::from(parts > 1);
    if descriptor.max_rep_level() != lists || number_dtype(descriptor) != Ok(part) {
        return None;
    }
    let elements = channel.elements().expect("a checked schema") as usize;
    Some((channel, Nesting { elements, parts, lists, defined: descriptor.max_def_level() }))
}

/// Returns the type of the numbers in an element, and their number.
pub(super) const fn parts_of(dtype: Dtype) -> (Dtype, usize) {
    match dtype {
        Dtype::C8 => (Dtype::F4, 2),
        Dtype::C16 => (Dtype::F8, 2),
        real => (real, 1),
    }
}

/// Returns the dtype of the numbers in a column, or else a description of its content.
fn number_dtype(column: &ColumnDescriptor) -> Result<Dtype, String> {
    let integer = match column.logical_type_ref() {
        None => None,
        Some(LogicalType::Integer(integer)) => Some((integer.bit_width, integer.is_signed)),
        Some(other) => return Err(format!("{other:?}")),
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
        (other, _) => Err(format!("{other}")),
    }
}

/// Returns the type that keeps every digit of all columns, or the requested one.
pub(super) fn common_dtype(columns: &[Column], asked: Option<Dtype>) -> Result<Dtype, ParquetError> {
    let first = &columns[0];
    let other = columns.iter().find(|column| column.dtype != first.dtype);
    let is_complex = |column: &Column| matches!(column.dtype, Dtype::C8 | Dtype::C16);
    match (asked, other) {
        (Some(asked @ (Dtype::F4 | Dtype::F8)), _) if !columns.iter().any(is_complex) => Ok(asked),
        (Some(asked), None) if asked == first.dtype => Ok(asked),
        (Some(asked), _) => Err(ParquetError::WrongDtype { actual: first.dtype, asked }),
        (None, None) => Ok(first.dtype),
        (None, Some(second)) => {
            let is_wide = |column: &Column| matches!(column.dtype, Dtype::I64 | Dtype::U64);
            if !columns.iter().any(|column| is_wide(column) || is_complex(column)) {
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

/// Returns the unit of a column of time stamps in nanoseconds.
pub(super) fn timestamp_unit(column: &ColumnDescriptor) -> Option<i128> {
    match column.logical_type_ref()? {
        LogicalType::Timestamp(timestamp) => Some(match timestamp.unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        }),
        _ => None,
    }
}
