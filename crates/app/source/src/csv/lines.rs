//! Lines of a text, numbered, with a bound on their length.

use std::io::{BufRead, BufReader, Read};

/// Maximum length of a line, in bytes: 4,096 channels of 200 digits. Longer ones are binary data, not lines.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Byte order mark of UTF-8, which programs on Windows write before the text.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reader of lines.
pub(crate) struct TextLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

/// Reason why there is no next line.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The line is longer than 1 MiB.
    TooLong,
    /// The line cannot be read.
    Io(std::io::Error),
}

impl<R: Read> TextLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { reader: BufReader::new(input), line: Vec::new(), number: 0 }
    }

    /// Reads the next line, blank or not; `false` at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, LineError> {
        self.line.clear();
        self.number += 1;
        let mut limited = (&mut self.reader).take(MAX_LINE_BYTES);
        let size_bytes = limited.read_until(b'\n', &mut self.line).map_err(LineError::Io)?;
        if size_bytes as u64 == MAX_LINE_BYTES {
            return Err(LineError::TooLong);
        }
        if self.number == 1 && self.line.starts_with(MARK) {
            self.line.drain(..MARK.len());
        }
        Ok(size_bytes > 0)
    }

    /// Returns the line.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// Returns the number of the line, from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether another line has arrived already.
    pub(crate) fn has_another(&self) -> bool {
        self.reader.buffer().contains(&b'\n')
    }
}

/// Returns whether a line is blank or a comment.
pub(crate) fn is_passed_over(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start(), [] | [b'#', ..])
}
