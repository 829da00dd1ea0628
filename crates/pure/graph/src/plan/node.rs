//! A node of the graph: its name, its kind, its settings.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::path::Path;

use sample::{Schema, SchemaError, StreamName};
use serde::{Deserialize, Serialize};
use units::serde_as_text;

use super::{Every, EveryError, OperatorError, OutputRate, PythonNode};
use crate::{
    Alarm, AlarmConfig, AlarmError, AlignConfig, AlignError, Alignment, Calibration, Channels, Derivation,
    DerivationConfig, DeriveError, DerivedInput, Filter, FilterError, Operator, Reduction, ReductionError,
    Resample, Response, SpectralWindow, Spectrum, SpectrumConfig, SpectrumError, SpectrumScale, Statistic,
    Trigger, TriggerConfig, TriggerError,
};

/// A node: computes the stream of its name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Name of the stream that it makes.
    pub name: StreamName,
    /// Its kind with the settings of that.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What a node computes, and from what.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Kind {
    /// Some channels of a stream, in another order.
    Select {
        /// The stream.
        input: StreamName,
        /// Names of the channels.
        channels: Vec<String>,
    },
    /// Channels in other units; those that are not named stay as they are.
    Calibrate {
        /// The stream.
        input: StreamName,
        /// By the name of the channel.
        channels: BTreeMap<String, Calibration>,
    },
    /// Extremes, mean and number of the samples of each window: `x.min`, `x.max`, `x.mean`, `x.n`.
    Thin {
        /// The stream.
        input: StreamName,
        /// Length of a window.
        every: Every,
    },
    /// Statistics of each window, chosen freely.
    Reduce {
        /// The stream.
        input: StreamName,
        /// Length of a window.
        every: Every,
        /// Statistics: `mean`, `rms`, …
        statistics: Vec<Statistic>,
    },
    /// Every channel without some of its frequencies.
    Filter {
        /// The stream.
        input: StreamName,
        /// Frequencies that pass: `{ lowpass = 50 }`.
        response: Response,
        /// Order of the Butterworth prototype: 2, 4, 6 or 8.
        #[serde(default = "four")]
        order: u32,
    },
    /// Every channel at another rate.
    Resample {
        /// The stream.
        input: StreamName,
        /// Rate of the output.
        rate: OutputRate,
    },
    /// Every channel's power by frequency, segment by segment.
    Spectrum {
        /// The stream.
        input: StreamName,
        /// Length of a segment.
        size: Every,
        /// Part of a segment that the next one has, too.
        #[serde(default = "half")]
        overlap: f64,
        /// Weights of a segment's values.
        #[serde(default)]
        window: SpectralWindow,
        /// Power per hertz, or power.
        #[serde(default)]
        scale: SpectrumScale,
        /// Number of segments that are averaged.
        #[serde(default = "one")]
        average: u32,
    },
    /// An expression over channels of one or several streams.
    Derive {
        /// Expression over the variables of the inputs: `a - b`.
        expression: String,
        /// Variable to `stream:channel`.
        inputs: BTreeMap<String, ChannelName>,
        /// The unit of the result.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        unit: String,
        /// Variable whose samples give the grid; by default the first in alphabetical order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grid: Option<String>,
    },
    /// Channels of several streams side by side, each named by its variable.
    Align {
        /// Variable to `stream:channel`.
        inputs: BTreeMap<String, ChannelName>,
        /// Variable whose samples give the grid; by default the first in alphabetical order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grid: Option<String>,
    },
    /// Changes of state of channels with limits, as events.
    Alarm(AlarmConfig),
    /// Crossings of a level, as events with the stretch of samples around each.
    Trigger(TriggerConfig),
    /// A stream under another name: as it is, or its windows as [`Kind::Thin`] makes them, with another priority.
    Publish {
        /// The stream.
        input: StreamName,
        /// Length of a window; every sample by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<Every>,
        /// Priority on links of relays; that of the link's own settings by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<u8>,
    },
    /// A function in Python, in a process of its own that reads the bus and publishes on it.
    Operator(PythonNode),
}

/// A channel of a stream: `stream:channel`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelName {
    /// The stream.
    pub stream: StreamName,
    /// The channel of that stream.
    pub channel: String,
}

/// Reason why a node cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// An input that names no channel.
    #[error("`{0}` names no channel; write inputs as stream:channel")]
    NoChannel(String),
    /// An invalid name of a stream.
    #[error(transparent)]
    Name(#[from] SchemaError),
    /// A grid that is no input.
    #[error("the grid `{0}` is not an input; name one of the variables")]
    Grid(String),
    /// An alignment that cannot be.
    #[error(transparent)]
    Align(#[from] AlignError),
    /// An expression that does not fit.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// A window that does not fit.
    #[error(transparent)]
    Every(#[from] EveryError),
    /// A reduction that cannot be.
    #[error(transparent)]
    Reduction(#[from] ReductionError),
    /// A filter that cannot be.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A spectrum that cannot be.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
    /// An alarm that cannot be.
    #[error(transparent)]
    Alarm(#[from] AlarmError),
    /// A trigger that cannot be.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// An operator in Python that cannot be.
    #[error(transparent)]
    Python(#[from] OperatorError),
}

impl Kind {
    /// Returns its name, as files have it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Select { .. } => "select",
            Self::Calibrate { .. } => "calibrate",
            Self::Thin { .. } => "thin",
            Self::Reduce { .. } => "reduce",
            Self::Filter { .. } => "filter",
            Self::Resample { .. } => "resample",
            Self::Spectrum { .. } => "spectrum",
            Self::Derive { .. } => "derive",
            Self::Align { .. } => "align",
            Self::Alarm(_) => "alarm",
            Self::Trigger(_) => "trigger",
            Self::Publish { .. } => "publish",
            Self::Operator(_) => "operator",
        }
    }
}

impl Node {
    /// Returns the streams that it reads, each once.
    #[must_use]
    pub fn inputs(&self) -> Vec<&StreamName> {
        match &self.kind {
            Kind::Select { input, .. }
            | Kind::Calibrate { input, .. }
            | Kind::Thin { input, .. }
            | Kind::Reduce { input, .. }
            | Kind::Filter { input, .. }
            | Kind::Resample { input, .. }
            | Kind::Spectrum { input, .. }
            | Kind::Publish { input, .. } => vec![input],
            Kind::Derive { inputs, .. } | Kind::Align { inputs, .. } => {
                let mut streams: Vec<_> = inputs.values().map(|input| &input.stream).collect();
                streams.sort();
                streams.dedup();
                streams
            }
            Kind::Alarm(alarm) => alarm.input.first().map(|input| &input.stream).into_iter().collect(),
            Kind::Trigger(trigger) => vec![&trigger.input.stream],
            Kind::Operator(python) => python.inputs.iter().collect(),
        }
    }

    /// Returns the streams of the operator's inputs, in the order of their numbers; one may be several inputs.
    ///
    /// # Errors
    /// [`NodeError::Grid`].
    pub fn operands(&self) -> Result<Vec<StreamName>, NodeError> {
        match &self.kind {
            Kind::Derive { inputs, grid, .. } | Kind::Align { inputs, grid } => {
                Ok(numbered(inputs, grid.as_ref())?.into_iter().map(|it| it.stream).collect())
            }
            _ => Ok(self.inputs().into_iter().cloned().collect()),
        }
    }

    /// Returns the operator in Python that computes it in a process of its own, if it is of that kind.
    #[must_use]
    pub fn python(&self) -> Option<&PythonNode> {
        match &self.kind {
            Kind::Operator(python) => Some(python),
            _ => None,
        }
    }

    /// Resolves a relative path of the file of an operator in Python against `folder`.
    pub fn look_in(&mut self, folder: &Path) {
        if let Kind::Operator(python) = &mut self.kind {
            python.look_in(folder);
        }
    }

    /// Makes the operator that computes it; none for an operator in Python, which a process of its own computes.
    ///
    /// The schema is that of the first operand: a window in seconds is a number of samples only by its rate. Without it,
    /// a node that needs it is checked as far as possible, and is `None`.
    ///
    /// # Errors
    /// [`NodeError`] if the settings do not fit each other or the schema.
    pub fn operator(&self, schema: Option<&Schema>) -> Result<Option<Box<dyn Operator>>, NodeError> {
        let samples = |every: &Every| match (every, schema) {
            (Every::Samples(samples), _) => Ok(Some(*samples)),
            (every, Some(schema)) => every.samples(schema.rate).map(Some),
            (Every::Time(_), None) => Ok(None),
        };
        let operator: Box<dyn Operator> = match &self.kind {
            Kind::Select { channels, .. } => Box::new(Channels::select(channels.clone())),
            Kind::Calibrate { channels, .. } => Box::new(Channels::calibrate(channels.clone())),
            Kind::Thin { every, .. } => match samples(every)? {
                Some(samples) => Box::new(Reduction::thin(samples)?),
                None => return Ok(None),
            },
            Kind::Reduce { every, statistics, .. } => {
                // Two samples are a window in any case: the statistics are checked also where the rate is unknown.
                let samples = samples(every)?;
                let reduction = Reduction::new(samples.unwrap_or(2), statistics.clone())?;
                if samples.is_none() {
                    return Ok(None);
                }
                Box::new(reduction)
            }
            Kind::Filter { response, order, .. } => Box::new(Filter::new(*response, *order)?),
            Kind::Resample { rate, .. } => Box::new(Resample::new(rate.0)),
            Kind::Spectrum { size, overlap, window, scale, average, .. } => {
                let samples = samples(size)?;
                let (overlap, window, scale, average) = (*overlap, *window, *scale, *average);
                // As above.
                let config =
                    SpectrumConfig { samples: samples.unwrap_or(2), overlap, window, scale, average };
                let spectrum = Spectrum::new(config)?;
                if samples.is_none() {
                    return Ok(None);
                }
                Box::new(spectrum)
            }
            Kind::Derive { .. } => Box::new(Derivation::new(self.derivation()?)?),
            Kind::Align { inputs, grid } => {
                let inputs = numbered(inputs, grid.as_ref())?;
                Box::new(Alignment::new(&self.name, inputs, AlignConfig::default())?)
            }
            Kind::Alarm(alarm) => Box::new(Alarm::new(alarm.clone())?),
            Kind::Trigger(trigger) => Box::new(Trigger::new(trigger.clone())?),
            Kind::Publish { every: None, .. } => Box::new(Channels::all()),
            Kind::Publish { every: Some(every), .. } => match samples(every)? {
                Some(samples) => Box::new(Reduction::thin(samples)?),
                None => return Ok(None),
            },
            Kind::Operator(python) => {
                python.check(&self.name)?;
                return Ok(None);
            }
        };
        Ok(Some(operator))
    }

    fn derivation(&self) -> Result<DerivationConfig, NodeError> {
        let Kind::Derive { expression, inputs, unit, grid } = &self.kind else {
            unreachable!("asked of derivations alone")
        };
        let operands = numbered(inputs, grid.as_ref())?;
        let mut config = DerivationConfig::new(self.name.clone(), expression.clone(), operands);
        config.unit.clone_from(unit);
        Ok(config)
    }
}

/// Returns inputs in the order of their numbers: in alphabetical order, but for the grid, which is the first.
fn numbered(
    inputs: &BTreeMap<String, ChannelName>,
    grid: Option<&String>,
) -> Result<Vec<DerivedInput>, NodeError> {
    let mut numbered: Vec<_> = inputs
        .iter()
        .map(|(variable, from)| DerivedInput {
            variable: variable.clone(),
            stream: from.stream.clone(),
            channel: from.channel.clone(),
        })
        .collect();
    if let Some(grid) = grid {
        let place = numbered.iter().position(|input| input.variable == *grid);
        numbered.swap(0, place.ok_or_else(|| NodeError::Grid(grid.clone()))?);
    }
    Ok(numbered)
}

impl FromStr for ChannelName {
    type Err = NodeError;

    fn from_str(text: &str) -> Result<Self, NodeError> {
        let (stream, channel) = text.split_once(':').ok_or_else(|| NodeError::NoChannel(text.to_owned()))?;
        Ok(Self { stream: stream.parse()?, channel: channel.to_owned() })
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.channel)
    }
}

serde_as_text!(ChannelName);

const fn half() -> f64 {
    0.5
}

const fn one() -> u32 {
    1
}

const fn four() -> u32 {
    4
}
