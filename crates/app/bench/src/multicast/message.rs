//! What the two ends of a multicast measurement say to each other.
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
//! So one run after the other, until the client says good-bye.

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

/// What the server counted in a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// By the number of the member; one that failed has none.
    pub(super) members: BTreeMap<u32, MemberResult>,
    pub(super) used: Used,
    pub(super) failures: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// What a member counted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct MemberResult {
    pub(super) account: Account,
    pub(super) reordered: u64,
    /// Since the sender's call, on this host's clock: means something only if the sender has the same.
    pub(super) latency: Option<Times>,
}

/// Says what was sent in words that cross the connection.
pub(super) fn sent(sent: &FlowSent) -> Word {
    let refused = sent.refused.nonzero().map(|(stage, count)| (stage.name().to_owned(), count)).collect();
    Word::Sent { numbered: sent.numbered, bytes: sent.bytes, refused }
}

/// Returns it in the words of `probe`; stages that do not exist are left out.
pub(super) fn to_flow(numbered: u64, bytes: u64, by_name: &BTreeMap<String, u64>) -> FlowSent {
    let mut refused = StageCounts::default();
    for (name, count) in by_name {
        if let Ok(stage) = name.parse::<Stage>() {
            refused[stage] = *count;
        }
    }
    FlowSent { numbered, bytes, refused }
}
