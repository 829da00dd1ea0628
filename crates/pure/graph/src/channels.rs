//! The channels of one stream passed on as they are: some of them, in another order, or described in other units.
//!
//! No value is computed: a calibration is a scale and an offset in the schema of the output, which every reader applies
//! together with the stream's own, so that no digit is lost and integers stay as narrow as they are.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::Stage;
use sample::{Block, Channel, SampleBuffer, Schema, StreamName};
use serde::{Deserialize, Serialize};
use units::{Epoch, WallTime};

use crate::outputs::Outputs;
use crate::reasons::Reasons;
use crate::{Inherited, Input, InputError, Operator, Output, Totals};

/// What a channel's values become: value × `scale` + `offset`, in `unit`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Factor, not zero; by default 1.
    #[serde(default = "one")]
    pub scale: f64,
    /// Offset in `unit`; by default 0.
    #[serde(default)]
    pub offset: f64,
    /// The unit of the result.
    pub unit: String,
}

/// Passes on one stream sample by sample: an [`Operator`] of one input.
///
/// A sample of which a passed channel is not whole is a hole.
#[derive(Clone, Debug)]
pub struct Channels {
    change: Change,
    line: Option<Line>,
    outputs: Outputs,
}

#[derive(Clone, PartialEq, Debug)]
enum Change {
    Select(Vec<String>),
    Calibrate(BTreeMap<String, Calibration>),
}

#[derive(Clone, Debug)]
struct Line {
    input: Arc<Schema>,
    schema: Arc<Schema>,
    /// Elements of a sample that are passed on, in the order of the output.
    elements: Vec<Range<usize>>,
    epoch: Epoch,
    inherited: Inherited,
    reasons: Reasons,
    next_index: u64,
    /// Time at which the next sample is due.
    due: WallTime,
}

impl Channels {
    /// Makes the operator that passes on channels of these names, in this order.
    #[must_use]
    pub fn select(names: Vec<String>) -> Self {
        Self::new(Change::Select(names))
    }

    /// Makes the operator that describes channels of these names in other units; other channels stay as they are.
    #[must_use]
    pub fn calibrate(calibrations: BTreeMap<String, Calibration>) -> Self {
        Self::new(Change::Calibrate(calibrations))
    }

    /// Makes the operator that passes on all channels as they are.
    pub(crate) fn all() -> Self {
        Self::calibrate(BTreeMap::new())
    }

    fn new(change: Change) -> Self {
        Self { change, line: None, outputs: Outputs::default() }
    }

    fn take(&mut self, block: &Block) -> Result<(), InputError> {
        let mut line = match self.line.take() {
            None => self.begin(block)?,
            Some(line) if block.epoch > line.epoch => {
                if *block.schema != *line.input {
                    let error = InputError::changed(&block.stream, &line.input, &block.schema);
                    self.line = Some(line);
                    return Err(error);
                }
                // One missing sample marks the boundary, however fast the publisher restarted.
                let samples = block.t0.nanos_since(line.due) as f64 * line.input.rate.as_hz() / 1e9;
                let (t0, samples) = (line.due.min(block.t0), samples.round().max(1.0) as u64);
                self.outputs.push_hole(t0, samples, &line.inherited, Some(Stage::Source));
                self.begin(block)?
            }
            Some(line) => line,
        };
        if block.epoch == line.epoch {
            self.pass(&mut line, block);
        }
        self.line = Some(line);
        Ok(())
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        let (schema, elements) = match &self.change {
            Change::Select(names) => selected(&block.stream, &block.schema, names)?,
            Change::Calibrate(calibrations) => {
                let all = 0..block.schema.elements_per_sample() as usize;
                (calibrated(&block.stream, &block.schema, calibrations)?, vec![all])
            }
        };
        Ok(Line {
            input: block.schema.clone(),
            schema: Arc::new(schema),
            elements,
            epoch: block.epoch,
            inherited: Inherited { stream: block.stream.clone(), stage: None },
            reasons: Reasons::default(),
            next_index: block.first_index,
            due: block.t0,
        })
    }

    /// Passes on the samples of a block that are new, and the holes before and between them.
    fn pass(&mut self, line: &mut Line, block: &Block) {
        let new = line.next_index.max(block.first_index)..block.next_index();
        if new.is_empty() {
            return;
        }
        for run in line.whole(block, new) {
            self.leave_out(line, run.start, block);
            let samples = run.end - run.start;
            self.outputs.push_samples(block.time_of(run.start), samples, line.copy(block, &run));
            (line.next_index, line.due) = (run.end, block.time_of(run.end));
        }
        self.leave_out(line, block.next_index(), block);
    }

    /// Leaves out the samples before `index`.
    fn leave_out(&mut self, line: &mut Line, index: u64, block: &Block) {
        let indices = line.next_index..index;
        if !indices.is_empty() {
            let stage = line.reasons.of(&indices);
            let t0 = line.due.min(block.time_of(index));
            self.outputs.push_hole(t0, indices.end - indices.start, &line.inherited, stage);
            (line.next_index, line.due) = (index, block.time_of(index));
        }
    }
}

impl Operator for Channels {
    fn handle(&mut self, _input: usize, what: Input<'_>) -> Result<(), InputError> {
        match what {
            Input::Block(block) => self.take(block)?,
            Input::Hole(hole) => {
                if let Some(line) = self.line.as_mut().filter(|line| line.epoch == hole.epoch) {
                    line.reasons.note_hole(hole, &line.input);
                }
            }
            Input::Horizon(_) | Input::Ended => {}
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
    /// Returns the runs of samples within `new` of which every passed element arrived.
    fn whole(&self, block: &Block, new: Range<u64>) -> Vec<Range<u64>> {
        let per_sample = u64::from(self.input.elements_per_sample());
        let mut runs = Vec::new();
        let mut start = new.start;
        for missing in block.missing.iter() {
            let first = block.first_index + missing.start / per_sample;
            let last = block.first_index + (missing.end - 1) / per_sample;
            for sample in first..=last {
                // Elements of this sample that are missing.
                let place = (sample - block.first_index) * per_sample;
                let from = missing.start.max(place) - place;
                let to = missing.end.min(place + per_sample) - place;
                let is_passed = |it: &Range<usize>| (it.start as u64) < to && from < it.end as u64;
                if sample >= start && self.elements.iter().any(is_passed) {
                    runs.push(start..sample);
                    start = sample + 1;
                }
            }
        }
        runs.push(start..new.end);
        runs.retain(|run| !run.is_empty());
        runs
    }

    /// Copies the passed elements of a run of samples.
    fn copy(&self, block: &Block, run: &Range<u64>) -> SampleBuffer {
        let (bytes, size) = (self.input.sample_bytes(), self.input.dtype.size_bytes());
        let place = |index: u64| (index - block.first_index) as usize * bytes;
        let samples = &block.data.as_bytes()[place(run.start)..place(run.end)];
        if let [whole] = &self.elements[..]
            && (whole.start * size, whole.end * size) == (0, bytes)
        {
            return SampleBuffer::from_bytes(samples);
        }
        let mut passed = SampleBuffer::zeroed((run.end - run.start) as usize * self.schema.sample_bytes());
        let mut to = passed.as_bytes_mut();
        for sample in samples.chunks_exact(bytes) {
            for elements in &self.elements {
                let from = &sample[elements.start * size..elements.end * size];
                let (here, rest) = to.split_at_mut(from.len());
                here.copy_from_slice(from);
                to = rest;
            }
        }
        passed
    }
}

/// Returns the schema with channels of these names in this order, and the ranges of their elements in a sample.
fn selected(
    stream: &StreamName,
    schema: &Schema,
    names: &[String],
) -> Result<(Schema, Vec<Range<usize>>), InputError> {
    let places: Vec<_> =
        names.iter().map(|name| channel(stream, schema, name)).collect::<Result<_, InputError>>()?;
    let channels = places.iter().map(|place| schema.channels[*place].clone()).collect();
    let selected = Schema { channels, ..schema.clone() };
    selected.check().map_err(|error| InputError::Schema { stream: stream.clone(), error })?;
    Ok((selected, places.into_iter().map(|place| schema.channel_elements(place)).collect()))
}

/// Returns the schema in which these channels have other units. The samples are the same.
///
/// # Errors
/// [`InputError::UnknownChannel`], or [`InputError::Schema`] if a scale is zero or a number is not finite.
pub fn calibrated(
    stream: &StreamName,
    schema: &Schema,
    calibrations: &BTreeMap<String, Calibration>,
) -> Result<Schema, InputError> {
    let mut calibrated = schema.clone();
    for (name, Calibration { scale, offset, unit }) in calibrations {
        let place = channel(stream, schema, name)?;
        let Channel { scale: own_scale, offset: own_offset, .. } = schema.channels[place];
        let channel = &mut calibrated.channels[place];
        channel.scale = own_scale * scale;
        channel.offset = own_offset.mul_add(*scale, *offset);
        channel.unit.clone_from(unit);
    }
    calibrated.check().map_err(|error| InputError::Schema { stream: stream.clone(), error })?;
    Ok(calibrated)
}

/// Returns the place of a channel.
fn channel(stream: &StreamName, schema: &Schema, name: &str) -> Result<usize, InputError> {
    schema.channel_index(name).ok_or_else(|| InputError::unknown_channel(stream, name, schema))
}

const fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests;
