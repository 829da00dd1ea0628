//! Drop events: datagrams that the kernel freed unread, one by one or in runs of their like.

use std::net::SocketAddr;
use std::sync::Arc;

use units::Instant;

/// Datagrams that the kernel freed unread, alike and in a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropEvent {
    /// When the first was.
    pub at: Instant,
    /// Why: the kernel's own name without `SKB_DROP_REASON_`; `NOT_SPECIFIED` also where this kernel does not tell.
    pub reason: Arc<str>,
    /// Where in the kernel: the function, without what the compiler added to its name; `None` where this user may not see it.
    pub location: Option<Arc<str>>,
    /// The cookie of the socket that would have received it; `None` where it was not found yet, or this kernel does not tell.
    pub socket: Option<u64>,
    /// The number of the network namespace; `None` where the kernel had let go of it.
    pub namespace: Option<u32>,
    /// The number of the network device; `None` where the kernel had let go of it.
    pub device: Option<u32>,
    /// Whether it had come in by a device of the namespace.
    pub is_incoming: bool,
    /// Who sent it; port 0 for the later fragments of a datagram.
    pub source: SocketAddr,
    /// Where it was sent to; port 0 for the later fragments of a datagram.
    pub destination: SocketAddr,
    /// Which fragment of a datagram; `None` for whole ones.
    pub fragment: Option<Fragment>,
    /// Stream and numbers; `None` where no profile fits, or the beginning of the payload was not there.
    pub numbers: Option<Numbers>,
    /// How many datagrams, or fragments.
    pub count: u64,
}

impl DropEvent {
    /// Returns why and where, in the kernel's own names.
    #[must_use]
    pub fn name(&self) -> String {
        let location = self.location.as_deref().map_or_else(String::new, |location| format!(" @ {location}"));
        format!("{}{location}", self.reason)
    }
}

/// Which fragment of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fragment {
    /// What all fragments of the datagram share.
    pub id: u32,
    /// The first has ports and number.
    pub is_first: bool,
}

/// Datagrams of a stream in the order of their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Numbers {
    /// The stream, as its protocol has it.
    pub stream: u64,
    /// The incarnation of its publisher, 0 where its protocol has none.
    pub incarnation: u64,
    /// The first number.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes an event of one datagram without a number.
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
