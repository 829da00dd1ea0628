//! The number of datagrams a host receives per second, by threading model: `tallycast bench capacity`.
//!
//! After the "UDP notes": the same datagrams go to one, two, four and eight receivers, which are processes or
//! threads, each with its own port or all at one. The client sends as fast as it can or at a given rate;
//! receivers at the server count datagrams, and the kernel's counters show what it dropped. Each point closes
//! an account.

mod client;
mod crew;
mod figure;
mod message;
mod options;
mod receive;
mod report;
mod send;
mod server;
mod table;
mod worker;

pub use client::{CapacityError, measure};
pub(crate) use figure::charts;
pub use options::{Calls, MOST_WORKERS, Options, ThreadingModel};
pub use report::{FORMAT, Point, Port, Report, Run, Settings, Socket, VERSION};
pub use server::TEST;
pub use worker::{WorkerError, serve as serve_worker};

#[cfg(test)]
pub(crate) use report::tests::{example, point as example_point};
