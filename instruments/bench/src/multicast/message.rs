//! Messages between the two ends of a multicast measurement.
//!
//! ```text
//! client                     server
//!   Prepare { run }     ─▶             makes the members
//!                       ◀─   Ready { endpoint, token }
//!   (datagrams)         ═▶
//!   Sent { .. }         ─▶             waits for the rest, or until it is quiet
//!                       ◀─   Done(..)
//! ```
//!
//! Runs follow one another in this way, until the client says good-bye.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ledger::{Stage, StageCounts};
use probe::flow::FlowSent;
use serde::{Deserialize, Serialize};

use crate::report::{Times, Used};
use crate::throughput::Account;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Prepare { run: u32 },
    Ready { endpoint: SocketAddr, token: u32 },
    Sent { numbered: u64, bytes: u64, refused: BTreeMap<String, u64> },
    Done(Box<Done>),
}

/// Counts of the server for a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// Results by member number; a member that failed has none.
    pub(super) members: BTreeMap<u32, MemberResult>,
    pub(super) used: Used,
    pub(super) failures: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Counts of a member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct MemberResult {
    pub(super) account: Account,
    pub(super) reordered: u64,
    /// Latencies since the sender's call, on this host's clock: meaningful only if the sender has the same
    /// clock.
    pub(super) latency: Option<Times>,
}

/// Returns the sent counts as a message.
pub(super) fn sent(sent: &FlowSent) -> Word {
    let refused = sent.refused.nonzero().map(|(stage, count)| (stage.name().to_owned(), count)).collect();
    Word::Sent { numbered: sent.numbered, bytes: sent.bytes, refused }
}

/// Returns the sent counts as `probe`'s type; unknown stages are left out.
pub(super) fn to_flow(numbered: u64, bytes: u64, by_name: &BTreeMap<String, u64>) -> FlowSent {
    let mut refused = StageCounts::default();
    for (name, count) in by_name {
        if let Ok(stage) = name.parse::<Stage>() {
            refused[stage] = *count;
        }
    }
    FlowSent { numbered, bytes, refused }
}
