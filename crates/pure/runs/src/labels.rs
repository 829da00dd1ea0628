//! Labels of runs: `program=ohmic`, `gas=D2`.

use std::collections::BTreeMap;

/// The most labels of a run.
pub const MAX_LABELS: usize = 32;
/// The longest key of a label in bytes.
pub const MAX_LABEL_KEY_BYTES: usize = 64;
/// The longest value of a label in bytes.
pub const MAX_LABEL_VALUE_BYTES: usize = 256;

/// Labels by key.
pub type Labels = BTreeMap<String, String>;

/// Error in the labels of a run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// Text without `=`.
    #[error("`{0}` is not a label\nwrite KEY=VALUE")]
    NoValue(String),
    /// A key that is empty, too long, or no word.
    #[error(
        "invalid key `{0}` of a label\nwrite one word of letters, digits, `_`, `-` and `.`, {MAX_LABEL_KEY_BYTES} bytes at most"
    )]
    Key(String),
    /// A value that is too long or has control characters.
    #[error("invalid value of label `{0}`\nwrite one line of {MAX_LABEL_VALUE_BYTES} bytes at most")]
    Value(String),
    /// Too many labels.
    #[error("a run has at most {MAX_LABELS} labels, not {0}\nleave some out")]
    Count(usize),
    /// A key twice.
    #[error("label `{0}` is given twice\ngive each label once")]
    Twice(String),
}

/// Reads a label.
///
/// # Errors
/// [`LabelError`] if there is no `=`, or key or value cannot be those of a label.
pub fn parse_label(text: &str) -> Result<(String, String), LabelError> {
    let (key, value) = text.split_once('=').ok_or_else(|| LabelError::NoValue(shown(text)))?;
    check_label(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn check_labels(labels: &Labels) -> Result<(), LabelError> {
    if labels.len() > MAX_LABELS {
        return Err(LabelError::Count(labels.len()));
    }
    labels.iter().try_for_each(|(key, value)| check_label(key, value))
}

fn check_label(key: &str, value: &str) -> Result<(), LabelError> {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    if !(1..=MAX_LABEL_KEY_BYTES).contains(&key.len()) || !key.chars().all(is_plain) {
        return Err(LabelError::Key(shown(key)));
    }
    if value.len() > MAX_LABEL_VALUE_BYTES || value.chars().any(char::is_control) {
        return Err(LabelError::Value(key.to_owned()));
    }
    Ok(())
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_LABEL_KEY_BYTES).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_word_and_one_line() {
        assert_eq!(parse_label("program=a=b c"), Ok(("program".to_owned(), "a=b c".to_owned())));
        assert_eq!(parse_label("program="), Ok(("program".to_owned(), String::new())));
        let (key, value) = ("k".repeat(64), "v".repeat(256));
        assert!(parse_label(&format!("{key}={value}")).is_ok());
        for text in ["program", "=x", "a b=x", "a=x\ny", &format!("{key}k=x"), &format!("k={value}v")] {
            assert!(parse_label(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_run_has_a_bounded_number_of_labels() {
        let labels = |count: usize| (0..count).map(|it| (format!("k{it}"), String::new())).collect();
        assert_eq!(check_labels(&labels(MAX_LABELS)), Ok(()));
        assert_eq!(check_labels(&labels(MAX_LABELS + 1)), Err(LabelError::Count(MAX_LABELS + 1)));
    }
}
