//! A stream at another rate, slower or faster by a ratio of whole numbers.
//!
//! Samples of the output are on a grid of its own rate that begins with the input's epoch, however late the reader begins.
//! What is above half the slower rate is filtered out. No sample is computed across a hole: those whose filter reaches into it
//! are part of the hole.

mod kernel;

use std::sync::Arc;

use ledger::Stage;
use sample::{Block, SampleBuffer, Schema, StreamName};
use units::{SampleRate, WallTime};

use self::kernel::{Kernel, PASSED, Ratio, weighted};
use crate::outputs::Outputs;
use crate::reduction::MAX_KEPT_VALUES;
use crate::steady::{self, Follower, Grid, Run, Steady};
use crate::value::{value_dtype, write_value};
use crate::{Inherited, Input, InputError, Operator, Output, Totals};

pub use kernel::{MAX_FASTER, MAX_RATIO_TERM};

/// Label of the output: the rate of the input and the frequencies that pass, as people read them.
const RESAMPLED_LABEL: &str = "resampled";

/// Brings one stream to another rate: an [`Operator`] of one input.
///
/// The output has the channels, shapes and units of the input, as `f4` if that holds all values of the input's type, else `f8`.
/// Frequencies up to four tenths of the slower rate pass unchanged to within 2 · 10⁻⁵, those above half of it are weaker by
/// 98 dB; nothing is delayed. A sample is computed from the 32 periods of the slower rate before its instant and from the 32
/// after it, rounded up to whole samples of the input; one of these that is not finite makes it NaN.
#[derive(Clone, Debug)]
pub struct Resample {
    rate: SampleRate,
    steady: Steady,
    line: Option<Line>,
    outputs: Outputs,
}

#[derive(Clone, Debug)]
struct Line {
    schema: Arc<Schema>,
    inherited: Inherited,
    ratio: Ratio,
    kernel: Kernel,
    /// The sample of the output that is decided next, counted from the start of the epoch.
    next: u64,
    /// Index of the first sample of the input after the last boundary, and the stage of what is missing before it.
    run_from: u64,
    stage: Option<Stage>,
    /// Samples of the input that may still count: their first index, and values of each element.
    kept_from: u64,
    kept: Vec<Vec<f64>>,
    /// Index one behind the newest sample of the input.
    known_to: u64,
    /// Index and time of a sample of the input.
    anchor: (u64, WallTime),
    grid: Grid,
}

impl Resample {
    /// Makes the operator. Whether it fits the stream's rate is known with the first block.
    #[must_use]
    pub fn new(rate: SampleRate) -> Self {
        Self { rate, steady: Steady::new(), line: None, outputs: Outputs::default() }
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        steady::check(block, "resampling")?;
        let stream = || (*block.stream).clone();
        let (input, output) = (block.schema.rate, self.rate);
        let ratio = Ratio::new(input, output).ok_or_else(|| InputError::Ratio {
            stream: stream(),
            rate: input,
            resampled: output,
        })?;
        let elements = block.schema.elements_per_sample();
        let values = 2 * Kernel::side(ratio) * u64::from(elements);
        if values > MAX_KEPT_VALUES {
            return Err(InputError::Reach { stream: stream(), values });
        }
        Ok(Line {
            schema: Arc::new(self.resampled(&block.stream, &block.schema)?),
            inherited: Inherited { stream: block.stream.clone(), stage: None },
            ratio,
            kernel: Kernel::new(ratio),
            next: 0,
            run_from: 0,
            stage: None,
            kept_from: 0,
            kept: vec![Vec::new(); elements as usize],
            known_to: 0,
            anchor: (block.first_index, block.t0),
            grid: Grid::new(self.rate, 0, block.t0),
        })
    }

    fn resampled(&self, stream: &StreamName, input: &Schema) -> Result<Schema, InputError> {
        let mut schema = Schema { dtype: value_dtype(input.dtype), rate: self.rate, ..input.clone() };
        for channel in &mut schema.channels {
            (channel.scale, channel.offset) = (1.0, 0.0);
        }
        if input.rate != self.rate {
            let passed_hz = PASSED * input.rate.as_hz().min(self.rate.as_hz());
            let label = format!("from {} samples per second, 0 to {passed_hz} Hz", input.rate);
            schema.labels.insert(RESAMPLED_LABEL.to_owned(), label);
        }
        schema.check().map_err(|error| InputError::Schema { stream: stream.clone(), error })?;
        Ok(schema)
    }
}

impl Operator for Resample {
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
        self.line.as_ref().map_or(1.0, |line| line.ratio.as_f64().max(1.0))
    }
}

impl Follower for Line {
    fn begin(&mut self, index: u64, t0: WallTime) {
        self.anchor = (index, t0);
        self.next = self.ratio.outputs_before(index);
        self.grid = Grid::new(self.schema.rate, self.next, self.ratio.time_of(self.next, index, t0));
        self.restart(index, Some(Stage::Source));
    }

    fn due(&mut self) -> WallTime {
        self.time_of(self.next)
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn inherited(&self) -> &Inherited {
        &self.inherited
    }

    fn take(&mut self, run: Run, outputs: &mut Outputs) {
        self.anchor = (run.first_index, run.t0);
        self.known_to = run.first_index + run.samples;
        for (kept, values) in self.kept.iter_mut().zip(&run.columns) {
            kept.extend_from_slice(values);
        }
        // The filter would reach back behind the boundary.
        let first = self.ratio.outputs_before(self.run_from.saturating_add(self.kernel.before));
        let due = self.ratio.outputs_before(self.known_to);
        self.leave_out_outputs(first.min(due), self.stage, outputs);

        let decided = self.ratio.outputs_before(self.known_to.saturating_sub(self.kernel.after));
        if first <= self.next && self.next < decided {
            let t0 = self.time_of(self.next);
            outputs.push_samples(t0, decided - self.next, self.compute(decided));
            self.next = decided;
        }
        // What no later sample needs; no copy is made before it is half of what is kept.
        let place = self.ratio.place(self.next);
        let needed = place.index.saturating_sub(self.kernel.before).min(self.known_to);
        let needless = needed.saturating_sub(self.kept_from) as usize;
        if 2 * needless >= self.kept[0].len() {
            self.kept.iter_mut().for_each(|kept| drop(kept.drain(..needless)));
            self.kept_from += needless as u64;
        }
    }

    fn leave_out(&mut self, to: u64, stage: Option<Stage>, outputs: &mut Outputs) {
        self.leave_out_outputs(self.ratio.outputs_before(to), stage, outputs);
        self.restart(to, stage);
    }
}

impl Line {
    /// Forgets the samples before `index`, of which some are missing at `stage`.
    fn restart(&mut self, index: u64, stage: Option<Stage>) {
        (self.run_from, self.kept_from, self.known_to, self.stage) = (index, index, index, stage);
        self.kept.iter_mut().for_each(Vec::clear);
    }

    /// Leaves out the samples of the output before `end`.
    fn leave_out_outputs(&mut self, end: u64, stage: Option<Stage>, outputs: &mut Outputs) {
        if self.next < end {
            outputs.push_hole(self.time_of(self.next), end - self.next, &self.inherited, stage);
            self.next = end;
        }
    }

    /// Computes the samples of the output before `end`.
    fn compute(&self, end: u64) -> SampleBuffer {
        let (row, size) = (self.schema.sample_bytes(), self.schema.dtype.size_bytes());
        let mut samples = SampleBuffer::zeroed((end - self.next) as usize * row);
        for (element, kept) in self.kept.iter().enumerate() {
            let mut place = self.ratio.place(self.next);
            for row in samples.as_bytes_mut().chunks_exact_mut(row) {
                let begin = (place.index - self.kernel.before - self.kept_from) as usize;
                let value = weighted(self.kernel.of(place.phase), &kept[begin..][..self.kernel.width()]);
                write_value(value, &mut row[element * size..][..size]);
                place = self.ratio.after(place);
            }
        }
        samples
    }

    /// Returns the time of a sample of the output.
    fn time_of(&mut self, output: u64) -> WallTime {
        let (index, time) = self.anchor;
        self.grid.time_of(output, self.ratio.time_of(output, index, time))
    }
}

#[cfg(test)]
mod tests;
