//! Between a reliable endpoint and its socket: datagrams in the clear, or inside sessions.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use keys::{PublicKey, Secret, Suite};
use noise::{Config, OVERHEAD_BYTES, Output, SessionStats, Sessions, Train};
use sys::clock;
use udt::{Datagrams, Endpoint, SocketConfig};
use units::Instant;

/// Keys of a port whose datagrams all travel inside sessions; it has no other connections.
#[derive(Clone, Debug)]
pub struct PortKeys {
    /// Private X25519 key of this end.
    pub key: Secret,
    /// Keys of the peers that get a session.
    pub peers: BTreeSet<PublicKey>,
    /// Key of the peer that this end connects to; a port that only listens needs none.
    pub responder: Option<PublicKey>,
    /// Cipher of the sessions that this end begins; the other end answers with the same.
    pub suite: Suite,
    /// 256 random bits, never used before.
    pub seed: Secret,
}

impl PortKeys {
    /// Returns the sessions of a new port.
    pub(super) fn sessions(self) -> Sessions {
        let Self { key, peers, responder, suite, seed } = self;
        Sessions::new(Config { key, peers, responder, suite, seed, started: clock::pair() })
    }
}

/// Makes room in each packet for what a session adds.
pub(super) fn enclosed(config: SocketConfig, is_secured: bool) -> SocketConfig {
    let overhead_bytes = u32::try_from(OVERHEAD_BYTES).expect("a few bytes");
    SocketConfig { enclosing_bytes: if is_secured { overhead_bytes } else { 0 }, ..config }
}

/// The sessions of a port, or none if it is in the clear.
#[derive(Debug)]
pub(super) struct Enclosure(Option<Sessions>);

impl Enclosure {
    pub(super) fn new(keys: Option<PortKeys>) -> Self {
        Self(keys.map(PortKeys::sessions))
    }

    pub(super) const fn is_secured(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn needs_poll(&self) -> bool {
        self.0.as_ref().is_some_and(Sessions::needs_poll)
    }

    pub(super) fn stats(&self) -> Option<SessionStats> {
        self.0.as_ref().map(Sessions::stats)
    }

    pub(super) fn peer(&self, address: SocketAddr) -> Option<PublicKey> {
        self.0.as_ref()?.peer(address)
    }

    pub(super) fn relist(&mut self, peers: &BTreeSet<PublicKey>) {
        if let Some(sessions) = &mut self.0 {
            sessions.relist(peers);
        }
    }

    pub(super) fn renew(&mut self, now: Instant, peer: SocketAddr, most_wait: Duration) {
        if let Some(sessions) = &mut self.0 {
            sessions.renew(now, peer, most_wait);
        }
    }

    /// Gives received datagrams to the endpoint: all in the clear, else only those that a session opens.
    pub(super) fn receive(&mut self, endpoint: &mut Endpoint, now: Instant, datagrams: &Datagrams<'_>) {
        let Some(sessions) = &mut self.0 else { return endpoint.handle(now, datagrams) };
        let Datagrams { from, bytes, segment_bytes, arrived } = *datagrams;
        let opened = sessions.open(now, &Train { peer: from, bytes, segment_bytes });
        if !opened.bytes.is_empty() {
            let (bytes, segment_bytes) = (opened.bytes, opened.segment_bytes);
            endpoint.handle(now, &Datagrams { from, bytes, segment_bytes, arrived });
        }
    }

    /// Returns what is to be sent for a train of the endpoint: itself in the clear, else the sealed one, or nothing
    /// before there is a session.
    pub(super) fn enclose<'a>(&'a mut self, now: Instant, train: Train<'a>) -> Option<Train<'a>> {
        match &mut self.0 {
            Some(sessions) => sessions.seal(now, &train),
            None => Some(train),
        }
    }

    /// Returns the next output of the sessions themselves.
    pub(super) fn poll(&mut self, now: Instant) -> Output<'_> {
        self.0.as_mut().map_or(Output::Idle { deadline: None }, |sessions| sessions.poll(now))
    }
}
