//! Small JSON files that carry their own checksum: `stream.json`, the accounts, the mark of the root.
//!
//! The last member is `"crc32c"`, eight hexadecimal digits over all bytes before it, so that a changed file is
//! detected. Files written before the checksum was added are read without it. Start with [`stamp`] and [`read`].

use serde_json::Value;

use crate::checksum::crc32c;

/// Separator of the content and its checksum.
const MARK: &str = ",\n  \"crc32c\": \"";
/// End of a file, behind the checksum.
const END: &str = "\"\n}\n";

/// Error: a file is no JSON, or was changed after it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Changed;

/// Returns an object as text that ends with its checksum.
///
/// # Panics
/// If the value is no object with at least one member.
pub(crate) fn stamp(object: &Value) -> String {
    let text = format!("{object:#}");
    let content = text.strip_suffix("\n}").expect("an object with a member");
    format!("{content}{MARK}{:08x}{END}", crc32c([content.as_bytes()]))
}

/// Reads a file written by [`stamp`], or by an earlier version.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, Changed> {
    let mut value: Value = serde_json::from_slice(bytes).map_err(|_| Changed)?;
    let text = core::str::from_utf8(bytes).map_err(|_| Changed)?;
    let Some(told) = value.as_object_mut().ok_or(Changed)?.remove("crc32c") else {
        return if has_renamed_checksum(text) { Err(Changed) } else { Ok(value) };
    };
    let (content, rest) = text.rsplit_once(MARK).ok_or(Changed)?;
    let right = format!("{:08x}", crc32c([content.as_bytes()]));
    let is_whole = rest.strip_suffix(END) == Some(&*right) && told == right.as_str();
    is_whole.then_some(value).ok_or(Changed)
}

/// Returns whether a file ends with the checksum of its content under another name: then it was written with a
/// checksum, and its last line was changed.
fn has_renamed_checksum(text: &str) -> bool {
    let digits =
        text.strip_suffix(END).and_then(|text| text.len().checked_sub(8).map(|at| text.split_at_checked(at)));
    let Some(Some((before, digits))) = digits else { return false };
    let content = before.len().checked_sub(MARK.len()).and_then(|at| before.get(..at));
    content.is_some_and(|content| digits == format!("{:08x}", crc32c([content.as_bytes()])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_written_is_read_and_no_flipped_bit_changes_it() {
        let value = json!({"a": 1, "stored_index": 12_345, "text": "x\",\n  \"crc32c\": \""});
        let text = stamp(&value).into_bytes();
        assert_eq!(read(&text), Ok(value.clone()));
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&changed), Err(Changed), "bit {bit}");
        }
    }

    #[test]
    fn what_was_written_without_a_checksum_is_read() {
        assert_eq!(read(b"{\"a\": 1}"), Ok(json!({"a": 1})));
        assert_eq!(read(b"{\"a\": 1"), Err(Changed));
        assert_eq!(read(b"[]"), Err(Changed));
    }
}
