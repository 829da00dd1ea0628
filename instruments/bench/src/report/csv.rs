//! Cells of tables for other programs.

/// Formats a value; an empty cell if there is none.
pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// Formats a text so that none of its commas begins a new cell. Source: RFC 4180 §2, rules 5 to 7.
pub(crate) fn text(words: &str) -> String {
    if words.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", words.replace('"', "\"\""))
    } else {
        words.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_in_their_cell() {
        assert_eq!(text("plain words"), "plain words");
        assert_eq!(text("a, b"), "\"a, b\"");
        assert_eq!(text("say \"so\"\n"), "\"say \"\"so\"\"\n\"");
        assert_eq!((cell(Some(7)), cell(None::<u32>)), ("7".to_owned(), String::new()));
    }
}
