//! Lines of numbers from standard input or any other reader: one line, one sample.
//!
//! Values are separated by commas, semicolons, spaces or tabs; blank lines and `#` comments are skipped; the first
//! line may name the channels (`current [A], voltage [V]` or `a b`). Lines arrive in real time, so the user gives the
//! rate and the system's clock stamps them.

use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU64;

use sample::{Channel, Dtype, Schema, StreamName};
use units::SampleRate;

use crate::numbers::{heading, numbered_channels, push_text};
use crate::piece::samples_at_once;
use crate::{Description, NanPolicy, NumberError, Piece, Source, SourceError, Timing};

/// Maximum length of a line, in bytes: 4,096 channels of 200 digits. Longer ones are binary data, not lines.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Options of the lines.
#[derive(Clone, PartialEq, Debug)]
pub struct LinesOptions {
    /// Name of the stream.
    pub name: StreamName,
    /// Samples per second.
    pub rate: SampleRate,
    /// Type of the elements; `f8` by default.
    pub dtype: Dtype,
    /// Channels; by default those of the first line.
    pub channels: Option<Vec<Channel>>,
    /// Policy for values that are not finite numbers.
    pub nan: NanPolicy,
}

/// Source that reads lines.
pub struct Lines<R> {
    reader: BufReader<R>,
    description: Description,
    nan: NanPolicy,
    line: String,
    line_number: u64,
    /// True if the first line was needed for the channels and is yet to be returned.
    first_waits: bool,
    failure: Option<LinesError>,
    buffer: Vec<u8>,
}

/// Error of a line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinesError {
    /// The input ended before a line of values.
    #[error("the input ended before the first line of values")]
    Empty,
    /// A line has more or fewer values than there are channels.
    #[error("line {line} has {found} values, expected {expected}")]
    Ragged {
        /// Number of the line, from 1.
        line: u64,
        /// Number of its values.
        found: usize,
        /// Number of channels.
        expected: usize,
    },
    /// A value is no valid element.
    #[error("line {line}, value {value}: {source}")]
    Value {
        /// Number of the line, from 1.
        line: u64,
        /// Number of the value, from 1.
        value: usize,
        /// Error of the value.
        source: NumberError,
    },
    /// A line is too long.
    #[error("line {line} is longer than 1 MiB\nfor binary input set --dtype and --channels")]
    TooLong {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The input cannot be read, or is not UTF-8.
    #[error("reading line {line} failed: {source}")]
    Io {
        /// Number of the line, from 1.
        line: u64,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl LinesOptions {
    /// Creates options with defaults: floats, channels from the first line, NaN refused.
    #[must_use]
    pub const fn new(name: StreamName, rate: SampleRate) -> Self {
        Self { name, rate, dtype: Dtype::F8, channels: None, nan: NanPolicy::Refuse }
    }
}

impl<R: Read + Send> Lines<R> {
    /// Waits for the first line, which gives the channels unless they are set.
    ///
    /// # Errors
    /// [`SourceError::Lines`], [`SourceError::Schema`] if the first line or the channels are invalid.
    pub fn open(input: R, options: &LinesOptions) -> Result<Self, SourceError> {
        let schema = Schema::new(options.dtype, options.rate, vec![Channel::new("ch0", "")])?;
        let description =
            Description { name: options.name.clone(), schema, timing: Timing::Live, samples: None };
        let mut lines = Self {
            reader: BufReader::new(input),
            description,
            nan: options.nan,
            line: String::new(),
            line_number: 0,
            first_waits: true,
            failure: None,
            buffer: Vec::new(),
        };
        if !lines.read_line()? {
            return Err(LinesError::Empty.into());
        }
        lines.description.schema.channels = lines.channels_of_first_line(options)?;
        lines.description.schema.check()?;
        Ok(lines)
    }

    fn channels_of_first_line(&mut self, options: &LinesOptions) -> Result<Vec<Channel>, LinesError> {
        let is_header = values(&self.line).any(|value| value.parse::<f64>().is_err());
        let found =
            if is_header { headings(&self.line) } else { numbered_channels(values(&self.line).count()) };
        if is_header && !self.read_line()? {
            return Err(LinesError::Empty);
        }
        Ok(options.channels.clone().unwrap_or(found))
    }

    /// Reads the next line that is not blank; `false` at the end.
    fn read_line(&mut self) -> Result<bool, LinesError> {
        loop {
            self.line.clear();
            self.line_number += 1;
            let mut limited = (&mut self.reader).take(MAX_LINE_BYTES);
            let read = limited.read_line(&mut self.line);
            let size_bytes = read.map_err(|source| LinesError::Io { line: self.line_number, source })?;
            if size_bytes as u64 == MAX_LINE_BYTES {
                return Err(LinesError::TooLong { line: self.line_number });
            }
            let text = self.line.trim();
            if size_bytes == 0 || !(text.is_empty() || text.starts_with('#')) {
                return Ok(size_bytes > 0);
            }
        }
    }

    fn push_line(&mut self) -> Result<(), LinesError> {
        let (line, expected) = (self.line_number, self.description.schema.channels.len());
        let found = values(&self.line).count();
        if found != expected {
            return Err(LinesError::Ragged { line, found, expected });
        }
        let whole_bytes = self.buffer.len();
        for (index, text) in values(&self.line).enumerate() {
            if let Err(source) = push_text(text, self.description.schema.dtype, self.nan, &mut self.buffer) {
                self.buffer.truncate(whole_bytes);
                return Err(LinesError::Value { line, value: index + 1, source });
            }
        }
        Ok(())
    }

    /// Takes lines until there are `count` samples, until the end, or until the next line is not available yet.
    fn fill(&mut self, count: usize) -> Result<(), LinesError> {
        for _ in 0..count {
            if !std::mem::take(&mut self.first_waits) && !self.read_line()? {
                return Ok(());
            }
            self.push_line()?;
            if !self.reader.buffer().contains(&b'\n') {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<R: Read + Send> Source for Lines<R> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        self.buffer.clear();
        let count = samples_at_once(at_most, self.description.schema.sample_bytes());
        match self.fill(count) {
            Err(failure) if self.buffer.is_empty() => return Err(failure.into()),
            filled => self.failure = filled.err(),
        }
        Ok(if self.buffer.is_empty() { Piece::End } else { Piece::Samples(&self.buffer) })
    }
}

/// Splits a line: at commas or semicolons if there are any, else at white space.
fn values(line: &str) -> impl Iterator<Item = &str> {
    let separated = line.contains([',', ';']);
    let parts =
        line.trim().split(move |c: char| if separated { c == ',' || c == ';' } else { c.is_whitespace() });
    parts.map(str::trim).filter(move |part| separated || !part.is_empty())
}

/// Splits a first line of names; without commas, white space inside a unit's brackets does not separate.
fn headings(line: &str) -> Vec<Channel> {
    let mut parts: Vec<String> = Vec::new();
    for part in values(line) {
        match parts.last_mut() {
            Some(name) if part.starts_with('[') && !name.ends_with(']') => {
                name.push(' ');
                name.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts.iter().enumerate().map(|(index, text)| heading(text, index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::testing::{drain, floats, plenty};

    fn options() -> LinesOptions {
        LinesOptions::new("test".parse().unwrap(), "10".parse().unwrap())
    }

    fn open(text: &'static str) -> Result<Lines<&'static [u8]>, SourceError> {
        Lines::open(text.as_bytes(), &options())
    }

    fn refusal(text: &'static str) -> String {
        match open(text) {
            Err(error) => error.to_string(),
            Ok(mut lines) => drain(&mut lines).unwrap_err().to_string(),
        }
    }

    #[test]
    fn numbers_stand_apart_in_any_usual_way() {
        for text in ["1,2\n3,4\n", "1 2\n3 \t 4", "1; 2\r\n3;4\r\n", "# two\n\n1\t2\n  3\t4  \n"] {
            let mut lines = open(text).unwrap();
            let (bytes, _) = drain(&mut lines).unwrap();
            assert_eq!(floats(&lines, &bytes), [1.0, 2.0, 3.0, 4.0], "{text:?}");
        }
    }

    #[test]
    fn a_first_line_of_names_gives_the_channels() {
        let expected = [Channel::new("current", "A"), Channel::new("voltage", "V")];
        for text in ["current [A], voltage [V]\n1,2\n", "current [A] voltage [V]\n1 2\n"] {
            assert_eq!(open(text).unwrap().description().schema.channels[..], expected, "{text:?}");
        }
        assert_eq!(open("a b\n1 2\n").unwrap().description().schema.channels[1].name, "b");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert!(refusal("").contains("ended before the first line"));
        assert!(refusal("# nothing\n\n").contains("ended before the first line"));
        assert!(refusal("a\n").contains("ended before the first line"));
        assert!(refusal("1,2\n\n3\n").contains("line 3 has 1 values, expected 2"));
        assert!(refusal("1\n2\nthree\n").contains("line 3, value 1: `three` is not a number"));
        assert!(refusal("1 2\n3 nan\n").contains("line 2, value 2: `nan` is not a finite"));
        assert!(refusal("1,2\n3,\n").contains("line 2, value 2: a value is missing"));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let endless = vec![b'1'; 1 << 20];
        let error = Lines::open(&endless[..], &options()).err().expect("it is refused");
        assert!(error.to_string().contains("line 1 is longer than 1 MiB"), "{error}");
    }

    /// Reader that returns one line per call, as a terminal does.
    struct Terminal(Vec<&'static [u8]>);

    impl Read for Terminal {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Some(line) = self.0.pop() else { return Ok(0) };
            buffer[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    #[test]
    fn a_line_is_handed_over_without_waiting_for_the_next() {
        let mut lines = Lines::open(Terminal(vec![b"2\n", b"1\n"]), &options()).unwrap();
        let Piece::Samples(first) = lines.next(plenty()).unwrap() else { panic!("there is a line") };
        assert_eq!(first, 1.0_f64.to_le_bytes());
        let Piece::Samples(second) = lines.next(plenty()).unwrap() else { panic!("there is another") };
        assert_eq!(second, 2.0_f64.to_le_bytes());
    }
}
