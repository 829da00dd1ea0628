//! The receiving agent: one thread that receives every stream of a process from the network into
//! rings.
//!
//! It receives announcements, joins the groups of selected streams, each with a socket of its own
//! (so that a socket's drop counter covers one group), drives a [`cast::Receiver`] for each, and
//! writes its output into one ring per stream. Start with [`ReceiveAgent::start`].

mod admission;
mod agent;
mod directory;
mod inline_driver;
mod port;
mod reply;
mod subscription;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cast::receive::{AccountView, ReaderIdentity};
use cast::secure::UnauthenticCounts;
use keyring::Keyring;
use ledger::LedgerConfig;
use ring::Doorbell;
use sample::StreamPattern;
use sys::{Interface, OpenError, ReceiveTechniques, clock};
use units::StreamId;

use crate::host::{HostRings, RingWriter};
use crate::ledger_page::EpochOnPage;
use crate::thread::{AgentThread, ThreadTuning};
use crate::waker::AgentWaker;
pub use admission::AdmissionCounts;
use agent::Agent;
pub use directory::Announced;
use directory::Selected;
use inline_driver::SharedAgent;
pub use port::{PortStatus, Waits};
use subscription::Registry;
pub use subscription::Subscription;

/// Settings of a receiving agent: addresses, sockets and reader identity.
#[derive(Clone, Debug)]
pub struct ReceiveConfig {
    /// Interface at which groups are joined; `None` where the kernel's routes choose.
    pub interface: Option<Interface>,
    /// The group of announcements.
    pub announcements: SocketAddr,
    /// Address with which an announced group must agree in all but its last 16 bits to be joined.
    pub range: IpAddr,
    /// Receive buffer to request per socket, in bytes.
    pub buffer_bytes: usize,
    /// Kernel features that sockets may use to save work.
    pub techniques: ReceiveTechniques,
    /// Time for which a read polls the network card's queue before it gives up (`SO_BUSY_POLL`).
    pub busy_poll: Option<Duration>,
    /// Processor, priority and idling of the agent's thread.
    pub thread: ThreadTuning,
    /// Identity of the reader in its reports.
    pub reader: ReaderIdentity,
    /// Times and limits of the account.
    pub ledger: LedgerConfig,
    /// Directory of the drop board.
    pub drop_board: PathBuf,
    /// Rings of this host: streams that can be read there are not received from the network.
    pub host: Option<HostRings>,
    /// Scope of the readers: this process or this host.
    pub receives_for: ReceivesFor,
    /// Begin of the accounts of streams that begin after an address was
    /// [listened](ReceiveAgent::listen) at.
    pub from: ReceiveFrom,
    /// Keys of a secured bus; `None`: streams are clear.
    pub keyring: Option<Arc<Keyring>>,
}

/// Begin of the account of a stream that begins after it was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReceiveFrom {
    /// Its first sample: its publisher is asked to keep the beginning, and missing samples of it
    /// are counted.
    #[default]
    Beginning,
    /// The first sample that arrives.
    Now,
}

/// Scope of an agent's readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReceivesFor {
    /// The process in which it runs: rings on the heap.
    #[default]
    Process,
    /// Every process of this host: rings in shared memory.
    Host,
}

impl ReceivesFor {
    /// Returns the writers whose rings make it unnecessary to receive a stream.
    const fn others(self) -> &'static [RingWriter] {
        match self {
            Self::Process => &[RingWriter::Publisher, RingWriter::Agent],
            Self::Host => &[RingWriter::Publisher],
        }
    }
}

impl ReceiveConfig {
    /// Returns whether an announced group may be joined.
    fn is_in_range(&self, group: IpAddr) -> bool {
        match (self.range, group) {
            (IpAddr::V4(base), IpAddr::V4(group)) => (base.to_bits() ^ group.to_bits()) >> 16 == 0,
            (IpAddr::V6(base), IpAddr::V6(group)) => (base.to_bits() ^ group.to_bits()) >> 16 == 0,
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Reason why a stream cannot be received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// A socket could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel has no descriptors or threads left.
    #[error("the receiving agent cannot be started")]
    Start(#[from] io::Error),
    /// The agent's thread is gone.
    #[error("the receiving agent has stopped")]
    Ended,
}

/// Account of a receiving socket, with the state of the socket.
#[derive(Clone, Debug)]
pub struct StreamAccountView {
    /// The account.
    pub view: AccountView,
    /// The socket.
    pub port: PortStatus,
    /// Time since the last datagram of the publisher.
    pub age: Duration,
    /// Datagrams in the stream's name that were not taken; of a secured stream only.
    pub unauthentic: UnauthenticCounts,
    /// Epochs of a secured stream that began although their publishers did not answer.
    pub unconfirmed_epochs: u64,
}

/// Selected streams that a process could not join.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UnjoinedStreams {
    /// The first of them by name, each with the reason; includes those that were joined later.
    pub named: BTreeMap<String, String>,
    /// Number of further ones.
    pub beyond: u64,
    /// Counts of groups whose announcements were not accepted.
    pub admission: AdmissionCounts,
    /// Announcements that were not taken for lack of authenticity, on a secured bus.
    pub unauthentic: UnauthenticCounts,
}

/// The handle of the receiving agent; dropping it cuts the accounts and ends the agent.
pub struct ReceiveAgent {
    thread: AgentThread<Command>,
    registry: Arc<Registry>,
    shared_agent: Arc<SharedAgent>,
}

/// A reader of an agent's rings, registered until it is dropped.
pub struct Attendance {
    agent: Arc<ReceiveAgent>,
}

enum Command {
    Select(Selected),
    Deselect(StreamPattern, Option<Duration>),
    HearAnnouncements(mpsc::Sender<Result<(), ReceiveError>>),
    Listen(SocketAddr, mpsc::Sender<Result<(), ReceiveError>>),
    Unlisten(SocketAddr),
    Left(mpsc::Sender<Vec<PortStatus>>),
    Accounts(mpsc::Sender<Vec<StreamAccountView>>),
    EpochsOf(StreamId, mpsc::Sender<Vec<EpochOnPage>>),
    Announced(mpsc::Sender<Vec<Announced>>),
    Ports(mpsc::Sender<Vec<PortStatus>>),
    Unjoined(mpsc::Sender<UnjoinedStreams>),
    Stop,
}

impl ReceiveAgent {
    /// Starts the agent's thread.
    ///
    /// # Errors
    /// If the kernel has no thread or descriptor left.
    pub fn start(config: ReceiveConfig) -> Result<Self, ReceiveError> {
        let registry = Arc::new(Registry::default());
        let waker = AgentWaker::new()?;
        let (tuning, stop) = (config.thread, || Command::Stop);
        // A thread with a processor or a priority of its own does all the work itself.
        let allows_inline = tuning == ThreadTuning::default();
        let (commands, taken) = mpsc::channel();
        let agent = Agent::open(config, taken, waker.clone(), Arc::clone(&registry))?;
        let shared_agent = Arc::new(SharedAgent::new(agent, waker.clone(), allows_inline));
        let own = Arc::clone(&shared_agent);
        let thread =
            AgentThread::start("tallycast-receive", tuning, commands, waker, stop, move || own.run())?;
        Ok(Self { thread, registry, shared_agent })
    }

    /// Starts to receive announcements, if it does not yet.
    ///
    /// # Errors
    /// [`ReceiveError`] if their group cannot be joined: without multicast, streams are received at
    /// addresses given to [`ReceiveAgent::listen`].
    pub fn hear_announcements(&self) -> Result<(), ReceiveError> {
        self.ask(Command::HearAnnouncements).unwrap_or(Err(ReceiveError::Ended))
    }

    /// Joins every stream whose name matches, now and later; `from` says where the accounts begin
    /// of those that begin later. Publishers are told of the longest `deadline` of the patterns that
    /// match: the age up to which samples are of use.
    pub fn select(&self, pattern: StreamPattern, from: ReceiveFrom, deadline: Option<Duration>) {
        // Counted from now, however late the agent's thread handles the command.
        let since = agent::waits_since(from);
        self.thread.tell(Command::Select(Selected { pattern, since, deadline }));
    }

    /// Reverts one [`ReceiveAgent::select`] with this deadline; streams that no pattern selects any
    /// more are left. Losses that wait for evidence are settled at the publisher's next tally first.
    pub fn deselect(&self, pattern: StreamPattern, deadline: Option<Duration>) {
        self.thread.tell(Command::Deselect(pattern, deadline));
    }

    /// Receives at an address without waiting for an announcement: a group, or an address of this
    /// host.
    ///
    /// # Errors
    /// [`ReceiveError`] if the socket cannot be opened.
    pub fn listen(&self, address: SocketAddr) -> Result<(), ReceiveError> {
        self.ask(|reply| Command::Listen(address, reply)).unwrap_or(Err(ReceiveError::Ended))
    }

    /// Reverts one [`ReceiveAgent::listen`].
    pub fn unlisten(&self, address: SocketAddr) {
        self.thread.tell(Command::Unlisten(address));
    }

    /// Waits until every stream that is not selected any more has been left and the end of its
    /// account is in its ring: at most the time that evidence may take, two seconds by default, and
    /// usually not at all.
    ///
    /// Returns the final state of the sockets, including those that are closed now.
    pub fn wait_until_left(&self) -> Vec<PortStatus> {
        // No answer means that the agent has ended; then there is nothing to wait for.
        self.ask(Command::Left).unwrap_or_default()
    }

    /// Returns the current accounts of all sockets, without their lists of gaps.
    #[must_use]
    pub fn accounts(&self) -> Vec<StreamAccountView> {
        self.ask(Command::Accounts).unwrap_or_default()
    }

    /// Returns the epochs of a stream for a lapped reader: the remembered gaps of open accounts,
    /// and the newest gaps of those before them.
    #[must_use]
    pub fn epochs_of(&self, stream: StreamId) -> Vec<EpochOnPage> {
        self.ask(|reply| Command::EpochsOf(stream, reply)).unwrap_or_default()
    }

    /// Returns the streams that are announced.
    #[must_use]
    pub fn announced(&self) -> Vec<Announced> {
        self.ask(Command::Announced).unwrap_or_default()
    }

    /// Returns the state of the receiving sockets.
    #[must_use]
    pub fn ports(&self) -> Vec<PortStatus> {
        self.ask(Command::Ports).unwrap_or_default()
    }

    /// Returns the selected streams that could not be joined for lack of addresses, descriptors,
    /// memory or memberships, and the counts of groups whose announcements were not accepted.
    #[must_use]
    pub fn unjoined(&self) -> UnjoinedStreams {
        self.ask(Command::Unjoined).unwrap_or_default()
    }

    fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> Command) -> Option<T> {
        let answer = self.thread.put(question);
        self.shared_agent.serve_commands();
        answer.recv().ok()
    }

    /// Returns the streams that are being received.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Subscription> {
        self.registry.subscriptions()
    }

    /// Returns a count that changes whenever [`ReceiveAgent::subscriptions`] does.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.registry.generation()
    }

    /// Returns the doorbell that the agent rings after writing to any of its rings.
    #[must_use]
    pub fn doorbell(&self) -> &Doorbell {
        &self.registry.doorbell
    }
}

impl Attendance {
    /// Registers a reader.
    #[must_use]
    pub fn new(agent: Arc<ReceiveAgent>) -> Self {
        agent.shared_agent.reader_came();
        Self { agent }
    }

    /// Returns the agent whose rings are read.
    #[must_use]
    pub const fn agent(&self) -> &Arc<ReceiveAgent> {
        &self.agent
    }

    /// Calls `look` until it returns a value, and sleeps in between until a record is written to
    /// any of the agent's rings, or one of the `other` doorbells rings.
    ///
    /// Returns `None` if `timeout` has passed and `look` still returned nothing. `look` is called
    /// at least once, and must not send the agent a request: the only reader of an agent does the
    /// agent's work in its own thread while it waits.
    pub fn wait_until<T>(
        &self,
        other: &[&Doorbell],
        timeout: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if other.is_empty() && self.agent.shared_agent.may_be_driven_inline() {
            if let Some(found) = look() {
                return Some(found);
            }
            return self.agent.shared_agent.drive_until(Some(clock::monotonic() + timeout), look);
        }
        let doorbells: Vec<&Doorbell> =
            std::iter::once(self.agent.doorbell()).chain(other.iter().copied()).collect();
        ring::wait_any(&doorbells, ring::Idle::Sleep, timeout, look)
    }

    /// Receives the datagrams that have arrived since this reader last waited.
    pub fn look_round(&self) {
        self.agent.shared_agent.serve_commands();
    }
}

impl Deref for Attendance {
    type Target = ReceiveAgent;

    fn deref(&self) -> &ReceiveAgent {
        &self.agent
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.agent.shared_agent.reader_went();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use units::ReaderId;

    pub(crate) fn receive_config(range: &str) -> ReceiveConfig {
        ReceiveConfig {
            interface: None,
            announcements: (Ipv4Addr::UNSPECIFIED, 0).into(),
            range: range.parse().unwrap(),
            buffer_bytes: 1 << 20,
            reader: ReaderIdentity { id: ReaderId(1), name: String::new(), receive_buffer_bytes: 0 },
            techniques: ReceiveTechniques::default(),
            busy_poll: None,
            thread: ThreadTuning::default(),
            ledger: LedgerConfig::default(),
            drop_board: PathBuf::new(),
            host: None,
            receives_for: ReceivesFor::Process,
            from: ReceiveFrom::Beginning,
            keyring: None,
        }
    }

    #[test]
    fn only_groups_of_the_bus_are_in_its_range() {
        let judge = |range, group: &str| receive_config(range).is_in_range(group.parse().unwrap());
        assert!(judge("239.84.255.255", "239.84.3.4"));
        assert!(!judge("239.84.255.255", "239.85.3.4"));
        assert!(!judge("239.84.255.255", "ff15::5443:0:1"));
        assert!(judge("ff15::5443:0:ffff", "ff15::5443:0:1"));
        assert!(!judge("ff15::5443:0:ffff", "ff15::5443:1:1"));
    }
}
