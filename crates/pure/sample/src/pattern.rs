//! Patterns that name streams: `lab/*`, `w7x/**/power`.

use core::fmt;
use core::str::FromStr;

use crate::StreamName;

/// Chooses streams by name: `*` matches any characters within one word, `**` any number of words.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPattern(String);

/// Error for an invalid pattern.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "invalid pattern `{0}`; write a stream name in which `*` matches a part of a word and `**` any words"
)]
pub struct PatternError(pub String);

impl StreamPattern {
    /// Returns the pattern of all streams.
    #[must_use]
    pub fn all() -> Self {
        Self("**".to_owned())
    }

    /// Returns the pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern matches a name.
    #[must_use]
    pub fn matches(&self, name: &StreamName) -> bool {
        // Nodes of a graph ask for one stream each, by the hundred.
        if !self.0.contains('*') {
            return self.0 == name.as_str();
        }
        let pattern: Vec<&str> = self.0.split('/').collect();
        let name: Vec<&str> = name.as_str().split('/').collect();
        words_match(&pattern, &name)
    }
}

impl FromStr for StreamPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let placeholders_as_words = text.split('/').map(|word| word.replace('*', "x")).collect::<Vec<_>>();
        let is_name = placeholders_as_words.join("/").parse::<StreamName>().is_ok();
        // Two stars inside a word would look like `**` but have another meaning.
        let clear = text.split('/').all(|word| word == "**" || !word.contains("**"));
        if is_name && clear { Ok(Self(text.to_owned())) } else { Err(PatternError(text.to_owned())) }
    }
}

impl fmt::Display for StreamPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl fmt::Debug for StreamPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

/// Matches words; each `**` is tried with the fewest words first.
///
/// Cost: linear in the name for each `**` but the last, because only the last one needs to be widened.
fn words_match(pattern: &[&str], name: &[&str]) -> bool {
    wildcard_match(pattern, name, |pattern| *pattern == "**", |pattern, word| word_matches(pattern, word))
}

fn word_matches(pattern: &str, word: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let word: Vec<char> = word.chars().collect();
    wildcard_match(&pattern, &word, |pattern| *pattern == '*', |pattern, word| pattern == word)
}

/// Matches a sequence against a pattern in which wildcards match any run.
///
/// Only the last wildcard is ever widened: it can take everything that an earlier one could.
fn wildcard_match<P, T>(
    pattern: &[P],
    text: &[T],
    is_wildcard: impl Fn(&P) -> bool,
    same: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at_pattern, mut at_text) = (0, 0);
    let mut widen: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some(part) if is_wildcard(part) => {
                widen = Some((at_pattern, at_text));
                at_pattern += 1;
            }
            Some(part) if same(part, &text[at_text]) => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => {
                let Some((wildcard, taken)) = widen else { return false };
                widen = Some((wildcard, taken + 1));
                at_pattern = wildcard + 1;
                at_text = taken + 1;
            }
        }
    }
    pattern[at_pattern..].iter().all(is_wildcard)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<StreamPattern>().unwrap().matches(&name.parse().unwrap())
    }

    #[test]
    fn a_star_stays_within_a_word_and_two_stars_cross_words() {
        assert!(matches("lab/*", "lab/probe"));
        assert!(!matches("lab/*", "lab/probe/current"));
        assert!(!matches("lab/*", "lab"));
        assert!(matches("lab/**", "lab/probe/current"));
        assert!(matches("**", "anything/at/all"));
        assert!(matches("**/power", "w7x/ecrh/power"));
        assert!(matches("w7x/**/power", "w7x/power"));
        assert!(matches("w7x/**/a/**/b", "w7x/a/x/a/y/b"));
        assert!(!matches("w7x/**/power", "w7x/ecrh/powers"));
        assert!(matches("p*e-*1", "probe-a1-b1"));
    }

    #[test]
    fn a_plain_name_matches_itself_only() {
        assert!(matches("a/b", "a/b"));
        assert!(!matches("a/b", "a/bb"));
    }

    #[test]
    fn what_cannot_name_a_stream_is_refused() {
        for text in ["", "/", "a//b", "a b", "a**b", "***", "a/"] {
            assert!(text.parse::<StreamPattern>().is_err(), "{text}");
        }
    }
}
