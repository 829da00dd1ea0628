//! Names of shared views, and the ids of read-only links.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::Refusal;

/// The longest name of a shared view, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The name of a shared view: 1 to 64 of `a-z A-Z 0-9 . _ -`, not beginning with a dot. It is safe as a file's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ViewName(Arc<str>);

impl ViewName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ViewName {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_name = (1..=MAX_NAME_BYTES).contains(&text.len())
            && !text.starts_with('.')
            && text.bytes().all(is_letter);
        if is_name { Ok(Self(text.into())) } else { Err(Refusal::name(text)) }
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The id of a document's read-only link: 128 random bits, as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadOnlyId(u128);

impl ReadOnlyId {
    /// Makes the id of 128 random bits, which the caller draws.
    #[must_use]
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }
}

impl FromStr for ReadOnlyId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = is_id.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or(Refusal::NoLink)
    }
}

impl fmt::Display for ReadOnlyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Debug for ReadOnlyId {
    /// Writes no digit of it: a link that is in a log is a link that anyone has.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReadOnlyId(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_name_in_every_case() {
        let longest = "x".repeat(MAX_NAME_BYTES);
        for name in ["a", "Rod_2.v-1", "0", longest.as_str()] {
            assert_eq!(name.parse::<ViewName>().unwrap().as_str(), name);
        }
        let too_long = "x".repeat(MAX_NAME_BYTES + 1);
        for name in ["", ".", "..", ".rod", "a/b", "a b", "ä", "a\0", "a\n", too_long.as_str()] {
            assert!(name.parse::<ViewName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_link_is_32_digits_and_its_debug_text_has_none_of_them() {
        let id = ReadOnlyId::new(0xabc);
        assert_eq!(id.to_string().parse::<ReadOnlyId>().ok(), Some(id));
        for text in ["", "abc", "+0000000000000000000000000000abc", "zz000000000000000000000000000abc"] {
            assert!(text.parse::<ReadOnlyId>().is_err(), "{text}");
        }
        assert_eq!(format!("{id:?}"), "ReadOnlyId(…)");
    }
}
