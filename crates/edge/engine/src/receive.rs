//! The receiving agent: one thread that takes every stream a process reads from the network to its rings.
//!
//! It listens to announcements, joins the groups of streams that are wanted, each with a socket of its own
//! (so that a socket's drop counter speaks of one group), drives a [`cast::Receiver`] behind each, and
//! writes what comes out into one ring per stream. Start with [`ReceiveAgent::start`].

mod directory;
mod inlet;
mod port;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use cast::receive::{AccountView, Input, Output, ReaderIdentity};
use ledger::BookConfig;
use ring::Doorbell;
use sample::StreamPattern;
use sys::{Interest, Interface, Loopback, OpenError, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket};
use sys::{SendOptions, SendSocket, clock};
use units::Instant;
use wire::Datagram;

use crate::bell::AgentBell;
use directory::Directory;
pub use directory::{Announced, Selection};
pub use inlet::Inlet;
use inlet::{Inlets, Registry};
use port::Port;
pub use port::PortStatus;

const WAKEUP: u64 = 0;
const ANNOUNCEMENTS: u64 = 1;
const FIRST_PORT: u64 = 2;

/// How many batches one socket gives before the others have their turn.
const MAX_BATCHES_PER_TURN: usize = 4;
/// Reports and requests are small; a send buffer of this size never fills.
const REPORT_BUFFER_BYTES: usize = 1 << 18;
/// Announcements are small and few.
const ANNOUNCEMENT_BUFFER_BYTES: usize = 1 << 20;

/// Where an agent listens and who it is.
#[derive(Clone, Debug)]
pub struct ReceiveConfig {
    /// Where groups are joined.
    pub interface: Option<Interface>,
    /// The group of announcements; `None` where there is no multicast.
    pub announcements: Option<SocketAddr>,
    /// The receive buffer to ask for, per socket.
    pub buffer_bytes: usize,
    /// Who reads.
    pub reader: ReaderIdentity,
    /// The times and counts of the account.
    pub book: BookConfig,
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
    #[error("the receiving agent has ended")]
    Ended,
}

/// An account of a receiving socket, and the socket it belongs to.
#[derive(Clone, Debug)]
pub struct StreamAccountView {
    /// The account.
    pub view: AccountView,
    /// The socket.
    pub port: SocketAddr,
    /// How long ago the publisher was last heard.
    pub age: Duration,
}

/// The handle of the receiving agent; dropping it cuts the accounts and ends the agent.
pub struct ReceiveAgent {
    commands: mpsc::Sender<Command>,
    bell: AgentBell,
    registry: Arc<Registry>,
    thread: Option<JoinHandle<()>>,
}

enum Command {
    Select(StreamPattern),
    Deselect(StreamPattern),
    Listen(SocketAddr, mpsc::Sender<Result<(), ReceiveError>>),
    Accounts(mpsc::Sender<Vec<StreamAccountView>>),
    Announced(mpsc::Sender<Vec<Announced>>),
    Ports(mpsc::Sender<Vec<PortStatus>>),
    Stop,
}

struct Agent {
    config: ReceiveConfig,
    commands: mpsc::Receiver<Command>,
    bell: AgentBell,
    poller: Poller,
    batch: ReceiveBatch,
    announcements: Option<ReceiveSocket>,
    directory: Directory,
    ports: BTreeMap<u64, Port>,
    next_token: u64,
    inlets: Inlets,
    reply: ReplySockets,
    warned_of_buffer: bool,
    stopping: bool,
}

/// Sockets for reports and requests, opened when first needed.
struct ReplySockets {
    interface: Option<Interface>,
    v4: Option<SendSocket>,
    v6: Option<SendSocket>,
}

impl ReceiveAgent {
    /// Starts the agent's thread; it listens to announcements at once.
    ///
    /// # Errors
    /// If the announcements' group cannot be joined, or the kernel has no thread or descriptor left.
    pub fn start(config: ReceiveConfig) -> Result<Self, ReceiveError> {
        let bell = AgentBell::new()?;
        let poller = Poller::new()?;
        poller.add(bell.wakeup(), WAKEUP, Interest::Read)?;
        let announcements = config.announcements.map(|address| {
            let interface = config.interface.clone();
            ReceiveSocket::open(&ReceiveOptions {
                address,
                interface,
                buffer_bytes: ANNOUNCEMENT_BUFFER_BYTES,
            })
        });
        let announcements = announcements.transpose()?;
        if let Some(socket) = &announcements {
            poller.add(socket, ANNOUNCEMENTS, Interest::Read)?;
        }
        let registry = Arc::new(Registry::default());
        let (sender, commands) = mpsc::channel();
        let reply = ReplySockets { interface: config.interface.clone(), v4: None, v6: None };
        let agent = Agent {
            config,
            commands,
            bell: bell.clone(),
            poller,
            batch: ReceiveBatch::with_slot_bytes(wire::MAX_DATAGRAM_BYTES),
            announcements,
            directory: Directory::new(),
            ports: BTreeMap::new(),
            next_token: FIRST_PORT,
            inlets: Inlets::new(Arc::clone(&registry)),
            reply,
            warned_of_buffer: false,
            stopping: false,
        };
        let thread =
            std::thread::Builder::new().name("tallycast-receive".into()).spawn(move || agent.run())?;
        Ok(Self { commands: sender, bell, registry, thread: Some(thread) })
    }

    /// Joins every stream whose name matches, now and later.
    pub fn select(&self, pattern: StreamPattern) {
        self.tell(Command::Select(pattern));
    }

    /// Takes one [`ReceiveAgent::select`] back; streams that nobody wants any more are left.
    pub fn deselect(&self, pattern: StreamPattern) {
        self.tell(Command::Deselect(pattern));
    }

    /// Receives at an address without waiting for an announcement: a group, or an address of this host.
    ///
    /// # Errors
    /// [`ReceiveError`] if the socket cannot be opened.
    pub fn listen(&self, address: SocketAddr) -> Result<(), ReceiveError> {
        self.ask(|reply| Command::Listen(address, reply)).unwrap_or(Err(ReceiveError::Ended))
    }

    /// Returns the accounts of all sockets as they stand.
    #[must_use]
    pub fn accounts(&self) -> Vec<StreamAccountView> {
        self.ask(Command::Accounts).unwrap_or_default()
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

    /// Returns the streams that come in.
    #[must_use]
    pub fn inlets(&self) -> Vec<Inlet> {
        self.registry.inlets()
    }

    /// Returns a count that changes whenever [`ReceiveAgent::inlets`] does.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.registry.generation()
    }

    /// Returns the bell that rings when any ring was written to.
    #[must_use]
    pub fn doorbell(&self) -> &Doorbell {
        &self.registry.bell
    }

    fn tell(&self, command: Command) {
        // An agent that has ended takes no wishes; its rings are closed, which readers see.
        let _ = self.commands.send(command);
        self.bell.ring();
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = mpsc::channel();
        self.tell(command(reply));
        answer.recv().ok()
    }
}

impl Drop for ReceiveAgent {
    fn drop(&mut self) {
        self.tell(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the agent was printed by its own thread.
            let _ = thread.join();
        }
    }
}

impl Agent {
    fn run(mut self) {
        if let Err(error) = clock::lower_timer_slack() {
            tracing::debug!("timers stay as coarse as the system has them: {error}");
        }
        while !self.stopping {
            self.take_commands();
            self.hear_announcements();
            let busy = self.receive_all();
            let deadline = self.advance_all();
            self.inlets.ring_bell();
            if !busy {
                self.sleep(deadline);
            }
        }
        self.leave_all();
    }

    fn sleep(&mut self, deadline: Instant) {
        self.bell.falling_asleep();
        // Commands that came before this line were written before the bell was asked: look once more.
        let deadline = match self.commands.try_recv() {
            Ok(command) => {
                self.take(command);
                clock::monotonic()
            }
            Err(_) => deadline,
        };
        if let Err(error) = self.poller.wait(Some(deadline)) {
            tracing::error!("the receiving agent cannot wait for events: {error}");
        }
        self.bell.awake();
    }

    fn take_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.take(command);
        }
    }

    fn take(&mut self, command: Command) {
        // Whoever asked may have given up waiting: an answer that nobody takes is no error.
        match command {
            Command::Select(pattern) => {
                self.directory.select(pattern);
                self.join_wanted();
            }
            Command::Deselect(pattern) => {
                self.directory.deselect(&pattern);
                self.leave_unwanted();
            }
            Command::Listen(address, reply) => {
                let opened = self.open_port(address, true).map(|_| ());
                let _ = reply.send(opened);
            }
            Command::Accounts(reply) => {
                let now = clock::monotonic();
                let view = |port: &Port, view: AccountView| {
                    let age = now.since(view.last_heard);
                    StreamAccountView { view, port: port.address, age }
                };
                let ports = self.ports.values();
                let views = ports.flat_map(|port| port.machine.accounts().map(move |it| view(port, it)));
                let _ = reply.send(views.collect());
            }
            Command::Announced(reply) => {
                let _ = reply.send(self.directory.current(clock::monotonic()));
            }
            Command::Ports(reply) => {
                let _ = reply.send(self.ports.values().map(Port::status).collect());
            }
            Command::Stop => self.stopping = true,
        }
    }

    fn hear_announcements(&mut self) {
        let Some(socket) = &self.announcements else { return };
        let mut wanted = false;
        loop {
            match socket.receive_batch(&mut self.batch) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let now = clock::monotonic();
            for received in self.batch.iter() {
                if let Ok(Datagram::Announcement(announcement)) = Datagram::decode(received.bytes) {
                    wanted |= self.directory.heard(now, announcement, received.from);
                }
            }
        }
        if wanted {
            self.join_wanted();
        }
    }

    /// Joins the groups of announced streams that are wanted, and asks for their descriptions.
    fn join_wanted(&mut self) {
        let wanted: Vec<_> = self.directory.wanted().cloned().collect();
        for Announced { announcement, from, .. } in wanted {
            let token = match self.open_port(announcement.group, false) {
                Ok(token) => token,
                Err(error) => {
                    tracing::debug!("stream `{}` cannot be joined: {error}", announcement.name);
                    continue;
                }
            };
            let now = clock::monotonic();
            if let Some(port) = self.ports.get_mut(&token)
                && port.machine.description(announcement.stream).is_none()
            {
                port.machine.handle(now, Input::Announced { announcement: &announcement, from });
                drain(port, now, &mut self.inlets, &mut self.reply, &self.directory);
            }
        }
    }

    fn open_port(&mut self, address: SocketAddr, pinned: bool) -> Result<u64, ReceiveError> {
        if let Some((token, _)) = self.ports.iter().find(|(_, port)| port.address == address) {
            return Ok(*token);
        }
        let interface = self.config.interface.clone();
        let options = ReceiveOptions { address, interface, buffer_bytes: self.config.buffer_bytes };
        let port = Port::open(&options, &self.config.reader, self.config.book, pinned)?;
        let buffer = port.socket.granted_buffer();
        if buffer.clamped() && !std::mem::replace(&mut self.warned_of_buffer, true) {
            tracing::warn!("{buffer}");
        }
        let token = self.next_token;
        self.next_token += 1;
        self.poller.add(&port.socket, token, Interest::Read)?;
        self.ports.insert(token, port);
        Ok(token)
    }

    /// Reads every socket within bounds; tells whether there may be more.
    fn receive_all(&mut self) -> bool {
        let mut busy = false;
        for port in self.ports.values_mut() {
            let mut more = true;
            for _ in 0..MAX_BATCHES_PER_TURN {
                more = receive(port, &mut self.batch, &mut self.inlets, &mut self.reply, &self.directory);
                if !more {
                    break;
                }
            }
            busy |= more;
        }
        busy
    }

    /// Lets time pass for every machine; returns when the next one has something to do.
    fn advance_all(&mut self) -> Instant {
        let now = clock::monotonic();
        let mut next = now + crate::MAX_SLEEP;
        for port in self.ports.values_mut() {
            port.check_tail(now);
            let deadline = drain(port, now, &mut self.inlets, &mut self.reply, &self.directory);
            next = [deadline, port.tail_check()].into_iter().flatten().fold(next, Instant::min);
        }
        next
    }

    /// Leaves streams that nobody wants any more, and the groups where none is left.
    fn leave_unwanted(&mut self) {
        let now = clock::monotonic();
        for port in self.ports.values_mut() {
            let accounts: Vec<_> = port.machine.accounts().collect();
            for view in accounts.iter().filter(|view| !self.directory.wants(&view.description.name)) {
                port.machine.handle(now, Input::Leave(view.stream));
                drain(port, now, &mut self.inlets, &mut self.reply, &self.directory);
                self.inlets.close(view.stream);
            }
        }
        let poller = &self.poller;
        let wanted: Vec<SocketAddr> = self.directory.wanted().map(|it| it.announcement.group).collect();
        self.ports.retain(|_, port| {
            let keep = port.pinned || wanted.contains(&port.address);
            if !keep && let Err(error) = poller.remove(&port.socket) {
                tracing::debug!("a socket could not be taken out of the poller: {error}");
            }
            keep
        });
    }

    fn leave_all(&mut self) {
        let now = clock::monotonic();
        for port in self.ports.values_mut() {
            port.machine.handle(now, Input::LeaveAll);
            drain(port, now, &mut self.inlets, &mut self.reply, &self.directory);
        }
        self.inlets.ring_bell();
        self.inlets.close_all();
    }
}

/// Reads one batch from a socket into its machine; tells whether there may be more.
fn receive(
    port: &mut Port,
    batch: &mut ReceiveBatch,
    inlets: &mut Inlets,
    reply: &mut ReplySockets,
    directory: &Directory,
) -> bool {
    let count = match port.socket.receive_batch(batch) {
        Ok(0) => return false,
        Ok(count) => count,
        Err(error) => {
            tracing::debug!("socket {} cannot be read: {error}", port.address);
            return false;
        }
    };
    let now = clock::monotonic();
    port.was_read(now, batch.iter().next().and_then(|received| received.kernel_time));
    for received in batch.iter() {
        let (bytes, from, drops) = (received.bytes, received.from, received.drops);
        port.machine.handle(now, Input::Datagram { bytes, from, drops });
        drain(port, now, inlets, reply, directory);
    }
    count == sys::BATCH_DATAGRAMS
}

/// Polls a machine until it is idle; returns its deadline.
fn drain(
    port: &mut Port,
    now: Instant,
    inlets: &mut Inlets,
    reply: &mut ReplySockets,
    directory: &Directory,
) -> Option<Instant> {
    let mut buffer = [0; wire::DATAGRAM_BYTES_IPV4];
    let wanted = |description: &wire::Description| directory.wants(&description.name);
    loop {
        match port.machine.poll(now, &mut buffer) {
            Output::Idle { deadline } => return deadline,
            Output::Transmit { to, size_bytes } => reply.send(&buffer[..size_bytes], to),
            // Two names may share a group: a stream that nobody asked for has no ring, and so its events
            // fall through.
            Output::Event(cast::receive::Event::Began { description, .. }) if !wanted(&description) => {}
            Output::Event(event) => inlets.write(event),
        }
    }
}

impl ReplySockets {
    fn send(&mut self, datagram: &[u8], to: SocketAddr) {
        let slot = if to.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        if slot.is_none() {
            let interface = self.interface.clone();
            let (ttl, loopback) = (1, Loopback::On);
            let options =
                SendOptions { destination: to, interface, ttl, loopback, buffer_bytes: REPORT_BUFFER_BYTES };
            match SendSocket::open(&options) {
                Ok(socket) => *slot = Some(socket),
                Err(error) => return tracing::debug!("reports cannot be sent: {error}"),
            }
        }
        if let Some(socket) = slot {
            // Reports are cumulative: one that is refused is repeated by the next.
            let _ = socket.send_batch(&[datagram], to);
        }
    }
}
