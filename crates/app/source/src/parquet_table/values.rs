//! Values of one column, from Parquet's few physical types to elements of any dtype.

use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError as CrateError;
use sample::Dtype;

use super::ParquetError;
use super::layout::{Column, Nesting};
use crate::numbers::push_f64;

/// Numbers of one column as Parquet stores them, row by row, `None` where null.
pub(super) enum Values {
    Bool(Vec<Option<bool>>),
    Int32(Vec<Option<i32>>),
    Int64(Vec<Option<i64>>),
    Float(Vec<Option<f32>>),
    Double(Vec<Option<f64>>),
}

/// Evaluates the same expression for every type of values.
macro_rules! with_values {
    ($values:expr, $inner:ident => $do:expr) => {
        match $values {
            Values::Bool($inner) => $do,
            Values::Int32($inner) => $do,
            Values::Int64($inner) => $do,
            Values::Float($inner) => $do,
            Values::Double($inner) => $do,
        }
    };
}

impl Values {
    /// Reads the numbers of exactly `count` rows of a column, as many in each.
    pub(super) fn of(reader: &mut ColumnReader, count: usize, column: &Column) -> Result<Self, ParquetError> {
        let other_shape =
            || ParquetError::Shape { column: column.name.clone(), shape: column.channel.shape.clone() };
        Self::read(reader, count, column.nesting)?.ok_or_else(other_shape)
    }

    /// Reads exactly `count` values of a column of single numbers.
    pub(super) fn plain(reader: &mut ColumnReader, count: usize) -> Result<Self, ParquetError> {
        // A value that is not null has the highest level, which is 1 in a column that may hold nulls.
        let single = Nesting { elements: 1, parts: 1, lists: 0, defined: 1 };
        Ok(Self::read(reader, count, single)?.expect("single numbers are of one shape"))
    }

    fn read(reader: &mut ColumnReader, count: usize, nesting: Nesting) -> Result<Option<Self>, ParquetError> {
        macro_rules! read {
            ($reader:expr) => {{
                let (mut definition, mut repetition, mut values) = (Vec::new(), Vec::new(), Vec::new());
                let (records, ..) =
                    $reader.read_records(count, Some(&mut definition), Some(&mut repetition), &mut values)?;
                if records < count {
                    return Err(CrateError::EOF("a column ends before its row group".into()).into());
                }
                // A column that cannot hold nulls has no levels.
                let mut values = values.into_iter();
                let values = if definition.is_empty() {
                    values.map(Some).collect()
                } else {
                    let value = |level: i16| if level == nesting.defined { values.next() } else { None };
                    definition.into_iter().map(value).collect()
                };
                regular(values, &repetition, nesting)
            }};
        }
        Ok(match reader {
            ColumnReader::BoolColumnReader(reader) => read!(reader).map(Self::Bool),
            ColumnReader::Int32ColumnReader(reader) => read!(reader).map(Self::Int32),
            ColumnReader::Int64ColumnReader(reader) => read!(reader).map(Self::Int64),
            ColumnReader::FloatColumnReader(reader) => read!(reader).map(Self::Float),
            ColumnReader::DoubleColumnReader(reader) => read!(reader).map(Self::Double),
            _ => return Err(CrateError::NYI("columns of other types are refused on opening".into()).into()),
        })
    }

    fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Returns the positions of the nulls.
    pub(super) fn nulls(&self) -> Vec<usize> {
        with_values!(self, values => {
            values.iter().enumerate().filter(|(_, value)| value.is_none()).map(|(place, _)| place).collect()
        })
    }

    /// Returns the position of the first value that is not a finite number.
    pub(super) fn not_finite(&self) -> Option<usize> {
        match self {
            Self::Float(values) => values.iter().position(|value| value.is_some_and(|it| !it.is_finite())),
            Self::Double(values) => values.iter().position(|value| value.is_some_and(|it| !it.is_finite())),
            Self::Bool(_) | Self::Int32(_) | Self::Int64(_) => None,
        }
    }

    /// Returns the values as times, `None` for invalid ones. Units: nanoseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a time in a float is no better"
    )]
    pub(super) fn times(self, nanos_per_unit: i128) -> Vec<Option<i128>> {
        let of_float =
            |value: f64| value.is_finite().then(|| (value * nanos_per_unit as f64).round() as i128);
        let of_integer = |value: i64| i128::from(value) * nanos_per_unit;
        match self {
            Self::Int32(values) => values.into_iter().map(|it| it.map(|it| of_integer(it.into()))).collect(),
            Self::Int64(values) => values.into_iter().map(|it| it.map(of_integer)).collect(),
            Self::Float(values) => {
                values.into_iter().map(|it| it.and_then(|it| of_float(it.into()))).collect()
            }
            Self::Double(values) => values.into_iter().map(|it| it.and_then(of_float)).collect(),
            Self::Bool(values) => vec![None; values.len()],
        }
    }

    /// Returns the values as sample indices, `None` for invalid ones.
    pub(super) fn indices(&self) -> Vec<Option<u64>> {
        match self {
            Self::Int32(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Int64(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Bool(_) | Self::Float(_) | Self::Double(_) => vec![None; self.len()],
        }
    }

    /// Appends the values as elements: unchanged if the types agree, else converted through a float.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "narrow and unsigned integers are stored in the wide signed ones' bits"
    )]
    pub(super) fn append(&self, actual: Dtype, target: Dtype, out: &mut Vec<u8>) {
        macro_rules! each {
            ($values:expr, $null:expr, $value:ident => $exact:expr) => {
                for value in $values {
                    let $value = value.unwrap_or($null);
                    out.extend_from_slice(&$exact);
                }
            };
        }
        if actual != target {
            return self.append_as_float(actual, target, out);
        }
        match (self, actual) {
            (Self::Bool(values), _) => each!(values, false, value => [u8::from(value)]),
            (Self::Int32(values), Dtype::I8 | Dtype::U8) => each!(values, 0, value => [value as u8]),
            (Self::Int32(values), Dtype::I16 | Dtype::U16) => {
                each!(values, 0, value => (value as u16).to_le_bytes())
            }
            (Self::Int32(values), _) => each!(values, 0, value => value.to_le_bytes()),
            (Self::Int64(values), _) => each!(values, 0, value => value.to_le_bytes()),
            (Self::Float(values), _) => each!(values, f32::NAN, value => value.to_le_bytes()),
            (Self::Double(values), _) => each!(values, f64::NAN, value => value.to_le_bytes()),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "64-bit integers come here only when a float was asked for"
    )]
    #[expect(clippy::cast_sign_loss, reason = "unsigned integers are stored in the signed ones' bits")]
    fn append_as_float(&self, actual: Dtype, target: Dtype, out: &mut Vec<u8>) {
        let mut push = |value: Option<f64>| push_f64(value.unwrap_or(f64::NAN), target, out);
        match (self, actual) {
            (Self::Bool(values), _) => {
                values.iter().for_each(|value| push(value.map(|value| f64::from(u8::from(value)))))
            }
            (Self::Int32(values), Dtype::U32) => {
                values.iter().for_each(|value| push(value.map(|value| f64::from(value as u32))));
            }
            (Self::Int32(values), _) => values.iter().for_each(|value| push(value.map(f64::from))),
            (Self::Int64(values), Dtype::U64) => {
                values.iter().for_each(|value| push(value.map(|value| value as u64 as f64)));
            }
            (Self::Int64(values), _) => values.iter().for_each(|value| push(value.map(|value| value as f64))),
            (Self::Float(values), _) => values.iter().for_each(|value| push(value.map(f64::from))),
            (Self::Double(values), _) => values.iter().for_each(|value| push(*value)),
        }
    }
}

/// Arranges a column's values in rows of the same length; a complex number that is null counts as its two parts.
///
/// `None` if a row has another shape. The repetition level of a number is the number of lists around it that continue
/// from the number before it: none at the beginning of a row, all but the innermost at that of a complex number.
/// Source: Dremel (Melnik et al. 2010, §4.1), as in Parquet's "Nested Encoding".
fn regular<T: Copy>(values: Vec<Option<T>>, repetition: &[i16], nesting: Nesting) -> Option<Vec<Option<T>>> {
    if nesting.lists == 0 {
        return Some(values);
    }
    let row = nesting.row_numbers();
    let mut regular = Vec::with_capacity(values.len());
    let mut entries = values.into_iter().zip(repetition.iter().copied()).peekable();
    while let Some((value, level)) = entries.next() {
        let begins_row = regular.len().is_multiple_of(row);
        let begins_element = nesting.parts == 1 || level < nesting.lists;
        if (level == 0) != begins_row || !begins_element {
            return None;
        }
        regular.push(value);
        if nesting.parts == 2 {
            match entries.next_if(|(_, level)| *level == nesting.lists) {
                Some((imaginary, _)) => regular.push(imaginary),
                None if value.is_none() => regular.push(None),
                None => return None,
            }
        }
    }
    regular.len().is_multiple_of(row).then_some(regular)
}
