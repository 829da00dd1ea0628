//! Conversion of numbers in text, and of values, to little-endian elements of a dtype.

use sample::{Channel, Dtype};

/// Policy for values that are not finite numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NanPolicy {
    /// NaN, infinities and empty fields are errors with their place.
    #[default]
    Refuse,
    /// They are accepted, an empty field as NaN. Integers have none and still refuse.
    Allow,
}

impl NanPolicy {
    /// Returns whether a missing element is accepted as NaN, which only floats have.
    pub(crate) fn fills(self, dtype: Dtype) -> bool {
        self == Self::Allow && matches!(dtype, Dtype::F4 | Dtype::F8)
    }
}

/// Reason why a text is no element.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NumberError {
    /// There is nothing between two separators.
    #[error("a value is missing\nallow holes as NaN with --allow-nan, or fill them in the file")]
    Empty,
    /// The text is NaN or an infinity.
    #[error("`{0}` is not a finite number\naccept such values with --allow-nan")]
    NotFinite(String),
    /// The text is no number of this type.
    #[error("`{text}` is not a number of type {dtype}")]
    NotNumber {
        /// Text of the field.
        text: String,
        /// Expected type.
        dtype: Dtype,
    },
    /// The type cannot be read from text.
    #[error("{0} elements cannot be read from text; choose a real type such as f8, or use an NPY file")]
    NoTextForm(Dtype),
}

/// Appends the element that a text represents.
///
/// Integers are parsed as integers, so that 64-bit ones keep every digit.
pub(crate) fn push_text(
    text: &str,
    dtype: Dtype,
    policy: NanPolicy,
    out: &mut Vec<u8>,
) -> Result<(), NumberError> {
    let text = text.trim();
    macro_rules! integer {
        ($type:ty) => {{
            let parsed = text.strip_prefix('+').unwrap_or(text).parse::<$type>();
            let value = parsed.map_err(|_| NumberError::NotNumber { text: text.to_owned(), dtype })?;
            out.extend_from_slice(&value.to_le_bytes());
        }};
    }
    if text.is_empty() && !policy.fills(dtype) {
        return Err(NumberError::Empty);
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
        Dtype::F4 | Dtype::F8 => push_f64(float(text, dtype, policy)?, dtype, out),
        Dtype::Bool => match text {
            "1" | "true" | "True" => out.push(1),
            "0" | "false" | "False" => out.push(0),
            _ => return Err(NumberError::NotNumber { text: text.to_owned(), dtype }),
        },
        Dtype::C8 | Dtype::C16 => return Err(NumberError::NoTextForm(dtype)),
    }
    Ok(())
}

fn float(text: &str, dtype: Dtype, policy: NanPolicy) -> Result<f64, NumberError> {
    if text.is_empty() {
        return Ok(f64::NAN);
    }
    let value: f64 = text.parse().map_err(|_| NumberError::NotNumber { text: text.to_owned(), dtype })?;
    // A number beyond the range of the type becomes an infinity, which is no measured value either.
    #[expect(clippy::cast_possible_truncation, reason = "the question is whether the narrow type holds it")]
    let fits = if dtype == Dtype::F4 { (value as f32).is_finite() } else { value.is_finite() };
    if policy == NanPolicy::Refuse && !fits {
        return Err(NumberError::NotFinite(text.to_owned()));
    }
    Ok(value)
}

/// Appends a value as an element; integers are rounded and clamped to their range.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from float saturates, which is what an analogue input does at full scale"
)]
pub(crate) fn push_f64(value: f64, dtype: Dtype, out: &mut Vec<u8>) {
    match dtype {
        Dtype::I8 => out.extend_from_slice(&(value.round() as i8).to_le_bytes()),
        Dtype::I16 => out.extend_from_slice(&(value.round() as i16).to_le_bytes()),
        Dtype::I32 => out.extend_from_slice(&(value.round() as i32).to_le_bytes()),
        Dtype::I64 => out.extend_from_slice(&(value.round() as i64).to_le_bytes()),
        Dtype::U8 => out.extend_from_slice(&(value.round() as u8).to_le_bytes()),
        Dtype::U16 => out.extend_from_slice(&(value.round() as u16).to_le_bytes()),
        Dtype::U32 => out.extend_from_slice(&(value.round() as u32).to_le_bytes()),
        Dtype::U64 => out.extend_from_slice(&(value.round() as u64).to_le_bytes()),
        Dtype::F4 => out.extend_from_slice(&(value as f32).to_le_bytes()),
        Dtype::F8 => out.extend_from_slice(&value.to_le_bytes()),
        Dtype::C8 => {
            out.extend_from_slice(&(value as f32).to_le_bytes());
            out.extend_from_slice(&0.0_f32.to_le_bytes());
        }
        Dtype::C16 => {
            out.extend_from_slice(&value.to_le_bytes());
            out.extend_from_slice(&0.0_f64.to_le_bytes());
        }
        Dtype::Bool => out.push(u8::from(value != 0.0)),
    }
}

/// Parses a heading such as `current [A]` or `pressure (hPa)` as a channel's name and unit.
///
/// A number in brackets is no unit: `image[3]` is an element of an array. A heading without a name gives the channel
/// its number as name.
pub(crate) fn heading(text: &str, index: usize) -> Channel {
    let text = text.trim();
    let split = |open: char, close: char| {
        let (name, unit) = text.strip_suffix(close)?.rsplit_once(open)?;
        let is_place = !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_digit());
        (!is_place).then_some((name.trim(), unit.trim()))
    };
    let (name, unit) = split('[', ']').or_else(|| split('(', ')')).unwrap_or((text, ""));
    if name.is_empty() { numbered(index) } else { Channel::new(name, unit) }
}

/// Returns a channel named by its number.
pub(crate) fn numbered(index: usize) -> Channel {
    Channel::new(format!("ch{index}"), "")
}

/// Returns channels named by their numbers.
pub(crate) fn numbered_channels(count: usize) -> Vec<Channel> {
    (0..count).map(numbered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(text: &str, dtype: Dtype, policy: NanPolicy) -> Result<Vec<u8>, NumberError> {
        let mut out = Vec::new();
        push_text(text, dtype, policy, &mut out).map(|()| out)
    }

    #[test]
    fn integers_keep_every_digit() {
        let largest = u64::MAX.to_string();
        assert_eq!(element(&largest, Dtype::U64, NanPolicy::Refuse), Ok(vec![0xff; 8]));
        assert_eq!(element(" +7 ", Dtype::I16, NanPolicy::Refuse), Ok(vec![7, 0]));
        assert!(element("128", Dtype::I8, NanPolicy::Refuse).is_err());
        assert!(element("1.5", Dtype::I32, NanPolicy::Refuse).is_err());
    }

    #[test]
    fn what_is_not_finite_needs_leave() {
        for text in ["NaN", "inf", "-Infinity", "1e999"] {
            let error = element(text, Dtype::F8, NanPolicy::Refuse).unwrap_err();
            assert!(error.to_string().contains("--allow-nan"), "{error}");
            assert!(element(text, Dtype::F8, NanPolicy::Allow).is_ok());
        }
        assert!(element("1e39", Dtype::F8, NanPolicy::Refuse).is_ok());
        assert!(element("1e39", Dtype::F4, NanPolicy::Refuse).is_err(), "beyond a float of four bytes");
    }

    #[test]
    fn an_empty_field_is_a_nan_only_where_there_is_one() {
        assert_eq!(element("", Dtype::F8, NanPolicy::Refuse), Err(NumberError::Empty));
        assert!(element("", Dtype::F4, NanPolicy::Allow).is_ok());
        assert_eq!(element(" ", Dtype::I32, NanPolicy::Allow), Err(NumberError::Empty));
    }

    #[test]
    fn values_are_held_at_the_ends_of_an_integer() {
        let mut out = Vec::new();
        push_f64(40_000.0, Dtype::I16, &mut out);
        push_f64(-1.0, Dtype::U16, &mut out);
        push_f64(-2.5, Dtype::I8, &mut out);
        assert_eq!(out, [0xff, 0x7f, 0, 0, 0xfd]);
    }

    #[test]
    fn headings_carry_units() {
        assert_eq!(heading("current [A]", 0), Channel::new("current", "A"));
        assert_eq!(heading(" pressure (hPa) ", 0), Channel::new("pressure", "hPa"));
        assert_eq!(heading("plain", 0), Channel::new("plain", ""));
        assert_eq!(heading("[V]", 3), Channel::new("ch3", ""));
        assert_eq!(heading("image[3]", 0), Channel::new("image[3]", ""));
        assert_eq!(heading("image[3] [V]", 0), Channel::new("image[3]", "V"));
        assert_eq!(heading("power (forward) [W]", 0), Channel::new("power (forward)", "W"));
    }
}
