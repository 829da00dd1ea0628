//! Meaning of a Parquet column: numbers, times, or something that is no channel.
//!
//! It stands in the logical type, in older files in the converted type alone, and in the oldest in the physical type.
//!
//! Source: Apache Parquet format, "Logical Types".

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::schema::types::ColumnDescriptor;
use sample::Dtype;

const NANOS_PER_DAY: i128 = 86_400_000_000_000;
/// Largest decimal that is read: sixteen bytes hold 38 digits.
const MAX_DECIMAL_BYTES: i32 = 16;

/// Meaning of a column's values.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Meaning {
    /// Numbers of a dtype; decimals are integers times a power of ten.
    Numbers { dtype: Dtype, decimals: u32 },
    /// Times since 1970, or since midnight.
    Times { nanos_per_unit: i128 },
    /// Description of anything else.
    Other(String),
}

impl Meaning {
    /// Returns the meaning of a column.
    pub(super) fn of(column: &ColumnDescriptor) -> Self {
        match column.logical_type_ref() {
            Some(logical) => of_logical(logical, column),
            None => of_converted(column),
        }
    }

    /// Returns the dtype of plain numbers.
    pub(super) const fn plain_dtype(&self) -> Option<Dtype> {
        if let Self::Numbers { dtype, decimals: 0 } = self { Some(*dtype) } else { None }
    }
}

fn of_logical(logical: &LogicalType, column: &ColumnDescriptor) -> Meaning {
    match logical {
        LogicalType::Integer(integer) => of_integer(integer.bit_width, integer.is_signed, column),
        LogicalType::Decimal(decimal) => of_decimal(decimal.scale, column),
        LogicalType::Float16 => plain(Dtype::F4),
        LogicalType::Timestamp(time) | LogicalType::Time(time) => times(match time.unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        }),
        LogicalType::Date => times(NANOS_PER_DAY),
        other => Meaning::Other(format!("{other:?}")),
    }
}

fn of_converted(column: &ColumnDescriptor) -> Meaning {
    let (bits, signed) = match column.converted_type() {
        ConvertedType::NONE => return of_physical(column),
        ConvertedType::DECIMAL => return of_decimal(column.type_scale(), column),
        ConvertedType::DATE => return times(NANOS_PER_DAY),
        ConvertedType::TIME_MILLIS | ConvertedType::TIMESTAMP_MILLIS => return times(1_000_000),
        ConvertedType::TIME_MICROS | ConvertedType::TIMESTAMP_MICROS => return times(1_000),
        ConvertedType::INT_8 => (8, true),
        ConvertedType::INT_16 => (16, true),
        ConvertedType::INT_32 => (32, true),
        ConvertedType::INT_64 => (64, true),
        ConvertedType::UINT_8 => (8, false),
        ConvertedType::UINT_16 => (16, false),
        ConvertedType::UINT_32 => (32, false),
        ConvertedType::UINT_64 => (64, false),
        other => return Meaning::Other(format!("{other:?}")),
    };
    of_integer(bits, signed, column)
}

fn of_physical(column: &ColumnDescriptor) -> Meaning {
    match column.physical_type() {
        PhysicalType::BOOLEAN => plain(Dtype::Bool),
        PhysicalType::INT32 => plain(Dtype::I32),
        PhysicalType::INT64 => plain(Dtype::I64),
        PhysicalType::FLOAT => plain(Dtype::F4),
        PhysicalType::DOUBLE => plain(Dtype::F8),
        // Nanoseconds of a day and the day: a time, whatever wrote it.
        PhysicalType::INT96 => times(1),
        other => Meaning::Other(format!("{other}")),
    }
}

fn of_integer(bits: i8, signed: bool, column: &ColumnDescriptor) -> Meaning {
    plain(match (column.physical_type(), bits, signed) {
        (PhysicalType::INT32, 8, true) => Dtype::I8,
        (PhysicalType::INT32, 8, false) => Dtype::U8,
        (PhysicalType::INT32, 16, true) => Dtype::I16,
        (PhysicalType::INT32, 16, false) => Dtype::U16,
        (PhysicalType::INT32, _, true) => Dtype::I32,
        (PhysicalType::INT32, _, false) => Dtype::U32,
        (PhysicalType::INT64, _, true) => Dtype::I64,
        (PhysicalType::INT64, _, false) => Dtype::U64,
        (other, ..) => return Meaning::Other(format!("{other}")),
    })
}

/// Returns the meaning of a decimal: its digits as an integer, whose scale is the channel's.
fn of_decimal(scale: i32, column: &ColumnDescriptor) -> Meaning {
    let dtype = match column.physical_type() {
        PhysicalType::INT32 => Dtype::I32,
        PhysicalType::FIXED_LEN_BYTE_ARRAY if column.type_length() > MAX_DECIMAL_BYTES => {
            return Meaning::Other("decimals of more than 38 digits".to_owned());
        }
        _ => Dtype::I64,
    };
    match u32::try_from(scale) {
        Ok(decimals) => Meaning::Numbers { dtype, decimals },
        Err(_) => Meaning::Other("decimals with a negative scale".to_owned()),
    }
}

const fn plain(dtype: Dtype) -> Meaning {
    Meaning::Numbers { dtype, decimals: 0 }
}

const fn times(nanos_per_unit: i128) -> Meaning {
    Meaning::Times { nanos_per_unit }
}
