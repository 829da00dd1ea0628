//! A node of the virtual network with an endpoint on it, and its application.

pub(crate) mod driver;
pub(crate) mod live;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use congestion::{Acked, CongestionControl, Environment, Factory, Lost, Policy};
use sim::{Arrival, Node, NodeId};
use udt::{CloseReason, Endpoint, EndpointConfig, Event, Sent, SocketConfig, SocketId, SocketType, Terms};
use units::{Instant, Random};

use driver::Application;
pub(crate) use driver::address;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Additive increase, multiplicative decrease: enough to move data through any scene.
#[derive(Clone, Debug)]
pub(crate) struct Aimd(f64);

impl CongestionControl for Aimd {
    fn policy(&self) -> Policy {
        Policy::window(self.0)
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, acked: &Acked) {
        self.0 += 4.0 * f64::from(acked.newly) / self.0;
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.0 = (self.0 / 2.0).max(4.0);
        }
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        self.0 = 4.0;
    }
}

#[derive(Debug)]
pub(crate) struct Aimds;

impl Factory for Aimds {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(Aimd(64.0))
    }
}

/// The work of an application on each of its connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Number of bytes that it sends on a stream before it closes, if it is to close.
    pub(crate) send_bytes: u64,
    pub(crate) closes: bool,
    /// Messages, with their size, their lifetime, and whether they are ordered.
    pub(crate) messages: Vec<(usize, Option<Duration>, bool)>,
    /// Time before which it does not read.
    pub(crate) reads_from: Instant,
    /// Maximum number of bytes per read.
    pub(crate) reads_bytes: usize,
}

/// The application's view of a connection.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) received: u64,
    pub(crate) wrong_bytes: u64,
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) expired: Vec<u64>,
    pub(crate) connected_at: Option<Instant>,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) done_at: Option<Instant>,
    pub(crate) events: Vec<Event>,
    queued: u64,
    queued_messages: usize,
    is_closing: bool,
}

/// A host with one endpoint.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) work: Work,
    pub(crate) seen: BTreeMap<SocketId, Seen>,
    listens: bool,
    expects_bytes: u64,
}

pub(crate) fn config(kind: SocketType) -> SocketConfig {
    SocketConfig::with(kind, Arc::new(Aimds))
}

/// Pattern repeated in every stream: long, and of a length that no packet or buffer has, so that misplaced bytes are
/// detected. Created once, because scenes are run by the thousand.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(1);
    (0..100_003).map(|_| random.next_u64() as u8).collect()
});

/// Returns at most `count` bytes of every stream from a position on.
pub(crate) fn bytes_from(place: u64, count: u64) -> &'static [u8] {
    let begin = usize::try_from(place % PATTERN.len() as u64).expect("within the pattern");
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    &PATTERN[begin..PATTERN.len().min(begin.saturating_add(count))]
}

/// Returns the number of bytes that differ from those of every stream at this position.
fn wrong_bytes(mut place: u64, mut bytes: &[u8]) -> u64 {
    let mut wrong = 0;
    while !bytes.is_empty() {
        let right = bytes_from(place, bytes.len() as u64);
        let (these, rest) = bytes.split_at(right.len());
        if these != right {
            wrong += these.iter().zip(right).filter(|(one, other)| one != other).count() as u64;
        }
        place += right.len() as u64;
        bytes = rest;
    }
    wrong
}

/// Returns the bytes of message number `index`: the number, as far as it fits, and a part of the pattern.
#[must_use]
pub(crate) fn message(index: usize, size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (index as u32).to_le_bytes().into_iter().take(size).collect();
    let mut place = index as u64 * 1_009;
    while bytes.len() < size {
        let more = bytes_from(place, (size - bytes.len()) as u64);
        place += more.len() as u64;
        bytes.extend_from_slice(more);
    }
    bytes
}

impl Host {
    pub(crate) fn new(seed: u64, work: Work) -> Self {
        let endpoint = Endpoint::new(&EndpointConfig { seed, secret: [7; 16] });
        Self { endpoint, work, seen: BTreeMap::new(), listens: false, expects_bytes: 0 }
    }

    pub(crate) fn listening(mut self, config: SocketConfig) -> Self {
        self.endpoint.listen(config, 8).expect("the only listener");
        self.listens = true;
        self
    }

    pub(crate) fn expecting(mut self, bytes: u64) -> Self {
        self.expects_bytes = bytes;
        self
    }

    /// Returns the view of the only connection.
    pub(crate) fn only(&self) -> &Seen {
        &self.seen[&self.only_id()]
    }

    /// Returns the only connection that opened, or the only one if none did: a client that repeats its handshake
    /// after the listener has given up the first one opens another.
    pub(crate) fn only_id(&self) -> SocketId {
        let has_opened = |(_, seen): &(&SocketId, &Seen)| seen.connected_at.is_some();
        let opened: Vec<SocketId> = self.seen.iter().filter(has_opened).map(|(id, _)| *id).collect();
        let all: Vec<SocketId> = self.seen.keys().copied().collect();
        let ids = if opened.is_empty() { &all } else { &opened };
        assert_eq!(ids.len(), 1, "{:?}", self.seen);
        ids[0]
    }

    /// Connects to another host.
    pub(crate) fn connect(&mut self, now: Instant, to: NodeId, config: SocketConfig) -> SocketId {
        let id = self.endpoint.connect(now, address(to), config);
        self.seen.insert(id, Seen::default());
        id
    }

    pub(crate) fn rendezvous(&mut self, now: Instant, to: NodeId, config: SocketConfig) -> SocketId {
        let id = self.endpoint.rendezvous(now, address(to), config);
        self.seen.insert(id, Seen::default());
        id
    }

    fn note(&mut self, now: Instant, id: SocketId, event: Event) {
        if let Event::Accepted { .. } = event {
            assert!(self.endpoint.accept().is_some(), "an accepted connection waits");
        }
        let seen = self.seen.entry(id).or_default();
        seen.events.push(event);
        match event {
            Event::Connected | Event::Accepted { .. } => seen.connected_at = Some(now),
            Event::Expired { tag, .. } => seen.expired.push(tag),
            Event::Closed(reason) => seen.closed = Some(reason),
            Event::Readable
            | Event::Writable
            | Event::PeerError { .. }
            | Event::PmtuBlackHole { .. }
            | Event::LinkDown
            | Event::LinkUp => {}
        }
    }

    /// Runs the application; returns when it wants to run again.
    fn act(&mut self, now: Instant) -> Option<Instant> {
        let ids: Vec<SocketId> = self.seen.keys().copied().collect();
        for id in ids {
            self.send(now, id);
            if now >= self.work.reads_from {
                self.read(now, id);
            }
        }
        Some(self.work.reads_from).filter(|from| *from > now)
    }

    fn send(&mut self, now: Instant, id: SocketId) {
        let Some(seen) = self.seen.get_mut(&id).filter(|seen| seen.connected_at.is_some()) else { return };
        while seen.queued < self.work.send_bytes {
            let count = (self.work.send_bytes - seen.queued).min(10_000);
            match self.endpoint.send(id, bytes_from(seen.queued, count)) {
                Ok(0) | Err(_) => break,
                Ok(taken) => seen.queued += taken as u64,
            }
        }
        while let Some((size, lifetime, is_ordered)) = self.work.messages.get(seen.queued_messages) {
            let bytes = message(seen.queued_messages, *size);
            let deadline = lifetime.map(|lifetime| now + lifetime);
            let terms = Terms {
                is_ordered: *is_ordered,
                deadline,
                tag: seen.queued_messages as u64,
                ..Terms::default()
            };
            if self.endpoint.send_message(now, id, &bytes, terms) != Ok(Sent::Queued) {
                break;
            }
            seen.queued_messages += 1;
        }
        let is_done = seen.queued == self.work.send_bytes && seen.queued_messages == self.work.messages.len();
        if is_done && self.work.closes && !seen.is_closing {
            seen.is_closing = true;
            self.endpoint.close(now, id);
        }
    }

    fn read(&mut self, now: Instant, id: SocketId) {
        let Some(seen) = self.seen.get_mut(&id) else { return };
        let mut bytes = vec![0; self.work.reads_bytes.max(1_000)];
        loop {
            let count = self.endpoint.receive(id, &mut bytes);
            seen.wrong_bytes += wrong_bytes(seen.received, &bytes[..count]);
            seen.received += count as u64;
            if count == 0 {
                break;
            }
        }
        let mut message = Vec::new();
        while self.endpoint.receive_message(id, &mut message).is_some() {
            seen.messages.push(core::mem::take(&mut message));
        }
        if self.expects_bytes > 0 && seen.received == self.expects_bytes {
            seen.done_at.get_or_insert(now);
        }
    }
}

impl Application for Host {
    fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    fn note(&mut self, now: Instant, id: SocketId, event: Event) {
        self.note(now, id, event);
    }

    fn act(&mut self, now: Instant) -> Option<Instant> {
        self.act(now)
    }
}

impl Node for Host {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        driver::receive(&mut self.endpoint, now, arrival);
    }

    fn poll(&mut self, now: Instant, socket: &mut sim::Socket<'_>) -> Option<Instant> {
        driver::poll(self, now, socket)
    }
}
