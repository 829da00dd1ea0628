//! Text broken into lines between words, for terminals.
//!
//! A word longer than its line stays whole, so that it can be searched for and copied.

/// Breaks a text into lines of at most `width` letters where words are; its own lines stay lines.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| broken(line, width, width)).collect()
}

/// Returns `head` and `text` behind it, whose further lines begin below its first letter.
#[must_use]
pub fn hanging(head: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(letters(head));
    let lines = wrapped(text, width.saturating_sub(indent.len()));
    let text = lines.join(&format!("\n{indent}"));
    format!("{head}{text}").trim_end().to_owned()
}

/// Breaks one line of text, keeping the spaces within it; it has at least one part.
///
/// Units: letters, for the first part and for the others.
#[must_use]
pub fn broken(line: &str, first_width: usize, other_width: usize) -> Vec<String> {
    let (mut parts, mut part, mut spaces) = (Vec::new(), String::new(), 0);
    for (index, word) in line.split(' ').enumerate() {
        spaces += usize::from(index > 0);
        if word.is_empty() {
            continue;
        }
        let width = if parts.is_empty() { first_width } else { other_width };
        let is_first = part.trim().is_empty();
        if is_first || letters(&part) + spaces + letters(word) <= width {
            part.push_str(&" ".repeat(spaces));
        } else {
            parts.push(std::mem::take(&mut part));
        }
        part.push_str(word);
        spaces = 0;
    }
    parts.push(part);
    parts
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_never_within_one() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a  b\n/dev/a-very-long-name c", 9), ["a  b", "/dev/a-very-long-name", "c"]);
        assert_eq!(hanging("why   ", "one two three", 13), "why   one two\n      three");
        assert_eq!(hanging("why   ", "", 20), "why");
    }
}
