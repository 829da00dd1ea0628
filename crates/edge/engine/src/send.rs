//! The sending agent: one thread that takes every publisher of a process from its ring to the network.
//!
//! A publisher writes into a [`Publication`]; the agent drives a [`cast::Sender`] for each over a socket of its
//! own, receives the readers' reports, and announces the streams. Start with [`SendAgent::start`].

mod departures;
mod error;
mod guarded_send_path;
mod inline_send;
mod proving;
mod publication;
mod publication_config;
mod publication_shared;
mod samples;
mod send_path;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cast::secure::UnauthenticCounts;
use cast::send::{MAX_SECURED_DESTINATIONS, ReaderReport, Relayed};
use keyring::Keyring;
use ledger::MAX_POSITION;
use sys::{
    Interest, Interface, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, ReceiveTechniques, Received,
    clock,
};
use units::{Epoch, Instant, StreamId};
use wire::{Datagram, Predecessor};

use crate::control_messages::ControlMessages;
use crate::drop_board::{DropNews, concerns_sender};
use crate::host::RingWriter;
use crate::interface_watch::{Change, InterfaceWatch, Use};
use crate::present_keys::PresentKeys;
use crate::report_board::{ReportBoard, Sharing};
use crate::thread::{AgentThread, ThreadTuning};
use crate::waker::AgentWaker;
pub use departures::Departures;
pub use error::SendError;
use guarded_send_path::{GuardedSendPath, Message, Unavailable};
use inline_send::InlineSender;
use publication::Link;
pub use publication::Publication;
pub use publication::relayed::{RelayedError, RelayedPublication};
use publication_config::Surroundings;
pub use publication_config::{PublicationConfig, SocketFull};
use publication_shared::PublicationShared;
pub use publication_shared::PublicationStatus;
use send_path::{Polled, SendPath};

/// Size of the receive buffer for reports, which are small and few: it holds hundreds.
const REPORT_BUFFER_BYTES: usize = 1 << 20;
/// Maximum number of batches of reports taken before the publishers are polled, so that a flood of
/// them, forged or not, does not stop the streams.
const MAX_REPORT_BATCHES_PER_DUTY_CYCLE: usize = 4;
/// Interval at which publishers get new drop notices: shorter than two tally intervals.
const DROP_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of streams whose last epochs are remembered as predecessors.
const MAX_REMEMBERED: usize = 4_096;
const WAKEUP: u64 = 0;
const REPORTS: u64 = 1;
/// A socket whose send buffer was full has room: every send path is polled.
const ROOM: u64 = 2;
/// An interface or an address of this host has changed.
const LINKS: u64 = 3;

/// Settings of a sending agent: addresses and thread.
#[derive(Clone, Debug)]
pub struct SendConfig {
    /// Interface by which multicast leaves this host.
    pub interface: Option<Interface>,
    /// Maximum number of routers that datagrams may pass, plus one; without it multicast passes
    /// none, and unicast as many as the system's default allows.
    pub ttl: Option<u8>,
    /// Address at which streams are announced; `None` where there is no multicast.
    pub announce_to: Option<SocketAddr>,
    /// Directory of the drop board.
    pub drop_board: PathBuf,
    /// Settings of the board of received reports.
    pub reports: Sharing,
    /// Processor, priority and idling of the agent's thread.
    pub thread: ThreadTuning,
    /// Keys of a secured bus; `None`: streams are clear.
    pub keyring: Option<Arc<Keyring>>,
}

/// The handle of the sending agent; dropping it ends the agent once every publication has ended.
pub struct SendAgent {
    thread: AgentThread<Command>,
    waker: AgentWaker,
    report_port: u16,
    /// True if the agent's thread has default tuning: then publishers may send inline, which only
    /// saves time.
    allows_inline_send: bool,
    /// True if its streams are secured.
    is_secured: bool,
}

enum Command {
    Open(
        Box<PublicationConfig>,
        ring::Reader,
        Arc<PublicationShared>,
        mpsc::Sender<Result<InlineSender, SendError>>,
    ),
    Readers(Epoch, mpsc::Sender<Vec<ReaderReport>>),
    Refused(mpsc::Sender<UnauthenticCounts>),
    Stop,
}

struct Agent {
    config: SendConfig,
    waker: AgentWaker,
    poller: Poller,
    reports: ReceiveSocket,
    /// Board on which processes of this host see readers' reports.
    report_board: ReportBoard,
    is_v6: bool,
    /// Source addresses of datagrams, if there are several.
    addresses: Arc<[IpAddr]>,
    batch: ReceiveBatch,
    send_paths: Vec<Arc<GuardedSendPath>>,
    /// State at the end of the ended epochs, for their successors.
    ended: BTreeMap<StreamId, Predecessor>,
    /// Reports and requests as they arrive.
    control: ControlMessages,
    /// Keys of a secured bus.
    keys: PresentKeys,
    /// Drop notices of this host's drop reporter.
    drop_news: DropNews,
    /// True if a drop reporter sees all drops of the kernel on this host.
    is_watched: bool,
    next_drop_look: Instant,
    interface: InterfaceWatch,
    /// True if the poller has reported a change.
    links_told: bool,
    warned_of_buffer: bool,
    stopping: bool,
}

impl SendAgent {
    /// Starts the agent's thread.
    ///
    /// # Errors
    /// If the kernel has no socket, descriptor or thread left.
    pub fn start(config: SendConfig, v6: bool) -> Result<Self, SendError> {
        let waker = AgentWaker::new()?;
        let (tuning, is_secured) = (config.thread, config.keyring.is_some());
        let (commands, taken) = mpsc::channel();
        let agent = Agent::open(config, v6, waker.clone())?;
        let report_port = agent.reports.local_address().port();
        let stop = || Command::Stop;
        let run = move || agent.run(&taken);
        let thread = AgentThread::start("tallycast-send", tuning, commands, waker.clone(), stop, run)?;
        let allows_inline_send = tuning == ThreadTuning::default();
        Ok(Self { thread, waker, report_port, allows_inline_send, is_secured })
    }

    /// Opens a publication and its send path to the network.
    ///
    /// # Errors
    /// [`SendError`] if the settings are not valid or its socket cannot be opened.
    pub fn open(&self, mut config: PublicationConfig) -> Result<Publication, SendError> {
        if self.thread.is_of_parent() {
            return Err(SendError::Forked);
        }
        check(&config, self.is_secured)?;
        config.description.report_port = self.report_port;
        let is_relayed = config.relayed.is_some();
        let writer = make_ring(&config)?;
        let (reader, guard) = writer.reading_end().guarded_reader();
        let shared = Arc::new(PublicationShared::new());
        let link =
            Link { guard, shared: Arc::clone(&shared), waker: self.waker.clone(), inline_sender: None };
        let mut publication = Publication::new(&config, writer, Some(link)).inspect_err(|_| shared.end())?;
        let its = Arc::clone(&shared);
        let opened = self.thread.ask(|reply| Command::Open(Box::new(config), reader, its, reply));
        match opened.unwrap_or(Err(SendError::Ended)) {
            Ok(inline_sender) if self.allows_inline_send && !is_relayed => {
                publication.allow_inline_send(inline_sender)
            }
            Ok(_) => {}
            Err(error) => {
                // No agent will ever finish this publication: dropping it must not wait for that.
                shared.end();
                return Err(error);
            }
        }
        Ok(publication)
    }

    /// Opens a relayed publication and its send path to the network.
    ///
    /// # Errors
    /// As [`SendAgent::open`].
    ///
    /// # Panics
    /// If the configuration has no origin.
    pub fn open_relayed(&self, config: PublicationConfig) -> Result<RelayedPublication, SendError> {
        assert!(config.relayed.is_some(), "a relayed stream has an origin");
        self.open(config).map(RelayedPublication::over)
    }

    /// Returns the readers that report on an epoch, with their last reports.
    #[must_use]
    pub fn readers(&self, epoch: Epoch) -> Vec<ReaderReport> {
        self.thread.ask(|reply| Command::Readers(epoch, reply)).unwrap_or_default()
    }

    /// Returns how many reports and requests were refused on a secured bus.
    #[must_use]
    pub fn refused(&self) -> UnauthenticCounts {
        self.thread.ask(Command::Refused).unwrap_or_default()
    }
}

/// Remembers the end of an epoch; of too many streams the one whose epoch began earliest is
/// forgotten.
fn remember(ended: &mut BTreeMap<StreamId, Predecessor>, (stream, predecessor): (StreamId, Predecessor)) {
    ended.insert(stream, predecessor);
    if ended.len() > MAX_REMEMBERED {
        let oldest = ended.iter().min_by_key(|(_, predecessor)| predecessor.epoch).map(|(stream, _)| *stream);
        oldest.map(|stream| ended.remove(&stream));
    }
}

/// Opens a publisher's ring for the readers of this host, without a network.
///
/// # Errors
/// [`SendError`] if the settings are not valid or the ring cannot be created.
pub fn open_on_host(config: &PublicationConfig) -> Result<Publication, SendError> {
    check_ring(config)?;
    Publication::new(config, make_ring(config)?, None)
}

/// Opens a relayed stream's ring for the readers of this host, without a network.
///
/// # Errors
/// As [`open_on_host`].
///
/// # Panics
/// If the configuration has no origin.
pub fn open_relayed_on_host(config: &PublicationConfig) -> Result<RelayedPublication, SendError> {
    assert!(config.relayed.is_some(), "a relayed stream has an origin");
    open_on_host(config).map(RelayedPublication::over)
}

/// Creates a publisher's ring: in shared memory if readers of this host are to find it.
fn make_ring(config: &PublicationConfig) -> Result<ring::Writer, SendError> {
    let Some(host) = &config.host else { return Ok(ring::ring(config.ring_bytes).0) };
    let description = &config.description;
    let stream = wire::stream_id(&description.name, &description.schema);
    Ok(host.create(stream, RingWriter::Publisher, description, config.ring_bytes)?)
}

/// Checks the settings on which the agent's thread relies.
fn check(config: &PublicationConfig, is_secured: bool) -> Result<(), SendError> {
    let secured_bytes = if is_secured { wire::SECURED_DATA_BYTES } else { 0 };
    let origin_bytes = if config.relayed.is_some() { wire::ORIGIN_BYTES } else { 0 };
    let least = wire::MIN_DATA_BYTES + secured_bytes + origin_bytes;
    if !(least..=wire::MAX_DATAGRAM_BYTES).contains(&config.datagram_bytes) {
        return Err(SendError::DatagramBytes { actual: config.datagram_bytes, least });
    }
    let destinations = config.destinations.len();
    if is_secured && destinations > MAX_SECURED_DESTINATIONS {
        return Err(SendError::SecuredDestinations(destinations));
    }
    let train = config.pacing.max_train();
    if !(1..=sys::MAX_SEGMENTS).contains(&train) {
        return Err(SendError::Train(train));
    }
    let proof_bytes = wire::MAX_HEADER_BYTES + keys::TAG_BYTES;
    if config.proof.is_some() && config.datagram_bytes < proof_bytes {
        return Err(SendError::ProofBytes { actual: config.datagram_bytes, least: proof_bytes });
    }
    check_ring(config)
}

fn check_ring(config: &PublicationConfig) -> Result<(), SendError> {
    let (ring_bytes, sample_bytes) = (config.ring_bytes, config.description.schema.sample_bytes());
    if let Some(relayed) = &config.relayed {
        return check_relayed(config, relayed);
    }
    // The largest record is half of the ring; a sample and the statements behind it fit beside each other.
    let for_proof = if config.proof.is_some() { proving::MIN_RING_BYTES } else { 0 };
    let needed_bytes = publication::min_ring_bytes(sample_bytes) + for_proof;
    if ring_bytes < needed_bytes {
        return Err(SendError::QueueTooSmall { ring_bytes, sample_bytes, needed_bytes });
    }
    Ok(())
}

/// Checks a relayed stream, whose records are pieces of samples.
fn check_relayed(config: &PublicationConfig, relayed: &Relayed) -> Result<(), SendError> {
    let Relayed { origin, first_position } = *relayed;
    if usize::from(origin.hop.get()) > wire::MAX_HOPS || origin.epoch == config.epoch {
        return Err(SendError::Origin { hop: origin.hop.get() });
    }
    let per_sample = config.description.schema.elements_per_sample();
    if !first_position.is_multiple_of(u64::from(per_sample)) || first_position > MAX_POSITION {
        return Err(SendError::FirstPosition { first_position, per_sample });
    }
    let (ring_bytes, needed_bytes) = (config.ring_bytes, publication::relayed::MIN_RING_BYTES);
    if ring_bytes < needed_bytes {
        let sample_bytes = config.description.schema.sample_bytes();
        return Err(SendError::QueueTooSmall { ring_bytes, sample_bytes, needed_bytes });
    }
    Ok(())
}

impl Agent {
    /// Opens the socket for reports; the result is ready to run.
    fn open(config: SendConfig, v6: bool, waker: AgentWaker) -> Result<Self, SendError> {
        let address = report_address(&config, v6);
        let reports = ReceiveSocket::open(&ReceiveOptions {
            // Each report is by another reader: there is nothing to join.
            techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
            ..ReceiveOptions::at(address, REPORT_BUFFER_BYTES)
        })?;
        let poller = Poller::new()?;
        poller.add(waker.wakeup(), WAKEUP, Interest::Read)?;
        poller.add(&reports, REPORTS, Interest::Read)?;
        let interface = InterfaceWatch::new(config.interface.as_ref(), Use::Sending);
        if let Some(source) = interface.source() {
            poller.add(source, LINKS, Interest::Read)?;
        }
        let keys = PresentKeys::new(config.keyring.clone());
        let now = clock::monotonic();
        let drop_news = DropNews::new(&config.drop_board, now);
        let report_board = ReportBoard::new(&config.drop_board, config.reports, reports.local_address());
        Ok(Self {
            report_board,
            is_v6: v6,
            addresses: own_addresses(config.interface.as_ref(), v6),
            config,
            waker,
            poller,
            reports,
            batch: ReceiveBatch::with_slot_bytes(wire::MAX_DATAGRAM_BYTES.min(2_048)),
            send_paths: Vec::new(),
            ended: BTreeMap::new(),
            control: ControlMessages::new("reports and requests", keys.source()),
            keys,
            drop_news,
            is_watched: false,
            next_drop_look: now,
            interface,
            links_told: false,
            warned_of_buffer: false,
            stopping: false,
        })
    }

    fn run(mut self, commands: &mpsc::Receiver<Command>) {
        while let ControlFlow::Continue(deadline) = self.duty_cycle_unless_ended(commands) {
            self.sleep(deadline, commands);
        }
    }

    /// Runs a duty cycle; breaks off, without sleeping first, when no work can come any more.
    fn duty_cycle_unless_ended(
        &mut self,
        commands: &mpsc::Receiver<Command>,
    ) -> ControlFlow<(), Option<Instant>> {
        let deadline = self.duty_cycle(commands);
        let has_ended = self.stopping && self.send_paths.is_empty();
        if has_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(deadline) }
    }

    /// Polls every publisher's send path; returns when the next one is due, `None` for immediately.
    fn duty_cycle(&mut self, commands: &mpsc::Receiver<Command>) -> Option<Instant> {
        self.take_commands(commands);
        let more_reports = self.take_reports();
        let announce_to = self.config.announce_to;
        // A process that only waits for its publishers to end still polls them from time to time.
        let now = clock::monotonic();
        // An agent that never sleeps gets no events from a poller.
        if std::mem::take(&mut self.links_told) || now >= self.next_drop_look {
            self.look_at_interface();
        }
        self.hear_drops(now);
        self.look_at_keys(now);
        let sleeps_until =
            if self.drop_news.has_board() { self.next_drop_look } else { now + crate::MAX_SLEEP };
        let sleeps_until = self.keys.next_look().map_or(sleeps_until, |look| look.min(sleeps_until));
        let mut next = if more_reports { None } else { Some(sleeps_until) };
        let (poller, ended) = (&self.poller, &mut self.ended);
        self.send_paths.retain(|send_path| {
            let polled = send_path.with(|send_path| {
                let polled = send_path.poll(clock::monotonic(), announce_to);
                send_path.watch_for_room(poller, ROOM);
                if send_path.has_told_end() {
                    remember(ended, send_path.as_predecessor());
                }
                polled
            });
            match polled {
                Ok(Polled::Finished) => return false,
                Ok(Polled::Busy) => next = None,
                Ok(Polled::Until(deadline)) => {
                    next = next.map(|next| deadline.map_or(next, |deadline| deadline.min(next)));
                }
                // Its publisher sends inline, and wakes this agent if work is left afterwards.
                Err(Unavailable::InUse) => {}
                // A child of a process has no agent: this is its parent's.
                Err(Unavailable::Forked) => return false,
                Err(Unavailable::Poisoned) => {
                    tracing::error!("a stream ends: its publisher panicked while it sent");
                    return false;
                }
            }
            true
        });
        next
    }

    fn sleep(&mut self, deadline: Option<Instant>, commands: &mpsc::Receiver<Command>) {
        let Some(deadline) = deadline else { return };
        if self.config.thread.idle.stays_awake() {
            return;
        }
        self.waker.falling_asleep(deadline);
        // Input written before this line did not call the waker, so check all of it once more.
        let mut by_waker = false;
        if let Ok(command) = commands.try_recv() {
            self.take(command);
        } else if !self.send_paths.iter().any(|send_path| send_path.needs_poll()) {
            match self.poller.wait(Some(deadline)) {
                Ok(ready) => {
                    by_waker = ready.iter().any(|it| it.token == WAKEUP);
                    self.links_told = ready.iter().any(|it| it.token == LINKS);
                }
                Err(error) => tracing::error!("the sending agent cannot wait for events: {error}"),
            }
        }
        self.waker.awake(by_waker);
    }

    fn take_commands(&mut self, commands: &mpsc::Receiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            self.take(command);
        }
    }

    fn take(&mut self, command: Command) {
        // The caller may have stopped waiting; an answer that is not received is no error.
        match command {
            Command::Stop => self.stopping = true,
            Command::Open(config, reader, shared, reply) => {
                let opened = self.open_send_path(&config, reader, shared);
                let _ = reply.send(opened);
            }
            Command::Refused(reply) => {
                let _ = reply.send(self.control.counts());
            }
            Command::Readers(epoch, reply) => {
                let send_path = self.send_paths.iter().find(|send_path| send_path.epoch() == epoch);
                if let Some(send_path) = send_path {
                    send_path.post(Message::Readers(reply));
                }
            }
        }
    }

    fn open_send_path(
        &mut self,
        config: &PublicationConfig,
        reader: ring::Reader,
        shared: Arc<PublicationShared>,
    ) -> Result<InlineSender, SendError> {
        let stream = wire::stream_id(&config.description.name, &config.description.schema);
        self.remember_told_ends(stream);
        let predecessor = self.ended.get(&stream).copied().filter(|before| before.epoch < config.epoch);
        let (interface, ttl) = (self.config.interface.clone(), self.config.ttl);
        let membership = self.keys.membership();
        let surroundings = Surroundings { interface, ttl, predecessor, membership };
        let send_path = SendPath::open(config, reader, shared, &surroundings, clock::monotonic())?;
        let buffer = send_path.granted_buffer();
        if buffer.clamped() && !std::mem::replace(&mut self.warned_of_buffer, true) {
            tracing::warn!("{buffer}");
        }
        let send_path = Arc::new(GuardedSendPath::new(send_path));
        let inline_sender = InlineSender::new(&send_path, self.config.announce_to, config.socket_full);
        if self.is_watched {
            send_path.post(Message::Watched(true));
        }
        if !self.addresses.is_empty() {
            send_path.post(Message::Addresses(Arc::clone(&self.addresses)));
        }
        self.send_paths.push(send_path);
        Ok(inline_sender)
    }

    /// Remembers the ends of a stream's epochs that an inline sender has told since the last duty cycle.
    fn remember_told_ends(&mut self, stream: StreamId) {
        for send_path in self.send_paths.iter().filter(|it| it.stream() == stream) {
            let told = send_path.with(|it| it.has_told_end().then(|| it.as_predecessor()));
            if let Ok(Some(predecessor)) = told {
                remember(&mut self.ended, predecessor);
            }
        }
    }

    /// Takes readers' reports, within bounds; returns whether there may be more.
    fn take_reports(&mut self) -> bool {
        for _ in 0..MAX_REPORT_BATCHES_PER_DUTY_CYCLE {
            match self.reports.receive_batch(&mut self.batch) {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
            let membership = self.keys.membership();
            let Self { batch, control, report_board, send_paths, .. } = self;
            for (Received { from, .. }, bytes) in batch.iter_mut() {
                let size_bytes = bytes.len();
                let Some(plain) = control.open(membership.as_deref(), from, bytes) else { continue };
                match Datagram::decode(plain) {
                    Ok(Datagram::Report(report)) => {
                        let ip = from.ip().to_canonical();
                        post(send_paths, report.stream, || Message::Report(report.clone(), ip, size_bytes));
                        // Reports on streams of other processes are not shown.
                        if send_paths.iter().any(|send_path| send_path.stream() == report.stream) {
                            report_board.post(clock::monotonic(), from, plain);
                        }
                    }
                    Ok(Datagram::Request(request)) => {
                        post(send_paths, request.stream, || Message::Request(request));
                    }
                    Ok(_) | Err(_) => tracing::debug!("a stray datagram from {from}"),
                }
            }
        }
        true
    }

    /// Passes other keys of a secured bus to the publishers.
    fn look_at_keys(&mut self, now: Instant) {
        let Some(membership) = self.keys.look(now) else { return };
        self.control.keep_only(&membership.keys);
        for send_path in &self.send_paths {
            send_path.post(Message::Membership(Arc::clone(&membership)));
        }
    }

    /// Passes drop notices to the publishers of the freed datagrams.
    ///
    /// Not on a secured bus, whose tallies are therefore not watched: a notice names a stream and a number as a
    /// datagram claims them, and on a sender's way not the socket that it is of; so any process of this host could
    /// report losses that there were not. Proof: `notices_of_drops_are_no_evidence_on_a_secured_bus`.
    fn hear_drops(&mut self, now: Instant) {
        if now < self.next_drop_look {
            return;
        }
        self.next_drop_look = now + DROP_LOOK_INTERVAL;
        if self.config.keyring.is_some() {
            return;
        }
        for notice in self.drop_news.take(now) {
            if concerns_sender(&notice) {
                self.post(notice.stream, || Message::Dropped(notice.clone()));
            }
        }
        // After the drops until now: a tally must report all that is known.
        let is_watched = self.drop_news.sees_all();
        if std::mem::replace(&mut self.is_watched, is_watched) != is_watched {
            self.send_paths.iter().for_each(|send_path| send_path.post(Message::Watched(is_watched)));
        }
    }

    /// Lets publishers continue at an interface that has returned or has other addresses.
    fn look_at_interface(&mut self) {
        let interface = match self.interface.look() {
            None => return,
            Some(Change::Interface(interface)) => {
                self.config.interface = Some(interface.clone());
                Some(interface)
            }
            Some(Change::Somewhere) => None,
        };
        let addresses = own_addresses(self.config.interface.as_ref(), self.is_v6);
        let have_changed = std::mem::replace(&mut self.addresses, Arc::clone(&addresses)) != addresses;
        for send_path in &self.send_paths {
            send_path.post(Message::Interface(interface.clone()));
            if have_changed {
                send_path.post(Message::Addresses(Arc::clone(&addresses)));
            }
        }
    }

    /// Posts a message to the send path of every publisher of a stream.
    fn post(&self, stream: StreamId, message: impl Fn() -> Message) {
        post(&self.send_paths, stream, message);
    }
}

/// Passes a message to the publishers of a stream.
fn post(send_paths: &[Arc<GuardedSendPath>], stream: StreamId, message: impl Fn() -> Message) {
    let of_stream = send_paths.iter().filter(|send_path| send_path.stream() == stream);
    of_stream.for_each(|send_path| send_path.post(message()));
}

/// Returns the possible source addresses of datagrams: those of an interface, or all of this host
/// where the routes choose. A single one need not be listed.
fn own_addresses(interface: Option<&Interface>, v6: bool) -> Arc<[IpAddr]> {
    let interfaces = interface.map_or_else(|| Interface::all().unwrap_or_default(), |it| vec![it.clone()]);
    let used = interfaces.into_iter().filter(|it| it.up && (!it.loopback || interface.is_some()));
    let all = used.flat_map(|it| it.addresses).filter(|address| address.is_ipv6() == v6);
    let addresses: Vec<IpAddr> = all.collect();
    if addresses.len() > 1 { addresses.into() } else { Arc::new([]) }
}

/// Returns the address at which reports are received: that of the pinned interface, or any.
fn report_address(config: &SendConfig, v6: bool) -> SocketAddr {
    let pinned = config.interface.as_ref().filter(|interface| interface.loopback);
    let ip: IpAddr = match (v6, pinned) {
        (true, Some(_)) => Ipv6Addr::LOCALHOST.into(),
        (true, None) => Ipv6Addr::UNSPECIFIED.into(),
        (false, Some(_)) => Ipv4Addr::LOCALHOST.into(),
        (false, None) => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

#[cfg(test)]
pub(crate) mod tests;
