//! The measurement suite: runs the methods of `probe` over real sockets and rings, and reports.
//!
//! Every figure comes with its repeats, their spread and the state of the host; what could not be measured is named
//! with its reason. Start with [`cycle`], the largest array that two processes exchange every cycle; [`Quota`]
//! limits their processor time. [`iperf3`] speaks to another tool's clients and servers.
//!
//! Not here: the methods (`probe`), arguments and terminals (`cli`).

pub mod cycle;
mod host;
pub mod iperf3;
mod quota;
pub mod source_004;

pub use host::Host;
pub use quota::{CpuGroup, Quota, QuotaError, Throttled};
