//! One sender, many receivers: latency and loss of a group's datagrams at each member.
//!
//! Each run is one of [`throughput`](crate::throughput): a flow to the group, whose receivers keep every delay.
//! Each member at the server has its own socket, thread and account. A latency is the time from the call that sends
//! a datagram to the read that delivers it, on the clock that both ends share; between two hosts there is none, and
//! the report has null.

mod client;
mod figure;
mod options;
mod report;
mod table;

pub use client::measure;
pub use options::Options;
pub use report::{FORMAT, MemberReport, Report, RunReport, Settings, Start, VERSION};
