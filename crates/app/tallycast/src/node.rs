//! A process on the bus, from which publishers and subscribers are created.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cast::receive::ReaderIdentity;
use cast::secure::UnauthenticCounts;
use engine::{
    Announced, HeardReports, HostRing, HostRings, PortStatus, ReceiveAgent, ReceiveConfig, ReceiveError,
    ReceivesFor, RelayBoard, RelayOnHost, RingName, SendAgent, SendConfig, SendError, Sharing,
    UnjoinedStreams, Withheld,
};
use keyring::{Keyring, KeyringError};
use ledger::LedgerConfig;
use ring::shared::{Access, CreateError};
use sample::{PatternError, SchemaError, StreamPattern};
use sys::{Interface, InterfaceError};
use units::{Epoch, RateError, ReaderId, StreamId, WallTime};
use wire::Description;

use crate::bus::{Bus, BusError};
use crate::flow::Handing;
use crate::host_view::{HostView, Reach, Start};
use crate::level::Level;
use crate::publisher::PublisherBuilder;
use crate::subscriber::{Pinned, Subscriber, SubscriberConfig};
use crate::tap::Tap;

/// Maximum number of streams whose last epoch is remembered.
const MAX_REMEMBERED_EPOCHS: usize = 16_384;
/// Default maximum size of a sample: a camera frame of 64 million pixels in four bytes each. Streams that
/// claim larger samples are not read.
const DEFAULT_MAX_SAMPLE_BYTES: usize = 1 << 28;

/// A process on the bus. Cheap to clone; its agents start when first needed and end with the last clone.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    bus: Bus,
    interface: Option<Interface>,
    station: String,
    ledger: LedgerConfig,
    receives_for: ReceivesFor,
    rings: Option<HostRings>,
    /// Keys of a secured bus.
    keyring: Option<Arc<Keyring>>,
    send: Mutex<Option<Arc<SendAgent>>>,
    receive: Mutex<Option<Arc<ReceiveAgent>>>,
    last_epochs: LastEpochs,
}

/// The last epoch of each stream published by one node, or by several that are opened in turn.
///
/// A stream's next epoch is later than these, even if the clock was set back meanwhile.
#[derive(Clone, Debug, Default)]
pub struct LastEpochs {
    last: Arc<Mutex<BTreeMap<StreamId, Epoch>>>,
}

/// Settings of a node before it is created.
#[derive(Clone, Debug, Default)]
pub struct NodeBuilder {
    bus: Option<Bus>,
    station: Option<String>,
    settle: Option<Duration>,
    receives_for: ReceivesFor,
    last_epochs: LastEpochs,
}

/// Settings of a subscriber before it is opened.
#[derive(Clone, Debug)]
pub struct SubscriberBuilder {
    node: Node,
    patterns: Vec<String>,
    reader: Option<String>,
    from: Vec<SocketAddr>,
    max_sample_bytes: usize,
    handing: Handing,
    spin: Duration,
    start: Start,
    deadline: Option<Duration>,
}

/// A stream that can be read from shared memory on this host.
#[derive(Clone, PartialEq, Debug)]
pub struct OnHost {
    /// Its identity.
    pub stream: StreamId,
    /// Reach of the stream: the ring is written by its publisher, or by the host's agent.
    pub reach: Reach,
    /// Process id of the writer in the writer's own namespace.
    pub pid: u32,
    /// Time at which the ring was created.
    pub since: WallTime,
    /// Name, schema, station.
    pub description: Arc<Description>,
}

/// State of the key service as its member sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyServiceState {
    /// Its address.
    pub address: String,
    /// Time until the last secret that is held ends, from when on nothing is sent; `None` without secrets.
    pub left: Option<Duration>,
    /// Time since the first question without an answer; `None` while it answers.
    pub silent: Option<Duration>,
    /// Number of questions that were repeated because no answer came.
    pub unanswered: u64,
    /// Reason why it gives this station no secrets.
    pub refused: Option<String>,
}

/// State of the keys of a secured bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyState {
    /// Public name of the secret with which this process sends now; `None` if it has none to send with.
    pub token: Option<String>,
    /// The key service that the secrets come from; `None` if the file has them.
    pub service: Option<KeyServiceState>,
    /// Changed files of keys that were refused: the keys before stay in force.
    pub failed_reloads: u64,
    /// End of the station's certificate.
    pub certificate_ends: WallTime,
    /// Reports and requests to this process's publishers that were refused.
    pub refused_reports: UnauthenticCounts,
}

/// Reason why a node, publisher or subscriber could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A reader's deadline is zero: no sample has that age.
    #[error(
        "a deadline of 0 leaves no time for the path\ngive the age up to which samples are of use, such as 300ms"
    )]
    NoTime,
    /// The bus is not valid.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The bus's interface does not exist.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The bus's file of keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyringError),
    /// A name or schema is not valid.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A pattern is not valid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The publisher has no rate.
    #[error("a stream needs a sample rate\nset one, such as rate(1_000) for 1,000 samples per second")]
    NoRate,
    /// The rate is not valid.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// A name is longer than the protocol allows.
    #[error("the {what} `{name}` is longer than {limit} bytes\nchoose a shorter one")]
    NameTooLong {
        /// Kind of the name.
        what: &'static str,
        /// The name as it was given.
        name: String,
        /// Maximum length. Units: bytes.
        limit: usize,
    },
    /// A name has a control character, which a terminal would obey.
    #[error("the {what} `{name}` has a control character\nwrite it with letters, digits and marks alone")]
    Unprintable {
        /// Kind of the name.
        what: &'static str,
        /// The name, its control characters escaped.
        name: String,
    },
    /// An agent needs both a network and shared memory.
    #[error(
        "an agent needs a bus with a network and with shared memory, and the bus {0} lacks one of them\n         use the default bus, or one such as udp://239.84.0.0:7400?iface=eth1&shm=on"
    )]
    NothingToBridge(Box<Bus>),
    /// This host has an agent on the bus already.
    #[error(
        "an agent for this host is already running{}\nstop it first; one agent can take several patterns",
        .pid.map_or_else(String::new, |pid| format!(", process {pid}"))
    )]
    AgentRuns {
        /// Process id of that agent in its own namespace.
        pid: Option<u32>,
    },
    /// An agent cannot create rings.
    #[error("the ring for the readers of this host failed: {0}")]
    NoRings(CreateError),
    /// An address was given on a bus without a network.
    #[error(
        "the bus {0} is limited to this host and has no addresses\nomit --to and --from, or use a udp:// bus"
    )]
    NoNetwork(Box<Bus>),
    /// An option for datagrams was given on a bus without a network.
    #[error(
        "planted loss and sending on demand concern datagrams, and the bus {0} is limited to this host\nomit --loss and --send, or use a udp:// bus"
    )]
    NoDatagrams(Box<Bus>),
    /// A publisher without keys cannot sign.
    #[error(
        "proof needs keys: statements about the samples are signed by this station\nopen the bus with the station's file of keys (keys=FILE), or leave proof off"
    )]
    ProofNeedsKeys,
    /// The sending agent cannot be started.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The receiving agent cannot be started.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
}

impl NodeError {
    /// Returns the error of an agent that cannot create its presence or rings.
    pub(crate) fn of_agent(error: CreateError) -> Self {
        match error {
            CreateError::InUse { pid, .. } => Self::AgentRuns { pid },
            other => Self::NoRings(other),
        }
    }
}

impl NodeBuilder {
    /// Sets the bus; by default it comes from the environment.
    #[must_use]
    pub fn bus(mut self, bus: Bus) -> Self {
        self.bus = Some(bus);
        self
    }

    /// Sets the station's name; the host's name by default.
    #[must_use]
    pub fn station(mut self, station: impl Into<String>) -> Self {
        self.station = Some(station.into());
        self
    }

    /// Sets how long a missing number waits for evidence; two seconds by default.
    #[must_use]
    pub const fn settle(mut self, settle: Duration) -> Self {
        self.settle = Some(settle);
        self
    }

    /// Sets for whom this process receives: for itself, or as the agent of its host for every process there.
    #[must_use]
    pub const fn receives_for(mut self, whom: ReceivesFor) -> Self {
        self.receives_for = whom;
        self
    }

    /// Remembers the last epochs of streams in `last_epochs`, beyond the node's own end; by default they are
    /// forgotten with it.
    #[must_use]
    pub fn last_epochs(mut self, last_epochs: LastEpochs) -> Self {
        self.last_epochs = last_epochs;
        self
    }

    /// Creates the node.
    ///
    /// # Errors
    /// [`NodeError`] if the bus is not valid, or its interface or file of keys cannot be used.
    pub fn build(self) -> Result<Node, NodeError> {
        let bus = self.bus.map_or_else(Bus::from_env, Ok)?;
        bus.check()?;
        // Before the secrets are in memory.
        if bus.keys.is_some()
            && let Err(error) = sys::core_dumps::forbid_core_dumps()
        {
            tracing::warn!("core dumps of this process cannot be prevented, and may hold keys: {error}");
        }
        let keyring = bus.keys.as_ref().map(|path| Keyring::open(path, sys::clock::wall())).transpose()?;
        let keyring = keyring.map(Arc::new);
        let interface = bus.interface.as_deref().map(Interface::find).transpose()?;
        let receives_for = self.receives_for;
        if receives_for == ReceivesFor::Host && (bus.shm.is_none() || !bus.has_network()) {
            return Err(NodeError::NothingToBridge(Box::new(bus)));
        }
        let rings = bus.host_rings(keyring.as_ref().map(|it| it.membership().authority));
        if let Some(rings) = &rings {
            let removed = rings.sweep();
            tracing::debug!("removed {removed} rings whose writers were killed");
        }
        let station = self.station.unwrap_or_else(host_name);
        check_station(&station)?;
        let mut ledger = LedgerConfig::default();
        ledger.settle = self.settle.unwrap_or(ledger.settle);
        let (send, receive) = (Mutex::new(None), Mutex::new(None));
        let last_epochs = self.last_epochs;
        let inner = Inner {
            bus,
            interface,
            station,
            ledger,
            receives_for,
            rings,
            keyring,
            send,
            receive,
            last_epochs,
        };
        Ok(Node { inner: Arc::new(inner) })
    }
}

impl Node {
    /// Begins to describe a node.
    #[must_use]
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// Creates a node on `bus`.
    ///
    /// # Errors
    /// [`NodeError`] if the bus's interface does not exist.
    pub fn open(bus: Bus) -> Result<Self, NodeError> {
        Self::builder().bus(bus).build()
    }

    /// Creates a node on the bus of the environment variable [`BUS_VARIABLE`](crate::BUS_VARIABLE), the
    /// default bus if it is not set.
    ///
    /// # Errors
    /// [`NodeError`] if the variable is not valid or the bus's interface does not exist.
    pub fn from_env() -> Result<Self, NodeError> {
        Self::builder().build()
    }

    /// Begins to describe a stream to publish.
    #[must_use]
    pub fn publisher(&self, name: impl Into<String>) -> PublisherBuilder {
        PublisherBuilder::new(self.clone(), name.into())
    }

    /// Begins to describe a subscriber to the streams that match `pattern`.
    #[must_use]
    pub fn subscriber(&self, pattern: impl Into<String>) -> SubscriberBuilder {
        let patterns = vec![pattern.into()];
        SubscriberBuilder {
            node: self.clone(),
            patterns,
            reader: None,
            from: Vec::new(),
            max_sample_bytes: DEFAULT_MAX_SAMPLE_BYTES,
            handing: Handing::Blocks,
            spin: Duration::ZERO,
            start: self.bus().start,
            deadline: None,
        }
    }

    /// Opens a tap on the streams that match `pattern`, with everything else as a
    /// [subscriber](Self::subscriber) has it by default; [`SubscriberBuilder::tap`] opens one with other settings.
    ///
    /// # Errors
    /// [`NodeError`] if the pattern is not valid or a socket cannot be opened.
    pub fn tap(&self, pattern: impl Into<String>) -> Result<Tap, NodeError> {
        self.subscriber(pattern).tap()
    }

    /// Reads the reports of readers, also on other hosts, to publishers of this host in any process.
    #[must_use]
    pub fn heard_reports(&self) -> HeardReports {
        HeardReports::new(&self.inner.bus.drop_board(), self.sharing())
    }

    /// Creates the board on which a relay of this process shows its state; `None`, with a warning, if there cannot be
    /// one.
    #[doc(hidden)]
    #[must_use]
    pub fn relay_board(&self, incarnation: u64) -> Option<RelayBoard> {
        let board = RelayBoard::create(&self.inner.bus.drop_board(), self.sharing(), incarnation);
        board.inspect_err(|error| tracing::warn!("`relay --list` does not show this relay: {error}")).ok()
    }

    /// Returns the relays of this host.
    #[doc(hidden)]
    #[must_use]
    pub fn relays_on_host(&self) -> Vec<RelayOnHost> {
        engine::relays_on_host(&self.inner.bus.drop_board(), self.sharing())
    }

    /// Returns the streams that can be read from shared memory on this host now, with the writers of their
    /// rings.
    #[must_use]
    pub fn streams_on_host(&self) -> Vec<OnHost> {
        let Some(rings) = self.host_rings() else { return Vec::new() };
        let look = |name: &RingName| {
            let HostRing { description, writer, pid, since, .. } = rings.look(name).ok()?;
            Some(OnHost { stream: name.stream, reach: Reach::of(writer), pid, since, description })
        };
        rings.names().iter().filter_map(look).collect()
    }

    /// Returns the streams that have a ring on this host which this process does not read, and why.
    #[must_use]
    pub fn streams_withheld(&self) -> BTreeMap<StreamId, Withheld> {
        let Some(rings) = self.host_rings() else { return BTreeMap::new() };
        let names = rings.names().into_iter();
        names.filter_map(|name| Some((name.stream, rings.withholds(&name)?))).collect()
    }

    /// Returns the number of rings of this host that this process needed and did not trust, because another
    /// user wrote them.
    #[must_use]
    pub fn rings_distrusted(&self) -> u64 {
        self.host_rings().map_or(0, |rings| rings.distrusted())
    }

    /// Returns the streams that are announced on the network, after listening for at least `patience`; empty
    /// if the bus has no network.
    ///
    /// # Errors
    /// [`NodeError`] if announcements cannot be received.
    pub fn streams(&self, patience: Duration) -> Result<Vec<Announced>, NodeError> {
        if !self.inner.bus.has_network() {
            return Ok(Vec::new());
        }
        let agent = self.receive_agent(None)?;
        agent.hear_announcements()?;
        std::thread::sleep(patience);
        Ok(agent.announced())
    }

    /// Returns the state of this process's receiving sockets.
    #[must_use]
    pub fn ports(&self) -> Vec<PortStatus> {
        let agent = self.inner.receive.lock().unwrap_or_else(PoisonError::into_inner).clone();
        agent.map_or_else(Vec::new, |agent| agent.ports())
    }

    /// Returns the level of the streams that this process publishes, lists and reads; it refuses those of another.
    #[must_use]
    pub fn level(&self) -> Level {
        if self.inner.keyring.is_some() { Level::Group } else { Level::Clear }
    }

    /// Returns the file of keys of a secured bus.
    pub(crate) fn keyring(&self) -> Option<Arc<Keyring>> {
        self.inner.keyring.clone()
    }

    /// Returns the state of the keys; `None` on a bus without keys.
    #[must_use]
    pub fn key_state(&self) -> Option<KeyState> {
        let keyring = self.inner.keyring.as_ref()?;
        let (membership, wall) = (keyring.membership(), sys::clock::wall());
        let service = keyring.service(wall).map(|state| KeyServiceState {
            address: state.address,
            left: state.left,
            silent: state.silent,
            unanswered: state.unanswered,
            refused: state.refused.map(|reason| reason.to_string()),
        });
        let agent = self.inner.send.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(KeyState {
            token: membership.sending(wall).map(|secret| secret.token.to_string()),
            service,
            failed_reloads: keyring.failed_reloads(),
            certificate_ends: membership.station.certificate().not_after,
            refused_reports: agent.map(|agent| agent.refused()).unwrap_or_default(),
        })
    }

    /// Returns the streams that this process selected on the network and could not join, because addresses,
    /// descriptors, memory or memberships were used up. It includes those joined later, because their earlier
    /// data were missed.
    #[must_use]
    pub fn unjoined(&self) -> UnjoinedStreams {
        let agent = self.inner.receive.lock().unwrap_or_else(PoisonError::into_inner).clone();
        agent.map_or_else(UnjoinedStreams::default, |agent| agent.unjoined())
    }

    /// Returns the bus.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// Returns the station's name.
    #[must_use]
    pub fn station(&self) -> &str {
        &self.inner.station
    }

    /// Starts all threads that this node ever has, unless they run already; `reader` names the receiving
    /// agent.
    ///
    /// A thread inherits its scheduling from the one that starts it. So a thread that is about to change its
    /// own scheduling calls this before.
    pub(crate) fn start_agents(&self, reader: Option<&str>) -> Result<(), NodeError> {
        if self.inner.bus.has_network() {
            self.send_agent()?;
            self.receive_agent(reader)?;
        }
        Ok(())
    }

    /// Begins a new epoch of a stream, later than any that was received or began here.
    pub(crate) fn new_epoch(&self, stream: StreamId) -> Epoch {
        let agent = self.inner.receive.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let announced = agent.map_or_else(Vec::new, |agent| agent.announced());
        let heard = announced.iter().find(|it| it.announcement.stream == stream);
        let start_ns = u64::try_from(sys::clock::wall().as_nanos()).unwrap_or(0);
        self.inner.last_epochs.begin(stream, heard.map(|it| it.announcement.epoch), start_ns)
    }

    pub(crate) fn send_agent(&self) -> Result<Arc<SendAgent>, NodeError> {
        let mut slot = self.inner.send.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = slot.as_ref() {
            return Ok(Arc::clone(agent));
        }
        let bus = &self.inner.bus;
        let config = SendConfig {
            interface: self.inner.interface.clone(),
            ttl: bus.ttl,
            announce_to: Some(bus.announcements()),
            drop_board: bus.drop_board(),
            reports: self.sharing(),
            thread: bus.tuning.send_thread,
            keyring: self.inner.keyring.clone(),
        };
        let agent = Arc::new(SendAgent::start(config, bus.is_v6())?);
        Ok(Arc::clone(slot.insert(agent)))
    }

    /// Returns how boards of received reports are shared: as rings are, and where a bus has none, with every user
    /// of this host unless it is secured.
    fn sharing(&self) -> Sharing {
        let Inner { bus, keyring, .. } = &*self.inner;
        let usual = if bus.keys.is_some() { Access::Owner } else { Access::default() };
        let access = bus.shm.as_ref().map_or(usual, |shm| shm.access);
        let authority = keyring.as_ref().map(|keyring| keyring.membership().authority);
        Sharing { access, group: bus.group_id(), authority }
    }

    /// Returns the rings of this host, if processes share memory on this bus.
    pub(crate) fn host_rings(&self) -> Option<HostRings> {
        self.inner.rings.clone()
    }

    pub(crate) fn receive_agent(&self, reader: Option<&str>) -> Result<Arc<ReceiveAgent>, NodeError> {
        let mut slot = self.inner.receive.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = slot.as_ref() {
            return Ok(Arc::clone(agent));
        }
        let bus = &self.inner.bus;
        let name = reader.unwrap_or(&self.inner.station).to_owned();
        let config = ReceiveConfig {
            interface: self.inner.interface.clone(),
            announcements: bus.announcements(),
            range: bus.announcements().ip(),
            buffer_bytes: bus.receive_buffer_bytes,
            techniques: bus.tuning.receiving,
            busy_poll: bus.tuning.busy_poll,
            thread: bus.tuning.receive_thread,
            // Each socket has a buffer of its own, and reports its size.
            reader: ReaderIdentity { id: ReaderId(random()), name, receive_buffer_bytes: 0 },
            ledger: self.inner.ledger,
            drop_board: bus.drop_board(),
            host: self.host_rings(),
            receives_for: self.inner.receives_for,
            from: bus.start.received(),
            keyring: self.inner.keyring.clone(),
        };
        let agent = Arc::new(ReceiveAgent::start(config)?);
        Ok(Arc::clone(slot.insert(agent)))
    }
}

impl LastEpochs {
    /// Returns an epoch later than the last one of this stream here and the one `heard`, even if the clock
    /// was set back meanwhile.
    fn begin(&self, stream: StreamId, heard: Option<Epoch>, start_ns: u64) -> Epoch {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = heard.max(last.get(&stream).copied());
        let epoch = Epoch::succeeding(latest, start_ns, random());
        if last.len() >= MAX_REMEMBERED_EPOCHS && !last.contains_key(&stream) {
            // Those that began earliest are the least likely to collide with a clock that was set back.
            let oldest = last.iter().min_by_key(|(_, epoch)| **epoch).map(|(stream, _)| *stream);
            oldest.map(|stream| last.remove(&stream));
        }
        last.insert(stream, epoch);
        epoch
    }
}

impl SubscriberBuilder {
    /// Adds another pattern.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(pattern.into());
        self
    }

    /// Sets the name under which this reader's account is kept; the station's name by default.
    ///
    /// A process has one receiving agent: the name in its reports is that of its first subscriber.
    #[must_use]
    pub fn reader(mut self, name: impl Into<String>) -> Self {
        self.reader = Some(name.into());
        self
    }

    /// Receives at this address without waiting for announcements: a group, or an address of this host.
    ///
    /// Several addresses form a static list for networks without multicast.
    #[must_use]
    pub fn from(mut self, address: SocketAddr) -> Self {
        self.from.push(address);
        self
    }

    /// Sets the maximum size of a sample; 256 MiB by default. Streams with larger ones are not read, and one
    /// warning is logged for each.
    ///
    /// A reader keeps a partial sample until its rest has arrived or is missing.
    #[must_use]
    pub const fn max_sample_bytes(mut self, size_bytes: usize) -> Self {
        self.max_sample_bytes = size_bytes;
        self
    }

    /// Leaves large blocks in the ring: [`Block::data`](sample::Block::data) has no bytes of them then, and
    /// [`SampleBuffer::foreign`](sample::SampleBuffer::foreign) gives their location.
    ///
    /// For bindings to other languages. The blocks count as delivered, and the writer may overwrite them at
    /// any moment: a reader must check afterwards whether the block was still valid.
    #[must_use]
    pub const fn leave_blocks_in_ring(mut self) -> Self {
        self.handing = Handing::BlocksInRing;
        self
    }

    /// Sets how long a wait polls before it sleeps; not at all by default. Waking up takes longer than
    /// reading a short message.
    ///
    /// Only while all streams come from other processes of this host through shared memory: a stream from the
    /// network must be received first, and the option `idle` of the bus sets how the agent waits for it.
    ///
    /// Cost: a processor, for this time after every block.
    #[must_use]
    pub const fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// Sets the position at which reading begins of a stream that begins after this subscriber was opened:
    /// its first sample by default, or [`Start::Now`].
    ///
    /// A stream that existed before is read from now on in any case.
    #[must_use]
    pub const fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Sets the age from which samples are of no use to this reader, counted from their publisher over all relays; by
    /// default there is none.
    ///
    /// It is stated to publishers, so that relays of the stream serve it: what is lost on the way is sent again while it
    /// can come in time. Samples that are older when they come, by the age that relays tell, are lost at stage
    /// [`Deadline`](ledger::Stage::Deadline) in this reader's account. Samples of unknown age, which no relay has
    /// passed on, are never too old.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Opens a tap instead, which gets the records of streams as they are, whatever the size of their samples.
    ///
    /// # Errors
    /// [`NodeError`] if a pattern is not valid or a socket cannot be opened.
    pub fn tap(self) -> Result<Tap, NodeError> {
        Self { handing: Handing::Records, max_sample_bytes: usize::MAX, ..self }.open().map(Tap::new)
    }

    /// Opens the subscriber.
    ///
    /// # Errors
    /// [`NodeError`] if a pattern is not valid or a socket cannot be opened.
    pub fn open(self) -> Result<Subscriber, NodeError> {
        let patterns: Result<Vec<StreamPattern>, _> = self.patterns.iter().map(|text| text.parse()).collect();
        let patterns = patterns?;
        let reader = self.reader.unwrap_or_else(|| self.node.station().to_owned());
        check_name("reader name", &reader, wire::MAX_READER_NAME_BYTES)?;
        if self.deadline.is_some_and(|deadline| deadline.is_zero()) {
            return Err(NodeError::NoTime);
        }
        let Self { max_sample_bytes, handing, spin, start, deadline, .. } = self;
        let config = SubscriberConfig { reader, patterns, max_sample_bytes, handing, spin, start, deadline };
        // An explicit address means that data are received there, and an agent must not read its own rings.
        let from_rings = self.from.is_empty() && self.node.inner.receives_for == ReceivesFor::Process;
        let host = self.node.host_rings().filter(|_| from_rings);
        let host = host.map(|rings| HostView::new(rings, self.start));
        if !self.node.bus().has_network() {
            if !self.from.is_empty() {
                return Err(NodeError::NoNetwork(Box::new(self.node.bus().clone())));
            }
            return Ok(Subscriber::new(config, None, host, None));
        }
        let agent = self.node.receive_agent(Some(&config.reader))?;
        match agent.hear_announcements() {
            Err(error) if !self.from.is_empty() => {
                tracing::warn!("{error}\nstreams are received only at the addresses given");
            }
            Err(error) if host.is_some() => {
                tracing::warn!("{error}\nonly streams on this host are read, through shared memory");
            }
            heard => heard?,
        }
        let mut pinned = Pinned::new(Arc::clone(&agent));
        self.from.into_iter().try_for_each(|address| pinned.listen(address))?;
        Ok(Subscriber::new(config, Some(agent), host, Some(pinned)))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Node").field("bus", &self.inner.bus).finish_non_exhaustive()
    }
}

/// Checks the name of a station, as a node does when it is created.
///
/// # Errors
/// [`NodeError`] if it is too long, or has a control character.
pub fn check_station(name: &str) -> Result<(), NodeError> {
    check_name("station", name, wire::MAX_STATION_BYTES)
}

fn check_name(what: &'static str, name: &str, limit: usize) -> Result<(), NodeError> {
    if name.len() > limit {
        return Err(NodeError::NameTooLong { what, name: name.to_owned(), limit });
    }
    if name.contains(char::is_control) {
        return Err(NodeError::Unprintable { what, name: name.escape_debug().to_string() });
    }
    Ok(())
}

/// Returns 64 random bits: the standard library seeds every `RandomState` from the system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the host's name, up to the maximum of the protocol: the station's name unless another is given.
#[must_use]
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "station".to_owned());
    station_of(name.trim())
}

/// Returns a host's name as a station's: whole, or without the domains that do not fit.
fn station_of(host: &str) -> String {
    let mut name = host;
    while name.len() > wire::MAX_STATION_BYTES
        && let Some((rest, _)) = name.rsplit_once('.')
    {
        name = rest;
    }
    let fits = |end: &usize| *end <= wire::MAX_STATION_BYTES;
    let ends = name.char_indices().map(|(start, letter)| start + letter.len_utf8());
    let end = ends.take_while(fits).last().unwrap_or(0);
    name[..end].chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_step_back_does_not_make_a_new_epoch_look_old() {
        let bus: Bus = "udp://239.84.0.0:7400?iface=lo".parse().unwrap();
        let node = Node::open(bus).unwrap();
        let begin = |heard, start_ns| node.inner.last_epochs.begin(StreamId(1), heard, start_ns).start_ns;
        assert_eq!(begin(None, 5_000), 5_000);
        assert_eq!(begin(None, 1_000), 5_001, "remembered");
        assert_eq!(begin(Some(Epoch { start_ns: 9_000, incarnation: 1 }), 6_000), 9_001, "heard");
        assert_eq!(begin(Some(Epoch { start_ns: 1, incarnation: 1 }), 6_000), 9_002);
        assert_eq!(begin(None, 10_000), 10_000);
        assert_eq!(node.inner.last_epochs.begin(StreamId(2), None, 7).start_ns, 7, "another stream");
    }

    #[test]
    fn a_station_has_the_host_s_whole_name_as_far_as_it_fits() {
        assert_eq!(station_of("daq-hall-number-01.lab.example.org"), "daq-hall-number-01.lab.example.org");
        let label = "d".repeat(63);
        assert_eq!(station_of(&label), label);
        assert_eq!(
            station_of(&format!("{label}.lab")),
            label,
            "a domain that does not fit is left out whole"
        );
        assert_eq!(station_of(&"ü".repeat(40)).len(), 62, "letters are not cut");
    }

    #[test]
    fn a_name_that_a_terminal_would_obey_is_refused() {
        let refused = check_station("lab\u{1b}[2J").unwrap_err().to_string();
        assert!(refused.starts_with("the station `lab\\u{1b}[2J` has a control character"), "{refused}");
        assert!(check_station(&"x".repeat(63)).is_ok() && check_station(&"x".repeat(64)).is_err());
    }

    #[test]
    fn a_size_of_datagrams_that_cannot_be_is_refused_before_anything_is_opened() {
        let mut bus: Bus = "udp://239.84.0.0:7400?iface=lo".parse().unwrap();
        bus.datagram_bytes = 10;
        assert!(matches!(Node::open(bus), Err(NodeError::Bus(BusError::Mtu { mtu: 38, .. }))));
    }
}
