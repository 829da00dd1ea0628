//! Finding of a loss: count, place, cause and remedy.

use std::fmt;
use std::net::SocketAddr;

use ledger::Stage;
use serde::Serialize;

use crate::{BufferCause, Datagrams, Remedy};

/// Loss at one stage and place, as far as it was seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Stage of the loss.
    pub stage: Stage,
    /// Place on this host.
    pub place: Place,
    /// Number of lost units.
    pub count: u64,
    /// Unit of the count.
    pub unit: Unit,
    /// True if the counters give a sum over several places or stages: shares are estimates.
    pub is_apportioned: bool,
    /// Counters that show the loss.
    pub evidence: Vec<Evidence>,
    /// Fill levels that matter at this stage, at the time of the snapshot.
    pub levels: Vec<Level>,
    /// Cause, as far as it was seen.
    pub cause: Option<BufferCause>,
    /// Explanation of the loss, as text.
    pub why: String,
    /// Remedies, the most likely first.
    pub remedies: Vec<Remedy>,
    /// Lost datagrams, as far as drop events name them.
    pub datagrams: Vec<Datagrams>,
    /// Number of datagrams without an event; `None` without events.
    pub not_observed: Option<u64>,
}

/// Place on a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Socket: its cookie, its address, and pid and name of its owner where that was seen.
    Socket {
        /// Identity among all sockets of the host.
        cookie: u64,
        /// Address that it is bound to.
        local: SocketAddr,
        /// Pid and name of its owner.
        owner: Option<(u32, String)>,
    },
    /// Network device, by its name.
    Device(String),
    /// This network namespace; the counter does not distinguish sockets.
    Namespace,
    /// This host; the counter does not distinguish namespaces.
    Host,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { local, owner: Some((pid, name)), .. } => {
                write!(out, "socket {local} of {name}[{pid}]")
            }
            Self::Socket { local, owner: None, .. } => write!(out, "socket {local}"),
            Self::Device(name) => write!(out, "device {name}"),
            Self::Namespace => out.write_str("this network namespace"),
            Self::Host => out.write_str("this host"),
        }
    }
}

/// Unit of a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Datagrams.
    Datagrams,
    /// Datagrams, or trains of them where the socket takes trains: a lower bound.
    DatagramsOrTrains,
    /// Packets of any protocol; fragments and trains count once.
    Packets,
    /// Failures, each of one fragment or more.
    Failures,
}

/// Rise of a counter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Evidence {
    /// Name of the counter in the kernel.
    pub counter: String,
    /// Difference of the counter.
    pub rise: u64,
}

/// Level at a moment, which may rise and fall.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Level {
    /// Name in the kernel, or a disk.
    pub name: String,
    /// Level at the time of the snapshot.
    pub value: u64,
    /// Maximum level, where it is known.
    pub limit: Option<u64>,
}

impl Unit {
    /// Returns the unit as text.
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
