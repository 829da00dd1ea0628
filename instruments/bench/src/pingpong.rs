//! Round-trip time and rate of messages at every size.
//!
//! Source: Petri 2007, whose `tcppp` and `udtpp`, `vtspp` and `visitpp` this reproduces; `probe::pingpong` has the rules,
//! `docs/guide/bench.md` explains the measurement. [`measure`] is the client's end, [`TEST`] the server's: the client
//! sends a message over TCP or our UDT, with each requested congestion control, through shared memory or in datagrams,
//! and the server answers with one of the same size once it has all of it.

mod attendance;
mod client;
mod figure;
mod link;
mod message;
mod options;
mod report;
mod server;
mod table;

pub use client::{PingpongError, measure};
pub(crate) use figure::charts;
pub use link::LinkError;
pub use message::Evidence;
pub use options::{Layer, Options, System, Wait};
#[cfg(test)]
pub(crate) use report::tests::report_of;
pub use report::{Account, End, FORMAT, Report, Session, Settings, SizeStepReport, Skipped, Start, VERSION};
pub(crate) use report::{HALF_ROUND_TRIP, RATE};
pub use server::TEST;
