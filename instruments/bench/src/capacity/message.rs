//! Messages between the two ends of a run, and between a bench and its receiving processes.
//!
//! ```text
//! client                                   server
//!   Prepare(plan)                     ─▶             makes its receivers
//!                                     ◀─   Ready { endpoints, notes }
//!   Start                             ─▶             both begin to observe their hosts
//!                                     ◀─   Stop      the server is being ended: send no more
//!   Sent                              ─▶             nothing more comes
//!                                     ◀─   Done(..)  what its receivers counted
//!
//! bench                                    receiving process
//!   Receive(place)                    ─▶
//!                                     ◀─   Ready { address, note }    or a failure, at any time
//!   Over                              ─▶             nothing more comes
//!                                     ◀─   Done(..)
//! ```
//!
//! Messages to and from processes are JSON, one object per line, on their standard streams.

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

/// The number, kind and sockets of a run's receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    #[serde(rename = "structure")]
    pub(super) threading_model: ThreadingModel,
    pub(super) workers: u32,
    pub(super) payload_bytes: usize,
}

/// Counts of a run's receivers, and the state of their host meanwhile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Received {
    pub(super) sockets: Vec<SocketCount>,
    pub(super) used: Used,
    /// Processor time of the receivers alone.
    pub(super) workers_cpu_ns: u64,
    /// Shares of time of all processors of the host; null where the kernel does not report them.
    pub(super) processors: Option<Shares>,
    /// Growth of the host's own count of datagrams that found a full buffer; null where it is not reported.
    pub(super) rcvbuf_errors: Option<u64>,
}

/// Counts of one socket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SocketCount {
    pub(super) address: SocketAddr,
    /// Datagrams that the kernel dropped at it.
    pub(super) drops: u64,
    /// Counts of each receiver at it.
    pub(super) workers: Vec<Counted>,
}

/// Counts of one receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    /// Datagrams of another size than the run's, from other senders.
    pub(super) foreign: u64,
    pub(super) cpu_ns: u64,
    /// Times of the first and last datagram, on the clock that all processes of the host share.
    pub(super) first_ns: Option<u64>,
    pub(super) last_ns: Option<u64>,
}

/// Messages of a bench to a receiving process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    Receive(Place),
    Over,
}

/// Socket at which a process receives, and its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    /// Address to bind; port 0 lets the kernel choose.
    pub(super) address: SocketAddr,
    /// True if other receivers have sockets at that port, too.
    pub(super) is_shared: bool,
    pub(super) payload_bytes: usize,
    pub(super) buffer_bytes: Option<usize>,
    pub(super) calls: Calls,
}

/// Messages of a receiving process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromWorker {
    Ready { address: SocketAddr, note: Option<String> },
    Done(SocketCount),
}
