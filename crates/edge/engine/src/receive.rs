//! The receiving agent: one thread that takes every stream a process reads from the network to its rings.
//!
//! It listens to announcements, joins the groups of selected streams, each with a socket of its own
//! (so that a socket's drop counter speaks of one group), drives a [`cast::Receiver`] behind each, and
//! writes what comes out into one ring per stream. Start with [`ReceiveAgent::start`].

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

use cast::receive::{AccountView, ReaderIdentity, WaitsSince};
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
use inline_driver::SharedAgent;
pub use port::{PortStatus, Waits};
use subscription::Registry;
pub use subscription::Subscription;

/// Where an agent listens and who it is.
#[derive(Clone, Debug)]
pub struct ReceiveConfig {
    /// Where groups are joined.
    pub interface: Option<Interface>,
    /// The group of announcements.
    pub announcements: SocketAddr,
    /// Announced groups are joined when they agree with this address in all but its last 16 bits.
    pub range: IpAddr,
    /// The receive buffer to ask for, per socket.
    pub buffer_bytes: usize,
    /// What sockets may use to save work.
    pub techniques: ReceiveTechniques,
    /// How long a read looks for datagrams in the network card's queue before it gives up (`SO_BUSY_POLL`).
    pub busy_poll: Option<Duration>,
    /// How the agent's thread runs.
    pub thread: ThreadTuning,
    /// Who reads.
    pub reader: ReaderIdentity,
    /// The times and counts of the account.
    pub ledger: LedgerConfig,
    /// The directory in which somebody who sees the kernel drop datagrams tells of it.
    pub drop_board: PathBuf,
    /// The rings of this host: streams that can be read there are not received from the network.
    pub host: Option<HostRings>,
    /// For whom it receives.
    pub receives_for: ReceivesFor,
    /// Where the accounts of streams begin that begin after an address was [listened](ReceiveAgent::listen) at.
    pub from: ReceiveFrom,
}

/// Where the account of a stream begins that begins after it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReceiveFrom {
    /// With its first sample: its publisher is asked to hold the beginning, and what is missing of that is counted.
    #[default]
    Beginning,
    /// With the first that comes.
    Now,
}

/// For whom an agent receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReceivesFor {
    /// The process it runs in: rings on the heap.
    #[default]
    Process,
    /// Every process of this host that wants to: rings in shared memory.
    Host,
}

impl ReceivesFor {
    /// Returns whose rings make it needless to receive a stream.
    const fn others(self) -> &'static [RingWriter] {
        match self {
            Self::Process => &[RingWriter::Publisher, RingWriter::Agent],
            Self::Host => &[RingWriter::Publisher],
        }
    }
}

impl ReceiveConfig {
    /// Tells whether an announced group may be joined.
    fn is_in_range(&self, group: IpAddr) -> bool {
        match (self.range, group) {
            (IpAddr::V4(base), IpAddr::V4(group)) => (base.to_bits() ^ group.to_bits()) >> 16 == 0,
            (IpAddr::V6(base), IpAddr::V6(group)) => (base.to_bits() ^ group.to_bits()) >> 16 == 0,
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Says why a stream cannot be received.
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

/// An account of a receiving socket, and the socket it belongs to.
#[derive(Clone, Debug)]
pub struct StreamAccountView {
    /// The account.
    pub view: AccountView,
    /// The socket.
    pub port: PortStatus,
    /// How long ago the publisher was last heard.
    pub age: Duration,
}

/// Selected streams that a process could not join.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UnjoinedStreams {
    /// The first of them by name, each with the reason; also those that were joined later.
    pub named: BTreeMap<String, String>,
    /// How many there were beside those.
    pub beyond: u64,
    /// What became of groups whose announcements were not believed.
    pub admission: AdmissionCounts,
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
    Select(StreamPattern, Option<WaitsSince>),
    Deselect(StreamPattern),
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
        // A thread that was given a processor or a priority does all the work itself.
        let allows_inline = tuning == ThreadTuning::default();
        let (commands, taken) = mpsc::channel();
        let agent = Agent::open(config, taken, waker.clone(), Arc::clone(&registry))?;
        let shared_agent = Arc::new(SharedAgent::new(agent, waker.clone(), allows_inline));
        let own = Arc::clone(&shared_agent);
        let thread =
            AgentThread::start("tallycast-receive", tuning, commands, waker, stop, move || own.run())?;
        Ok(Self { thread, registry, shared_agent })
    }

    /// Listens to announcements from now on, if it does not yet.
    ///
    /// # Errors
    /// [`ReceiveError`] if their group cannot be joined: where there is no multicast, streams are received at
    /// addresses that [`ReceiveAgent::listen`] is given.
    pub fn hear_announcements(&self) -> Result<(), ReceiveError> {
        self.ask(Command::HearAnnouncements).unwrap_or(Err(ReceiveError::Ended))
    }

    /// Joins every stream whose name matches, now and later; `from` says where the accounts begin of those that begin later.
    pub fn select(&self, pattern: StreamPattern, from: ReceiveFrom) {
        // From now on, however late the agent's thread gets to it.
        self.thread.tell(Command::Select(pattern, agent::waits_since(from)));
    }

    /// Takes one [`ReceiveAgent::select`] back; streams that no pattern selects any more are left, where losses wait for
    /// evidence at the publisher's next tally.
    pub fn deselect(&self, pattern: StreamPattern) {
        self.thread.tell(Command::Deselect(pattern));
    }

    /// Receives at an address without waiting for an announcement: a group, or an address of this host.
    ///
    /// # Errors
    /// [`ReceiveError`] if the socket cannot be opened.
    pub fn listen(&self, address: SocketAddr) -> Result<(), ReceiveError> {
        self.ask(|reply| Command::Listen(address, reply)).unwrap_or(Err(ReceiveError::Ended))
    }

    /// Takes one [`ReceiveAgent::listen`] back.
    pub fn unlisten(&self, address: SocketAddr) {
        self.thread.tell(Command::Unlisten(address));
    }

    /// Waits until every stream that is not selected any more has been left, and its last word lies in its ring:
    /// as long as evidence may take to come, two seconds by default, and mostly not at all.
    ///
    /// Returns what the sockets had to tell then, also those that are closed now.
    pub fn wait_until_left(&self) -> Vec<PortStatus> {
        // No answer means that the agent has ended: then there is nothing to wait for.
        self.ask(Command::Left).unwrap_or_default()
    }

    /// Returns the accounts of all sockets as they stand, without their lists of gaps.
    #[must_use]
    pub fn accounts(&self) -> Vec<StreamAccountView> {
        self.ask(Command::Accounts).unwrap_or_default()
    }

    /// Returns what a lapped reader may look up of a stream's epochs: the remembered gaps of open accounts, and the newest gaps
    /// of those before them.
    #[must_use]
    pub fn epochs_of(&self, stream: StreamId) -> Vec<EpochOnPage> {
        self.ask(|reply| Command::EpochsOf(stream, reply)).unwrap_or_default()
    }

    /// Returns the streams that are announced.
    #[must_use]
    pub fn announced(&self) -> Vec<Announced> {
        self.ask(Command::Announced).unwrap_or_default()
    }

    /// Returns what the receiving sockets have to tell of themselves.
    #[must_use]
    pub fn ports(&self) -> Vec<PortStatus> {
        self.ask(Command::Ports).unwrap_or_default()
    }

    /// Returns the selected streams that could not be joined for want of addresses, descriptors, memory or memberships, and
    /// what became of groups whose announcements were not believed.
    #[must_use]
    pub fn unjoined(&self) -> UnjoinedStreams {
        self.ask(Command::Unjoined).unwrap_or_default()
    }

    fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> Command) -> Option<T> {
        let answer = self.thread.put(question);
        self.shared_agent.serve_commands();
        answer.recv().ok()
    }

    /// Returns the streams that come in.
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
    /// Comes as a reader.
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

    /// Calls `look` until it returns something, and sleeps in between until there is news in any of the agent's rings, or
    /// one of the `other` doorbells is rung.
    ///
    /// Returns `None` when `timeout` has passed and `look` still found nothing; it is called at least once, and must not ask
    /// the agent for anything: the only reader of an agent does the agent's work in its own thread while it waits.
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

    /// Takes what has come in the moments since this reader last waited, which nobody has received yet.
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
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use units::ReaderId;

    #[test]
    fn only_groups_of_the_bus_are_in_its_range() {
        let config = |range: &str| ReceiveConfig {
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
        };
        let judge = |range, group: &str| config(range).is_in_range(group.parse().unwrap());
        assert!(judge("239.84.255.255", "239.84.3.4"));
        assert!(!judge("239.84.255.255", "239.85.3.4"));
        assert!(!judge("239.84.255.255", "ff15::5443:0:1"));
        assert!(judge("ff15::5443:0:ffff", "ff15::5443:0:1"));
        assert!(!judge("ff15::5443:0:ffff", "ff15::5443:1:1"));
    }
}
