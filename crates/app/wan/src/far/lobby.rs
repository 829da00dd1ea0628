//! Connections whose peer has not identified itself yet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use engine::ReliablePort;
use relay::frame::{Content, Hello, Message};
use tallycast::udt::PublicKey;
use udt::{Arrival, SocketId};
use units::Instant;

use crate::backfill::is_greeting;

/// Time within which a peer has to identify itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of looks at connections that wait for the end of another one.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of messages that wait for the first: they arrive in any order.
const MAX_MESSAGES: usize = 4_096;
/// Maximum number of connections.
const MAX_WAITING: usize = 64;

/// Connections whose peer has not identified itself yet, and those that wait to be taken.
#[derive(Default)]
pub(super) struct Lobby {
    waiting: BTreeMap<SocketId, Waiting>,
    known: Vec<Newcomer>,
    /// Connections of backfills.
    backfills: Vec<SocketId>,
}

struct Waiting {
    since: Instant,
    messages: Vec<(Vec<u8>, Arrival)>,
}

/// A connection whose peer has identified itself.
pub(super) struct Newcomer {
    pub(super) since: Instant,
    pub(super) socket: SocketId,
    pub(super) peer: SocketAddr,
    /// Key by which it identified itself; none in the clear.
    pub(super) key: Option<PublicKey>,
    pub(super) hello: Hello,
    /// Everything that has arrived.
    pub(super) messages: Vec<(Vec<u8>, Arrival)>,
}

impl Lobby {
    pub(super) fn enter(&mut self, now: Instant, socket: SocketId, port: &ReliablePort) {
        if self.waiting.len() + self.known.len() >= MAX_WAITING {
            return port.leave(socket);
        }
        self.waiting.insert(socket, Waiting { since: now, messages: Vec::new() });
    }

    /// Takes what has arrived, and closes connections that stay silent.
    pub(super) fn hear(&mut self, now: Instant, port: &ReliablePort) {
        let Self { waiting, known, backfills } = self;
        waiting.retain(|socket, it| {
            let mut message = Vec::new();
            let over = loop {
                match port.try_receive_message(*socket, &mut message) {
                    Ok(Some(arrival)) => it.messages.push((std::mem::take(&mut message), arrival)),
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            if !over && it.messages.iter().any(|(bytes, _)| is_greeting(bytes)) {
                backfills.push(*socket);
                return false;
            }
            let hello = it.messages.iter().find_map(|(bytes, _)| hello_of(bytes));
            match (hello, port.peer(*socket)) {
                (Some(hello), Some(peer)) if !over => {
                    let (key, messages) = (port.peer_key(*socket), std::mem::take(&mut it.messages));
                    known.push(Newcomer { since: it.since, socket: *socket, peer, key, hello, messages });
                    return false;
                }
                _ => {}
            }
            let stays = !over && now < it.since + PATIENCE && it.messages.len() <= MAX_MESSAGES;
            if !stays {
                port.leave(*socket);
            }
            stays
        });
    }

    /// Takes the connections that do not have to wait.
    pub(super) fn take_known(&mut self, must_wait: impl Fn(&Newcomer) -> bool) -> Vec<Newcomer> {
        let (stay, go) = std::mem::take(&mut self.known).into_iter().partition(must_wait);
        self.known = stay;
        go
    }

    /// Takes the connections of backfills.
    pub(super) fn take_backfills(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.backfills)
    }

    /// Returns when to look again even without news of the port.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let oldest = self.waiting.values().map(|it| it.since + PATIENCE).min();
        let look = (!self.known.is_empty()).then(|| sys::clock::monotonic() + LOOK);
        Instant::earlier(oldest, look)
    }
}

fn hello_of(bytes: &[u8]) -> Option<Hello> {
    match Message::decode(bytes).ok()?.content {
        Content::Hello(hello) => Some(hello),
        _ => None,
    }
}
