//! Many samples reduced to one: thinning to extremes, and statistics over windows.
//!
//! A window is a fixed number of samples, aligned to the input's indices, so that every reader who reduces the same
//! stream gets the same windows. A window with missing samples is reduced from the samples that arrived, and its
//! channel `present` gives their number; a window without any sample is a hole, inherited from the input.

use std::collections::VecDeque;
use std::sync::Arc;

use ledger::Stage;
use sample::{Block, Channel, ElementReader, SampleBuffer, Schema, SchemaError, UnknownEntries};
use units::{Epoch, SampleRate, WallTime};

use crate::calibrate::{value_dtype, write_value};
use crate::reasons::Reasons;
use crate::{Inherited, Input, Output};

/// A statistic of a window. NaN values are ignored, unless there are no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The arithmetic mean.
    Mean,
    /// The root of the mean square.
    Rms,
}

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
    /// A rate too low for a fraction of 32-bit numbers.
    #[error(
        "the rate of one in {samples} samples at {rate} samples per second cannot be represented; use fewer samples"
    )]
    Rate {
        /// Samples per window, as configured.
        samples: u32,
        /// The input's rate.
        rate: SampleRate,
    },
    /// The reduced stream would have more channels than a stream may.
    #[error("the reduced stream cannot be described")]
    Schema(#[from] SchemaError),
    /// The publisher restarted with another schema, which does not fit the output's.
    #[error("the stream restarted with another schema; restart the reduction")]
    SchemaChanged,
}

/// Reduces one stream. After each `handle`, `poll` until `None`.
#[derive(Clone, Debug)]
pub struct Reduction {
    samples: u32,
    statistics: Vec<Statistic>,
    line: Option<Line>,
    next_index: u64,
    outputs: VecDeque<Output>,
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
    sums: Vec<Sum>,
}

/// Accumulated values of one element in a window.
#[derive(Clone, Copy, Debug)]
struct Sum {
    present: u64,
    counted: u64,
    min: f64,
    max: f64,
    total: f64,
    squares: f64,
}

impl Statistic {
    /// Returns the suffix that is appended to a channel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::Rms => "rms",
        }
    }
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
        Ok(Self { samples, statistics, line: None, next_index: 0, outputs: VecDeque::new() })
    }

    /// Makes the reduction that preserves peaks: every `samples` samples to their extremes.
    ///
    /// # Errors
    /// [`ReductionError::Nothing`].
    pub fn thin(samples: u32) -> Result<Self, ReductionError> {
        Self::new(samples, vec![Statistic::Min, Statistic::Max])
    }

    /// Returns the output's schema, known since the first block.
    ///
    /// Every channel `x` becomes `x.min`, `x.max` and so on, of the same shape and unit. The last channel is `present`:
    /// the number of samples in the window, for the element with the fewest.
    #[must_use]
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.line.as_ref().map(|line| &line.schema)
    }

    /// Takes an event of the stream; a block already seen is ignored.
    ///
    /// # Errors
    /// [`ReductionError`] if the stream cannot be reduced; the block is passed over.
    pub fn handle(&mut self, what: Input<'_>) -> Result<(), ReductionError> {
        match what {
            Input::Block(block) => self.take(block)?,
            Input::Hole(hole) => {
                if let (Some(line), Some(stage)) = (&mut self.line, hole.stage)
                    && line.epoch == hole.epoch
                {
                    let per_sample = u64::from(line.input.elements_per_sample());
                    let indices = hole.positions.start / per_sample..hole.positions.end.div_ceil(per_sample);
                    line.reasons.note(indices, stage);
                }
            }
            Input::Ended => {
                if let Some(mut line) = self.line.take() {
                    self.finish_window(&mut line);
                    self.line = Some(line);
                }
            }
        }
        Ok(())
    }

    /// Returns the next run of the output, `None` until more is known.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn take(&mut self, block: &Block) -> Result<(), ReductionError> {
        let mut line = match self.line.take() {
            None => self.begin(block)?,
            Some(mut line) if block.epoch > line.epoch => {
                if *block.schema != *line.input {
                    self.line = Some(line);
                    return Err(ReductionError::SchemaChanged);
                }
                self.finish_window(&mut line);
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

    fn begin(&self, block: &Block) -> Result<Line, ReductionError> {
        let schema = Arc::new(self.reduced(&block.schema)?);
        let elements = block.schema.elements_per_sample() as usize;
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
            sums: vec![Sum::EMPTY; elements],
        })
    }

    fn reduced(&self, input: &Schema) -> Result<Schema, ReductionError> {
        let (samples, rate) = (self.samples, input.rate);
        // Lowest terms first: 1 kHz divided by 1000 is 1 Hz even where the product exceeds 32 bits.
        let divisor = greatest_common_divisor(rate.numerator(), samples);
        let denominator = rate.denominator().checked_mul(samples / divisor);
        let reduced = denominator.and_then(|below| SampleRate::new(rate.numerator() / divisor, below).ok());
        let named = |channel: &Channel, statistic: &Statistic| Channel {
            name: format!("{}.{}", channel.name, statistic.name()),
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
        channels.push(Channel::new("present", ""));
        let rate = reduced.ok_or(ReductionError::Rate { samples, rate })?;
        let (dtype, labels, unknown) =
            (value_dtype(input.dtype), input.labels.clone(), UnknownEntries::new());
        let schema = Schema { dtype, rate, channels, labels, unknown };
        schema.check()?;
        Ok(schema)
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
            for ((values, present), sum) in columns.iter().zip(&mut line.sums) {
                for run in present {
                    let (start, stop) = (run.start.max(from), run.end.min(to));
                    sum.add(values.get(start..stop).unwrap_or_default());
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
            self.push_hole(self.start_of(block, line.window), empty, line, stage);
        }
        line.window = window;
        line.t0 = self.start_of(block, window);
    }

    /// Puts the window out that is being filled, and begins the next.
    fn finish_window(&mut self, line: &mut Line) {
        let samples = u64::from(self.samples);
        let t0 = line.t0;
        if line.sums.iter().all(|sum| sum.present == 0) {
            let stage = line.reasons.of(&(line.window * samples..(line.window + 1) * samples));
            self.push_hole(t0, 1, line, stage);
        } else {
            self.push_window(t0, line);
        }
        line.window += 1;
        line.sums.fill(Sum::EMPTY);
        line.t0 = line.schema.rate.time_of(1, 0, t0);
    }

    fn push_hole(&mut self, t0: WallTime, samples: u64, line: &Line, stage: Option<Stage>) {
        let inherited = Inherited { stage, ..line.inherited.clone() };
        let first_index = self.next_index;
        self.next_index += samples;
        self.outputs.push_back(Output::Hole { first_index, t0, samples, inherited });
    }

    fn push_window(&mut self, t0: WallTime, line: &Line) {
        let size = line.schema.dtype.size_bytes();
        let mut row = vec![0; line.schema.sample_bytes()];
        let mut places = row.chunks_exact_mut(size);
        let mut write = |value| write_value(value, places.next().expect("a place for every value"));
        for channel in 0..line.input.channels.len() {
            for statistic in &self.statistics {
                for sum in &line.sums[line.input.channel_elements(channel)] {
                    write(sum.value(*statistic));
                }
            }
        }
        let fewest = line.sums.iter().map(|sum| sum.present).min().unwrap_or(0);
        write(fewest as f64);
        match self.outputs.back_mut() {
            Some(Output::Samples { samples, data, .. }) => {
                *samples += 1;
                data.extend_from_bytes(&row);
            }
            _ => {
                let (first_index, data) = (self.next_index, SampleBuffer::from_bytes(&row));
                self.outputs.push_back(Output::Samples { first_index, t0, samples: 1, data });
            }
        }
        self.next_index += 1;
    }

    /// Puts a hole between two epochs of the publisher, at least one window long.
    fn seam(&mut self, line: &Line, t0: WallTime) {
        let windows = t0.nanos_since(line.t0) as f64 * line.schema.rate.as_hz() / 1e9;
        self.push_hole(line.t0.min(t0), windows.round().max(1.0) as u64, line, Some(Stage::Source));
    }
}

impl Sum {
    const EMPTY: Self =
        Self { present: 0, counted: 0, min: f64::INFINITY, max: f64::NEG_INFINITY, total: 0.0, squares: 0.0 };

    fn add(&mut self, values: &[f64]) {
        self.present += values.len() as u64;
        for value in values.iter().copied().filter(|value| !value.is_nan()) {
            self.counted += 1;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            self.total += value;
            self.squares += value * value;
        }
    }

    fn value(&self, statistic: Statistic) -> f64 {
        let counted = self.counted as f64;
        match statistic {
            _ if self.counted == 0 => f64::NAN,
            Statistic::Min => self.min,
            Statistic::Max => self.max,
            Statistic::Mean => self.total / counted,
            Statistic::Rms => (self.squares / counted).sqrt(),
        }
    }
}

const fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
