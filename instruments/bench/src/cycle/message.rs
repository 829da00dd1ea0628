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

use probe::cycle::{Account, Limits, Schedule, Sent};
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
    pub(super) end_beyond: Option<Limits>,
}

/// Messages of the bench.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    Prepare(Task),
    Start { start_ns: u64 },
    Stop,
    Close(Sent),
}

/// Messages of a process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    Ready { endpoint: String, notes: Vec<String> },
    Settled,
    Sent { sent: Sent, cpu_ns: u64 },
    Received { account: Account, cpu_ns: u64, dropped_by_socket: Option<u64> },
}

impl Task {
    /// Returns the timetable of the run for its start time.
    pub(super) fn schedule(&self, start_ns: u64) -> Schedule {
        let start = Instant::from_nanos(start_ns);
        Schedule { start, cycle_time: self.cycle_time, cycles: self.cycles }
    }
}
