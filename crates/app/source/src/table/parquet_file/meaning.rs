//! Meaning of a Parquet column.
//!
//! It stands in the logical type, in older files in the converted type alone, and in the oldest in the physical type.
//!
//! Source: Apache Parquet format, "Logical Types".

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::schema::types::ColumnDescriptor;
use sample::Dtype;

use super::super::meaning::{Meaning, NANOS_PER_DAY, TimesZone};

/// Largest decimal that is read: sixteen bytes hold 38 digits.
const MAX_DECIMAL_BYTES: i32 = 16;

/// Returns the meaning of a column.
pub(super) fn meaning_of(column: &ColumnDescriptor) -> Meaning {
    match column.logical_type_ref() {
        Some(logical) => of_logical(logical, column),
        None => of_converted(column),
    }
}

fn of_logical(logical: &LogicalType, column: &ColumnDescriptor) -> Meaning {
    match logical {
        LogicalType::Integer(integer) => of_integer(integer.bit_width, integer.is_signed, column),
        LogicalType::Decimal(decimal) => of_decimal(decimal.scale, column),
        LogicalType::Float16 => Meaning::plain(Dtype::F4),
        LogicalType::Timestamp(time) => Meaning::Times {
            nanos_per_unit: nanos_of(&time.unit),
            zone: if time.is_adjusted_to_u_t_c { TimesZone::Utc } else { TimesZone::Local },
        },
        LogicalType::Time(time) => Meaning::times(nanos_of(&time.unit)),
        LogicalType::Date => Meaning::times(NANOS_PER_DAY),
        other => Meaning::Other(format!("{other:?}")),
    }
}

const fn nanos_of(unit: &TimeUnit) -> i128 {
    match unit {
        TimeUnit::MILLIS => 1_000_000,
        TimeUnit::MICROS => 1_000,
        TimeUnit::NANOS => 1,
    }
}

fn of_converted(column: &ColumnDescriptor) -> Meaning {
    let (bits, signed) = match column.converted_type() {
        ConvertedType::NONE => return of_physical(column),
        ConvertedType::DECIMAL => return of_decimal(column.type_scale(), column),
        ConvertedType::DATE => return Meaning::times(NANOS_PER_DAY),
        ConvertedType::TIME_MILLIS | ConvertedType::TIMESTAMP_MILLIS => return Meaning::times(1_000_000),
        ConvertedType::TIME_MICROS | ConvertedType::TIMESTAMP_MICROS => return Meaning::times(1_000),
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
        PhysicalType::BOOLEAN => Meaning::plain(Dtype::Bool),
        PhysicalType::INT32 => Meaning::plain(Dtype::I32),
        PhysicalType::INT64 => Meaning::plain(Dtype::I64),
        PhysicalType::FLOAT => Meaning::plain(Dtype::F4),
        PhysicalType::DOUBLE => Meaning::plain(Dtype::F8),
        // Nanoseconds of a day and the day: a time, whatever wrote it.
        PhysicalType::INT96 => Meaning::times(1),
        other => Meaning::Other(format!("{other}")),
    }
}

fn of_integer(bits: i8, signed: bool, column: &ColumnDescriptor) -> Meaning {
    Meaning::plain(match (column.physical_type(), bits, signed) {
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

fn of_decimal(scale: i32, column: &ColumnDescriptor) -> Meaning {
    match column.physical_type() {
        PhysicalType::INT32 => Meaning::decimals(Dtype::I32, scale),
        PhysicalType::FIXED_LEN_BYTE_ARRAY if column.type_length() > MAX_DECIMAL_BYTES => {
            Meaning::Other("decimals of more than 38 digits".to_owned())
        }
        _ => Meaning::decimals(Dtype::I64, scale),
    }
}
