//! Fields of a line: separators and quotes (RFC 4180 §2, line by line).

use std::borrow::Cow;

/// Separator between the fields of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Separator {
    Comma,
    Semicolon,
    Tab,
    /// Runs of spaces and tabs.
    Blanks,
}

impl Separator {
    /// All of them; of equally good ones the first is taken.
    pub(crate) const ALL: [Self; 4] = [Self::Comma, Self::Semicolon, Self::Tab, Self::Blanks];

    /// Returns the name, for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Comma => "commas",
            Self::Semicolon => "semicolons",
            Self::Tab => "tabs",
            Self::Blanks => "blanks",
        }
    }

    /// Splits a line into trimmed fields; a separator within double quotes belongs to its field.
    pub(crate) fn split(self, line: &str) -> Vec<Cow<'_, str>> {
        let line = if self == Self::Blanks { line.trim() } else { line.trim_end_matches(['\r', '\n']) };
        let (mut fields, mut rest) = (Vec::new(), Some(line));
        while let Some(text) = rest {
            let (field, behind) = self.first(text);
            fields.push(field);
            rest = self.past_separator(behind);
        }
        if self == Self::Blanks { units_joined(fields) } else { fields }
    }

    /// Returns the first field, and the text from its separator on.
    fn first(self, text: &str) -> (Cow<'_, str>, &str) {
        let end_of = |text: &str| text.find(|sign| self.divides(sign)).unwrap_or(text.len());
        if let Some(inner) = text.trim_start_matches(' ').strip_prefix('"') {
            let (field, behind) = quoted(inner);
            return (field, &behind[end_of(behind)..]);
        }
        let (field, behind) = text.split_at(end_of(text));
        (Cow::Borrowed(field.trim()), behind)
    }

    fn past_separator(self, behind: &str) -> Option<&str> {
        let mut signs = behind.chars();
        signs.next()?;
        let rest = signs.as_str();
        Some(if self == Self::Blanks { rest.trim_start() } else { rest })
    }

    fn divides(self, sign: char) -> bool {
        match self {
            Self::Comma => sign == ',',
            Self::Semicolon => sign == ';',
            Self::Tab => sign == '\t',
            Self::Blanks => sign.is_whitespace(),
        }
    }
}

/// Joins the units of headings that blanks separate: `current [A] voltage [V]` are two.
fn units_joined(fields: Vec<Cow<'_, str>>) -> Vec<Cow<'_, str>> {
    let mut joined: Vec<Cow<'_, str>> = Vec::with_capacity(fields.len());
    for field in fields {
        match joined.last_mut() {
            Some(name) if field.starts_with(['[', '(']) && !name.ends_with([']', ')']) => {
                *name = Cow::Owned(format!("{name} {field}"));
            }
            _ => joined.push(field),
        }
    }
    joined
}

/// Returns the text up to the closing quotation mark, and the text behind it; two marks stand for one.
fn quoted(text: &str) -> (Cow<'_, str>, &str) {
    let mut from = 0;
    while let Some(at) = text[from..].find('"').map(|at| from + at) {
        if !text[at + 1..].starts_with('"') {
            return (single_marks(&text[..at]), &text[at + 1..]);
        }
        from = at + 2;
    }
    (single_marks(text), "")
}

fn single_marks(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if text.contains("\"\"") { Cow::Owned(text.replace("\"\"", "\"")) } else { Cow::Borrowed(text) }
}

/// Returns the number of fields up to the last that is not empty.
pub(crate) fn filled(fields: &[Cow<'_, str>]) -> usize {
    fields.iter().rposition(|field| !field.is_empty()).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(separator: Separator, line: &str) -> Vec<String> {
        separator.split(line).into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn fields_are_trimmed_and_quotes_keep_separators() {
        assert_eq!(split(Separator::Comma, " a , \"b, c\" ,,\"d\"\"e\"\r\n"), ["a", "b, c", "", "d\"e"]);
        assert_eq!(split(Separator::Semicolon, "1,5;\"u; v\""), ["1,5", "u; v"]);
        assert_eq!(split(Separator::Tab, "1\t\t 3 \t"), ["1", "", "3", ""]);
        assert_eq!(split(Separator::Blanks, "  1 \t 2   \"a b\" 3  \n"), ["1", "2", "a b", "3"]);
        assert_eq!(split(Separator::Blanks, "current [A] u (V) w"), ["current [A]", "u (V)", "w"]);
    }

    #[test]
    fn a_quote_without_an_end_takes_the_rest() {
        assert_eq!(split(Separator::Comma, "1,\"2,3"), ["1", "2,3"]);
        assert_eq!(split(Separator::Comma, "5\" pipe,2"), ["5\" pipe", "2"]);
    }

    #[test]
    fn empty_fields_at_the_end_are_not_counted() {
        assert_eq!(filled(&Separator::Comma.split("1,,2,,")), 3);
        assert_eq!(filled(&Separator::Comma.split(",,")), 0);
    }
}
