//! Value of a parameter: dtype, shape and bytes, and its elements as numbers that compare exactly.

use core::fmt;

use sample::{Dtype, Element};

/// Maximum size of a value. An app remembers the read-back values of thousands of commands. Units: bytes.
pub const MAX_VALUE_BYTES: usize = 1_024;
/// Maximum number of dimensions of a value.
pub const MAX_DIMENSIONS: usize = 4;

/// A value: of one element, or an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    dtype: Dtype,
    shape: Vec<u32>,
    bytes: Vec<u8>,
}

/// An element as a number: integers stay exact.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An element of an integer dtype, or a boolean.
    Integer(i128),
    /// An element of a floating-point dtype, or one part of a complex element.
    Real(f64),
}

/// Error in a value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The bytes are not the elements of the shape.
    #[error("a value of {elements} elements of dtype {dtype} has {expected} bytes, not {found}")]
    Size {
        /// The dtype.
        dtype: Dtype,
        /// Product of the shape.
        elements: u64,
        /// Size by dtype and shape.
        expected: u64,
        /// Size of the bytes.
        found: usize,
    },
    /// The text is not a value.
    #[error("`{text}` is not a value of dtype {dtype}\nwrite {}", wanted(*.dtype, .elements))]
    Text {
        /// The text.
        text: String,
        /// The dtype.
        dtype: Dtype,
        /// Number of elements.
        elements: u64,
    },
    /// More than a value may have.
    #[error(
        "a value has at most {MAX_DIMENSIONS} dimensions and {MAX_VALUE_BYTES} bytes\nsplit it into several parameters"
    )]
    TooLarge,
}

impl Value {
    /// Makes a value of little-endian elements.
    ///
    /// Shape: row-major; empty for a single element.
    ///
    /// # Errors
    /// `TooLarge` beyond [`MAX_VALUE_BYTES`] or [`MAX_DIMENSIONS`]; `Size` if the bytes are not those of the shape.
    pub fn from_bytes(dtype: Dtype, shape: &[u32], bytes: &[u8]) -> Result<Self, ValueError> {
        let elements =
            shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(u64::from(*extent)));
        let expected = elements.and_then(|count| count.checked_mul(u64::try_from(dtype.size_bytes()).ok()?));
        let (Some(elements), Some(expected)) = (elements, expected) else { return Err(ValueError::TooLarge) };
        if shape.len() > MAX_DIMENSIONS || bytes.len() > MAX_VALUE_BYTES {
            return Err(ValueError::TooLarge);
        }
        if u64::try_from(bytes.len()) != Ok(expected) {
            return Err(ValueError::Size { dtype, elements, expected, found: bytes.len() });
        }
        Ok(Self { dtype, shape: shape.to_vec(), bytes: bytes.to_vec() })
    }

    /// Makes a value of one element.
    #[must_use]
    pub fn scalar<T: Element>(element: T) -> Self {
        Self { dtype: T::DTYPE, shape: Vec::new(), bytes: zerocopy::IntoBytes::as_bytes(&element).to_vec() }
    }

    /// Makes a boolean value.
    #[must_use]
    pub fn boolean(value: bool) -> Self {
        Self { dtype: Dtype::Bool, shape: Vec::new(), bytes: vec![u8::from(value)] }
    }

    /// Reads a value from text: its elements, row-major, with commas between them.
    ///
    /// Integers are exact, also with a prefix `0x`; booleans are `on`, `off`, `true`, `false`, `1` or `0`. Complex values
    /// have no text.
    ///
    /// # Errors
    /// `TooLarge`; `Text` if an element is none of the dtype, or there are more or fewer than the shape has.
    pub fn parse(dtype: Dtype, shape: &[u32], text: &str) -> Result<Self, ValueError> {
        let elements =
            shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(u64::from(*extent)));
        let elements = elements.ok_or(ValueError::TooLarge)?;
        let failed = || ValueError::Text { text: text.to_owned(), dtype, elements };
        let mut bytes = Vec::new();
        let mut count = 0_u64;
        for element in text.split(',') {
            count += 1;
            parse_element(dtype, element.trim(), &mut bytes).ok_or_else(failed)?;
        }
        if count != elements {
            return Err(failed());
        }
        Self::from_bytes(dtype, shape, &bytes)
    }

    /// Returns the dtype.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the shape, row-major; empty for a single element.
    #[must_use]
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// Returns the little-endian elements.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the elements as numbers; a complex element gives its real and its imaginary part.
    pub fn numbers(&self) -> impl Iterator<Item = Number> + '_ {
        let part = match self.dtype {
            Dtype::C8 => Dtype::F4,
            Dtype::C16 => Dtype::F8,
            other => other,
        };
        self.bytes.chunks_exact(part.size_bytes()).map(move |bytes| Number::read(part, bytes))
    }
}

/// Appends the bytes of an element.
fn parse_element(dtype: Dtype, text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    macro_rules! number {
        ($type:ty) => {
            bytes.extend_from_slice(&text.parse::<$type>().ok()?.to_le_bytes())
        };
    }
    macro_rules! integer {
        ($type:ty) => {{
            let hexadecimal = text.strip_prefix("0x").map(|digits| <$type>::from_str_radix(digits, 16));
            let integer = hexadecimal.unwrap_or_else(|| text.parse());
            bytes.extend_from_slice(&integer.ok()?.to_le_bytes());
        }};
    }
    match dtype {
        Dtype::I8 => integer!(i8),
        Dtype::I16 => integer!(i16),
        Dtype::I32 => integer!(i32),
        Dtype::I64 => integer!(i64),
        Dtype::U8 => integer!(u8),
        Dtype::U16 => integer!(u16),
        Dtype::U32 => integer!(u32),
        Dtype::U64 => integer!(u64),
        Dtype::F4 => number!(f32),
        Dtype::F8 => number!(f64),
        Dtype::Bool => bytes.push(match text {
            "on" | "true" | "1" => 1,
            "off" | "false" | "0" => 0,
            _ => return None,
        }),
        Dtype::C8 | Dtype::C16 => return None,
    }
    Some(())
}

/// Returns what text a value is written as.
fn wanted(dtype: Dtype, elements: &u64) -> String {
    match dtype {
        Dtype::C8 | Dtype::C16 => "a program for it: complex values have no text".to_owned(),
        Dtype::Bool if *elements == 1 => "on or off".to_owned(),
        Dtype::Bool => format!("{elements} of on and off, with commas between them"),
        _ if *elements == 1 => "one number that it can hold".to_owned(),
        _ => format!("{elements} numbers that it can hold, with commas between them"),
    }
}

/// The elements with commas between them, as [`Value::parse`] reads them.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = |number: Number| match (self.dtype, number) {
            (Dtype::Bool, Number::Integer(0)) => "off".to_owned(),
            (Dtype::Bool, _) => "on".to_owned(),
            // A narrow number has the digits of its own precision.
            #[expect(clippy::cast_possible_truncation, reason = "it was read from four bytes")]
            (Dtype::F4 | Dtype::C8, Number::Real(real)) => (real as f32).to_string(),
            (_, number) => number.to_string(),
        };
        formatter.pad(&self.numbers().map(element).collect::<Vec<_>>().join(","))
    }
}

impl Number {
    fn read(dtype: Dtype, bytes: &[u8]) -> Self {
        macro_rules! integer {
            ($type:ty) => {
                Self::Integer(i128::from(<$type>::from_le_bytes(
                    bytes.try_into().expect("exactly one element"),
                )))
            };
        }
        match dtype {
            Dtype::I8 => integer!(i8),
            Dtype::I16 => integer!(i16),
            Dtype::I32 => integer!(i32),
            Dtype::I64 => integer!(i64),
            Dtype::U8 => integer!(u8),
            Dtype::U16 => integer!(u16),
            Dtype::U32 => integer!(u32),
            Dtype::U64 => integer!(u64),
            Dtype::Bool => Self::Integer(i128::from(bytes[0] != 0)),
            Dtype::F4 | Dtype::F8 | Dtype::C8 | Dtype::C16 => Self::Real(dtype.to_f64(bytes)),
        }
    }

    /// Returns the nearest floating-point number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "documented")]
    pub const fn to_f64(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Real(real) => real,
        }
    }

    /// Returns whether the number is neither NaN nor infinite.
    #[must_use]
    pub const fn is_finite(self) -> bool {
        match self {
            Self::Integer(_) => true,
            Self::Real(real) => real.is_finite(),
        }
    }

    /// Returns whether this is at most `other`; false if they are of different kinds, or one is NaN.
    #[must_use]
    pub fn is_at_most(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one <= other,
            (Self::Real(one), Self::Real(other)) => one <= other,
            (Self::Integer(_), Self::Real(_)) | (Self::Real(_), Self::Integer(_)) => false,
        }
    }

    /// Returns whether the difference to `other` is at most `step`, apart from the rounding of the dtype: from 1.0 to
    /// 1.1 is a step of 0.1.
    ///
    /// Units: `rounding` is the relative distance of two neighbouring numbers of the dtype.
    #[must_use]
    pub fn is_within_step(self, other: Self, step: Self, rounding: f64) -> bool {
        match (self, other, step) {
            (Self::Integer(one), Self::Integer(other), Self::Integer(step)) => {
                one.abs_diff(other) <= step.unsigned_abs()
            }
            (Self::Real(one), Self::Real(other), Self::Real(step)) => {
                (one - other).abs() <= step + rounding * one.abs().max(other.abs())
            }
            _ => false,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(formatter),
            Self::Real(real) => real.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_bytes_of_its_shape() {
        let made = |shape: &[u32], bytes: usize| Value::from_bytes(Dtype::F8, shape, &vec![0; bytes]);
        assert!(made(&[], 8).is_ok() && made(&[2, 3], 48).is_ok() && made(&[128], 1_024).is_ok());
        assert_eq!(made(&[129], 1_032), Err(ValueError::TooLarge));
        assert_eq!(made(&[1, 1, 1, 1, 1], 8), Err(ValueError::TooLarge));
        assert_eq!(made(&[u32::MAX, u32::MAX, u32::MAX], 8), Err(ValueError::TooLarge));
        let size = ValueError::Size { dtype: Dtype::F8, elements: 2, expected: 16, found: 8 };
        assert_eq!(made(&[2], 8), Err(size));
    }

    #[test]
    fn a_value_is_read_as_it_is_written() {
        let read = |dtype, shape: &[u32], text: &str| Value::parse(dtype, shape, text);
        assert_eq!(read(Dtype::F8, &[], "2.5"), Ok(Value::scalar(2.5)));
        assert_eq!(read(Dtype::U64, &[], "18446744073709551615"), Ok(Value::scalar(u64::MAX)));
        assert_eq!(read(Dtype::U16, &[], "0xFFFF"), Ok(Value::scalar(u16::MAX)));
        assert_eq!(read(Dtype::Bool, &[], "on"), Ok(Value::boolean(true)));
        for (dtype, shape, text) in [
            (Dtype::F4, &[2, 2][..], "0.1, 1, -2, 3e5"),
            (Dtype::I8, &[3], "-128,0,127"),
            (Dtype::Bool, &[2], "off,on"),
            (Dtype::F8, &[], "0.30000000000000004"),
        ] {
            let value = read(dtype, shape, text).unwrap();
            assert_eq!(read(dtype, shape, &value.to_string()), Ok(value));
        }
        assert_eq!(Value::scalar(0.1_f32).to_string(), "0.1");
        for (dtype, shape, text) in [
            (Dtype::I16, &[][..], "2.5"),
            (Dtype::U8, &[], "256"),
            (Dtype::F8, &[], "2,5"),
            (Dtype::F8, &[2], "2"),
            (Dtype::F8, &[], ""),
            (Dtype::Bool, &[], "2"),
            (Dtype::C8, &[], "1"),
        ] {
            assert!(matches!(read(dtype, shape, text), Err(ValueError::Text { .. })), "{text}");
        }
    }

    #[test]
    fn large_integers_stay_exact() {
        let numbers = |value: &Value| value.numbers().collect::<Vec<_>>();
        assert_eq!(numbers(&Value::scalar(u64::MAX)), [Number::Integer(i128::from(u64::MAX))]);
        assert_eq!(numbers(&Value::scalar(i64::MIN)), [Number::Integer(i128::from(i64::MIN))]);
        assert_eq!(numbers(&Value::scalar([3.0_f32, -1.0])), [Number::Real(3.0), Number::Real(-1.0)]);
        assert_eq!(numbers(&Value::boolean(true)), [Number::Integer(1)]);
    }
}
