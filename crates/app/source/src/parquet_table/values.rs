//! Values of one column, from Parquet's few physical types to elements of any dtype.

use half::f16;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, Int96};
use parquet::errors::ParquetError as CrateError;
use sample::Dtype;

use super::ParquetError;
use super::layout::{Column, Nesting};
use crate::dtypes::Number;

/// Day of 1970-01-01 in an INT96, a Julian day.
const FIRST_DAY: i128 = 2_440_588;
const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Numbers of one column as Parquet stores them, row by row, `None` where null.
pub(super) enum Values {
    Bool(Vec<Option<bool>>),
    Int32(Vec<Option<i32>>),
    Int64(Vec<Option<i64>>),
    Float(Vec<Option<f32>>),
    Double(Vec<Option<f64>>),
    /// Digits of decimals, and times of INT96 in nanoseconds since 1970.
    Wide(Vec<Option<i128>>),
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
            Values::Wide($inner) => $do,
        }
    };
}

/// Numbers of some rows and the levels that tell their structure; both are empty in a column that is always there.
struct Entries {
    values: Values,
    repetition: Vec<i16>,
    definition: Vec<i16>,
}

impl Entries {
    /// Reads the numbers of exactly `count` rows; those below the level `defined` are null.
    fn read(reader: &mut ColumnReader, count: usize, defined: i16) -> Result<Self, ParquetError> {
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
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                Values::Wide(read!(reader, |digits| integer_of(&digits)))
            }
        };
        Ok(Self { values, repetition, definition })
    }
}

/// Returns the length of the first list with elements in the next rows; `None` if there is none.
pub(super) fn first_length(
    reader: &mut ColumnReader,
    rows: usize,
    nesting: Nesting,
    element_level: i16,
) -> Result<Option<usize>, ParquetError> {
    let Entries { definition, repetition, values } = Entries::read(reader, rows, nesting.defined)?;
    let has_element = |at: &usize| definition.get(*at).is_none_or(|level| *level >= element_level);
    let Some(begin) = (0..values.len()).find(has_element) else { return Ok(None) };
    Ok(Some(1 + repetition[begin + 1..].iter().take_while(|level| **level > 0).count()))
}

impl Values {
    /// Reads the numbers of exactly `count` rows of a column, as many in each. `Err` of the number of a row with
    /// another number of them.
    pub(super) fn of(
        reader: &mut ColumnReader,
        count: usize,
        column: &Column,
    ) -> Result<Result<Self, usize>, ParquetError> {
        let nesting = column.nesting;
        let Entries { values, repetition, .. } = Entries::read(reader, count, nesting.defined)?;
        let values = match values {
            // Of the columns of bytes only those of floats are not of decimals.
            Self::Wide(halves) if column.dtype == Dtype::F4 => {
                Self::Float(halves.into_iter().map(half_of).collect())
            }
            other => other,
        };
        Ok(match values {
            Self::Bool(values) => regular(values, &repetition, nesting).map(Self::Bool),
            Self::Int32(values) => regular(values, &repetition, nesting).map(Self::Int32),
            Self::Int64(values) => regular(values, &repetition, nesting).map(Self::Int64),
            Self::Float(values) => regular(values, &repetition, nesting).map(Self::Float),
            Self::Double(values) => regular(values, &repetition, nesting).map(Self::Double),
            Self::Wide(values) => regular(values, &repetition, nesting).map(Self::Wide),
        })
    }

    /// Reads exactly `count` values of a column of single numbers.
    pub(super) fn plain(reader: &mut ColumnReader, count: usize) -> Result<Self, ParquetError> {
        // A value that is not null has the highest level, which is 1 in a column that may hold nulls.
        Ok(Entries::read(reader, count, 1)?.values)
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
            Self::Bool(_) | Self::Int32(_) | Self::Int64(_) | Self::Wide(_) => None,
        }
    }

    /// Returns the values as times, `None` for invalid ones. Units: nanoseconds; a value is a number of units over
    /// `divisor`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a time in a float is no better"
    )]
    pub(super) fn times(self, nanos_per_unit: i128, divisor: i128) -> Vec<Option<i128>> {
        let of_float =
            |value: f64| value.is_finite().then(|| (value * nanos_per_unit as f64).round() as i128);
        let of_integer = |value: i128| Some(value.checked_mul(nanos_per_unit)?.div_euclid(divisor));
        match self {
            Self::Int32(values) => values.into_iter().map(|it| of_integer(it?.into())).collect(),
            Self::Int64(values) => values.into_iter().map(|it| of_integer(it?.into())).collect(),
            Self::Wide(values) => values.into_iter().map(|it| of_integer(it?)).collect(),
            Self::Float(values) => values.into_iter().map(|it| of_float(it?.into())).collect(),
            Self::Double(values) => values.into_iter().map(|it| of_float(it?)).collect(),
            Self::Bool(values) => vec![None; values.len()],
        }
    }

    /// Returns the values as sample indices, `None` for invalid ones.
    pub(super) fn indices(&self) -> Vec<Option<u64>> {
        match self {
            Self::Int32(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Int64(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Wide(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Bool(_) | Self::Float(_) | Self::Double(_) => vec![None; self.len()],
        }
    }

    /// Appends the values as elements: unchanged if the types agree, else as floats. `Err` of the position of a number
    /// that has no exact form in the target, and of the number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "narrow and unsigned integers are stored in the wide signed ones' bits"
    )]
    pub(super) fn append(
        &self,
        actual: Dtype,
        target: Dtype,
        out: &mut Vec<u8>,
    ) -> Result<(), (usize, Number)> {
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
            (Self::Wide(values), _) => {
                for (place, value) in values.iter().enumerate() {
                    let value = value.unwrap_or(0);
                    let narrow = i64::try_from(value).map_err(|_| (place, Number::Integer(value)))?;
                    out.extend_from_slice(&narrow.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::cast_sign_loss, reason = "unsigned integers are stored in the signed ones' bits")]
    fn append_as_float(
        &self,
        actual: Dtype,
        target: Dtype,
        out: &mut Vec<u8>,
    ) -> Result<(), (usize, Number)> {
        macro_rules! each {
            ($values:expr, $value:ident => $number:expr) => {
                for (place, value) in $values.iter().enumerate() {
                    let number = value.map_or(Number::Float(f64::NAN), |$value| $number);
                    if !number.push_as(target, out) {
                        return Err((place, number));
                    }
                }
            };
        }
        match (self, actual) {
            (Self::Bool(values), _) => each!(values, value => Number::Integer(value.into())),
            (Self::Int32(values), Dtype::U32) => {
                each!(values, value => Number::Integer((value as u32).into()))
            }
            (Self::Int32(values), _) => each!(values, value => Number::Integer(value.into())),
            (Self::Int64(values), Dtype::U64) => {
                each!(values, value => Number::Integer((value as u64).into()))
            }
            (Self::Int64(values), _) => each!(values, value => Number::Integer(value.into())),
            (Self::Float(values), _) => each!(values, value => Number::Float(value.into())),
            (Self::Double(values), _) => each!(values, value => Number::Float(value)),
            (Self::Wide(values), _) => each!(values, value => Number::Integer(value)),
        }
        Ok(())
    }
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

/// Returns the float of two bytes that were read as an integer's: they are little-endian.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer of two bytes")]
fn half_of(bytes: Option<i128>) -> Option<f32> {
    bytes.map(|bytes| f16::from_bits((bytes as u16).swap_bytes()).to_f32())
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
