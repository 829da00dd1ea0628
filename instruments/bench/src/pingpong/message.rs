//! Messages between the two ends of a ping-pong.
//!
//! ```text
//! client                                    server
//!   Prepare { run, system, .. }        ─▶             makes the far end of the connection
//!                                      ◀─   Ready { endpoint, token }          or Refused
//!   SizeStep { message_bytes, first }  ─▶             answers messages of that size from now on
//!                                      ◀─   SizeStepBegun
//!   SizeStepEnd                        ─▶
//!                                      ◀─   SizeStepEnded { answered }         the number of answers
//!   Finish                             ─▶             closes the far end
//!                                      ◀─   Finished { .. }
//! ```
//!
//! Size steps follow each other over one system, systems over one control connection, until the client says
//! good-bye. A client that cannot open its own end sends `Finish` instead of a size step; if the far end cannot
//! be opened either, its `Refused` may cross that.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::System;
use crate::report::Used;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Prepare {
        run: u32,
        system: System,
        piece_bytes: u32,
        endpoint: Option<SocketAddr>,
    },
    Ready {
        endpoint: SocketAddr,
        token: u64,
    },
    Refused {
        reason: String,
    },
    #[serde(rename = "turn")]
    SizeStep {
        message_bytes: u32,
        first: u64,
    },
    #[serde(rename = "turned")]
    SizeStepBegun,
    #[serde(rename = "turn_end")]
    SizeStepEnd,
    #[serde(rename = "turn_ended")]
    SizeStepEnded {
        answered: u64,
    },
    Finish,
    Finished(Finished),
}

/// The server's results at the end of a connection; all zero if that ended before any message could arrive.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Finished {
    pub(super) used: Used,
    pub(super) evidence: Evidence,
    pub(super) failure: Option<String>,
    pub(super) notes: Vec<String>,
}

/// Datagram counters of an end's socket and assembly; all zero over TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Datagrams that the socket dropped because its receive buffer was full.
    pub dropped_by_socket: u64,
    /// Pieces of messages that were given up already.
    pub late: u64,
    /// Pieces that arrived again.
    pub duplicates: u64,
}
