//! The nodes of a graph that runs: each reads its inputs and hands its output on to be published.
//!
//! A change is checked as a whole before anything that runs is touched; nodes that it leaves as they are keep operator and
//! stream. Publishing is the caller's, by [`Publishing`]. Start with [`Graph`].

mod change;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sample::{Block, Schema, StreamName, StreamPattern};
use serde::Serialize;
use units::{Epoch, Instant};

use crate::plan::{Difference, Edges, Node, OperatorConfig, Plan, Surroundings};
use crate::{End, Hole, Horizon, Horizons, Input, InputError, Operator, Output, Path, Totals};
pub use change::{Applied, Change, GraphError, PlannedChannel, PlannedStream};

/// Number of earlier plans that can be returned to.
pub const MAX_UNDO: usize = 16;

/// Way of the nodes' outputs onto a bus.
pub trait Publishing {
    /// A node's stream. Dropping it ends the stream.
    type Stream;

    /// Opens the stream of a node.
    ///
    /// # Errors
    /// Message for the user.
    fn open(&mut self, node: &Node, schema: &Schema) -> Result<Self::Stream, String>;

    /// Publishes samples, or leaves out those of a hole.
    ///
    /// # Errors
    /// Message for the user.
    fn put(&mut self, stream: &mut Self::Stream, output: Output) -> Result<(), String>;
}

/// A horizon that an input told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Index of the next sample; all before it were passed on, or are missing.
    pub next_index: u64,
    /// When it was told.
    pub at: Instant,
    /// How the samples come.
    pub path: Path,
    /// Whether the publisher had sent everything by then.
    pub is_idle: bool,
}

/// A node and how it fares.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeStatus {
    /// The node.
    #[serde(flatten)]
    pub node: Node,
    /// Samples so far, those in inherited holes included.
    pub offered_samples: u64,
    /// Samples of those in inherited holes.
    pub source_samples: u64,
    /// Samples of inputs that came behind their horizon, after what they would have decided.
    pub late_samples: u64,
    /// Inputs of which neither samples nor tallies come.
    pub absent: Vec<StreamName>,
    /// Reason why it does not continue, if any.
    pub error: Option<String>,
}

/// All nodes of a graph, and the plans before.
pub struct Graph<P: Publishing> {
    running: Vec<Running<P::Stream>>,
    /// Places in `running` of the nodes that read a stream.
    readers: BTreeMap<StreamName, Vec<usize>>,
    /// Number of the current plan; each that is applied has the next.
    revision: u64,
    /// Plans before, newest last.
    earlier: Vec<Vec<Node>>,
    /// Operators beside it: together they must make no circle.
    operators: Vec<OperatorConfig>,
    /// Behind the streams, which end before their bus does.
    publishing: P,
}

struct Running<S> {
    node: Node,
    /// Streams of the operator's inputs, by their number.
    operands: Vec<StreamName>,
    /// Waits for the first block of its input where that decides; none for an operator in Python.
    operator: Option<Box<dyn Operator>>,
    stream: Option<S>,
    error: Option<String>,
    /// Horizons of the inputs, by their number.
    horizons: Horizons,
}

impl<P: Publishing> Graph<P> {
    /// Makes a graph without nodes beside these operators.
    pub fn new(publishing: P, operators: Vec<OperatorConfig>) -> Self {
        let (running, readers, earlier) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { running, readers, revision: 0, earlier, operators, publishing }
    }

    /// Begins with these nodes at `revision`, and without a plan before. No stream is known yet.
    ///
    /// # Errors
    /// [`GraphError::Problems`].
    pub fn begin(&mut self, nodes: Vec<Node>, revision: u64) -> Result<Applied, GraphError> {
        let applied = self.apply(&Change::Replace(nodes), None, &|_| None)?;
        self.revision = revision;
        self.earlier.clear();
        Ok(Applied { revision, ..applied })
    }

    /// Returns the way onto the bus.
    pub const fn publishing(&self) -> &P {
        &self.publishing
    }

    /// Returns the number of the current plan.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the number of earlier plans that can be returned to.
    pub const fn undo(&self) -> usize {
        self.earlier.len()
    }

    /// Returns the nodes, in the order in which they were written.
    pub fn nodes(&self) -> Vec<Node> {
        self.running.iter().map(|running| running.node.clone()).collect()
    }

    /// Returns each node with its state.
    pub fn status(&self) -> Vec<NodeStatus> {
        self.running.iter().map(Running::status).collect()
    }

    /// Checks a change as a whole, without applying it. `of` is the revision that it is of, any if there is none.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn check(
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
        let streams = plan.planned().iter().filter_map(PlannedStream::of).collect();
        let (values_per_s, join, leave) = (plan.values_per_s(), Vec::new(), Vec::new());
        Ok((plan, Applied { revision, difference, values_per_s, streams, begun, join, leave }))
    }

    /// Applies a change: nodes that it leaves as they are keep operator and stream. On an error nothing has changed.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn apply(
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

    /// Takes note that an epoch of a stream has begun.
    pub fn began(&mut self, stream: &StreamName, epoch: Epoch, now: Instant) {
        self.for_inputs(stream, |running, input| running.horizons.began(input, now, epoch));
    }

    /// Takes samples of a stream.
    pub fn block(&mut self, block: &Block, now: Instant) {
        self.for_inputs(&block.stream, |running, input| {
            running.horizons.block(input, now, block);
            running.handle(input, Input::Block(block));
        });
    }

    /// Takes a hole of a stream with the stage where it was lost.
    pub fn hole(&mut self, stream: &StreamName, hole: &Hole) {
        self.for_inputs(stream, |running, input| running.handle(input, Input::Hole(hole)));
    }

    /// Takes how far a stream is known of which nothing arrives.
    pub fn horizon(&mut self, stream: &StreamName, told: Told) {
        let Told { epoch, next_index, at, path, is_idle } = told;
        self.for_inputs(stream, |running, input| {
            // Samples that wait at the publisher may be older than those to come from an idle one.
            let before = running.horizons.horizon(input, at, path).filter(|_| is_idle);
            running.handle(input, Input::Horizon(Horizon { epoch, next_index, before }));
        });
    }

    /// Takes note that an epoch of a stream has ended.
    pub fn ended(&mut self, stream: &StreamName, epoch: Epoch, end: End) {
        self.for_inputs(stream, |running, input| {
            if running.horizons.ended(input, epoch, end) {
                running.handle(input, Input::Ended);
            }
        });
    }

    /// Finds inputs that are absent at a moment at which every event before it was passed on.
    pub fn advance(&mut self, now: Instant) {
        for running in &mut self.running {
            let absent = running.horizons.advance(now);
            absent.into_iter().for_each(|input| running.handle(input, Input::Ended));
            running.publish(&mut self.publishing);
        }
    }

    /// Ends the published streams of which no input is open any longer.
    ///
    /// A node that reads another waits until that one's end has arrived, so that no sample is missed.
    pub fn finish(&mut self, is_open: impl Fn(&StreamName) -> bool) {
        let publishing = &mut self.publishing;
        self.running.retain_mut(|running| {
            if running.stream.is_none() || running.operands.iter().any(&is_open) {
                return true;
            }
            running.finish(publishing);
            false
        });
        self.find_readers();
    }

    /// Ends all nodes; returns the names of those that were published.
    pub fn close(&mut self) -> Vec<StreamName> {
        self.readers.clear();
        let published = self.running.drain(..).filter(|running| running.stream.is_some());
        published.map(|running| running.node.name).collect()
    }

    /// Calls `hand` for every input that reads `stream`, and publishes what follows; a stream may be several inputs of one node.
    fn for_inputs(&mut self, stream: &StreamName, mut hand: impl FnMut(&mut Running<P::Stream>, usize)) {
        for place in self.readers.get(stream).into_iter().flatten() {
            let running = &mut self.running[*place];
            for input in 0..running.operands.len() {
                if running.operands[input] == *stream {
                    hand(running, input);
                }
            }
            running.publish(&mut self.publishing);
        }
    }

    fn find_readers(&mut self) {
        self.readers.clear();
        for (place, running) in self.running.iter().enumerate() {
            let streams: BTreeSet<&StreamName> = running.operands.iter().collect();
            for stream in streams {
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

impl<S> Running<S> {
    /// Begins a node of a plan.
    fn new(node: Node) -> Self {
        // An operator in Python reads the bus itself.
        let operands = match node.python() {
            Some(_) => Vec::new(),
            None => node.operands().expect("every node of a plan was checked"),
        };
        let operator = node.operator(None).expect("every node of a plan was checked");
        let horizons = Horizons::new(operands.len());
        Self { node, operands, operator, stream: None, error: None, horizons }
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
            late_samples: totals.late,
            absent,
            error: self.error.clone(),
        }
    }

    fn handle(&mut self, input: usize, what: Input<'_>) {
        let refused = match self.operator(input, what).map(|operator| operator.handle(input, what)) {
            None | Some(Ok(())) => return,
            Some(Err(InputError::SchemaChanged { .. })) => {
                // Another schema makes another stream: it restarts with another epoch.
                (self.operator, self.stream) = (None, None);
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
    fn finish(&mut self, publishing: &mut impl Publishing<Stream = S>) {
        (0..self.operands.len()).for_each(|input| self.handle(input, Input::Ended));
        self.publish(publishing);
    }

    fn publish(&mut self, publishing: &mut impl Publishing<Stream = S>) {
        // As soon as it can be described: readers wait for events, which may be rare.
        if self.stream.is_none() && self.operator.as_ref().is_some_and(|it| it.schema().is_some()) {
            self.error = self.stream(publishing).err();
        }
        while let Some(output) = self.operator.as_mut().and_then(|operator| operator.poll()) {
            let done = self.stream(publishing).map(drop);
            let done = done.and_then(|()| {
                let stream = self.stream.as_mut().expect("opened just now");
                publishing.put(stream, output)
            });
            self.error = done.err();
        }
    }

    /// Returns the stream, which is opened once the first input has given the schema.
    fn stream(&mut self, publishing: &mut impl Publishing<Stream = S>) -> Result<&mut S, String> {
        if self.stream.is_none() {
            let schema = self.operator.as_ref().and_then(|operator| operator.schema());
            let schema = schema.ok_or("its inputs have not been received yet")?;
            self.stream = Some(publishing.open(&self.node, &schema)?);
        }
        Ok(self.stream.as_mut().expect("opened just now"))
    }
}

#[cfg(test)]
mod tests;
