//! The end of a link that dials: one connection after the other, for ever; while one is silent, another beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::{News, ReliablePort, Standing};
use relay::{FirstConnection, Second, SecondConnection, Step, silence_bound};
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
    Making(Attempt),
    Up(Up),
}

/// An attempt to connect.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    /// The address of the peer is looked up.
    LookingUp,
    Connecting(SocketId),
}

/// A connection, and the attempt to make a second one beside it while it is silent.
#[derive(Clone, Copy, Debug)]
struct Up {
    socket: SocketId,
    beside: SecondConnection,
    second: Option<Attempt>,
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
            (State::Making(Attempt::Connecting(_)) | State::Up(_), true) => {
                let change = self.hang_up(now);
                self.state = State::Barred;
                return change;
            }
            (State::Pausing { .. } | State::Making(Attempt::LookingUp), true) => self.state = State::Barred,
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
            State::Up(Up { socket, .. }) => Some(socket),
            State::Making(_) | State::Barred | State::Pausing { .. } => None,
        }
    }

    /// Returns when to poll even without news of the port.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Pausing { until } => Some(until),
            State::Up(Up { beside, .. }) => beside.deadline(),
            State::Making(_) | State::Barred => None,
        }
    }

    /// Proceeds by the port's news; returns the change.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Change> {
        match self.state {
            State::Pausing { until } if now < until => None,
            State::Pausing { .. } => {
                self.state = State::Making(self.begin());
                self.poll(now)
            }
            State::Barred => None,
            State::Making(attempt) => {
                let (attempt, change) = self.proceed(attempt, silence_bound(Duration::ZERO));
                self.state = State::Making(attempt);
                change.or_else(|| self.conclude(now, attempt))
            }
            State::Up(up) => match self.port.standing(up.socket) {
                Some(Standing::Connecting | Standing::Connected) => self.look_beside(now, up),
                Some(Standing::Over(reason)) => Some(self.ended(now, reason)),
                None => Some(self.ended(now, CloseReason::Local)),
            },
        }
    }

    /// Ends the present connection; the next attempt follows after a pause.
    pub(crate) fn hang_up(&mut self, now: Instant) -> Option<Change> {
        match &mut self.state {
            State::Up(up) => {
                let second = up.second.take();
                self.drop_attempt(second);
            }
            State::Making(Attempt::Connecting(_)) => {}
            State::Pausing { .. } | State::Making(Attempt::LookingUp) | State::Barred => return None,
        }
        Some(self.ended(now, CloseReason::Local))
    }

    fn begin(&mut self) -> Attempt {
        self.peer.ask();
        Attempt::LookingUp
    }

    /// Connects once the peer's address is known. A peer that was started again has no session any more: another one is
    /// made at intervals that follow from the silence after which the peer counts as lost.
    fn proceed(&mut self, attempt: Attempt, silence: Duration) -> (Attempt, Option<Change>) {
        let had_trouble = self.peer.trouble().is_some();
        if matches!(attempt, Attempt::Connecting(_)) || !self.peer.is_answered() {
            return (attempt, None);
        }
        self.port.renew_session(self.peer.last(), silence / 2);
        let socket = self.port.begin_to_connect(self.peer.last(), self.config.clone());
        let is_news = !had_trouble && self.peer.trouble().is_some();
        (Attempt::Connecting(socket), is_news.then_some(Change::Unresolved))
    }

    /// Takes the outcome of the only attempt.
    fn conclude(&mut self, now: Instant, attempt: Attempt) -> Option<Change> {
        let Attempt::Connecting(socket) = attempt else { return None };
        match self.port.standing(socket) {
            Some(Standing::Connecting) => None,
            Some(Standing::Connected) => {
                let beside = SecondConnection::new(now);
                self.state = State::Up(Up { socket, beside, second: None });
                self.pauses = Pauses::new();
                Some(Change::Up(socket))
            }
            Some(Standing::Over(reason)) => Some(self.ended(now, reason)),
            None => Some(self.ended(now, CloseReason::Local)),
        }
    }

    /// Makes a second connection while the first is silent, and goes on with the one that answers.
    fn look_beside(&mut self, now: Instant, mut up: Up) -> Option<Change> {
        let mut change = None;
        while let Some((heard, round_trip)) = self.port.heard(up.socket) {
            let silence = silence_bound(round_trip);
            if let Some(attempt) = up.second {
                let (attempt, news) = self.proceed(attempt, silence);
                (up.second, change) = (Some(attempt), change.or(news));
            }
            let second = self.second_of(&mut up);
            match up.beside.poll(now, &FirstConnection { heard, round_trip }, second) {
                None => break,
                Some(Step::Ask) => {
                    self.port.ask(up.socket);
                    self.port.renew_session(self.peer.last(), silence / 2);
                }
                Some(Step::Begin) => up.second = Some(self.begin()),
                Some(Step::GiveUp) => self.drop_attempt(up.second.take()),
                Some(Step::Replace) => {
                    self.state = State::Up(up);
                    return Some(self.ended(now, CloseReason::Replaced));
                }
            }
        }
        self.state = State::Up(up);
        change
    }

    /// Returns where the second connection of a link stands, and forgets one that has failed.
    fn second_of(&self, up: &mut Up) -> Second {
        match up.second {
            None => Second::Missing,
            Some(Attempt::LookingUp) => Second::Connecting,
            Some(Attempt::Connecting(socket)) => match self.port.standing(socket) {
                Some(Standing::Connecting) => Second::Connecting,
                Some(Standing::Connected) => Second::Connected,
                Some(Standing::Over(_)) | None => {
                    self.drop_attempt(up.second.take());
                    Second::Missing
                }
            },
        }
    }

    fn drop_attempt(&self, attempt: Option<Attempt>) {
        if let Some(Attempt::Connecting(socket)) = attempt {
            self.port.leave(socket);
        }
    }

    /// Goes on without the present connection: with the second one, or the attempt to make it; otherwise after a pause.
    fn ended(&mut self, now: Instant, reason: CloseReason) -> Change {
        let (present, second) = match self.state {
            State::Up(Up { socket, second, .. }) => (Some(Attempt::Connecting(socket)), second),
            State::Making(attempt) => (Some(attempt), None),
            State::Pausing { .. } | State::Barred => (None, None),
        };
        let was_up = matches!(self.state, State::Up(_));
        self.drop_attempt(present);
        let retry_in = if second.is_some() { Duration::ZERO } else { self.pauses.next() };
        self.state = second.map_or(State::Pausing { until: now + retry_in }, State::Making);
        Change::Down { was_up, reason, retry_in }
    }
}

#[cfg(test)]
mod tests;
