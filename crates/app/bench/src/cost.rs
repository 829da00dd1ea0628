//! What it costs a host to move data: `tallycast bench cost`.
//!
//! The measurement of document 001 (table 2): processor cycles for each bit that is sent and received, and how long data
//! take through the end systems, over UDP, TCP and the stream protocol beside each other. Each transport is measured by
//! runs of [`throughput`](crate::throughput) at one moderate rate; what a cost is lies in `probe`.

mod measure;
mod options;
mod output;
mod report;
mod source;
mod table;

pub use measure::{CostError, measure};
pub use options::Options;
pub(crate) use output::charts;
pub use report::{FORMAT, Figure, Measured, Metric, Report, Run, Settings, VERSION};
pub use source::{SourceCosts, SourceHost, hosts};
