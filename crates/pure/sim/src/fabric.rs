//! Everything between the nodes: clock, agenda, links, groups, sockets and the log.
//!
//! The shape is a star. A datagram passes its sender's link up to the middle, is spread over its addressees
//! there, and passes each addressee's own link down into that host's receive buffer. What happens to the
//! nodes themselves is `network.rs`.

use std::collections::BTreeMap;

use units::Instant;

use crate::agenda::{Agenda, Event};
use crate::host::{Host, Queued, ReceiveQueue};
use crate::log::{Copied, Fate, Log, LostBy, Sent};
use crate::path::Path;
use crate::scenario::Scenario;
use crate::{Address, Damage, Group, NodeId, Port};

/// How often a node may have its turn in one nanosecond.
///
/// Far above what any sound scene needs (10,000 reports may reach a publisher at once), soon reached by a
/// node that always has one more deadline now, or by two that answer each other over links without delay.
const MAX_TURNS_PER_INSTANT: u32 = 100_000;

/// The largest payload of a UDP datagram over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

pub(crate) struct Fabric {
    pub(crate) scenario: Scenario,
    pub(crate) log: Log,
    now: Instant,
    agenda: Agenda,
    seats: Vec<Seat>,
    /// The members of each group, ascending.
    groups: BTreeMap<Group, Vec<NodeId>>,
}

/// A node's place in the star.
struct Seat {
    host: Host,
    queue: ReceiveQueue,
    /// What found no room in the queue, by its rows in the log.
    refused: Vec<u32>,
    up: Path,
    down: Path,
    /// When the host next reads, if anything is unread.
    read_at: Option<Instant>,
    /// When it last did: a process that runs in cycles does not read twice in one.
    last_read: Option<Instant>,
    deadline: Option<Instant>,
    /// The earliest wake-up on the agenda; later ones there are stale.
    wake_at: Option<Instant>,
    /// The last moment with a turn, and how many turns it had.
    turns: (Instant, u32),
}

/// Whether a host has something to do in this very moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    Later,
}

impl Fabric {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            scenario: Scenario::new(seed),
            log: Log::new(),
            now: Instant::ORIGIN,
            agenda: Agenda::default(),
            seats: Vec::new(),
            groups: BTreeMap::new(),
        }
    }

    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Takes a seat for a node, which gets its first turn at once.
    pub(crate) fn seat(&mut self, role: &str, port: Port) -> NodeId {
        let node = NodeId::at(self.seats.len());
        let seed = self.scenario.seed();
        self.scenario.note(role, &port);
        self.seats.push(Seat {
            up: Path::new(port.up, seed, &format!("up {}", node.0)),
            down: Path::new(port.down, seed, &format!("down {}", node.0)),
            queue: ReceiveQueue::new(&port.host),
            refused: Vec::new(),
            host: port.host,
            read_at: None,
            last_read: None,
            deadline: None,
            wake_at: None,
            turns: (Instant::ORIGIN, 0),
        });
        self.log.add_leg();
        self.set_deadline(node, Some(self.now));
        node
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.agenda.next_at()
    }

    /// Takes the next event that is not after `limit` and moves the clock to it.
    pub(crate) fn next_event(&mut self, limit: Instant) -> Option<Event> {
        let (at, event) = self.agenda.pop_until(limit)?;
        self.now = at;
        Some(event)
    }

    pub(crate) fn move_clock(&mut self, to: Instant) {
        self.now = self.now.max(to);
    }

    // The way of a datagram, from its sender to the receive buffer.

    pub(crate) fn send(&mut self, from: NodeId, to: Address, bytes: &[u8]) -> u32 {
        assert!(bytes.len() <= MAX_DATAGRAM_BYTES, "{} bytes do not fit into a UDP datagram", bytes.len());
        if let Address::Node(node) = to {
            assert!(node.index() < self.seats.len(), "{node} is not in the line-up: {}", self.scenario);
        }
        let ordinal = self.log.record_sent(self.now, from, to, bytes);
        let up = &mut self.seats[from.index()].up;
        let immediate = up.is_immediate();
        let passage = up.pass(self.now, bytes);
        match passage.original {
            Ok(exit) if immediate => self.cross(ordinal, Copied::Original, exit.damage),
            Ok(exit) => {
                let cross = Event::Cross { ordinal, copied: Copied::Original, damage: exit.damage };
                self.agenda.insert(exit.due, cross);
            }
            Err(by) => self.lose_for_all(ordinal, by),
        }
        if let Some(due) = passage.duplicate {
            self.agenda.insert(due, Event::Cross { ordinal, copied: Copied::Duplicate, damage: None });
        }
        ordinal
    }

    /// Spreads a datagram over its addressees.
    pub(crate) fn cross(&mut self, ordinal: u32, copied: Copied, damage: Option<Damage>) {
        self.for_each_addressee(ordinal, |fabric, node| fabric.descend(node, ordinal, copied, damage));
    }

    fn lose_for_all(&mut self, ordinal: u32, by: LostBy) {
        self.for_each_addressee(ordinal, |fabric, node| {
            fabric.log.begin(node, ordinal, Copied::Original, Fate::Lost(by));
        });
    }

    fn for_each_addressee(&mut self, ordinal: u32, mut act: impl FnMut(&mut Self, NodeId)) {
        let sent = self.log.sent(ordinal.into());
        let from = sent.from;
        match sent.to {
            Address::Node(node) => act(self, node),
            Address::Group(group) => {
                // Taken out for the time of the loop: nothing on the way of a datagram changes members.
                let members = self.groups.get_mut(&group).map(core::mem::take).unwrap_or_default();
                for node in members.iter().copied().filter(|node| *node != from) {
                    act(self, node);
                }
                self.groups.insert(group, members);
            }
        }
    }

    fn descend(&mut self, node: NodeId, ordinal: u32, copied: Copied, damage: Option<Damage>) {
        let bytes = self.log.sent(ordinal.into()).bytes;
        let passage = self.seats[node.index()].down.pass(self.now, bytes);
        match passage.original {
            Ok(exit) => {
                let row = self.log.begin(node, ordinal, copied, Fate::InFlight);
                // Struck on both links, a datagram keeps its first wound: one is enough to break it, while
                // two might heal each other.
                let damage = damage.or(exit.damage);
                self.agenda.insert(exit.due, Event::Arrive { node, row, damage });
            }
            Err(by) => {
                self.log.begin(node, ordinal, copied, Fate::Lost(by));
            }
        }
        if let Some(due) = passage.duplicate {
            let row = self.log.begin(node, ordinal, Copied::Duplicate, Fate::InFlight);
            self.agenda.insert(due, Event::Arrive { node, row, damage });
        }
    }

    /// Puts a datagram into the receive buffer; tells whether the host reads it in this moment.
    pub(crate) fn arrive(&mut self, node: NodeId, row: u32, damage: Option<Damage>) -> Due {
        let sent = self.log.sent_of(node, row);
        let size_bytes = sent.bytes.len();
        if let Address::Group(group) = sent.to
            && !self.is_member(node, group)
        {
            self.log.settle(node, row, Fate::Lost(LostBy::NotJoined));
            return Due::Later;
        }
        let seat = &mut self.seats[node.index()];
        if seat.queue.push(self.now, row, damage, size_bytes).is_err() {
            seat.refused.push(row);
            self.log.settle(node, row, Fate::Lost(LostBy::Buffer));
            return Due::Later;
        }
        self.log.settle(node, row, Fate::Unread);
        self.plan_read(node)
    }

    fn plan_read(&mut self, node: NodeId) -> Due {
        let seat = &mut self.seats[node.index()];
        if seat.read_at.is_some() {
            return Due::Later;
        }
        let at = match seat.last_read {
            Some(last) if last == self.now => seat.host.runs_again(self.now),
            _ => seat.host.runs_from(self.now),
        };
        if at == self.now {
            return Due::Now;
        }
        seat.read_at = Some(at);
        self.agenda.insert(at, Event::Read(node));
        Due::Later
    }

    // What a host does when its process runs.

    pub(crate) fn batch(&self, node: NodeId) -> usize {
        self.seats[node.index()].host.batch()
    }

    pub(crate) fn take_unread(&mut self, node: NodeId) -> Option<Queued> {
        self.seats[node.index()].queue.pop()
    }

    /// Plans the next read if a batch left something unread.
    pub(crate) fn end_read(&mut self, node: NodeId) {
        let seat = &mut self.seats[node.index()];
        seat.last_read = Some(self.now);
        seat.read_at = (!seat.queue.is_empty()).then(|| seat.host.runs_again(self.now));
        if let Some(at) = seat.read_at {
            self.agenda.insert(at, Event::Read(node));
        }
    }

    /// Tells whether a wake-up is a deadline's; plans a later one if it comes too early.
    pub(crate) fn wake(&mut self, node: NodeId) -> Due {
        let seat = &mut self.seats[node.index()];
        if seat.wake_at != Some(self.now) {
            return Due::Later;
        }
        seat.wake_at = None;
        let Some(deadline) = seat.deadline else { return Due::Later };
        // A process that runs again reads its socket before it looks at its deadlines, as the engine does.
        if deadline > self.now || seat.read_at == Some(self.now) {
            self.plan_wake(node, deadline);
            return Due::Later;
        }
        seat.deadline = None;
        Due::Now
    }

    pub(crate) fn set_deadline(&mut self, node: NodeId, deadline: Option<Instant>) {
        self.seats[node.index()].deadline = deadline;
        if let Some(deadline) = deadline {
            self.plan_wake(node, deadline);
        }
    }

    fn plan_wake(&mut self, node: NodeId, deadline: Instant) {
        let seat = &mut self.seats[node.index()];
        let at = seat.host.runs_from(deadline.max(self.now));
        if seat.wake_at.is_none_or(|planned| at < planned) {
            seat.wake_at = Some(at);
            self.agenda.insert(at, Event::Wake(node));
        }
    }

    /// Counts a turn of a node.
    ///
    /// # Panics
    /// If the node never comes to rest.
    pub(crate) fn count_turn(&mut self, node: NodeId) {
        let turns = &mut self.seats[node.index()].turns;
        let count = if turns.0 == self.now { turns.1 + 1 } else { 1 };
        *turns = (self.now, count);
        assert!(
            count <= MAX_TURNS_PER_INSTANT,
            "{node} does not come to rest at {:?}: {MAX_TURNS_PER_INSTANT} turns without time moving; {}",
            self.now,
            self.scenario,
        );
    }

    // What a node asks of its socket.

    pub(crate) fn join(&mut self, node: NodeId, group: Group) {
        let members = self.groups.entry(group).or_default();
        if let Err(place) = members.binary_search(&node) {
            members.insert(place, node);
        }
    }

    pub(crate) fn leave(&mut self, node: NodeId, group: Group) {
        if let Some(members) = self.groups.get_mut(&group)
            && let Ok(place) = members.binary_search(&node)
        {
            members.remove(place);
        }
    }

    fn is_member(&self, node: NodeId, group: Group) -> bool {
        self.groups.get(&group).is_some_and(|members| members.binary_search(&node).is_ok())
    }

    pub(crate) fn drops(&self, node: NodeId) -> u32 {
        self.seats[node.index()].queue.drops()
    }

    pub(crate) fn refused(&self, node: NodeId) -> impl ExactSizeIterator<Item = Sent<'_>> {
        self.seats[node.index()].refused.iter().map(move |row| self.log.sent_of(node, *row))
    }

    pub(crate) fn unread_bytes(&self, node: NodeId) -> u64 {
        self.seats[node.index()].queue.held_bytes()
    }
}
