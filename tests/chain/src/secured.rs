//! Sessions of Noise around the endpoint of a relay, as its port has them.

use core::fmt;
use core::time::Duration;

use keys::{PublicKey, Secret, Suite};
use noise::{Config, Output, Sessions, Train};
use sim::{Address, Arrival, NodeId, Socket};
use udt::{Datagrams, Endpoint};
use units::{Instant, WallTime};
use zeroize::Zeroizing;

use crate::driver;

/// Private keys of the near end and the far end.
const PRIVATE: [u8; 2] = [1, 2];

/// The sessions of one end.
pub(crate) struct Secured {
    sessions: Sessions,
}

impl fmt::Debug for Secured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.sessions.stats(), formatter)
    }
}

impl Secured {
    /// Makes the sessions of the end that begins them.
    pub(crate) fn near(seed: u64, now: Instant) -> Self {
        Self::new(seed, 0, Some(public(1)), now)
    }

    /// Makes the sessions of the end that answers.
    pub(crate) fn far(seed: u64, now: Instant) -> Self {
        Self::new(seed, 1, None, now)
    }

    fn new(seed: u64, own: usize, responder: Option<PublicKey>, now: Instant) -> Self {
        let mut random = [0; 32];
        random[..8].copy_from_slice(&seed.to_le_bytes());
        let wall = i64::try_from(now.as_nanos()).expect("a short scene");
        let sessions = Sessions::new(Config {
            key: private(own),
            peers: [public(1 - own)].into(),
            responder,
            suite: Suite::default(),
            seed: Secret::new(Zeroizing::new(random)),
            started: (now, WallTime::from_nanos(1_000_000_000_000 + wall)),
        });
        Self { sessions }
    }

    /// Opens what arrives and hands it over.
    pub(crate) fn receive(&mut self, now: Instant, endpoint: &mut Endpoint, arrival: &Arrival<'_>) {
        let (peer, bytes) = (driver::address(arrival.from), arrival.bytes);
        let opened = self.sessions.open(now, &Train { peer, bytes, segment_bytes: bytes.len() });
        if !opened.bytes.is_empty() {
            let (bytes, segment_bytes, arrived) = (opened.bytes, opened.segment_bytes, arrival.arrived);
            endpoint.handle(now, &Datagrams { from: peer, bytes, segment_bytes, arrived });
        }
    }

    /// Seals datagrams and sends them.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        socket: &mut Socket<'_>,
        to: NodeId,
        train: driver::Train<'_>,
    ) {
        let train = Train { peer: driver::address(to), bytes: train.0, segment_bytes: train.1 };
        if let Some(sealed) = self.sessions.seal(now, &train) {
            socket.send_train(Address::Node(to), sealed.bytes, sealed.segment_bytes);
        }
    }

    /// Makes another session.
    pub(crate) fn renew(&mut self, now: Instant, peer: NodeId, most_wait: Duration) {
        self.sessions.renew(now, driver::address(peer), most_wait);
    }

    /// Sends handshakes and what waited for them; returns when it wants to again.
    pub(crate) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        loop {
            match self.sessions.poll(now) {
                Output::Transmit(train) => {
                    let to = Address::Node(driver::node_at(train.peer));
                    socket.send_train(to, train.bytes, train.segment_bytes);
                }
                Output::Idle { deadline } => return deadline,
            }
        }
    }

    /// Returns the number of sessions so far.
    pub(crate) const fn sessions(&self) -> u64 {
        self.sessions.stats().sessions
    }
}

fn private(end: usize) -> Secret {
    Secret::new(Zeroizing::new([PRIVATE[end]; 32]))
}

fn public(end: usize) -> PublicKey {
    noise::public_key(&private(end))
}
