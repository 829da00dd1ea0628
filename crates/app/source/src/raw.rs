//! Raw little-endian elements from standard input or any other reader.
//!
//! The bytes do not describe themselves, so the schema must be given. They arrive in real time; the system's clock
//! stamps them.

use std::io::{ErrorKind, Read};
use std::num::NonZeroU64;

use sample::{Schema, StreamName};

use crate::piece::samples_at_once;
use crate::{Description, Piece, Source, SourceError, Timing};

/// Source that reads raw elements.
pub struct Raw<R> {
    input: R,
    description: Description,
    offset: u64,
    /// Number of bytes of an incomplete sample, at the front of the buffer.
    pending_bytes: usize,
    /// Number of bytes of whole samples returned by the last call, ahead of the pending bytes.
    given_bytes: usize,
    buffer: Vec<u8>,
}

/// Error of raw input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The input ends inside a sample.
    #[error(
        "the input ends at byte {offset}, {have} bytes into a sample of {need}\n\
         check --dtype and --channels, or why the input was truncated"
    )]
    Truncated {
        /// Size of the input.
        offset: u64,
        /// Number of bytes of the last sample.
        have: usize,
        /// Size of a sample.
        need: usize,
    },
    /// The input is empty.
    #[error("the input is empty")]
    Empty,
    /// The input cannot be read.
    #[error("reading at byte {offset} failed: {source}")]
    Io {
        /// Offset at which reading failed.
        offset: u64,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl<R: Read + Send> Raw<R> {
    /// Creates a source of an input whose elements are those of `schema`.
    #[must_use]
    pub const fn new(input: R, name: StreamName, schema: Schema) -> Self {
        let description = Description { name, schema, timing: Timing::Live, samples: None };
        Self { input, description, offset: 0, pending_bytes: 0, given_bytes: 0, buffer: Vec::new() }
    }

    /// Reads until there is a whole sample; returns the number of bytes in the buffer, less than a sample at the end.
    fn fill(&mut self, sample_bytes: usize) -> Result<usize, RawError> {
        let mut filled = self.pending_bytes;
        while filled < sample_bytes {
            match self.input.read(&mut self.buffer[filled..]) {
                Ok(0) => break,
                Ok(size_bytes) => {
                    filled += size_bytes;
                    self.offset += size_bytes as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(RawError::Io { offset: self.offset, source }),
            }
        }
        Ok(filled)
    }
}

impl<R: Read + Send> Source for Raw<R> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        let sample_bytes = self.description.schema.sample_bytes();
        let given = self.given_bytes;
        self.buffer.copy_within(given..given + self.pending_bytes, 0);
        self.given_bytes = 0;
        self.buffer.resize(samples_at_once(at_most, sample_bytes) * sample_bytes, 0);
        let filled = self.fill(sample_bytes)?;
        self.pending_bytes = filled % sample_bytes;
        self.given_bytes = filled - self.pending_bytes;
        match (self.given_bytes, self.pending_bytes) {
            (0, 0) if self.offset == 0 => Err(RawError::Empty.into()),
            (0, 0) => Ok(Piece::End),
            (0, have) => {
                let error = RawError::Truncated { offset: self.offset, have, need: sample_bytes };
                self.pending_bytes = 0;
                Err(error.into())
            }
            (given, _) => Ok(Piece::Samples(&self.buffer[..given])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::testing::{drain, plenty};
    use sample::{Channel, Dtype};

    /// Reader that returns at most a number of bytes per call, as a pipe does.
    struct Pipe(&'static [u8], usize);

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn raw(bytes: &'static [u8], at_a_time: usize) -> Raw<Pipe> {
        let channels = vec![Channel::new("a", ""), Channel::new("b", "")];
        let schema = Schema::new(Dtype::I16, "10".parse().unwrap(), channels).unwrap();
        Raw::new(Pipe(bytes, at_a_time), "test".parse().unwrap(), schema)
    }

    #[test]
    fn samples_are_whole_however_the_bytes_arrive() {
        for at_a_time in 1..13 {
            let (bytes, _) = drain(&mut raw(b"abcdefghijkl", at_a_time)).unwrap();
            assert_eq!(bytes, b"abcdefghijkl", "{at_a_time} bytes at a time");
        }
    }

    #[test]
    fn no_more_is_read_than_was_asked_for() {
        let mut source = raw(b"abcdefgh", 100);
        assert_eq!(source.next(NonZeroU64::MIN).unwrap(), Piece::Samples(b"abcd"));
        assert_eq!(source.next(plenty()).unwrap(), Piece::Samples(b"efgh"));
    }

    #[test]
    fn an_end_inside_a_sample_is_told_with_its_offset() {
        let error = drain(&mut raw(b"abcdefg", 3)).unwrap_err().to_string();
        assert!(error.contains("ends at byte 7, 3 bytes into a sample of 4"), "{error}");
        assert!(drain(&mut raw(b"", 3)).unwrap_err().to_string().contains("empty"));
    }
}
