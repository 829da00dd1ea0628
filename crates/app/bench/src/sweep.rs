//! Throughput and loss over a grid of buffers, sizes and rates, with and without other work: `tallycast bench sweep`.
//!
//! Each point is the UDP flow of [`throughput`](crate::throughput) with other options, repeated; what is asked of all
//! points is how they lie to each other. Sources 000 and 001 drew such curves: throughput over the size of datagrams, and
//! over that of socket buffers.

mod csv;
mod figure;
mod granted;
mod options;
mod page;
mod report;
mod runner;
mod table;

pub(crate) use figure::charts;
pub use options::{LossBelow, Options, OptionsError, Place};
pub use report::{FORMAT, Point, Report, Run, Settings, VERSION};
pub use runner::{SweepError, measure};

#[cfg(test)]
pub(crate) use report::tests::{example, point as example_point, run as example_run};
