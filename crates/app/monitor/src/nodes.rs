//! The processing graph that runs: each node reads streams of the intake and publishes one, with its own account.
//!
//! Runs on the intake's thread. A node's stream is published on the bus, so that any reader can have it, this monitor and
//! other nodes among them; holes of its inputs are its own holes of stage `source`. A new plan is checked as a whole
//! before anything that runs is touched. Start with [`Nodes`].

use std::collections::BTreeMap;
use std::sync::Arc;

use graph::plan::{Difference, Edges, Kind, Node, Plan, Problem, Surroundings};
use graph::{End, Hole, Horizon, Horizons, Input, InputError, Operator, Output, Path, Totals};
use ledger::Stage;
use sample::{Block, Schema, StreamName, StreamPattern};
use serde::Serialize;
use tallycast::{AccountState, Publisher, StreamAccount, StreamGap, StreamHorizon, StreamInfo};
use units::Instant;

use crate::inherited::INPUT_LABEL;
use crate::operators::OperatorConfig;

/// Number of earlier plans that can be returned to.
pub(crate) const MAX_UNDO: usize = 16;

/// Label of a node's stream: its kind.
pub(crate) const NODE_LABEL: &str = "node";

/// All nodes of a monitor.
pub(crate) struct Nodes {
    running: Vec<Running>,
    /// Places in `running` of the nodes that read a stream.
    readers: BTreeMap<StreamName, Vec<usize>>,
    /// Number of the current plan; each that is applied has the next.
    revision: u64,
    /// Plans before, newest last.
    earlier: Vec<Vec<Node>>,
    /// Operators beside them: together they must make no circle.
    operators: Vec<OperatorConfig>,
    /// Behind the publishers, which end before their node does.
    bus: tallycast::Node,
}

/// A node and how it fares.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct NodeStatus {
    #[serde(flatten)]
    pub(crate) node: Node,
    /// Samples so far, those in inherited holes included.
    pub(crate) offered_samples: u64,
    pub(crate) source_samples: u64,
    /// Inputs of which neither samples nor tallies come.
    pub(crate) absent: Vec<StreamName>,
    /// Reason why it does not continue, if any.
    pub(crate) error: Option<String>,
}

/// The graph as pages and programs see it.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct GraphStatus {
    pub(crate) revision: u64,
    /// Number of earlier plans that can be returned to.
    pub(crate) undo: usize,
    pub(crate) nodes: Vec<NodeStatus>,
}

/// How the graph is to be changed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Change {
    /// These nodes replace all others.
    Replace(Vec<Node>),
    /// One more.
    Add(Node),
    /// One less.
    Remove(StreamName),
    /// The plan before the current one.
    Undo,
}

impl Change {
    /// Returns the nodes that it names with their settings.
    pub(crate) fn nodes(&self) -> &[Node] {
        match self {
            Self::Replace(nodes) => nodes,
            Self::Add(node) => core::slice::from_ref(node),
            Self::Remove(_) | Self::Undo => &[],
        }
    }
}

/// Reason why the graph stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Nodes that do not fit together.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
    /// Somebody else changed the graph since it was read.
    #[error("the graph is at revision {now}, not {asked}")]
    Stale {
        /// Revision that the change is of.
        asked: u64,
        /// Revision of the graph.
        now: u64,
    },
    /// No node of this name.
    #[error("`{0}` is not a node of this graph")]
    Unknown(StreamName),
    /// No earlier plan.
    #[error("there is no earlier graph to return to")]
    NothingToUndo,
}

/// What a change does.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Applied {
    pub(crate) revision: u64,
    #[serde(flatten)]
    pub(crate) difference: Difference,
    /// Values that all nodes read in a second, as far as that is known.
    pub(crate) values_per_s: f64,
    /// Nodes that begin, or begin anew.
    #[serde(skip)]
    pub(crate) begun: Vec<Node>,
    /// Patterns that the intake joins for it.
    #[serde(skip)]
    pub(crate) join: Vec<StreamPattern>,
    /// Patterns that the intake needs no longer.
    #[serde(skip)]
    pub(crate) leave: Vec<StreamPattern>,
}

struct Running {
    node: Node,
    /// Streams of the operator's inputs, by their number.
    operands: Vec<StreamName>,
    /// Waits for the first block of its input where that decides.
    operator: Option<Box<dyn Operator>>,
    publisher: Option<Publisher>,
    error: Option<String>,
    /// Horizons of the inputs, by their number.
    horizons: Horizons,
}

impl Nodes {
    pub(crate) fn new(bus: tallycast::Node, operators: Vec<OperatorConfig>) -> Self {
        let (running, readers) = (Vec::new(), BTreeMap::new());
        Self { running, readers, revision: 0, earlier: Vec::new(), operators, bus }
    }

    /// Returns the bus that the streams are published on, which is the monitor's.
    pub(crate) const fn bus(&self) -> &tallycast::Node {
        &self.bus
    }

    /// Checks a change as a whole, without applying it.
    pub(crate) fn check(
        &self,
        change: &Change,
        of: Option<u64>,
        schema: &dyn Fn(&StreamName) -> Option<Arc<Schema>>,
    ) -> Result<(Plan, Applied), GraphError> {
        if let Some(asked) = of.filter(|asked| *asked != self.revision) {
            return Err(GraphError::Stale { asked, now: self.revision });
        }
        let before = self.nodes();
        let nodes = match change.clone() {
            Change::Replace(nodes) => nodes,
            Change::Add(node) => before.iter().cloned().chain([node]).collect(),
            Change::Remove(name) if before.iter().any(|node| node.name == name) => {
                before.iter().filter(|node| node.name != name).cloned().collect()
            }
            Change::Remove(name) => return Err(GraphError::Unknown(name)),
            Change::Undo => self.earlier.last().cloned().ok_or(GraphError::NothingToUndo)?,
        };
        let surroundings = Surroundings { schema, computed: edges(&self.operators) };
        let plan = Plan::check(nodes, &surroundings).map_err(GraphError::Problems)?;
        let difference = Difference::between(&before, plan.nodes());
        let revision = self.revision + u64::from(!difference.is_empty());
        let begins = |node: &&Node| !difference.kept.contains(&node.name);
        let begun = plan.nodes().iter().filter(begins).cloned().collect();
        let (values_per_s, join, leave) = (plan.values_per_s(), Vec::new(), Vec::new());
        Ok((plan, Applied { revision, difference, values_per_s, begun, join, leave }))
    }

    /// Applies a change: nodes that it does not mention keep operator, epoch and account. On an error nothing has changed.
    pub(crate) fn apply(
        &mut self,
        change: &Change,
        of: Option<u64>,
        schema: &dyn Fn(&StreamName) -> Option<Arc<Schema>>,
    ) -> Result<Applied, GraphError> {
        let (plan, mut applied) = self.check(change, of, schema)?;
        let before = self.nodes();
        let mut running: BTreeMap<_, _> =
            self.running.drain(..).map(|it| (it.node.name.clone(), it)).collect();
        for node in plan.nodes() {
            let kept = running.remove(&node.name).filter(|running| {
                if running.node != *node {
                    applied.leave.extend(running.patterns());
                }
                running.node == *node
            });
            self.running.push(kept.unwrap_or_else(|| {
                let begun = Running::new(node.clone());
                applied.join.extend(begun.patterns());
                begun
            }));
        }
        applied.leave.extend(running.values().flat_map(Running::patterns));
        self.find_readers();
        match change {
            Change::Undo => drop(self.earlier.pop()),
            _ if applied.difference.is_empty() => {}
            _ => {
                self.earlier.push(before);
                let surplus = self.earlier.len().saturating_sub(MAX_UNDO);
                self.earlier.drain(..surplus);
            }
        }
        self.revision = applied.revision;
        Ok(applied)
    }

    /// Takes note that a stream has begun.
    pub(crate) fn began(&mut self, info: &StreamInfo, now: Instant) {
        self.for_inputs(&info.name, |running, input| running.horizons.began(input, now, info.epoch));
    }

    pub(crate) fn block(&mut self, block: &Block, now: Instant) {
        self.for_inputs(&block.stream, |running, input| {
            running.horizons.block(input, now, block);
            running.handle(input, Input::Block(block));
        });
    }

    pub(crate) fn gap(&mut self, gap: &StreamGap) {
        let (epoch, positions) = (gap.epoch, gap.gap.positions.clone());
        let hole = Hole { epoch, positions, stage: gap.gap.leading_stage() };
        self.for_inputs(&gap.stream, |running, input| running.handle(input, Input::Hole(&hole)));
    }

    /// Takes how far a stream is known of which nothing arrives.
    pub(crate) fn horizon(&mut self, told: &StreamHorizon) {
        let StreamHorizon { epoch, origin, next_index, at, is_idle, .. } = *told;
        let path = if origin.is_some() { Path::Relayed } else { Path::Direct };
        self.for_inputs(&told.stream, |running, input| {
            // Samples that wait at the publisher may be older than those to come from an idle one.
            let before = running.horizons.horizon(input, at, path).filter(|_| is_idle);
            running.handle(input, Input::Horizon(Horizon { epoch, next_index, before }));
        });
    }

    pub(crate) fn ended(&mut self, account: &StreamAccount) {
        let end = if account.account.state == AccountState::Closed { End::Told } else { End::Silent };
        self.for_inputs(&account.stream, |running, input| {
            if running.horizons.ended(input, account.epoch, end) {
                running.handle(input, Input::Ended);
            }
        });
    }

    /// Finds inputs that are absent at a moment at which every event before it was passed on.
    pub(crate) fn advance(&mut self, now: Instant) {
        for running in &mut self.running {
            let absent = running.horizons.advance(now);
            absent.into_iter().for_each(|input| running.handle(input, Input::Ended));
            running.publish(&self.bus);
        }
    }

    pub(crate) fn status(&self) -> GraphStatus {
        let nodes = self.running.iter().map(Running::status).collect();
        GraphStatus { revision: self.revision, undo: self.earlier.len(), nodes }
    }

    /// Ends, with their final tallies, the published streams of which no input is open any longer.
    ///
    /// A node that reads another waits until that one's end has arrived, so that no sample is missed.
    pub(crate) fn finish(&mut self, is_open: impl Fn(&StreamName) -> bool) {
        let bus = &self.bus;
        self.running.retain_mut(|running| {
            if running.publisher.is_none() || running.operands.iter().any(&is_open) {
                return true;
            }
            running.finish(bus);
            false
        });
        self.find_readers();
    }

    /// Ends all nodes with their final tallies; returns the names of those that were published.
    pub(crate) fn close(&mut self) -> Vec<StreamName> {
        self.readers.clear();
        let publishers = self.running.drain(..).filter_map(|running| running.publisher);
        publishers
            .map(|publisher| {
                let name = publisher.name().clone();
                drop(publisher);
                name
            })
            .collect()
    }

    fn nodes(&self) -> Vec<Node> {
        self.running.iter().map(|running| running.node.clone()).collect()
    }

    /// Calls `hand` for every input that reads `stream`, and publishes what follows; a stream may be several inputs of one node.
    fn for_inputs(&mut self, stream: &StreamName, mut hand: impl FnMut(&mut Running, usize)) {
        for place in self.readers.get(stream).into_iter().flatten() {
            let running = &mut self.running[*place];
            for input in 0..running.operands.len() {
                if running.operands[input] == *stream {
                    hand(running, input);
                }
            }
            running.publish(&self.bus);
        }
    }

    fn find_readers(&mut self) {
        self.readers.clear();
        for (place, running) in self.running.iter().enumerate() {
            for stream in running.node.inputs() {
                self.readers.entry(stream.clone()).or_default().push(place);
            }
        }
    }
}

/// Checks nodes against each other and operators, as far as that is possible without a bus.
///
/// # Errors
/// [`GraphError::Problems`].
pub fn check_graph(nodes: &[Node], operators: &[OperatorConfig]) -> Result<(), GraphError> {
    let surroundings = Surroundings { schema: &|_| None, computed: edges(operators) };
    Plan::check(nodes.to_vec(), &surroundings).map(drop).map_err(GraphError::Problems)
}

/// Returns what operators compute from what.
fn edges(operators: &[OperatorConfig]) -> Edges<'_> {
    operators.iter().map(|it| (it.output.as_str(), it.inputs.iter().map(String::as_str).collect())).collect()
}

impl Running {
    /// Begins a node of a plan.
    fn new(node: Node) -> Self {
        let operands = node.operands().expect("every node of a plan was checked");
        let operator = node.operator(None).expect("every node of a plan was checked");
        let horizons = Horizons::new(operands.len());
        Self { node, operands, operator, publisher: None, error: None, horizons }
    }

    /// Returns the patterns of its inputs and of its stream.
    fn patterns(&self) -> Vec<StreamPattern> {
        let names = self.node.inputs().into_iter().chain([&self.node.name]);
        names.map(|name| name.as_str().parse().expect("every name is a pattern")).collect()
    }

    fn status(&self) -> NodeStatus {
        let totals = self.operator.as_ref().map_or(Totals::default(), |operator| operator.totals());
        let inputs = self.operands.iter().enumerate();
        let absent = inputs.filter(|(input, _)| self.horizons.is_absent(*input)).map(|(_, name)| name);
        let mut absent: Vec<_> = absent.cloned().collect();
        absent.sort();
        absent.dedup();
        NodeStatus {
            node: self.node.clone(),
            offered_samples: totals.offered,
            source_samples: totals.source,
            absent,
            error: self.error.clone(),
        }
    }

    fn handle(&mut self, input: usize, what: Input<'_>) {
        let refused = match self.operator(input, what).map(|operator| operator.handle(input, what)) {
            None | Some(Ok(())) => return,
            Some(Err(InputError::SchemaChanged { .. })) => {
                // Another schema makes another stream: it restarts with another epoch.
                (self.operator, self.publisher) = (None, None);
                self.operator(input, what).and_then(|operator| operator.handle(input, what).err())
            }
            Some(Err(error)) => Some(error),
        };
        self.error = refused.map(|error| error.to_string()).or_else(|| self.error.take());
    }

    /// Returns the operator, which some kinds begin with the first block of the first input.
    fn operator(&mut self, input: usize, what: Input<'_>) -> Option<&mut Box<dyn Operator>> {
        if self.operator.is_none() {
            let schema = match what {
                Input::Block(block) if input == 0 => Some(&*block.schema),
                _ => None,
            };
            match self.node.operator(schema) {
                Ok(operator) => self.operator = operator,
                Err(error) => self.error = Some(error.to_string()),
            }
        }
        self.operator.as_mut()
    }

    /// Gives up on missing inputs and publishes everything decidable; the stream ends when this is dropped.
    fn finish(&mut self, bus: &tallycast::Node) {
        (0..self.operands.len()).for_each(|input| self.handle(input, Input::Ended));
        self.publish(bus);
    }

    fn publish(&mut self, bus: &tallycast::Node) {
        // As soon as it can be described: readers wait for events, which may be rare.
        if self.publisher.is_none() && self.operator.as_ref().is_some_and(|it| it.schema().is_some()) {
            self.error = self.publisher(bus).err();
        }
        while let Some(output) = self.operator.as_mut().and_then(|operator| operator.poll()) {
            let done = self.publisher(bus).and_then(|publisher| {
                match output {
                    Output::Samples { t0, data, .. } => publisher.send_bytes_at(t0, data.as_bytes()),
                    Output::Hole { samples, .. } => publisher.skip(samples, Stage::Source),
                }
                .map_err(|error| error.to_string())
            });
            self.error = done.err();
        }
    }

    /// Names kind and inputs, from which readers learn where a hole comes from.
    fn label(&self, schema: &mut Schema) {
        schema.labels.insert(NODE_LABEL.to_owned(), self.node.kind.name().to_owned());
        // These name the channels that they read.
        let names_channels = matches!(
            self.node.kind,
            Kind::Derive { .. } | Kind::Align { .. } | Kind::Alarm(_) | Kind::Trigger(_)
        );
        if !names_channels {
            schema.labels.retain(|label, _| !label.starts_with(INPUT_LABEL));
            for (number, stream) in self.operands.iter().enumerate() {
                schema.labels.insert(format!("{INPUT_LABEL}{number}"), format!("{stream}:*"));
            }
        }
    }

    /// Returns the publisher, which is opened once the first input has given the schema.
    fn publisher(&mut self, bus: &tallycast::Node) -> Result<&mut Publisher, String> {
        if self.publisher.is_none() {
            let schema = self.operator.as_ref().and_then(|operator| operator.schema());
            let mut schema = (*schema.ok_or("its inputs have not been received yet")?).clone();
            self.label(&mut schema);
            let opened = bus.publisher(self.node.name.as_str()).schema(&schema).open();
            self.publisher = Some(opened.map_err(|error| error.to_string())?);
        }
        Ok(self.publisher.as_mut().expect("opened just now"))
    }
}
