//! A finding: what was lost, where, why, and what helps.

use std::net::SocketAddr;

use ledger::Stage;

use crate::{Cause, Datagrams, Remedy};

/// A loss at one stage and place, as far as it was seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Where on the way.
    pub stage: Stage,
    /// Where on this host.
    pub place: Place,
    /// How many were lost.
    pub count: u64,
    /// Of what.
    pub unit: Unit,
    /// The counters tell how many were lost at several places or stages, and not how many at each: shares are estimates.
    pub is_apportioned: bool,
    /// By which counts.
    pub evidence: Vec<Evidence>,
    /// Fill levels that matter at this stage, when the snapshot was taken.
    pub levels: Vec<Level>,
    /// Why, as far as it was seen.
    pub cause: Option<Cause>,
    /// What it means, in words.
    pub why: String,
    /// What helps, the likeliest first.
    pub remedies: Vec<Remedy>,
    /// Which they were, as far as drop events name them.
    pub datagrams: Vec<Datagrams>,
    /// How many of them no event names; `None` without events.
    pub not_observed: Option<u64>,
}

/// A place on a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A socket: its number, where it is bound, and process and name of its owner where that was seen.
    Socket {
        /// Its identity among all sockets of the host.
        cookie: u64,
        /// Where it is bound.
        local: SocketAddr,
        /// Whose it is.
        owner: Option<(u32, String)>,
    },
    /// A network device, by its name.
    Device(String),
    /// This network namespace; the counter does not tell for which socket.
    Namespace,
    /// This host: the counter does not tell for which namespace.
    Host,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Datagrams.
    Datagrams,
    /// Datagrams, or trains of them where the socket takes trains: a bound from below.
    DatagramsOrTrains,
    /// Packets of any protocol; fragments and trains count once.
    Packets,
    /// Failures, each of one fragment or more.
    Failures,
}

/// By how much a count rose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// The kernel's own name.
    pub counter: String,
    /// By how much.
    pub rise: u64,
}

/// What stood at a moment, and does not only grow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Level {
    /// The kernel's own name, or a disk's.
    pub name: String,
    /// How much it was.
    pub value: u64,
    /// How much it may be, where that is known.
    pub limit: Option<u64>,
}

impl Unit {
    /// Returns the unit in words.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Datagrams => "datagrams",
            Self::DatagramsOrTrains => "datagrams (or trains)",
            Self::Packets => "packets",
            Self::Failures => "failures",
        }
    }
}
