//! Ids of runs.

use core::fmt;
use core::str::FromStr;

/// The longest id of a run in bytes.
pub const MAX_RUN_ID_BYTES: usize = 64;

/// Id of a run: one word, such as `shot-17`. It may be used again: each start begins another run of this id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

/// Error for an id that is not one word.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "invalid id `{0}` of a run\nwrite one word of letters, digits, `_`, `-` and `.`, {MAX_RUN_ID_BYTES} bytes at most"
)]
pub struct InvalidRunId(String);

impl RunId {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        let is_plain = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
        // An option of the command begins with a hyphen.
        let fits = (1..=MAX_RUN_ID_BYTES).contains(&text.len()) && !text.starts_with('-');
        if fits && text.chars().all(is_plain) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(MAX_RUN_ID_BYTES).collect();
        Err(InvalidRunId(shown.escape_debug().to_string()))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_word_of_bounded_length() {
        for id in ["shot-17", "2026.11.28_3", "Schuß", &"x".repeat(64)] {
            assert_eq!(id.parse::<RunId>().unwrap().as_str(), id);
        }
        for id in ["", "a b", "a/b", "a@b", "-x", "a\u{1b}[2J", &"x".repeat(65)] {
            assert!(id.parse::<RunId>().is_err(), "{id:?}");
        }
        assert!(!"a\u{1b}[2J".parse::<RunId>().unwrap_err().to_string().contains('\u{1b}'));
    }
}
