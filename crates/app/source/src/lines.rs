//! Lines of numbers from standard input or any other reader: one line, one sample.
//!
//! They are read as the rows of a CSV file are: separator, decimal sign and header row are decided by [`Head`]. Lines
//! arrive in real time, so the user gives the rate and the system's clock stamps them; a column of times is a channel.

use std::collections::VecDeque;
use std::io::Read;
use std::num::NonZeroU64;

use sample::{Channel, Dtype, Schema, StreamName};
use units::SampleRate;
use units::text::counted;

use crate::csv::{Head, Layout, LineError, RowError, TextLines, TextOptions, is_passed_over};
use crate::piece::samples_at_once;
use crate::{
    Description, GridError, HeadError, HoleKind, NanPolicy, NumberError, Piece, Source, SourceError,
    TimeColumn, Timing,
};

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
    /// Number of lines at the beginning that are passed over.
    pub skip: u64,
}

/// Source that reads lines.
pub struct Lines<R> {
    text: TextLines<R>,
    description: Description,
    layout: Layout,
    nan: NanPolicy,
    /// Rows that were needed for the layout and are yet to be returned, with their numbers.
    first: VecDeque<(u64, String)>,
    failure: Option<LinesError>,
    /// Rows that are no samples, since others were.
    refused: Refused,
    buffer: Vec<u8>,
}

/// Progress of what is told about rows that are holes.
enum Refused {
    /// No row was read yet: whatever is wrong with it ends the input, as its layout is not what the user thinks.
    NotYet,
    None,
    First(String),
    Told,
}

/// Error of a line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinesError {
    /// The input ended before a line of values.
    #[error("the input ended before the first line of values")]
    Empty,
    /// The first lines give no layout.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A line has more or fewer values than there are channels.
    #[error("line {line} has {}, expected {expected}", counted(*found as u64, "value"))]
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
    /// The number of a sample is none, in the text of an instrument that numbers them.
    #[error("line {line}: {source}")]
    Index {
        /// Number of the line, from 1.
        line: u64,
        /// Error of the number.
        source: GridError,
    },
    /// A line is too long.
    #[error("line {line} is longer than 1 MiB\nfor binary input set --dtype and --channels")]
    TooLong {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The input cannot be read.
    #[error("reading line {line} failed: {source}")]
    Io {
        /// Number of the line, from 1.
        line: u64,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl LinesError {
    /// Returns whether other rows can still be samples.
    const fn is_of_a_row(&self) -> bool {
        match self {
            Self::Head(HeadError::Encoding { .. })
            | Self::Ragged { .. }
            | Self::Value { .. }
            | Self::Index { .. } => true,
            Self::Empty | Self::Head(_) | Self::TooLong { .. } | Self::Io { .. } => false,
        }
    }
}

impl LinesOptions {
    /// Creates options with defaults: floats, channels from the first line, NaN refused.
    #[must_use]
    pub const fn new(name: StreamName, rate: SampleRate) -> Self {
        Self { name, rate, dtype: Dtype::F8, channels: None, nan: NanPolicy::Refuse, skip: 0 }
    }

    fn text(&self) -> TextOptions {
        TextOptions {
            skip: self.skip,
            time: TimeColumn::None,
            time_unit: None,
            time_zone: None,
            columns: Vec::new(),
            unnamed: "ch",
        }
    }
}

impl<R: Read + Send> Lines<R> {
    /// Waits for the first row, which tells the channels unless they are set.
    ///
    /// # Errors
    /// [`SourceError::Lines`], [`SourceError::Schema`] if the first lines or the channels are invalid.
    pub fn open(input: R, options: &LinesOptions) -> Result<Self, SourceError> {
        let mut text = TextLines::new(input);
        let mut head = Head::new(options.text());
        let layout = layout_of(&mut text, &mut head)?;
        let channels = options.channels.clone().unwrap_or_else(|| layout.channels());
        let schema = Schema::new(options.dtype, options.rate, channels)?;
        let description =
            Description { name: options.name.clone(), schema, timing: Timing::Live, samples: None };
        let first = head.rows(&layout).map(|line| (line.number, line.text)).collect();
        Ok(Self {
            text,
            description,
            layout,
            nan: options.nan,
            first,
            failure: None,
            refused: Refused::NotYet,
            buffer: Vec::new(),
        })
    }

    /// Takes lines until there are `count` samples, until the end, or until the next line is not available yet.
    fn fill(&mut self, count: usize) -> Result<(), LinesError> {
        for _ in 0..count {
            if !self.push_row()? || (self.first.is_empty() && !self.text.has_another()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes a hole of a row that is no sample; other failures end the input.
    fn failed(&mut self, failure: LinesError) -> Result<Piece<'_>, SourceError> {
        if !failure.is_of_a_row() || matches!(self.refused, Refused::NotYet) {
            return Err(failure.into());
        }
        if matches!(self.refused, Refused::None) {
            self.refused = Refused::First(failure.to_string());
        }
        Ok(Piece::Hole { samples: 1, why: HoleKind::Missing })
    }

    /// Appends the next row; `false` at the end.
    fn push_row(&mut self) -> Result<bool, LinesError> {
        let as_elements = (self.description.schema.dtype, self.nan);
        if let Some((line, row)) = self.first.pop_front() {
            let read = self.layout.read(&row, as_elements, &mut self.buffer);
            return read.map(|_| true).map_err(|error| at_line(line, error));
        }
        while advance(&mut self.text)? {
            if !is_passed_over(self.text.bytes()) {
                let line = self.text.number();
                let row = str::from_utf8(self.text.bytes()).map_err(|_| HeadError::Encoding { line })?;
                let read = self.layout.read(row, as_elements, &mut self.buffer);
                return read.map(|_| true).map_err(|error| at_line(line, error));
            }
        }
        Ok(false)
    }
}

impl<R: Read + Send> Source for Lines<R> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn decided(&self) -> Option<String> {
        Some(format!("standard input: {}", self.layout.said()))
    }

    fn refused(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.refused, Refused::Told) {
            Refused::First(error) => Some(format!("{error}\nit is a hole, as others like it will be")),
            before => {
                self.refused = before;
                None
            }
        }
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        if let Some(failure) = self.failure.take() {
            return self.failed(failure);
        }
        self.buffer.clear();
        let count = samples_at_once(at_most, self.description.schema.sample_bytes());
        match self.fill(count) {
            Err(failure) if self.buffer.is_empty() => return self.failed(failure),
            filled => self.failure = filled.err(),
        }
        if self.buffer.is_empty() {
            return Ok(Piece::End);
        }
        if matches!(self.refused, Refused::NotYet) {
            self.refused = Refused::None;
        }
        Ok(Piece::Samples(&self.buffer))
    }
}

fn layout_of<R: Read>(text: &mut TextLines<R>, head: &mut Head) -> Result<Layout, LinesError> {
    while advance(text)? {
        if let Some(layout) = head.take(text.number(), text.bytes())? {
            return Ok(layout);
        }
    }
    head.finish()?.ok_or(LinesError::Empty)
}

fn advance<R: Read>(text: &mut TextLines<R>) -> Result<bool, LinesError> {
    text.advance().map_err(|error| match error {
        LineError::TooLong => LinesError::TooLong { line: text.number() },
        LineError::Io(source) => LinesError::Io { line: text.number(), source },
    })
}

fn at_line(line: u64, error: RowError) -> LinesError {
    match error {
        RowError::Ragged { found, expected } => LinesError::Ragged { line, found, expected },
        RowError::Field { place, source, .. } => LinesError::Value { line, value: place + 1, source },
        RowError::Time(source) => LinesError::Index { line, source },
    }
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

    /// Returns the first sentence on the row that is a hole.
    fn hole(text: &'static str) -> String {
        let mut lines = open(text).unwrap();
        while !matches!(lines.next(plenty()).unwrap(), Piece::Hole { .. }) {}
        lines.refused().unwrap().lines().next().unwrap().to_owned()
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
        assert_eq!(hole("1,2\n\n3\n"), "line 3 has 1 value, expected 2");
        assert!(hole("1\n2\nthree\n").starts_with("line 3, value 1: `three` is not a number"));
        assert!(hole("1 2\n3 nan\n").starts_with("line 2, value 2: `nan` is not a finite"));
        assert!(hole("1,2\n3,\n").starts_with("line 2, value 2: a value is missing"));
    }

    #[test]
    fn rows_that_are_no_samples_are_holes_between_the_others() {
        let mut lines = open("1 2\n3 4\n5\n6 x\n7 8\n").unwrap();
        let mut pieces = Vec::new();
        loop {
            match lines.next(plenty()).unwrap() {
                Piece::Samples(bytes) => pieces.push((bytes.len() / 16) as i64),
                Piece::Hole { samples, why: HoleKind::Missing } => pieces.push(-(samples as i64)),
                Piece::End => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(pieces, [2, -1, -1, 1]);
        assert!(lines.refused().is_some_and(|told| told.starts_with("line 3 has 1 value")));
        assert_eq!(lines.refused(), None, "it is told once");
    }

    #[test]
    fn a_comma_beside_semicolons_or_blanks_is_a_decimal_sign() {
        for text in ["1,5;2,5\n3,5;4,5\n", "1,5 2,5\n3,5 4,5\n", "u v\n1,5 2,5\n3,5 4,5\n"] {
            let mut lines = open(text).unwrap();
            let (bytes, _) = drain(&mut lines).unwrap();
            assert_eq!(floats(&lines, &bytes), [1.5, 2.5, 3.5, 4.5], "{text:?}");
        }
        assert!(hole("1,5;2\n1.5;2\n").starts_with("line 2, value 1: `1.5` has another decimal sign"));
    }

    #[test]
    fn no_first_line_of_values_is_taken_for_names() {
        for (text, dtype) in [
            ("\u{feff}1\n0\n1\n", Dtype::F8),
            ("true\nfalse\ntrue\n", Dtype::Bool),
            ("0x1\n0x0\n0x1\n", Dtype::U8),
        ] {
            let mut lines = Lines::open(text.as_bytes(), &LinesOptions { dtype, ..options() }).unwrap();
            assert_eq!(lines.description().schema.channels[0].name, "ch0");
            let (bytes, _) = drain(&mut lines).unwrap();
            assert_eq!(floats(&lines, &bytes), [1.0, 0.0, 1.0], "{text:?}");
        }
        assert!(refusal("NA,1\n2,3\n").contains("line 1, value 1: a value is missing"));
        assert!(refusal("OL,1\n2,3\n").contains("line 1, value 1: `OL` is not a number"));
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
