//! A change of a graph, what it does, and why it is refused.

use sample::{StreamName, StreamPattern};
use serde::Serialize;

use crate::plan::{Difference, Node, Problem};

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
