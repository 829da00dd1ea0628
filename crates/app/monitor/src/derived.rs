//! Derived streams: computed from the intake's streams and published, each with its own account.
//!
//! Runs on the intake's thread. A derived stream is published on the bus, so that any reader can have it, this monitor
//! among them; holes of its inputs are its own holes of stage `source`. Start with [`Derivations`].

use std::collections::BTreeMap;

use graph::{Derivation, DerivationConfig, DeriveError, DerivedInput, Hole, Input, InputError, Output};
use ledger::Stage;
use sample::{Block, SchemaError, StreamName, StreamPattern};
use serde::{Deserialize, Serialize};
use tallycast::{Node, Publisher, StreamAccount, StreamGap};
use units::WallTime;

use crate::circle::{Circle, check_circles};
use crate::operators::OperatorConfig;

/// The most derived streams of one monitor.
pub(crate) const MAX_DERIVED: usize = 64;

/// Description of a derived stream, in the API and the configuration file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DerivedStream {
    /// Its name.
    pub name: String,
    /// Expression that computes its samples from the inputs: `a - b`.
    pub expression: String,
    /// Variable to `stream:channel`.
    pub inputs: BTreeMap<String, String>,
    /// The unit of the result.
    #[serde(default)]
    pub unit: String,
    /// Variable whose samples give the grid; by default the first in alphabetical order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<String>,
}

/// Reason why a stream cannot be derived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DerivedError {
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] SchemaError),
    /// An input that names no channel.
    #[error("`{0}` names no channel; write inputs as stream:channel")]
    Input(String),
    /// A grid that is no input.
    #[error("the grid `{0}` is not an input; name one of the variables")]
    Grid(String),
    /// The expression does not fit.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// A name that is derived already.
    #[error("`{0}` is already derived; remove it first, or choose another name")]
    Twice(String),
    /// A stream that would need itself.
    #[error(transparent)]
    Circle(#[from] Circle),
    /// More than a monitor derives.
    #[error("a monitor derives at most {MAX_DERIVED} streams; remove one first")]
    TooMany,
}

/// A derived stream and how it fares.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct DerivedStatus {
    #[serde(flatten)]
    pub(crate) stream: DerivedStream,
    /// Samples so far, those in inherited holes included.
    pub(crate) offered_samples: u64,
    pub(crate) source_samples: u64,
    /// Reason why it does not continue, if any.
    pub(crate) error: Option<String>,
}

impl DerivedStream {
    /// Checks everything that is known before any input arrives: names, expression, variables.
    ///
    /// # Errors
    /// [`DerivedError`], as when it is added to a monitor.
    pub fn check(&self) -> Result<(), DerivedError> {
        Ok(Derivation::new(self.config()?).map(drop)?)
    }

    fn config(&self) -> Result<DerivationConfig, DerivedError> {
        let input = |(variable, from): (&String, &String)| {
            let (stream, channel) = from.split_once(':').ok_or_else(|| DerivedError::Input(from.clone()))?;
            let (variable, channel) = (variable.clone(), channel.to_owned());
            Ok::<_, DerivedError>(DerivedInput { variable, stream: stream.parse()?, channel })
        };
        let mut inputs = self.inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
        if let Some(grid) = &self.grid {
            let place = inputs.iter().position(|input| input.variable == *grid);
            inputs.swap(0, place.ok_or_else(|| DerivedError::Grid(grid.clone()))?);
        }
        let mut config = DerivationConfig::new(self.name.parse()?, self.expression.clone(), inputs);
        config.unit.clone_from(&self.unit);
        Ok(config)
    }
}

/// All derived streams of a monitor.
pub(crate) struct Derivations {
    running: Vec<Running>,
    /// Operators beside them: together they must make no circle.
    operators: Vec<OperatorConfig>,
    /// Behind the publishers, which end before their node does.
    node: Node,
}

struct Running {
    stream: DerivedStream,
    config: DerivationConfig,
    derivation: Derivation,
    publisher: Option<Publisher>,
    error: Option<String>,
    /// Delay of each input's newest sample relative to the clock when it arrived.
    lags_ns: Vec<Option<i64>>,
}

impl Derivations {
    pub(crate) const fn new(node: Node, operators: Vec<OperatorConfig>) -> Self {
        Self { node, operators, running: Vec::new() }
    }

    /// Returns the node that the streams are published by, which is the monitor's.
    pub(crate) const fn node(&self) -> &Node {
        &self.node
    }

    /// Begins to derive a stream; returns what must be joined for it.
    pub(crate) fn add(&mut self, stream: DerivedStream) -> Result<Vec<StreamPattern>, DerivedError> {
        let derived = self.running.iter().map(|it| &it.stream.name);
        if derived.chain(self.operators.iter().map(|it| &it.output)).any(|name| *name == stream.name) {
            return Err(DerivedError::Twice(stream.name));
        }
        if self.running.len() >= MAX_DERIVED {
            return Err(DerivedError::TooMany);
        }
        let running = self.running.iter().map(|running| running.stream.clone());
        check_circles(&running.chain([stream.clone()]).collect::<Vec<_>>(), &self.operators)?;
        let config = stream.config()?;
        let derivation = Derivation::new(config.clone())?;
        let lags_ns = vec![None; config.inputs.len()];
        let running = Running { stream, config, derivation, publisher: None, error: None, lags_ns };
        let patterns = running.patterns();
        self.running.push(running);
        Ok(patterns)
    }

    /// Ends a derived stream; returns the patterns that no longer need to be joined for it.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Vec<StreamPattern>> {
        let place = self.running.iter().position(|running| running.stream.name == name)?;
        Some(self.running.remove(place).patterns())
    }

    pub(crate) fn block(&mut self, block: &Block, now: WallTime) {
        let newest = block.time_of(block.next_index().saturating_sub(1));
        self.for_inputs(&block.stream, |running, input| {
            running.lags_ns[input] = Some(now.nanos_since(newest));
            running.handle(input, Input::Block(block));
        });
        self.publish();
    }

    pub(crate) fn gap(&mut self, gap: &StreamGap) {
        let (epoch, positions) = (gap.epoch, gap.gap.positions.clone());
        let hole = Hole { epoch, positions, stage: gap.gap.leading_stage() };
        self.for_inputs(&gap.stream, |running, input| running.handle(input, Input::Hole(&hole)));
    }

    pub(crate) fn ended(&mut self, account: &StreamAccount) {
        self.for_inputs(&account.stream, |running, input| running.handle(input, Input::Ended));
        self.publish();
    }

    /// Advances the time, and gives up on inputs that are too late.
    pub(crate) fn advance(&mut self, now: WallTime) {
        for running in &mut self.running {
            // Recorded data keep their own time, which passes at the same rate.
            let lag = running.lags_ns.iter().flatten().min();
            if let Some(lag) = lag {
                running.derivation.advance(now.offset(lag.saturating_neg()));
            }
        }
        self.publish();
    }

    pub(crate) fn status(&self) -> Vec<DerivedStatus> {
        let status = |running: &Running| {
            let totals = running.derivation.totals();
            DerivedStatus {
                stream: running.stream.clone(),
                offered_samples: totals.offered,
                source_samples: totals.source,
                error: running.error.clone(),
            }
        };
        self.running.iter().map(status).collect()
    }

    /// Ends, with their final tallies, the published streams of which no input is open any longer.
    ///
    /// A stream derived from another derived stream waits until that one's end has arrived, so that no sample is
    /// missed.
    pub(crate) fn finish(&mut self, is_open: impl Fn(&StreamName) -> bool) {
        let node = &self.node;
        self.running.retain_mut(|running| {
            let goes_on = running.config.inputs.iter().any(|input| is_open(&input.stream));
            if running.publisher.is_none() || goes_on {
                return true;
            }
            running.finish(node);
            false
        });
    }

    /// Ends all derived streams with their final tallies; returns the names of those that were published.
    pub(crate) fn close(&mut self) -> Vec<StreamName> {
        let publishers = self.running.drain(..).filter_map(|running| running.publisher);
        publishers
            .map(|publisher| {
                let name = publisher.name().clone();
                drop(publisher);
                name
            })
            .collect()
    }

    /// Calls `hand` for every input that reads `stream`; a stream may be several inputs of one derivation.
    fn for_inputs(&mut self, stream: &StreamName, mut hand: impl FnMut(&mut Running, usize)) {
        for running in &mut self.running {
            for input in 0..running.config.inputs.len() {
                if running.config.inputs[input].stream == *stream {
                    hand(running, input);
                }
            }
        }
    }

    fn publish(&mut self) {
        for running in &mut self.running {
            running.publish(&self.node);
        }
    }
}

impl Running {
    /// Returns the patterns of its inputs and of its output.
    fn patterns(&self) -> Vec<StreamPattern> {
        let names = self.config.inputs.iter().map(|input| &input.stream).chain([&self.config.name]);
        names.map(|name| name.as_str().parse().expect("every name is a pattern")).collect()
    }

    fn handle(&mut self, input: usize, what: Input<'_>) {
        match self.derivation.handle(input, what) {
            Ok(()) => {}
            Err(InputError::SchemaChanged { .. }) => {
                // Another rate makes another stream: it restarts with another epoch.
                self.derivation = Derivation::new(self.config.clone()).expect("it was made of this before");
                self.publisher = None;
                self.error = self.derivation.handle(input, what).err().map(|error| error.to_string());
            }
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// Gives up on missing inputs and publishes everything decidable; the stream ends when this is dropped.
    fn finish(&mut self, node: &Node) {
        (0..self.config.inputs.len()).for_each(|input| self.handle(input, Input::Ended));
        self.publish(node);
    }

    fn publish(&mut self, node: &Node) {
        while let Some(output) = self.derivation.poll() {
            let done = self.publisher(node).and_then(|publisher| {
                match output {
                    Output::Samples { t0, data, .. } => publisher.send_bytes_at(t0, data.as_bytes()),
                    Output::Hole { samples, .. } => publisher.skip(samples, Stage::Source),
                }
                .map_err(|error| error.to_string())
            });
            self.error = done.err();
        }
    }

    /// Returns the publisher, which is opened once the first input has given the rate.
    fn publisher(&mut self, node: &Node) -> Result<&mut Publisher, String> {
        if self.publisher.is_none() {
            let schema = self.derivation.schema().ok_or("its inputs have not been received yet")?;
            let opened = node.publisher(self.config.name.as_str()).schema(&schema).open();
            self.publisher = Some(opened.map_err(|error| error.to_string())?);
        }
        Ok(self.publisher.as_mut().expect("opened just now"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(inputs: &[(&str, &str)]) -> DerivedStream {
        let inputs = inputs.iter().map(|(name, from)| ((*name).to_owned(), (*from).to_owned())).collect();
        let (name, expression) = ("lab/d".to_owned(), "a - b".to_owned());
        DerivedStream { name, expression, inputs, unit: "V".to_owned(), grid: None }
    }

    #[test]
    fn inputs_come_in_the_order_of_their_names_unless_the_grid_is_chosen() {
        let mut derived = stream(&[("b", "lab/y:v"), ("a", "lab/x:u:1")]);
        let first = |derived: &DerivedStream| derived.config().unwrap().inputs[0].variable.clone();
        assert_eq!(first(&derived), "a");
        assert_eq!(derived.config().unwrap().inputs[0].channel, "u:1");
        derived.grid = Some("b".to_owned());
        assert_eq!(first(&derived), "b");
        derived.grid = Some("c".to_owned());
        assert!(matches!(derived.config(), Err(DerivedError::Grid(_))));
    }

    #[test]
    fn an_input_names_a_channel() {
        assert!(matches!(stream(&[("a", "lab/x")]).config(), Err(DerivedError::Input(_))));
        assert!(matches!(stream(&[("a", "la b:x")]).config(), Err(DerivedError::Name(_))));
    }
}
