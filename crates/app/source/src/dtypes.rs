//! One dtype for columns of several types, and conversion to it: exact, or refused with its place.
//!
//! Only digits of a float may be lost, and only to a dtype that was asked for.

use sample::Dtype;

/// Reason why columns cannot have one dtype.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DtypeError {
    /// Complex numbers cannot be combined with other types.
    #[error(
        "columns `{first}` ({first_dtype}) and `{second}` ({second_dtype}) have no common type\n\
         choose columns of one type with --columns"
    )]
    Mixed {
        /// Name of a column.
        first: String,
        /// Type of that column.
        first_dtype: Dtype,
        /// Name of the other column.
        second: String,
        /// Type of the other column.
        second_dtype: Dtype,
    },
    /// Another type was requested.
    #[error("the columns are {actual}, not {asked}\nomit --dtype, or use f4 or f8")]
    Other {
        /// Type of the columns.
        actual: Dtype,
        /// Requested type.
        asked: Dtype,
    },
    /// A number is no element of the dtype.
    #[error(
        "row {row}, column `{column}`: {number} has no exact form in {dtype}\n\
         choose columns of one type with --columns, and omit --dtype"
    )]
    Inexact {
        /// Number of the row, from 0.
        row: u64,
        /// Name of the column.
        column: String,
        /// The number.
        number: Number,
        /// Type of the elements.
        dtype: Dtype,
    },
}

/// Number of a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// Integer of up to 64 bits.
    Integer(i128),
    /// Floating-point number.
    Float(f64),
}

impl core::fmt::Display for Number {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Integer(number) => write!(out, "{number}"),
            Self::Float(number) => write!(out, "{number:?}"),
        }
    }
}

impl Number {
    /// Reads an element of a real dtype.
    ///
    /// # Panics
    /// If the dtype is complex, or the bytes are not one element.
    pub(crate) fn of_element(dtype: Dtype, bytes: &[u8]) -> Self {
        macro_rules! integer {
            ($type:ty) => {
                Self::Integer(<$type>::from_le_bytes(bytes.try_into().expect("one element")).into())
            };
        }
        match dtype {
            Dtype::I8 => integer!(i8),
            Dtype::I16 => integer!(i16),
            Dtype::I32 => integer!(i32),
            Dtype::I64 => integer!(i64),
            Dtype::U8 | Dtype::Bool => integer!(u8),
            Dtype::U16 => integer!(u16),
            Dtype::U32 => integer!(u32),
            Dtype::U64 => integer!(u64),
            Dtype::F4 | Dtype::F8 => Self::Float(dtype.to_f64(bytes)),
            Dtype::C8 | Dtype::C16 => unreachable!("complex numbers are not converted"),
        }
    }

    /// Appends the number as an element of `f4` or `f8`; returns whether it has one: an integer with every digit, a
    /// finite float as a finite one.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "whether digits are lost is what is found out"
    )]
    #[must_use]
    pub(crate) fn push_as(self, dtype: Dtype, out: &mut Vec<u8>) -> bool {
        if dtype == Dtype::F4 {
            let element = match self {
                Self::Integer(number) => number as f32,
                Self::Float(number) => number as f32,
            };
            out.extend_from_slice(&element.to_le_bytes());
            return match self {
                Self::Integer(number) => element as i128 == number,
                Self::Float(number) => element.is_finite() || !number.is_finite(),
            };
        }
        let element = match self {
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        };
        out.extend_from_slice(&element.to_le_bytes());
        match self {
            Self::Integer(number) => element as i128 == number,
            Self::Float(_) => true,
        }
    }
}

/// Returns the dtype of elements of several columns: their own, `f8` if they differ, or the requested one.
///
/// # Panics
/// If there are no columns.
pub(crate) fn common_dtype(columns: &[(&str, Dtype)], asked: Option<Dtype>) -> Result<Dtype, DtypeError> {
    let (first, actual) = columns[0];
    let other = columns.iter().find(|(_, dtype)| *dtype != actual);
    let is_real = !columns.iter().any(|(_, dtype)| matches!(dtype, Dtype::C8 | Dtype::C16));
    match (asked, other) {
        (Some(asked @ (Dtype::F4 | Dtype::F8)), _) if is_real => Ok(asked),
        (Some(asked), None) if asked == actual => Ok(asked),
        (Some(asked), _) => Err(DtypeError::Other { actual, asked }),
        (None, None) => Ok(actual),
        (None, Some(_)) if is_real => Ok(Dtype::F8),
        (None, Some((second, second_dtype))) => Err(DtypeError::Mixed {
            first: first.to_owned(),
            first_dtype: actual,
            second: (*second).to_owned(),
            second_dtype: *second_dtype,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(number: Number, dtype: Dtype) -> bool {
        number.push_as(dtype, &mut Vec::new())
    }

    #[test]
    fn integers_have_a_float_up_to_its_digits() {
        for (dtype, bits) in [(Dtype::F4, 24), (Dtype::F8, 53)] {
            let largest = 1_i128 << bits;
            for number in [largest, -largest, largest + 2, 1 << 62] {
                assert!(pushed(Number::Integer(number), dtype), "{number}");
            }
            for number in [largest + 1, -largest - 1, i128::from(u64::MAX)] {
                assert!(!pushed(Number::Integer(number), dtype), "{number}");
            }
        }
    }

    #[test]
    fn floats_lose_digits_but_not_their_size() {
        assert!(pushed(Number::Float(0.1), Dtype::F4));
        assert!(pushed(Number::Float(f64::NAN), Dtype::F4));
        assert!(!pushed(Number::Float(1e300), Dtype::F4));
        assert!(pushed(Number::Float(1e300), Dtype::F8));
    }

    #[test]
    fn columns_keep_their_type_or_become_floats() {
        let dtype = |columns: &[Dtype], asked| {
            let columns: Vec<_> = columns.iter().map(|dtype| ("u", *dtype)).collect();
            common_dtype(&columns, asked)
        };
        assert_eq!(dtype(&[Dtype::I64, Dtype::I64], None), Ok(Dtype::I64));
        assert_eq!(dtype(&[Dtype::I64, Dtype::F4], None), Ok(Dtype::F8));
        assert_eq!(dtype(&[Dtype::I64, Dtype::F4], Some(Dtype::F4)), Ok(Dtype::F4));
        assert_eq!(dtype(&[Dtype::C8], Some(Dtype::C8)), Ok(Dtype::C8));
        let refusal = |columns, asked| dtype(columns, asked).unwrap_err().to_string();
        assert!(refusal(&[Dtype::I16], Some(Dtype::I32)).contains("are i16, not i32"));
        assert!(refusal(&[Dtype::C8], Some(Dtype::F8)).contains("are c8, not f8"));
        assert!(refusal(&[Dtype::F4, Dtype::C8], None).contains("no common type"));
    }
}
