//! Limits of values watched: a stream of events, one for each change of state.
//!
//! A value that is missing has no state: `unknown` is told at once, and what was before is forgotten. `alarm/limits.rs` decides
//! when a limit counts as reached.

mod limits;

use core::time::Duration;
use std::sync::Arc;

use sample::{Block, Channel, ElementReader, SampleBuffer, Schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::WallTime;

use self::limits::{Change, Hold, Limit, Moment, Watch};
use crate::events::{Events, LEAST_DISTANCE, epoch_parts, event_row, event_schema};
use crate::numbered::{Numbered, Piece, Place};
use crate::plan::{ChannelName, Every};
use crate::{Horizon, Input, InputError, Operator, Output, Totals};

/// Time without samples after which an input at a steady rate is silent.
const SILENCE: Duration = Duration::from_secs(2);
/// Time after the last event at which every state is told again, for readers that have joined since.
const REPEAT_NS: i64 = 10_000_000_000;
/// State of a value that is missing. States have the numbers of EPICS severities: 0 ok, 1 warning, 2 alarm, 3 unknown.
const UNKNOWN: f64 = 3.0;

/// Settings of an alarm: limits in the channels' unit, of which any may be left out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlarmConfig {
    /// Channels of one stream, of one value per sample, with the same limits.
    #[serde(deserialize_with = "one_or_many", serialize_with = "as_one_or_many")]
    pub input: Vec<ChannelName>,
    /// Values at or below are an alarm: LOLO in EPICS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_alarm: Option<f64>,
    /// Values at or below are a warning: LOW in EPICS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_warning: Option<f64>,
    /// Values at or above are a warning: HIGH in EPICS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_warning: Option<f64>,
    /// Values at or above are an alarm: HIHI in EPICS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_alarm: Option<f64>,
    /// How far a value must return from a limit until that is no longer reached: HYST in EPICS. Zero by default.
    #[serde(default)]
    pub hysteresis: f64,
    /// How long a limit must be reached, or not, until that is told: at least, and by default, a sample and 1 ms.
    #[serde(default = "one_sample")]
    pub hold: Every,
    /// Time without samples after which the state is unknown; 2 s by default, endless for samples with times of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Every>,
}

/// Reason why an alarm cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlarmError {
    /// An alarm without limits.
    #[error("an alarm has a limit or several: low_alarm, low_warning, high_warning, high_alarm")]
    NoLimit,
    /// An alarm without channels, of two streams, or of the same channel twice.
    #[error("an alarm watches one channel or several of one stream, each once; make a node for each stream")]
    Inputs,
    /// A limit that is not finite.
    #[error("`{limit}` is a finite number, not {value}")]
    NotFinite {
        /// Name of the limit.
        limit: &'static str,
        /// Its value.
        value: f64,
    },
    /// Limits in the wrong order.
    #[error(
        "limits ascend in the order low_alarm, low_warning, high_warning, high_alarm: `{below}` is not below `{above}`"
    )]
    Order {
        /// Limit that comes first.
        below: &'static str,
        /// Next limit.
        above: &'static str,
    },
    /// A hysteresis that is negative, or not smaller than the distance of two limits.
    #[error(
        "a hysteresis is 0 or more, and less than the smallest distance of two limits: {hysteresis} does not fit"
    )]
    Hysteresis {
        /// The hysteresis.
        hysteresis: f64,
    },
    /// A silence of no time.
    #[error("the silence is at least one sample or a time above zero; leave it out for 2 s")]
    Silence,
}

/// Watches channels of one stream: an [`Operator`] of one input.
///
/// Its samples are changes of state, with the time of the sample by which they were decided; and every state again, with
/// `previous` equal to `state`, while samples come and none changes for 10 s. Channels, all `f8`, whole numbers
/// exact below 2^53:
///
/// - `channel`: number of the channel, in the order of the inputs, from 0
/// - `state`, `previous`: 0 ok, 1 warning, 2 alarm, 3 unknown; `side`: -1 if the value is low, 1 if it is high, else 0
/// - `value`: of that sample, NaN if it is missing
/// - `index`: of that sample in the input; `since`: of the first sample of the new state, before the hold
/// - `epoch_s`, `epoch_ns`: start of the input's epoch that these are of
#[derive(Clone, Debug)]
pub struct Alarm {
    config: AlarmConfig,
    limits: Vec<Limit>,
    samples: Numbered,
    line: Option<Line>,
    events: Events,
    /// Time of the last event.
    told: Option<WallTime>,
}

#[derive(Clone, Debug)]
struct Line {
    schema: Arc<Schema>,
    watched: Vec<(ElementReader, Watch)>,
    hold: Hold,
    silence: Option<Duration>,
    /// Time at which the next sample is due.
    due: WallTime,
}

impl AlarmConfig {
    /// Returns each limit with its name and level, in ascending order.
    fn limits(&self) -> Vec<(&'static str, i8, f64)> {
        let all = [
            ("low_alarm", -2, self.low_alarm),
            ("low_warning", -1, self.low_warning),
            ("high_warning", 1, self.high_warning),
            ("high_alarm", 2, self.high_alarm),
        ];
        all.into_iter().filter_map(|(name, level, at)| Some((name, level, at?))).collect()
    }

    fn check(&self) -> Result<(), AlarmError> {
        let Some(first) = self.input.first() else { return Err(AlarmError::Inputs) };
        let is_twice = |place: usize| self.input[..place].contains(&self.input[place]);
        if (0..self.input.len()).any(|place| is_twice(place) || self.input[place].stream != first.stream) {
            return Err(AlarmError::Inputs);
        }
        let limits = self.limits();
        if limits.is_empty() {
            return Err(AlarmError::NoLimit);
        }
        if let Some((limit, _, value)) = limits.iter().copied().find(|(_, _, at)| !at.is_finite()) {
            return Err(AlarmError::NotFinite { limit, value });
        }
        let mut neighbours = limits.iter().zip(limits.iter().skip(1));
        if let Some((below, above)) = neighbours.clone().find(|(below, above)| below.2 >= above.2) {
            return Err(AlarmError::Order { below: below.0, above: above.0 });
        }
        let hysteresis = self.hysteresis;
        let is_number = hysteresis >= 0.0 && hysteresis.is_finite();
        if !is_number || neighbours.any(|(below, above)| hysteresis >= above.2 - below.2) {
            return Err(AlarmError::Hysteresis { hysteresis });
        }
        match self.silence {
            Some(Every::Samples(0) | Every::Time(Duration::ZERO)) => Err(AlarmError::Silence),
            _ => Ok(()),
        }
    }

    fn labels(&self) -> Vec<(String, String)> {
        let mut labels: Vec<_> =
            self.limits().into_iter().map(|(name, _, at)| (name.to_owned(), at.to_string())).collect();
        labels.push(("hysteresis".to_owned(), self.hysteresis.to_string()));
        labels.push(("hold".to_owned(), self.hold.to_string()));
        let inputs = self.input.iter().enumerate();
        labels.extend(inputs.map(|(number, input)| (format!("input.{number}"), input.to_string())));
        labels
    }
}

impl Alarm {
    /// Makes an alarm. Whether the stream has its channels is known with the first block.
    ///
    /// # Errors
    /// [`AlarmError`] if the settings do not fit each other.
    pub fn new(config: AlarmConfig) -> Result<Self, AlarmError> {
        config.check()?;
        let hysteresis = config.hysteresis;
        let limits = config.limits().into_iter().map(|(_, level, at)| Limit { level, at, hysteresis });
        let limits = limits.collect();
        let samples = Numbered::new(config.input.iter().map(|input| input.channel.clone()).collect());
        Ok(Self { config, limits, samples, line: None, events: Events::default(), told: None })
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        let (stream, input) = (&*block.stream, &block.schema);
        let mut watched = Vec::new();
        for ChannelName { channel, .. } in &self.config.input {
            let place = input.channel_index(channel);
            let place = place.ok_or_else(|| InputError::unknown_channel(stream, channel, input))?;
            let elements = input.channel_elements(place).len();
            if elements != 1 {
                let (stream, channel) = (stream.clone(), channel.clone());
                return Err(InputError::ManyElements { stream, channel, elements });
            }
            watched.push(input.channels[place].clone());
        }
        let unit = &watched[0].unit;
        let unit = if watched.iter().all(|channel| channel.unit == *unit) { unit } else { "" };
        let schema = event_schema(channels(unit), self.config.labels());
        let selected = Schema { channels: watched, ..(**input).clone() };
        let readers =
            (0..selected.channels.len()).filter_map(|element| ElementReader::new(&selected, element));
        let (rate, is_own) = (input.rate, input.has_own_times());
        let hold = match self.config.hold {
            Every::Time(time) if is_own => Hold::Time(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
            Every::Samples(samples) if is_own => Hold::Samples(u64::from(samples)),
            hold => Hold::Samples(hold.samples_at_least(rate).max(LEAST_DISTANCE.samples_at_least(rate))),
        };
        let silence = self.config.silence.map(|silence| match silence {
            Every::Time(time) => time,
            Every::Samples(samples) => rate.duration_of(u64::from(samples)),
        });
        Ok(Line {
            schema: Arc::new(schema),
            watched: readers.map(|reader| (reader, Watch::new(self.limits.len()))).collect(),
            hold,
            silence: silence.or((!is_own).then_some(SILENCE)),
            due: block.t0,
        })
    }

    /// Takes whole samples.
    fn watch(&mut self, block: &Block) {
        let first = Place { epoch: block.epoch, index: block.first_index };
        self.give_up(block.t0, first);
        let Some(line) = &mut self.line else { return };
        let (mut told, mut values) = (Vec::new(), Vec::new());
        for (channel, (reader, watch)) in line.watched.iter_mut().enumerate() {
            values.clear();
            reader.read(block, &mut values);
            for (index, value) in (block.first_index..).zip(&values) {
                // A hold in samples asks no time, which costs more than the limits.
                let time = match line.hold {
                    Hold::Samples(_) => block.t0,
                    Hold::Time(_) => block.time_of(index),
                };
                let moment = Moment { index, time };
                if let Some(change) = watch.take(&self.limits, line.hold, *value, moment) {
                    told.push((index, channel, *value, change));
                }
            }
        }
        line.due = block.time_of(block.next_index());
        told.sort_by_key(|(index, channel, ..)| (*index, *channel));
        for (index, channel, value, change) in told {
            let place = Place { epoch: block.epoch, index };
            self.tell(block.time_of(index), row(channel, change, value, place));
        }
        self.repeat(block);
    }

    fn tell(&mut self, time: WallTime, row: SampleBuffer) {
        self.told = Some(time);
        self.events.push(time, row);
    }

    /// Tells every state again at the last sample of a block, if none was told for long.
    fn repeat(&mut self, block: &Block) {
        let (Some(told), Some(line), Some(last)) = (self.told, &self.line, block.samples.checked_sub(1))
        else {
            return;
        };
        let index = block.first_index + last;
        let time = block.time_of(index);
        if time.nanos_since(told) < REPEAT_NS {
            return;
        }
        let place = Place { epoch: block.epoch, index };
        let state = |(channel, (reader, watch)): (usize, &(ElementReader, Watch))| {
            let mut values = Vec::new();
            reader.read(block, &mut values);
            row(channel, watch.state(), values.last().copied().unwrap_or(f64::NAN), place)
        };
        let rows: Vec<_> = line.watched.iter().enumerate().map(state).collect();
        rows.into_iter().for_each(|row| self.tell(time, row));
    }

    /// Tells every state unknown, as the sample at `place` is missing.
    fn lose(&mut self, place: Place, time: WallTime) {
        let watched = self.line.iter_mut().flat_map(|line| &mut line.watched);
        for (channel, (_, watch)) in watched.enumerate() {
            if let Some(change) = watch.lose(place.index) {
                self.told = Some(time);
                self.events.push(time, row(channel, change, f64::NAN, place));
            }
        }
    }

    /// Tells every state unknown if the next sample, which is at `place`, is missing or too late.
    fn look_ahead(&mut self, horizon: Horizon, place: Place) {
        if horizon.epoch != place.epoch {
            return;
        }
        if horizon.next_index > place.index {
            let due = self.line.as_ref().map(|line| line.due);
            due.into_iter().for_each(|due| self.lose(place, due));
        } else if let Some(before) = horizon.before {
            self.give_up(before, place);
        }
    }

    /// Tells every state unknown if it is too late at `now` for the next sample, which is at `place`.
    fn give_up(&mut self, now: WallTime, place: Place) {
        let Some((due, silence)) = self.line.as_ref().and_then(|line| Some((line.due, line.silence?))) else {
            return;
        };
        if u64::try_from(now.nanos_since(due)).is_ok_and(|ns| Duration::from_nanos(ns) > silence) {
            self.lose(place, due);
        }
    }
}

impl Operator for Alarm {
    fn handle(&mut self, _input: usize, what: Input<'_>) -> Result<(), InputError> {
        if let (None, Input::Block(block)) = (&self.line, what) {
            self.line = Some(self.begin(block)?);
        }
        self.samples.handle(what)?;
        while let Some(piece) = self.samples.poll() {
            match piece {
                Piece::Samples(block) => self.watch(&block),
                Piece::Missing(missing) => self.lose(missing.place, missing.t0),
            }
        }
        if let (Input::Horizon(horizon), Some(next)) = (what, self.samples.next()) {
            self.look_ahead(horizon, next);
        }
        if let (Input::Ended, Some(line), Some(next)) = (what, &self.line, self.samples.next()) {
            self.lose(next, line.due);
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

/// Returns the channels of the events, of values in `unit`.
fn channels(unit: &str) -> Vec<Channel> {
    let channels = [
        ("channel", ""),
        ("state", ""),
        ("side", ""),
        ("previous", ""),
        ("value", unit),
        ("index", ""),
        ("since", ""),
        ("epoch_s", "s"),
        ("epoch_ns", "ns"),
    ];
    channels.map(|(name, unit)| Channel::new(name, unit)).into()
}

/// Returns an event as a sample.
fn row(channel: usize, change: Change, value: f64, place: Place) -> SampleBuffer {
    let state = |level: Option<i8>| level.map_or(UNKNOWN, |level| f64::from(level.abs()));
    let side = f64::from(change.now.unwrap_or(0).signum());
    let [epoch_s, epoch_ns] = epoch_parts(place.epoch);
    event_row([
        channel as f64,
        state(change.now),
        side,
        state(change.before),
        value,
        place.index as f64,
        change.since as f64,
        epoch_s,
        epoch_ns,
    ])
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ChannelName>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an input as \"stream:channel\", or a list of inputs")]
    enum Written {
        One(ChannelName),
        Many(Vec<ChannelName>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::One(input) => vec![input],
        Written::Many(inputs) => inputs,
    })
}

fn as_one_or_many<S: Serializer>(inputs: &[ChannelName], serializer: S) -> Result<S::Ok, S::Error> {
    match inputs {
        [input] => input.serialize(serializer),
        inputs => inputs.serialize(serializer),
    }
}

const fn one_sample() -> Every {
    Every::Samples(1)
}

#[cfg(test)]
mod tests;
