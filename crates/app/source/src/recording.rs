//! A recorded signal: an NPY array with a small TOML file beside it that says what it is.
//!
//! The description tells rate, units, scale and origin, and where the recording has holes: pieces ("runs")
//! that lie one behind the other in the array, each with its true start. `data/README.md` draws the format.
//! A bare array is a recording too, once its rate is given.

use std::num::NonZeroU64;

use sample::{Channel, Dtype, Schema, StreamName};
use serde::Deserialize;
use units::{SampleRate, WallTime};

use crate::numbers::numbered_channels;
use crate::piece::samples_at_once;
use crate::{Description, HoleKind, NpyArray, Piece, Source, SourceError, Timing};

/// The most runs a description may list: a year of hourly files.
const MAX_RUNS: usize = 10_000;

/// A recording being played.
pub struct Recording {
    array: NpyArray,
    description: Description,
    /// The runs, each with the samples missing before it; never empty.
    runs: Vec<Run>,
    /// Which run is being played.
    run: usize,
    /// What of its hole and of its rows is still to come.
    hole_left: u64,
    rows_left: u64,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Run {
    hole_before: u64,
    rows: u64,
}

/// Says what is wrong with a recording's description.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The description is not what `data/README.md` draws.
    #[error("the description beside the array cannot be read: {0}")]
    Toml(#[from] toml::de::Error),
    /// A bare array without a rate.
    #[error(
        "an array does not know its rate\ngive it with --rate, or in a TOML file of the same name beside it"
    )]
    NoRate,
    /// A rate that is none.
    #[error("the rate in the description: {0}")]
    Rate(#[from] units::RateError),
    /// Channels that are not those of the array.
    #[error("the description names {described} channels, the array has {columns}")]
    ChannelCount {
        /// In the description.
        described: usize,
        /// In the array.
        columns: u32,
    },
    /// Runs that are not those of the array.
    #[error("the runs of the description have {described} samples, the array has {rows}")]
    RunRows {
        /// In the description.
        described: u64,
        /// In the array.
        rows: u64,
    },
    /// A run that begins before its predecessor ends.
    #[error("run {index} begins at sample {start}, before the run ahead of it ends at {end}")]
    Overlap {
        /// Which, from 0.
        index: usize,
        /// Where it begins.
        start: i128,
        /// Where its predecessor ends.
        end: i128,
    },
    /// More runs than are sensible.
    #[error("a description lists at most {MAX_RUNS} runs, not {0}")]
    TooManyRuns(usize),
    /// A dtype asked for that is not the array's.
    #[error(
        "the array's elements are {actual}, not {asked}\nleave --dtype out, or convert the array with astype"
    )]
    WrongDtype {
        /// What they are.
        actual: Dtype,
        /// What was asked for.
        asked: Dtype,
    },
}

/// The TOML file beside an array.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Sidecar {
    rate: String,
    title: Option<String>,
    origin: Option<String>,
    licence: Option<String>,
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SidecarRun {
    rows: u64,
    start_ns: i64,
}

const fn one() -> f64 {
    1.0
}

impl Recording {
    /// Makes a recording of an array and its description.
    ///
    /// # Errors
    /// [`SourceError::Recording`], [`SourceError::Schema`].
    pub fn read(array: NpyArray, sidecar: &str, name: &StreamName) -> Result<Self, SourceError> {
        let sidecar: Sidecar = toml::from_str(sidecar).map_err(RecordingError::from)?;
        let rate: SampleRate = sidecar.rate.parse().map_err(RecordingError::from)?;
        let runs = runs_of(&sidecar, rate, array.rows())?;
        let start = sidecar.runs.first().map(|run| run.start_ns).or(sidecar.start_ns);
        let channels = channels_of(&sidecar, array.columns())?;
        let mut schema = Schema::new(array.dtype(), rate, channels)?;
        let words = [("title", sidecar.title), ("origin", sidecar.origin), ("licence", sidecar.licence)];
        let said = words.into_iter().filter_map(|(key, word)| Some((key.to_owned(), word?)));
        schema.labels.extend(said);
        Ok(Self::new(array, name.clone(), schema, start.map(WallTime::from_nanos), runs))
    }

    /// Makes a recording of an array that has no description.
    ///
    /// # Errors
    /// [`SourceError::Schema`].
    pub fn bare(array: NpyArray, rate: SampleRate, name: &StreamName) -> Result<Self, SourceError> {
        let schema = Schema::new(array.dtype(), rate, numbered_channels(array.columns() as usize))?;
        let runs = vec![Run { hole_before: 0, rows: array.rows() }];
        Ok(Self::new(array, name.clone(), schema, None, runs))
    }

    fn new(
        array: NpyArray,
        name: StreamName,
        schema: Schema,
        start: Option<WallTime>,
        runs: Vec<Run>,
    ) -> Self {
        let samples = Some(runs.iter().map(|run| run.hole_before + run.rows).sum());
        let description = Description { name, schema, timing: Timing::Recorded { start }, samples };
        let mut recording =
            Self { array, description, runs, run: 0, hole_left: 0, rows_left: 0, buffer: Vec::new() };
        recording.begin_run(0);
        recording
    }

    /// Plays at another rate than the recording's own, or checks that its elements are what was asked for.
    pub(crate) fn adjusted(
        mut self,
        rate: Option<SampleRate>,
        dtype: Option<Dtype>,
    ) -> Result<Self, SourceError> {
        let actual = self.array.dtype();
        if let Some(asked) = dtype.filter(|asked| *asked != actual) {
            return Err(RecordingError::WrongDtype { actual, asked }.into());
        }
        self.description.schema.rate = rate.unwrap_or(self.description.schema.rate);
        Ok(self)
    }

    fn begin_run(&mut self, index: usize) {
        self.run = index;
        self.hole_left = self.runs[index].hole_before;
        self.rows_left = self.runs[index].rows;
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

fn channels_of(sidecar: &Sidecar, columns: u32) -> Result<Vec<Channel>, RecordingError> {
    let described = sidecar.channels.len();
    if described == 0 {
        return Ok(numbered_channels(columns as usize));
    }
    if described != columns as usize {
        return Err(RecordingError::ChannelCount { described, columns });
    }
    let channel =
        |from: &SidecarChannel| Channel::new(&from.name, &from.unit).with_scale(from.scale, from.offset);
    Ok(sidecar.channels.iter().map(channel).collect())
}

/// Places the runs on the sample grid that begins with the first of them.
///
/// Each start is rounded to the nearest sample of that one grid, so that errors do not add up.
fn runs_of(sidecar: &Sidecar, rate: SampleRate, rows: u64) -> Result<Vec<Run>, RecordingError> {
    let Some(first) = sidecar.runs.first() else {
        return Ok(vec![Run { hole_before: 0, rows }]);
    };
    if sidecar.runs.len() > MAX_RUNS {
        return Err(RecordingError::TooManyRuns(sidecar.runs.len()));
    }
    let described = sidecar.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.rows));
    if described != rows || sidecar.runs.iter().any(|run| run.rows == 0) {
        return Err(RecordingError::RunRows { described, rows });
    }
    let mut end = 0_i128;
    let mut runs = Vec::with_capacity(sidecar.runs.len());
    for (index, run) in sidecar.runs.iter().enumerate() {
        let start = crate::grid::samples_between(rate, i128::from(run.start_ns) - i128::from(first.start_ns));
        let hole_before =
            u64::try_from(start - end).map_err(|_| RecordingError::Overlap { index, start, end })?;
        runs.push(Run { hole_before, rows: run.rows });
        end = start + i128::from(run.rows);
    }
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
        assert!(refusal(two).contains("2 channels, the array has 1"));
        assert!(refusal("rate = \"1\"\nruns = [{ rows = 5, start_ns = 0 }]").contains("5 samples"));
        let overlap =
            "rate = \"1\"\nruns = [{ rows = 5, start_ns = 0 }, { rows = 1, start_ns = 4000000000 }]";
        assert!(refusal(overlap).contains("run 1 begins at sample 4, before"));
    }
}
