//! A processing graph as a document: nodes read, checked as a whole, and compared with those before.
//!
//! A node computes one stream from others; it has the name of the stream that it makes. Inputs are streams of the bus
//! or of other nodes, which come over the bus too. A [`Plan`] is a list of nodes that fit together; only a plan can
//! replace another, and its [`Difference`] tells which nodes continue untouched.

mod check;
mod circle;
mod difference;
mod every;
mod kinds;
mod node;
mod python;
mod rate;
#[cfg(test)]
mod scene;
mod units;

pub use check::{MAX_NODES, MAX_PYTHON_NODES, MAX_VALUES_PER_SECOND, Plan, Planned, Problem, Surroundings};
pub use circle::{Circle, Edges, in_order};
pub use difference::Difference;
pub use every::{Every, EveryError};
pub use kinds::{Form, KINDS, KindDescription, Setting};
pub use node::{ChannelName, Kind, Node, NodeError};
pub use python::{Incomplete, OperatorChannel, OperatorConfig, OperatorError, PythonNode, check_operators};
pub use rate::OutputRate;
