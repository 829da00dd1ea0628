//! Many samples reduced to one: thinning to extremes, and statistics over windows.
//!
//! A window is a fixed number of samples, aligned to the input's indices, so that every reader who reduces the same
//! stream gets the same windows. A window with missing samples is reduced from the samples that arrived, whose
//! number is the statistic `n`; a window without any sample is a hole, inherited from the input.

mod statistic;
mod window;

use std::sync::Arc;

use ledger::Stage;
use sample::{Block, Channel, ElementReader, Schema, StreamName, UnknownEntries};
use units::{Epoch, SampleRate, WallTime};

use self::window::Window;
use crate::outputs::Outputs;
use crate::reasons::Reasons;
use crate::value::{value_dtype, write_value};
use crate::{Inherited, Input, InputError, Operator, Output, Totals};

pub use statistic::{Percent, Statistic, UnknownStatistic};

/// Values that a quantile may keep: all of its window, of all elements.
pub const MAX_KEPT_VALUES: u64 = 1 << 24;

/// Reason why a stream cannot be reduced.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReductionError {
    /// A window of less than two samples, or no statistic.
    #[error("a reduction needs 2 samples or more and one statistic or more, not {samples} and {statistics}")]
    Nothing {
        /// Samples per window, as configured.
        samples: u32,
        /// Number of statistics, as configured.
        statistics: usize,
    },
}

/// Reduces one stream: an [`Operator`] of one input.
///
/// Every channel `x` becomes `x.min`, `x.max` and so on, of the same shape and unit; `x.n` has none.
#[derive(Clone, Debug)]
pub struct Reduction {
    samples: u32,
    statistics: Vec<Statistic>,
    line: Option<Line>,
    outputs: Outputs,
}

#[derive(Clone, Debug)]
struct Line {
    input: Arc<Schema>,
    schema: Arc<Schema>,
    readers: Vec<ElementReader>,
    epoch: Epoch,
    inherited: Inherited,
    reasons: Reasons,
    /// The window being filled, counted from the start of the epoch, and its start.
    window: u64,
    t0: WallTime,
    /// Of each element.
    filling: Vec<Window>,
}

impl Reduction {
    /// Makes a reduction of every `samples` samples to the given statistics of each channel.
    ///
    /// # Errors
    /// [`ReductionError::Nothing`].
    pub fn new(samples: u32, statistics: Vec<Statistic>) -> Result<Self, ReductionError> {
        if samples < 2 || statistics.is_empty() {
            return Err(ReductionError::Nothing { samples, statistics: statistics.len() });
        }
        Ok(Self { samples, statistics, line: None, outputs: Outputs::default() })
    }

    /// Makes the reduction that preserves peaks: every `samples` samples to their extremes, mean and number.
    ///
    /// # Errors
    /// [`ReductionError::Nothing`].
    pub fn thin(samples: u32) -> Result<Self, ReductionError> {
        Self::new(samples, vec![Statistic::Min, Statistic::Max, Statistic::Mean, Statistic::N])
    }

    fn take(&mut self, block: &Block) -> Result<(), InputError> {
        let mut line = match self.line.take() {
            None => self.begin(block)?,
            Some(mut line) if block.epoch > line.epoch => {
                if *block.schema != *line.input {
                    let error = InputError::changed(&block.stream, &line.input, &block.schema);
                    self.line = Some(line);
                    return Err(error);
                }
                self.finish_begun(&mut line);
                self.seam(&line, block.t0);
                self.begin(block)?
            }
            Some(line) => line,
        };
        if block.epoch == line.epoch {
            self.add(&mut line, block);
        }
        self.line = Some(line);
        Ok(())
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        let schema = Arc::new(self.reduced_schema(&block.stream, &block.schema)?);
        let elements = block.schema.elements_per_sample() as usize;
        let keeps_values = self.keeps_values();
        let readers = (0..elements).filter_map(|element| ElementReader::new(&block.schema, element));
        Ok(Line {
            input: block.schema.clone(),
            schema,
            readers: readers.collect(),
            epoch: block.epoch,
            inherited: Inherited { stream: block.stream.clone(), stage: None },
            reasons: Reasons::default(),
            window: block.first_index / u64::from(self.samples),
            t0: self.start_of(block, block.first_index / u64::from(self.samples)),
            filling: vec![Window::new(keeps_values); elements],
        })
    }

    /// Returns the schema of the windows of `stream`, which has the schema `input`.
    ///
    /// # Errors
    /// [`InputError::Rate`], [`InputError::Kept`], or [`InputError::Schema`] for too many channels.
    pub fn reduced_schema(&self, stream: &StreamName, input: &Schema) -> Result<Schema, InputError> {
        let kept = u64::from(self.samples) * u64::from(input.elements_per_sample());
        if self.keeps_values() && kept > MAX_KEPT_VALUES {
            return Err(InputError::Kept { stream: stream.clone(), values: kept });
        }
        let named = |channel: &Channel, statistic: &Statistic| Channel {
            name: format!("{}.{statistic}", channel.name),
            unit: if *statistic == Statistic::N { String::new() } else { channel.unit.clone() },
            scale: 1.0,
            offset: 0.0,
            // Said of the channel, and not of its statistics.
            unknown: UnknownEntries::new(),
            ..channel.clone()
        };
        let mut channels = Vec::new();
        for channel in &input.channels {
            channels.extend(self.statistics.iter().map(|statistic| named(channel, statistic)));
        }
        let (stream, rate) = (stream.clone(), one_in(self.samples, stream, input.rate)?);
        let (dtype, labels, unknown) =
            (value_dtype(input.dtype), input.labels.clone(), UnknownEntries::new());
        let schema = Schema { dtype, rate, channels, labels, unknown };
        schema.check().map_err(|error| InputError::Schema { stream, error })?;
        Ok(schema)
    }

    fn keeps_values(&self) -> bool {
        self.statistics.iter().any(|statistic| statistic.keeps_values())
    }

    fn start_of(&self, block: &Block, window: u64) -> WallTime {
        block.time_of(window * u64::from(self.samples))
    }

    fn add(&mut self, line: &mut Line, block: &Block) {
        let window_samples = u64::from(self.samples);
        let seen = line.window * window_samples;
        let columns: Vec<_> = line
            .readers
            .iter()
            .map(|reader| {
                let mut values = Vec::new();
                reader.read(block, &mut values);
                (values, reader.present(block))
            })
            .collect();
        let mut index = block.first_index.max(seen);
        while index < block.next_index() {
            self.go_to(line, block, index / window_samples);
            let end = ((line.window + 1) * window_samples).min(block.next_index());
            let (from, to) = ((index - block.first_index) as usize, (end - block.first_index) as usize);
            for ((values, present), window) in columns.iter().zip(&mut line.filling) {
                for run in present {
                    let (start, stop) = (run.start.max(from), run.end.min(to));
                    window.add(values.get(start..stop).unwrap_or_default());
                }
            }
            index = end;
        }
        self.go_to(line, block, block.next_index() / window_samples);
    }

    /// Finishes the windows before `window`; if there are several, most are empty.
    fn go_to(&mut self, line: &mut Line, block: &Block, window: u64) {
        if window <= line.window {
            return;
        }
        self.finish_window(line);
        let empty = window - line.window;
        if empty > 0 {
            let samples = u64::from(self.samples);
            let stage = line.reasons.of(&(line.window * samples..window * samples));
            self.outputs.push_hole(self.start_of(block, line.window), empty, &line.inherited, stage);
        }
        line.window = window;
        line.t0 = self.start_of(block, window);
    }

    /// Finishes the window that is being filled, if a sample of it arrived.
    fn finish_begun(&mut self, line: &mut Line) {
        if line.filling.iter().any(|window| window.present > 0) {
            self.finish_window(line);
        }
    }

    /// Puts the window out that is being filled, and begins the next.
    fn finish_window(&mut self, line: &mut Line) {
        let samples = u64::from(self.samples);
        let t0 = line.t0;
        if line.filling.iter().all(|window| window.present == 0) {
            let stage = line.reasons.of(&(line.window * samples..(line.window + 1) * samples));
            self.outputs.push_hole(t0, 1, &line.inherited, stage);
        } else {
            self.push_window(t0, line);
        }
        line.window += 1;
        line.filling.iter_mut().for_each(Window::clear);
        line.t0 = line.schema.rate.time_of(1, 0, t0);
    }

    fn push_window(&mut self, t0: WallTime, line: &mut Line) {
        let size = line.schema.dtype.size_bytes();
        let mut row = vec![0; line.schema.sample_bytes()];
        let mut places = row.chunks_exact_mut(size);
        for channel in 0..line.input.channels.len() {
            for statistic in &self.statistics {
                for window in &mut line.filling[line.input.channel_elements(channel)] {
                    write_value(window.value(*statistic), places.next().expect("a place for every value"));
                }
            }
        }
        self.outputs.push_row(t0, &row);
    }

    /// Puts a hole between two epochs of the publisher, at least one window long.
    fn seam(&mut self, line: &Line, t0: WallTime) {
        let windows = t0.nanos_since(line.t0) as f64 * line.schema.rate.as_hz() / 1e9;
        let windows = windows.round().max(1.0) as u64;
        self.outputs.push_hole(line.t0.min(t0), windows, &line.inherited, Some(Stage::Source));
    }
}

impl Operator for Reduction {
    fn handle(&mut self, _input: usize, what: Input<'_>) -> Result<(), InputError> {
        match what {
            Input::Block(block) => self.take(block)?,
            Input::Hole(hole) => {
                if let Some(line) = self.line.as_mut().filter(|line| line.epoch == hole.epoch) {
                    line.reasons.note_hole(hole, &line.input);
                }
            }
            Input::Horizon(_) => {}
            Input::Ended => {
                if let Some(mut line) = self.line.take() {
                    self.finish_begun(&mut line);
                    self.line = Some(line);
                }
            }
        }
        Ok(())
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
}

/// Returns the rate of one in `samples` samples.
///
/// # Errors
/// [`InputError::Rate`].
pub(crate) fn one_in(samples: u32, stream: &StreamName, rate: SampleRate) -> Result<SampleRate, InputError> {
    // Lowest terms first: 1 kHz divided by 1000 is 1 Hz even where the product exceeds 32 bits.
    let divisor = greatest_common_divisor(rate.numerator(), samples);
    let denominator = rate.denominator().checked_mul(samples / divisor);
    let reduced = denominator.and_then(|below| SampleRate::new(rate.numerator() / divisor, below).ok());
    reduced.ok_or_else(|| InputError::Rate { stream: stream.clone(), samples, rate })
}

const fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
