//! A reader: a receiver at a socket of the virtual network, whose every output is checked.

use core::time::Duration;

use cast::Receiver;
use cast::receive::{Input, Output, ReaderIdentity, WaitsSince};
use ledger::{DropNotice, KernelName, LedgerConfig, Stage};
use sample::Selection;
use sim::{Address, Arrival, NodeId, Socket};
use units::{Epoch, Instant, Random, ReaderId, StreamId, WallTime};
use wire::{Announcement, DATAGRAM_BYTES_IPV4, Datagram, MAX_DATAGRAM_BYTES};

use super::checkpoint::Checkpoint;
use super::watch::{Following, Watch};
use super::{GROUP, address, node_at};

/// Number of inputs between two checks of single gaps; the rows are checked after every input.
const GAPS_CHECKED_EVERY: u64 = 64;

/// A reader of everything in the group.
pub(crate) struct Reader {
    pub(crate) receiver: Receiver,
    pub(crate) watch: Watch,
    pub(crate) diary: Vec<Seen>,
    moves: Vec<(Instant, Move)>,
    /// Number of inputs of the receiver.
    inputs: u64,
    /// Number of datagrams among them.
    datagrams: u64,
    outgoing: Vec<(NodeId, Vec<u8>)>,
    buffer: Vec<u8>,
    drops: u32,
    /// The ports that reports went to.
    pub(crate) reported_to: Vec<u16>,
    diligence: Diligence,
    clock: PassingTime,
    drop_reporter: Option<DropReporter>,
    checkpoint: Option<Checkpoint>,
    deceived_by: Vec<NodeId>,
    /// Number of drops by the buffer that the checkpoint has seen: they have arrived, too.
    refused_seen: usize,
}

/// A drop reporter that sees some of the receive buffer's drops, and reports them some time later.
struct DropReporter {
    random: Random,
    /// Share of the drops that it sees.
    share: f64,
    /// Maximum delay of its reports. Units: milliseconds.
    delay_ms: u64,
    /// Number of drops inspected.
    looked_at: usize,
    notices: Vec<(Instant, DropNotice)>,
}

/// Advance of time for a reader's machine between its inputs.
#[derive(Clone, Copy)]
enum PassingTime {
    /// Up to the present.
    Now,
    /// To the last moment at which the socket was empty, as in the receiving agent: unread datagrams are no silence.
    WhileEmpty(Instant),
}

/// Extent of a reader's records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Diligence {
    Full,
    /// One of very many readers: it checks the law, and keeps no diary.
    Light,
}

/// A move of the scene for a reader.
pub(crate) enum Move {
    Join,
    /// Leaves at once, and leaves the group.
    Leave,
    /// Leaves after the publisher's next tally, and stays in the group for other streams.
    Deselect,
    /// States another deadline for every stream.
    State(Duration),
    /// Receives a publisher's announcement.
    Hear(Box<Announcement>, NodeId),
}

/// A datagram as it was on arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) from: NodeId,
    pub(crate) input: u64,
    pub(crate) stream: StreamId,
    pub(crate) epoch: Epoch,
    pub(crate) number: u64,
    pub(crate) position: u64,
    pub(crate) elements: u64,
    pub(crate) readable: bool,
    pub(crate) what: What,
    pub(crate) at: Instant,
}

/// Meaning of a datagram for an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Descriptor,
    Tally,
    FinalTally,
    Other,
}

impl Reader {
    pub(crate) fn new(id: u64, config: LedgerConfig) -> Self {
        let identity =
            ReaderIdentity { id: ReaderId(id), name: format!("reader {id}"), receive_buffer_bytes: 0 };
        Self {
            receiver: Receiver::new(identity, config, id),
            watch: Watch::default(),
            diary: Vec::new(),
            moves: Vec::new(),
            inputs: 0,
            datagrams: 0,
            outgoing: Vec::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
            drops: 0,
            reported_to: Vec::new(),
            diligence: Diligence::Full,
            clock: PassingTime::Now,
            drop_reporter: None,
            checkpoint: None,
            deceived_by: Vec::new(),
            refused_seen: 0,
        }
    }

    /// Creates one of very many readers, which checks the law and keeps no diary.
    pub(crate) fn light(id: u64, config: LedgerConfig) -> Self {
        Self { diligence: Diligence::Light, buffer: vec![0; DATAGRAM_BYTES_IPV4], ..Self::new(id, config) }
    }

    /// Makes another node send from the first publisher's source address: of the same host, or a forger.
    pub(crate) fn deceived_by(mut self, stranger: NodeId) -> Self {
        self.deceived_by.push(stranger);
        self
    }

    /// Returns whether a node sends from the first publisher's source address.
    pub(crate) fn is_deceived_by(&self, node: NodeId) -> bool {
        self.deceived_by.contains(&node)
    }

    /// Makes it wait for the streams from the beginning of the scene.
    pub(crate) fn waiting(mut self) -> Self {
        let waiting = WaitsSince { since: Instant::ORIGIN, wall: WallTime::from_nanos(0) };
        self.receiver.handle(Instant::ORIGIN, Input::Waits(Some(waiting)));
        self.watch.waits = true;
        self
    }

    /// Makes it state a deadline for every stream.
    pub(crate) fn with_deadline(mut self, deadline: Duration) -> Self {
        let every = ("**".parse().expect("a pattern"), deadline);
        self.receiver.handle(Instant::ORIGIN, Input::Deadlines([every].into_iter().collect()));
        self
    }

    /// Advances time only while nothing is unread.
    pub(crate) fn patient_with_the_unread(mut self) -> Self {
        self.clock = PassingTime::WhileEmpty(Instant::ORIGIN);
        self
    }

    /// Adds a drop reporter that sees a share of the receive buffer's drops and reports them within a time.
    pub(crate) fn with_drop_reporter(mut self, seed: u64, share: f64, delay_ms: u64) -> Self {
        let random = Random::for_purpose(seed, "witness");
        self.drop_reporter =
            Some(DropReporter { random, share, delay_ms, looked_at: 0, notices: Vec::new() });
        self
    }

    /// Adds a checkpoint that sees arrivals and reports numbers that never arrived.
    pub(crate) fn checkpointed(mut self) -> Self {
        self.checkpoint = Some(Checkpoint::default());
        self
    }

    pub(crate) fn told(mut self, at: Instant, step: Move) -> Self {
        self.moves.push((at, step));
        self.moves.sort_by_key(|(at, _)| *at);
        self
    }

    pub(super) fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let Arrival { bytes, from, drops, .. } = *arrival;
        self.datagrams += 1;
        if self.diligence == Diligence::Full {
            self.note(now, from, bytes);
        }
        let source = if self.is_deceived_by(from) { NodeId(0) } else { from };
        self.input(now, Input::Datagram { bytes, from: address(source), drops });
    }

    pub(super) fn advance(&mut self, now: Instant) {
        self.input(now, Input::Advance);
    }

    pub(super) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        if let PassingTime::WhileEmpty(at) = &mut self.clock
            && socket.unread_bytes() == 0
        {
            *at = now;
        }
        while self.moves.first().is_some_and(|(at, _)| *at <= now) {
            match self.moves.remove(0).1 {
                Move::Join => socket.join(GROUP),
                Move::Leave => {
                    socket.leave(GROUP);
                    self.watch.left = true;
                    self.input(now, Input::LeaveAll);
                }
                Move::Hear(announcement, from) => {
                    let (announcement, from) = (&*announcement, address(from));
                    self.input(now, Input::Announced { announcement, from });
                }
                Move::State(deadline) => {
                    let every = ("**".parse().expect("a pattern"), deadline);
                    self.input(now, Input::Deadlines([every].into_iter().collect()));
                }
                Move::Deselect => self.input(now, Input::Select(&Selection::none())),
            }
        }
        // The counter itself is useful only when nothing is unread: the drops follow all unread datagrams.
        if socket.unread_bytes() == 0 && socket.drops() != self.drops {
            self.drops = socket.drops();
            self.input(now, Input::SocketDrops(self.drops));
        }
        let next_notice = self.hear_drop_reporter(now, socket);
        let next_hole = self.hear_checkpoint(now, socket);
        let deadline = self.drain(now);
        for (to, bytes) in self.outgoing.drain(..) {
            socket.send(Address::Node(to), &bytes);
        }
        let next_move = self.moves.first().map(|(at, _)| *at);
        // A deadline after the machine's time is met once the socket is read.
        let deadline = deadline.filter(|deadline| *deadline > now);
        [deadline, next_move, next_notice, next_hole].into_iter().flatten().min()
    }

    /// Takes due reports of drops; returns when the next is due.
    fn hear_drop_reporter(&mut self, now: Instant, socket: &Socket<'_>) -> Option<Instant> {
        let drop_reporter = self.drop_reporter.as_mut()?;
        let due = drop_reporter.look(now, socket);
        let next = drop_reporter.notices.iter().map(|(at, _)| *at).min();
        for notice in due {
            self.input(now, Input::Dropped(&notice));
        }
        next
    }

    /// Takes reports of missing numbers; returns the time of the next check, while datagrams arrive.
    fn hear_checkpoint(&mut self, now: Instant, socket: &Socket<'_>) -> Option<Instant> {
        let checkpoint = self.checkpoint.as_mut()?;
        let refused = socket.refused();
        let seen = std::mem::replace(&mut self.refused_seen, refused.len());
        for bytes in refused.skip(seen) {
            head_of(bytes).iter().for_each(|head| checkpoint.see(head));
        }
        // Unread datagrams have arrived.
        let (notices, next) =
            if socket.unread_bytes() == 0 { checkpoint.look(now) } else { (Vec::new(), now) };
        for notice in notices {
            self.input(now, Input::Dropped(&notice));
        }
        Some(next).filter(|next| *next > now)
    }

    /// Records the contents of a datagram before the machine sees it.
    fn note(&mut self, now: Instant, from: NodeId, bytes: &[u8]) {
        let decoded = Datagram::decode(bytes);
        let what = match &decoded {
            Ok(Datagram::Descriptor(_)) => What::Descriptor,
            Ok(Datagram::Tally(tally)) if tally.last => What::FinalTally,
            Ok(Datagram::Tally(_)) => What::Tally,
            Ok(_) | Err(_) => What::Other,
        };
        let (head, elements, readable) = match decoded {
            Ok(Datagram::Data(data)) => {
                self.watch.arrived(data.head.epoch, data.head.position(), now, self.datagrams);
                (Some(data.head), u64::from(data.element_count), true)
            }
            Ok(datagram) => (datagram.head().copied(), 0, true),
            Err(malformed) => (malformed.head, 0, false),
        };
        if let Some((checkpoint, head)) = self.checkpoint.as_mut().zip(head.as_ref()) {
            checkpoint.see(head);
        }
        if let Some(head) = head {
            let (stream, epoch, number) = (head.stream, head.epoch, head.number);
            let input = self.inputs + 1;
            let (position, at) = (head.position(), now);
            let seen = Seen { from, input, stream, epoch, number, position, elements, readable, what, at };
            self.diary.push(seen);
        }
    }

    fn input(&mut self, now: Instant, input: Input<'_>) {
        self.inputs += 1;
        self.receiver.handle(now, input);
        self.drain(now);
    }

    /// Takes all outputs of the machine, then checks the law.
    fn drain(&mut self, now: Instant) -> Option<Instant> {
        let time = match self.clock {
            PassingTime::Now => now,
            PassingTime::WhileEmpty(at) => at,
        };
        let deadline = loop {
            match self.receiver.poll(time, &mut self.buffer) {
                Output::Transmit { to, size_bytes } => {
                    self.reported_to.push(to.port());
                    self.outgoing.push((node_at(to), self.buffer[..size_bytes].to_vec()));
                }
                Output::Event(event) if self.diligence == Diligence::Full => {
                    self.watch.event(now, (self.inputs, self.datagrams), event);
                }
                Output::Event(_) => {}
                Output::Idle { deadline } => break deadline,
            }
        };
        assert!(deadline.is_none_or(|deadline| deadline > time), "a deadline that has passed: {deadline:?}");
        assert_eq!(self.receiver.check(), Ok(()), "the law after input {}", self.inputs);
        if self.diligence == Diligence::Full && self.inputs.is_multiple_of(GAPS_CHECKED_EVERY) {
            self.check_accounts();
        }
        deadline
    }

    /// Compares events and accounts.
    pub(crate) fn check_accounts(&self) {
        for view in self.receiver.accounts() {
            let mut followed = self.watch.followed.iter().rev();
            let same = |of: &&Following| of.stream == view.stream && of.epoch == view.epoch;
            followed.find(same).expect("an account that began").check_against(&view.account);
        }
    }
}

impl DropReporter {
    /// Sees new drops; returns the reports that are due now.
    fn look(&mut self, now: Instant, socket: &Socket<'_>) -> Vec<DropNotice> {
        let refused = socket.refused();
        let looked_at = std::mem::replace(&mut self.looked_at, refused.len());
        for bytes in refused.skip(looked_at) {
            let Some(head) = head_of(bytes) else { continue };
            if !self.random.chance(self.share) {
                continue;
            }
            let notice = DropNotice {
                stream: head.stream,
                incarnation: head.epoch.incarnation,
                numbers: head.number..head.number + 1,
                stage: Stage::ReceiverSocketBuffer,
                reason: KernelName::new("SOCKET_RCVBUFF"),
                destination: address(NodeId(0)),
                socket: None,
            };
            let delay = Duration::from_millis(self.random.below(self.delay_ms.max(1)));
            self.notices.push((now + delay, notice));
        }
        let is_due = |(at, _): &(Instant, DropNotice)| *at <= now;
        let (due, later) = std::mem::take(&mut self.notices).into_iter().partition(is_due);
        self.notices = later;
        let due: Vec<(Instant, DropNotice)> = due;
        due.into_iter().map(|(_, notice)| notice).collect()
    }
}

/// Reads the position of a datagram in its stream, even if it is damaged behind the header.
fn head_of(bytes: &[u8]) -> Option<wire::Numbered> {
    match Datagram::decode(bytes) {
        Ok(datagram) => datagram.head().copied(),
        Err(malformed) => malformed.head,
    }
}
