//! Throughput and loss over a grid of buffers, sizes and rates, with and without other work: `tallycast bench sweep`.
//!
//! Each point is the UDP flow of [`throughput`](crate::throughput) with other options, repeated; the points together
//! form curves. The Wendelstein 7-X monitoring paper and Gu & Grossman 2005 drew such curves: throughput against datagram
//! size, and against socket buffer size.

mod figure;
mod granted;
mod options;
mod report;
mod runner;
mod table;

pub(crate) use figure::charts;
pub use options::{Options, Place};
pub use report::{FORMAT, Point, Report, Run, Settings, VERSION};
pub use runner::{SweepError, measure};

#[cfg(test)]
pub(crate) use report::tests::{example, point as example_point, run as example_run};
