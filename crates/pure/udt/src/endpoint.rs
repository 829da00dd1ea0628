//! A UDP port and the sockets on it: the dispatch of datagrams, and the order of sending.

mod cookie;
mod listener;
mod tombs;

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Instant, Random};
use wire::udt::{Body, Control, Data, Handshake, Packet, Request, Sequence, SocketId};

use crate::config::announced_bytes;
use crate::connection::{Connection, Side, Step};
use crate::handshake::{Agreed, Progress, Seeking, is_sound, offer};
use crate::{Arrival, CloseReason, Event, SendError, Sent, SocketConfig, Source, Stats, Terms};
use cookie::Cookies;
use listener::Listener;
use tombs::Tombs;

/// Maximum number of queued answers to unknown peers; beyond it they get none.
const MAX_ANSWERS: usize = 1_024;

/// Configuration of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointConfig {
    /// Seed of all random values: numbers of sockets, first packet numbers.
    pub seed: u64,
    /// Secret key of its cookies.
    pub secret: [u8; 16],
}

/// One UDP port with any number of sockets on it.
#[derive(Debug)]
pub struct Endpoint {
    random: Random,
    cookies: Cookies,
    sockets: BTreeMap<SocketId, Socket>,
    /// Accepted connections by their peer, whose handshake may be repeated.
    accepted: BTreeMap<(SocketAddr, SocketId), SocketId>,
    listener: Option<Listener>,
    /// Sockets that may have output, in the order of their turns.
    ready: VecDeque<SocketId>,
    timers: BTreeSet<(Instant, SocketId)>,
    tombs: Tombs,
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The control packet that was returned last.
    current: Vec<u8>,
    stats: EndpointStats,
}

#[derive(Debug)]
struct Socket {
    role: Role,
    is_ready: bool,
    deadline: Option<Instant>,
    owner: Owner,
    /// Its own handshake of a rendezvous, which the peer may request again.
    met_with: Option<Handshake>,
}

/// Owner of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// None yet: it is removed once it has ended and nothing is left to read.
    Nobody,
    /// The application: it stays until closed, and keeps the reason of its end.
    Application,
    /// None any more, the application has closed it: it is removed when nothing is left to do.
    Gone,
}

#[derive(Debug)]
enum Role {
    Seeking(Box<Sought>),
    Connected(Box<Connection>),
}

/// A socket that is connecting.
#[derive(Debug)]
struct Sought {
    seeking: Seeking,
    config: SocketConfig,
    peer: SocketAddr,
    /// Reason of a failed attempt, and whether the owner was notified.
    failed: Option<CloseReason>,
    is_told: bool,
}

/// Datagrams that the kernel received as one: from one sender, all but the last of the same size.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams<'a> {
    /// Source address.
    pub from: SocketAddr,
    /// The payloads, concatenated.
    pub bytes: &'a [u8],
    /// Size of each but the last. Units: bytes.
    pub segment_bytes: usize,
    /// Time of reception by the kernel, as exactly as it is known.
    pub arrived: Instant,
}

/// An output of an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Send datagrams.
    Transmit(Transmit<'a>),
    /// Event for a socket's owner.
    Event {
        /// The socket.
        socket: SocketId,
        /// The event.
        event: Event,
    },
    /// Nothing to do before the deadline, if there is one.
    Idle {
        /// Latest time of the next call.
        deadline: Option<Instant>,
    },
}

/// Datagrams to be sent as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Destination address.
    pub to: SocketAddr,
    /// The payloads, concatenated.
    pub bytes: &'a [u8],
    /// Size of each but the last, which may be shorter. Units: bytes.
    pub segment_bytes: usize,
}

/// Counters of an endpoint beyond its sockets: datagrams without effect, and refused or ended connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointStats {
    /// Not packets of this protocol.
    pub malformed: u64,
    /// For an unknown socket.
    pub unknown_socket: u64,
    /// For a socket with another peer.
    pub foreign: u64,
    /// Handshakes whose cookie is wrong or too old.
    pub wrong_cookie: u64,
    /// Handshakes that are invalid in the present state.
    pub strange_handshakes: u64,
    /// Clients that were refused.
    pub refused: u64,
    /// Connections without any packet after the handshake, given up.
    pub half_open: u64,
    /// Half-open connections that were displaced, while all slots were taken, by a client of an address with fewer.
    pub displaced: u64,
    /// Connections that ended because their peer restarted with other numbers.
    pub replaced: u64,
    /// Unknown peers without an answer because too many asked at once.
    pub unanswered: u64,
}

/// Location of a train to send.
struct TrainAt {
    socket: SocketId,
    range: Range<usize>,
    segment_bytes: usize,
}

/// Result of a turn.
enum Turn {
    Current(SocketAddr),
    Train(TrainAt),
    Event(SocketId, Event),
    Idle(Option<Instant>),
}

impl Endpoint {
    /// Creates an endpoint without sockets.
    #[must_use]
    pub fn new(config: &EndpointConfig) -> Self {
        Self {
            random: Random::for_purpose(config.seed, "udt"),
            cookies: Cookies::new(config.secret),
            sockets: BTreeMap::new(),
            accepted: BTreeMap::new(),
            listener: None,
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            tombs: Tombs::default(),
            answers: VecDeque::new(),
            current: Vec::new(),
            stats: EndpointStats::default(),
        }
    }

    /// Listens for clients, of whom at most `backlog` wait to be [accepted](Self::accept) or have yet to confirm the
    /// answer to their handshake. There is one listener per port.
    ///
    /// If all slots are taken, a client of an address that has fewer of them than another one takes the slot of that
    /// address's newest half-open connection; otherwise it is refused.
    ///
    /// Returns `None` if there is a listener already.
    pub fn listen(&mut self, config: SocketConfig, backlog: usize) -> Option<SocketId> {
        if self.listener.is_some() {
            return None;
        }
        let id = self.new_id();
        self.listener = Some(Listener::new(id, config, backlog));
        Some(id)
    }

    /// Returns the next waiting client.
    pub fn accept(&mut self) -> Option<SocketId> {
        let id = self.listener.as_mut()?.take()?;
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.owner = Owner::Application;
        }
        Some(id)
    }

    /// Returns the reason of a connection's end, if it has ended and still exists.
    #[must_use]
    pub fn ended(&self, socket: SocketId) -> Option<CloseReason> {
        self.look(socket)?.ended()
    }

    /// Returns whether a socket exists: from its creation until it is closed and nothing is left to do.
    #[must_use]
    pub fn contains(&self, socket: SocketId) -> bool {
        self.sockets.contains_key(&socket)
    }

    /// Connects to a listener at `peer`; [`Event::Connected`] or [`Event::Closed`] reports the result.
    pub fn connect(&mut self, now: Instant, peer: SocketAddr, config: SocketConfig) -> SocketId {
        self.seek(now, peer, config, Request::Connect)
    }

    /// Connects to a peer at `peer` that does the same: both ends begin, and neither needs to be reachable first.
    pub fn rendezvous(&mut self, now: Instant, peer: SocketAddr, config: SocketConfig) -> SocketId {
        self.seek(now, peer, config, Request::Rendezvous)
    }

    /// Queues bytes of a stream; returns the number that fit.
    ///
    /// # Errors
    /// If the socket is not connected, is closed, or carries messages.
    pub fn send(&mut self, socket: SocketId, bytes: &[u8]) -> Result<usize, SendError> {
        let connection = self.connection(socket)?;
        let taken = connection.send(bytes)?;
        self.make_ready(socket);
        Ok(taken)
    }

    /// Queues a message, if there is room for it now and it can still arrive in time.
    ///
    /// After its deadline the undelivered rest of the message is given up, and both ends are notified.
    ///
    /// # Errors
    /// If the socket is not connected, is closed or carries a stream, or the message is longer than its buffer.
    pub fn send_message(
        &mut self,
        now: Instant,
        socket: SocketId,
        bytes: &[u8],
        terms: Terms,
    ) -> Result<Sent, SendError> {
        let connection = self.connection(socket)?;
        let sent = connection.send_message(now, bytes, terms)?;
        self.make_ready(socket);
        Ok(sent)
    }

    /// Returns the number of messages of one packet that [`send_message`](Self::send_message) takes now; 0 if the
    /// socket is not connected. [`Event::Writable`] tells when there is room again.
    ///
    /// With [`Repair::Timely`](crate::Repair::Timely) that is what leaves within a millisecond, so that order and
    /// deadlines are decided by the owner, and one while the link is down.
    #[must_use]
    pub fn room(&self, socket: SocketId) -> u32 {
        self.look(socket).map_or(0, Connection::room)
    }

    /// Returns the maximum size of a message that is one packet. Units: bytes; 0 if the socket is not connected.
    #[must_use]
    pub fn message_bytes(&self, socket: SocketId) -> usize {
        self.look(socket).map_or(0, Connection::message_bytes)
    }

    /// Returns the clock by which packets of a connection are stamped.
    ///
    /// Units: microseconds since it was opened; 32 bits that wrap.
    #[must_use]
    pub fn clock_us(&self, now: Instant, socket: SocketId) -> Option<u32> {
        self.look(socket).map(|connection| connection.clock_us(now))
    }

    /// Returns whether the peer answers, as far as something waits for an answer; always true without
    /// [`Repair::Timely`](crate::Repair::Timely).
    #[must_use]
    pub fn is_link_up(&self, socket: SocketId) -> bool {
        self.look(socket).is_some_and(Connection::is_link_up)
    }

    /// Returns when the last packet came from the peer of a connection; at first, when it was established.
    #[must_use]
    pub fn heard_at(&self, socket: SocketId) -> Option<Instant> {
        self.look(socket).map(Connection::heard_at)
    }

    /// Asks the peer of a connection for an answer, which comes at once if it still knows the connection.
    pub fn ask(&mut self, now: Instant, socket: SocketId) {
        if let Ok(connection) = self.connection(socket) {
            connection.ask_for_answer(now);
            self.make_ready(socket);
        }
    }

    /// Copies received bytes of a stream; returns their number.
    pub fn receive(&mut self, socket: SocketId, out: &mut [u8]) -> usize {
        let Ok(connection) = self.connection(socket) else { return 0 };
        let (count, has_news) = connection.receive(out);
        if has_news {
            self.make_ready(socket);
        }
        count
    }

    /// Appends the next message to `out`; returns its times, or `None` if there is none.
    pub fn receive_message(&mut self, socket: SocketId, out: &mut Vec<u8>) -> Option<Arrival> {
        let (arrival, has_news) = self.connection(socket).ok()?.receive_message(out)?;
        if has_news {
            self.make_ready(socket);
        }
        Some(arrival)
    }

    /// Returns whether there is something to receive.
    #[must_use]
    pub fn is_readable(&self, socket: SocketId) -> bool {
        self.look(socket).is_some_and(Connection::is_readable)
    }

    /// Returns whether the peer has acknowledged all queued data.
    #[must_use]
    pub fn is_flushed(&self, socket: SocketId) -> bool {
        self.look(socket).is_none_or(Connection::is_flushed)
    }

    /// Notifies the peer that the application has failed: libudt's peers see an error with this code.
    pub fn fail(&mut self, socket: SocketId, code: u32) {
        if let Ok(connection) = self.connection(socket) {
            connection.fail(code);
            self.make_ready(socket);
        }
    }

    /// Closes a socket. Queued data are still sent until the linger time has passed.
    pub fn close(&mut self, now: Instant, socket: SocketId) {
        if self.listener.as_ref().is_some_and(|listener| listener.id == socket) {
            let waiting = self.listener.take().map(Listener::into_waiting);
            return waiting.into_iter().flatten().for_each(|socket| self.close(now, socket));
        }
        let Some(entry) = self.sockets.get_mut(&socket) else { return };
        entry.owner = Owner::Gone;
        match &mut entry.role {
            Role::Seeking(sought) => sought.failed = Some(CloseReason::Local),
            Role::Connected(connection) => connection.close(now),
        }
        self.make_ready(socket);
    }

    /// Returns the counters and the state of a connection.
    #[must_use]
    pub fn stats(&self, socket: SocketId) -> Option<Stats> {
        self.look(socket).map(Connection::stats)
    }

    /// Returns the address of a connection's peer.
    #[must_use]
    pub fn peer(&self, socket: SocketId) -> Option<SocketAddr> {
        self.look(socket).map(|connection| connection.address)
    }

    /// Returns the counters of the endpoint.
    #[must_use]
    pub const fn endpoint_stats(&self) -> EndpointStats {
        self.stats
    }

    /// Returns the number of sockets without the listener.
    #[must_use]
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// Returns whether a socket may have output: [poll](Self::poll) is then due.
    #[must_use]
    pub fn needs_poll(&self) -> bool {
        !self.ready.is_empty() || !self.answers.is_empty()
    }

    /// Handles received datagrams.
    pub fn handle(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        let mut segments = datagrams.bytes.chunks(datagrams.segment_bytes.max(1));
        while let Some(bytes) = segments.next() {
            match Packet::read(bytes) {
                Ok(Packet::Data(data)) => self.handle_data(now, datagrams, &data, &mut segments),
                Ok(Packet::Control(control)) => self.handle_control(now, datagrams, &control),
                Err(_) => self.stats.malformed += 1,
            }
        }
    }

    /// Returns the next output; call it until it is idle.
    pub fn poll(&mut self, now: Instant) -> Output<'_> {
        match self.turn(now) {
            Turn::Current(to) => {
                let bytes = &self.current[..];
                Output::Transmit(Transmit { to, bytes, segment_bytes: bytes.len() })
            }
            Turn::Train(TrainAt { socket, range, segment_bytes }) => {
                let connection = self.look(socket).expect("the socket had its turn just now");
                let bytes = connection.train_bytes(range);
                Output::Transmit(Transmit { to: connection.address, bytes, segment_bytes })
            }
            Turn::Event(socket, event) => Output::Event { socket, event },
            Turn::Idle(deadline) => Output::Idle { deadline },
        }
    }

    fn turn(&mut self, now: Instant) -> Turn {
        if let Some((to, bytes)) = self.answers.pop_front() {
            self.current = bytes;
            return Turn::Current(to);
        }
        while let Some((at, socket)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, socket));
            self.make_ready(socket);
        }
        while let Some(id) = self.ready.pop_front() {
            let Some(socket) = self.sockets.get_mut(&id) else { continue };
            socket.is_ready = false;
            let step = match &mut socket.role {
                Role::Seeking(sought) => sought.poll(now),
                Role::Connected(connection) => connection.poll(now),
            };
            match step {
                Step::Control(bytes) => {
                    let to = socket.role.peer();
                    self.current = bytes;
                    self.make_ready(id);
                    return Turn::Current(to);
                }
                Step::Train(range, segment_bytes) => {
                    self.make_ready(id);
                    return Turn::Train(TrainAt { socket: id, range, segment_bytes });
                }
                Step::Event(event) => {
                    self.make_ready(id);
                    return Turn::Event(id, event);
                }
                Step::Idle(deadline) => self.rest(now, id, deadline),
            }
        }
        Turn::Idle(self.timers.first().map(|(at, _)| *at))
    }

    /// Suspends a socket until its deadline, or removes it if it has ended and has no owner.
    fn rest(&mut self, now: Instant, id: SocketId, deadline: Option<Instant>) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if let Some(old) = socket.deadline.take() {
            self.timers.remove(&(old, id));
        }
        let is_ended = match &socket.role {
            Role::Seeking(sought) => sought.failed.is_some(),
            Role::Connected(connection) => connection.is_ended(),
        };
        let is_unwanted = match (socket.owner, &socket.role) {
            (Owner::Gone, _) => true,
            (Owner::Nobody, Role::Connected(connection)) => !connection.is_readable(),
            (Owner::Nobody, Role::Seeking(_)) | (Owner::Application, _) => false,
        };
        if is_ended && is_unwanted {
            self.remove(now, id);
            return;
        }
        socket.deadline = deadline;
        self.timers.extend(deadline.map(|at| (at, id)));
    }

    fn remove(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.remove(&id) else { return };
        if let Role::Connected(connection) = socket.role {
            let key = (connection.address, connection.peer);
            let successor = self.accepted.get(&key).filter(|known| **known != id);
            // A replaced connection already has its own entry, even if it had ended before.
            let was_replaced = successor.is_some() || connection.ended() == Some(CloseReason::Replaced);
            if successor.is_none() {
                self.accepted.remove(&key);
            }
            if !was_replaced {
                self.tombs.bury(now, id, connection.peer, connection.address);
            }
        }
        if let Some(listener) = &mut self.listener
            && listener.forget(id)
        {
            self.stats.half_open += 1;
        }
    }

    /// Takes a data packet, and with it the following ones for the same socket: usually a whole train.
    fn handle_data(
        &mut self,
        now: Instant,
        datagrams: &Datagrams<'_>,
        data: &Data<'_>,
        behind: &mut core::slice::Chunks<'_, u8>,
    ) {
        let id = data.destination;
        if self.meets_by_data(now, id, datagrams.from) {
            return;
        }
        let Some(connection) = self.heard(now, id, datagrams.from) else { return };
        let is_alike = |bytes: &&[u8]| bytes[0] & 0x80 == 0 && Packet::destination(bytes) == Some(id);
        let alike = behind.clone().take_while(is_alike).count();
        connection.arrive(datagrams.arrived, data, u32::try_from(alike + 1).unwrap_or(u32::MAX));
        connection.receive_data(now, datagrams.arrived, data);
        for bytes in behind.take(alike) {
            if let Ok(Packet::Data(data)) = Packet::read(bytes) {
                connection.receive_data(now, datagrams.arrived, &data);
            }
        }
        self.make_ready(id);
    }

    fn handle_control(&mut self, now: Instant, datagrams: &Datagrams<'_>, control: &Control<'_>) {
        let (from, id) = (datagrams.from, control.destination);
        if let Body::Handshake(handshake) = &control.body {
            return self.handle_handshake(now, from, id, handshake);
        }
        if matches!(control.body, Body::KeepAlive) && self.meets_by_data(now, id, from) {
            return;
        }
        if matches!(control.body, Body::Shutdown) && !self.sockets.contains_key(&id) {
            // A shutdown is never answered, or two ends would answer each other endlessly.
            return;
        }
        let Some(connection) = self.heard(now, id, from) else { return };
        connection.receive_control(now, datagrams.arrived, control);
        self.make_ready(id);
    }

    /// Returns the connection of a packet if it comes from its peer; counts the packet otherwise.
    fn heard(&mut self, now: Instant, id: SocketId, from: SocketAddr) -> Option<&mut Connection> {
        if !self.sockets.contains_key(&id) {
            self.stats.unknown_socket += 1;
            if let Some(peer) = self.tombs.peer_of(now, id, from) {
                self.answer(from, peer, Body::Shutdown);
            }
        }
        match &mut self.sockets.get_mut(&id)?.role {
            Role::Connected(connection) if connection.address == from => {
                if connection.opens() {
                    connection.push_event(Event::Accepted { socket: id });
                    if let Some(listener) = &mut self.listener {
                        listener.opened(id);
                    }
                }
                Some(connection)
            }
            Role::Connected(_) | Role::Seeking(_) => {
                self.stats.foreign += 1;
                None
            }
        }
    }

    fn handle_handshake(&mut self, now: Instant, from: SocketAddr, id: SocketId, handshake: &Handshake) {
        if id.0 == 0 && self.listener.is_some() && handshake.request != Request::Rendezvous {
            return self.handle_client(now, from, handshake);
        }
        let meant = if id.0 == 0 { self.meeting_at(from) } else { Some(id) };
        let Some((id, socket)) = meant.and_then(|id| Some((id, self.sockets.get_mut(&id)?))) else {
            self.stats.unknown_socket += 1;
            return;
        };
        if socket.role.peer() != from {
            self.stats.foreign += 1;
            return;
        }
        match &mut socket.role {
            Role::Seeking(sought) => match sought.seeking.receive(now, handshake) {
                Progress::Seeking => {}
                Progress::Found(agreed) => self.begin(now, id, &agreed),
                Progress::Refused => sought.failed = Some(CloseReason::Refused),
                Progress::Nonsense => self.stats.strange_handshakes += 1,
            },
            // The peer of a rendezvous does not know yet that it is concluded. It takes the first number from the
            // answer, too.
            Role::Connected(connection) if handshake.request == Request::Conclude => {
                let peer = connection.peer;
                if let Some(own) = socket.met_with {
                    let done = Handshake { request: Request::RendezvousDone, ..own };
                    self.answer(from, peer, Body::Handshake(done));
                }
            }
            Role::Connected(_) => {}
        }
        self.make_ready(id);
    }

    /// Handles a client's handshake at a listener. No state is kept before the client has returned a cookie.
    fn handle_client(&mut self, now: Instant, from: SocketAddr, handshake: &Handshake) {
        if handshake.request == Request::Connect {
            let cookie = self.cookies.make(now, from, handshake);
            return self.answer(from, handshake.socket, Body::Handshake(Handshake { cookie, ..*handshake }));
        }
        if handshake.request != Request::Conclude {
            self.stats.strange_handshakes += 1;
            return;
        }
        if !self.cookies.is_ours(now, from, handshake) {
            self.stats.wrong_cookie += 1;
            return;
        }
        let key = (from, handshake.socket);
        if let Some(id) = self.accepted.get(&key).copied() {
            match self.sockets.get_mut(&id).map(|socket| &mut socket.role) {
                Some(Role::Connected(it)) if it.peer_first == handshake.first_sequence && it.stands() => {
                    it.asked_again(now);
                    return self.welcome(from, id, handshake);
                }
                // A copy that was delayed in the network: a restarted peer has another number.
                Some(Role::Connected(it)) if it.peer_first == handshake.first_sequence => return,
                _ => {}
            }
        }
        if self.tombs.was_peer(now, handshake.socket, from, handshake.first_sequence) {
            return;
        }
        self.replace(now, key);
        let Some(listener) = &self.listener else { return };
        let is_wanted = is_sound(handshake) && handshake.socket_type == Some(listener.config.socket_type);
        if !is_wanted || listener.is_full() && !self.free_slot(from) {
            self.stats.refused += 1;
            let refusal = Handshake { request: Request::Reject, ..*handshake };
            return self.answer(from, handshake.socket, Body::Handshake(refusal));
        }
        let Some(listener) = &self.listener else { return };
        let config = listener.config.clone();
        let own_bytes = announced_bytes(&config, from.ip());
        let packet_bytes = handshake.packet_bytes.min(own_bytes);
        let agreed = Agreed {
            peer: handshake.socket,
            packet_bytes,
            taken_bytes: packet_bytes,
            window_packets: handshake.window_packets,
            // Both directions begin with the client's number: libudt's clients require it.
            own_first: handshake.first_sequence,
            peer_first: handshake.first_sequence,
        };
        let id = self.new_id();
        let random = Random::new(self.random.next_u64());
        let connection = Connection::new(&config, (Side::Accepting, from), &agreed, now, random);
        let role = Role::Connected(Box::new(connection));
        self.sockets.insert(
            id,
            Socket { role, is_ready: false, deadline: None, owner: Owner::Nobody, met_with: None },
        );
        self.accepted.insert(key, id);
        self.welcome(from, id, handshake);
        if let Some(listener) = &mut self.listener {
            listener.push(id);
        }
        self.make_ready(id);
    }

    /// Ends the connection of a peer that restarted with the same address and socket. The connection's owner is
    /// notified; a delayed copy of its old handshake does not bring it back.
    fn replace(&mut self, now: Instant, key: (SocketAddr, SocketId)) {
        let Some(id) = self.accepted.remove(&key) else { return };
        let Some(Socket { role: Role::Connected(connection), .. }) = self.sockets.get_mut(&id) else {
            return;
        };
        self.stats.replaced += u64::from(connection.ended().is_none());
        connection.replace();
        self.tombs.bury_replaced(now, id, key, connection.peer_first);
        if let Some(listener) = &mut self.listener {
            listener.forget_half_open(id);
        }
        self.make_ready(id);
    }

    /// Frees a slot for a client by ending the newest half-open connection of the address with most slots, if that
    /// has more than the client's; returns whether it did.
    fn free_slot(&mut self, from: SocketAddr) -> bool {
        let Some(listener) = &self.listener else { return false };
        let source = |id: SocketId| self.look(id).map(|connection| Source::of(connection.address.ip()));
        let mut slots: BTreeMap<Source, usize> = BTreeMap::new();
        for source in listener.slots().filter_map(source) {
            *slots.entry(source).or_default() += 1;
        }
        let own = slots.get(&Source::of(from.ip())).copied().unwrap_or(0);
        let held = |id: SocketId| source(id).and_then(|source| slots.get(&source).copied()).unwrap_or(0);
        // Of several the newest: the older ones have waited longer, and their time is nearly over.
        let most = listener.half_open().max_by_key(|id| held(*id)).filter(|id| held(*id) > own + 1);
        let Some(id) = most else { return false };
        if let Some(Socket { role: Role::Connected(connection), .. }) = self.sockets.get_mut(&id) {
            connection.shut_down(CloseReason::Refused);
        }
        self.stats.displaced += 1;
        if let Some(listener) = &mut self.listener {
            listener.forget_half_open(id);
        }
        self.make_ready(id);
        true
    }

    /// Confirms a connection to its client, which may ask again if this answer is lost.
    fn welcome(&mut self, from: SocketAddr, id: SocketId, handshake: &Handshake) {
        let Some(listener) = &self.listener else { return };
        let ours = offer(&listener.config, id, handshake.first_sequence, handshake.cookie, from);
        let packet_bytes = ours.packet_bytes.min(handshake.packet_bytes);
        let to = handshake.socket;
        self.answer(from, to, Body::Handshake(Handshake { packet_bytes, ..ours }));
    }

    /// Concludes a rendezvous on a packet that only a connected peer sends, as libudt does.
    fn meets_by_data(&mut self, now: Instant, id: SocketId, from: SocketAddr) -> bool {
        let Some(Socket { role: Role::Seeking(sought), .. }) = self.sockets.get(&id) else { return false };
        let agreed = if sought.peer == from { sought.seeking.met() } else { None };
        let Some(agreed) = agreed else { return false };
        self.begin(now, id, &agreed);
        true
    }

    fn begin(&mut self, now: Instant, id: SocketId, agreed: &Agreed) {
        let random = Random::new(self.random.next_u64());
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let Role::Seeking(sought) = &socket.role else { return };
        let whose = (Side::Seeker, sought.peer);
        let mut connection = Connection::new(&sought.config, whose, agreed, now, random);
        connection.push_event(Event::Connected);
        socket.met_with = sought.seeking.is_rendezvous().then(|| sought.seeking.said());
        if socket.met_with.is_none() {
            connection.show();
        }
        socket.role = Role::Connected(Box::new(connection));
        self.make_ready(id);
    }

    fn seek(&mut self, now: Instant, peer: SocketAddr, config: SocketConfig, request: Request) -> SocketId {
        let id = self.new_id();
        let first = config.first_sequence.map(Sequence::from_word);
        let first = first.unwrap_or_else(|| Sequence::of(self.random.next_u64()));
        let seeking = Seeking::new(now, request, &config, id, first, peer);
        let role = Role::Seeking(Box::new(Sought { seeking, config, peer, failed: None, is_told: false }));
        self.sockets.insert(
            id,
            Socket { role, is_ready: false, deadline: None, owner: Owner::Application, met_with: None },
        );
        self.make_ready(id);
        id
    }

    /// Returns the socket that connects to this address by rendezvous.
    fn meeting_at(&self, address: SocketAddr) -> Option<SocketId> {
        let meets = |socket: &Socket| match &socket.role {
            Role::Seeking(sought) => sought.seeking.is_rendezvous() && sought.peer == address,
            Role::Connected(_) => false,
        };
        self.sockets.iter().find(|(_, socket)| meets(socket)).map(|(id, _)| *id)
    }

    fn answer(&mut self, to: SocketAddr, destination: SocketId, body: Body<'_>) {
        if self.answers.len() == MAX_ANSWERS {
            self.stats.unanswered += 1;
            return;
        }
        let mut bytes = Vec::with_capacity(64);
        Control { timestamp_us: 0, destination, body }.write(&mut bytes);
        self.answers.push_back((to, bytes));
    }

    fn make_ready(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(&id).filter(|socket| !socket.is_ready) {
            socket.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Returns a number for a new socket: random, so that it cannot be guessed from another.
    fn new_id(&mut self) -> SocketId {
        const MOST: u64 = 0x7fff_fffe;
        loop {
            #[expect(clippy::cast_possible_truncation, reason = "below 2^31")]
            let id = SocketId(self.random.below(MOST) as u32 + 1);
            if !self.sockets.contains_key(&id) {
                return id;
            }
        }
    }

    fn connection(&mut self, id: SocketId) -> Result<&mut Connection, SendError> {
        match self.sockets.get_mut(&id) {
            Some(Socket { role: Role::Connected(connection), .. }) => Ok(connection),
            Some(Socket { role: Role::Seeking(_), .. }) => Err(SendError::NotConnected),
            None => Err(SendError::Closed),
        }
    }

    fn look(&self, id: SocketId) -> Option<&Connection> {
        match &self.sockets.get(&id)?.role {
            Role::Connected(connection) => Some(connection),
            Role::Seeking(_) => None,
        }
    }
}

impl Role {
    const fn peer(&self) -> SocketAddr {
        match self {
            Self::Seeking(sought) => sought.peer,
            Self::Connected(connection) => connection.address,
        }
    }
}

impl Sought {
    fn poll(&mut self, now: Instant) -> Step {
        if self.failed.is_none() && self.seeking.is_over(now) {
            self.failed = Some(CloseReason::NoAnswer);
        }
        if let Some(reason) = self.failed {
            let was_told = core::mem::replace(&mut self.is_told, true);
            return if was_told { Step::Idle(None) } else { Step::Event(Event::Closed(reason)) };
        }
        match self.seeking.poll(now) {
            Some((destination, handshake)) => {
                let mut bytes = Vec::with_capacity(64);
                let body = Body::Handshake(handshake);
                Control { timestamp_us: 0, destination, body }.write(&mut bytes);
                Step::Control(bytes)
            }
            None => Step::Idle(Some(self.seeking.deadline())),
        }
    }
}
