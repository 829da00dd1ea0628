//! The end of a link that dials: one connection after the other, for ever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::{News, ReliablePort, Standing};
use udt::{CloseReason, SocketConfig, SocketId};
use units::Instant;

use crate::look_up::{LookUp, PeerAddress};
use crate::pauses::Pauses;

/// A connection to the other relay that is made again whenever it ends.
pub(crate) struct Link {
    port: Arc<ReliablePort>,
    peer: PeerAddress,
    config: SocketConfig,
    state: State,
    pauses: Pauses,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next attempt begins at `until`.
    Pausing {
        until: Instant,
    },
    /// The peer is not listed.
    Barred,
    /// The address of the peer is looked up.
    LookingUp,
    Connecting(SocketId),
    Up(SocketId),
}

/// Change of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// It is connected.
    Up(SocketId),
    /// The peer's address cannot be found; the last one is tried again.
    Unresolved,
    /// Its connection has ended, or could not be made.
    Down {
        /// True if it was connected before.
        was_up: bool,
        reason: CloseReason,
        retry_in: Duration,
    },
}

impl Link {
    /// Begins to connect with the first [`poll`](Self::poll).
    pub(crate) fn new(
        now: Instant,
        port: impl Into<Arc<ReliablePort>>,
        peer: SocketAddr,
        config: SocketConfig,
    ) -> Self {
        let (port, peer, pauses) = (port.into(), PeerAddress::fixed(peer), Pauses::new());
        Self { port, peer, config, state: State::Pausing { until: now }, pauses }
    }

    /// Looks the peer's address up before each attempt.
    pub(crate) fn follow(&mut self, look_up: LookUp, news: Arc<News>) {
        self.peer.follow(look_up, news);
    }

    /// Returns the peer's address as it was found last.
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.peer.last()
    }

    /// Returns why the peer's address was not found.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.peer.trouble()
    }

    /// Ends the connection and begins none while `is_barred`.
    pub(crate) fn bar(&mut self, now: Instant, is_barred: bool) -> Option<Change> {
        match (self.state, is_barred) {
            (State::Barred, false) => self.state = State::Pausing { until: now },
            (State::Connecting(socket) | State::Up(socket), true) => {
                let change = self.ended(now, socket, CloseReason::Local);
                self.state = State::Barred;
                return Some(change);
            }
            (State::Pausing { .. } | State::LookingUp, true) => self.state = State::Barred,
            _ => {}
        }
        None
    }

    pub(crate) fn port(&self) -> &ReliablePort {
        &self.port
    }

    /// Returns the connection, if there is one.
    pub(crate) const fn socket(&self) -> Option<SocketId> {
        match self.state {
            State::Up(socket) => Some(socket),
            State::Connecting(_) | State::LookingUp | State::Barred | State::Pausing { .. } => None,
        }
    }

    /// Returns when to poll even without news of the port.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Pausing { until } => Some(until),
            State::Connecting(_) | State::LookingUp | State::Barred | State::Up(_) => None,
        }
    }

    /// Proceeds by the port's news; returns the change.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Change> {
        match self.state {
            State::Pausing { until } if now < until => None,
            State::Pausing { .. } => {
                self.peer.ask();
                self.state = State::LookingUp;
                self.poll(now)
            }
            State::LookingUp => {
                let had_trouble = self.peer.trouble().is_some();
                if !self.peer.is_answered() {
                    return None;
                }
                let socket = self.port.begin_to_connect(self.peer.last(), self.config.clone());
                self.state = State::Connecting(socket);
                (!had_trouble && self.peer.trouble().is_some()).then_some(Change::Unresolved)
            }
            State::Barred => None,
            State::Connecting(socket) => match self.port.standing(socket) {
                Some(Standing::Connecting) => None,
                Some(Standing::Connected) => {
                    self.state = State::Up(socket);
                    self.pauses = Pauses::new();
                    Some(Change::Up(socket))
                }
                Some(Standing::Over(reason)) => Some(self.ended(now, socket, reason)),
                None => Some(self.ended(now, socket, CloseReason::Local)),
            },
            State::Up(socket) => match self.port.standing(socket) {
                Some(Standing::Connecting | Standing::Connected) => None,
                Some(Standing::Over(reason)) => Some(self.ended(now, socket, reason)),
                None => Some(self.ended(now, socket, CloseReason::Local)),
            },
        }
    }

    /// Ends the present connection; the next attempt follows after a pause.
    pub(crate) fn hang_up(&mut self, now: Instant) {
        match self.state {
            State::Connecting(socket) | State::Up(socket) => {
                self.ended(now, socket, CloseReason::Local);
            }
            State::Pausing { .. } | State::LookingUp | State::Barred => {}
        }
    }

    fn ended(&mut self, now: Instant, socket: SocketId, reason: CloseReason) -> Change {
        let was_up = matches!(self.state, State::Up(_));
        self.port.leave(socket);
        let retry_in = self.pauses.next();
        self.state = State::Pausing { until: now + retry_in };
        Change::Down { was_up, reason, retry_in }
    }
}

#[cfg(test)]
mod tests;
