//! Signed statements of a recording: `statements.jsonl`.
//!
//! Append-only: one JSON object per line, each ending with its own checksum as in the gap map. The first line names
//! stream and epoch; each other one has a statement as its publisher signed it, in hexadecimal digits. Nothing here
//! judges a statement: that is done by [`proof`]. Start with [`Statements::read`].

use std::path::Path;

use serde_json::{Value, json};

use crate::Description;
use crate::error::ArchiveError;
use crate::folders::STATEMENTS;
use crate::gaps::{Line, sealed};
use crate::store::{Store, StoreError, read_whole};
use crate::version::VERSION;

const FORMAT: &str = "tallycast-statements";

/// Statements as they were read.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// The bytes of each whole line's statement.
    pub(crate) lines: Vec<Vec<u8>>,
    /// Faults of the file and of single lines; a torn end is none.
    pub(crate) faults: Vec<String>,
    /// Size up to the last complete line, damaged ones included: what a recorder continues behind. Units: bytes.
    pub(crate) kept_bytes: u64,
}

/// Returns the first line of a stream's file.
pub(crate) fn head_line(description: &Description) -> String {
    let (stream, epoch) = (description.name.as_str(), description.epoch.to_string());
    let object = json!({"epoch": epoch, "format": FORMAT, "stream": stream, "version": VERSION}).to_string();
    sealed(&format!("{{\"line\":\"head\",{}", &object[1..object.len() - 1]))
}

/// Returns the line of a statement.
pub(crate) fn statement_line(statement: &[u8]) -> String {
    let digits: String = statement.iter().map(|byte| format!("{byte:02x}")).collect();
    sealed(&format!("{{\"line\":\"statement\",\"statement\":\"{digits}\""))
}

impl Statements {
    /// Reads the statements of an epoch; none if it has no such file.
    ///
    /// # Errors
    /// [`ArchiveError::Later`]; the error of the disk. Damage is a fault of the result.
    pub(crate) fn read(
        store: &dyn Store,
        folder: &Path,
        description: &Description,
    ) -> Result<Self, ArchiveError> {
        let path = folder.join(STATEMENTS);
        match read_whole(store, &path) {
            Ok(bytes) => Self::decode(&bytes, &path, description),
            Err(StoreError::NotFound(_)) => Ok(Self::default()),
            Err(error) if error.is_damage() => {
                Ok(Self { faults: vec![ArchiveError::from(error).first_line()], ..Self::default() })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn decode(bytes: &[u8], path: &Path, description: &Description) -> Result<Self, ArchiveError> {
        let mut found = Self::default();
        let (mut end, mut damaged) = (0_u64, 0_u64);
        for (position, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            end += line.len() as u64;
            // A page that never reached the disk is zeros, and a torn line has no end.
            if line.contains(&0) || !line.ends_with(b"\n") {
                continue;
            }
            found.kept_bytes = end;
            let text = core::str::from_utf8(line).ok().and_then(|text| text.strip_suffix('\n'));
            if text == Some("") {
                continue;
            }
            let value = text.filter(|text| Line::is_whole(text)).and_then(|it| serde_json::from_str(it).ok());
            let value: Value = value.unwrap_or_default();
            match value["line"].as_str() {
                Some("head") => found.check_head(&value, path, description)?,
                Some("statement") => match value["statement"].as_str().and_then(from_digits) {
                    Some(statement) => found.lines.push(statement),
                    None => damaged += 1,
                },
                Some(_) if position > 0 => {}
                _ => damaged += 1,
            }
        }
        if damaged > 0 {
            let lines = if damaged == 1 { "line is" } else { "lines are" };
            found.faults.push(format!("{}: {damaged} {lines} damaged", path.display()));
        }
        Ok(found)
    }

    fn check_head(
        &mut self,
        head: &Value,
        path: &Path,
        description: &Description,
    ) -> Result<(), ArchiveError> {
        ArchiveError::reject_later(path, head["version"].as_u64())?;
        let is_ours = head["format"] == FORMAT
            && head["stream"] == description.name.as_str()
            && head["epoch"] == description.epoch.to_string();
        if !is_ours {
            self.faults.push(format!("{}: it belongs to another stream or epoch", path.display()));
        }
        Ok(())
    }
}

fn from_digits(digits: &str) -> Option<Vec<u8>> {
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit()) && digits.len().is_multiple_of(2);
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    is_hex.then(|| (0..digits.len()).step_by(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype, Schema};
    use std::sync::Arc;
    use units::{Epoch, SampleRate};

    fn description() -> Description {
        let channels = vec![Channel::new("u", "V")];
        Description {
            name: Arc::new("lab/probe".parse().unwrap()),
            epoch: Epoch { start_ns: 1, incarnation: 2 },
            schema: Arc::new(Schema::new(Dtype::U16, SampleRate::hz(1).unwrap(), channels).unwrap()),
            station: String::new(),
        }
    }

    fn read(text: &str) -> Statements {
        Statements::decode(text.as_bytes(), Path::new("x"), &description()).unwrap()
    }

    #[test]
    fn statements_are_written_byte_for_byte_as_ever_and_come_back() {
        let text = head_line(&description()) + &statement_line(&[0, 0xab]);
        let expected = "{\"line\":\"head\",\"epoch\":\"1-0000000000000002\",\"format\":\"tallycast-statements\",\
                        \"stream\":\"lab/probe\",\"version\":1";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\n{\"line\":\"statement\",\"statement\":\"00ab\",\"crc32c\":\""), "{text}");
        let found = read(&text);
        assert_eq!((&found.lines[..], found.faults.len()), (&[vec![0, 0xab]][..], 0));
    }

    #[test]
    fn a_torn_end_costs_nothing_before_it_and_damage_its_own_line() {
        let head = head_line(&description());
        let lines = [statement_line(&[1]), statement_line(&[2])];
        let text = format!("{head}{}{}", lines[0], lines[1]);
        for end in 0..text.len() {
            let found = read(&text[..end]);
            assert!(found.faults.is_empty(), "{end}: {:?}", found.faults);
            assert_eq!(found.lines.len(), usize::from(end >= head.len() + lines[0].len()));
        }
        for at in head.len()..text.len() - 1 {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let found = Statements::decode(&changed, Path::new("x"), &description()).unwrap();
            assert!(found.lines.len() < 2, "byte {at}");
            assert_eq!(found.faults.len(), 1, "byte {at}");
        }
    }

    #[test]
    fn a_file_of_another_stream_is_told_and_a_later_version_is_refused() {
        let other = Description { name: Arc::new("lab/other".parse().unwrap()), ..description() };
        assert_eq!(read(&head_line(&other)).faults, ["x: it belongs to another stream or epoch"]);
        let later = sealed("{\"line\":\"head\",\"version\":2");
        let refused = Statements::decode(later.as_bytes(), Path::new("x"), &description()).unwrap_err();
        assert!(refused.is_later_version());
    }
}
