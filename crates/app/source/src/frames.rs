//! Samples that a reader in another process passes on: a line of JSON that describes them, then frames.
//!
//! The reader is Python's, for formats that Python's packages read; `python/tallycast/readers/__main__.py` defines the
//! frames. It is started again to play a file again. Times are read as those of a table: rate and holes follow from them, or
//! samples keep them.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU64;

use sample::{Channel, Dtype, Schema, StreamName};
use serde::Deserialize;
use units::{RateError, SampleRate, WallTime};

use crate::grid::{Grid, GridError, Keep, OWN_TIMES_SAID, OwnTimes, Pace, ROWS_FOR_RATE, Timed, pace_over};
use crate::piece::samples_at_once;
use crate::{Description, HoleKind, Piece, Source, SourceError, Timing};

/// Maximum size of the first line: 4,096 channels with long names.
const MAX_LINE_BYTES: u64 = 4 << 20;
/// Maximum number of times in a frame: the reader's blocks are about a mebibyte.
const MAX_TIMES: u64 = 1 << 24;
/// Maximum size of an error's text.
const MAX_TEXT_BYTES: u64 = 1 << 16;

/// Standard output of a reader that was started.
pub type FrameInput = Box<dyn Read + Send>;
/// Starts the reader.
pub type StartReader = Box<dyn FnMut() -> std::io::Result<FrameInput> + Send>;

/// File that a reader in another process plays.
pub struct Frames {
    start: StartReader,
    input: BufReader<FrameInput>,
    description: Description,
    /// First line of the reader, with which it begins whenever it is started.
    described: Described,
    /// `None` before the first times.
    grid: Option<Grid>,
    /// Check of the times that samples keep, and those of the current frame.
    own: Option<OwnTimes>,
    times: VecDeque<WallTime>,
    given: Vec<WallTime>,
    /// Runs of the current frame.
    runs: VecDeque<Run>,
    /// Error behind the runs.
    failure: Option<FramesError>,
    is_over: bool,
    /// Number of samples read, holes excluded.
    position: u64,
    buffer: Vec<u8>,
}

/// What a reader says about a file.
pub enum Opened {
    /// The only stream of the file, or the chosen one; and the channels left out because they are no numbers.
    Stream(Box<Frames>, Vec<String>),
    /// Names of its streams; one is to be chosen.
    Streams(Vec<String>),
}

/// Reason why a reader's samples cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FramesError {
    /// The reader refuses the file.
    #[error("{0}")]
    Refused(String),
    /// The reader cannot be started, or its output not be read.
    #[error("the reader of the file cannot be run: {0}")]
    Io(#[from] std::io::Error),
    /// The reader ended before its file did.
    #[error("the reader of the file ended early, at sample {0}\nits last message is above")]
    Ended(u64),
    /// The output is not that of this version's reader.
    #[error(
        "the reader of the file answers `{0}`\nthe package `tallycast` of Python has another version: install this command's own"
    )]
    Foreign(String),
    /// The file has no rate.
    #[error("the file has no rate\nset it with --rate")]
    NoRate,
    /// The rate is invalid.
    #[error("the rate of the file: {0}")]
    Rate(#[from] RateError),
    /// The elements are of another type.
    #[error("the elements are {actual}, not {asked}\nomit --dtype")]
    WrongDtype {
        /// Type in the file.
        actual: Dtype,
        /// Requested type.
        asked: Dtype,
    },
    /// Samples without times follow others with their own.
    #[error(
        "sample {0} and those behind it have no times, unlike those before\nset --rate, and omit --own-times"
    )]
    Untimed(u64),
    /// Another file has the name when it is to be played again.
    #[error(
        "the file has changed: its streams or channels differ from before\nstart again to publish the new one"
    )]
    Changed,
    /// A time is not on the grid.
    #[error("sample {sample}: {source}")]
    Time {
        /// Number of the stored sample, from 0.
        sample: u64,
        /// Reason.
        source: GridError,
    },
}

/// Options of a stream, in addition to the file's content.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FramesOptions {
    /// Samples per second, which override the file's rate.
    pub rate: Option<SampleRate>,
    /// Type that the elements must have.
    pub dtype: Option<Dtype>,
    /// Samples keep their times, although those are regular.
    pub own_times: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FirstLine {
    Error { error: String },
    Streams { streams: Vec<String> },
    Stream(Described),
}

#[derive(Clone, PartialEq, Deserialize)]
struct Described {
    dtype: Dtype,
    rate: Option<String>,
    start_ns: Option<i64>,
    channels: Vec<Channel>,
    labels: BTreeMap<String, String>,
    left_out: Vec<String>,
}

/// Consecutive samples of a frame, and how many are missing before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    hole: u64,
    rows: u64,
}

/// Head of a frame, with its times.
enum Frame {
    Samples(u64),
    Timed(Vec<i64>),
    Hole(u64),
    End,
}

impl Frames {
    /// Starts a reader, and reads its first line.
    ///
    /// # Errors
    /// Every variant of [`FramesError`] but `Time`, and [`SourceError::Schema`].
    pub fn open(
        mut start: StartReader,
        name: &StreamName,
        options: FramesOptions,
    ) -> Result<Opened, SourceError> {
        let mut input = BufReader::new(start().map_err(FramesError::from)?);
        let described = match first_line(&mut input)? {
            FirstLine::Error { error } => return Err(FramesError::Refused(error).into()),
            FirstLine::Streams { streams } => return Ok(Opened::Streams(streams)),
            FirstLine::Stream(described) => described,
        };
        let asked = options.dtype.filter(|asked| *asked != described.dtype);
        if let Some(asked) = asked {
            return Err(FramesError::WrongDtype { actual: described.dtype, asked }.into());
        }
        let frame = next_frame(&mut input, 0)?;
        let pace = described.pace(&frame, &options)?;
        let mut schema = Schema::new(described.dtype, pace.rate, described.channels.clone())?;
        schema.labels = described.labels.clone();
        let timing = Timing::Recorded { start: described.start_ns.map(WallTime::from_nanos) };
        let schema = pace.labelled(schema);
        let left_out = described.left_out.clone();
        let description = Description { name: name.clone(), schema, timing, samples: None };
        let mut frames = Self {
            start,
            input,
            description,
            described,
            grid: None,
            own: pace.is_own.then(OwnTimes::default),
            times: VecDeque::new(),
            given: Vec::new(),
            runs: VecDeque::new(),
            failure: None,
            is_over: false,
            position: 0,
            buffer: Vec::new(),
        };
        frames.take(frame);
        Ok(Opened::Stream(Box::new(frames), left_out))
    }

    /// Divides a frame into runs.
    fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Samples(_) if self.own.is_some() => {
                self.failure = Some(FramesError::Untimed(self.position))
            }
            Frame::Samples(rows) => self.runs.push_back(Run { hole: 0, rows }),
            Frame::Hole(hole) => self.runs.push_back(Run { hole, rows: 0 }),
            Frame::Timed(times) => self.place(&times),
            Frame::End => self.is_over = true,
        }
    }

    fn place(&mut self, times: &[i64]) {
        let rate = self.description.schema.rate;
        let grid = self.grid.get_or_insert_with(|| Grid::by_time(rate));
        for (row, time) in (self.position..).zip(times) {
            let time = i128::from(*time);
            let hole = match &mut self.own {
                Some(own) => own.next(time).map(|time| self.times.push_back(time)).map(|()| 0),
                None => grid.hole_before(time),
            };
            match hole {
                Ok(0) if !self.runs.is_empty() => self.runs.back_mut().expect("not empty").rows += 1,
                Ok(hole) => self.runs.push_back(Run { hole, rows: 1 }),
                Err(source) => {
                    self.failure = Some(FramesError::Time { sample: row, source });
                    return;
                }
            }
        }
    }

    fn read(&mut self, count: usize) -> Result<(), FramesError> {
        self.buffer.resize(count * self.description.schema.sample_bytes(), 0);
        exactly(&mut self.input, &mut self.buffer, self.position)?;
        self.position += count as u64;
        Ok(())
    }
}

impl Source for Frames {
    fn description(&self) -> &Description {
        &self.description
    }

    fn decided(&self) -> Option<String> {
        self.own.map(|_| OWN_TIMES_SAID.to_owned())
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        loop {
            let Some(run) = self.runs.front_mut() else {
                if let Some(failure) = self.failure.take() {
                    self.is_over = true;
                    return Err(failure.into());
                }
                if self.is_over {
                    return Ok(Piece::End);
                }
                let frame = next_frame(&mut self.input, self.position)?;
                self.take(frame);
                continue;
            };
            if run.hole > 0 {
                let samples = run.hole.min(at_most.get());
                run.hole -= samples;
                return Ok(Piece::Hole { samples, why: HoleKind::Recording });
            }
            if run.rows == 0 {
                self.runs.pop_front();
                continue;
            }
            let count = samples_at_once(at_most, self.description.schema.sample_bytes());
            let count = count.min(usize::try_from(run.rows).unwrap_or(usize::MAX));
            run.rows -= count as u64;
            self.read(count)?;
            if self.own.is_none() {
                return Ok(Piece::Samples(&self.buffer));
            }
            self.given = self.times.drain(..count).collect();
            return Ok(Piece::Timed { samples: &self.buffer, times: &self.given });
        }
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        let mut input = BufReader::new((self.start)().map_err(FramesError::from)?);
        match first_line(&mut input)? {
            FirstLine::Error { error } => return Err(FramesError::Refused(error).into()),
            FirstLine::Stream(described) if described == self.described => {}
            FirstLine::Stream(_) | FirstLine::Streams { .. } => return Err(FramesError::Changed.into()),
        }
        self.input = input;
        self.grid = None;
        self.own = self.own.map(|_| OwnTimes::default());
        self.times.clear();
        self.runs.clear();
        (self.failure, self.is_over, self.position) = (None, false, 0);
        Ok(())
    }
}

impl Described {
    /// Returns the requested rate, that of the file, or that of its times, and whether samples keep those.
    fn pace(&self, first: &Frame, options: &FramesOptions) -> Result<Pace, FramesError> {
        let told = self.rate.as_ref().map(|rate| rate.parse()).transpose()?;
        match (options.rate.or(told), first) {
            (rate, Frame::Timed(times)) => {
                let row = |(index, time_ns): (u64, &i64)| Timed { index, time_ns: i128::from(*time_ns) };
                let rows: Vec<Timed> = (0..).zip(times.iter().take(ROWS_FOR_RATE)).map(row).collect();
                let pace = pace_over(&rows, rate, Keep::of(options.own_times, false));
                pace.map_err(|source| FramesError::Time { sample: 0, source })
            }
            _ if options.own_times => Err(FramesError::Time { sample: 0, source: GridError::NoTimes }),
            (Some(rate), _) => Ok(Pace { rate, is_own: false }),
            (None, _) => Err(FramesError::NoRate),
        }
    }
}

fn first_line(input: &mut impl BufRead) -> Result<FirstLine, FramesError> {
    let mut line = Vec::new();
    Read::take(&mut *input, MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(FramesError::Ended(0));
    }
    serde_json::from_slice(&line).map_err(|_| foreign(&line))
}

/// Returns the beginning of an answer that is not understood.
fn foreign(answer: &[u8]) -> FramesError {
    let text = String::from_utf8_lossy(answer);
    FramesError::Foreign(text.trim_end().chars().take(80).collect())
}

fn next_frame(input: &mut impl Read, position: u64) -> Result<Frame, FramesError> {
    let mut head = [0; 9];
    exactly(input, &mut head, position)?;
    let [kind, count @ ..] = head;
    match (kind, u64::from_le_bytes(count)) {
        (b'S', rows) => Ok(Frame::Samples(rows)),
        (b'H', samples) => Ok(Frame::Hole(samples)),
        (b'T', rows @ 0..=MAX_TIMES) => times(input, rows, position).map(Frame::Timed),
        (b'X', size @ 0..=MAX_TEXT_BYTES) => {
            let mut text = Vec::new();
            Read::take(&mut *input, size).read_to_end(&mut text)?;
            Err(FramesError::Refused(String::from_utf8_lossy(&text).into_owned()))
        }
        (b'E', _) => Ok(Frame::End),
        _ => Err(foreign(&head)),
    }
}

fn times(input: &mut impl Read, rows: u64, position: u64) -> Result<Vec<i64>, FramesError> {
    let mut bytes = vec![0; usize::try_from(rows).expect("bounded") * 8];
    exactly(input, &mut bytes, position)?;
    let time = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    Ok(bytes.chunks_exact(8).map(time).collect())
}

fn exactly(input: &mut impl Read, buffer: &mut [u8], position: u64) -> Result<(), FramesError> {
    input.read_exact(buffer).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => FramesError::Ended(position),
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::testing::{drain, drain_timed, plenty};

    fn head(kind: u8, count: u64) -> Vec<u8> {
        [&[kind][..], &count.to_le_bytes()].concat()
    }

    /// The first line of a stream of one byte a sample.
    fn line(rate: &str) -> Vec<u8> {
        let channel = r#"{"name":"u","unit":"V","shape":[],"scale":0.5,"offset":1.0}"#;
        format!(
            "{{\"name\":\"a\",\"dtype\":\"u8\",\"rate\":{rate},\"start_ns\":7,\"samples\":null,\"channels\":[{channel}],\
             \"labels\":{{\"device\":\"x\"}},\"left_out\":[\"note\"]}}\n"
        )
        .into_bytes()
    }

    fn open(output: &[&[u8]], options: FramesOptions) -> Result<Box<Frames>, SourceError> {
        let output = output.concat();
        let start: StartReader = Box::new(move || Ok(Box::new(std::io::Cursor::new(output.clone()))));
        match Frames::open(start, &"test".parse().unwrap(), options)? {
            Opened::Stream(frames, left_out) => {
                assert_eq!(left_out, ["note"]);
                Ok(frames)
            }
            Opened::Streams(_) => panic!("several streams"),
        }
    }

    fn refusal(output: &[&[u8]]) -> String {
        open(output, FramesOptions::default()).err().expect("it is refused").to_string()
    }

    fn timed(times: &[i64], bytes: &[u8]) -> Vec<u8> {
        let times: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
        [&head(b'T', bytes.len() as u64)[..], &times, bytes].concat()
    }

    #[test]
    fn samples_and_holes_come_as_the_reader_tells_them_and_once_more_after_rewinding() {
        let output = [
            &line("\"1000/3\"")[..],
            &head(b'S', 3),
            &[1, 2, 3],
            &head(b'H', 4),
            &head(b'S', 1),
            &[9],
            &head(b'E', 0),
        ];
        let mut frames = open(&output, FramesOptions::default()).unwrap();
        let schema = &frames.description().schema;
        assert_eq!((schema.rate, schema.labels["device"].as_str()), ("1000/3".parse().unwrap(), "x"));
        assert_eq!(schema.channels[0], Channel::new("u", "V").with_scale(0.5, 1.0));
        let whole = (vec![1, 2, 3, 9], vec![(3, 4, HoleKind::Recording)]);
        assert_eq!(drain(&mut *frames).unwrap(), whole);
        frames.rewind().unwrap();
        assert_eq!(drain(&mut *frames).unwrap(), whole);
    }

    #[test]
    fn times_give_the_rate_and_the_holes_also_between_frames() {
        const MS: i64 = 1_000_000;
        let first = timed(&[0, 10 * MS, 20 * MS, 50 * MS], &[1, 2, 3, 4]);
        let second = timed(&[70 * MS, 80 * MS], &[5, 6]);
        let output = [&line("null")[..], &first, &second, &head(b'E', 0)];
        let mut frames = open(&output, FramesOptions::default()).unwrap();
        assert_eq!(frames.description().schema.rate, "100".parse().unwrap());
        let hole = |before, samples| (before, samples, HoleKind::Recording);
        let whole = (vec![1, 2, 3, 4, 5, 6], vec![hole(3, 2), hole(4, 1)]);
        assert_eq!(drain(&mut *frames).unwrap(), whole);
        frames.rewind().unwrap();
        assert_eq!(drain(&mut *frames).unwrap(), whole);
    }

    #[test]
    fn irregular_times_are_kept_over_frames_and_holes() {
        const MS: i64 = 1_000_000;
        let first = timed(&[0, 100 * MS, 149 * MS, 400 * MS], &[1, 2, 3, 4]);
        let second = timed(&[400 * MS], &[5]);
        let output = [&line("null")[..], &first, &head(b'H', 2), &second, &head(b'E', 0)];
        let mut frames = open(&output, FramesOptions::default()).unwrap();
        let times = [0, 100, 149, 400, 400].map(|at| at * MS).to_vec();
        let whole = (vec![1, 2, 3, 4, 5], times, vec![(4, 2, HoleKind::Recording)]);
        assert_eq!(drain_timed(&mut *frames).unwrap(), whole);
        frames.rewind().unwrap();
        assert_eq!(drain_timed(&mut *frames).unwrap(), whole);
        let output = [&line("null")[..], &first, &head(b'S', 1), &[5], &head(b'E', 0)];
        let said =
            drain_timed(&mut *open(&output, FramesOptions::default()).unwrap()).unwrap_err().to_string();
        assert!(said.starts_with("sample 4 and those behind it have no times"), "{said}");
        let own = FramesOptions { own_times: true, ..FramesOptions::default() };
        let none = [&line("\"1\"")[..], &head(b'S', 1), &[1]];
        assert!(open(&none, own).err().expect("no times").to_string().contains("no times to keep"));
    }

    #[test]
    fn a_file_that_was_replaced_is_not_played_again() {
        let mut rates = ["\"1\"", "\"1\"", "\"2\""].into_iter();
        let start: StartReader = Box::new(move || {
            let output = [&line(rates.next().unwrap())[..], &head(b'S', 1), &[7], &head(b'E', 0)].concat();
            Ok(Box::new(std::io::Cursor::new(output)))
        });
        let opened = Frames::open(start, &"test".parse().unwrap(), FramesOptions::default()).unwrap();
        let Opened::Stream(mut frames, _) = opened else { panic!("several streams") };
        assert_eq!(drain(&mut *frames).unwrap().0, [7]);
        frames.rewind().unwrap();
        assert_eq!(drain(&mut *frames).unwrap().0, [7]);
        assert!(frames.rewind().unwrap_err().to_string().starts_with("the file has changed"));
    }

    #[test]
    fn samples_before_a_time_that_goes_back_are_played_and_then_it_is_named() {
        let output = [&line("\"100\"")[..], &timed(&[0, 10_000_000, 5], &[1, 2, 3]), &head(b'E', 0)];
        let mut frames = open(&output, FramesOptions::default()).unwrap();
        assert_eq!(frames.next(plenty()).unwrap(), Piece::Samples(&[1, 2]));
        let said = frames.next(plenty()).unwrap_err().to_string();
        assert!(said.starts_with("sample 2: its time is -9999995 ns after the row before"), "{said}");
        assert_eq!(frames.next(plenty()).unwrap(), Piece::End);
    }

    #[test]
    fn several_streams_are_named() {
        let start: StartReader = Box::new(|| Ok(Box::new(&b"{\"streams\":[\"a\",\"b\"]}\n"[..])));
        let opened = Frames::open(start, &"test".parse().unwrap(), FramesOptions::default()).unwrap();
        let Opened::Streams(names) = opened else { panic!("one stream") };
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn refusals_of_the_reader_and_of_its_output_are_told() {
        assert_eq!(refusal(&[b"{\"error\":\"npTDMS is not installed\"}\n"]), "npTDMS is not installed");
        assert!(refusal(&[]).contains("ended early, at sample 0"));
        assert!(refusal(&[b"hello\n"]).contains("answers `hello`"));
        assert!(refusal(&[&line("null"), &head(b'S', 1), &[1]]).contains("set it with --rate"));
        assert!(refusal(&[&line("\"1\""), &head(b'Q', 1)]).contains("another version"));
        let i16 = FramesOptions { dtype: Some(Dtype::I16), ..FramesOptions::default() };
        let other = open(&[&line("\"1\""), &head(b'E', 0)], i16).err().expect("another dtype");
        assert!(other.to_string().contains("are u8, not i16"));
    }

    #[test]
    fn an_output_that_ends_anywhere_is_an_error_behind_what_came() {
        let whole =
            [&line("\"1\"")[..], &timed(&[0, 1_000_000_000], &[1, 2]), &head(b'X', 3), b"bad"].concat();
        let mut frames = open(&[&whole], FramesOptions::default()).unwrap();
        assert_eq!(frames.next(plenty()).unwrap(), Piece::Samples(&[1, 2]));
        assert_eq!(frames.next(plenty()).unwrap_err().to_string(), "bad");
        for size in 0..whole.len() - 12 {
            let Ok(mut frames) = open(&[&whole[..size]], FramesOptions::default()) else { continue };
            let said = drain(&mut *frames).unwrap_err().to_string();
            assert!(said.contains("ended early"), "{size}: {said}");
        }
    }
}
