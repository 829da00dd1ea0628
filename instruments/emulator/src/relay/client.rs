//! A client of a relay: its socket towards the target and its two links.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use sys::{OpenError, ReceiveSocket, SendSocket};
use units::Instant;

use crate::account::Account;
use crate::forwarding_queue::ForwardingQueue;
use crate::parcel::Parcel;

use super::{BUFFER_BYTES, RelayOptions};

/// A client of a relay.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) far: ReceiveSocket,
    pub(crate) out: SendSocket,
    pub(crate) forward: ForwardingQueue<Parcel>,
    pub(crate) reverse: ForwardingQueue<Parcel>,
    pub(crate) last_heard: Instant,
}

impl Client {
    /// Opens the socket towards the target for client number `ordinal`.
    pub(crate) fn open(address: SocketAddr, ordinal: u64, options: &RelayOptions) -> Result<Self, OpenError> {
        let (far, out) = towards(options)?;
        let [forward, reverse] = options.links().expect("they were made when the relay was opened");
        let queue =
            |link, direction| ForwardingQueue::new(link, options.seed, &format!("{direction} {ordinal}"));
        let (forward, reverse) = (queue(forward, "up"), queue(reverse, "down"));
        Ok(Self { address, far, out, forward, reverse, last_heard: Instant::ORIGIN })
    }

    /// Returns the accounts of both directions.
    pub(crate) fn accounts(&self) -> [Account; 2] {
        [self.forward.account(), self.reverse.account()]
    }

    /// Returns when the next datagram of either direction is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        Instant::earlier(self.forward.next_due(), self.reverse.next_due())
    }

    /// Returns the number of datagrams the kernel dropped before they could be read.
    pub(crate) fn unseen(&self) -> u64 {
        self.far.meminfo().map_or(0, |memory| u64::from(memory.drops))
    }
}

/// Opens a socket that is connected to the target.
pub(super) fn towards(options: &RelayOptions) -> Result<(ReceiveSocket, SendSocket), OpenError> {
    let any = match options.target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let far = ReceiveSocket::open(&options.receive(any))?;
    let mut out = SendSocket::beside(&far, options.send(), BUFFER_BYTES)?;
    // A connected socket receives from the target alone.
    out.connect(options.target)?;
    Ok((far, out))
}
