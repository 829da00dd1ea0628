//! The duty cycle of the receiving agent: take commands, receive announcements, read every socket,
//! let time pass, sleep.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cast::Receiver;
use cast::receive::{AccountView, Input, Output, Train, WaitsSince};
use cast::secure::{Gate, GateEvent, Passed, Unauthentic};
use keyring::random_salt;
use sys::{Interest, Poller, Ready, ReceiveBatch, ReceiveOptions, ReceiveSocket, Received, clock};
use units::{Epoch, Instant, StreamId};
use wire::{Announcement, Datagram};

use super::admission::{Admission, AdmissionCounts, Verdict};
use super::directory::{Announced, Directory};
use super::port::{Port, PortStatus};
use super::reply::ReplySockets;
use super::subscription::{PortToken, Registry, Subscriptions};
use super::{
    Command, ReceiveConfig, ReceiveError, ReceiveFrom, ReceivesFor, StreamAccountView, UnjoinedStreams,
};
use crate::control_messages::ControlMessages;
use crate::drop_board::{DropNews, concerns_reader};
use crate::host::{RingName, RingWriter};
use crate::interface_watch::{Change, InterfaceWatch, Use};
use crate::ledger_page::EpochOnPage;
use crate::present_keys::{PresentKeys, SecretSource};
use crate::waker::AgentWaker;

const WAKEUP: u64 = 0;
const ANNOUNCEMENTS: u64 = 1;
/// An interface of this host has changed.
const LINKS: u64 = 2;
const FIRST_PORT: PortToken = 3;

/// Maximum number of addresses kept for streams whose publishers fell silent without a final tally:
/// a quarter of all, so that room is left for new streams.
const MAX_SILENT_PORTS: usize = 256;
/// Maximum number of batches, and approximate maximum of bytes, read from one socket in a duty
/// cycle, so that the others are read too and received data are read while they are in a
/// processor's own cache.
const MAX_BATCHES_PER_DUTY_CYCLE: usize = 4;
const MAX_BYTES_PER_DUTY_CYCLE: usize = 1 << 18;
/// Interval at which ports are checked for those where nothing arrives any more.
const PORT_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which announced groups without a description are checked.
const PROOF_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of names kept of streams that could not be joined; further ones are only counted.
const MAX_UNJOINED_NAMED: usize = 256;
/// Maximum number of warnings about single streams that are not joined, so that forged
/// announcements do not fill a log.
const MAX_REFUSALS_SAID: usize = 64;
/// Number of announcements without a stream above which a warning is logged: a few are publishers
/// that ended at once.
const UNPROVEN_WORTH_A_WARNING: u64 = 16;
/// Reason why a stream finds no free slot at the socket of its group.
const SOCKET_IS_FULL: &str =
    "the socket already receives as many streams as it can: let their publishers use several groups";
/// Interval at which the host's rings are checked for a stream that is announced and not received.
const HOST_LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which a process waits for its host's agent to show a stream, which takes one
/// announcement and one datagram. After it the process itself receives the stream, which may be
/// silent or find no room at the agent.
const AGENT_PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which an account that waits for evidence gets new drop notices.
const DROP_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of the same while a reader waits for the evidence in order to leave.
const LAST_DROP_LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time until a freed datagram is on the board: a doctor takes 25 ms, and longer if it
/// waits for a processor.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// Announcements are small and few.
const ANNOUNCEMENT_BUFFER_BYTES: usize = 1 << 20;

/// State of a stream on this host.
#[derive(Clone, Copy)]
struct Elsewhere {
    /// The epoch that was announced at the last check.
    epoch: Epoch,
    looked: Instant,
    is_read: bool,
    /// Time since which the host's agent should show it.
    awaited: Option<Instant>,
    /// Newest epoch that could be read there.
    served: Option<Epoch>,
}

/// The agent as its driving thread holds it.
pub(super) struct Agent {
    config: ReceiveConfig,
    commands: mpsc::Receiver<Command>,
    waker: AgentWaker,
    poller: Poller,
    batch: ReceiveBatch,
    /// Events that woke the agent and are not handled yet.
    ready: Vec<Ready>,
    /// A moment before the sockets were asked for these events.
    asked: Instant,
    announcements: Option<ReceiveSocket>,
    interface: InterfaceWatch,
    directory: Directory,
    ports: BTreeMap<PortToken, Port>,
    next_token: PortToken,
    subscriptions: Subscriptions,
    /// Streams that were looked for on this host, by announcing address.
    elsewhere: BTreeMap<(StreamId, IpAddr), Elsewhere>,
    reply: ReplySockets,
    /// True if streams may have to be left: a pattern was deselected, or an account of a stream
    /// that is not selected has ended since.
    leaving: bool,
    /// Callers that wait until all streams that are not selected have been left.
    waiting: Vec<mpsc::Sender<Vec<PortStatus>>>,
    /// Drop notices of this host's drop reporter.
    drop_news: DropNews,
    next_drop_look: Option<Instant>,
    /// Time of the next check for ports where nothing arrives any more.
    next_look: Instant,
    /// Time of the next check of unproven groups.
    next_proof_look: Instant,
    warned_of_buffer: bool,
    /// Streams whose announcements are refused, with their announcing addresses: each is logged
    /// once.
    refused: BTreeSet<(StreamId, IpAddr)>,
    refusals_said: usize,
    /// Decides which announced groups are joined.
    admission: Admission,
    warned_of_unproven: bool,
    /// Selected streams that could not be joined.
    unjoined: UnjoinedStreams,
    announced: ControlMessages,
    /// Keys of a secured bus.
    keys: PresentKeys,
    stopping: bool,
}

impl Agent {
    /// Opens an agent that is ready to run.
    pub(super) fn open(
        config: ReceiveConfig,
        commands: mpsc::Receiver<Command>,
        waker: AgentWaker,
        registry: Arc<Registry>,
    ) -> Result<Self, ReceiveError> {
        let poller = Poller::new()?;
        poller.add(waker.wakeup(), WAKEUP, Interest::Read)?;
        let interface = InterfaceWatch::new(config.interface.as_ref(), Use::Receiving);
        if let Some(source) = interface.source() {
            poller.add(source, LINKS, Interest::Read)?;
        }
        let shared = config.host.clone().filter(|_| config.receives_for == ReceivesFor::Host);
        let drop_news = DropNews::new(&config.drop_board, clock::monotonic());
        let keys = PresentKeys::new(config.keyring.clone());
        Ok(Self {
            reply: ReplySockets::new(config.interface.clone(), keys.membership().as_deref()),
            announced: ControlMessages::new("announcements", keys.source()),
            keys,
            config,
            commands,
            waker,
            poller,
            batch: ReceiveBatch::for_trains(),
            ready: Vec::new(),
            asked: clock::monotonic(),
            announcements: None,
            interface,
            directory: Directory::new(),
            ports: BTreeMap::new(),
            next_token: FIRST_PORT,
            subscriptions: Subscriptions::new(registry, shared),
            elsewhere: BTreeMap::new(),
            leaving: false,
            waiting: Vec::new(),
            drop_news,
            next_drop_look: None,
            next_look: clock::monotonic() + PORT_CHECK_INTERVAL,
            next_proof_look: clock::monotonic(),
            warned_of_buffer: false,
            refused: BTreeSet::new(),
            refusals_said: 0,
            admission: Admission::default(),
            warned_of_unproven: false,
            unjoined: UnjoinedStreams::default(),
            stopping: false,
        })
    }

    /// Does all work that is due now; returns when there is more to do, `None` for immediately.
    pub(super) fn duty_cycle(&mut self) -> Option<Instant> {
        self.take_commands();
        // Time passes for a machine only up to the moment at which its socket was known to be
        // empty: unread datagrams must not be taken for silence.
        let now = clock::monotonic();
        let busy = self.receive_ready(now);
        self.hear_drops();
        self.look_at_unproven(now);
        self.look_at_keys(now);
        let deadline = self.advance_all();
        self.leave_unselected();
        self.subscriptions.ring_doorbell();
        (!busy).then_some(deadline)
    }

    /// Runs [`Self::duty_cycle`]; breaks off, without sleeping first, once the agent was told to
    /// stop.
    pub(super) fn duty_cycle_unless_stopped(&mut self) -> ControlFlow<(), Option<Instant>> {
        let deadline = self.duty_cycle();
        if self.stopping { ControlFlow::Break(()) } else { ControlFlow::Continue(deadline) }
    }

    /// Sleeps until an event or a deadline; returns at once if the agent `is_handed_over` to
    /// another thread.
    pub(super) fn sleep(&mut self, deadline: Instant, is_handed_over: impl FnOnce() -> bool) {
        if self.config.thread.idle.stays_awake() {
            return;
        }
        self.waker.falling_asleep(deadline);
        // A command written before this line did not call the waker, so check once more.
        let is_awaited = match self.commands.try_recv() {
            Ok(command) => {
                self.take(command);
                true
            }
            Err(_) => is_handed_over(),
        };
        let deadline = if is_awaited { clock::monotonic() } else { deadline };
        self.ask_sockets(deadline);
        self.waker.awake(self.ready.iter().any(|it| it.token == WAKEUP));
    }

    /// Returns how long the sockets may stay unread: until the first of their buffers is nearly
    /// full, at the current rates.
    pub(super) fn spare_time(&mut self) -> Duration {
        let now = clock::monotonic();
        self.ports.values_mut().map(|port| port.spare_time(now)).min().unwrap_or(Duration::MAX)
    }

    /// Rewinds the rings, so that the next samples overwrite those that have been read; returns
    /// whether readers must follow by calling `look` again. Only for the sole reader, which has
    /// read everything.
    pub(super) fn rewind_rings(&mut self) -> bool {
        self.subscriptions.rewind()
    }

    pub(super) const fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Leaves all streams, and closes the rings.
    pub(super) fn end(mut self) {
        self.leave_all();
    }

    fn take_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.take(command);
        }
    }

    fn take(&mut self, command: Command) {
        // The caller may have stopped waiting; an answer that is not received is no error.
        match command {
            Command::Select(selected) => {
                self.directory.select(selected);
                self.apply_selection();
                self.join_news();
            }
            Command::Deselect(pattern, deadline) => {
                self.directory.deselect(&pattern, deadline);
                self.apply_selection();
                self.leaving = true;
            }
            Command::HearAnnouncements(reply) => {
                let _ = reply.send(self.open_announcements());
            }
            Command::Listen(address, reply) => {
                let _ = reply.send(self.pin(address));
            }
            Command::Unlisten(address) => {
                let pinned = self.ports.values_mut().find(|port| port.address == address);
                pinned.into_iter().for_each(|port| port.pins = port.pins.saturating_sub(1));
                self.leaving = true;
            }
            Command::Left(reply) => {
                self.waiting.push(reply);
                self.leaving = true;
            }
            Command::Accounts(reply) => {
                let _ = reply.send(self.accounts(|machine| machine.summaries().collect()));
            }
            Command::EpochsOf(stream, reply) => {
                let _ = reply.send(self.epochs_of(stream));
            }
            Command::Announced(reply) => {
                let _ = reply.send(self.directory.current(clock::monotonic()));
            }
            Command::Ports(reply) => {
                let _ = reply.send(self.ports.values().map(Port::status).collect());
            }
            Command::Unjoined(reply) => {
                let _ = reply.send(UnjoinedStreams {
                    admission: self.admission.counts(),
                    unauthentic: self.announced.counts(),
                    ..self.unjoined.clone()
                });
            }
            Command::Stop => self.stopping = true,
        }
    }

    /// Returns the epochs of a stream with their gaps: those of ended accounts, which are kept with the ring, and those that
    /// the open accounts remember.
    fn epochs_of(&self, stream: StreamId) -> Vec<EpochOnPage> {
        let mut epochs = self.subscriptions.epochs_of(stream);
        let port = self.subscriptions.port_of(stream).and_then(|token| self.ports.get(&token));
        for view in port.into_iter().flat_map(|port| port.machine.accounts_of(stream)) {
            if let Some(known) = epochs.iter_mut().find(|known| known.epoch == view.epoch) {
                known.gaps.extend(view.account.gaps);
            }
        }
        epochs
    }

    /// Returns the accounts of every port that `of` chooses.
    fn accounts(&self, of: impl Fn(&Receiver) -> Vec<AccountView>) -> Vec<StreamAccountView> {
        let now = clock::monotonic();
        let at_port = |port: &Port| {
            let status = port.status();
            let views = of(&port.machine).into_iter();
            let gate = port.gate.as_ref();
            let unauthentic = |stream| gate.map(|gate| gate.unauthentic(stream));
            let unconfirmed = |stream| gate.map_or(0, |gate| gate.unconfirmed_epochs(stream));
            views
                .map(|view| StreamAccountView {
                    age: now.since(view.last_heard),
                    unauthentic: unauthentic(view.stream).unwrap_or_default(),
                    unconfirmed_epochs: unconfirmed(view.stream),
                    view,
                    port: status,
                })
                .collect::<Vec<_>>()
        };
        self.ports.values().flat_map(at_port).collect()
    }

    fn open_announcements(&mut self) -> Result<(), ReceiveError> {
        if self.announcements.is_none() {
            let interface = self.config.interface.clone();
            let options = ReceiveOptions::at(self.config.announcements, ANNOUNCEMENT_BUFFER_BYTES);
            let socket = ReceiveSocket::open(&ReceiveOptions { interface, ..options })?;
            self.poller.add(&socket, ANNOUNCEMENTS, Interest::Read)?;
            self.announcements = Some(socket);
        }
        Ok(())
    }

    fn hear_announcements(&mut self) {
        let Some(socket) = &self.announcements else { return };
        for _ in 0..MAX_BATCHES_PER_DUTY_CYCLE {
            match socket.receive_batch(&mut self.batch) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let now = clock::monotonic();
            let membership = self.keys.membership();
            let Self { batch, announced, directory, .. } = self;
            for (Received { segment_bytes, from, .. }, bytes) in batch.iter_mut() {
                for datagram in bytes.chunks_mut(segment_bytes) {
                    let plain = announced.open(membership.as_deref(), from, datagram);
                    if let Some(Ok(Datagram::Announcement(announcement))) = plain.map(Datagram::decode) {
                        directory.heard(now, announcement, from);
                    }
                }
            }
        }
        self.join_news();
    }

    /// Joins the groups of selected streams that were announced, or selected, since the last call. A stream that cannot be
    /// joined now is tried again at its next announcement.
    fn join_news(&mut self) {
        let news = self.directory.take_news();
        if !news.is_empty() {
            self.join(news);
        }
    }

    /// Joins the groups of these streams, and asks for their descriptions.
    fn join(&mut self, mut selected: Vec<Announced>) {
        // Descriptions that arrived in the meantime are proof.
        self.note_proven();
        // The newest announcement comes first.
        selected.sort_by_key(|announced| std::cmp::Reverse(announced.heard));
        for Announced { announcement, from, heard } in selected {
            let received_elsewhere = self.subscriptions.port_of(announcement.stream).is_some_and(|port| {
                self.ports.get(&port).is_some_and(|port| port.address != announcement.group)
            });
            if received_elsewhere
                || self.is_read_on_host(&announcement, from.ip())
                || !self.may_join(&announcement, from, heard)
            {
                continue;
            }
            let token = match self.open_port(announcement.group) {
                Ok(token) => token,
                // A single address is usually that of another host.
                Err(error) if !announcement.group.ip().is_multicast() => {
                    tracing::debug!("stream `{}` cannot be received: {error}", announcement.name);
                    continue;
                }
                Err(error) => {
                    self.note_unjoined(&announcement, from.ip(), &with_causes(&error));
                    continue;
                }
            };
            let now = clock::monotonic();
            if self.ports.get(&token).is_some_and(|port| port.pins == 0) {
                self.admission.joined(now, announcement.group, from.ip().to_canonical());
            }
            // Samples of this epoch that readers got from a ring of this host are not missing here.
            let was_served = self.elsewhere.get(&(announcement.stream, from.ip())).and_then(|it| it.served);
            let waits = self.directory.waits_since(announcement.stream, from.ip());
            let waits = waits.filter(|_| was_served != Some(announcement.epoch));
            if self.ports.get(&token).is_some_and(|port| !port.machine.has_slot_for(announcement.stream)) {
                self.note_unjoined(&announcement, from.ip(), SOCKET_IS_FULL);
                continue;
            }
            if let Some(port) = self.ports.get_mut(&token)
                && port.machine.wants_announcement(&announcement)
            {
                port.machine.handle(now, Input::Waits(waits));
                port.machine.handle(now, Input::Announced { announcement: &announcement, from });
                drain(token, port, &mut self.subscriptions, &mut self.reply);
            }
        }
    }

    /// Returns whether a stream that is not received yet can be read from a ring of this host, or
    /// its agent should show one in a moment.
    fn is_read_on_host(&mut self, announcement: &Announcement, by: IpAddr) -> bool {
        let Some(host) = &self.config.host else { return false };
        if self.ports.values().any(|port| port.address == announcement.group) {
            return false;
        }
        let (now, stream) = (clock::monotonic(), announcement.stream);
        let known = self.elsewhere.get(&(stream, by)).copied();
        // An epoch that has just begun may have a ring although its predecessor no longer had one.
        let is_fresh = |known: &Elsewhere| {
            known.epoch == announcement.epoch && now.since(known.looked) < HOST_LOOK_INTERVAL
        };
        if let Some(known) = known.filter(is_fresh) {
            return known.is_read;
        }
        let writers = self.config.receives_for.others();
        let is_served = host.serves(stream, writers);
        if known.is_none()
            && !is_served
            && let Some(withheld) = host.withholds_any(stream, writers)
        {
            let (name, which, remedy) = (&announcement.name, withheld.which(), withheld.remedy());
            tracing::warn!(
                "stream `{name}` is received over the network: its ring on this host {which}\n{remedy}"
            );
        }
        let is_awaited = !is_served
            && self.config.receives_for == ReceivesFor::Process
            && host.agent_receives(&announcement.name);
        let awaited = known.and_then(|known| known.awaited).unwrap_or(now);
        let is_read = is_served || is_awaited && now.since(awaited) < AGENT_PATIENCE;
        let awaited = is_awaited.then_some(awaited);
        let epoch = announcement.epoch;
        let served = if is_served { Some(epoch) } else { known.and_then(|known| known.served) };
        self.elsewhere.insert((stream, by), Elsewhere { epoch, looked: now, is_read, awaited, served });
        is_read
    }

    /// Returns whether an announcement may make this process join: a forged one must neither lead
    /// it out of its bus's range nor use up its descriptors.
    fn may_join(&mut self, announcement: &Announcement, from: SocketAddr, heard: Instant) -> bool {
        let group = announcement.group;
        if self.ports.values().any(|port| port.address == group) {
            return true;
        }
        if group.ip().is_multicast() && !self.config.is_in_range(group.ip()) {
            if self.refused.insert((announcement.stream, from.ip())) {
                self.admission.out_of_range();
                let name = &announcement.name;
                self.say_refusal(&format!(
                    "stream `{name}` at {group} is not joined: its group is outside this bus's range: \
                     read it with --from udp://GROUP:PORT"
                ));
            }
            return false;
        }
        let now = clock::monotonic();
        match self.admission.judge(now, group, from.ip().to_canonical(), heard) {
            Verdict::Join => true,
            Verdict::InsteadOf(other) => {
                self.leave_unproven(now, &[other]);
                true
            }
            Verdict::Later => false,
            Verdict::Full => {
                let why = "this process receives at as many addresses as it may: use another process for more streams";
                self.note_unjoined(announcement, from.ip(), why);
                false
            }
        }
    }

    /// Notes that a selected stream cannot be joined for lack of a resource, and logs it once.
    fn note_unjoined(&mut self, announcement: &Announcement, by: IpAddr, why: &str) {
        if !self.refused.insert((announcement.stream, by)) {
            return;
        }
        self.say_refusal(&format!("stream `{}` cannot be joined: {why}", announcement.name));
        if self.unjoined.named.len() < MAX_UNJOINED_NAMED {
            self.unjoined.named.insert(announcement.name.to_string(), why.to_owned());
        } else {
            self.unjoined.beyond += 1;
        }
    }

    /// Logs why a stream is not joined, up to a maximum number of streams.
    fn say_refusal(&mut self, what: &str) {
        self.refusals_said = self.refusals_said.saturating_add(1);
        match self.refusals_said.cmp(&MAX_REFUSALS_SAID) {
            Ordering::Less => tracing::warn!("{what}"),
            Ordering::Equal => {
                tracing::warn!("{what}\nfurther streams that are not joined are counted, but not logged");
            }
            Ordering::Greater => {}
        }
    }

    /// Warns about the sockets at which more streams arrive than there are slots.
    fn look_at_full_ports(&mut self) {
        for port in self.ports.values_mut().filter(|port| port.stats().too_many_streams > 0) {
            if !std::mem::replace(&mut port.is_said_full, true) {
                let what = format!("further streams at {}", port.address);
                tracing::warn!("{what} are not received: {SOCKET_IS_FULL}");
                self.unjoined.named.insert(what, SOCKET_IS_FULL.to_owned());
            }
        }
    }

    /// Passes to the admission which of its groups have a known stream.
    fn note_proven(&mut self) {
        let is_proven = |port: &&Port| port.pins > 0 || port.machine.knows_a_stream();
        let proven = self.ports.values().filter(is_proven).map(|port| port.address);
        proven.for_each(|group| self.admission.proven(group));
    }

    /// Leaves announced groups at which no description has arrived.
    fn leave_unproven(&mut self, now: Instant, groups: &[SocketAddr]) {
        let Self { ports, poller, admission, .. } = self;
        groups.iter().for_each(|group| admission.give_up(now, *group));
        ports.retain(|_, port| {
            let leaves = groups.contains(&port.address) && port.pins == 0 && !port.machine.knows_a_stream();
            if leaves && let Err(error) = poller.remove(&port.socket) {
                tracing::debug!("a socket could not be taken out of the poller: {error}");
            }
            !leaves
        });
        self.warn_of_unproven();
    }

    fn warn_of_unproven(&mut self) {
        let AdmissionCounts { given_up, displaced, put_off, .. } = self.admission.counts();
        // A stream that ends just after its announcement needs no warning, and neither do hundreds
        // that begin together and are joined one after the other.
        if given_up + displaced >= UNPROVEN_WORTH_A_WARNING
            && !std::mem::replace(&mut self.warned_of_unproven, true)
        {
            tracing::warn!(
                "streams are announced but do not arrive: the announcements are forged, or the datagrams are \
                 lost; their groups are left after seconds ({given_up} so far, {displaced} sooner for others, and \
                 {put_off} announcements were not followed meanwhile)"
            );
        }
    }

    /// Adopts other keys of a secured bus.
    fn look_at_keys(&mut self, now: Instant) {
        let Some(membership) = self.keys.look(now) else { return };
        let (now, wall) = clock::pair();
        self.reply.adopt(&membership);
        self.announced.keep_only(&membership.keys);
        for gate in self.ports.values_mut().filter_map(|port| port.gate.as_mut()) {
            gate.adopt(now, &membership, wall);
        }
    }

    /// Leaves unproven groups whose time is over, and joins others that wait.
    fn look_at_unproven(&mut self, now: Instant) {
        if now < self.next_proof_look {
            return;
        }
        self.next_proof_look = now + PROOF_LOOK_INTERVAL;
        self.look_at_full_ports();
        self.note_proven();
        let overdue = self.admission.overdue(now);
        if !overdue.is_empty() {
            self.leave_unproven(now, &overdue);
            self.join(self.directory.selected().cloned().collect());
        }
    }

    /// Receives at an address until this is reverted.
    fn pin(&mut self, address: SocketAddr) -> Result<(), ReceiveError> {
        let is_new = !self.ports.values().any(|port| port.address == address);
        let token = self.open_port(address)?;
        let waits = waits_since(self.config.from);
        if let Some(port) = self.ports.get_mut(&token) {
            port.pins += 1;
            if is_new {
                port.machine.handle(clock::monotonic(), Input::Waits(waits));
            }
        }
        Ok(())
    }

    fn open_port(&mut self, address: SocketAddr) -> Result<PortToken, ReceiveError> {
        if let Some((token, _)) = self.ports.iter().find(|(_, port)| port.address == address) {
            return Ok(*token);
        }
        let interface = self.config.interface.clone();
        let (buffer_bytes, techniques) = (self.config.buffer_bytes, self.config.techniques);
        let busy_poll = self.config.busy_poll;
        let options =
            ReceiveOptions { interface, techniques, busy_poll, ..ReceiveOptions::at(address, buffer_bytes) };
        let mut port = Port::open(&options, &self.config.reader, self.config.ledger)?;
        port.machine.handle(clock::monotonic(), Input::Select(self.directory.selection()));
        port.machine.handle(clock::monotonic(), Input::Deadlines(self.directory.deadlines()));
        let (now, wall) = clock::pair();
        port.gate = self.keys.membership().map(|membership| Gate::new(membership, now, wall, random_seed()));
        port.secret_source = self.keys.source();
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

    /// Joins all groups again at an interface that has returned under another number.
    fn look_at_interface(&mut self) {
        let before = self.config.interface.as_ref().map(|interface| interface.index);
        let Some(Change::Interface(interface)) = self.interface.look() else { return };
        let is_another = before != Some(interface.index);
        self.reply.follow_interface(interface.clone());
        self.config.interface = Some(interface.clone());
        let ports = self.ports.values_mut().map(|port| &mut port.socket);
        let groups = ports.chain(&mut self.announcements);
        for socket in groups.filter(|socket| is_another && socket.local_address().ip().is_multicast()) {
            if let Err(error) = socket.rejoin(&interface) {
                let (name, group) = (&interface.name, socket.local_address());
                // With link scope (IPv6) this takes the privilege CAP_NET_RAW.
                tracing::warn!(
                    "group {group} cannot be joined again at interface {name}: {error}\nstart this program again"
                );
            }
        }
    }

    /// Reads the sockets that have data, within bounds; returns whether there may be more.
    ///
    /// `now` is an earlier moment: sockets that are read to their end were empty later than that.
    fn receive_ready(&mut self, now: Instant) -> bool {
        if self.ready.is_empty() {
            self.ask_sockets(now);
        }
        let ready = std::mem::take(&mut self.ready);
        if ready.iter().any(|it| it.token == ANNOUNCEMENTS) {
            self.hear_announcements();
        }
        let all_were_told = ready.len() < sys::EVENTS_PER_WAIT;
        if ready.iter().any(|it| it.token == LINKS) {
            self.look_at_interface();
        }
        let mut busy = !all_were_told;
        for (token, port) in &mut self.ports {
            if ready.iter().any(|it| it.token == *token) {
                let unreadable = port.no_key();
                let more = receive(*token, port, &mut self.batch, &mut self.subscriptions, &mut self.reply);
                if port.no_key() > unreadable {
                    self.keys.look_early();
                }
                if !more {
                    port.was_empty(now);
                }
                busy |= more;
            } else if all_were_told {
                port.was_empty(self.asked);
            }
        }
        self.ready = ready;
        self.ready.clear();
        self.settle_conflicts();
        busy
    }

    /// Asks which sockets have data, and waits for one until `deadline`.
    ///
    /// Sockets that are not reported have no data, and had none when they were asked: no other
    /// thread reads them.
    fn ask_sockets(&mut self, deadline: Instant) {
        self.ready.clear();
        self.asked = clock::monotonic();
        match self.poller.wait(Some(deadline)) {
            Ok(ready) => self.ready.extend_from_slice(ready),
            Err(error) => tracing::error!("the receiving agent cannot poll its sockets: {error}"),
        }
    }

    /// Assigns each stream that arrives at several sockets to one of them.
    fn settle_conflicts(&mut self) {
        let now = clock::monotonic();
        for (stream, owner) in self.subscriptions.take_news_of_ports() {
            for (token, port) in &mut self.ports {
                let elsewhere = owner.is_some_and(|owner| owner != *token);
                port.machine.handle(now, Input::Elsewhere(stream, elsewhere));
                drain(*token, port, &mut self.subscriptions, &mut self.reply);
            }
        }
    }

    /// Passes drop notices to the machines of the streams concerned, while an account waits for
    /// evidence.
    ///
    /// Not on a secured bus: a notice names a stream and a number as a datagram claims them, and anybody can make the
    /// kernel drop a datagram that claims them. Proof: `notices_of_drops_are_no_evidence_on_a_secured_bus`.
    fn hear_drops(&mut self) {
        if self.config.keyring.is_some() || !self.ports.values().any(|port| port.machine.is_unsettled()) {
            return;
        }
        let now = clock::monotonic();
        for notice in self.drop_news.take(now) {
            for (token, port) in &mut self.ports {
                if concerns_reader(&notice, port.address, port.cookie) {
                    port.machine.handle(now, Input::Dropped(&notice));
                    drain(*token, port, &mut self.subscriptions, &mut self.reply);
                }
            }
        }
        let any = |is: fn(&Receiver) -> bool| self.ports.values().any(|port| is(&port.machine));
        let interval = if any(Receiver::is_leaving) { LAST_DROP_LOOK_INTERVAL } else { DROP_LOOK_INTERVAL };
        self.next_drop_look =
            (self.drop_news.has_board() && any(Receiver::is_unsettled)).then(|| now + interval);
    }

    /// Lets time pass for every machine; returns the earliest deadline.
    fn advance_all(&mut self) -> Instant {
        let now = clock::monotonic();
        let latest = Instant::earlier(self.keys.next_look(), Some(now + crate::MAX_SLEEP));
        let mut next = Instant::earlier(self.next_drop_look, latest).unwrap_or(now);
        for (token, port) in &mut self.ports {
            port.check_tail(now);
            let joins = advance_gate(port, now);
            let deadline = drain(*token, port, &mut self.subscriptions, &mut self.reply);
            let due = Instant::earlier(deadline, port.tail_check());
            next = Instant::earlier(due, joins).map_or(next, |due| due.min(next));
        }
        next
    }

    /// Passes to every machine which streams are selected: accounts of streams that no pattern selects
    /// any more are cut.
    fn apply_selection(&mut self) {
        // A stream that is left takes the evidence posted by now, and knows whether more may come.
        self.hear_drops();
        let is_heard = self.config.keyring.is_none() && self.drop_news.has_board();
        let drop_reporter = is_heard.then_some(TOLD_WITHIN);
        let now = clock::monotonic();
        for (token, port) in &mut self.ports {
            port.machine.handle(now, Input::DropReporter(drop_reporter));
            port.machine.handle(now, Input::Select(self.directory.selection()));
            port.machine.handle(now, Input::Deadlines(self.directory.deadlines()));
            drain(*token, port, &mut self.subscriptions, &mut self.reply);
        }
    }

    /// Passes on to publishers what the readers of the host's rings state.
    fn hear_ring_readers(&mut self, now: Instant) {
        let Some(host) = self.config.host.as_ref().filter(|_| self.config.receives_for == ReceivesFor::Host)
        else {
            return;
        };
        let longest = |stream| {
            let readers = host.ring_readers(&RingName { stream, writer: RingWriter::Agent });
            readers.into_iter().filter_map(|reader| reader.deadline).max()
        };
        let streams = self.subscriptions.names();
        let stated = streams
            .into_iter()
            .filter_map(|(stream, name)| Some((name.as_str().parse().ok()?, longest(stream)?)));
        if self.directory.hear_host(stated.collect()) {
            for (token, port) in &mut self.ports {
                port.machine.handle(now, Input::Deadlines(self.directory.deadlines()));
                drain(*token, port, &mut self.subscriptions, &mut self.reply);
            }
        }
    }

    /// Once no stream waits for final evidence: closes the rings of streams that no pattern selects
    /// any more, and the ports that receive none.
    fn leave_unselected(&mut self) {
        let now = clock::monotonic();
        if now >= self.next_look {
            self.next_look = now + PORT_CHECK_INTERVAL;
            self.directory.forget_old(now);
            let directory = &self.directory;
            self.elsewhere.retain(|(stream, by), _| directory.is_announced_by(*stream, *by));
            self.refused.retain(|(stream, by)| directory.is_announced_by(*stream, *by));
            self.admission.forget_old(now);
            self.hear_ring_readers(now);
            self.leaving = true;
        }
        if !self.leaving || self.ports.values().any(|port| port.machine.is_leaving()) {
            return;
        }
        self.leaving = false;
        let told: Vec<PortStatus> = self.ports.values().map(Port::status).collect();
        let silent = self.silent_ports();
        let directory = &self.directory;
        let for_host = self.config.receives_for == ReceivesFor::Host;
        let ports = &self.ports;
        let goes_on =
            |stream| silent.iter().any(|token| ports[token].machine.silent().any(|it| it.0 == stream));
        self.subscriptions.close_where(|stream, description, idle| {
            // A process's own readers identify epochs by their rings; a host's agent outlives its
            // streams.
            let is_over = for_host && idle && !directory.is_announced(stream) && !goes_on(stream);
            !directory.selects(&description.name) || is_over
        });
        let (poller, admission) = (&self.poller, &mut self.admission);
        let selected: Vec<SocketAddr> = directory.selected().map(|it| it.announcement.group).collect();
        self.ports.retain(|token, port| {
            let is_used =
                port.pins > 0 || selected.contains(&port.address) || port.machine.has_open_accounts();
            let keep = is_used || silent.contains(token);
            if !keep && let Err(error) = poller.remove(&port.socket) {
                tracing::debug!("a socket could not be taken out of the poller: {error}");
            }
            if !keep {
                admission.left(port.address);
            }
            keep
        });
        for waiting in self.waiting.drain(..) {
            // The caller may have stopped waiting.
            let _ = waiting.send(told.clone());
        }
    }

    /// Returns the ports that are kept although nothing arrives: a publisher there fell silent
    /// without a final tally, and the account continues where it ended once the publisher is
    /// received again. The longest silent are released first.
    fn silent_ports(&self) -> BTreeSet<PortToken> {
        let others = self.config.receives_for.others();
        let is_read_on_host =
            |stream| self.config.host.as_ref().is_some_and(|host| host.serves(stream, others));
        let since = |port: &Port| {
            let silent = port.machine.silent().filter(|(stream, _)| !is_read_on_host(*stream));
            silent.map(|(_, heard)| heard).max()
        };
        let mut silent: Vec<_> =
            self.ports.iter().filter_map(|(token, port)| Some((since(port)?, *token))).collect();
        silent.sort_unstable_by(|a, b| b.cmp(a));
        silent.into_iter().take(MAX_SILENT_PORTS).map(|(_, token)| token).collect()
    }

    fn leave_all(&mut self) {
        let now = clock::monotonic();
        for (token, port) in &mut self.ports {
            port.machine.handle(now, Input::LeaveAll);
            drain(*token, port, &mut self.subscriptions, &mut self.reply);
        }
        self.subscriptions.ring_doorbell();
        self.subscriptions.close_all();
    }
}

/// Draws a seed that nobody else knows.
fn random_seed() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = random_salt().0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Returns an error's text with those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// Returns since when a reader waits that asks now; `None` if it accepts any beginning.
pub(super) fn waits_since(from: ReceiveFrom) -> Option<WaitsSince> {
    let (since, wall) = clock::pair();
    (from == ReceiveFrom::Beginning).then_some(WaitsSince { since, wall })
}

/// Reads some batches from a socket into its machine; returns whether there may be more.
fn receive(
    token: PortToken,
    port: &mut Port,
    batch: &mut ReceiveBatch,
    subscriptions: &mut Subscriptions,
    reply: &mut ReplySockets,
) -> bool {
    let mut bytes = 0;
    for _ in 0..MAX_BATCHES_PER_DUTY_CYCLE {
        bytes += receive_batch(token, port, batch, subscriptions, reply);
        if !batch.is_full() {
            return false;
        }
        if bytes >= MAX_BYTES_PER_DUTY_CYCLE {
            break;
        }
    }
    true
}

/// Reads one batch; returns its size in bytes.
fn receive_batch(
    token: PortToken,
    port: &mut Port,
    batch: &mut ReceiveBatch,
    subscriptions: &mut Subscriptions,
    reply: &mut ReplySockets,
) -> usize {
    match port.socket.receive_batch(batch) {
        Ok(0) => return 0,
        Ok(_) => {}
        Err(error) => {
            tracing::debug!("socket {} cannot be read: {error}", port.address);
            return 0;
        }
    }
    let now = clock::monotonic();
    port.was_read(now, batch.iter().next().and_then(|received| received.kernel_time));
    let mut buffer = [0; wire::DATAGRAM_BYTES_IPV4];
    let mut batch_bytes = 0;
    if port.gate.is_some() {
        return take_secured(token, port, now, batch, subscriptions, reply);
    }
    for Received { bytes, segment_bytes, from, drops, .. } in batch.iter() {
        batch_bytes += bytes.len();
        port.took(bytes.len());
        let mut outputs =
            port.machine.take_train(now, Train { bytes, segment_bytes, from, drops, is_authentic: false });
        while let Some(output) = outputs.next(&mut buffer) {
            follow(token, output, &mut buffer, subscriptions, reply);
        }
    }
    batch_bytes
}

/// Takes a batch of a secured bus: opens the datagrams in place, and passes those that are authentic.
fn take_secured(
    token: PortToken,
    port: &mut Port,
    now: Instant,
    batch: &mut ReceiveBatch,
    subscriptions: &mut Subscriptions,
    reply: &mut ReplySockets,
) -> usize {
    let mut buffer = [0; wire::DATAGRAM_BYTES_IPV4];
    let mut batch_bytes = 0;
    for (Received { segment_bytes, from, drops, .. }, bytes) in batch.iter_mut() {
        batch_bytes += bytes.len();
        port.took(bytes.len());
        let Port { gate, machine, secret_source, .. } = &mut *port;
        let Some(gate) = gate else { continue };
        gate.pass(now, bytes, segment_bytes, from, &mut |passed| match passed {
            Passed::Train { bytes, segment_bytes, from } => {
                let mut outputs =
                    machine.take_train(now, Train { bytes, segment_bytes, from, drops, is_authentic: true });
                while let Some(output) = outputs.next(&mut buffer) {
                    follow(token, output, &mut buffer, subscriptions, reply);
                }
            }
            other => take_passed(machine, now, other),
        });
        while let Some(event) = gate.next_event() {
            tell_refusal(&event, machine, secret_source);
        }
    }
    batch_bytes
}

/// Hands over to a machine what its gate passes.
fn take_passed(machine: &mut Receiver, now: Instant, passed: Passed<'_>) {
    let input = match passed {
        Passed::Train { bytes, segment_bytes, from } => {
            Input::Train(Train { bytes, segment_bytes, from, drops: None, is_authentic: true })
        }
        Passed::Epoch { stream, epoch, news } => Input::Epoch { stream, epoch, news },
    };
    machine.handle(now, input);
}

/// Lets epochs begin whose publishers have not answered; returns when to look again.
fn advance_gate(port: &mut Port, now: Instant) -> Option<Instant> {
    let Port { gate, machine, secret_source, .. } = port;
    let gate = gate.as_mut()?;
    if gate.deadline().is_some_and(|deadline| deadline <= now) {
        gate.advance(now, &mut |passed| take_passed(machine, now, passed));
        while let Some(event) = gate.next_event() {
            tell_refusal(&event, machine, secret_source);
        }
    }
    gate.deadline()
}

/// Logs why datagrams of a stream are not taken.
fn tell_refusal(event: &GateEvent, machine: &Receiver, secret_source: &SecretSource) {
    let name = |stream| match machine.description(stream) {
        Some(description) => format!("stream `{}`", description.name),
        None => format!("stream {stream}"),
    };
    match event {
        GateEvent::Distrusted { stream, why, from } => {
            tracing::warn!("{} from {} is not received: {why}", name(*stream), from.ip());
        }
        GateEvent::Unconfirmed { stream, from } => {
            tracing::warn!(
                "{} from {} begins unproven: its publisher did not answer, so that only clocks, to 15 min, tell it from a \
                 recording\n\
                 let datagrams of readers reach the publisher's host; on a network of one direction this cannot be otherwise",
                name(*stream),
                from.ip()
            );
        }
        GateEvent::Refused { stream, reason: Unauthentic::NoKey, token, from } => {
            let token = token.map(|token| token.to_string()).unwrap_or_default();
            tracing::warn!(
                "{} from {} is not received: it is secured with secret {token}, which this station does not have\n\
                 {}",
                name(*stream),
                from.ip(),
                secret_source.remedy()
            );
        }
        GateEvent::Refused { stream, reason: Unauthentic::Clear, from, .. } => {
            tracing::warn!(
                "clear datagrams of {} from {} are refused: this bus is secured\n\
                 give its publisher the keys too (bus option keys=FILE)",
                name(*stream),
                from.ip()
            );
        }
        GateEvent::Refused { stream, reason, from, .. } => {
            tracing::warn!(
                "datagrams in the name of {} from {} are refused ({reason}): they are forged or damaged, and counted",
                name(*stream),
                from.ip()
            );
        }
    }
}

/// Polls a machine until it is idle; returns its deadline.
fn drain(
    token: PortToken,
    port: &mut Port,
    subscriptions: &mut Subscriptions,
    reply: &mut ReplySockets,
) -> Option<Instant> {
    let mut buffer = [0; wire::DATAGRAM_BYTES_IPV4];
    loop {
        match port.machine.poll(port.empty_at(), &mut buffer) {
            Output::Idle { deadline } => return deadline,
            output => follow(token, output, &mut buffer, subscriptions, reply),
        }
    }
}

/// Executes an output of a machine; a datagram to transmit is at the start of `buffer`.
fn follow(
    token: PortToken,
    output: Output<'_>,
    buffer: &mut [u8],
    subscriptions: &mut Subscriptions,
    reply: &mut ReplySockets,
) {
    match output {
        Output::Event(event) => subscriptions.write(token, event),
        Output::Transmit { to, size_bytes } => reply.send(buffer, size_bytes, to),
        Output::Idle { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use support::wait_until;

    use super::*;
    use crate::receive::tests::receive_config;
    use crate::send::tests::{keyring, secured_datagram};

    #[test]
    fn an_agent_of_a_secured_bus_sleeps_no_longer_than_until_its_keys_are_looked_at() {
        let (_folder, keyring) = keyring();
        let config = ReceiveConfig { keyring: Some(keyring), ..receive_config("239.84.255.255") };
        let (_commands, taken) = mpsc::channel();
        let waker = AgentWaker::new().unwrap();
        let mut agent = Agent::open(config, taken, waker, Arc::default()).unwrap();
        assert_eq!(agent.duty_cycle(), agent.keys.next_look());
    }

    #[test]
    fn a_datagram_with_an_unknown_secret_has_the_keys_looked_at_early() {
        let (_folder, keyring) = keyring();
        let config = ReceiveConfig { keyring: Some(keyring), ..receive_config("239.84.255.255") };
        let (_commands, taken) = mpsc::channel();
        let waker = AgentWaker::new().unwrap();
        let mut agent = Agent::open(config, taken, waker, Arc::default()).unwrap();
        agent.pin("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = agent.ports[&FIRST_PORT].socket.local_address();
        let (datagram, socket) = (secured_datagram(), UdpSocket::bind("127.0.0.1:0").unwrap());
        // The first look is a regular one.
        agent.duty_cycle();
        let [before, after] = wait_until("the datagram is refused", || {
            let before = agent.keys.next_look();
            socket.send_to(&datagram, to).unwrap();
            agent.duty_cycle();
            (agent.ports[&FIRST_PORT].no_key() > 0).then(|| [before, agent.keys.next_look()])
        });
        assert_ne!(before, after);
    }
}
