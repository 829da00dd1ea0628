//! The values of one column, from Parquet's few physical types to elements of any dtype.

use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError as CrateError;
use sample::Dtype;

use super::ParquetError;
use crate::NanPolicy;
use crate::numbers::push_f64;

/// Values of one column as Parquet stores them, `None` where null.
pub(super) enum Values {
    Bool(Vec<Option<bool>>),
    Int32(Vec<Option<i32>>),
    Int64(Vec<Option<i64>>),
    Float(Vec<Option<f32>>),
    Double(Vec<Option<f64>>),
}

impl Values {
    /// Reads exactly `count` values.
    pub(super) fn read(reader: &mut ColumnReader, count: usize) -> Result<Self, ParquetError> {
        macro_rules! read {
            ($reader:expr) => {{
                let (mut levels, mut values) = (Vec::new(), Vec::new());
                let (records, ..) = $reader.read_records(count, Some(&mut levels), None, &mut values)?;
                if records < count {
                    return Err(CrateError::EOF("a column ends before its row group".into()).into());
                }
                // A required column has no levels; in others a level of zero is a null, since lists and
                // nested groups were refused.
                let mut values = values.into_iter();
                if levels.is_empty() {
                    values.map(Some).collect()
                } else {
                    levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect()
                }
            }};
        }
        Ok(match reader {
            ColumnReader::BoolColumnReader(reader) => Self::Bool(read!(reader)),
            ColumnReader::Int32ColumnReader(reader) => Self::Int32(read!(reader)),
            ColumnReader::Int64ColumnReader(reader) => Self::Int64(read!(reader)),
            ColumnReader::FloatColumnReader(reader) => Self::Float(read!(reader)),
            ColumnReader::DoubleColumnReader(reader) => Self::Double(read!(reader)),
            _ => return Err(CrateError::NYI("columns of other types are refused on opening".into()).into()),
        })
    }

    /// Returns the first value that must not pass, and what it is.
    pub(super) fn not_finite(&self, policy: NanPolicy, target: Dtype) -> Option<(usize, &'static str)> {
        let allow = policy == NanPolicy::Allow && matches!(target, Dtype::F4 | Dtype::F8);
        if allow {
            return None;
        }
        macro_rules! first {
            ($values:expr, $finite:expr) => {
                $values.iter().enumerate().find_map(|(row, value)| match value {
                    None => Some((row, "a null")),
                    Some(value) if !$finite(*value) => Some((row, "not a finite number")),
                    Some(_) => None,
                })
            };
        }
        match self {
            Self::Bool(values) => first!(values, |_: bool| true),
            Self::Int32(values) => first!(values, |_: i32| true),
            Self::Int64(values) => first!(values, |_: i64| true),
            Self::Float(values) => first!(values, f32::is_finite),
            Self::Double(values) => first!(values, f64::is_finite),
        }
    }

    /// Appends the values as elements: as they are where the types agree, else by way of a float.
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
