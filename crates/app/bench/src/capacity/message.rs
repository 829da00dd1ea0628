//! What the two ends of a run say to each other, and what a bench says to the processes that receive for it.
//!
//! ```text
//! client                                   server
//!   Prepare(plan)                     ─▶             makes its receivers
//!                                     ◀─   Ready { endpoints, notes }
//!   Start                             ─▶             both begin to look at their hosts
//!                                     ◀─   Stop      the server is being ended: send no more
//!   Sent                              ─▶             nothing more comes
//!                                     ◀─   Done(..)  what its receivers counted
//!
//! bench                                    receiving process
//!   Receive(place)                    ─▶
//!                                     ◀─   Ready { address, note }    or Failed, at any time
//!   Over                              ─▶             nothing more comes
//!                                     ◀─   Done(..)
//! ```
//!
//! Processes are spoken to in JSON, an object a line, on their standard streams.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::options::{Calls, ThreadingModel};
use crate::processor_time::Shares;
use crate::report::Used;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Prepare(Plan),
    Ready { endpoints: Vec<SocketAddr>, notes: Vec<String> },
    Start,
    Stop,
    Sent,
    Done(Box<Received>),
}

/// What the receivers of a run are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    #[serde(rename = "structure")]
    pub(super) threading_model: ThreadingModel,
    pub(super) workers: u32,
    pub(super) payload_bytes: usize,
}

/// What the receivers of a run have counted, and how their host was meanwhile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Received {
    pub(super) sockets: Vec<SocketCount>,
    pub(super) used: Used,
    /// Processor time of the receivers alone.
    pub(super) workers_cpu_ns: u64,
    /// What all processors of the host did; null where the kernel does not say.
    pub(super) processors: Option<Shares>,
    /// By how much the host's own count of datagrams that found a full buffer grew; null where it does not say.
    pub(super) rcvbuf_errors: Option<u64>,
}

/// What came at one socket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SocketCount {
    pub(super) address: SocketAddr,
    /// What the kernel dropped at it.
    pub(super) drops: u64,
    /// What each that receives at it has counted.
    pub(super) workers: Vec<Counted>,
}

/// What one receiver has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    /// Of another size than the run's: from somebody else.
    pub(super) foreign: u64,
    pub(super) cpu_ns: u64,
    /// When the first and the last came, on the clock that all processes of the host share.
    pub(super) first_ns: Option<u64>,
    pub(super) last_ns: Option<u64>,
}

/// What a bench says to a receiving process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    Receive(Place),
    Over,
}

/// Where to receive, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    /// Port 0 lets the kernel choose.
    pub(super) address: SocketAddr,
    /// Whether others have sockets at that port, too.
    pub(super) is_shared: bool,
    pub(super) payload_bytes: usize,
    pub(super) buffer_bytes: Option<usize>,
    pub(super) calls: Calls,
}

/// What a receiving process says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromWorker {
    Ready { address: SocketAddr, note: Option<String> },
    Done(SocketCount),
    Failed(String),
}
