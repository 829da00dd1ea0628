//! The loop that gives nodes their turns: one event after the other, on a clock that only events move.
//!
//! A [`Node`] is a machine wrapped by a test. It receives datagrams and the passing of time, and is polled once after
//! either; it acts on the network only through its [`Socket`]. Start with [`Network::step`].

use core::time::Duration;

use units::Instant;

use crate::agenda::Event;
use crate::fabric::{Due, Fabric};
use crate::log::{Log, Outcome};
use crate::process::Work;
use crate::scenario::Scenario;
use crate::table::{Row, Table};
use crate::trace::TraceHash;
use crate::{Address, Group, Host, Link, NodeId, SiteId};

/// Maximum number of datagrams a node sends in one turn: a 100 MB frame at once. A machine that exceeds it is broken
/// and never becomes idle.
const MAX_SENDS_PER_TURN: u32 = 100_000;

/// A participant: a machine, or several, with what a test wraps around them.
///
/// A turn is `receive` for each datagram of a batch and then `poll`, or `advance` and then `poll`. The first
/// turn is an `advance` in the moment in which the node is added.
pub trait Node {
    /// Takes a datagram.
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>);

    /// Handles the deadline that the last `poll` returned.
    fn advance(&mut self, now: Instant) {
        let _ = now;
    }

    /// Does all pending work and returns the time by which it needs its next `advance`.
    ///
    /// Each turn's deadline replaces the one before.
    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant>;
}

/// A datagram as delivered by a socket.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its payload.
    pub bytes: &'a [u8],
    /// Sender.
    pub from: NodeId,
    /// Destination: a group, or this node.
    pub to: Address,
    /// Time at which it entered the receive buffer, like a kernel's receive timestamp.
    pub arrived: Instant,
    /// True if a long queue on the path marked it.
    pub is_marked: bool,
    /// Number of datagrams refused by the receive buffer when this one entered it; absent while zero.
    ///
    /// Cumulative and wrapping like `SO_RXQ_OVFL`: drops at the tail appear only with the next datagram.
    pub drops: Option<u32>,
}

/// A node's place at the network: its host, and its cable in both directions.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// The socket and the process.
    pub host: Host,
    /// From the node into the network.
    pub up: Link,
    /// From the network to the node.
    pub down: Link,
    /// Site of the node; `None` for the middle.
    pub site: Option<SiteId>,
}

/// Links shared by all nodes of a site: one to the middle, and one back.
#[derive(Clone, Debug, Default)]
pub struct Trunk {
    /// From the site to the middle.
    pub up: Link,
    /// From the middle to the site.
    pub down: Link,
}

/// A node's access to the network during its turn.
pub struct Socket<'a> {
    fabric: &'a mut Fabric,
    node: NodeId,
    work: Work,
}

/// Nodes and the network between them.
pub struct Network<N> {
    nodes: Vec<N>,
    fabric: Fabric,
    /// Scratch memory for corrupted payloads.
    corrupted: Vec<u8>,
}

impl<N: Node> Network<N> {
    /// Makes a network without nodes, with all random streams derived from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { nodes: Vec::new(), fabric: Fabric::new(seed), corrupted: Vec::new() }
    }

    /// Makes a network that keeps only counts, for long runs.
    #[must_use]
    pub fn counting(seed: u64) -> Self {
        Self { nodes: Vec::new(), fabric: Fabric::counting(seed), corrupted: Vec::new() }
    }

    /// Opens a site: nodes whose [`Port::site`] it is share its trunk to all others.
    pub fn add_site(&mut self, name: &str, trunk: Trunk) -> SiteId {
        self.fabric.open_site(name, trunk)
    }

    /// Adds a node, also while the network runs; `role` is printed for it in the scenario.
    pub fn add(&mut self, role: &str, node: N, port: Port) -> NodeId {
        self.nodes.push(node);
        self.fabric.seat(role, port)
    }

    /// Makes a node a member of a group from outside, before its first turn.
    pub fn join(&mut self, node: NodeId, group: Group) {
        self.fabric.join(node, group);
    }

    /// Gives one node its next turn and returns which; nothing if no event is left.
    ///
    /// Intended for checks after every input. A scenario with timers never ends, so a loop over this needs its own
    /// end condition.
    pub fn step(&mut self) -> Option<NodeId> {
        self.step_within(Instant::from_nanos(u64::MAX))
    }

    /// Runs until the clock shows `end`, including all events of that instant.
    pub fn run_until(&mut self, end: Instant) {
        self.run_checked(end, |_, _| ());
    }

    /// Runs for a time.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now() + duration);
    }

    /// Runs until the clock shows `end` and passes every node that had a turn to `check`, after the turn.
    pub fn run_checked(&mut self, end: Instant, mut check: impl FnMut(&Self, NodeId)) {
        while let Some(node) = self.step_within(end) {
            check(self, node);
        }
        self.fabric.move_clock(end);
    }

    /// Gives a node a turn from outside: a command of the test, after which it is polled.
    ///
    /// A stalled process gets it too; the test must ask only what its scenario allows.
    pub fn act<R>(&mut self, node: NodeId, action: impl FnOnce(&mut N, Instant, &mut Socket<'_>) -> R) -> R {
        let now = self.fabric.shown(node, self.now());
        let mut socket = Socket { fabric: &mut self.fabric, node, work: Work::default() };
        let result = action(&mut self.nodes[node.index()], now, &mut socket);
        let work = socket.work;
        self.poll(node, work);
        result
    }

    fn step_within(&mut self, end: Instant) -> Option<NodeId> {
        while let Some(event) = self.fabric.next_event(end) {
            let touched = match event {
                Event::Cross { copy, place } => {
                    self.fabric.cross(copy, place);
                    None
                }
                Event::Arrive { node, row, wear } => {
                    (self.fabric.arrive(node, row, wear) == Due::Now).then(|| self.read(node))
                }
                Event::Read(node) => Some(self.read(node)),
                Event::Wake(node) => (self.fabric.wake(node) == Due::Now).then(|| self.advance(node)),
            };
            if touched.is_some() {
                return touched;
            }
        }
        None
    }

    fn read(&mut self, node: NodeId) -> NodeId {
        let mut work = Work::default();
        for _ in 0..self.fabric.batch(node) {
            if !self.hand_over(node) {
                break;
            }
            work.received += 1;
        }
        self.poll(node, work);
        self.fabric.end_read(node);
        node
    }

    /// Passes one unread datagram to the node; returns whether there was one.
    fn hand_over(&mut self, node: NodeId) -> bool {
        let Some(unread) = self.fabric.take_unread(node) else { return false };
        let now = self.fabric.now();
        let outcome = match unread.wear.damage {
            Some(_) => Outcome::Corrupted { at: now },
            None => Outcome::Delivered { at: now },
        };
        let sent = self.fabric.log.sent_of(node, unread.row);
        let bytes = if let Some(damage) = unread.wear.damage {
            self.corrupted.clear();
            self.corrupted.extend_from_slice(sent.bytes);
            damage.strike(&mut self.corrupted);
            &self.corrupted
        } else {
            sent.bytes
        };
        let drops = (unread.drops > 0).then_some(unread.drops);
        let arrival = Arrival {
            bytes,
            from: sent.from,
            to: sent.to,
            arrived: self.fabric.shown(node, unread.arrived),
            is_marked: unread.wear.is_marked,
            drops,
        };
        self.nodes[node.index()].receive(self.fabric.shown(node, now), &arrival);
        self.fabric.log.settle(node, unread.row, outcome);
        true
    }

    fn advance(&mut self, node: NodeId) -> NodeId {
        let now = self.fabric.shown(node, self.fabric.now());
        self.nodes[node.index()].advance(now);
        self.poll(node, Work::default());
        node
    }

    /// Polls a node after a turn in which it did that.
    fn poll(&mut self, node: NodeId, work: Work) {
        self.fabric.count_turn(node);
        let now = self.fabric.shown(node, self.fabric.now());
        let mut socket = Socket { fabric: &mut self.fabric, node, work };
        let deadline = self.nodes[node.index()].poll(now, &mut socket);
        let work = socket.work;
        self.fabric.work(node, work);
        let deadline = deadline.map(|deadline| self.fabric.at_shown(node, deadline));
        self.fabric.set_deadline(node, deadline);
    }
}

impl<N> Network<N> {
    /// Returns the time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// Returns the time of the next event, if there is one.
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        self.fabric.next_at()
    }

    /// Returns a node.
    ///
    /// # Panics
    /// If it is not in the line-up.
    #[must_use]
    pub fn node(&self, node: NodeId) -> &N {
        &self.nodes[node.index()]
    }

    /// Returns every node, in the order of the line-up.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &N)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId::at(index), node))
    }

    /// Returns the socket's current drop counter, the tail included, like `SO_MEMINFO`.
    #[must_use]
    pub fn socket_drops(&self, node: NodeId) -> u32 {
        self.fabric.drops(node)
    }

    /// Returns the current delay in the queue of the trunk towards a site.
    ///
    /// # Panics
    /// If the site is not there.
    #[must_use]
    pub fn trunk_queue(&self, site: SiteId) -> Duration {
        self.fabric.trunk_queue(site)
    }

    /// Returns how many datagrams a node sent.
    ///
    /// # Panics
    /// If it is not in the line-up.
    #[must_use]
    pub fn sent_by(&self, node: NodeId) -> u64 {
        self.fabric.role(node).1
    }

    /// Returns the number of a node's datagrams that have left its process and have not reached their addressees' own
    /// links: those not yet in the log's counts. A datagram to several sites counts once on each trunk it is on.
    ///
    /// # Panics
    /// If it is not in the line-up.
    #[must_use]
    pub fn crossing(&self, node: NodeId) -> u64 {
        self.fabric.crossing(node)
    }

    /// Returns a table of what each node sent, and what became of what was sent to it.
    #[must_use]
    pub fn table(&self) -> Table {
        let row = |index| {
            let node = NodeId::at(index);
            let (role, sent) = self.fabric.role(node);
            Row { role: role.to_owned(), sent, counts: self.fabric.log.counts(node) }
        };
        Table((0..self.nodes.len()).map(row).collect())
    }

    /// Returns the log.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.fabric.log
    }

    /// Returns the hash over everything so far.
    #[must_use]
    pub const fn trace_hash(&self) -> TraceHash {
        self.fabric.log.trace_hash()
    }

    /// Returns the line-up and the seed, for printing.
    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.fabric.scenario
    }
}

impl Socket<'_> {
    /// Returns who has the turn.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Sends a datagram and returns its [`Sent::ordinal`](crate::Sent::ordinal) in the log.
    ///
    /// # Panics
    /// If a node sends without end in one turn, or more bytes than fit into a UDP datagram.
    pub fn send(&mut self, to: Address, bytes: &[u8]) -> u64 {
        self.work.calls += 1;
        self.send_one(to, bytes)
    }

    /// Sends a train: datagrams of `segment_bytes`, the last one possibly shorter, passed to the kernel in one call.
    pub fn send_train(&mut self, to: Address, bytes: &[u8], segment_bytes: usize) {
        self.work.calls += 1;
        for segment in bytes.chunks(segment_bytes) {
            self.send_one(to, segment);
        }
    }

    fn send_one(&mut self, to: Address, bytes: &[u8]) -> u64 {
        self.work.sent += 1;
        assert!(
            self.work.sent <= MAX_SENDS_PER_TURN,
            "{} sent {MAX_SENDS_PER_TURN} datagrams in one turn and has no end; {}",
            self.node,
            self.fabric.scenario,
        );
        self.fabric.send(self.node, to, bytes, self.work)
    }

    /// Joins a group; datagrams that cross the network from now on reach the node.
    pub fn join(&mut self, group: Group) {
        self.fabric.join(self.node, group);
    }

    /// Leaves a group; datagrams in flight are dropped on arrival.
    pub fn leave(&mut self, group: Group) {
        self.fabric.leave(self.node, group);
    }

    /// Returns the current drop counter, the tail included, like `SO_MEMINFO`.
    #[must_use]
    pub fn drops(&self) -> u32 {
        self.fabric.drops(self.node)
    }

    /// Returns the datagrams that found no room in the receive buffer, in order: the view of an observer while the
    /// kernel frees them.
    pub fn refused(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.fabric.refused(self.node).map(|sent| sent.bytes)
    }

    /// Returns the used size of the receive buffer, overhead included.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.fabric.unread_bytes(self.node)
    }
}
