//! What the columns of a Parquet table are: names, types, and how the elements of a sample lie in them.
//!
//! Single numbers are read from everybody's tables. Lists are arrays and complex numbers, which only the
//! description of an archive's table tells apart; without one they are refused.

use parquet::basic::{LogicalType, TimeUnit, Type as PhysicalType};
use parquet::schema::types::ColumnDescriptor;
use sample::{Channel, Dtype, Schema};

use super::ParquetError;
use crate::columns::{channel_name, is_leading};
use crate::numbers::heading;

/// A column that becomes a channel.
pub(super) struct Column {
    /// Which of the file's leaf columns.
    pub(super) leaf: usize,
    pub(super) name: String,
    /// The type of its elements.
    pub(super) dtype: Dtype,
    pub(super) channel: Channel,
    pub(super) nesting: Nesting,
}

/// How the elements of a row lie in a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nesting {
    /// Elements in one row.
    pub(super) elements: usize,
    /// Numbers in one element: two where it is complex.
    pub(super) parts: usize,
    /// Lists around a number.
    pub(super) lists: i16,
    /// The level at which nothing is null.
    pub(super) defined: i16,
}

impl Nesting {
    /// Returns how many numbers a row has.
    pub(super) const fn row_numbers(self) -> usize {
        self.elements * self.parts
    }
}

impl Column {
    /// Looks at a leaf column: described, if it is still what the description says, or of single numbers.
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

/// Returns the heading under which a column is chosen: of a described one its name as it stands.
pub(super) fn heading_of(leaf: usize, descriptor: &ColumnDescriptor, described: Option<&Schema>) -> Channel {
    let name = column_name(descriptor);
    if described.is_some() { Channel::new(name, "") } else { heading(&name, leaf) }
}

/// Returns a column's name: of a list that of the list, not of what is in it.
fn column_name(descriptor: &ColumnDescriptor) -> String {
    let path = descriptor.path();
    if descriptor.max_rep_level() > 0 { path.parts()[0].clone() } else { path.string() }
}

/// Refuses lists and nested groups.
pub(super) fn check_flat(descriptor: &ColumnDescriptor, name: &str) -> Result<(), ParquetError> {
    if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        let (column, holds) = (name.to_owned(), "lists or nested groups".to_owned());
        return Err(ParquetError::NotNumbers { column, holds });
    }
    Ok(())
}

/// Returns the channel that a column is by the description, and how its elements lie; `None` if it is not one, or
/// not any more.
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

/// Returns the type of the numbers that an element is made of, and how many they are.
pub(super) const fn parts_of(dtype: Dtype) -> (Dtype, usize) {
    match dtype {
        Dtype::C8 => (Dtype::F4, 2),
        Dtype::C16 => (Dtype::F8, 2),
        real => (real, 1),
    }
}

/// Returns the dtype of the numbers in a column, or what it holds instead.
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

/// Returns the type that keeps every digit of all columns, or the one asked for.
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
