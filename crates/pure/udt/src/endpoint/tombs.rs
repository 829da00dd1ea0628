//! Sockets that are gone, for as long as their peers may not have heard of it.
//!
//! libudt sends its farewell once; if that is lost, the peer waits 46 s. Here whoever still sends to a socket that is
//! gone is told so again.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;
use wire::udt::{Sequence, SocketId};

const REMEMBERED: Duration = Duration::from_secs(60);
/// Most of them; beyond it the oldest is forgotten.
const MOST: usize = 1_024;

/// The sockets that are gone.
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
    /// The first number of a connection whose peer began anew: its socket stays in use, with other numbers.
    replaced: Option<Sequence>,
}

impl Tombs {
    pub(crate) fn bury(&mut self, now: Instant, id: SocketId, peer: SocketId, address: SocketAddr) {
        self.push(Tomb { id, peer, address, until: now + REMEMBERED, replaced: None });
    }

    /// Remembers a connection whose peer, of that address and socket, began anew.
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

    /// Returns the peer's socket if `id` is gone, `from` was its peer, and that has nothing new in its place.
    pub(crate) fn peer_of(&mut self, now: Instant, id: SocketId, from: SocketAddr) -> Option<SocketId> {
        self.forget(now);
        let is_it = |tomb: &&Tomb| tomb.id == id && tomb.address == from && tomb.replaced.is_none();
        self.gone.iter().find(is_it).map(|tomb| tomb.peer)
    }

    /// Tells whether a handshake is that of a socket that is gone.
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
