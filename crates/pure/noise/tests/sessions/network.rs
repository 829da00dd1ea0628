//! A network of two ports with a seed: it delays, loses, repeats and reorders, and records all that was sent.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use keys::{PublicKey, Secret, Suite};
use noise::{Config, Output, SessionStats, Sessions, Train};
use units::{Instant, Random, WallTime};
use zeroize::Zeroizing;

/// Number of the key whose owner begins sessions with ChaCha20-Poly1305.
pub(crate) const CHACHA: u8 = 9;

/// Returns the private key of a number.
pub(crate) fn key(number: u8) -> Secret {
    Secret::new(Zeroizing::new([number; 32]))
}

/// Returns the public key of a number.
pub(crate) fn public(number: u8) -> PublicKey {
    noise::public_key(&key(number))
}

/// Computes the code of a captured handshake anew, as `docs/protocol/noise.md` describes it.
pub(crate) fn code(initiation: &mut [u8], receiver: u8) {
    let of = |key: &[u8], bytes: &[u8]| {
        ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key), bytes)
    };
    let key = of(b"tallycast udt noise 1 code", &public(receiver).0);
    let code = of(key.as_ref(), &initiation[..112]);
    initiation[112..128].copy_from_slice(&code.as_ref()[..16]);
}

/// Puts the proof of a cookie into a captured handshake, as `docs/protocol/noise.md` describes it.
pub(crate) fn prove(initiation: &mut [u8], cookie: &[u8; 16]) {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, cookie);
    let proof = ring::hmac::sign(&key, &initiation[..128]);
    initiation[128..].copy_from_slice(&proof.as_ref()[..16]);
}

pub(crate) struct Node {
    own: u8,
    peers: Vec<u8>,
    responder: Option<u8>,
    runs: u8,
    pub(crate) sessions: Sessions,
}

impl Node {
    /// A port that begins sessions.
    pub(crate) fn client(own: u8, responder: u8) -> Self {
        Self::new(own, &[], Some(responder))
    }

    /// A port that only answers.
    pub(crate) fn server(own: u8, peers: &[u8]) -> Self {
        Self::new(own, peers, None)
    }

    fn new(own: u8, peers: &[u8], responder: Option<u8>) -> Self {
        let sessions = sessions(own, peers, responder, 0, Instant::from_nanos(0));
        Self { own, peers: peers.to_vec(), responder, runs: 0, sessions }
    }

    /// Forgets everything, as a program that was started again.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.runs += 1;
        self.sessions = sessions(self.own, &self.peers, self.responder, self.runs, now);
    }
}

fn sessions(own: u8, peers: &[u8], responder: Option<u8>, runs: u8, now: Instant) -> Sessions {
    let mut seed = [own; 32];
    seed[0] = runs;
    Sessions::new(Config {
        key: key(own),
        peers: peers.iter().map(|peer| public(*peer)).collect(),
        responder: responder.map(public),
        suite: if own == CHACHA { Suite::ChaCha20Poly1305 } else { Suite::Aes256Gcm },
        seed: Secret::new(Zeroizing::new(seed)),
        started: (
            now,
            WallTime::from_nanos(1_700_000_000_000_000_000 + i64::try_from(now.as_nanos()).expect("it fits")),
        ),
    })
}

pub(crate) struct Network {
    pub(crate) nodes: [Node; 2],
    pub(crate) now: Instant,
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
    pub(crate) repeats: f64,
    pub(crate) disorder: Duration,
    random: Random,
    /// What is on the way, by its arrival.
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
    captured: Vec<Vec<u8>>,
    sent: [usize; 2],
    received: [Vec<Vec<u8>>; 2],
    first_arrival: Option<Duration>,
    began: Instant,
    numbers: u64,
}

impl Network {
    pub(crate) fn new(seed: u64, nodes: [Node; 2]) -> Self {
        let now = Instant::from_nanos(0);
        Self {
            nodes,
            now,
            delay: Duration::from_millis(10),
            loss: 0.0,
            repeats: 0.0,
            disorder: Duration::ZERO,
            random: Random::new(seed),
            flying: BTreeMap::new(),
            count: 0,
            captured: Vec::new(),
            sent: [0; 2],
            received: [Vec::new(), Vec::new()],
            first_arrival: None,
            began: now,
            numbers: 0,
        }
    }

    pub(crate) fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, u8::try_from(node).expect("it fits") + 1], 7_400))
    }

    pub(crate) fn stats(&self, node: usize) -> SessionStats {
        self.nodes[node].sessions.stats()
    }

    pub(crate) fn peer(&self, node: usize, of: usize) -> Option<PublicKey> {
        self.nodes[node].sessions.peer(self.address(of))
    }

    pub(crate) fn received(&self, node: usize) -> &[Vec<u8>] {
        &self.received[node]
    }

    pub(crate) fn sent_by(&self, node: usize) -> usize {
        self.sent[node]
    }

    pub(crate) fn captured(&self) -> Vec<Vec<u8>> {
        self.captured.clone()
    }

    pub(crate) fn first_arrival(&self) -> Duration {
        self.first_arrival.expect("something arrived")
    }

    /// Sends a datagram of the transport.
    pub(crate) fn send(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let peer = self.address(to);
        let train = Train { peer, bytes, segment_bytes: bytes.len() };
        if let Some(sealed) = self.nodes[from].sessions.seal(self.now, &train) {
            let bytes = sealed.bytes.to_vec();
            self.fly(from, to, &bytes);
        }
        self.poll();
    }

    /// Sends numbered datagrams in both directions.
    pub(crate) fn exchange_for(&mut self, duration: Duration, interval: Duration) {
        let end = self.now + duration;
        while self.now < end {
            for (from, to) in [(0, 1), (1, 0)] {
                // A port that only answers has nothing to say before.
                if from == 0 || self.nodes[from].responder.is_some() || self.peer(from, to).is_some() {
                    let number = self.numbers.to_le_bytes();
                    self.numbers += 1;
                    self.send(from, to, &number);
                }
            }
            self.run(interval);
        }
        self.run(self.delay * 12);
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let deadline = self.poll();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let next = Instant::earlier(deadline, arrival).filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            while let Some(((at, number), _)) = self.flying.first_key_value() {
                let (at, number) = (*at, *number);
                if at > self.now {
                    break;
                }
                let (to, bytes) = self.flying.remove(&(at, number)).expect("it was there");
                self.arrive(to, &bytes);
            }
        }
        self.now = end;
    }

    fn arrive(&mut self, to: usize, bytes: &[u8]) {
        let peer = self.address(1 - to);
        let train = Train { peer, bytes, segment_bytes: bytes.len() };
        let opened = self.nodes[to].sessions.open(self.now, &train);
        if !opened.bytes.is_empty() {
            self.received[to].push(opened.bytes.to_vec());
            self.first_arrival.get_or_insert(self.now.since(self.began));
        }
    }

    /// Takes all output; returns the earliest deadline.
    fn poll(&mut self) -> Option<Instant> {
        let mut earliest = None;
        for node in 0..2 {
            loop {
                match self.nodes[node].sessions.poll(self.now) {
                    Output::Transmit(train) => {
                        let (peer, bytes) = (train.peer, train.bytes.to_vec());
                        // What goes to an attacker's address does not come here.
                        if peer == self.address(1 - node) {
                            self.fly(node, 1 - node, &bytes);
                        }
                    }
                    Output::Idle { deadline } => {
                        earliest = Instant::earlier(earliest, deadline);
                        break;
                    }
                }
            }
        }
        earliest
    }

    fn fly(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.sent[from] += 1;
        self.captured.push(bytes.to_vec());
        let copies = 1 + usize::from(self.random.chance(self.repeats));
        for _ in 0..copies {
            if self.random.chance(self.loss) {
                continue;
            }
            let disorder = self.random.below(u64::try_from(self.disorder.as_nanos()).expect("it fits") + 1);
            let at = self.now + self.delay + Duration::from_nanos(disorder);
            self.count += 1;
            self.flying.insert((at, self.count), (to, bytes.to_vec()));
        }
    }

    /// Returns how many numbered datagrams were sent, and how many arrived.
    pub(crate) fn sums(&self) -> (usize, usize) {
        let received = self.received.iter().flatten().filter(|bytes| bytes.len() == 8).count();
        (usize::try_from(self.numbers).expect("it fits"), received)
    }

    pub(crate) fn missing(&self) -> usize {
        let (sent, received) = self.sums();
        sent - received
    }

    /// Returns how many numbered datagrams arrived more than once.
    pub(crate) fn repeated(&self) -> usize {
        let numbered = || self.received.iter().flatten().filter(|bytes| bytes.len() == 8);
        numbered().count() - numbered().collect::<BTreeSet<_>>().len()
    }
}
