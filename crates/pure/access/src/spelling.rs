//! Known words near a misspelt one.

use core::fmt;

/// The known words, preceded by the one that was probably meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    meant: Option<&'static str>,
    all: String,
}

impl Known {
    /// Makes the answer to `word` among the words `all`.
    pub(crate) fn near(word: &str, all: &[&'static str]) -> Self {
        Self { meant: nearest(word, all), all: all.join(", ") }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(meant) = self.meant {
            write!(formatter, "did you mean `{meant}`? ")?;
        }
        write!(formatter, "known: {}", self.all)
    }
}

/// The longest word that is compared; all known ones are shorter.
const MAX_WORD_CHARS: usize = 32;

/// Returns the known word with the fewest changes to `word`, if they are few.
fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let word: Vec<char> = word.chars().take(MAX_WORD_CHARS + 1).flat_map(char::to_lowercase).collect();
    // Two letters exchanged are two changes.
    let limit = (word.len() / 2).clamp(1, 3);
    let ranked = known.iter().map(|known| (changes(&word, known), *known));
    // A word with every letter changed is another word, not a misspelt one.
    let near = ranked.filter(|(changes, known)| *changes <= limit && *changes < known.len());
    near.min_by_key(|(changes, _)| *changes).map(|(_, known)| known)
}

/// Returns the least number of letters to insert, remove or replace.
///
/// Source: V. I. Levenshtein 1966, by the rows of R. A. Wagner and M. J. Fischer 1974.
fn changes(word: &[char], known: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (done, letter) in known.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], done + 1);
        for at in 0..word.len() {
            let replaced = diagonal + usize::from(word[at] != letter);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_is_recognised_and_another_is_not() {
        let known = ["read", "publish", "steer", "*"];
        for (word, meant) in [
            ("raed", Some("read")),
            ("rea", Some("read")),
            ("Read", Some("read")),
            ("publsh", Some("publish")),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
        for word in ["", "x", "write", "stop", &"read".repeat(1_000)] {
            assert_eq!(nearest(word, &known), None, "{word}");
        }
        assert_eq!(
            Known::near("ster", &known).to_string(),
            "did you mean `steer`? known: read, publish, steer, *"
        );
    }
}
