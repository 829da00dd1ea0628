//! A publisher and a reader of a secured stream in the virtual network, and an attacker that sees all they send.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cast::receive::{self, Event, ReaderIdentity};
use cast::secure::{ControlOpener, ControlSealer, Gate, GateEvent, Passed, UnauthenticCounts};
use cast::send::{self, Beginning, Pacing, SenderConfig, Sending};
use cast::{Receiver, Sender};
use keys::{Membership, Token};
use ledger::LedgerConfig;
use sample::{Channel, Dtype, Schema};
use sim::{Address, Arrival, Group, Node, NodeId, Socket};
use units::{Epoch, Instant, Random, ReaderId, SampleRate, WallTime};
use wire::{Clock, Datagram, Description, SecuredHead};

use crate::laboratory::{Laboratory, wall};

pub(crate) const GROUP: Group = Group(1);
pub(crate) const PUBLISHER: NodeId = NodeId(0);
pub(crate) const READER: NodeId = NodeId(1);
pub(crate) const ATTACKER: NodeId = NodeId(2);
/// No node: the publisher's address once it has moved.
const MOVED: NodeId = NodeId(9);
/// Samples of the publisher's blocks, each of which makes a datagram.
pub(crate) const BLOCK_SAMPLES: u64 = 10;
/// Rate of the samples, if a scene has no other.
const HZ: u32 = 10_000;

pub(crate) enum Part {
    Publisher(Box<Publisher>),
    Reader(Box<Reader>),
    Attacker(Box<Attacker>),
}

pub(crate) struct Publisher {
    membership: Arc<Membership>,
    sender: Sender,
    opener: ControlOpener,
    clock: HostClock,
    rate: SampleRate,
    next_block: Instant,
    next_index: u64,
    end: Instant,
    /// Memberships, epochs and clocks to come.
    changes: VecDeque<(Instant, Change)>,
    buffer: Vec<u8>,
    pub(crate) unauthentic: UnauthenticCounts,
    pub(crate) reports: u64,
    /// Bytes of each nonce under each key.
    nonces: Nonces,
}

pub(crate) enum Change {
    Membership(Arc<Membership>),
    /// A restart with other keys.
    Restart(Box<SenderConfig>),
    /// UTC of the host is set to differ by this from the scene's. Units: nanoseconds.
    Clock(i64),
}

/// Removes the next change if its time has come.
fn due(changes: &mut VecDeque<(Instant, Change)>, now: Instant) -> Option<Change> {
    changes.front().is_some_and(|(at, _)| *at <= now).then(|| changes.pop_front()).flatten().map(|(_, it)| it)
}

/// A host's UTC, which may be wrong.
#[derive(Clone, Copy, Default)]
struct HostClock {
    /// Difference to the scene's. Units: nanoseconds.
    ahead_ns: i64,
}

impl HostClock {
    fn at(self, now: Instant) -> WallTime {
        wall(now).offset(self.ahead_ns)
    }
}

/// A check that no key encrypts two contents under one nonce.
#[derive(Default)]
struct Nonces {
    seen: BTreeMap<String, Vec<u8>>,
}

pub(crate) struct Reader {
    membership: Arc<Membership>,
    pub(crate) gate: Gate,
    pub(crate) receiver: Receiver,
    sealer: ControlSealer,
    clock: HostClock,
    /// Memberships and clocks to come.
    changes: VecDeque<(Instant, Change)>,
    /// From then on the publisher sends from another address.
    moves: Option<Instant>,
    pub(crate) events: Vec<GateEvent>,
    /// The newest secret of a datagram that arrived, and the number of later ones with older secrets.
    pub(crate) newest: Token,
    pub(crate) overtaken: u64,
    pub(crate) delivered: u64,
    /// Samples that ended accounts miss, explained or not.
    pub(crate) missing: u64,
    pub(crate) accounts: Vec<String>,
    pub(crate) ended: u64,
    nonces: Nonces,
}

/// Sends what it captured, changed or not, and what it made up.
pub(crate) struct Attacker {
    /// Number of its datagrams for each that it captures; 0: it only listens.
    pub(crate) rate: u64,
    random: Random,
    captured: Vec<Vec<u8>>,
    outgoing: Vec<(Address, Vec<u8>)>,
    pub(crate) sent: u64,
    /// Of a laboratory with other secrets under the same tokens.
    foreign_sealer: ControlSealer,
}

pub(crate) fn description() -> Description {
    let rate = SampleRate::hz(HZ).unwrap();
    Description {
        name: "lab/probe".parse().unwrap(),
        schema: Schema::new(Dtype::F4, rate, vec![Channel::new("value", "V")]).unwrap(),
        report_port: 7_400,
        station: "daq".to_owned(),
        unknown: sample::UnknownEntries::new(),
    }
}

/// Lets a publisher send a block of samples in every interval of this length, and at once.
pub(crate) fn with_interval(mut config: SenderConfig, interval: Duration) -> SenderConfig {
    let hz = u128::from(BLOCK_SAMPLES) * 1_000_000_000 / interval.as_nanos();
    config.description.schema.rate = SampleRate::hz(u32::try_from(hz).unwrap()).unwrap();
    config.pacing = Pacing::Unlimited { train: 1 };
    config
}

/// The configuration of a publisher without keys.
pub(crate) fn clear_config(epoch: Epoch) -> SenderConfig {
    SenderConfig {
        description: description(),
        epoch,
        datagram_bytes: 548,
        linger: Duration::ZERO,
        clock: Clock::System,
        destinations: 2,
        pacing: Pacing::default(),
        sending: Sending::Always,
        beginning: Beginning::Now,
        predecessor: None,
        security: None,
        relayed: None,
        deadline: None,
    }
}

pub(crate) fn config(
    laboratory: &mut Laboratory,
    membership: &Arc<Membership>,
    epoch: Epoch,
    now: Instant,
) -> SenderConfig {
    SenderConfig { security: Some(laboratory.security(membership, now)), ..clear_config(epoch) }
}

fn address(node: NodeId) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(0x0a00_0000 | node.0).into(), 7_400)
}

impl Nonces {
    fn see(&mut self, bytes: &[u8]) {
        let head = SecuredHead::read(bytes).expect("a secured stream sends nothing else");
        let key = match head.kind {
            wire::Kind::Data | wire::Kind::Descriptor => "stream".to_owned(),
            wire::Kind::Tally => format!("tally {}", head.destination),
            wire::Kind::Report | wire::Kind::Announcement | wire::Kind::Request => format!("{:?}", head.salt),
        };
        let place = format!("{} {key} {} {:?} {}", head.token, head.stream, head.epoch, head.nonce);
        let first = self.seen.entry(place).or_insert_with(|| bytes.to_vec());
        assert_eq!(first, bytes, "one nonce encrypts two contents: {head:?}");
    }
}

impl Publisher {
    pub(crate) fn new(membership: &Arc<Membership>, config: SenderConfig, end: Instant) -> Self {
        let now = Instant::ORIGIN;
        let ahead_ns = config.security.as_ref().map_or(0, |security| security.wall.nanos_since(wall(now)));
        let rate = config.description.schema.rate;
        let sender = Sender::new(config, 1, now).unwrap();
        Self {
            membership: Arc::clone(membership),
            buffer: vec![0; sender.train_bytes()],
            sender,
            opener: ControlOpener::default(),
            clock: HostClock { ahead_ns },
            rate,
            next_block: now,
            next_index: 0,
            end,
            changes: VecDeque::new(),
            unauthentic: UnauthenticCounts::default(),
            reports: 0,
            nonces: Nonces::default(),
        }
    }

    pub(crate) fn changes(mut self, at: Instant, change: Change) -> Self {
        self.changes.push_back((at, change));
        self
    }

    /// Returns UTC of its host.
    pub(crate) fn wall(&self, now: Instant) -> WallTime {
        self.clock.at(now)
    }

    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let mut bytes = arrival.bytes.to_vec();
        let size_bytes = match self.opener.open(&self.membership.keys, self.wall(now), &mut bytes) {
            Ok(size_bytes) => size_bytes,
            Err(reason) => return self.unauthentic.count(reason, 1),
        };
        match Datagram::decode(&bytes[..size_bytes]).unwrap() {
            Datagram::Report(report) => {
                self.reports += 1;
                let (from, size_bytes) = (address(arrival.from).ip(), arrival.bytes.len());
                self.sender.handle(now, send::Input::Report { report: &report, from, size_bytes });
            }
            Datagram::Request(request) => self.sender.handle(now, send::Input::Request(&request)),
            other => panic!("{other:?}"),
        }
    }

    /// Takes up its membership, and UTC of its host.
    fn adopt(&mut self, now: Instant) {
        let (membership, wall) = (&self.membership, self.wall(now));
        self.sender.handle(now, send::Input::Membership { membership, wall });
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        while let Some(change) = due(&mut self.changes, now) {
            match change {
                Change::Membership(membership) => {
                    self.membership = membership;
                    self.adopt(now);
                }
                Change::Clock(ahead_ns) => {
                    self.clock = HostClock { ahead_ns };
                    self.adopt(now);
                }
                Change::Restart(config) => {
                    let mut config = *config;
                    config.predecessor = Some(self.sender.as_predecessor());
                    self.sender = Sender::new(config, 1, now).unwrap();
                    self.next_index = 0;
                }
            }
        }
        while self.next_block <= now && self.next_block < self.end {
            let first_index = self.next_index;
            let bytes: Vec<u8> = (first_index..first_index + BLOCK_SAMPLES)
                .flat_map(|index| u32::try_from(index).unwrap().to_le_bytes())
                .collect();
            let t0 = self.rate.time_of(first_index, 0, WallTime::from_nanos(0));
            self.sender.handle(now, send::Input::Samples { first_index, t0, bytes: &bytes });
            self.next_index += BLOCK_SAMPLES;
            self.next_block += self.rate.duration_of(BLOCK_SAMPLES);
        }
        if self.next_block >= self.end {
            self.sender.handle(now, send::Input::Finish);
        }
        loop {
            match self.sender.poll(now, &mut self.buffer) {
                send::Output::Transmit { destinations, segment_bytes, size_bytes, .. } => {
                    for datagram in self.buffer[..size_bytes].chunks(segment_bytes) {
                        self.nonces.see(datagram);
                        for destination in destinations.clone() {
                            // The second destination is the attacker, who sees the first as well.
                            let to = if destination == 0 {
                                Address::Group(GROUP)
                            } else {
                                Address::Node(ATTACKER)
                            };
                            socket.send(to, datagram);
                        }
                    }
                }
                send::Output::Event(_) => {}
                send::Output::Idle { deadline } => {
                    let block = (self.next_block < self.end).then_some(self.next_block);
                    let change = self.changes.front().map(|(at, _)| *at);
                    return [deadline, block, change].into_iter().flatten().min();
                }
            }
        }
    }
}

impl Reader {
    pub(crate) fn new(laboratory: &mut Laboratory, membership: &Arc<Membership>) -> Self {
        Self::with_clock(laboratory, membership, 0)
    }

    /// Creates a reader whose UTC differs by `ahead_ns` from the scene's.
    pub(crate) fn with_clock(
        laboratory: &mut Laboratory,
        membership: &Arc<Membership>,
        ahead_ns: i64,
    ) -> Self {
        let identity = ReaderIdentity { id: ReaderId(7), name: "reader".to_owned(), receive_buffer_bytes: 0 };
        let (now, salt, clock) = (Instant::ORIGIN, laboratory.salt(), HostClock { ahead_ns });
        // It need not learn how far datagrams overtake each other.
        let ledger = LedgerConfig { reorder_count: 64, ..LedgerConfig::default() };
        Self {
            gate: Gate::new(Arc::clone(membership), now, clock.at(now), 0x6e6f_6e63_6573),
            receiver: Receiver::new(identity, ledger, 7),
            sealer: ControlSealer::new(membership, salt, clock.at(now)),
            membership: Arc::clone(membership),
            clock,
            changes: VecDeque::new(),
            moves: None,
            events: Vec::new(),
            newest: Token(0),
            overtaken: 0,
            delivered: 0,
            missing: 0,
            accounts: Vec::new(),
            ended: 0,
            nonces: Nonces::default(),
        }
    }

    pub(crate) fn gets(self, at: Instant, membership: Arc<Membership>) -> Self {
        self.changes(at, Change::Membership(membership))
    }

    pub(crate) fn changes(mut self, at: Instant, change: Change) -> Self {
        self.changes.push_back((at, change));
        self
    }

    /// Sees the publisher at another address from `at` on, and does not reach it at the first one.
    pub(crate) fn sees_a_move(mut self, at: Instant) -> Self {
        self.moves = Some(at);
        self
    }

    /// Returns the address of the publisher.
    fn publisher_address(&self, now: Instant) -> SocketAddr {
        address(if self.moves.is_some_and(|at| now >= at) { MOVED } else { PUBLISHER })
    }

    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let mut bytes = arrival.bytes.to_vec();
        let segment_bytes = bytes.len().max(1);
        // An attacker writes any source address.
        let is_publisher = arrival.from == PUBLISHER || bytes.len().is_multiple_of(2);
        let from = if is_publisher { self.publisher_address(now) } else { address(arrival.from) };
        if let Some(head) = SecuredHead::read(&bytes).filter(|_| arrival.from == PUBLISHER) {
            self.overtaken += u64::from(head.token < self.newest);
            self.newest = self.newest.max(head.token);
        }
        let Self { gate, receiver, .. } = self;
        gate.pass(now, &mut bytes, segment_bytes, from, &mut |passed| take(receiver, now, passed));
        self.events.extend(core::iter::from_fn(|| gate.next_event()));
        receiver.check().unwrap();
    }

    fn advance(&mut self, now: Instant) {
        let Self { gate, receiver, .. } = self;
        gate.advance(now, &mut |passed| take(receiver, now, passed));
        self.events.extend(core::iter::from_fn(|| gate.next_event()));
        receiver.handle(now, receive::Input::Advance);
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        while let Some(change) = due(&mut self.changes, now) {
            match change {
                Change::Membership(membership) => self.membership = membership,
                Change::Clock(ahead_ns) => self.clock = HostClock { ahead_ns },
                Change::Restart(_) => unreachable!("a publisher's"),
            }
            let wall = self.clock.at(now);
            self.gate.adopt(now, &self.membership, wall);
            self.sealer.renew(&self.membership, wall, keys::Salt([0xee; 16]));
        }
        let (wall, publisher) = (self.clock.at(now), self.publisher_address(now));
        let mut buffer = [0; 2_048];
        loop {
            match self.receiver.poll(now, &mut buffer) {
                receive::Output::Transmit { to, size_bytes } => {
                    let size_bytes = self.sealer.seal(wall, &mut buffer, size_bytes).unwrap();
                    self.nonces.see(&buffer[..size_bytes]);
                    if to == publisher {
                        socket.send(Address::Node(PUBLISHER), &buffer[..size_bytes]);
                    }
                    socket.send(Address::Node(ATTACKER), &buffer[..size_bytes]);
                }
                receive::Output::Event(Event::Block { block, dtype, .. }) => {
                    let (positions, mut expected) = (block.positions(dtype), block.position);
                    for element in block.payload.pieces().flat_map(|piece| piece.chunks_exact(4)) {
                        assert_eq!(u64::from(u32::from_le_bytes(element.try_into().unwrap())), expected);
                        expected += 1;
                    }
                    self.delivered += positions.end - positions.start;
                }
                receive::Output::Event(Event::Ended { account, .. }) => {
                    self.ended += 1;
                    let rows = &account.elements;
                    self.missing += rows.next - rows.first - rows.delivered;
                    self.accounts.push(format!("{account:?}"));
                }
                receive::Output::Event(_) => {}
                receive::Output::Idle { deadline } => {
                    let next = self.changes.front().map(|(at, _)| *at);
                    let deadlines = [deadline.filter(|at| *at > now), next, self.gate.deadline()];
                    return deadlines.into_iter().flatten().min();
                }
            }
        }
    }
}

/// Hands over to a receiver what a gate passes.
pub(crate) fn take(receiver: &mut Receiver, now: Instant, passed: Passed<'_>) {
    let input = match passed {
        Passed::Train { bytes, segment_bytes, from } => receive::Input::Train(receive::Train {
            bytes,
            segment_bytes,
            from,
            drops: None,
            is_authentic: true,
        }),
        Passed::Epoch { stream, epoch, news } => receive::Input::Epoch { stream, epoch, news },
    };
    receiver.handle(now, input);
}

impl Attacker {
    pub(crate) fn new(seed: u64, rate: u64, foreign: &Membership) -> Self {
        let mut random = Random::for_purpose(seed, "attacker");
        let salt = keys::Salt(core::array::from_fn(|_| u8::try_from(random.below(256)).unwrap()));
        let foreign_sealer = ControlSealer::new(foreign, salt, wall(Instant::ORIGIN));
        Self { rate, random, captured: Vec::new(), outgoing: Vec::new(), sent: 0, foreign_sealer }
    }

    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        self.captured.push(arrival.bytes.to_vec());
        for _ in 0..self.rate {
            let bytes = self.attack(now);
            let to = if self.random.chance(0.8) { Address::Node(READER) } else { Address::Node(PUBLISHER) };
            self.outgoing.push((to, bytes));
        }
    }

    fn attack(&mut self, now: Instant) -> Vec<u8> {
        let index = self.random.below(self.captured.len() as u64) as usize;
        let mut bytes = self.captured[index].clone();
        match self.random.below(8) {
            // Repeated as it was.
            0 | 1 => bytes,
            // Changed in one bit.
            2 => {
                let bit = self.random.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            }
            // Cut, or with another number.
            3 => {
                bytes.truncate(self.random.below(bytes.len() as u64) as usize);
                bytes
            }
            4 => {
                bytes[40..48].copy_from_slice(&self.random.below(1_000_000).to_le_bytes());
                bytes
            }
            // With the epoch of a publisher to come.
            5 => {
                bytes[24..32].copy_from_slice(&(2_000 + self.random.below(10)).to_le_bytes());
                bytes
            }
            // Clear, in the stream's name.
            6 => self.clear(),
            // Of a laboratory with other secrets under the same tokens.
            _ => {
                let mut buffer = [0; 2_048];
                let size_bytes = self.request(&mut buffer);
                let size_bytes = self.foreign_sealer.seal(wall(now), &mut buffer, size_bytes).unwrap();
                buffer[..size_bytes].to_vec()
            }
        }
    }

    fn request(&mut self, buffer: &mut [u8]) -> usize {
        let description = description();
        let request = wire::Request {
            stream: wire::stream_id(&description.name, &description.schema),
            epoch: Epoch { start_ns: 1_000, incarnation: 11 },
            reader: ReaderId(self.random.below(9)),
            what: wire::Wanted::Descriptor,
            waiting: None,
            nonce: None,
        };
        request.encode(buffer).unwrap()
    }

    fn clear(&mut self) -> Vec<u8> {
        let mut buffer = [0; 2_048];
        let epoch = Epoch { start_ns: 1_000 + self.random.below(5_000), incarnation: 11 };
        let mut sender = Sender::new(clear_config(epoch), self.random.below(100), Instant::ORIGIN).unwrap();
        let polls = self.random.below(3);
        let mut size_bytes = self.request(&mut buffer);
        for _ in 0..polls {
            if let send::Output::Transmit { size_bytes: size, .. } = sender.poll(Instant::ORIGIN, &mut buffer)
            {
                size_bytes = size;
            }
        }
        buffer[..size_bytes].to_vec()
    }

    fn poll(&mut self, socket: &mut Socket<'_>) {
        for (to, bytes) in self.outgoing.drain(..) {
            self.sent += 1;
            socket.send(to, &bytes);
        }
    }
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        match self {
            Self::Publisher(publisher) => publisher.receive(now, arrival),
            Self::Reader(reader) => reader.receive(now, arrival),
            Self::Attacker(attacker) => attacker.receive(now, arrival),
        }
    }

    fn advance(&mut self, now: Instant) {
        match self {
            Self::Publisher(publisher) => publisher.sender.handle(now, send::Input::Advance),
            Self::Reader(reader) => reader.advance(now),
            Self::Attacker(_) => {}
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        match self {
            Self::Publisher(publisher) => publisher.poll(now, socket),
            Self::Reader(reader) => reader.poll(now, socket),
            Self::Attacker(attacker) => {
                attacker.poll(socket);
                None
            }
        }
    }
}
