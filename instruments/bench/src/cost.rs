//! The cost to a host of moving data: `tallycast bench cost`.
//!
//! The measurement of Gu & Grossman 2005 (table 2): processor cycles per bit sent and received, and the delay in the end
//! systems, for UDP, TCP and the stream protocol. Each transport is measured by runs of
//! [`throughput`](crate::throughput) at one moderate rate; `probe` defines the cost.

mod figure;
mod measure;
mod options;
mod report;
mod source;
mod table;

pub(crate) use figure::charts;
pub use measure::measure;
pub use options::Options;
pub use report::{FORMAT, Figure, Measured, Metric, Report, Run, Settings, VERSION};
pub use source::{SourceCosts, SourceHost, hosts};
