//! One sender, many receivers: latency and loss of a group's datagrams at each member.
//!
//! [`measure`] is the client's end, which sends; [`TEST`] the server's, which has the members, each with its
//! own socket, thread and account. The method (pace, numbers, accounts, percentiles) is `probe`'s. A latency is
//! the time from the call that sends a datagram to the read that delivers it, on the clock that both ends
//! share; between two hosts there is none, and the report has null.

mod client;
mod figure;
mod member;
mod message;
mod options;
mod report;
mod sender;
mod server;
mod table;

pub use client::{MulticastError, measure};
pub use options::{Options, OptionsError};
pub use report::{FORMAT, MemberReport, Report, RunReport, Settings, Start, VERSION};
pub(crate) use sender::Sender;
pub use server::TEST;
