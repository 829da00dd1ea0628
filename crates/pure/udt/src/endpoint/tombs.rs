//! Sockets that are gone, for as long as their peers may not have heard of it.
//!
//! libudt sends its farewell once; if that is lost, the peer waits 46 s. Here whoever still sends to a socket that is
//! gone is told so again.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;
use wire::udt::SocketId;

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
}

impl Tombs {
    pub(crate) fn bury(&mut self, now: Instant, id: SocketId, peer: SocketId, address: SocketAddr) {
        if self.gone.len() == MOST {
            self.gone.pop_front();
        }
        self.gone.push_back(Tomb { id, peer, address, until: now + REMEMBERED });
    }

    /// Returns the peer's socket if `id` is gone and `from` was its peer.
    pub(crate) fn peer_of(&mut self, now: Instant, id: SocketId, from: SocketAddr) -> Option<SocketId> {
        self.forget(now);
        self.gone.iter().find(|tomb| tomb.id == id && tomb.address == from).map(|tomb| tomb.peer)
    }

    /// Tells whether a socket that is gone had this peer.
    pub(crate) fn was_peer(&mut self, now: Instant, peer: SocketId, from: SocketAddr) -> bool {
        self.forget(now);
        self.gone.iter().any(|tomb| tomb.peer == peer && tomb.address == from)
    }

    fn forget(&mut self, now: Instant) {
        while self.gone.front().is_some_and(|tomb| tomb.until <= now) {
            self.gone.pop_front();
        }
    }
}
