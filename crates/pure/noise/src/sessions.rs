//! The sessions of one UDP port: the dispatch of datagrams, handshakes and their timers.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keys::{PublicKey, Secret, Suite};
use units::{Instant, WallTime};

use crate::SessionStats;
use crate::chance::Chance;
use crate::cookie::{COOKIE_PERIOD, Cookies};
use crate::exchange::{self, Terms};
use crate::message::{
    self, Coder, CookieReply, INITIATION_NOISE_BYTES, Initiation, Message, OVERHEAD_BYTES,
    RESPONSE_NOISE_BYTES, Response, TAG_BYTES, Transport, Unreadable,
};
use crate::session::{Refusal, Session, Side};
use crate::timestamps::Timestamps;
use crate::tunnel::{Attempt, Pace, Tunnel};

/// Number of addresses for which a port keeps state: each has proven its address and a listed key, or is one that this
/// end sends to.
pub const MAX_TUNNELS: usize = 4_096;
/// Number of answers that wait to be sent; handshakes beyond it get none.
const MAX_ANSWERS: usize = 1_024;
/// Handshakes of one address that are computed in a second, each at about 0.2 ms: a host may open many connections at
/// once, and an address that has proven itself may still be an attacker's.
const MAX_HANDSHAKES_PER_S: u32 = 64;
/// Number of addresses whose handshakes are counted within a second.
const MAX_COUNTED: usize = 1_024;

/// What a secured port is made with.
#[derive(Debug)]
pub struct Config {
    /// Private X25519 key of this end.
    pub key: Secret,
    /// Keys that get a session.
    pub peers: BTreeSet<PublicKey>,
    /// Key of the peer with whom this end begins sessions; without one it only answers.
    pub responder: Option<PublicKey>,
    /// Cipher of the sessions that this end begins; it answers with the one that an initiator chose.
    pub suite: Suite,
    /// 256 random bits, never used before: ephemeral keys and all other random values follow from them.
    pub seed: Secret,
    /// A moment by both clocks; its handshakes are dated by the monotonic one from there on.
    pub started: (Instant, WallTime),
}

/// Datagrams from or to one peer, all but the last of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train<'a> {
    /// Address of the peer.
    pub peer: SocketAddr,
    /// The datagrams, concatenated.
    pub bytes: &'a [u8],
    /// Size of each but the last, which may be shorter. Units: bytes.
    pub segment_bytes: usize,
}

/// An output of the sessions themselves.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Send datagrams as they are.
    Transmit(Train<'a>),
    /// Nothing to do before the deadline, if there is one.
    Idle {
        /// Latest time of the next call.
        deadline: Option<Instant>,
    },
}

/// All sessions of one UDP port.
pub struct Sessions {
    key: Secret,
    own: Coder,
    peers: BTreeMap<PublicKey, Peer>,
    responder: Option<PublicKey>,
    suite: Suite,
    chance: Chance,
    cookies: Cookies,
    started: (Instant, WallTime),
    /// Time of the last handshake that this end began.
    last_time: u64,
    tunnels: BTreeMap<SocketAddr, Tunnel>,
    /// Addresses by the numbers of their sessions and handshakes.
    indices: BTreeMap<u32, SocketAddr>,
    timers: BTreeSet<(Instant, SocketAddr)>,
    answers: VecDeque<Answer>,
    handshakes: Handshakes,
    current: Vec<u8>,
    sealed: Vec<u8>,
    opened: Vec<u8>,
    stats: SessionStats,
}

struct Peer {
    /// False once it was taken from the list.
    is_listed: bool,
    coder: Coder,
    times: Timestamps,
}

struct Answer {
    to: SocketAddr,
    bytes: Vec<u8>,
    segment_bytes: usize,
}

/// Handshakes of each address within the present second.
#[derive(Default)]
struct Handshakes {
    second: u64,
    counts: BTreeMap<IpAddr, u32>,
}

impl Sessions {
    /// Creates a port without sessions.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mut chance = Chance::new(&config.seed);
        let cookies = Cookies::new(Secret::new(chance.draw()));
        let own = Coder::new(&exchange::public_key(&config.key));
        Self {
            own,
            key: config.key,
            peers: config
                .peers
                .into_iter()
                .chain(config.responder)
                .map(|key| (key, Peer::new(&key)))
                .collect(),
            responder: config.responder,
            suite: config.suite,
            chance,
            cookies,
            started: config.started,
            last_time: 0,
            tunnels: BTreeMap::new(),
            indices: BTreeMap::new(),
            timers: BTreeSet::new(),
            answers: VecDeque::new(),
            handshakes: Handshakes::default(),
            current: Vec::new(),
            sealed: Vec::new(),
            opened: Vec::new(),
            stats: SessionStats::default(),
        }
    }

    /// Lists another key, which gets a session from now on; that of a listed one goes on.
    pub fn list(&mut self, peer: PublicKey) {
        self.peers.entry(peer).or_insert_with(|| Peer::new(&peer)).is_listed = true;
    }

    /// Replaces the list of peers. Of one that is no longer listed all sessions and handshakes end at once, and what
    /// waited for them is dropped; the times that it has used stay refused if it is listed again.
    pub fn relist(&mut self, peers: &BTreeSet<PublicKey>) {
        peers.iter().for_each(|peer| self.list(*peer));
        let responder = self.responder;
        let is_listed = |peer: &PublicKey| peers.contains(peer) || responder == Some(*peer);
        self.peers.iter_mut().for_each(|(key, peer)| peer.is_listed = is_listed(key));
        let cut_off: Vec<SocketAddr> = self
            .tunnels
            .iter()
            .filter(|(_, tunnel)| tunnel.peers().any(|peer| !is_listed(&peer)))
            .map(|(address, _)| *address)
            .collect();
        for address in cut_off {
            let Some(tunnel) = self.tunnels.remove(&address) else { continue };
            self.stats.not_sent += tunnel.held.len() as u64;
            self.indices.retain(|_, of| *of != address);
            self.answers.retain(|answer| answer.to != address);
            if let Some(due) = tunnel.deadline {
                self.timers.remove(&(due, address));
            }
        }
    }

    /// Seals a train: each datagram becomes [`OVERHEAD_BYTES`] longer. Without a session it is kept until there is one
    /// and [`poll`](Self::poll) returns it, or it is counted and dropped; then this returns `None`.
    ///
    /// Cost: one copy and the cipher; nothing is allocated once the largest train was sealed.
    ///
    /// # Panics
    /// If a datagram has more than 65,519 bytes.
    pub fn seal(&mut self, now: Instant, train: &Train<'_>) -> Option<Train<'_>> {
        let Some(tunnel) = self.tunnels.get_mut(&train.peer) else {
            self.hold(now, train);
            return None;
        };
        let Some(session) = tunnel.current.as_mut().filter(|session| session.is_valid(now)) else {
            self.hold(now, train);
            return None;
        };
        self.sealed.clear();
        seal_all(session, now, train.bytes, train.segment_bytes, &mut self.sealed);
        if session.is_ageing(now) && tunnel.attempt.is_none() {
            let peer = session.peer;
            self.begin(now, train.peer, peer, Pace::new(now));
        }
        let segment_bytes = train.segment_bytes + OVERHEAD_BYTES;
        Some(Train { peer: train.peer, bytes: &self.sealed, segment_bytes })
    }

    /// Makes another session beside the one with a peer, which may have lost its own: unless there is one since
    /// `most_wait`, a handshake is tried at once, and again after `most_wait` at the latest, until some time after the last
    /// of these calls. Meanwhile the present session seals, and for some time it still opens afterwards.
    pub fn renew(&mut self, now: Instant, peer: SocketAddr, most_wait: Duration) {
        let Some(tunnel) = self.tunnels.get_mut(&peer) else { return };
        if let Some(attempt) = &mut tunnel.attempt {
            attempt.pace = attempt.pace.waited_for(now, most_wait);
            return self.reschedule(peer);
        }
        let session = tunnel.current.as_ref().filter(|session| !session.is_younger(now, most_wait));
        if let Some(key) = session.map(|session| session.peer) {
            self.begin(now, peer, key, Pace::new(now).waited_for(now, most_wait));
        }
    }

    /// Opens received datagrams, and returns those that are authentic and new; the others are handshakes, or are
    /// counted by reason and have no other effect.
    pub fn open(&mut self, now: Instant, train: &Train<'_>) -> Train<'_> {
        self.opened.clear();
        for datagram in train.bytes.chunks(train.segment_bytes.max(1)) {
            match Message::read(datagram) {
                Ok(Message::Transport(message)) => self.on_transport(now, train.peer, &message),
                Ok(Message::Initiation(message)) => self.on_initiation(now, train.peer, &message),
                Ok(Message::Response(message)) => self.on_response(now, train.peer, &message),
                Ok(Message::CookieReply(message)) => self.on_cookie_reply(now, train.peer, &message),
                Err(Unreadable::Clear) => self.stats.clear += 1,
                Err(Unreadable::Malformed) => self.stats.malformed += 1,
            }
        }
        let segment_bytes = train.segment_bytes.saturating_sub(OVERHEAD_BYTES);
        Train { peer: train.peer, bytes: &self.opened, segment_bytes }
    }

    /// Returns the next output; call it until it is idle.
    pub fn poll(&mut self, now: Instant) -> Output<'_> {
        while let Some((at, address)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, address));
            self.on_timer(now, address);
        }
        match self.answers.pop_front() {
            Some(Answer { to, bytes, segment_bytes }) => {
                self.current = bytes;
                Output::Transmit(Train { peer: to, bytes: &self.current, segment_bytes })
            }
            None => Output::Idle { deadline: self.timers.first().map(|(at, _)| *at) },
        }
    }

    /// Returns whether there is output now: [poll](Self::poll) is then due.
    #[must_use]
    pub fn needs_poll(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Returns the counters.
    #[must_use]
    pub const fn stats(&self) -> SessionStats {
        self.stats
    }

    /// Returns the cipher of the session at this address.
    #[must_use]
    pub fn suite(&self, address: SocketAddr) -> Option<Suite> {
        Some(self.tunnels.get(&address)?.current.as_ref()?.suite)
    }

    /// Returns the key of the peer with whom there is a session at this address.
    #[must_use]
    pub fn peer(&self, address: SocketAddr) -> Option<PublicKey> {
        Some(self.tunnels.get(&address)?.current.as_ref()?.peer)
    }

    /// Returns the number of addresses for which state is kept.
    #[must_use]
    pub fn tunnel_count(&self) -> usize {
        self.tunnels.len()
    }

    /// Keeps a train for a session, and begins one unless that is under way.
    fn hold(&mut self, now: Instant, train: &Train<'_>) {
        let address = train.peer;
        let tunnel = self.tunnels.get(&address);
        let earlier = tunnel.and_then(|tunnel| Some(tunnel.current.as_ref()?.peer));
        let is_under_way = tunnel.is_some_and(|tunnel| tunnel.attempt.is_some() || tunnel.next.is_some());
        let Some(peer) = earlier.or(self.responder) else {
            if is_under_way {
                self.keep(train);
            } else {
                self.stats.no_peer += 1;
            }
            return;
        };
        if tunnel.is_none() && self.tunnels.len() >= MAX_TUNNELS {
            self.stats.full += 1;
            return;
        }
        self.keep(train);
        if !is_under_way {
            self.begin(now, address, peer, Pace::new(now));
        }
    }

    fn keep(&mut self, train: &Train<'_>) {
        let tunnel = self.tunnels.entry(train.peer).or_default();
        self.stats.not_sent += tunnel.hold(train.bytes, train.segment_bytes);
    }

    /// Begins a handshake, or tries it again: always with a new key and a new time.
    fn begin(&mut self, now: Instant, to: SocketAddr, peer: PublicKey, pace: Pace) {
        let index = self.new_index(to);
        // A session is renewed with the cipher that its initiator chose, whoever renews it.
        let current = self.tunnels.get(&to).and_then(|tunnel| tunnel.current.as_ref());
        let suite = current.map_or(self.suite, |session| session.suite);
        let terms = Terms { suite, prologue: &exchange::prologue(index) };
        let mut handshake = exchange::initiator(&self.key, &peer, &terms, self.chance.draw());
        let mut noise = [0; INITIATION_NOISE_BYTES];
        let time = self.new_time(now);
        let size_bytes = handshake.write_message(&time.to_le_bytes(), &mut noise);
        debug_assert_eq!(
            size_bytes.ok(),
            Some(INITIATION_NOISE_BYTES),
            "the first message of IK has this size"
        );
        let coder = &self.peers.get(&peer).expect("sessions are begun with listed peers").coder;
        let (mut message, code) = message::initiation(suite, index, &noise, coder);
        let tunnel = self.tunnels.entry(to).or_default();
        if let Some((_, cookie)) = tunnel.cookie.filter(|(at, _)| now.since(*at) < COOKIE_PERIOD) {
            message::prove(&mut message, &cookie);
        }
        let (segment_bytes, bytes) = (message.len(), message.clone());
        let handshake = Box::new(handshake);
        let attempt = Attempt { handshake, peer, suite, index, message, code, pace, is_cookie_taken: false };
        if let Some(earlier) = tunnel.attempt.replace(attempt) {
            self.indices.remove(&earlier.index);
        }
        self.answers.push_back(Answer { to, bytes, segment_bytes });
        self.stats.initiations += 1;
        self.reschedule(to);
    }

    fn on_transport(&mut self, now: Instant, from: SocketAddr, message: &Transport<'_>) {
        match self.indices.get(&message.receiver) {
            None => return self.stats.unknown_sessions += 1,
            Some(address) if *address != from => return self.stats.foreign += 1,
            Some(_) => {}
        }
        let tunnel = self.tunnels.get_mut(&from).expect("a session's number is that of a tunnel");
        let Some(session) = tunnel.sessions_mut().find(|session| session.local == message.receiver) else {
            return self.stats.unexpected += 1;
        };
        match session.open(now, message, &mut self.opened) {
            Ok(()) => {}
            Err(Refusal::Expired) => return self.stats.expired += 1,
            Err(Refusal::Replayed) => return self.stats.replayed += 1,
            Err(Refusal::BadTag) => return self.stats.bad_tags += 1,
        }
        // After crossed handshakes each end may seal with the session that the other one opens only.
        if let Some(current) = &mut tunnel.current {
            current.note_answer();
        }
        let is_next = |session: &mut Session| session.local == message.receiver;
        if let Some(session) = tunnel.next.take_if(is_next) {
            self.establish(now, from, session);
        }
    }

    /// Handles a first message. Nothing is kept before it has shown the address, the key and the time of its sender.
    fn on_initiation(&mut self, now: Instant, from: SocketAddr, message: &Initiation<'_>) {
        if !self.own.has_coded(message.coded, &message.code) {
            return self.stats.strangers += 1;
        }
        if self.answers.len() >= MAX_ANSWERS {
            return self.stats.busy += 1;
        }
        if !self.cookies.are_proven(now, from, message.proven, &message.proof) {
            self.stats.no_cookie += 1;
            let cookie = self.cookies.make(now, from);
            return self
                .answer(from, message::cookie_reply(message.sender, message.code, &cookie, &self.own));
        }
        if !self.handshakes.admit(now, from.ip()) {
            return self.stats.busy += 1;
        }
        let terms = Terms { suite: message.suite, prologue: &exchange::prologue(message.sender) };
        let mut handshake = exchange::responder(&self.key, &terms, self.chance.draw());
        let mut time = [0; 8 + TAG_BYTES];
        if handshake.read_message(message.noise, &mut time) != Ok(8) {
            return self.stats.bad_handshakes += 1;
        }
        let peer = exchange::remote(&handshake).expect("the first message has the initiator's key");
        if !self.peers.get(&peer).is_some_and(|known| known.is_listed) {
            return self.stats.unknown_peers += 1;
        }
        if !self.tunnels.contains_key(&from) && self.tunnels.len() >= MAX_TUNNELS {
            return self.stats.full += 1;
        }
        let time = u64::from_le_bytes(*time.first_chunk().expect("eight bytes"));
        let index = self.new_index(from);
        let known = self.peers.get_mut(&peer).expect("it is listed");
        if !known.times.accept(time) {
            self.indices.remove(&index);
            return self.stats.replayed_handshakes += 1;
        }
        let mut noise = [0; RESPONSE_NOISE_BYTES];
        let size_bytes = handshake.write_message(&index.to_le_bytes(), &mut noise);
        debug_assert_eq!(
            size_bytes.ok(),
            Some(RESPONSE_NOISE_BYTES),
            "the second message of IK has this size"
        );
        let response = message::response(message.sender, &noise, &known.coder);
        let session =
            Session::new(handshake, (Side::Responder, peer, message.suite), (index, message.sender), now);
        if let Some(unused) = self.tunnels.entry(from).or_default().next.replace(session) {
            self.indices.remove(&unused.local);
        }
        self.answer(from, response);
        self.reschedule(from);
    }

    fn on_response(&mut self, now: Instant, from: SocketAddr, message: &Response<'_>) {
        if !self.own.has_coded(message.coded, &message.code) {
            return self.stats.strangers += 1;
        }
        let Some(attempt) = self.attempt_of(from, message.receiver) else {
            return self.stats.unexpected += 1;
        };
        let mut index = [0; 4 + TAG_BYTES];
        if attempt.handshake.read_message(message.noise, &mut index) != Ok(4) {
            return self.stats.bad_handshakes += 1;
        }
        let remote = u32::from_le_bytes(*index.first_chunk().expect("four bytes"));
        let tunnel = self.tunnels.get_mut(&from).expect("the attempt is in it");
        let Attempt { handshake, peer, suite, index, .. } =
            tunnel.attempt.take().expect("it was found just now");
        let session = Session::new(*handshake, (Side::Initiator, peer, suite), (index, remote), now);
        self.establish(now, from, session);
    }

    fn on_cookie_reply(&mut self, now: Instant, from: SocketAddr, message: &CookieReply<'_>) {
        let Some(attempt) = self.attempt_of(from, message.receiver) else {
            return self.stats.unexpected += 1;
        };
        if attempt.is_cookie_taken || !message.answered.is(&attempt.code) {
            return self.stats.unexpected += 1;
        }
        let peer = attempt.peer;
        let coder = &self.peers.get(&peer).expect("sessions are begun with listed peers").coder;
        if !coder.has_coded(message.coded, &message.code) {
            return self.stats.strangers += 1;
        }
        let tunnel = self.tunnels.get_mut(&from).expect("the attempt is in it");
        tunnel.cookie = Some((now, message.cookie));
        let attempt = tunnel.attempt.as_mut().expect("it was found just now");
        attempt.is_cookie_taken = true;
        message::prove(&mut attempt.message, &message.cookie);
        attempt.pace.retry_at = now + attempt.pace.wait;
        let bytes = attempt.message.clone();
        self.answer(from, bytes);
        self.reschedule(from);
    }

    fn attempt_of(&mut self, from: SocketAddr, index: u32) -> Option<&mut Attempt> {
        self.tunnels.get_mut(&from)?.attempt.as_mut().filter(|attempt| attempt.index == index)
    }

    /// Seals with this session from now on, first what waited for it. An initiator without anything to say shows the
    /// responder that it has the session.
    fn establish(&mut self, now: Instant, address: SocketAddr, session: Session) {
        let is_initiator = session.side() == Side::Initiator;
        let tunnel = self.tunnels.get_mut(&address).expect("sessions are made in tunnels");
        if let Some(forgotten) = tunnel.promote(session) {
            self.indices.remove(&forgotten.local);
        }
        self.stats.sessions += 1;
        let mut held = core::mem::take(&mut tunnel.held);
        if held.is_empty() && is_initiator {
            held.push_back((Vec::new(), 0));
        }
        let session = tunnel.current.as_mut().expect("it was put there just now");
        for (bytes, segment_bytes) in held {
            let mut sealed = Vec::with_capacity(bytes.len() + OVERHEAD_BYTES);
            seal_all(session, now, &bytes, segment_bytes, &mut sealed);
            let segment_bytes = segment_bytes + OVERHEAD_BYTES;
            self.answers.push_back(Answer { to: address, bytes: sealed, segment_bytes });
        }
        self.reschedule(address);
    }

    fn on_timer(&mut self, now: Instant, address: SocketAddr) {
        let Some(tunnel) = self.tunnels.get_mut(&address) else { return };
        tunnel.deadline = None;
        for session in tunnel.take_forgotten(now) {
            self.indices.remove(&session.local);
        }
        let due = tunnel.attempt.as_ref().filter(|attempt| attempt.pace.retry_at <= now);
        if let Some((peer, pace)) = due.map(|attempt| (attempt.peer, attempt.pace)) {
            match pace.again(now, self.chance.number()) {
                Some(pace) => return self.begin(now, address, peer, pace),
                None => self.give_up(address),
            }
        }
        self.reschedule(address);
    }

    fn give_up(&mut self, address: SocketAddr) {
        let Some(tunnel) = self.tunnels.get_mut(&address) else { return };
        if let Some(attempt) = tunnel.attempt.take() {
            self.indices.remove(&attempt.index);
        }
        self.stats.unanswered += 1;
        self.stats.not_sent += core::mem::take(&mut tunnel.held).len() as u64;
    }

    /// Sets the timer of an address, or forgets the address if nothing is left of it.
    fn reschedule(&mut self, address: SocketAddr) {
        let Some(tunnel) = self.tunnels.get_mut(&address) else { return };
        let due = tunnel.due();
        if let Some(earlier) = core::mem::replace(&mut tunnel.deadline, due) {
            self.timers.remove(&(earlier, address));
        }
        match due {
            Some(due) => drop(self.timers.insert((due, address))),
            None => {
                self.stats.not_sent += tunnel.held.len() as u64;
                self.tunnels.remove(&address);
            }
        }
    }

    fn answer(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        let segment_bytes = bytes.len();
        self.answers.push_back(Answer { to, bytes, segment_bytes });
    }

    fn new_index(&mut self, address: SocketAddr) -> u32 {
        loop {
            let index = self.chance.number();
            if let std::collections::btree_map::Entry::Vacant(entry) = self.indices.entry(index) {
                entry.insert(address);
                return index;
            }
        }
    }

    /// Returns the time of a new handshake, later than that of every earlier one. Units: nanoseconds since 1970.
    fn new_time(&mut self, now: Instant) -> u64 {
        let (then, wall) = self.started;
        let nanos =
            u64::try_from(wall.as_nanos()).unwrap_or(0).saturating_add(now.as_nanos() - then.as_nanos());
        self.last_time = nanos.max(self.last_time + 1);
        self.last_time
    }
}

fn seal_all(session: &mut Session, now: Instant, bytes: &[u8], segment_bytes: usize, into: &mut Vec<u8>) {
    if bytes.is_empty() {
        return session.seal(now, &[], into);
    }
    bytes.chunks(segment_bytes.max(1)).for_each(|datagram| session.seal(now, datagram, into));
}

impl Peer {
    fn new(key: &PublicKey) -> Self {
        Self { is_listed: true, coder: Coder::new(key), times: Timestamps::default() }
    }
}

impl Handshakes {
    /// Returns whether one more handshake of this address is computed within the second.
    fn admit(&mut self, now: Instant, address: IpAddr) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.counts.clear();
        }
        if self.counts.len() >= MAX_COUNTED && !self.counts.contains_key(&address) {
            return false;
        }
        let count = self.counts.entry(address).or_default();
        *count += 1;
        *count <= MAX_HANDSHAKES_PER_S
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sessions({} peers, {} tunnels)", self.peers.len(), self.tunnels.len())
    }
}
