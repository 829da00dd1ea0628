//! A change of a graph, what it does, and why it is refused.

use sample::{Channel, StreamName, StreamPattern};
use serde::Serialize;
use units::SampleRate;

use crate::plan::{Difference, Node, Planned, Problem};

/// How a graph is to be changed.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
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
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        match self {
            Self::Replace(nodes) => nodes,
            Self::Add(node) => core::slice::from_ref(node),
            Self::Remove(_) | Self::Undo => &[],
        }
    }
}

/// Reason why a graph stays as it is.
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
pub struct Applied {
    /// Number of the plan with the change.
    pub revision: u64,
    /// Names of the nodes by what happens to them.
    #[serde(flatten)]
    pub difference: Difference,
    /// Values that all nodes read in a second, as far as that is known.
    pub values_per_s: f64,
    /// Streams of the nodes, of those that are known: whose inputs are.
    pub streams: Vec<PlannedStream>,
    /// Nodes that begin, or begin anew.
    #[serde(skip)]
    pub begun: Vec<Node>,
    /// Patterns of streams that are to be read from now on.
    #[serde(skip)]
    pub join: Vec<StreamPattern>,
    /// Patterns that are needed no longer.
    #[serde(skip)]
    pub leave: Vec<StreamPattern>,
}

/// The stream that a node of a plan will publish.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlannedStream {
    /// Its name.
    pub name: StreamName,
    /// Samples per second, exactly.
    pub rate: SampleRate,
    /// Names and units of its channels.
    pub channels: Vec<PlannedChannel>,
}

/// A channel of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PlannedChannel {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
}

impl PlannedStream {
    /// Returns that of a node, if it is known.
    pub(crate) fn of(planned: &Planned) -> Option<Self> {
        let schema = planned.schema.as_ref()?;
        let channels = schema.channels.iter();
        let channel = |it: &Channel| PlannedChannel { name: it.name.to_string(), unit: it.unit.to_string() };
        Some(Self {
            name: planned.name.clone(),
            rate: schema.rate,
            channels: channels.map(channel).collect(),
        })
    }
}
