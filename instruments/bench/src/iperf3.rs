//! The protocol of iperf3: [`serve`]s its clients, and [`run`]s tests against its servers.
//!
//! The conversation of either side is a machine without sockets (`conversation` with `client` and `server`);
//! `session`, with `run` and `serve`, gives them sockets; `traffic` is the data, the same on both sides. The result
//! of a test is a [`Report`], which has the counts of both sides and the check of its account.
//!
//! Learnt from two programs of iperf 3.12 that communicated through a relay which recorded every byte;
//! `docs/guide/bench.md` lists what works, what is refused, and what differs.

mod account;
mod client;
mod conversation;
mod cpu;
mod datagram;
mod error;
mod figures;
mod goal;
mod inbox;
mod options;
mod pace;
mod parameters;
mod report;
mod results;
mod run;
mod serve;
mod server;
mod session;
mod sockets;
mod state;
mod stream;
mod traffic;
mod watch;

pub use error::{ProtocolError, RunError, ServeError};
pub use figures::Interval;
pub use options::{ClientOptions, DEFAULT_PORT, Family, Repeat, ServerOptions};
pub use parameters::{Direction, End, Protocol, Refusal, Test};
pub use report::{Report, failure_to_json};
pub use run::run;
pub use serve::serve;
pub use watch::{Notice, Watch};
