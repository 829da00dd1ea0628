//! Frequencies of a stream left out: low-pass, high-pass, band-pass and notch filters.
//!
//! Values are computed in `f8`, each element of a sample on its own. No value is filtered across a hole: after one the
//! filter begins anew, as if the first value had always been there, and its first samples until it has settled are
//! part of the hole. `filter/design.rs` says what settled means.

mod design;

use std::sync::Arc;

use ledger::Stage;
use sample::{Block, Dtype, ElementReader, SampleBuffer, Schema};
use units::{RangeSet, WallTime};

use self::design::{Design, State};
use crate::intake::JITTER_PERIODS;
use crate::outputs::Outputs;
use crate::{Channels, Inherited, Input, InputError, Operator, Output, Totals};

pub use design::{FilterError, MAX_ORDER, Response};

/// The most values of one sample that are filtered: each keeps up to 128 bytes of state.
pub const MAX_FILTERED_ELEMENTS: u32 = 1 << 18;

/// Label of the output: the filter, as people read it.
const FILTER_LABEL: &str = "filter";
/// Label of the output: number of samples that are left out after a hole.
const SETTLING_LABEL: &str = "settling_samples";
/// Magnitude below which a state is zero: far below any value, and far above those that are slow to compute with.
const TINY: f64 = 1e-200;

/// Filters every channel of one stream: an [`Operator`] of one input.
///
/// The output has the channels, shapes and units of the input, as `f8`. A sample that is not whole is a hole. A value that
/// is not finite is passed on as NaN and ends what its element remembers: NaN follows until it has settled again, and
/// other elements go on. A jump of the samples' times is a hole without samples.
#[derive(Clone, Debug)]
pub struct Filter {
    response: Response,
    order: u32,
    /// Gives the input's whole samples and holes.
    whole: Channels,
    line: Option<Line>,
    outputs: Outputs,
}

#[derive(Clone, Debug)]
struct Line {
    /// A block without samples, of the input.
    input: Block,
    schema: Arc<Schema>,
    readers: Vec<ElementReader>,
    design: Design,
    memories: Vec<Memory>,
    inherited: Inherited,
    /// Samples that are still left out.
    settling: u64,
    /// Stage of the hole before them.
    stage: Option<Stage>,
    /// Time at which the next sample is due.
    due: WallTime,
}

/// What the filter remembers of one element of the samples.
#[derive(Clone, Debug)]
struct Memory {
    /// Of each section; `None` until the first value.
    states: Option<Vec<State>>,
    /// Values until it has settled.
    settling: u64,
}

impl Filter {
    /// Makes a filter. Whether it fits the stream's rate is known with the first block.
    ///
    /// `order` is that of the low-pass prototype, 2, 4, 6 or 8: far from the edge the response falls by 6 dB per octave and
    /// order. Both edges of a band have it.
    ///
    /// # Errors
    /// [`FilterError`] if there is no such filter at any rate.
    pub fn new(response: Response, order: u32) -> Result<Self, FilterError> {
        if !(2..=MAX_ORDER).contains(&order) || !order.is_multiple_of(2) {
            return Err(FilterError::Order(order));
        }
        response.check()?;
        Ok(Self { response, order, whole: Channels::all(), line: None, outputs: Outputs::default() })
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        let (stream, input) = (&block.stream, &block.schema);
        let elements = input.elements_per_sample();
        if elements > MAX_FILTERED_ELEMENTS {
            return Err(InputError::Wide { stream: (**stream).clone(), elements });
        }
        if input.has_own_times() {
            return Err(InputError::OwnTimes { stream: (**stream).clone() });
        }
        let design = self.response.design(self.order, input.rate)?;
        let settling = design.settling;
        let readers: Vec<_> = (0..elements as usize).filter_map(|it| ElementReader::new(input, it)).collect();
        Ok(Line {
            input: Block {
                samples: 0,
                data: SampleBuffer::zeroed(0),
                missing: RangeSet::new(),
                ..block.clone()
            },
            schema: Arc::new(self.filtered(input, &design)),
            memories: vec![Memory { states: None, settling: 0 }; readers.len()],
            readers,
            design,
            inherited: Inherited { stream: stream.clone(), stage: None },
            settling,
            stage: Some(Stage::Source),
            due: block.t0,
        })
    }

    fn filtered(&self, input: &Schema, design: &Design) -> Schema {
        let mut schema = Schema { dtype: Dtype::F8, ..input.clone() };
        for channel in &mut schema.channels {
            (channel.scale, channel.offset) = (1.0, 0.0);
        }
        let filter = format!("{}, order {}", self.response, self.order);
        schema.labels.insert(FILTER_LABEL.to_owned(), filter);
        schema.labels.insert(SETTLING_LABEL.to_owned(), design.settling.to_string());
        schema
    }
}

impl Operator for Filter {
    fn handle(&mut self, input: usize, what: Input<'_>) -> Result<(), InputError> {
        if let (None, Input::Block(block)) = (&self.line, what) {
            self.line = Some(self.begin(block)?);
        }
        self.whole.handle(input, what)?;
        let Some(line) = &mut self.line else { return Ok(()) };
        while let Some(output) = self.whole.poll() {
            match output {
                Output::Samples { t0, samples, data, .. } => {
                    line.filter(t0, samples, data, &mut self.outputs);
                }
                Output::Hole { t0, samples, inherited, .. } => {
                    self.outputs.push_hole(t0, samples, &inherited, inherited.stage);
                    line.restart(inherited.stage);
                    line.due = line.input.schema.rate.time_of(samples, 0, t0);
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

impl Line {
    /// Forgets the past, of which samples are missing at `stage`.
    fn restart(&mut self, stage: Option<Stage>) {
        self.memories.iter_mut().for_each(|memory| memory.states = None);
        (self.settling, self.stage) = (self.design.settling, stage);
    }

    /// Filters a run of whole samples.
    fn filter(&mut self, t0: WallTime, samples: u64, data: SampleBuffer, outputs: &mut Outputs) {
        let rate = self.input.schema.rate;
        if t0.nanos_since(self.due).unsigned_abs() as f64 > JITTER_PERIODS * 1e9 / rate.as_hz() {
            self.restart(Some(Stage::Source));
        }
        let left_out = self.settling.min(samples);
        outputs.push_hole(t0, left_out, &self.inherited, self.stage);
        self.settling -= left_out;
        self.due = rate.time_of(samples, 0, t0);

        let block = Block { samples, data, t0, ..self.input.clone() };
        let row = self.schema.sample_bytes();
        let mut filtered = SampleBuffer::zeroed((samples - left_out) as usize * row);
        let mut values = Vec::with_capacity(samples as usize);
        for (element, (reader, memory)) in self.readers.iter().zip(&mut self.memories).enumerate() {
            values.clear();
            reader.read(&block, &mut values);
            memory.filter(&self.design, &mut values);
            let rows = filtered.as_bytes_mut().chunks_exact_mut(row);
            for (row, value) in rows.zip(&values[left_out as usize..]) {
                row[element * 8..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
        if left_out < samples {
            outputs.push_samples(rate.time_of(left_out, 0, t0), samples - left_out, filtered);
        }
    }
}

impl Memory {
    /// Filters the next values in place; those that are not settled become NaN.
    fn filter(&mut self, design: &Design, values: &mut [f64]) {
        for run in values.chunk_by_mut(|a, b| a.is_finite() == b.is_finite()) {
            if run[0].is_finite() {
                self.filter_finite(design, run);
            } else {
                run.fill(f64::NAN);
                self.states = None;
            }
        }
    }

    fn filter_finite(&mut self, design: &Design, run: &mut [f64]) {
        let first = run[0];
        let settling = &mut self.settling;
        let states = self.states.get_or_insert_with(|| {
            *settling = design.settling;
            let mut value = first;
            let steady = design.sections.iter().map(|section| {
                let (state, output) = section.steady(value);
                value = output;
                state
            });
            steady.collect()
        });
        for (section, state) in design.sections.iter().zip(states.iter_mut()) {
            section.run(state, run);
            for it in state.iter_mut().filter(|it| it.abs() < TINY) {
                *it = 0.0;
            }
        }
        // Values too large to be filtered have left no state that others could follow.
        if states.iter().flatten().any(|it| !it.is_finite()) {
            self.states = None;
        }
        let unsettled = self.settling.min(run.len() as u64);
        run[..unsettled as usize].fill(f64::NAN);
        self.settling -= unsettled;
    }
}

#[cfg(test)]
mod tests;
