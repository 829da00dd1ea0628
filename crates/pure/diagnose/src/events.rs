//! Drop events: datagrams that the kernel freed unread, one by one or in runs of equal ones.

pub(crate) mod checkpoints;
mod fragments;
pub(crate) mod matching;
pub(crate) mod notices;
pub(crate) mod profile;
mod reasons;

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use units::Instant;

/// Consecutive equal datagrams that the kernel freed unread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DropEvent {
    /// Time of the first one.
    #[serde(rename = "at_ns")]
    pub at: Instant,
    /// Reason: the kernel's name without `SKB_DROP_REASON_`; `NOT_SPECIFIED` also where this kernel does not report
    /// it.
    pub reason: Arc<str>,
    /// Function in the kernel, without suffixes of the compiler; `None` where this user may not see it.
    pub location: Option<Arc<str>>,
    /// Cookie of the socket that would have received it; `None` where it was not found yet, or this kernel does not
    /// report it.
    pub socket: Option<u64>,
    /// Number of the network namespace; `None` where the kernel had released it.
    pub namespace: Option<u32>,
    /// Number of the network device; `None` where the kernel had released it.
    pub device: Option<u32>,
    /// True if it had arrived at a device of the namespace.
    pub is_incoming: bool,
    /// Address of the sender; port 0 for the later fragments of a datagram.
    pub source: SocketAddr,
    /// Address of the destination; port 0 for the later fragments of a datagram.
    pub destination: SocketAddr,
    /// Fragment of a datagram; `None` for whole ones.
    pub fragment: Option<Fragment>,
    /// Stream and numbers; `None` where no profile matches, or the start of the payload was not available.
    pub numbers: Option<Numbers>,
    /// Number of datagrams or fragments.
    pub count: u64,
}

impl DropEvent {
    /// Returns reason and place, in the kernel's own names.
    #[must_use]
    pub fn name(&self) -> String {
        let location = self.location.as_deref().map_or_else(String::new, |location| format!(" @ {location}"));
        format!("{}{location}", self.reason)
    }
}

/// Fragment of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
pub struct Fragment {
    /// Identification that all fragments of the datagram share.
    pub id: u32,
    /// True for the first fragment, which has ports and number.
    pub is_first: bool,
}

/// Datagrams of a stream in the order of their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
pub struct Numbers {
    /// Identifier of the stream in its protocol.
    pub stream: u64,
    /// Incarnation of its publisher, 0 where its protocol has none.
    pub incarnation: u64,
    /// First number.
    pub first: u64,
    /// Last number.
    pub last: u64,
}

/// An array in the order of the fields, which is also how it is read.
impl Serialize for Fragment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.id, self.is_first).serialize(serializer)
    }
}

/// An array in the order of the fields, which is also how it is read.
impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.stream, self.incarnation, self.first, self.last).serialize(serializer)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns an event of one datagram without a number.
    pub(crate) fn event(reason: &str) -> DropEvent {
        DropEvent {
            at: Instant::ORIGIN,
            reason: reason.into(),
            location: None,
            socket: None,
            namespace: None,
            device: None,
            is_incoming: true,
            source: "10.0.0.1:4000".parse().unwrap(),
            destination: "10.0.0.2:7400".parse().unwrap(),
            fragment: None,
            numbers: None,
            count: 1,
        }
    }
}
