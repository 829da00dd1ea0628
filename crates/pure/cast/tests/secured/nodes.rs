//! A publisher and a reader of a secured stream in the virtual network, and an attacker that sees all they send.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use cast::receive::{self, Event, ReaderIdentity};
use cast::secure::{ControlOpener, ControlSealer, Gate, Passed, UnauthenticCounts};
use cast::send::{self, Beginning, Pacing, SenderConfig, Sending};
use cast::{Receiver, Sender};
use keys::Membership;
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
/// Interval of the publisher's blocks, each of which fills a datagram.
const BLOCK_INTERVAL: Duration = Duration::from_millis(1);
const BLOCK_SAMPLES: u64 = 10;
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
    next_block: Instant,
    next_index: u64,
    end: Instant,
    /// Memberships and epochs to come.
    changes: Vec<(Instant, Change)>,
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
    memberships: Vec<(Instant, Arc<Membership>)>,
    pub(crate) delivered: u64,
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

/// The configuration of a publisher without keys.
fn clear_config(epoch: Epoch) -> SenderConfig {
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
        let sender = Sender::new(config, 1, now).unwrap();
        Self {
            membership: Arc::clone(membership),
            buffer: vec![0; sender.train_bytes()],
            sender,
            opener: ControlOpener::default(),
            next_block: now,
            next_index: 0,
            end,
            changes: Vec::new(),
            unauthentic: UnauthenticCounts::default(),
            reports: 0,
            nonces: Nonces::default(),
        }
    }

    pub(crate) fn changes(mut self, at: Instant, change: Change) -> Self {
        self.changes.push((at, change));
        self
    }

    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let mut bytes = arrival.bytes.to_vec();
        let size_bytes = match self.opener.open(&self.membership.keys, wall(now), &mut bytes) {
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

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        while self.changes.first().is_some_and(|(at, _)| *at <= now) {
            match self.changes.remove(0).1 {
                Change::Membership(membership) => {
                    self.sender
                        .handle(now, send::Input::Membership { membership: &membership, wall: wall(now) });
                    self.membership = membership;
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
            let rate = SampleRate::hz(HZ).unwrap();
            let t0 = rate.time_of(first_index, 0, WallTime::from_nanos(0));
            self.sender.handle(now, send::Input::Samples { first_index, t0, bytes: &bytes });
            self.next_index += BLOCK_SAMPLES;
            self.next_block += BLOCK_INTERVAL;
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
                    let change = self.changes.first().map(|(at, _)| *at);
                    return [deadline, block, change].into_iter().flatten().min();
                }
            }
        }
    }
}

impl Reader {
    pub(crate) fn new(laboratory: &mut Laboratory, membership: &Arc<Membership>) -> Self {
        let identity = ReaderIdentity { id: ReaderId(7), name: "reader".to_owned(), receive_buffer_bytes: 0 };
        let (now, salt) = (Instant::ORIGIN, laboratory.salt());
        Self {
            gate: Gate::new(Arc::clone(membership), now, wall(now), 0x6e6f_6e63_6573),
            receiver: Receiver::new(identity, LedgerConfig::default(), 7),
            sealer: ControlSealer::new(membership, salt, wall(now)),
            membership: Arc::clone(membership),
            memberships: Vec::new(),
            delivered: 0,
            accounts: Vec::new(),
            ended: 0,
            nonces: Nonces::default(),
        }
    }

    pub(crate) fn gets(mut self, at: Instant, membership: Arc<Membership>) -> Self {
        self.memberships.push((at, membership));
        self
    }

    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let mut bytes = arrival.bytes.to_vec();
        let segment_bytes = bytes.len().max(1);
        let Self { gate, receiver, .. } = self;
        // An attacker writes any source address.
        let from =
            if arrival.from == ATTACKER && bytes.len().is_multiple_of(2) { PUBLISHER } else { arrival.from };
        gate.pass(now, &mut bytes, segment_bytes, address(from), &mut |passed| take(receiver, now, passed));
        while gate.next_event().is_some() {}
        receiver.check().unwrap();
    }

    fn advance(&mut self, now: Instant) {
        let Self { gate, receiver, .. } = self;
        gate.advance(now, &mut |passed| take(receiver, now, passed));
        receiver.handle(now, receive::Input::Advance);
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        while self.memberships.first().is_some_and(|(at, _)| *at <= now) {
            self.membership = self.memberships.remove(0).1;
            self.gate.adopt(now, &self.membership, wall(now));
            self.sealer.renew(&self.membership, wall(now), keys::Salt([0xee; 16]));
        }
        let mut buffer = [0; 2_048];
        loop {
            match self.receiver.poll(now, &mut buffer) {
                receive::Output::Transmit { size_bytes, .. } => {
                    let size_bytes = self.sealer.seal(wall(now), &mut buffer, size_bytes).unwrap();
                    self.nonces.see(&buffer[..size_bytes]);
                    socket.send(Address::Node(PUBLISHER), &buffer[..size_bytes]);
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
                    self.accounts.push(format!("{account:?}"));
                }
                receive::Output::Event(_) => {}
                receive::Output::Idle { deadline } => {
                    let next = self.memberships.first().map(|(at, _)| *at);
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
        Passed::Train { bytes, segment_bytes, from } => {
            receive::Input::Train(receive::Train { bytes, segment_bytes, from, drops: None })
        }
        Passed::Moved { stream, epoch, to } => receive::Input::Moved { stream, epoch, to },
        Passed::Undescribed { stream, epoch, nonce } => receive::Input::Undescribed { stream, epoch, nonce },
        Passed::Unconfirmed { stream, epoch, nonce, to } => {
            receive::Input::Unconfirmed { stream, epoch, nonce, to }
        }
        Passed::Described { stream, epoch, description, from } => {
            receive::Input::Described { stream, epoch, description, from }
        }
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
