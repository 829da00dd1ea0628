//! Text from the network: short, valid, and free of terminal control sequences.

use crate::malformed::Reason;

/// Maximum length of a station's name, that of a host name label. Units: bytes.
pub const MAX_STATION_BYTES: usize = 63;

/// Reads text of at most `limit` bytes without control characters.
pub(crate) fn read(bytes: &[u8], limit: usize, field: &'static str) -> Result<String, Reason> {
    let text = core::str::from_utf8(bytes).map_err(|_| Reason::Field(field))?;
    if is_plain(text) && text.len() <= limit { Ok(text.to_owned()) } else { Err(Reason::Field(field)) }
}

/// Returns the longest prefix of `text` that fits into `limit` bytes, up to its first control character.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let plain = text.split(char::is_control).next().unwrap_or_default();
    let fits = |end: &usize| *end <= limit;
    let ends = plain.char_indices().map(|(start, character)| start + character.len_utf8());
    &plain[..ends.take_while(fits).last().unwrap_or(0)]
}

/// Returns whether `text` is free of control characters.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_before_commands() {
        assert_eq!(cut("viewer", 32), "viewer");
        assert_eq!(cut("größe", 3), "gr");
        assert_eq!(cut("größe", 4), "grö");
        assert_eq!(cut("a\u{1b}[2Jb", 32), "a");
    }

    #[test]
    fn escapes_for_a_terminal_are_refused() {
        assert_eq!(read("größe".as_bytes(), 7, "name").as_deref(), Ok("größe"));
        assert_eq!(read("größe".as_bytes(), 6, "name"), Err(Reason::Field("name")));
        assert_eq!(read(b"\x1b[2J", 32, "name"), Err(Reason::Field("name")));
        assert_eq!(read(b"\xff", 32, "name"), Err(Reason::Field("name")));
    }
}
