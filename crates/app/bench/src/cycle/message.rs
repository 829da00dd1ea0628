//! What the bench and its two processes say to each other: one JSON object a line, on their standard streams.
//!
//! ```text
//! bench                                writer, reader
//!   Prepare(task)               ─▶
//!                               ◀─     Ready { endpoint, notes }     or Failed, at any time
//!   Start { start_ns }          ─▶
//!                               ◀─     Settled                       reader: the run cannot be good any more
//!   Stop                        ─▶                                   to the writer: send no further cycle
//!                               ◀─     Sent { .. }                   writer: done
//!   Close { sent }              ─▶                                   to the reader: what is not there by now is lost
//!                               ◀─     Received { .. }               reader: the account
//! ```
//!
//! A pair serves many runs, one after the other, and ends when its standard input does.

use std::time::Duration;

use probe::cycle::{Account, Callback, Callbacks, Cycles, Limits, Pieces, Schedule, Sent};
use serde::{Deserialize, Serialize};
use units::Instant;

use super::transport::Transport;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Writer,
    Reader,
}

/// What both processes know of a run before it begins.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) role: Role,
    pub(super) run: u32,
    pub(super) transport: Transport,
    /// Where the two meet; made by whichever is prepared first.
    pub(super) endpoint: String,
    #[serde(rename = "multiplicity")]
    pub(super) elements: u32,
    pub(super) cycles: u32,
    pub(super) cycle_time: Duration,
    /// The largest piece, header included.
    pub(super) unit_bytes: usize,
    /// For `udp` the receive buffer to ask for, for `shm` the size of the ring.
    pub(super) buffer_bytes: usize,
    /// Beyond these limits the run ends at once; none if it goes on to its last cycle.
    pub(super) end_beyond: Option<EndBeyond>,
}

/// The limits beyond which a run ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct EndBeyond {
    pub(super) late_allowed: u64,
    pub(super) complete_ppm: u32,
}

/// What the bench says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    Prepare(Task),
    Start { start_ns: u64 },
    Stop,
    Close(#[serde(with = "SentWords")] Sent),
}

/// What a process answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    Ready {
        endpoint: String,
        notes: Vec<String>,
    },
    Settled,
    Sent {
        #[serde(with = "SentWords")]
        sent: Sent,
        cpu_ns: u64,
    },
    Received {
        #[serde(with = "AccountWords")]
        account: Account,
        cpu_ns: u64,
        dropped_by_socket: Option<u64>,
    },
    Failed(String),
}

impl Task {
    /// Returns the times of the run, once its start is known.
    pub(super) fn schedule(&self, start_ns: u64) -> Schedule {
        let start = Instant::from_nanos(start_ns);
        Schedule { start, cycle_time: self.cycle_time, cycles: self.cycles }
    }
}

impl From<EndBeyond> for Limits {
    fn from(EndBeyond { late_allowed, complete_ppm }: EndBeyond) -> Self {
        Self { late_allowed, complete_ppm }
    }
}

// The words of `probe` in JSON. That crate knows no format, so its fields are named here once more; the compiler
// compares them.

#[derive(Serialize, Deserialize)]
#[serde(remote = "Callback", deny_unknown_fields)]
pub(super) struct CallbackWords {
    count: u64,
    late: u64,
    least_slack_ns: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Sent")]
pub(super) struct SentWords {
    cycles: u64,
    handed: u64,
    refused: u64,
    #[serde(with = "CallbackWords")]
    callback: Callback,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cycles", deny_unknown_fields)]
struct CyclesWords {
    planned: u64,
    sent: u64,
    complete: u64,
    incomplete: u64,
    missing: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pieces", deny_unknown_fields)]
struct PiecesWords {
    handed: u64,
    refused: u64,
    received: u64,
    wrong: u64,
    absent: u64,
    duplicates: u64,
    foreign: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Callbacks", deny_unknown_fields)]
struct CallbacksWords {
    #[serde(with = "CallbackWords")]
    writer: Callback,
    #[serde(with = "CallbackWords")]
    reader: Callback,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Account", deny_unknown_fields)]
pub(super) struct AccountWords {
    #[serde(with = "CyclesWords")]
    cycles: Cycles,
    #[serde(with = "PiecesWords")]
    pieces: Pieces,
    #[serde(with = "CallbacksWords")]
    callbacks: Callbacks,
}
