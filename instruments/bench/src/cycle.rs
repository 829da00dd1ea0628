//! The largest array of `u32` that a writer can hand to a reader every cycle: `tallycast bench cycle`.
//!
//! Source: Scollo, whose communication tool this reproduces; `probe::cycle` has the rules, `docs/guide/bench.md`
//! explains the measurement. [`run`] searches for the largest array at each [point](Point) of cycle time,
//! transport and processor quota; each repeat is a whole [search](Search) with its own two processes. [`serve`]
//! is the main function of those processes.

mod figure;
mod message;
mod options;
mod pair;
mod report;
mod search;
mod table;
mod transport;
mod worker;

pub use options::{CpuLimit, CpuLimitError, Options};
pub use report::{
    End, FORMAT, Found, Outcome, Point, Report, Run, Search, Settings, Spread, Start, State, VERSION,
};
pub use search::run;
pub use transport::{Transport, TransportError};
pub use worker::{WorkerError, serve};

pub use crate::report::Row;
pub use drawing::FigureError;
pub use probe::cycle::{Limits, Verdict};

#[cfg(test)]
pub(crate) use report::tests::example as example_report;
