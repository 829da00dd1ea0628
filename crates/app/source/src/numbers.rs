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
    /// The number has another decimal sign than those before it.
    #[error(
        "`{0}` has another decimal sign than the numbers before it\nwrite all of them with a point, or all with a comma"
    )]
    OtherDecimal(String),
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
            let parsed = text.strip_prefix('+').unwrap_or(text).parse::<$type>().ok();
            let value = parsed.or_else(|| hexadecimal(text)?.try_into().ok());
            let value = value.ok_or_else(|| NumberError::NotNumber { text: text.to_owned(), dtype })?;
            out.extend_from_slice(&value.to_le_bytes());
        }};
    }
    if is_missing(text) && !policy.fills(dtype) {
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
            "1" => out.push(1),
            "0" => out.push(0),
            _ if is_truth(text) => out.push(u8::from(text.eq_ignore_ascii_case("true"))),
            _ => return Err(NumberError::NotNumber { text: text.to_owned(), dtype }),
        },
        Dtype::C8 | Dtype::C16 => return Err(NumberError::NoTextForm(dtype)),
    }
    Ok(())
}

fn float(text: &str, dtype: Dtype, policy: NanPolicy) -> Result<f64, NumberError> {
    if is_missing(text) {
        return Ok(f64::NAN);
    }
    let value = parse_float(text).ok_or_else(|| NumberError::NotNumber { text: text.to_owned(), dtype })?;
    // A number beyond the range of the type becomes an infinity, which is no measured value either.
    #[expect(clippy::cast_possible_truncation, reason = "the question is whether the narrow type holds it")]
    let fits = if dtype == Dtype::F4 { (value as f32).is_finite() } else { value.is_finite() };
    if policy == NanPolicy::Refuse && !fits {
        return Err(NumberError::NotFinite(text.to_owned()));
    }
    Ok(value)
}

/// Parses a decimal number, or a hexadecimal one such as `0x1F` that a float holds exactly.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let exact = |value: u64| u32::try_from(value).ok().map(f64::from);
    text.parse().ok().or_else(|| hexadecimal(text).and_then(exact))
}

fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
}

/// Returns whether a field says that a value is missing: it is empty, or has a sign that programs write instead.
pub(crate) fn is_missing(text: &str) -> bool {
    ["", "NA", "N/A", "null", "NULL", "None", "--", "---"].contains(&text)
}

/// Returns whether a field is a truth value in words.
pub(crate) fn is_truth(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
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
/// A number in brackets is no unit: `image[3]` is an element of an array. Neither are the words in `V(out)` and `I(R1)`,
/// without a blank before the bracket, unless they are those of a unit: `CH1(V)`. A heading without a name gives the
/// channel its number as name.
pub(crate) fn heading(text: &str, index: usize) -> Channel {
    let text = text.trim();
    let split = |open: char, close: char| {
        let (name, unit) = text.strip_suffix(close)?.rsplit_once(open)?;
        let is_place = !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_digit());
        let is_argument = open == '(' && !name.is_empty() && !name.ends_with(' ') && !is_unit(unit);
        (!is_place && !is_argument).then_some((name.trim(), unit.trim()))
    };
    let (name, unit) = split('[', ']').or_else(|| split('(', ')')).unwrap_or((text, ""));
    if name.is_empty() { numbered(index) } else { Channel::new(name, unit) }
}

/// Parses the headings of a table; where names would be equal, the channels keep their whole headings as names.
pub(crate) fn headings<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Channel> {
    let texts: Vec<&str> = texts.map(str::trim).collect();
    let mut parsed: Vec<Channel> =
        texts.iter().enumerate().map(|(index, text)| heading(text, index)).collect();
    let mut counts = std::collections::HashMap::new();
    for channel in &parsed {
        *counts.entry(channel.name.clone()).or_insert(0_u32) += 1;
    }
    for (channel, text) in parsed.iter_mut().zip(texts) {
        if counts[&channel.name] > 1 && !text.is_empty() {
            text.clone_into(&mut channel.name);
        }
    }
    parsed
}

/// Symbols of units, which have prefixes, as the International System writes them.
const SYMBOLS: [&str; 22] = [
    "s", "V", "A", "W", "Hz", "Pa", "bar", "m", "g", "N", "J", "K", "C", "F", "Ω", "Ohm", "T", "l", "L", "S",
    "Nm", "Wh",
];
/// Other signs and words for units, in lower case.
const WORDS: [&str; 40] = [
    "sec", "second", "seconds", "min", "h", "volt", "volts", "amp", "amps", "ampere", "amperes", "watt",
    "watts", "kelvin", "celsius", "deg", "degc", "degf", "deg c", "deg f", "°c", "°f", "°", "degree",
    "degrees", "%", "%rh", "db", "dbm", "rpm", "rad", "psi", "ohm", "ohms", "ppm", "ppb", "pct", "counts",
    "meter", "meters",
];
const PREFIXES: [char; 11] = ['p', 'n', 'u', 'µ', 'μ', 'm', 'k', 'M', 'G', 'c', 'h'];

/// Returns whether a text is a unit: one of the usual ones, with a prefix or not, or a product or quotient of such.
pub(crate) fn is_unit(text: &str) -> bool {
    let text = text.trim();
    text != "1" && text.split(['/', '*', '·']).all(|part| part == "1" || is_power(part.trim()))
}

fn is_power(part: &str) -> bool {
    let base =
        part.trim_end_matches(['²', '³', '2', '3', '4']).trim_end_matches("-1").trim_end_matches(['^', '-']);
    let prefixed = || base.strip_prefix(PREFIXES).is_some_and(|symbol| SYMBOLS.contains(&symbol));
    SYMBOLS.contains(&base) || WORDS.contains(&part.to_lowercase().as_str()) || prefixed()
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
        for text in ["V(out)", "I(R1)", "TC(1)", "X(CH1)"] {
            assert_eq!(heading(text, 0), Channel::new(text, ""));
        }
        assert_eq!(heading("CH1(V)", 0), Channel::new("CH1", "V"));
        assert_eq!(heading("Time(s)", 0), Channel::new("Time", "s"));
    }

    #[test]
    fn equal_names_keep_their_headings() {
        let read = headings(["Temp (C)", "Temp (F)", "u [V]", ""].into_iter());
        let names: Vec<_> = read.iter().map(|it| (it.name.as_str(), it.unit.as_str())).collect();
        assert_eq!(names, [("Temp (C)", "C"), ("Temp (F)", "F"), ("u", "V"), ("ch3", "")]);
    }

    #[test]
    fn units_are_told_from_names() {
        for unit in [
            "V", "mV", "kHz", "m/s", "W/m^2", "1/min", "°C", "Deg C", "%", "second", "Volt", "µs", "m/s²",
            "s-1",
        ] {
            assert!(is_unit(unit), "{unit}");
        }
        for name in ["", "out", "R1", "CH1", "time", "CH1 Peak Detect", "1", "Ampl", "x-axis"] {
            assert!(!is_unit(name), "{name}");
        }
    }

    #[test]
    fn hexadecimal_numbers_and_words_for_missing_values_are_read() {
        assert_eq!(element("0x1F", Dtype::U8, NanPolicy::Refuse), Ok(vec![31]));
        assert!(element("0x100", Dtype::U8, NanPolicy::Refuse).is_err());
        assert_eq!(element("0xff", Dtype::F8, NanPolicy::Refuse), Ok(255.0_f64.to_le_bytes().to_vec()));
        assert!(element("0x+1", Dtype::U8, NanPolicy::Refuse).is_err());
        assert_eq!(element("N/A", Dtype::F8, NanPolicy::Refuse), Err(NumberError::Empty));
        assert!(element("N/A", Dtype::F8, NanPolicy::Allow).is_ok());
        assert_eq!(element("TRUE", Dtype::Bool, NanPolicy::Refuse), Ok(vec![1]));
    }
}
