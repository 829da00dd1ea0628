//! Everything between the nodes: clock, agenda, links, groups, sockets and the log.
//!
//! The shape is a star, or a star of stars. A datagram passes its sender's link up to the sender's site, the trunks
//! between that site and its addressees', once for all of a site, and each addressee's own link down into that host's
//! receive buffer. Nodes without a site are in the middle, where there is no trunk. The nodes themselves are in
//! `network.rs`.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use units::Instant;

use crate::agenda::{Agenda, Event, Place};
use crate::host::{Queued, ReceiveQueue};
use crate::log::{Copied, Log, LostBy, Outcome, Sent};
use crate::path::{Passage, Path, Wear};
use crate::process::{Process, Work};
use crate::scenario::Scenario;
use crate::{Address, Group, NodeId, Port, SiteId, Trunk};

/// Maximum number of turns of a node in one nanosecond.
///
/// Far above what any valid scene needs (10,000 reports may reach a publisher at once), soon reached by a
/// node that always sets another deadline for now, or by two that answer each other over links without delay.
const MAX_TURNS_PER_INSTANT: u32 = 100_000;

/// The largest payload of a UDP datagram over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

pub(crate) struct Fabric {
    pub(crate) scenario: Scenario,
    pub(crate) log: Log,
    now: Instant,
    agenda: Agenda,
    seats: Vec<Seat>,
    sites: Vec<Site>,
    /// The members of each group, ascending.
    groups: BTreeMap<Group, Vec<NodeId>>,
}

/// A site's trunk in operation.
struct Site {
    up: Path,
    down: Path,
}

/// A node's connection to the star.
struct Seat {
    role: String,
    site: Option<SiteId>,
    process: Process,
    sent: u64,
    /// Copies of its datagrams that are not yet on an addressee's own link.
    crossing: u64,
    queue: ReceiveQueue,
    /// Datagrams that found no room in the queue, by their rows in the log.
    refused: Vec<u32>,
    up: Path,
    down: Path,
    /// Time of the host's next read, if anything is unread.
    read_at: Option<Instant>,
    /// Time of its last read: a process that runs in cycles does not read twice in one.
    last_read: Option<Instant>,
    deadline: Option<Instant>,
    /// The earliest wake-up on the agenda; later ones there are stale.
    wake_at: Option<Instant>,
    /// True if the deadline has passed and the process is about to run.
    is_rising: bool,
    /// The last instant with a turn, and the number of turns at it.
    turns: (Instant, u32),
}

/// One copy of a datagram in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    /// Key of the datagram in the log.
    pub(crate) key: u32,
    pub(crate) copied: Copied,
    pub(crate) wear: Wear,
}

impl Copy {
    /// A datagram that is corrupted on several links keeps only the first corruption: one is enough to break it, and
    /// two could cancel each other.
    fn worn(self, wear: Wear) -> Self {
        let damage = self.wear.damage.or(wear.damage);
        Self { wear: Wear { damage, is_marked: self.wear.is_marked || wear.is_marked }, ..self }
    }
}

/// Action that a host has due at this instant.
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
            sites: Vec::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Keeps only counts of what happens.
    pub(crate) fn counting(seed: u64) -> Self {
        Self { log: Log::of_counts(), ..Self::new(seed) }
    }

    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Adds a node, which gets its first turn at once.
    pub(crate) fn seat(&mut self, role: &str, port: Port) -> NodeId {
        let node = NodeId::at(self.seats.len());
        let seed = self.scenario.seed();
        self.scenario.note(role, &port);
        self.seats.push(Seat {
            role: role.to_owned(),
            site: port.site,
            sent: 0,
            crossing: 0,
            up: Path::new(port.up, seed, &format!("up {}", node.0)),
            down: Path::new(port.down, seed, &format!("down {}", node.0)),
            queue: ReceiveQueue::new(&port.host),
            refused: Vec::new(),
            process: Process::new(port.host, seed, &format!("host {}", node.0)),
            read_at: None,
            last_read: None,
            deadline: None,
            wake_at: None,
            is_rising: false,
            turns: (Instant::ORIGIN, 0),
        });
        self.log.add_hop();
        self.set_deadline(node, Some(self.now));
        node
    }

    /// Opens a site behind a trunk.
    pub(crate) fn open_site(&mut self, name: &str, trunk: Trunk) -> SiteId {
        let site = SiteId(u32::try_from(self.sites.len()).expect("fewer than 2^32 sites fit into memory"));
        let seed = self.scenario.seed();
        self.scenario.note_site(name, &trunk);
        self.sites.push(Site {
            up: Path::new(trunk.up, seed, &format!("trunk up {}", site.0)),
            down: Path::new(trunk.down, seed, &format!("trunk down {}", site.0)),
        });
        site
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

    // Path of a datagram, from its sender to the receive buffer.

    /// Sends a datagram; `work` is the work of the turn before it leaves.
    pub(crate) fn send(&mut self, from: NodeId, to: Address, bytes: &[u8], work: Work) -> u64 {
        assert!(bytes.len() <= MAX_DATAGRAM_BYTES, "{} bytes do not fit into a UDP datagram", bytes.len());
        if let Address::Node(node) = to {
            assert!(node.index() < self.seats.len(), "{node} is not in the line-up: {}", self.scenario);
        }
        let ordinal = self.log.sent_count();
        let key = self.log.record_sent(self.now, from, to, bytes);
        let seat = &mut self.seats[from.index()];
        seat.sent += 1;
        let took = seat.process.time_of(work);
        let copy = Copy { key, copied: Copied::Original, wear: Wear::default() };
        if took.is_zero() {
            self.leave_host(copy, from);
        } else {
            self.plan_cross(self.now + took, copy, Place::Host);
        }
        self.log.release(key);
        ordinal
    }

    fn leave_host(&mut self, copy: Copy, from: NodeId) {
        let up = &mut self.seats[from.index()].up;
        let bytes = self.log.sent_by(copy.key).bytes;
        let (is_immediate, passage) = (up.is_immediate(), up.pass(self.now, bytes));
        self.come_out(copy, &passage, is_immediate, Place::Home, |_| true);
    }

    /// Forwards a datagram from its current place and releases it.
    pub(crate) fn cross(&mut self, copy: Copy, place: Place) {
        let from = self.log.sent_by(copy.key).from;
        self.seats[from.index()].crossing -= 1;
        self.go_on(copy, place);
        self.log.release(copy.key);
    }

    fn go_on(&mut self, copy: Copy, place: Place) {
        let from = self.log.sent_by(copy.key).from;
        let home = self.seats[from.index()].site;
        match place {
            Place::Host => self.leave_host(copy, from),
            _ if self.sites.is_empty() => self.spread(copy, None),
            Place::Home => self.leave_home(copy, home),
            Place::Middle => self.leave_middle(copy, home),
            Place::Site(site) => self.spread(copy, Some(site)),
        }
    }

    /// Spreads a datagram over the addressees at its sender's site, and sends it to the others over the site's trunk.
    fn leave_home(&mut self, copy: Copy, home: Option<SiteId>) {
        self.spread(copy, home);
        let Some(site) = home else { return self.leave_middle(copy, home) };
        if self.destinations(copy.key).iter().all(|destination| *destination == home) {
            return;
        }
        let bytes = self.log.sent_by(copy.key).bytes;
        let trunk = &mut self.sites[site.0 as usize].up;
        let (is_immediate, passage) = (trunk.is_immediate(), trunk.pass(self.now, bytes));
        self.come_out(copy, &passage, is_immediate, Place::Middle, |destination| destination != home);
    }

    /// Distributes a datagram to the addressees in the middle, and sends it once over the trunk of each other site.
    fn leave_middle(&mut self, copy: Copy, home: Option<SiteId>) {
        for destination in self.destinations(copy.key) {
            let Some(site) = destination.filter(|site| Some(*site) != home) else {
                if destination.is_none() && home.is_some() {
                    self.spread(copy, None);
                }
                continue;
            };
            let bytes = self.log.sent_by(copy.key).bytes;
            let trunk = &mut self.sites[site.0 as usize].down;
            let (is_immediate, passage) = (trunk.is_immediate(), trunk.pass(self.now, bytes));
            self.come_out(copy, &passage, is_immediate, Place::Site(site), |other| other == destination);
        }
    }

    /// Plans the exit of a datagram from a shared link; if it is lost there, `meant` names the addressees.
    fn come_out(
        &mut self,
        copy: Copy,
        passage: &Passage,
        is_immediate: bool,
        place: Place,
        meant: impl Fn(Option<SiteId>) -> bool,
    ) {
        match passage.original {
            Ok(exit) if is_immediate => self.go_on(copy.worn(exit.wear), place),
            Ok(exit) => self.plan_cross(exit.due, copy.worn(exit.wear), place),
            Err(by) => self.for_each_addressee(copy.key, meant, |fabric, node| {
                fabric.log.begin(node, copy.key, copy.copied, Outcome::Lost(by));
            }),
        }
        if let Some(due) = passage.duplicate {
            self.plan_cross(due, Copy { copied: Copied::Duplicate, ..copy }, place);
        }
    }

    fn plan_cross(&mut self, at: Instant, copy: Copy, place: Place) {
        self.log.hold(copy.key);
        let from = self.log.sent_by(copy.key).from;
        self.seats[from.index()].crossing += 1;
        self.agenda.insert(at, Event::Cross { copy, place });
    }

    /// Returns the sites with addressees, the middle first.
    fn destinations(&self, key: u32) -> Vec<Option<SiteId>> {
        let site_of = |node: &NodeId| self.seats[node.index()].site;
        let sent = self.log.sent_by(key);
        match sent.to {
            Address::Node(node) => vec![site_of(&node)],
            Address::Group(group) => {
                let members = self.groups.get(&group).into_iter().flatten();
                let sites: BTreeSet<Option<SiteId>> =
                    members.filter(|node| **node != sent.from).map(site_of).collect();
                sites.into_iter().collect()
            }
        }
    }

    /// Sends a datagram down to its addressees at a site.
    fn spread(&mut self, copy: Copy, site: Option<SiteId>) {
        self.for_each_addressee(copy.key, |other| other == site, |fabric, node| fabric.descend(node, copy));
    }

    fn for_each_addressee(
        &mut self,
        key: u32,
        meant: impl Fn(Option<SiteId>) -> bool,
        mut act: impl FnMut(&mut Self, NodeId),
    ) {
        let sent = self.log.sent_by(key);
        let from = sent.from;
        match sent.to {
            Address::Node(node) => {
                if meant(self.seats[node.index()].site) {
                    act(self, node);
                }
            }
            Address::Group(group) => {
                // Taken out during the loop: forwarding a datagram never changes members.
                let members = self.groups.get_mut(&group).map(core::mem::take).unwrap_or_default();
                for node in members.iter().copied().filter(|node| *node != from) {
                    if meant(self.seats[node.index()].site) {
                        act(self, node);
                    }
                }
                self.groups.insert(group, members);
            }
        }
    }

    fn descend(&mut self, node: NodeId, copy: Copy) {
        let Copy { key, copied, wear } = copy;
        let bytes = self.log.sent_by(key).bytes;
        let passage = self.seats[node.index()].down.pass(self.now, bytes);
        match passage.original {
            Ok(exit) => {
                let row = self.log.begin(node, key, copied, Outcome::InFlight);
                self.agenda.insert(exit.due, Event::Arrive { node, row, wear: copy.worn(exit.wear).wear });
            }
            Err(by) => {
                self.log.begin(node, key, copied, Outcome::Lost(by));
            }
        }
        if let Some(due) = passage.duplicate {
            let row = self.log.begin(node, key, Copied::Duplicate, Outcome::InFlight);
            self.agenda.insert(due, Event::Arrive { node, row, wear });
        }
    }

    /// Puts a datagram into the receive buffer; returns whether the host reads it at this instant.
    pub(crate) fn arrive(&mut self, node: NodeId, row: u32, wear: Wear) -> Due {
        let sent = self.log.sent_of(node, row);
        let size_bytes = sent.bytes.len();
        if let Address::Group(group) = sent.to
            && !self.is_member(node, group)
        {
            self.log.settle(node, row, Outcome::Lost(LostBy::NotJoined));
            return Due::Later;
        }
        let seat = &mut self.seats[node.index()];
        if seat.queue.push(self.now, row, wear, size_bytes).is_err() {
            if self.log.keeps_all() {
                seat.refused.push(row);
            }
            self.log.settle(node, row, Outcome::Lost(LostBy::Buffer));
            return Due::Later;
        }
        self.log.settle(node, row, Outcome::Unread);
        self.plan_read(node)
    }

    fn plan_read(&mut self, node: NodeId) -> Due {
        let seat = &mut self.seats[node.index()];
        if seat.read_at.is_some() {
            return Due::Later;
        }
        let at = match seat.last_read {
            Some(last) if last == self.now => seat.process.runs_again(self.now),
            _ => {
                let late = seat.process.lateness(self.now);
                seat.process.runs_from(self.now + late)
            }
        };
        if at == self.now {
            return Due::Now;
        }
        seat.read_at = Some(at);
        self.agenda.insert(at, Event::Read(node));
        Due::Later
    }

    // Actions of a host when its process runs.

    pub(crate) fn batch(&self, node: NodeId) -> usize {
        self.seats[node.index()].process.host.batch()
    }

    pub(crate) fn take_unread(&mut self, node: NodeId) -> Option<Queued> {
        self.seats[node.index()].queue.pop()
    }

    /// Plans the next read if a batch left something unread.
    pub(crate) fn end_read(&mut self, node: NodeId) {
        let seat = &mut self.seats[node.index()];
        seat.last_read = Some(self.now);
        seat.read_at = (!seat.queue.is_empty()).then(|| seat.process.runs_again(self.now));
        if let Some(at) = seat.read_at {
            self.agenda.insert(at, Event::Read(node));
        }
    }

    /// Returns whether a wake-up is for a deadline; plans a later one if it is too early.
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
        let late = if seat.is_rising { Duration::ZERO } else { seat.process.lateness(self.now) };
        let at = seat.process.runs_from(self.now + late);
        if at > self.now {
            seat.is_rising = true;
            seat.wake_at = Some(at);
            self.agenda.insert(at, Event::Wake(node));
            return Due::Later;
        }
        (seat.is_rising, seat.deadline) = (false, None);
        Due::Now
    }

    pub(crate) fn set_deadline(&mut self, node: NodeId, deadline: Option<Instant>) {
        let seat = &mut self.seats[node.index()];
        (seat.deadline, seat.is_rising) = (deadline, false);
        if let Some(deadline) = deadline {
            self.plan_wake(node, deadline);
        }
    }

    fn plan_wake(&mut self, node: NodeId, deadline: Instant) {
        let seat = &mut self.seats[node.index()];
        let at = seat.process.timer(self.now, deadline);
        if seat.wake_at.is_none_or(|planned| at < planned) {
            seat.wake_at = Some(at);
            self.agenda.insert(at, Event::Wake(node));
        }
    }

    /// Counts a turn of a node.
    ///
    /// # Panics
    /// If the node never becomes idle.
    pub(crate) fn count_turn(&mut self, node: NodeId) {
        let turns = &mut self.seats[node.index()].turns;
        let count = if turns.0 == self.now { turns.1 + 1 } else { 1 };
        *turns = (self.now, count);
        assert!(
            count <= MAX_TURNS_PER_INSTANT,
            "{node} is not idle at {:?}: {MAX_TURNS_PER_INSTANT} turns without time moving; {}",
            self.now,
            self.scenario,
        );
    }

    /// Records the processor time of a turn.
    pub(crate) fn work(&mut self, node: NodeId, work: Work) {
        self.seats[node.index()].process.work(self.now, work);
    }

    /// Returns the node's clock reading at a time.
    pub(crate) fn shown(&self, node: NodeId, at: Instant) -> Instant {
        self.seats[node.index()].process.host.clock.shows(at)
    }

    /// Returns the time at which the node's clock shows `shown`.
    pub(crate) fn at_shown(&self, node: NodeId, shown: Instant) -> Instant {
        self.seats[node.index()].process.host.clock.at(shown)
    }

    pub(crate) fn trunk_queue(&self, site: SiteId) -> Duration {
        self.sites[site.0 as usize].down.wait(self.now)
    }

    /// Returns the number of copies of a node's datagrams between its process and the addressees' own links.
    pub(crate) fn crossing(&self, node: NodeId) -> u64 {
        self.seats[node.index()].crossing
    }

    /// Returns a node's role and the number of datagrams it sent.
    pub(crate) fn role(&self, node: NodeId) -> (&str, u64) {
        let seat = &self.seats[node.index()];
        (&seat.role, seat.sent)
    }

    // Operations of a node on its socket.

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
