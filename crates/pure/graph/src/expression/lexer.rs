//! An expression's text cut into what it is made of.

use super::ExpressionError;

/// A token of the text, and its position, counted in characters from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexeme<'a> {
    pub(super) token: Token<'a>,
    pub(super) position: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Token<'a> {
    Number(f64),
    Name(&'a str),
    Operator(char),
    Open,
    Close,
    Comma,
}

/// Splits a text into tokens; stops at the first invalid character.
pub(super) fn lexemes(text: &str) -> Result<Vec<Lexeme<'_>>, ExpressionError> {
    let mut lexemes = Vec::new();
    let mut rest = text;
    let mut position = 1;
    while let Some(character) = rest.chars().next() {
        let (token, size_bytes) = match character {
            space if space.is_whitespace() => (None, space.len_utf8()),
            '+' | '-' | '*' | '/' | '^' => (Some(Token::Operator(character)), 1),
            '(' => (Some(Token::Open), 1),
            ')' => (Some(Token::Close), 1),
            ',' => (Some(Token::Comma), 1),
            '0'..='9' | '.' => {
                let size_bytes = number_bytes(rest);
                let digits = &rest[..size_bytes];
                let value = digits.parse().ok().filter(|value: &f64| value.is_finite());
                let no_number = ExpressionError::Number { text: digits.to_owned(), position };
                (Some(Token::Number(value.ok_or(no_number)?)), size_bytes)
            }
            start if starts_name(start) => {
                let end = rest.find(|character| !continues_name(character)).unwrap_or(rest.len());
                (Some(Token::Name(&rest[..end])), end)
            }
            character => return Err(ExpressionError::Character { character, position }),
        };
        lexemes.extend(token.map(|token| Lexeme { token, position }));
        position += rest[..size_bytes].chars().count();
        rest = &rest[size_bytes..];
    }
    Ok(lexemes)
}

/// Returns whether a text is a valid variable name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(starts_name) && text.chars().all(continues_name)
}

fn starts_name(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

fn continues_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns how far digits, points and an exponent reach.
fn number_bytes(text: &str) -> usize {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mantissa = digits(text);
    let Some(exponent) = text[mantissa..].strip_prefix(['e', 'E']) else { return mantissa };
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    match digits(unsigned) {
        // `2e` is 2 and a name, which then is an operator missing.
        0 => mantissa,
        size_bytes => text.len() - unsigned.len() + size_bytes,
    }
}
