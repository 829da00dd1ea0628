//! The processing graph on the bus: events of the intake handed to its nodes, and their outputs published.
//!
//! Runs on the intake's thread. A node's stream is published on the bus, so that any reader can have it, this monitor and
//! other nodes among them; holes of its inputs are its own holes of stage `source`. What the nodes do is decided in
//! [`graph::Graph`].

use graph::plan::{Kind, Node};
use graph::{End, Graph, Hole, Output, Path, Publishing, Told};
use ledger::Stage;
use sample::{PRIORITY_LABEL, Schema};
use serde::Serialize;
use tallycast::{AccountState, Publisher, StreamAccount, StreamGap, StreamHorizon, StreamInfo};
use units::Instant;

use crate::inherited::INPUT_LABEL;
use crate::kept_graph::Origin;
use crate::operators::{OperatorState, OperatorStatus};

/// Label of a node's stream: its kind.
pub(crate) const NODE_LABEL: &str = "node";

/// All nodes of a monitor.
pub(crate) type Nodes = Graph<OnBus>;

/// The monitor's bus, which the nodes' streams are published on.
pub(crate) struct OnBus(pub(crate) tallycast::Node);

/// A node and how it fares.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct NodeStatus {
    #[serde(flatten)]
    pub(crate) of: graph::NodeStatus,
    /// Process of an operator in Python.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<Process>,
}

/// Process of an operator, apart from its samples.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Process {
    pub(crate) state: OperatorState,
    pub(crate) pid: Option<u32>,
    /// Number of times a process was started for it.
    pub(crate) starts: u64,
    /// End of its last process that was not requested, if there was one.
    pub(crate) last_end: Option<String>,
}

/// The graph as pages and programs see it.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct GraphStatus {
    pub(crate) revision: u64,
    /// Number of earlier plans that can be returned to.
    pub(crate) undo: usize,
    /// Where the graph comes from.
    pub(crate) origin: Origin,
    pub(crate) nodes: Vec<NodeStatus>,
}

impl NodeStatus {
    pub(crate) fn new(mut of: graph::NodeStatus, process: Option<OperatorStatus>) -> Self {
        if let Some(process) = &process {
            of.offered_samples = process.report.offered_samples;
            of.source_samples = process.report.source_samples;
            of.error.clone_from(&process.error);
        }
        Self { of, process: process.map(Process::from) }
    }
}

impl From<OperatorStatus> for Process {
    fn from(status: OperatorStatus) -> Self {
        let OperatorStatus { state, pid, starts, last_end, .. } = status;
        Self { state, pid, starts, last_end }
    }
}

impl Publishing for OnBus {
    type Stream = Publisher;

    fn open(&mut self, node: &Node, schema: &Schema) -> Result<Publisher, String> {
        let mut schema = schema.clone();
        label(node, &mut schema);
        let opened = self.0.publisher(node.name.as_str()).schema(&schema).open();
        opened.map_err(|error| error.to_string())
    }

    fn put(&mut self, publisher: &mut Publisher, output: Output) -> Result<(), String> {
        match output {
            Output::Samples { t0, data, .. } => publisher.send_bytes_at(t0, data.as_bytes()),
            Output::Hole { samples, .. } => publisher.skip(samples, Stage::Source),
        }
        .map_err(|error| error.to_string())
    }
}

/// Names kind and inputs, from which readers learn where a hole comes from, and the priority on relays' links.
fn label(node: &Node, schema: &mut Schema) {
    schema.labels.insert(NODE_LABEL.to_owned(), node.kind.name().to_owned());
    // The priority of the input is that of another stream.
    schema.labels.remove(PRIORITY_LABEL);
    if let Kind::Publish { priority: Some(priority), .. } = &node.kind {
        schema.labels.insert(PRIORITY_LABEL.to_owned(), priority.to_string());
    }
    // These name the channels that they read.
    let names_channels =
        matches!(node.kind, Kind::Derive { .. } | Kind::Align { .. } | Kind::Alarm(_) | Kind::Trigger(_));
    if !names_channels {
        schema.labels.retain(|label, _| !label.starts_with(INPUT_LABEL));
        for (number, stream) in node.inputs().into_iter().enumerate() {
            schema.labels.insert(format!("{INPUT_LABEL}{number}"), format!("{stream}:*"));
        }
    }
}

/// Hands on that a stream has begun.
pub(crate) fn began(nodes: &mut Nodes, info: &StreamInfo, now: Instant) {
    nodes.began(&info.name, info.epoch, now);
}

/// Hands on a gap of a stream.
pub(crate) fn gap(nodes: &mut Nodes, gap: &StreamGap) {
    let (epoch, positions) = (gap.epoch, gap.gap.positions.clone());
    nodes.hole(&gap.stream, &Hole { epoch, positions, stage: gap.gap.leading_stage() });
}

/// Hands on how far a stream is known of which nothing arrives.
pub(crate) fn horizon(nodes: &mut Nodes, told: &StreamHorizon) {
    let StreamHorizon { epoch, origin, next_index, at, is_idle, .. } = *told;
    let path = if origin.is_some() { Path::Relayed } else { Path::Direct };
    nodes.horizon(&told.stream, Told { epoch, next_index, at, path, is_idle });
}

/// Hands on that an epoch of a stream has ended.
pub(crate) fn ended(nodes: &mut Nodes, account: &StreamAccount) {
    let end = if account.account.state == AccountState::Closed { End::Told } else { End::Silent };
    nodes.ended(&account.stream, account.epoch, end);
}
