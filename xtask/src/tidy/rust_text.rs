//! Rust source split into code and comments, line by line, so that a rule about one ignores the other.
//!
//! Not a parser: it implements just enough of the lexical grammar (strings, raw strings, characters against
//! lifetimes, nested block comments) to separate the three kinds of text. The contents of strings are left out of
//! both.

/// One line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The line without comments and without the contents of strings.
    pub(super) code: String,
    /// The line's comments with their slashes: `// why`, `/// What.`.
    pub(super) comment: String,
}

#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: u32 },
    String,
    RawString { hashes: usize },
}

/// Splits `source`; the result has one entry per line.
pub(super) fn split(source: &str) -> Vec<Line> {
    let mut splitter = Splitter { lines: vec![Line::default()], state: State::Code };
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        if character == '\n' {
            splitter.end_line();
            rest = &rest[1..];
        } else {
            let taken = splitter.step(rest, character);
            rest = &rest[taken..];
        }
    }
    splitter.lines
}

struct Splitter {
    lines: Vec<Line>,
    state: State,
}

impl Splitter {
    fn end_line(&mut self) {
        self.lines.push(Line::default());
        if matches!(self.state, State::LineComment) {
            self.state = State::Code;
        }
    }

    fn line(&mut self) -> &mut Line {
        self.lines.last_mut().expect("there is a line from the beginning on")
    }

    /// Consumes the token at the head of `rest` (which begins with `character`) and returns its length in bytes.
    fn step(&mut self, rest: &str, character: char) -> usize {
        match self.state {
            State::Code => self.step_code(rest, character),
            State::LineComment => {
                self.line().comment.push(character);
                character.len_utf8()
            }
            State::BlockComment { depth } => self.step_block_comment(rest, character, depth),
            State::String if character == '\\' => escape_len(rest),
            State::String => self.step_string(rest, character, "\""),
            State::RawString { hashes } => {
                self.step_string(rest, character, &format!("\"{}", "#".repeat(hashes)))
            }
        }
    }

    fn step_code(&mut self, rest: &str, character: char) -> usize {
        if rest.starts_with("//") {
            self.state = State::LineComment;
            return 0;
        }
        if rest.starts_with("/*") {
            self.state = State::BlockComment { depth: 1 };
            self.line().comment.push_str("/*");
            return 2;
        }
        if let Some((hashes, len)) = self.raw_string_opening(rest) {
            self.state = State::RawString { hashes };
            self.line().code.push_str(&rest[..len]);
            return len;
        }
        if character == '\''
            && let Some(len) = character_literal_len(rest)
        {
            self.line().code.push_str("' '");
            return len;
        }
        if character == '"' {
            self.state = State::String;
        }
        self.line().code.push(character);
        character.len_utf8()
    }

    fn step_block_comment(&mut self, rest: &str, character: char, depth: u32) -> usize {
        if rest.starts_with("/*") {
            self.state = State::BlockComment { depth: depth + 1 };
            return 2;
        }
        if rest.starts_with("*/") {
            self.state = if depth == 1 { State::Code } else { State::BlockComment { depth: depth - 1 } };
            return 2;
        }
        self.line().comment.push(character);
        character.len_utf8()
    }

    fn step_string(&mut self, rest: &str, character: char, end: &str) -> usize {
        if rest.starts_with(end) {
            self.state = State::Code;
            self.line().code.push_str(end);
            return end.len();
        }
        character.len_utf8()
    }

    /// Returns the number of hashes and the length of `r"`, `r#"`, `r##"` …, unless the `r` ends a longer name.
    fn raw_string_opening(&mut self, rest: &str) -> Option<(usize, usize)> {
        let after_r = rest.strip_prefix('r')?;
        let hashes = after_r.len() - after_r.trim_start_matches('#').len();
        let before = self.line().code.trim_end_matches(['b', 'c']);
        let inside_a_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        (after_r[hashes..].starts_with('"') && !inside_a_name).then_some((hashes, hashes + 2))
    }
}

/// Returns the length of a backslash and the escaped character; an escaped line end is left to the caller, who
/// counts lines.
fn escape_len(rest: &str) -> usize {
    rest.chars().take(2).filter(|&c| c != '\n').map(char::len_utf8).sum()
}

/// Returns the length of the character literal at the head of `rest`, or `None` for a lifetime.
fn character_literal_len(rest: &str) -> Option<usize> {
    let inside = &rest[1..];
    let first = inside.chars().next()?;
    if first == '\\' {
        let escaped = escape_len(inside);
        return inside[escaped..].find('\'').map(|at| 1 + escaped + at + 1);
    }
    inside[first.len_utf8()..].starts_with('\'').then(|| 1 + first.len_utf8() + 1)
}

/// Returns whether `word` occurs in `text` as a whole identifier.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_name) && !text[at + word.len()..].starts_with(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> Vec<String> {
        split(source).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_leave_the_code_and_keep_their_line() {
        let lines = split("let a = 1; // why\n/* one\ntwo */ let b;");
        assert_eq!(lines[0], Line { code: "let a = 1; ".into(), comment: "// why".into() });
        assert_eq!(lines[1].comment, "/* one");
        assert_eq!(lines[2], Line { code: " let b;".into(), comment: "two ".into() });
    }

    #[test]
    fn contents_of_strings_are_neither_code_nor_comment() {
        assert_eq!(code(r#"f("// no", "a\"b", 1)"#), [r#"f("", "", 1)"#]);
        assert_eq!(code("r#\"x \" // y\"# + br\"z\""), ["r#\"\"# + br\"\""]);
        assert_eq!(code("\"one\ntwo\" + 1"), ["\"", "\" + 1"]);
        assert_eq!(code("\"one\\\n two\" + 1"), ["\"", "\" + 1"]);
    }

    #[test]
    fn a_lifetime_does_not_open_a_character() {
        assert_eq!(code("fn f<'a>(x: &'a str) // '"), ["fn f<'a>(x: &'a str) "]);
        assert_eq!(code(r"['\'', '\u{7f}', '/', '\\'] // x"), ["[' ', ' ', ' ', ' '] "]);
    }

    #[test]
    fn block_comments_nest() {
        assert_eq!(code("a /* b /* c */ d */ e"), ["a  e"]);
    }

    #[test]
    fn a_name_that_ends_in_r_does_not_open_a_raw_string() {
        assert_eq!(code("for r in var\"x\""), ["for r in var\"\""]);
        assert_eq!(code("let r#type = 1;"), ["let r#type = 1;"]);
    }

    #[test]
    fn words_are_whole_identifiers() {
        assert!(has_word("x = unsafe { 1 }", "unsafe"));
        assert!(!has_word("#![expect(unsafe_code)]", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
