//! Messages between the bench and its two processes: one JSON object per line, on their standard streams.
//!
//! ```text
//! bench                                writer, reader
//!   Prepare(task)               ─▶
//!                               ◀─     Ready { endpoint, notes }     or a failure, at any time
//!   Start { start_ns }          ─▶
//!                               ◀─     Settled                       reader: the run has failed already
//!   Stop                        ─▶                                   to the writer: send no further cycle
//!                               ◀─     Sent { .. }                   writer: done
//!   Close { sent }              ─▶                                   to the reader: what is missing now is lost
//!                               ◀─     Received { .. }               reader: the account
//! ```
//!
//! A pair serves many runs in turn, and ends when its standard input does.

use std::time::Duration;

use probe::cycle::{Account, Callback, Callbacks, Cycles, Limits, Pieces, Schedule, Sent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Instant;

use super::transport::Transport;

/// Role of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Writer,
    Reader,
}

/// Parameters of a run that both processes get before it begins.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) role: Role,
    pub(super) run: u32,
    pub(super) transport: Transport,
    /// Name of the endpoint that both use; created by the process that is prepared first.
    pub(super) endpoint: String,
    #[serde(rename = "multiplicity")]
    pub(super) elements: u32,
    pub(super) cycles: u32,
    pub(super) cycle_time: Duration,
    /// Maximum size of a piece, header included.
    pub(super) unit_bytes: usize,
    /// For `udp` the receive buffer to request, for `shm` the size of the ring.
    pub(super) buffer_bytes: usize,
    /// Limits beyond which the run ends at once; none if it continues to its last cycle.
    pub(super) end_beyond: Option<EndBeyond>,
}

/// The limits beyond which a run ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct EndBeyond {
    pub(super) late_allowed: u64,
    pub(super) complete_ppm: u32,
}

/// Messages of the bench.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    Prepare(Task),
    Start { start_ns: u64 },
    Stop,
    Close(#[serde(with = "SentWords")] Sent),
}

/// Messages of a process.
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
}

impl Task {
    /// Returns the timetable of the run for its start time.
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

// The types of `probe` in JSON. That crate knows no format, so its fields are repeated here; the compiler
// compares them.

/// Callbacks and their deadlines: callback k, from 0, is late after start + (k + 1) cycle times.
#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Callback", deny_unknown_fields)]
pub(super) struct CallbackWords {
    /// Number of callbacks.
    count: u64,
    /// Number of late ones.
    late: u64,
    /// Time from the closest callback to its deadline; negative if it came after, null without any.
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

/// Cycles: sent = complete + incomplete + missing.
#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Cycles", deny_unknown_fields)]
struct CyclesWords {
    /// Planned for the run.
    planned: u64,
    /// Sent.
    sent: u64,
    /// All pieces arrived as they were sent.
    complete: u64,
    /// Some pieces arrived.
    incomplete: u64,
    /// No piece arrived.
    missing: u64,
}

/// Pieces: handed = received + wrong + absent; refused ones are among the absent.
#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Pieces", deny_unknown_fields)]
struct PiecesWords {
    /// Handed to the transport.
    handed: u64,
    /// Not taken by the transport.
    refused: u64,
    /// Arrived as they were sent.
    received: u64,
    /// Arrived with other contents only.
    wrong: u64,
    /// Did not arrive.
    absent: u64,
    /// Arrived again; not in the sum.
    duplicates: u64,
    /// Of no piece of this run; not in the sum.
    foreign: u64,
}

/// Callbacks of both ends.
#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Callbacks", deny_unknown_fields)]
struct CallbacksWords {
    /// The writer's.
    #[serde(with = "CallbackWords")]
    #[schemars(with = "CallbackWords")]
    writer: Callback,
    /// The reader's.
    #[serde(with = "CallbackWords")]
    #[schemars(with = "CallbackWords")]
    reader: Callback,
}

/// Account of everything that was sent.
#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Account", deny_unknown_fields)]
pub(super) struct AccountWords {
    /// Cycles.
    #[serde(with = "CyclesWords")]
    #[schemars(with = "CyclesWords")]
    cycles: Cycles,
    /// Pieces.
    #[serde(with = "PiecesWords")]
    #[schemars(with = "PiecesWords")]
    pieces: Pieces,
    /// Callbacks.
    #[serde(with = "CallbacksWords")]
    #[schemars(with = "CallbacksWords")]
    callbacks: Callbacks,
}
