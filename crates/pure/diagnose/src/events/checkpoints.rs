//! Checkpoints: places on a datagram's path through a host where its passage is seen, and losses derived from holes
//! there.
//!
//! The network has no drop events. A datagram that it lost left one host and never arrived at the other. At each
//! checkpoint the kernel program knows the next number of a stream, and reports holes. A hole is the weakest
//! evidence: a datagram that arrives a little later, has a drop event, or passed elsewhere is not missing.
//!
//! Source: `netif_receive_skb`, `net_dev_queue` and `net_dev_start_xmit`, the kernel's own tracepoints.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use units::{Instant, RangeSet};

use crate::events::{DropEvent, Numbers};

/// Place on a datagram's path through a host, in the order of the path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Checkpoint {
    /// Enqueued at the device that it leaves by.
    Queue,
    /// Dequeued and passed to the device.
    Transmit,
    /// Received by a device.
    Receive,
}

impl Checkpoint {
    /// All checkpoints.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Transmit, Self::Receive];

    /// Returns its short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "TXQ",
            Self::Transmit => "XMIT",
            Self::Receive => "RX",
        }
    }

    /// Returns the kernel's name of its tracepoint.
    #[must_use]
    pub const fn tracepoint(self) -> &'static str {
        match self {
            Self::Queue => "net_dev_queue",
            Self::Transmit => "net_dev_start_xmit",
            Self::Receive => "netif_receive_skb",
        }
    }
}

/// Stream from one sender to one destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Way {
    /// Address of the sender.
    pub source: SocketAddr,
    /// Address of the destination.
    pub destination: SocketAddr,
    /// Number of the stream, 0 where its protocol has none.
    pub stream: u64,
    /// Incarnation of its publisher, 0 where its protocol has none.
    pub incarnation: u64,
}

/// Place where a stream is seen to pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Passage {
    /// Stream with its sender and destination.
    pub way: Way,
    /// Checkpoint of the passage.
    pub checkpoint: Checkpoint,
    /// Number of the network namespace; 0 where the kernel does not report it.
    pub namespace: u32,
    /// Number of the device.
    pub device: u32,
}

/// Deviation from the expected next number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Jump {
    /// Numbers that were skipped.
    Over(Range<u64>),
    /// Numbers that arrived after all.
    Late(Range<u64>),
}

/// Datagrams that have passed at a checkpoint so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// First number that was seen.
    pub first: u64,
    /// Next expected number.
    pub next: u64,
    /// Number of datagrams.
    pub datagrams: u64,
}

/// Reason of an event for a hole at a checkpoint.
pub(crate) const HOLE: &str = "HOLE";

/// Time in which a missing datagram may still arrive or be named by an event.
const GRACE: Duration = Duration::from_millis(250);

/// Size of a hole that is considered invalid: event files have no room for it
/// (`docs/reference/formats/doctor-events.md`).
const MOST_MISSING: u64 = 1 << 32;

/// Maximum number of ranges that are remembered of one stream until they leave their queue.
const MAX_WAITING: usize = 1 << 16;

/// Tracker that derives losses between checkpoints from the holes at them.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    holes: BTreeMap<Passage, Holes>,
    /// Numbers recently named by drop events, by stream.
    named: BTreeMap<Way, Aging>,
    turned: Option<Instant>,
}

/// Numbers of this period and of the one before.
#[derive(Clone, Debug, Default)]
struct Aging {
    young: RangeSet,
    old: RangeSet,
}

/// Missing numbers, and the time since when.
#[derive(Clone, Debug, Default)]
struct Holes {
    missing: Aging,
    /// Time of the first of them.
    since: Option<Instant>,
}

impl Aging {
    fn remove(&mut self, numbers: Range<u64>) {
        self.young.remove(numbers.clone());
        self.old.remove(numbers);
    }

    fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.old.iter().chain(self.young.iter())
    }

    /// Makes the young ones old; returns the previous old ones.
    fn turn(&mut self) -> RangeSet {
        core::mem::replace(&mut self.old, core::mem::take(&mut self.young))
    }

    /// Makes the young ones below a limit old; the others stay, unless they are too many.
    fn turn_below(&mut self, limit: u64) {
        let below: RangeSet = self.young.intersection(0..limit).collect();
        self.young.remove(0..limit);
        self.old = below;
        if self.young.range_count() > MAX_WAITING {
            self.young = RangeSet::new();
        }
    }

    fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }
}

impl Trail {
    /// Takes the report of a checkpoint.
    pub fn jump(&mut self, at: Instant, passage: Passage, jump: &Jump) {
        let holes = self.holes.entry(passage).or_default();
        match jump {
            // No sender skips so many numbers: these are forged.
            Jump::Over(numbers) if numbers.end - numbers.start >= MOST_MISSING => {}
            Jump::Over(numbers) => {
                holes.missing.young.insert(numbers.clone());
                holes.since.get_or_insert(at);
            }
            Jump::Late(numbers) => holes.missing.remove(numbers.clone()),
        }
    }

    /// Takes drop events, which are the better evidence for their datagrams.
    pub fn explain(&mut self, events: &[DropEvent]) {
        for event in events.iter().filter(|event| event.is_loss()) {
            let Some(numbers) = event.numbers else { continue };
            let way = Way::of(event, numbers);
            let numbers = numbers.first..numbers.last.saturating_add(1);
            self.named.entry(way).or_default().young.insert(numbers);
        }
    }

    /// Drops all holes at receiving checkpoints: some of these datagrams may have passed unseen. Returns their
    /// number.
    pub fn forget_received(&mut self) -> u64 {
        let received = |passage: &Passage| passage.checkpoint == Checkpoint::Receive;
        let mut forgotten = 0;
        for (_, holes) in self.holes.iter_mut().filter(|(passage, _)| received(passage)) {
            forgotten += holes.missing.iter().map(|numbers| numbers.end - numbers.start).sum::<u64>();
            *holes = Holes::default();
        }
        forgotten
    }

    /// Returns whether something may be due: until then the passed numbers need not be read.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.turned.is_none_or(|turned| now.since(turned) >= GRACE)
    }

    /// Returns the datagrams that have been missing long enough, as events of the namespace in which they are
    /// missing; `passed` is the state before the last jumps were taken.
    pub fn settle(&mut self, now: Instant, passed: &BTreeMap<Passage, Passed>) -> Vec<DropEvent> {
        self.turned.get_or_insert(now);
        if !self.is_due(now) {
            return Vec::new();
        }
        self.turned = Some(now);
        self.turn(passed)
    }

    /// Returns everything that is missing.
    pub fn finish(&mut self, passed: &BTreeMap<Passage, Passed>) -> Vec<DropEvent> {
        let mut events = self.turn(passed);
        events.extend(self.turn(passed));
        events
    }

    fn turn(&mut self, passed: &BTreeMap<Passage, Passed>) -> Vec<DropEvent> {
        let mut events = Vec::new();
        let is_after_queue = |it: &&Passage| it.checkpoint != Checkpoint::Queue;
        let passages: Vec<Passage> = self.holes.keys().filter(is_after_queue).copied().collect();
        for passage in passages {
            let Some(holes) = self.holes.get_mut(&passage) else { continue };
            let since = holes.since.take();
            let mut missing = holes.missing.turn();
            holes.since = since.filter(|_| !holes.missing.is_empty());
            let is_sent = |it: &Passage| it.is_sending_of(&passage.way, passage.namespace);
            // Datagrams that this namespace sends to itself cross no network.
            if passage.checkpoint == Checkpoint::Receive && passed.keys().any(is_sent) {
                continue;
            }
            self.leave_what_is_known(&passage, &mut missing, passed);
            let at = since.unwrap_or(Instant::ORIGIN);
            events.extend(missing.iter().map(|numbers| event(at, &passage, numbers)));
        }
        self.age_what_is_known(passed);
        events
    }

    /// Keeps explanations of numbers that have not left their queue yet.
    fn age_what_is_known(&mut self, passed: &BTreeMap<Passage, Passed>) {
        for (passage, holes) in &mut self.holes {
            if passage.checkpoint == Checkpoint::Queue {
                let behind = Passage { checkpoint: Checkpoint::Transmit, ..*passage };
                holes.missing.turn_below(passed.get(&behind).map_or(0, |seen| seen.next));
            }
        }
        self.holes.retain(|_, holes| !holes.missing.is_empty());
        for (way, named) in &mut self.named {
            let leaves =
                passed.iter().filter(|(it, _)| it.way == *way && it.checkpoint == Checkpoint::Transmit);
            named.turn_below(leaves.map(|(_, seen)| seen.next).min().unwrap_or(u64::MAX));
        }
        self.named.retain(|_, named| !named.is_empty());
    }

    /// Removes from the missing numbers those that drop events named, that were missing before, and that arrived
    /// elsewhere.
    fn leave_what_is_known(
        &mut self,
        passage: &Passage,
        missing: &mut RangeSet,
        passed: &BTreeMap<Passage, Passed>,
    ) {
        if let Some(named) = self.named.get(&passage.way) {
            missing.remove_all(named.iter());
        }
        if passage.checkpoint == Checkpoint::Transmit {
            let before = Passage { checkpoint: Checkpoint::Queue, ..*passage };
            missing.remove_all(self.holes(&before, missing).iter());
            return;
        }
        let is_beside = |it: &Passage| Passage { device: passage.device, ..*it } == *passage && it != passage;
        for (other, seen) in passed.iter().filter(|(it, _)| is_beside(it)) {
            let missing_there = self.holes(other, missing);
            let mut came: RangeSet = missing.intersection(seen.first..seen.next).collect();
            came.remove_all(missing_there.iter());
            missing.remove_all(came.iter());
            // Numbers missing at both are reported once.
            if let Some(there) = self.holes.get_mut(other) {
                missing_there.iter().for_each(|numbers| there.missing.remove(numbers));
            }
        }
    }

    /// Returns the numbers that are missing at a passage.
    fn holes(&self, passage: &Passage, numbers: &RangeSet) -> RangeSet {
        let holes =
            self.holes.get(passage).into_iter().flat_map(|holes| [&holes.missing.old, &holes.missing.young]);
        let of = |set| {
            numbers.iter().flat_map(move |numbers| RangeSet::intersection(set, numbers).collect::<Vec<_>>())
        };
        holes.flat_map(of).collect()
    }
}

impl Passage {
    fn is_sending_of(&self, way: &Way, namespace: u32) -> bool {
        self.checkpoint == Checkpoint::Transmit && self.way == *way && self.namespace == namespace
    }
}

impl Way {
    fn of(event: &DropEvent, numbers: Numbers) -> Self {
        let DropEvent { source, destination, .. } = *event;
        Self { source, destination, stream: numbers.stream, incarnation: numbers.incarnation }
    }
}

/// Returns the event of a hole, in the form of the kernel's drop events.
fn event(at: Instant, passage: &Passage, numbers: Range<u64>) -> DropEvent {
    let Passage { way, checkpoint, namespace, device } = *passage;
    let last = numbers.end - 1;
    DropEvent {
        at,
        reason: HOLE.into(),
        location: Some(checkpoint.tracepoint().into()),
        socket: None,
        namespace: Some(namespace).filter(|number| *number != 0),
        device: Some(device).filter(|number| *number != 0),
        is_incoming: checkpoint == Checkpoint::Receive,
        source: way.source,
        destination: way.destination,
        fragment: None,
        numbers: Some(Numbers {
            stream: way.stream,
            incarnation: way.incarnation,
            first: numbers.start,
            last,
        }),
        count: numbers.end - numbers.start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::event as dropped;
    use ledger::Stage;

    fn way() -> Way {
        let event = dropped("");
        Way { source: event.source, destination: event.destination, stream: 5, incarnation: 1 }
    }

    fn passage(checkpoint: Checkpoint, device: u32) -> Passage {
        Passage { way: way(), checkpoint, namespace: 4, device }
    }

    /// Returns the numbers passed at each of these checkpoints, from 0.
    fn passed(passages: &[(Passage, u64)]) -> BTreeMap<Passage, Passed> {
        let of =
            |(passage, next): &(Passage, u64)| (*passage, Passed { first: 0, next: *next, datagrams: *next });
        passages.iter().map(of).collect()
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(milliseconds)
    }

    fn reported(events: &[DropEvent]) -> Vec<(Option<Stage>, u64, u64)> {
        let of =
            |event: &DropEvent| event.numbers.map(|numbers| (event.stage(), numbers.first, numbers.last));
        events.iter().filter_map(of).collect()
    }

    fn named(reason: &str, first: u64, last: u64) -> DropEvent {
        let numbers = Some(Numbers { stream: 5, incarnation: 1, first, last });
        DropEvent { numbers, count: last - first + 1, ..dropped(reason) }
    }

    #[test]
    fn what_never_came_in_is_the_networks_when_it_had_its_time() {
        let (mut trail, rx) = (Trail::default(), passage(Checkpoint::Receive, 2));
        let seen = passed(&[(rx, 40)]);
        trail.settle(at(0), &seen);
        trail.jump(at(10), rx, &Jump::Over(7..10));
        trail.jump(at(20), rx, &Jump::Late(8..9));
        assert_eq!(reported(&trail.settle(at(249), &seen)), []);
        assert_eq!(reported(&trail.settle(at(260), &seen)), [], "it may still come");
        trail.jump(at(300), rx, &Jump::Late(9..10));
        let events = trail.settle(at(520), &seen);
        assert_eq!(reported(&events), [(Some(Stage::Network), 7, 7)]);
        assert_eq!((events[0].at, events[0].name()), (at(10), "HOLE @ netif_receive_skb".to_owned()));
        assert_eq!(reported(&trail.finish(&seen)), [], "once");
    }

    #[test]
    fn what_a_drop_event_names_is_no_hole() {
        let (mut trail, rx) = (Trail::default(), passage(Checkpoint::Receive, 2));
        trail.jump(at(0), rx, &Jump::Over(7..12));
        trail.explain(&[named("CPU_BACKLOG", 8, 10)]);
        let expected = [(Some(Stage::Network), 7, 7), (Some(Stage::Network), 11, 11)];
        assert_eq!(reported(&trail.finish(&passed(&[(rx, 40)]))), expected);
    }

    #[test]
    fn between_queue_and_device_the_queue_lost_it() {
        let (queue, device) = (passage(Checkpoint::Queue, 2), passage(Checkpoint::Transmit, 2));
        let mut trail = Trail::default();
        trail.jump(at(0), queue, &Jump::Over(3..5));
        trail.explain(&[named("QDISC_DROP", 8, 8)]);
        // The queue is long: its last datagram leaves it after a second.
        for turn in 0..4 {
            assert_eq!(reported(&trail.settle(at(turn * 250), &passed(&[(queue, 40), (device, 2)]))), []);
        }
        trail.jump(at(1_000), device, &Jump::Over(3..7));
        trail.jump(at(1_000), device, &Jump::Over(8..9));
        let events = trail.finish(&passed(&[(queue, 40), (device, 9)]));
        assert_eq!(reported(&events), [(Some(Stage::SenderQdisc), 5, 6)]);
        assert_eq!(events[0].name(), "HOLE @ net_dev_start_xmit");
        assert!(trail.holes.is_empty() && trail.named.is_empty(), "{trail:?}");
    }

    #[test]
    fn what_came_by_another_device_came() {
        let (one, other) = (passage(Checkpoint::Receive, 2), passage(Checkpoint::Receive, 3));
        let mut trail = Trail::default();
        trail.jump(at(0), one, &Jump::Over(3..6));
        trail.jump(at(0), other, &Jump::Over(5..8));
        trail.jump(at(0), one, &Jump::Over(30..31));
        // The other has reached 20 only.
        let events = trail.finish(&passed(&[(one, 40), (other, 20)]));
        assert_eq!(reported(&events), [(Some(Stage::Network), 5, 5), (Some(Stage::Network), 30, 30)]);
    }

    #[test]
    fn what_a_namespace_sends_to_itself_has_no_network_on_its_way() {
        let (rx, mut trail) = (passage(Checkpoint::Receive, 1), Trail::default());
        trail.jump(at(0), rx, &Jump::Over(3..6));
        assert_eq!(reported(&trail.finish(&passed(&[(rx, 40), (passage(Checkpoint::Transmit, 1), 40)]))), []);
    }

    #[test]
    fn made_up_numbers_make_no_hole() {
        let (rx, mut trail) = (passage(Checkpoint::Receive, 2), Trail::default());
        trail.jump(at(0), rx, &Jump::Over(3..1 << 60));
        trail.jump(at(0), rx, &Jump::Over(1 << 60..1 << 60 | 2));
        let events = trail.finish(&passed(&[(rx, u64::MAX)]));
        assert_eq!(reported(&events), [(Some(Stage::Network), 1 << 60, 1 << 60 | 1)]);
    }

    #[test]
    fn where_the_hook_was_blind_nothing_is_said() {
        let (rx, xmit) = (passage(Checkpoint::Receive, 2), passage(Checkpoint::Transmit, 3));
        let mut trail = Trail::default();
        trail.jump(at(0), rx, &Jump::Over(3..67));
        trail.jump(at(0), xmit, &Jump::Over(3..4));
        assert_eq!(trail.forget_received(), 64);
        // Sending in another namespace proves nothing for this one.
        let elsewhere = Passage { namespace: 9, ..xmit };
        trail.jump(at(0), rx, &Jump::Over(80..81));
        let events = trail.finish(&passed(&[(rx, 90), (elsewhere, 90)]));
        assert_eq!(reported(&events), [(Some(Stage::SenderQdisc), 3, 3), (Some(Stage::Network), 80, 80)]);
    }
}
