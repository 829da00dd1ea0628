//! Crossings of a level found in a stream: a stream of events, each with the stretch of samples around it.
//!
//! `trigger/crossing.rs` decides what a crossing is. Nothing is found across a hole, and a stretch that a hole touches is a hole
//! of the output.

mod crossing;

use std::collections::VecDeque;
use std::sync::Arc;

use ledger::Stage;
use sample::{Block, Channel, ElementReader, Schema, StreamName};
use serde::{Deserialize, Serialize};
use units::{Epoch, SampleRate, WallTime};

use self::crossing::{Comparator, Crossing};
use crate::events::{Events, LEAST_DISTANCE, epoch_parts, event_row, event_schema};
use crate::intake::JITTER_PERIODS;
use crate::numbered::{Numbered, Piece, Place};
use crate::plan::{ChannelName, Every};
use crate::{Input, InputError, Operator, Output, Totals};

pub use crossing::Edge;

/// The largest stretch: 2 million values.
pub const MAX_STRETCH_BYTES: u64 = 1 << 24;

/// What is told of each event beside the stretch, with the unit; the channels' names begin with `trigger.`.
const TOLD: [(&str, &str); 8] = [
    ("number", ""),
    ("index", ""),
    ("offset", ""),
    ("value", ""),
    ("edge", ""),
    ("skipped", ""),
    ("epoch_s", "s"),
    ("epoch_ns", "ns"),
];

/// Settings of a trigger.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerConfig {
    /// The channel, of one value per sample.
    pub input: ChannelName,
    /// Channels of the same stream of which stretches are published; by default the channel itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// The level, in the channel's unit.
    pub level: f64,
    /// Direction of the crossings; rising by default.
    #[serde(default)]
    pub edge: Edge,
    /// How far a value must be from the level, on the side that it comes from, before it can cross it; zero by default.
    #[serde(default)]
    pub hysteresis: f64,
    /// Length of the stretch before the crossing; none by default.
    #[serde(default = "nothing")]
    pub before: Every,
    /// Length of the stretch from the first sample behind the crossing, that sample included.
    pub after: Every,
    /// Time after a crossing within which others are only counted: at least, and by default, a stretch and 1 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holdoff: Option<Every>,
}

/// Reason why a trigger cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TriggerError {
    /// A level that is not finite.
    #[error("`level` is a finite number, not {0}")]
    Level(f64),
    /// A hysteresis that is negative or not finite.
    #[error("`hysteresis` is a finite number, 0 or more, not {0}")]
    Hysteresis(f64),
    /// A stretch without the sample behind the crossing.
    #[error("`after` is at least one sample: it begins with the first sample behind the crossing")]
    After,
    /// A stretch that is too long.
    #[error(
        "a stretch of {samples} samples has {bytes} bytes, and at most {MAX_STRETCH_BYTES} are kept; shorten `before` and \
         `after`, or name fewer `channels`"
    )]
    Stretch {
        /// Samples of a stretch.
        samples: u64,
        /// Their size.
        bytes: u64,
    },
}

/// Finds crossings in one channel of one stream: an [`Operator`] of one input.
///
/// Its samples are crossings, at the time that a straight line between the samples on either side gives. Channels, all `f8`,
/// whole numbers exact below 2^53:
///
/// - each captured channel, of shape `[before + after, …]`: the samples from `trigger.index - before`, one period apart
/// - `trigger.number`: of the event, from 0, those in holes counted
/// - `trigger.index`: of the first sample behind the crossing in the input; `trigger.value`: the value of that sample
/// - `trigger.offset`: from that sample to the crossing. Units: samples, above -1 and at most 0
/// - `trigger.edge`: 1 rising, -1 falling
/// - `trigger.skipped`: crossings before this that were within the holdoff of another, since the node began
/// - `trigger.epoch_s`, `trigger.epoch_ns`: start of the input's epoch that the index is of
///
/// Stretches do not overlap, so that the output is at most as fast as the captured channels.
///
/// An event is offered for each crossing that is not skipped. A stretch that is not whole, because a hole, a jump of the
/// samples' times, or the beginning or end of the input is within it, is a hole of one sample.
#[derive(Clone, Debug)]
pub struct Trigger {
    config: TriggerConfig,
    samples: Numbered,
    line: Option<Line>,
    events: Events,
}

#[derive(Clone, Debug)]
struct Line {
    stream: Arc<StreamName>,
    schema: Arc<Schema>,
    comparator: Comparator,
    /// Of the channel that triggers, and of every captured element.
    trigger: ElementReader,
    readers: Vec<ElementReader>,
    /// Number of elements of each captured channel.
    widths: Vec<usize>,
    before: u64,
    after: u64,
    holdoff: u64,
    /// Captured values of the newest samples in succession, sample by sample, and the index of the first sample.
    kept: VecDeque<f64>,
    kept_from: u64,
    /// Stage of what is missing before them.
    stage: Option<Stage>,
    /// The event whose stretch is being filled.
    pending: Option<Event>,
    epoch: Epoch,
    /// First sample of this epoch behind the holdoff.
    free_from: u64,
    /// Number of the next event.
    number: u64,
    skipped: u64,
    /// Time at which the next sample is due; `None` after a hole.
    due: Option<WallTime>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    place: Place,
    time: WallTime,
    value: f64,
    crossing: Crossing,
    number: u64,
    skipped: u64,
}

impl TriggerConfig {
    fn check(&self) -> Result<(), TriggerError> {
        if !self.level.is_finite() {
            return Err(TriggerError::Level(self.level));
        }
        if !(self.hysteresis >= 0.0 && self.hysteresis.is_finite()) {
            return Err(TriggerError::Hysteresis(self.hysteresis));
        }
        if matches!(self.after, Every::Samples(0))
            || matches!(self.after, Every::Time(time) if time.is_zero())
        {
            return Err(TriggerError::After);
        }
        // What is known without a rate.
        let samples = |every| if let Every::Samples(samples) = every { u64::from(samples) } else { 0 };
        check_size(samples(self.before) + samples(self.after), self.channels.len().max(1))
    }

    /// Returns the names of the captured channels.
    fn captured(&self) -> Vec<String> {
        if self.channels.is_empty() { vec![self.input.channel.clone()] } else { self.channels.clone() }
    }

    /// Returns the names of the channels that are read: those that are captured, and the one that triggers.
    fn read(&self) -> Vec<String> {
        let mut names = self.captured();
        if !names.contains(&self.input.channel) {
            names.push(self.input.channel.clone());
        }
        names
    }
}

impl Trigger {
    /// Makes a trigger. Whether the stream has its channels, and how long a stretch is, is known with the first block.
    ///
    /// # Errors
    /// [`TriggerError`] if there is no such trigger for any stream.
    pub fn new(config: TriggerConfig) -> Result<Self, TriggerError> {
        config.check()?;
        let samples = Numbered::new(config.read());
        Ok(Self { config, samples, line: None, events: Events::default() })
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        let (stream, input) = (&block.stream, &block.schema);
        if input.has_own_times() {
            return Err(InputError::OwnTimes { stream: (**stream).clone() });
        }
        let channel = |name: &String| {
            let place = input.channel_index(name);
            place
                .map(|place| input.channels[place].clone())
                .ok_or_else(|| InputError::unknown_channel(stream, name, input))
        };
        let channels = self.config.read().iter().map(channel).collect::<Result<Vec<_>, _>>()?;
        let selected = Schema { channels, ..(**input).clone() };
        let name = &self.config.input.channel;
        let trigger = selected.channel_index(name);
        let trigger = selected.channel_elements(trigger.expect("it is read"));
        if trigger.len() != 1 {
            let (stream, channel) = ((**stream).clone(), name.clone());
            return Err(InputError::ManyElements { stream, channel, elements: trigger.len() });
        }
        let captured = &selected.channels[..self.config.captured().len()];
        let widths: Vec<_> = (0..captured.len()).map(|it| selected.channel_elements(it).len()).collect();
        let width = widths.iter().sum();
        let rate = input.rate;
        let [before, after] = [self.config.before, self.config.after].map(|it| it.samples_at_least(rate));
        check_size(before.saturating_add(after), width)?;
        let least = LEAST_DISTANCE.samples_at_least(rate).max(before + after);
        let holdoff = self.config.holdoff.map_or(0, |it| it.samples_at_least(rate)).max(least);
        let unit = input.channels.iter().find(|channel| channel.name == *name).map_or("", |it| &it.unit);
        let schema = self.schema_of(captured, unit, [before, after, holdoff], rate);
        schema.check().map_err(|error| InputError::Schema { stream: (**stream).clone(), error })?;
        let reader = |element| ElementReader::new(&selected, element).expect("an element of these channels");
        Ok(Line {
            stream: stream.clone(),
            schema: Arc::new(schema),
            comparator: Comparator::new(self.config.level, self.config.hysteresis, self.config.edge),
            trigger: reader(trigger.start),
            readers: (0..width).map(reader).collect(),
            widths,
            before,
            after,
            holdoff,
            kept: VecDeque::new(),
            kept_from: block.first_index,
            stage: Some(Stage::Source),
            pending: None,
            epoch: block.epoch,
            free_from: 0,
            number: 0,
            skipped: 0,
            due: None,
        })
    }

    /// Returns the schema of the events with stretches of `captured`.
    fn schema_of(&self, captured: &[Channel], unit: &str, samples: [u64; 3], rate: SampleRate) -> Schema {
        let [before, after, holdoff] = samples;
        let length = u32::try_from(before + after).expect("a stretch was checked");
        let stretch = |channel: &Channel| {
            let shape = core::iter::once(length).chain(channel.shape.iter().copied());
            Channel::new(channel.name.clone(), channel.unit.clone()).with_shape(shape.collect::<Vec<_>>())
        };
        let told = TOLD.map(|(name, of)| {
            Channel::new(format!("trigger.{name}"), if name == "value" { unit } else { of })
        });
        let labels = [
            ("input.0", self.config.input.to_string()),
            ("level", self.config.level.to_string()),
            ("edge", self.config.edge.to_string()),
            ("hysteresis", self.config.hysteresis.to_string()),
            ("before", before.to_string()),
            ("after", after.to_string()),
            ("holdoff", holdoff.to_string()),
            ("stretch_rate", rate.to_string()),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value));
        event_schema(captured.iter().map(stretch).chain(told).collect(), labels)
    }
}

impl Operator for Trigger {
    fn handle(&mut self, _input: usize, what: Input<'_>) -> Result<(), InputError> {
        if let (None, Input::Block(block)) = (&self.line, what) {
            self.line = Some(self.begin(block)?);
        }
        self.samples.handle(what)?;
        let Some(line) = &mut self.line else { return Ok(()) };
        while let Some(piece) = self.samples.poll() {
            match piece {
                Piece::Samples(block) => line.take(&block, &mut self.events),
                Piece::Missing(missing) => line.restart(missing.stage, &mut self.events),
            }
        }
        if let Input::Ended = what {
            line.restart(Some(Stage::Source), &mut self.events);
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<Output> {
        self.events.pop()
    }

    fn schema(&self) -> Option<Arc<Schema>> {
        self.line.as_ref().map(|line| line.schema.clone())
    }

    fn totals(&self) -> Totals {
        self.events.totals()
    }
}

impl Line {
    /// Forgets the past, behind which samples are missing at `stage`.
    fn restart(&mut self, stage: Option<Stage>, events: &mut Events) {
        if let Some(event) = self.pending.take() {
            events.push_hole(event.time, &self.stream, stage);
        }
        self.kept.clear();
        self.comparator.reset();
        (self.stage, self.due) = (stage, None);
    }

    /// Takes whole samples.
    fn take(&mut self, block: &Block, events: &mut Events) {
        let rate = block.schema.rate;
        let jitter_ns = JITTER_PERIODS * 1e9 / rate.as_hz();
        if self.due.is_some_and(|due| block.t0.nanos_since(due).unsigned_abs() as f64 > jitter_ns) {
            self.restart(Some(Stage::Source), events);
        }
        if block.epoch != self.epoch {
            (self.epoch, self.free_from) = (block.epoch, 0);
        }
        self.due = Some(block.time_of(block.next_index()));
        self.keep(block);
        let mut values = Vec::new();
        self.trigger.read(block, &mut values);
        for (index, value) in (block.first_index..).zip(values) {
            self.finish(index, events);
            let Some(crossing) = self.comparator.take(value) else { continue };
            if index < self.free_from {
                self.skipped += 1;
                continue;
            }
            let period_ns = 1e9 / rate.as_hz();
            let time = block.time_of(index).offset((crossing.offset * period_ns).round() as i64);
            let place = Place { epoch: block.epoch, index };
            let (number, skipped) = (self.number, self.skipped);
            self.number += 1;
            self.free_from = index.saturating_add(self.holdoff);
            if index - self.kept_from < self.before {
                events.push_hole(time, &self.stream, self.stage);
            } else {
                self.pending = Some(Event { place, time, value, crossing, number, skipped });
            }
        }
        self.finish(block.next_index(), events);
        self.forget(block.next_index());
    }

    /// Keeps the captured values of a block.
    fn keep(&mut self, block: &Block) {
        if self.kept.is_empty() {
            self.kept_from = block.first_index;
        }
        let (width, samples) = (self.readers.len(), block.samples as usize);
        let mut rows = vec![0.0; width * samples];
        let mut values = Vec::with_capacity(samples);
        for (element, reader) in self.readers.iter().enumerate() {
            values.clear();
            reader.read(block, &mut values);
            for (place, value) in rows[element..].iter_mut().step_by(width).zip(&values) {
                *place = *value;
            }
        }
        self.kept.extend(rows);
    }

    /// Tells the pending event if its stretch ends before `index`.
    fn finish(&mut self, index: u64, events: &mut Events) {
        let Some(event) = self.pending.take_if(|event| event.place.index + self.after <= index) else {
            return;
        };
        let [epoch_s, epoch_ns] = epoch_parts(event.place.epoch);
        let told = [
            event.number as f64,
            event.place.index as f64,
            event.crossing.offset,
            event.value,
            if event.crossing.rising { 1.0 } else { -1.0 },
            event.skipped as f64,
            epoch_s,
            epoch_ns,
        ];
        let width = self.readers.len();
        let from = (event.place.index - self.before - self.kept_from) as usize * width;
        let stretch = from..from + (self.before + self.after) as usize * width;
        let mut row = Vec::with_capacity(stretch.len() + told.len());
        let mut place = 0;
        for elements in &self.widths {
            let mut rows = self.kept.range(stretch.clone()).skip(place);
            // The elements of this channel, sample by sample.
            while let Some(first) = rows.next() {
                row.push(*first);
                row.extend(rows.by_ref().take(elements - 1));
                if width > *elements {
                    let _ = rows.nth(width - elements - 1);
                }
            }
            place += elements;
        }
        events.push(event.time, event_row(row.into_iter().chain(told)));
    }

    /// Forgets what no stretch can need once the samples before `index` are known.
    fn forget(&mut self, index: u64) {
        let needed = self.pending.map_or(index, |event| event.place.index).saturating_sub(self.before);
        let surplus = needed.saturating_sub(self.kept_from);
        self.kept.drain(..surplus as usize * self.readers.len());
        self.kept_from += surplus;
    }
}

/// Checks that a stretch of so many samples and values per sample can be kept.
fn check_size(samples: u64, width: usize) -> Result<(), TriggerError> {
    let bytes = samples.saturating_mul(width as u64).saturating_mul(8);
    if bytes > MAX_STRETCH_BYTES { Err(TriggerError::Stretch { samples, bytes }) } else { Ok(()) }
}

const fn nothing() -> Every {
    Every::Samples(0)
}

#[cfg(test)]
mod tests;
