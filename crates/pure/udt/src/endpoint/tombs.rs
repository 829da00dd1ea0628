//! Removed sockets, remembered while their peers may not know of it.
//!
//! libudt sends its shutdown once; if that is lost, the peer waits 46 s. Here every peer that still sends to a
//! removed socket is sent another shutdown.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;
use wire::udt::{Sequence, SocketId};

const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number; beyond it the oldest is forgotten.
const MOST: usize = 1_024;

/// The removed sockets.
#[derive(Debug, Default)]
pub(crate) struct Tombs {
    gone: VecDeque<Tomb>,
}

#[derive(Debug)]
struct Tomb {
    id: SocketId,
    peer: SocketId,
    address: SocketAddr,
    until: Instant,
    /// First number of a connection whose peer restarted: its socket stays in use, with other numbers.
    replaced: Option<Sequence>,
}

impl Tombs {
    pub(crate) fn bury(&mut self, now: Instant, id: SocketId, peer: SocketId, address: SocketAddr) {
        self.push(Tomb { id, peer, address, until: now + REMEMBERED, replaced: None });
    }

    /// Remembers a connection whose peer, of this address and socket, restarted.
    pub(crate) fn bury_replaced(
        &mut self,
        now: Instant,
        id: SocketId,
        (address, peer): (SocketAddr, SocketId),
        first: Sequence,
    ) {
        self.push(Tomb { id, peer, address, until: now + REMEMBERED, replaced: Some(first) });
    }

    fn push(&mut self, tomb: Tomb) {
        if self.gone.len() == MOST {
            self.gone.pop_front();
        }
        self.gone.push_back(tomb);
    }

    /// Returns the peer's socket if `id` is removed, `from` was its peer, and no new connection uses that socket.
    pub(crate) fn peer_of(&mut self, now: Instant, id: SocketId, from: SocketAddr) -> Option<SocketId> {
        self.forget(now);
        let is_it = |tomb: &&Tomb| tomb.id == id && tomb.address == from && tomb.replaced.is_none();
        self.gone.iter().find(is_it).map(|tomb| tomb.peer)
    }

    /// Returns whether a handshake is that of a removed socket.
    pub(crate) fn was_peer(
        &mut self,
        now: Instant,
        peer: SocketId,
        from: SocketAddr,
        first: Sequence,
    ) -> bool {
        self.forget(now);
        let has_first = |tomb: &Tomb| tomb.replaced.is_none_or(|replaced| replaced == first);
        self.gone.iter().any(|tomb| tomb.peer == peer && tomb.address == from && has_first(tomb))
    }

    fn forget(&mut self, now: Instant) {
        while self.gone.front().is_some_and(|tomb| tomb.until <= now) {
            self.gone.pop_front();
        }
    }
}
