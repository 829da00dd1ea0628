//! Spectra of a stream: the power of its frequencies, segment by segment.
//!
//! Segments are aligned to the input's indices, as the windows of a reduction are. No segment has a hole in it: after one,
//! the first segment is the next that begins behind it. An average is of all its segments, or it is a hole.

mod transform;

use std::sync::Arc;

use ledger::Stage;
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName, UnknownEntries};
use units::WallTime;

use self::transform::{Transform, bins};
use crate::outputs::Outputs;
use crate::reduction::{MAX_KEPT_VALUES, one_in};
use crate::steady::{self, Follower, Grid, Run, Steady};
use crate::{Inherited, Input, InputError, Operator, Output, Totals};

pub use transform::{SpectralWindow, SpectrumScale};

/// The longest segment.
pub const MAX_SEGMENT_SAMPLES: u32 = 1 << 20;
/// Maximum number of segments of an average: the samples of its longest segments are a 32-bit number.
pub const MAX_AVERAGED_SEGMENTS: u32 = 4_000;

/// Label of the output: what its values are, `density` or `power`.
const SCALE_LABEL: &str = "spectrum";
/// Label of the output: the distance of two bins. Bin 0 is at 0 Hz.
const BIN_LABEL: &str = "spectrum_bin_hz";
/// Label of the output: the window's name.
const WINDOW_LABEL: &str = "spectrum_window";
/// Label of the output: the part of a segment that the next one has, too.
const OVERLAP_LABEL: &str = "spectrum_overlap";
/// Label of the output: number of samples of a segment.
const SEGMENT_LABEL: &str = "spectrum_samples";
/// Label of the output: number of segments that one spectrum is the mean of.
const AVERAGE_LABEL: &str = "spectrum_average";

/// Settings of a [`Spectrum`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpectrumConfig {
    /// Number of samples of a segment.
    pub samples: u32,
    /// Part of a segment that the next one has, too: from 0 to below 1. Segments begin a whole number of samples apart.
    pub overlap: f64,
    /// Weights of the values of a segment.
    pub window: SpectralWindow,
    /// What the values are.
    pub scale: SpectrumScale,
    /// Number of segments whose mean is one sample of the output (Welch 1967).
    pub average: u32,
}

/// Reason why spectra cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpectrumError {
    /// A segment that is too short or too long.
    #[error("a segment of a spectrum has 2 to {MAX_SEGMENT_SAMPLES} samples, not {0}")]
    Segment(u32),
    /// An overlap that is no fraction, or that would not advance.
    #[error("the overlap of segments is a fraction from 0 to below 1, such as 0.5, not {0}")]
    Overlap(f64),
    /// An average of nothing, or of too much.
    #[error("a spectrum is the average of 1 to {MAX_AVERAGED_SEGMENTS} segments, not {0}")]
    Average(u32),
}

/// Computes spectra of every channel of one stream: an [`Operator`] of one input.
///
/// A channel `x` in V becomes a channel `x` in V²/Hz or V², `f8`, whose shape has the bins as its last extent: from 0 Hz to half
/// the rate, one-sided. The mean of the values stays in. The time of a spectrum is that of its first sample. A value that is
/// not finite makes every spectrum of its element that it belongs to NaN.
#[derive(Clone, Debug)]
pub struct Spectrum {
    config: SpectrumConfig,
    steady: Steady,
    line: Option<Line>,
    outputs: Outputs,
}

#[derive(Clone, Debug)]
struct Line {
    input: Arc<Schema>,
    schema: Arc<Schema>,
    inherited: Inherited,
    /// Made when the first segment is there: a plan that is checked needs none.
    transform: Option<Transform>,
    config: SpectrumConfig,
    /// Samples from one segment to the next.
    step: u64,
    /// The segment that is computed next, counted from the start of the epoch.
    segment: u64,
    /// Samples that may belong to that segment or to later ones: their first index, and values of each element.
    kept_from: u64,
    kept: Vec<Vec<f64>>,
    /// Sums over the segments of an average, as they are laid out in the output.
    sums: Vec<f64>,
    /// Index and time of a sample that was read.
    anchor: (u64, WallTime),
    grid: Grid,
    /// Whether the next sample of the output does not follow the one before by its time.
    is_apart: bool,
}

impl SpectrumConfig {
    /// Returns the number of samples from one segment to the next.
    fn step(&self) -> u32 {
        let step = (f64::from(self.samples) * (1.0 - self.overlap)).round() as u32;
        step.clamp(1, self.samples)
    }
}

impl Spectrum {
    /// Makes the operator. Whether it fits the stream is known with the first block.
    ///
    /// # Errors
    /// [`SpectrumError`].
    pub fn new(config: SpectrumConfig) -> Result<Self, SpectrumError> {
        let SpectrumConfig { samples, overlap, average, .. } = config;
        if !(2..=MAX_SEGMENT_SAMPLES).contains(&samples) {
            return Err(SpectrumError::Segment(samples));
        }
        if !(0.0..1.0).contains(&overlap) {
            return Err(SpectrumError::Overlap(overlap));
        }
        if !(1..=MAX_AVERAGED_SEGMENTS).contains(&average) {
            return Err(SpectrumError::Average(average));
        }
        Ok(Self { config, steady: Steady::new(), line: None, outputs: Outputs::default() })
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        steady::check(block, "a spectrum")?;
        let input = &block.schema;
        let elements = input.elements_per_sample() as usize;
        let values = u64::from(self.config.samples) * elements as u64;
        if values > MAX_KEPT_VALUES {
            return Err(InputError::Segment { stream: (*block.stream).clone(), values });
        }
        let schema = self.schema_of(&block.stream, input)?;
        Ok(Line {
            input: input.clone(),
            sums: vec![0.0; schema.elements_per_sample() as usize],
            grid: Grid::new(schema.rate, 0, block.t0),
            schema: Arc::new(schema),
            inherited: Inherited { stream: block.stream.clone(), stage: None },
            transform: None,
            config: self.config,
            step: self.config.step().into(),
            segment: 0,
            kept_from: 0,
            kept: vec![Vec::new(); elements],
            anchor: (block.first_index, block.t0),
            is_apart: false,
        })
    }

    fn schema_of(&self, stream: &StreamName, input: &Schema) -> Result<Schema, InputError> {
        let SpectrumConfig { samples, average, window, scale, .. } = self.config;
        let step = self.config.step();
        let rate = one_in(step * average, stream, input.rate)?;
        let channels = input.channels.iter().map(|channel| {
            let shape = channel.shape.iter().copied().chain([bins(samples)]).collect::<Vec<_>>();
            Channel::new(channel.name.clone(), scale.unit(&channel.unit)).with_shape(shape)
        });
        let channels = channels.collect();
        let mut labels = input.labels.clone();
        let bin_hz = input.rate.as_hz() / f64::from(samples);
        let overlap = f64::from(samples - step) / f64::from(samples);
        for (label, value) in [
            (SCALE_LABEL, scale.name().to_owned()),
            (BIN_LABEL, bin_hz.to_string()),
            (WINDOW_LABEL, window.name().to_owned()),
            (OVERLAP_LABEL, overlap.to_string()),
            (SEGMENT_LABEL, samples.to_string()),
            (AVERAGE_LABEL, average.to_string()),
        ] {
            labels.insert(label.to_owned(), value);
        }
        let schema = Schema { dtype: Dtype::F8, rate, channels, labels, unknown: UnknownEntries::new() };
        schema.check().map_err(|error| InputError::Schema { stream: stream.clone(), error })?;
        Ok(schema)
    }
}

impl Operator for Spectrum {
    fn handle(&mut self, _input: usize, what: Input<'_>) -> Result<(), InputError> {
        if let (None, Input::Block(block)) = (&self.line, what) {
            self.line = Some(self.begin(block)?);
        }
        self.steady.pass(what, self.line.as_mut(), &mut self.outputs)
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    fn schema(&self) -> Option<Arc<Schema>> {
        self.line.as_ref().map(|line| line.schema.clone())
    }

    fn totals(&self) -> Totals {
        self.outputs.totals()
    }

    fn passes(&self) -> f64 {
        f64::from(self.config.samples) / f64::from(self.config.step())
    }
}

impl Follower for Line {
    fn begin(&mut self, index: u64, t0: WallTime) {
        (self.segment, self.anchor) = (0, (index, t0));
        self.restart(index);
        self.grid = Grid::new(self.schema.rate, self.output(), self.time_by_input());
    }

    fn due(&mut self) -> WallTime {
        self.grid.time_of(self.output(), self.time_by_input())
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn inherited(&self) -> &Inherited {
        &self.inherited
    }

    fn take(&mut self, run: Run, outputs: &mut Outputs) {
        self.anchor = (run.first_index, run.t0);
        for (kept, values) in self.kept.iter_mut().zip(&run.columns) {
            kept.extend_from_slice(values);
        }
        let SpectrumConfig { samples, window, scale, average, .. } = self.config;
        let (end, length) = (run.first_index + run.samples, u64::from(samples));
        while self.segment * self.step + length <= end {
            let from = (self.segment * self.step - self.kept_from) as usize;
            let transform = self
                .transform
                .get_or_insert_with(|| Transform::new(samples, window, scale, self.input.rate.as_hz()));
            for (kept, sums) in self.kept.iter().zip(self.sums.chunks_exact_mut(bins(samples) as usize)) {
                transform.add(&kept[from..from + length as usize], sums);
            }
            if (self.segment + 1).is_multiple_of(average.into()) {
                self.finish(outputs);
            }
            self.segment += 1;
        }
        // What no later segment needs; no copy is made before it is half of what is kept.
        let needless = (self.segment * self.step).min(end).saturating_sub(self.kept_from) as usize;
        if 2 * needless >= self.kept[0].len() {
            self.kept.iter_mut().for_each(|kept| drop(kept.drain(..needless)));
            self.kept_from += needless as u64;
        }
    }

    fn leave_out(&mut self, to: u64, stage: Option<Stage>, outputs: &mut Outputs) {
        let due = self.due();
        let samples = self.restart(to);
        outputs.push_hole(due, samples, &self.inherited, stage);
    }
}

impl Line {
    /// Returns the sample of the output that is computed next, counted from the start of the epoch.
    fn output(&self) -> u64 {
        self.segment / u64::from(self.config.average)
    }

    fn time_by_input(&self) -> WallTime {
        let (index, time) = self.anchor;
        let first = self.output().saturating_mul(u64::from(self.config.average) * self.step);
        self.input.rate.time_of(first, index, time)
    }

    /// Goes to the first sample of the output that needs nothing before `index`; returns how many are left out.
    fn restart(&mut self, index: u64) -> u64 {
        let average = u64::from(self.config.average);
        let (before, output) = (self.output(), index.div_ceil(self.step * average));
        let output = output.max(before);
        self.segment = output.saturating_mul(average);
        self.kept_from = index;
        self.kept.iter_mut().for_each(Vec::clear);
        self.sums.fill(0.0);
        self.is_apart = true;
        output - before
    }

    /// Puts out the mean of the segments that were added.
    fn finish(&mut self, outputs: &mut Outputs) {
        let (t0, segments) = (self.due(), f64::from(self.config.average));
        let row: Vec<u8> = self.sums.iter().flat_map(|sum| (sum / segments).to_le_bytes()).collect();
        if self.is_apart {
            outputs.push_samples(t0, 1, SampleBuffer::from_bytes(&row));
        } else {
            outputs.push_row(t0, &row);
        }
        self.sums.fill(0.0);
        self.is_apart = false;
    }
}

#[cfg(test)]
mod tests;
