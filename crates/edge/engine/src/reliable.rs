//! A UDP port with a reliable endpoint: a thread drives the machine, and other threads call it and
//! wait.
//!
//! The machine is behind one lock. Senders copy into its buffer, receivers copy out of it, and the
//! thread moves packets; it sleeps until the machine's deadline, the next packet, or a call that
//! gives it work.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use std::collections::{BTreeMap, BTreeSet};

use keys::PublicKey;
use noise::{SessionStats, Train};
use sys::{
    Interest, OpenError, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, ReceiveTechniques,
    SendSocket, SendTechniques, Wakeup, clock,
};
use udt::{
    CloseReason, Datagrams, Endpoint, EndpointConfig, EndpointStats, Event, FirstSize, Output, SendError,
    Sent, SocketConfig, SocketId, Stats, Terms,
};
use units::Instant;

mod news;
mod secured;
mod watched;

use secured::{Enclosure, enclosed};

pub use news::News;
pub use secured::PortKeys;
pub use watched::{Standing, Way};

/// Number of batches that are received before pending packets are sent.
const BATCHES_PER_DUTY_CYCLE: usize = 4;
/// Number of trains that are sent before the socket is read again.
const TRAINS_PER_DUTY_CYCLE: usize = 8;

/// Maximum number of given-up messages that wait to be taken: more than an owner that is awake lets accumulate.
const MAX_EXPIRED: usize = 1 << 18;

/// Settings with which a port is opened.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Address at which to receive; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Receive buffer to request from the kernel. Units: bytes.
    pub receive_buffer_bytes: usize,
    /// Send buffer to request from the kernel. Units: bytes.
    pub send_buffer_bytes: usize,
    /// True if the kernel handles trains of packets as one (GSO, GRO).
    pub offloads: bool,
    /// Seed of all random numbers of the port: socket ids, first packet numbers.
    pub seed: u64,
    /// Key of its cookies; must be kept secret.
    pub secret: [u8; 16],
    /// Keys with which all datagrams are secured; without them the port is in the clear.
    pub keys: Option<PortKeys>,
}

/// Reason why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The socket cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The thread or a descriptor cannot be created.
    #[error("the port's thread cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The limit of open files is reached.
    #[error("the port's thread cannot be started: {0}\n{help}", help = sys::MORE_DESCRIPTORS)]
    NoDescriptors(#[source] io::Error),
}

impl From<io::Error> for PortError {
    fn from(error: io::Error) -> Self {
        if sys::is_out_of_descriptors(&error) { Self::NoDescriptors(error) } else { Self::Start(error) }
    }
}

/// Reason why a waiting call returns without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WaitError {
    /// The connection is over.
    #[error("{0}")]
    Closed(CloseReason),
    /// The peer's application failed.
    #[error("the peer's application failed: {}", peer_error(*.0))]
    Peer(u32),
    /// The operation is not supported by this socket.
    #[error("{0}")]
    Send(SendError),
    /// The port's thread ended, because its socket or its poller failed.
    #[error("the port's socket failed: {0}")]
    Port(io::ErrorKind),
    /// The timeout has passed.
    #[error("timed out")]
    TimedOut,
}

/// Returns the meaning of an error code of the peer; libudt has only the one of a file.
fn peer_error(code: u32) -> String {
    /// `CUDTException` of libudt: major 4 (file system).
    const FILE: u32 = 4_000;
    if code == FILE {
        "it cannot write its file; see the disk of that host".to_owned()
    } else {
        format!("it sent {code}, a code of its own")
    }
}

/// A UDP port with a reliable endpoint; dropping it ends its thread, and unsent data are lost.
pub struct ReliablePort {
    shared: Arc<Shared>,
    local: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the thread and its callers.
struct Shared {
    state: Mutex<State>,
    /// Signals a change that a caller may wait for.
    changed: Condvar,
    wakeup: Wakeup,
}

struct State {
    endpoint: Endpoint,
    enclosure: Enclosure,
    /// State of each socket that a caller holds: one that is not accepted belongs to the endpoint
    /// alone.
    known: BTreeMap<SocketId, Known>,
    /// True while the thread sleeps and must be woken for immediate work.
    is_asleep: bool,
    /// Number of callers that wait for a change.
    waiting: usize,
    /// Word of each change, for an owner that waits elsewhere.
    news: Option<Arc<News>>,
    stops: bool,
    /// Size of packets that no longer arrive: they may be fragmented along the path.
    cuts_for: Option<u32>,
    /// Number of datagrams that the kernel refused.
    refused_datagrams: u64,
    /// Error with which the thread ended.
    failed: Option<io::ErrorKind>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    is_connected: bool,
    closed: Option<CloseReason>,
    peer_error: Option<u32>,
    /// Tags of messages that were given up and are not taken yet, each with whether it had been sent.
    expired: Vec<(u64, bool)>,
    /// True if its owner found no room, and is to be told of some.
    wants_room: bool,
}

impl ReliablePort {
    /// Opens a port and starts its thread.
    ///
    /// # Errors
    /// [`PortError`] if the system lacks a resource.
    pub fn open(options: &PortOptions) -> Result<Self, PortError> {
        let mut receive = ReceiveOptions::at(options.address, options.receive_buffer_bytes);
        receive.techniques = ReceiveTechniques { gro: options.offloads, batches: true };
        let receiver = ReceiveSocket::open(&receive)?;
        let techniques = SendTechniques { gso: options.offloads, ..SendTechniques::default() };
        let sender = SendSocket::beside(&receiver, techniques, options.send_buffer_bytes)?;
        let local = receiver.local_address();
        let endpoint = Endpoint::new(&EndpointConfig { seed: options.seed, secret: options.secret });
        let state = State {
            endpoint,
            enclosure: Enclosure::new(options.keys.clone()),
            known: BTreeMap::new(),
            is_asleep: false,
            waiting: 0,
            news: None,
            stops: false,
            cuts_for: None,
            refused_datagrams: 0,
            failed: None,
        };
        let wakeup = Wakeup::new()?;
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), wakeup });
        let poller = Poller::new()?;
        poller.add(&receiver, 0, Interest::Read)?;
        poller.add(&shared.wakeup, 1, Interest::Read)?;
        // Room for the largest possible datagram: a truncated one would be taken for a whole one.
        let batch = ReceiveBatch::for_trains();
        let cuts = false;
        let driver = Driver { shared: Arc::clone(&shared), receiver, sender, poller, batch, cuts };
        let thread = std::thread::Builder::new().name("tallycast-udt".into()).spawn(move || driver.run())?;
        Ok(Self { shared, local, thread: Some(thread) })
    }

    /// Returns the local address, with the port that the kernel chose.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Listens for clients; `None` if the port already has a listener.
    #[must_use]
    pub fn listen(&self, config: SocketConfig, backlog: usize) -> Option<SocketId> {
        self.with(|state, _| {
            let config = enclosed(config, state.enclosure.is_secured());
            state.endpoint.listen(config, backlog)
        })
    }

    /// Takes the next waiting client, and waits for one up to `timeout`.
    ///
    /// # Errors
    /// If none came in time, or the port failed.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<SocketId, WaitError> {
        self.wait(timeout, |state, _| state.accept().map(Ok))
    }

    /// Connects to a listener, and waits until the connection is established.
    ///
    /// # Errors
    /// If the peer does not answer or refuses the connection.
    pub fn connect(&self, peer: SocketAddr, config: SocketConfig) -> Result<SocketId, WaitError> {
        let config = fitting(config, peer);
        self.await_connection(config, |endpoint, now, config| endpoint.connect(now, peer, config))
    }

    /// Connects to a peer that does the same, and waits until the connection is established.
    ///
    /// # Errors
    /// If the peer does not connect in time.
    pub fn rendezvous(&self, peer: SocketAddr, config: SocketConfig) -> Result<SocketId, WaitError> {
        let config = fitting(config, peer);
        self.await_connection(config, |endpoint, now, config| endpoint.rendezvous(now, peer, config))
    }

    /// Queues bytes of a stream, waiting until there is room for some; returns how many.
    ///
    /// # Errors
    /// If the connection is over, or there was no room in time.
    pub fn send(
        &self,
        socket: SocketId,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<usize, WaitError> {
        self.wait(timeout, |state, _| match state.endpoint.send(socket, bytes) {
            Ok(0) if !bytes.is_empty() => state.over(socket).map(Err),
            Ok(count) => Some(Ok(count)),
            Err(error) => Some(Err(state.why(socket, error))),
        })
    }

    /// Queues a message, waiting until there is room for it. After `lifetime` it is not sent any
    /// more.
    ///
    /// # Errors
    /// If the connection is over, the message is too long for it, or there was no room in time.
    pub fn send_message(
        &self,
        socket: SocketId,
        bytes: &[u8],
        is_ordered: bool,
        lifetime: Option<Duration>,
        timeout: Option<Duration>,
    ) -> Result<(), WaitError> {
        self.wait(timeout, |state, now| {
            let deadline = lifetime.map(|lifetime| now + lifetime);
            let terms = Terms { is_ordered, deadline, ..Terms::default() };
            match state.endpoint.send_message(now, socket, bytes, terms) {
                Ok(Sent::Queued | Sent::TooLate) => Some(Ok(())),
                Ok(Sent::NoRoom) => state.over(socket).map(Err),
                Err(error) => Some(Err(state.why(socket, error))),
            }
        })
    }

    /// Copies data of a stream that have arrived, waiting until there are some; returns 0 at its
    /// end.
    ///
    /// # Errors
    /// If the connection broke, or nothing arrived in time.
    pub fn receive(
        &self,
        socket: SocketId,
        out: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, WaitError> {
        self.wait(timeout, |state, _| match state.endpoint.receive(socket, out) {
            0 if !out.is_empty() => state.end_of(socket),
            count => Some(Ok(count)),
        })
    }

    /// Replaces the content of `out` by the next message, waiting until there is one; returns false
    /// at the end.
    ///
    /// # Errors
    /// If the connection broke, or nothing arrived in time.
    pub fn receive_message(
        &self,
        socket: SocketId,
        out: &mut Vec<u8>,
        timeout: Option<Duration>,
    ) -> Result<bool, WaitError> {
        out.clear();
        self.wait(timeout, |state, _| {
            if state.endpoint.receive_message(socket, out).is_some() {
                return Some(Ok(true));
            }
            state.end_of(socket).map(|end| end.map(|_| false))
        })
    }

    /// Waits until the peer has acknowledged all queued data.
    ///
    /// # Errors
    /// If the connection ends or the timeout passes before that.
    pub fn flush(&self, socket: SocketId, timeout: Option<Duration>) -> Result<(), WaitError> {
        // Acknowledgements raise no event, so this polls.
        const POLL_INTERVAL: Duration = Duration::from_millis(5);
        let end = timeout.map(|timeout| clock::monotonic() + timeout);
        loop {
            let outcome = self.wait(Some(POLL_INTERVAL), |state, _| {
                if state.endpoint.is_flushed(socket) { Some(Ok(())) } else { state.over(socket).map(Err) }
            });
            let is_late = end.is_some_and(|end| end <= clock::monotonic());
            if outcome != Err(WaitError::TimedOut) || is_late {
                return outcome;
            }
        }
    }

    /// Notifies the peer that the application failed.
    pub fn fail(&self, socket: SocketId, code: u32) {
        self.with(|state, _| state.endpoint.fail(socket, code));
    }

    /// Closes a socket and waits until queued data are acknowledged or given up; data that had
    /// arrived and were not received are discarded. Returns how the connection ended, if there was
    /// one.
    pub fn close(&self, socket: SocketId) -> Option<CloseReason> {
        self.begin_to_close(socket);
        // A port that failed has no further events of its connections.
        let _ = self.wait(None, |state, _| (!state.is_ending(socket)).then_some(Ok(())));
        self.with(|state, _| state.known.remove(&socket)).and_then(|known| known.closed)
    }

    /// Begins to [close](Self::close) a socket without waiting: calls that wait to receive or to send return when it has ended.
    pub fn begin_to_close(&self, socket: SocketId) {
        self.with(|state, now| state.endpoint.close(now, socket));
    }

    /// Returns the statistics of a connection so far.
    #[must_use]
    pub fn stats(&self, socket: SocketId) -> Option<Stats> {
        self.with(|state, _| state.endpoint.stats(socket))
    }

    /// Returns why a connection has ended, if it has.
    #[must_use]
    pub fn closed(&self, socket: SocketId) -> Option<CloseReason> {
        self.with(|state, _| state.known.get(&socket).and_then(|known| known.closed))
    }

    /// Returns the address of a connection's peer.
    #[must_use]
    pub fn peer(&self, socket: SocketId) -> Option<SocketAddr> {
        self.with(|state, _| state.endpoint.peer(socket))
    }

    /// Returns the counters that belong to no connection.
    #[must_use]
    pub fn endpoint_stats(&self) -> EndpointStats {
        self.with(|state, _| state.endpoint.endpoint_stats())
    }

    /// Returns the counters of its sessions, if it is secured.
    #[must_use]
    pub fn session_stats(&self) -> Option<SessionStats> {
        self.with(|state, _| state.enclosure.stats())
    }

    /// Returns the key by which a connection's peer has identified itself, if the port is secured.
    #[must_use]
    pub fn peer_key(&self, socket: SocketId) -> Option<PublicKey> {
        self.with(|state, _| state.enclosure.peer(state.endpoint.peer(socket)?))
    }

    /// Replaces the list of peers of a secured port: who is no longer in it is not heard from now on.
    pub fn relist(&self, peers: &BTreeSet<PublicKey>) {
        self.with(|state, _| state.enclosure.relist(peers));
    }

    /// Returns how many datagrams the kernel refused: they count as lost, and are sent again.
    #[must_use]
    pub fn refused_datagrams(&self) -> u64 {
        self.with(|state, _| state.refused_datagrams)
    }

    fn await_connection(
        &self,
        config: SocketConfig,
        begin: impl FnOnce(&mut Endpoint, Instant, SocketConfig) -> SocketId,
    ) -> Result<SocketId, WaitError> {
        let socket = self.with(|state, now| {
            let config = enclosed(config, state.enclosure.is_secured());
            let socket = begin(&mut state.endpoint, now, config);
            state.known.insert(socket, Known::default());
            socket
        });
        let outcome = self.wait(None, |state, _| {
            let known = state.known.get(&socket);
            match known.and_then(|known| known.closed) {
                Some(reason) => Some(Err(WaitError::Closed(reason))),
                None => known.is_some_and(|known| known.is_connected).then_some(Ok(socket)),
            }
        });
        if outcome.is_err() {
            self.close(socket);
        }
        outcome
    }

    /// Calls `act` with the machine, and wakes its thread if that gave it work.
    fn with<R>(&self, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.shared.lock();
        let result = act(&mut state, clock::monotonic());
        self.wake_for(state);
        result
    }

    /// Calls `ask` again after every change until it returns a value or the timeout has passed.
    fn wait<R>(
        &self,
        timeout: Option<Duration>,
        mut ask: impl FnMut(&mut State, Instant) -> Option<Result<R, WaitError>>,
    ) -> Result<R, WaitError> {
        let end = timeout.map(|timeout| clock::monotonic() + timeout);
        let mut state = self.shared.lock();
        loop {
            let now = clock::monotonic();
            if let Some(outcome) = ask(&mut state, now) {
                self.wake_for(state);
                return outcome;
            }
            if let Some(kind) = state.failed {
                return Err(WaitError::Port(kind));
            }
            if end.is_some_and(|end| end <= now) {
                return Err(WaitError::TimedOut);
            }
            if state.needs_poll() && std::mem::take(&mut state.is_asleep) {
                self.shared.wakeup.wake();
            }
            let patience = end.map_or(crate::MAX_SLEEP, |end| end.since(now).min(crate::MAX_SLEEP));
            state.waiting += 1;
            let (woken, _) =
                self.shared.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.waiting -= 1;
        }
    }

    fn wake_for(&self, mut state: MutexGuard<'_, State>) {
        let must_wake = state.needs_poll() && std::mem::take(&mut state.is_asleep);
        drop(state);
        if must_wake {
            self.shared.wakeup.wake();
        }
    }
}

/// Reduces packets to the MTU that this host knows of the path, unless their size was requested: a probe in fragments
/// would prove nothing.
fn fitting(config: SocketConfig, peer: SocketAddr) -> SocketConfig {
    let known = sys::path_mtu(peer, None).ok().and_then(|mtu| u32::try_from(mtu).ok());
    match known.filter(|_| config.first_size == FirstSize::ByPeer) {
        Some(mtu) => SocketConfig { packet_bytes: config.packet_bytes.min(mtu), ..config },
        None => config,
    }
}

impl Drop for ReliablePort {
    fn drop(&mut self) {
        self.shared.lock().stops = true;
        self.shared.wakeup.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns whether there is work for the thread now.
    fn needs_poll(&self) -> bool {
        self.endpoint.needs_poll() || self.enclosure.needs_poll()
    }

    /// Takes the next waiting client.
    fn accept(&mut self) -> Option<SocketId> {
        let socket = self.endpoint.accept()?;
        // It may have ended while it waited: data that had arrived can still be received.
        let closed = self.endpoint.ended(socket);
        self.known.insert(socket, Known { is_connected: true, closed, ..Known::default() });
        Some(socket)
    }

    /// Returns why a socket has ended, if it has.
    fn over(&self, socket: SocketId) -> Option<WaitError> {
        let known = self.known.get(&socket)?;
        known.peer_error.map(WaitError::Peer).or(known.closed.map(WaitError::Closed))
    }

    /// Returns whether there is room where an owner waits for some.
    fn has_wanted_room(&mut self) -> bool {
        let mut has_any = false;
        for (socket, known) in self.known.iter_mut().filter(|(_, known)| known.wants_room) {
            known.wants_room = self.endpoint.room(*socket) == 0;
            has_any |= !known.wants_room;
        }
        has_any
    }

    fn why(&self, socket: SocketId, error: SendError) -> WaitError {
        self.over(socket).unwrap_or(WaitError::Send(error))
    }

    /// Returns the end of the received data: none yet, an orderly end, or a broken connection.
    fn end_of(&self, socket: SocketId) -> Option<Result<usize, WaitError>> {
        match self.over(socket)? {
            WaitError::Closed(CloseReason::ByPeer | CloseReason::Local) => Some(Ok(0)),
            error => Some(Err(error)),
        }
    }

    /// Returns whether a socket has not ended yet: it exists, and its end was not reported.
    fn is_ending(&self, socket: SocketId) -> bool {
        self.endpoint.contains(socket) && self.known.get(&socket).is_some_and(|known| known.closed.is_none())
    }

    fn note(&mut self, socket: SocketId, event: Event) {
        if let Event::PmtuBlackHole { packet_bytes } = event {
            self.cuts_for = Some(packet_bytes);
        }
        let Some(known) = self.known.get_mut(&socket) else { return };
        match event {
            Event::Connected | Event::Accepted { .. } => known.is_connected = true,
            Event::Closed(reason) => known.closed = Some(reason),
            Event::PeerError { code } => known.peer_error = Some(code),
            // Of an owner that waits for news: others do not name their messages.
            Event::Expired { tag, was_sent } if tag != 0 && known.expired.len() < MAX_EXPIRED => {
                known.expired.push((tag, was_sent));
            }
            Event::PmtuBlackHole { .. }
            | Event::Readable
            | Event::Writable
            | Event::Expired { .. }
            | Event::LinkDown
            | Event::LinkUp => {}
        }
    }
}

/// State of the thread itself: the sockets, and how it sleeps.
struct Driver {
    shared: Arc<Shared>,
    receiver: ReceiveSocket,
    sender: SendSocket,
    poller: Poller,
    batch: ReceiveBatch,
    /// True if packets may be fragmented along the path.
    cuts: bool,
}

impl Driver {
    fn run(mut self) {
        if let Err(error) = clock::lower_timer_slack() {
            tracing::debug!("timers stay as coarse as the system has them: {error}");
        }
        if let Err(error) = self.duty_cycles() {
            tracing::warn!("a reliable port failed: {error}");
            self.shared.lock().failed = Some(error.kind());
        }
        let news = self.shared.lock().news.clone();
        if let Some(news) = news {
            news.tell();
        }
        self.shared.changed.notify_all();
    }

    fn duty_cycles(&mut self) -> io::Result<()> {
        loop {
            let is_all_read = self.receive()?;
            let (deadline, stops) = self.send();
            if stops {
                return Ok(());
            }
            if !is_all_read {
                continue;
            }
            let now = clock::monotonic();
            if deadline.is_some_and(|deadline| deadline <= now) {
                continue;
            }
            {
                let mut state = self.shared.lock();
                // Callers since then expect their work to be done.
                if state.needs_poll() || state.stops {
                    continue;
                }
                state.is_asleep = true;
            }
            self.poller.wait(deadline)?;
            self.shared.lock().is_asleep = false;
            self.shared.wakeup.clear();
        }
    }

    /// Receives packets; returns whether all were read.
    fn receive(&mut self) -> io::Result<bool> {
        for _ in 0..BATCHES_PER_DUTY_CYCLE {
            if self.receiver.receive_batch(&mut self.batch)? == 0 {
                return Ok(true);
            }
            let (now, wall) = clock::pair();
            let mut state = self.shared.lock();
            for received in self.batch.iter().filter(|received| !received.truncated) {
                let age = received.kernel_time.map_or(0, |time| wall.nanos_since(time));
                let arrived = now - Duration::from_nanos(u64::try_from(age).unwrap_or(0));
                let datagrams = Datagrams {
                    from: received.from,
                    bytes: received.bytes,
                    segment_bytes: received.segment_bytes,
                    arrived,
                };
                let State { endpoint, enclosure, .. } = &mut *state;
                enclosure.receive(endpoint, now, &datagrams);
            }
            if !self.batch.is_full() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends what one duty cycle may send; returns when to continue, and whether to end.
    fn send(&mut self) -> (Option<Instant>, bool) {
        let mut trains = 0;
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let (mut has_news, mut refused) = (false, 0);
        let mut send = |train: Train<'_>| {
            // Packets that the kernel refuses are lost, and are sent again like all lost packets.
            let outcomes = self.sender.send_train(train.bytes, train.segment_bytes, train.peer);
            refused += outcomes.iter().filter(|outcome| **outcome != Outcome::Sent).count() as u64;
        };
        let deadline = loop {
            let now = clock::monotonic();
            let State { endpoint, enclosure, .. } = &mut *state;
            let of_sessions = match enclosure.poll(now) {
                noise::Output::Transmit(train) => {
                    send(train);
                    continue;
                }
                noise::Output::Idle { deadline } => deadline,
            };
            match endpoint.poll(now) {
                Output::Transmit(transmit) => {
                    let (bytes, segment_bytes) = (transmit.bytes, transmit.segment_bytes);
                    let train = Train { peer: transmit.to, bytes, segment_bytes };
                    if let Some(train) = enclosure.enclose(now, train) {
                        send(train);
                    }
                    trains += 1;
                }
                Output::Event { socket, event } => {
                    state.note(socket, event);
                    has_news = true;
                }
                // A handshake that the last train began is sent at once.
                Output::Idle { .. } if enclosure.needs_poll() => {}
                Output::Idle { deadline } => break Instant::earlier(deadline, of_sessions),
            }
            if trains == TRAINS_PER_DUTY_CYCLE {
                break Some(now);
            }
        };
        state.refused_datagrams += refused;
        has_news |= state.has_wanted_room();
        let cuts_for = state.cuts_for.take();
        let stops = state.stops;
        let must_tell = has_news && state.waiting > 0;
        let news = state.news.clone().filter(|_| has_news);
        drop(state);
        if must_tell {
            shared.changed.notify_all();
        }
        if let Some(news) = news {
            news.tell();
        }
        if let Some(packet_bytes) = cuts_for {
            self.let_packets_be_cut(packet_bytes);
        }
        if let Some(error) = self.sender.take_end_of_trains() {
            tracing::info!(
                "packets are sent one by one from now on: this path does not support trains ({error})"
            );
        }
        (deadline, stops)
    }

    /// Allows routers to fragment packets that have become too large for the path, and logs it
    /// once.
    fn let_packets_be_cut(&mut self, packet_bytes: u32) {
        if std::mem::replace(&mut self.cuts, true) {
            return;
        }
        let address = self.sender.local_address();
        let allowed = match sys::fragments::allow(&self.sender, address) {
            // Packets of an IPv6 socket to IPv4 addresses are fragmented as in IPv4.
            Ok(()) if address.ip().to_canonical().is_ipv6() && !address.ip().is_unspecified() => {
                "cannot be fragmented along the path, which IPv6 does not support".to_owned()
            }
            Ok(()) => {
                "may be fragmented along the path from now on, like all packets of this port".to_owned()
            }
            Err(error) => format!("cannot be fragmented along the path ({error})"),
        };
        tracing::warn!(
            "packets of {packet_bytes} bytes no longer arrive and smaller ones do: they {allowed}; smaller packets \
             cost less, as with mtu={}",
            udt::SAFE_PACKET_BYTES
        );
    }
}

#[cfg(test)]
mod tests;
