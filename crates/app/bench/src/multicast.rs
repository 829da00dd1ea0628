//! One sender, many receivers: when each datagram of a group reaches each member, and what each lost.
//!
//! [`measure`] is the client's end, which sends; [`TEST`] the server's, which has the members, each with a socket, a thread and
//! an account of its own. The method (pace, numbers, accounts, percentiles) is `probe`'s. A latency is from the call
//! that sends a datagram to the read that delivers it, on the clock that both ends share; between two hosts there is
//! none, and the report says so with null.

mod client;
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
