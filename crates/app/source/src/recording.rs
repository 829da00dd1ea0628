//! Recorded signal: an NPY array with a small TOML file that describes it.
//!
//! The description has rate, units, scale and origin, and the holes of the recording: contiguous parts ("runs") that
//! follow each other in the array, each with its true start. `data/README.md` defines the format. A bare array is a
//! recording too, once its rate is given.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use sample::{Channel, MAX_CHANNELS, Schema, SchemaError, StreamName};
use serde::Deserialize;
use units::{SampleRate, WallTime};

use crate::numbers::numbered_channels;
use crate::piece::{at_regular_times, samples_at_once};
use crate::{Description, HoleKind, NpyArray, Piece, Source, SourceError, Timing};

/// Maximum number of runs in a description: a hole every second for twelve days, and 64 MiB of text.
const MAX_RUNS: usize = 1 << 20;

/// Recording being played.
pub struct Recording {
    array: NpyArray,
    description: Description,
    /// Runs, each with the samples missing before it; never empty.
    runs: Vec<Run>,
    /// Number of the run being played.
    run: usize,
    /// Rest of its hole and of its rows, and the rows to be skipped before.
    hole_left: u64,
    rows_left: u64,
    passed: u64,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Run {
    /// Number of samples missing before it, those recorded in part included.
    hole_before: u64,
    /// Number of rows of the array that hold those.
    passed: u64,
    rows: u64,
}

/// Error of a recording's description.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The description does not follow `data/README.md`.
    #[error("the description of the array cannot be read: {0}")]
    Toml(#[from] toml::de::Error),
    /// A bare array has no rate.
    #[error(
        "an array has no rate of its own\nset it with --rate, or in a TOML file of the same name in its folder"
    )]
    NoRate,
    /// The rate is invalid.
    #[error("the rate in the description: {0}")]
    Rate(#[from] units::RateError),
    /// The channels do not match the array.
    #[error("the channels of the description have {described} elements, the array has {columns} columns")]
    ChannelCount {
        /// Number of elements in the description: one for each channel, or as its shape says.
        described: u64,
        /// Number of columns of the array.
        columns: u32,
    },
    /// The runs do not match the array.
    #[error("the runs of the description have {described} samples, the array has {rows}")]
    RunRows {
        /// Number of samples in the description.
        described: u64,
        /// Number of rows of the array.
        rows: u64,
    },
    /// A run begins before its predecessor ends.
    #[error("run {index} begins at sample {start}, before the previous run ends at {end}")]
    Overlap {
        /// Number of the run, from 0.
        index: usize,
        /// Sample at which it begins.
        start: i128,
        /// Sample at which its predecessor ends.
        end: i128,
    },
    /// Only some of the runs have an index.
    #[error("only {with} of {runs} runs have a first_index\nset it in all of them, or in none")]
    SomeIndices {
        /// Number of runs with an index.
        with: usize,
        /// Number of runs.
        runs: usize,
    },
    /// There are too many runs.
    #[error("a description lists at most {MAX_RUNS} runs, not {0}")]
    TooManyRuns(usize),
}

/// TOML file that describes an array.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Sidecar {
    rate: String,
    title: Option<String>,
    origin: Option<String>,
    licence: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    start_ns: Option<i64>,
    #[serde(default)]
    channels: Vec<SidecarChannel>,
    #[serde(default)]
    runs: Vec<SidecarRun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SidecarChannel {
    name: String,
    #[serde(default)]
    unit: String,
    #[serde(default = "one")]
    scale: f64,
    #[serde(default)]
    offset: f64,
    #[serde(default)]
    shape: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SidecarRun {
    rows: u64,
    start_ns: i64,
    first_index: Option<u64>,
    /// True if its rows lack elements: they are a hole.
    #[serde(default)]
    partial: bool,
}

const fn one() -> f64 {
    1.0
}

impl Recording {
    /// Makes a recording of an array and its description.
    ///
    /// # Errors
    /// [`SourceError::Recording`], [`SourceError::Schema`] if the description or its channels are invalid.
    pub fn read(array: NpyArray, sidecar: &str, name: &StreamName) -> Result<Self, SourceError> {
        let sidecar: Sidecar = toml::from_str(sidecar).map_err(RecordingError::from)?;
        let rate: SampleRate = sidecar.rate.parse().map_err(RecordingError::from)?;
        let runs = runs_of(&sidecar, rate, array.rows())?;
        let start = sidecar.runs.first().map(|run| run.start_ns).or(sidecar.start_ns);
        let channels = channels_of(&sidecar, &array)?;
        let mut schema = Schema::new(array.dtype(), rate, channels)?;
        let words = [("title", sidecar.title), ("origin", sidecar.origin), ("licence", sidecar.licence)];
        let said = words.into_iter().filter_map(|(key, word)| Some((key.to_owned(), word?)));
        schema.labels = sidecar.labels;
        schema.labels.extend(said);
        let schema = at_regular_times(schema);
        Ok(Self::new(array, name.clone(), schema, start.map(WallTime::from_nanos), runs))
    }

    /// Makes a recording of an array without a description.
    ///
    /// # Errors
    /// [`SourceError::Schema`] if it has too many columns.
    pub fn bare(array: NpyArray, rate: SampleRate, name: &StreamName) -> Result<Self, SourceError> {
        let schema = Schema::new(array.dtype(), rate, undescribed(&array)?)?;
        let runs = vec![Run { rows: array.rows(), ..Run::default() }];
        Ok(Self::new(array, name.clone(), schema, None, runs))
    }

    fn new(
        array: NpyArray,
        name: StreamName,
        schema: Schema,
        start: Option<WallTime>,
        runs: Vec<Run>,
    ) -> Self {
        let parts = || runs.iter().flat_map(|run| [run.hole_before, run.rows]);
        let samples = parts().try_fold(0_u64, u64::checked_add);
        let description = Description { name, schema, timing: Timing::Recorded { start }, samples };
        let (hole_left, rows_left, passed, buffer) = (0, 0, 0, Vec::new());
        let mut recording = Self { array, description, runs, run: 0, hole_left, rows_left, passed, buffer };
        recording.begin_run(0);
        recording
    }

    /// Plays at another rate than the recording's own.
    pub(crate) fn adjusted(mut self, rate: Option<SampleRate>) -> Self {
        self.description.schema.rate = rate.unwrap_or(self.description.schema.rate);
        self
    }

    fn begin_run(&mut self, index: usize) {
        self.run = index;
        let run = self.runs[index];
        (self.hole_left, self.passed, self.rows_left) = (run.hole_before, run.passed, run.rows);
    }
}

impl Source for Recording {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        if self.hole_left == 0 && self.rows_left == 0 {
            if self.run + 1 == self.runs.len() {
                return Ok(Piece::End);
            }
            self.begin_run(self.run + 1);
        }
        if self.hole_left > 0 {
            let samples = self.hole_left.min(at_most.get());
            self.hole_left -= samples;
            return Ok(Piece::Hole { samples, why: HoleKind::Recording });
        }
        let count = samples_at_once(at_most, self.description.schema.sample_bytes());
        let count = count.min(usize::try_from(self.rows_left).unwrap_or(usize::MAX));
        self.array.pass_rows(std::mem::take(&mut self.passed))?;
        self.array.read_rows(count, &mut self.buffer)?;
        self.rows_left -= count as u64;
        Ok(Piece::Samples(&self.buffer))
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.array.rewind()?;
        self.begin_run(0);
        Ok(())
    }
}

fn channels_of(sidecar: &Sidecar, array: &NpyArray) -> Result<Vec<Channel>, SourceError> {
    if sidecar.channels.is_empty() {
        return Ok(undescribed(array)?);
    }
    let columns = array.columns();
    let channels: Vec<Channel> = sidecar.channels.iter().map(SidecarChannel::channel).collect();
    // More elements than a sample can have are refused with the schema.
    let elements = channels.iter().map(|channel| channel.elements().map_or(0, u64::from));
    let described = elements.sum();
    if described != u64::from(columns) {
        return Err(RecordingError::ChannelCount { described, columns }.into());
    }
    Ok(channels)
}

impl SidecarChannel {
    fn channel(&self) -> Channel {
        let channel = Channel::new(&self.name, &self.unit).with_shape(self.shape.as_slice());
        channel.with_scale(self.scale, self.offset)
    }
}

/// Returns the channels of an array without a description: its fields, or one for each column.
fn undescribed(array: &NpyArray) -> Result<Vec<Channel>, SchemaError> {
    if let Some(channels) = array.channels() {
        return Ok(channels);
    }
    let count = array.columns() as usize;
    // Checked here, before a name is made for each.
    if count > MAX_CHANNELS { Err(SchemaError::ChannelCount(count)) } else { Ok(numbered_channels(count)) }
}

/// Places the runs on the sample grid that begins with the first of them.
///
/// Each start is rounded to the nearest sample of that one grid, so that errors do not add up. If the runs have an
/// index, that is their exact place.
fn runs_of(sidecar: &Sidecar, rate: SampleRate, rows: u64) -> Result<Vec<Run>, RecordingError> {
    let Some(first) = sidecar.runs.first() else {
        return Ok(vec![Run { rows, ..Run::default() }]);
    };
    if sidecar.runs.len() > MAX_RUNS {
        return Err(RecordingError::TooManyRuns(sidecar.runs.len()));
    }
    let described = sidecar.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.rows));
    if described != rows || sidecar.runs.iter().any(|run| run.rows == 0) {
        return Err(RecordingError::RunRows { described, rows });
    }
    let with = sidecar.runs.iter().filter(|run| run.first_index.is_some()).count();
    if ![0, sidecar.runs.len()].contains(&with) {
        return Err(RecordingError::SomeIndices { with, runs: sidecar.runs.len() });
    }
    let place = |run: &SidecarRun| match (run.first_index, first.first_index) {
        (Some(index), Some(begin)) => i128::from(index) - i128::from(begin),
        _ => crate::grid::samples_between(rate, i128::from(run.start_ns) - i128::from(first.start_ns)),
    };
    let (mut end, mut next) = (0_i128, Run::default());
    let mut runs = Vec::with_capacity(sidecar.runs.len());
    for (index, run) in sidecar.runs.iter().enumerate() {
        let start = place(run);
        let hole = u64::try_from(start - end).map_err(|_| RecordingError::Overlap { index, start, end })?;
        next.hole_before = next.hole_before.saturating_add(hole);
        if run.partial {
            next.hole_before = next.hole_before.saturating_add(run.rows);
            next.passed += run.rows;
        } else {
            runs.push(Run { rows: run.rows, ..std::mem::take(&mut next) });
        }
        end = start + i128::from(run.rows);
    }
    // Samples recorded in part behind the last complete one.
    runs.extend((next.hole_before > 0).then_some(next));
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::tests::npy;
    use crate::piece::testing::{drain, plenty};
    use std::io::Cursor;

    const THREE_RUNS: &str = r#"
        rate = "200"
        title = "a test"
        channels = [{ name = "z", unit = "counts", scale = 0.5 }]
        runs = [
            { rows = 2, start_ns = 1_000_000_000 },
            { rows = 1, start_ns = 1_025_100_000 },
            { rows = 3, start_ns = 1_030_000_000 },
        ]
    "#;

    fn read(shape: &str, data: &[u8], sidecar: &str) -> Result<Recording, SourceError> {
        Recording::read(
            NpyArray::open(Cursor::new(npy("|u1", shape, data)))?,
            sidecar,
            &"test".parse().unwrap(),
        )
    }

    fn refusal(sidecar: &str) -> String {
        read("(6,)", &[1, 2, 3, 4, 5, 6], sidecar).err().expect("it is refused").to_string()
    }

    #[test]
    fn runs_lie_on_one_grid_with_their_holes_between() {
        let mut recording = read("(6,)", &[1, 2, 3, 4, 5, 6], THREE_RUNS).unwrap();
        let description = recording.description().clone();
        assert_eq!(description.samples, Some(9));
        assert_eq!(description.timing, Timing::Recorded { start: Some(WallTime::from_nanos(1_000_000_000)) });
        assert_eq!(description.schema.labels["title"], "a test");
        assert_eq!(description.schema.channels[0], Channel::new("z", "counts").with_scale(0.5, 0.0));
        let whole = (vec![1, 2, 3, 4, 5, 6], vec![(2, 3, HoleKind::Recording)]);
        assert_eq!(drain(&mut recording).unwrap(), whole);
        recording.rewind().unwrap();
        assert_eq!(drain(&mut recording).unwrap(), whole);
    }

    #[test]
    fn indices_tell_holes_exactly_and_samples_recorded_in_part_are_left_out() {
        // By their times nothing would be missing between the first two runs, and three between the last two.
        let sidecar = r#"
            rate = "1"
            labels = { device = "probe 1", times = "own" }
            runs = [
                { rows = 1, start_ns = 0, first_index = 7, partial = true },
                { rows = 2, start_ns = 1_000_000_000, first_index = 8 },
                { rows = 1, start_ns = 3_000_000_000, first_index = 12 },
                { rows = 1, start_ns = 7_000_000_000, first_index = 13, partial = true },
                { rows = 1, start_ns = 9_000_000_000, first_index = 14, partial = true },
            ]
        "#;
        let mut recording = read("(6,)", &[1, 2, 3, 4, 5, 6], sidecar).unwrap();
        assert_eq!(recording.description().schema.labels["device"], "probe 1");
        assert!(!recording.description().schema.has_own_times(), "they are played at the rate");
        assert_eq!(recording.description().samples, Some(8));
        let hole = |before, samples| (before, samples, HoleKind::Recording);
        let whole = (vec![2, 3, 4], vec![hole(0, 1), hole(2, 2), hole(3, 2)]);
        assert_eq!(drain(&mut recording).unwrap(), whole);
        recording.rewind().unwrap();
        assert_eq!(drain(&mut recording).unwrap(), whole);
    }

    #[test]
    fn a_channel_may_have_many_columns() {
        let sidecar = "rate = \"1\"\nchannels = [{ name = \"image\", shape = [2, 2] }, { name = \"b\" }]";
        let recording = read("(1, 5)", &[1, 2, 3, 4, 5], sidecar).unwrap();
        assert_eq!(recording.description().schema.channels[0].shape, [2, 2]);
        // A sample of 5,000 elements is one of an image, or too many channels.
        let wide = "rate = \"1\"\nchannels = [{ name = \"image\", shape = [50, 100] }]";
        assert!(read("(1, 5000)", &[0; 5_000], wide).is_ok());
        let said = read("(1, 5000)", &[0; 5_000], "rate = \"1\"").err().expect("5,000 channels").to_string();
        assert!(said.contains("1 to 4096 channels, not 5000"), "{said}");
    }

    #[test]
    fn holes_are_given_out_no_faster_than_asked() {
        let mut recording = read("(6,)", &[1, 2, 3, 4, 5, 6], THREE_RUNS).unwrap();
        recording.next(plenty()).unwrap();
        let two = NonZeroU64::new(2).unwrap();
        let hole = |samples| Piece::Hole { samples, why: HoleKind::Recording };
        assert_eq!(recording.next(two).unwrap(), hole(2));
        assert_eq!(recording.next(two).unwrap(), hole(1));
        assert_eq!(recording.next(two).unwrap(), Piece::Samples(&[3]));
    }

    #[test]
    fn a_bare_array_needs_only_its_rate() {
        let array = NpyArray::open(Cursor::new(npy("<i2", "(2, 2)", &[1, 0, 2, 0, 3, 0, 4, 0]))).unwrap();
        let rate = "48k".parse().unwrap();
        let mut recording = Recording::bare(array, rate, &"test".parse().unwrap()).unwrap();
        assert_eq!(recording.description().schema.channels[1].name, "ch1");
        assert_eq!(drain(&mut recording).unwrap(), (vec![1, 0, 2, 0, 3, 0, 4, 0], vec![]));
    }

    #[test]
    fn descriptions_that_do_not_fit_the_array_are_refused() {
        assert!(refusal("rate = \"0\"").contains("not positive"));
        assert!(refusal("rate = \"1\"\nunit = \"V\"").contains("unknown field"));
        assert!(refusal("").contains("rate"));
        let two = "rate = \"1\"\nchannels = [{ name = \"a\" }, { name = \"b\" }]";
        assert!(refusal(two).contains("have 2 elements, the array has 1 columns"));
        assert!(refusal("rate = \"1\"\nruns = [{ rows = 5, start_ns = 0 }]").contains("5 samples"));
        let overlap =
            "rate = \"1\"\nruns = [{ rows = 5, start_ns = 0 }, { rows = 1, start_ns = 4000000000 }]";
        assert!(refusal(overlap).contains("run 1 begins at sample 4, before"));
        let some =
            "rate = \"1\"\nruns = [{ rows = 5, start_ns = 0, first_index = 0 }, { rows = 1, start_ns = 9 }]";
        assert!(refusal(some).contains("1 of 2 runs have a first_index"));
        let image = "rate = \"1\"\nchannels = [{ name = \"a\", shape = [4, 0] }]";
        assert!(refusal(image).contains("have 0 elements"));
    }
}
