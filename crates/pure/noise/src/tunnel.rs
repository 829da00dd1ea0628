//! What a port keeps for one peer's address: its sessions, a handshake under way, and what waits for it.

use core::time::Duration;
use std::collections::VecDeque;

use keys::{PublicKey, Suite};
use snow::HandshakeState;
use units::Instant;

use crate::message::{CODE_BYTES, Code};
use crate::session::Session;

/// Time after which a handshake is given up.
///
/// Source: the WireGuard paper §6.1, `REKEY_ATTEMPT_TIME`.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(90);
/// Wait for the answer to the first attempt; it doubles until [`LAST_WAIT`].
///
/// WireGuard waits 5 s from the start (`REKEY_TIMEOUT`); above this layer an attempt to connect ends after 3 s.
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Longest wait for an answer.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(5);
/// Number of trains that wait for a session; the oldest gives way. A transport sends few before its first answer.
const MAX_HELD: usize = 16;

/// State for one address. It exists only after an authentic handshake, or because this end has something to send.
#[derive(Debug, Default)]
pub(crate) struct Tunnel {
    /// The session that seals.
    pub(crate) current: Option<Session>,
    /// The one before, whose last datagrams may still arrive.
    pub(crate) previous: Option<Session>,
    /// As a responder: the one that its initiator has not used yet.
    pub(crate) next: Option<Session>,
    pub(crate) attempt: Option<Attempt>,
    /// The peer's last cookie, and its arrival.
    pub(crate) cookie: Option<(Instant, [u8; CODE_BYTES])>,
    pub(crate) held: VecDeque<(Vec<u8>, usize)>,
    /// Its entry in the list of timers.
    pub(crate) deadline: Option<Instant>,
}

/// A handshake that this end began.
pub(crate) struct Attempt {
    pub(crate) handshake: Box<HandshakeState>,
    pub(crate) peer: PublicKey,
    pub(crate) suite: Suite,
    pub(crate) index: u32,
    pub(crate) message: Vec<u8>,
    pub(crate) code: Code,
    pub(crate) pace: Pace,
    /// True once this message was sent with the cookie that was asked for.
    pub(crate) is_cookie_taken: bool,
}

/// Times of a handshake's attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) began: Instant,
    pub(crate) wait: Duration,
    /// Longest wait.
    most: Duration,
    pub(crate) retry_at: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, wait: FIRST_WAIT, most: LAST_WAIT, retry_at: now + FIRST_WAIT }
    }

    /// Returns the pace of an attempt that its owner waits for, from now on: without longer waits than these.
    pub(crate) fn waited_for(self, now: Instant, most: Duration) -> Self {
        let most = most.min(LAST_WAIT);
        let (wait, retry_at) = (self.wait.min(most), self.retry_at.min(now + most));
        Self { began: now, wait, most, retry_at }
    }

    /// Returns the pace of the next attempt, with a little chance so that two ends do not keep crossing; `None` if it
    /// is time to give up.
    pub(crate) fn again(self, now: Instant, chance: u32) -> Option<Self> {
        if now.since(self.began) >= GIVE_UP_AFTER {
            return None;
        }
        let wait = (self.wait * 2).min(self.most);
        let jitter = wait / 4 * (chance % 256) / 256;
        Some(Self { wait, retry_at: now + wait + jitter, ..self })
    }
}

impl Tunnel {
    /// Keeps a train until there is a session; returns how many gave way.
    pub(crate) fn hold(&mut self, bytes: &[u8], segment_bytes: usize) -> u64 {
        let gives_way = self.held.len() == MAX_HELD && self.held.pop_front().is_some();
        self.held.push_back((bytes.to_vec(), segment_bytes));
        u64::from(gives_way)
    }

    /// Makes a session the one that seals; returns the one that is forgotten for it.
    pub(crate) fn promote(&mut self, session: Session) -> Option<Session> {
        let replaced = self.current.replace(session)?;
        self.previous.replace(replaced)
    }

    /// Takes the sessions whose time is over.
    pub(crate) fn take_forgotten(&mut self, now: Instant) -> impl Iterator<Item = Session> {
        let slots = [&mut self.current, &mut self.previous, &mut self.next];
        slots.map(|slot| slot.take_if(|session| session.forgotten_at() <= now)).into_iter().flatten()
    }

    /// Returns the keys of those with whom it has a session, or makes one.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PublicKey> {
        let sessions = [&self.current, &self.previous, &self.next].into_iter().flatten();
        sessions.map(|session| session.peer).chain(self.attempt.as_ref().map(|attempt| attempt.peer))
    }

    pub(crate) fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        [&mut self.current, &mut self.previous, &mut self.next].into_iter().flatten()
    }

    /// Returns when something is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let sessions = [&self.current, &self.previous, &self.next].into_iter().flatten();
        let retry = self.attempt.as_ref().map(|attempt| attempt.pace.retry_at);
        sessions.map(Session::forgotten_at).chain(retry).min()
    }
}

impl core::fmt::Debug for Attempt {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "Attempt({:08x}, {:?})", self.index, self.pace)
    }
}
