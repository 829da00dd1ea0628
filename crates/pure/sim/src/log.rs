//! The reference for accounts: every datagram sent, and its outcome for every addressee.
//!
//! The network keeps the log, independently of the nodes' accounts. It is compact: a datagram's bytes are stored once
//! for all its addressees, and a row with an outcome takes 24 bytes. Start with [`Log::outcomes`].

use core::fmt;
use std::collections::BTreeMap;

use units::Instant;

use crate::store::Store;
use crate::trace::TraceHash;
use crate::{Address, NodeId};

/// Length of the part of a datagram that enters the hash if only counts are kept: enough to tell packets apart.
const TRACED_BYTES: usize = 32;

/// Everything that was sent with its outcome, or only the number of copies with each outcome.
pub struct Log {
    store: Store,
    sent_count: u64,
    /// By addressee.
    hops: Vec<Hop>,
    trace: TraceHash,
}

/// The copies for one addressee.
#[derive(Default)]
struct Hop {
    /// In the order in which the copies began their last hop; if only counts are kept, those in flight.
    rows: Vec<Row>,
    /// Free rows, if only counts are kept.
    free: Vec<u32>,
    counts: OutcomeCounts,
}

/// A datagram as it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent<'a> {
    /// Number of datagrams that all nodes had sent before.
    pub ordinal: u64,
    /// Time of sending.
    pub at: Instant,
    /// Sender.
    pub from: NodeId,
    /// Destination.
    pub to: Address,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// One copy of a datagram for one addressee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// The datagram's [`Sent::ordinal`].
    pub ordinal: u64,
    /// Origin of the copy.
    pub copied: Copied,
    /// Outcome of the copy.
    pub outcome: Outcome,
}

/// Origin of a copy of a datagram: its sender or the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// As it was sent.
    Original,
    /// Made by a link that duplicates.
    Duplicate,
}

/// Outcome of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// On the addressee's link.
    InFlight,
    /// In the addressee's receive buffer.
    Unread,
    /// Handed to the node.
    Delivered {
        /// Time at which the node read it.
        at: Instant,
    },
    /// Handed to the node with a bit flipped.
    Corrupted {
        /// Time at which the node read it.
        at: Instant,
    },
    /// Not delivered to the node.
    Lost(LostBy),
}

/// Place and cause of the loss of a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LostBy {
    /// Random loss of a link.
    Random,
    /// A burst of losses of a link.
    Burst,
    /// A rule of the test.
    Placed,
    /// A link's full queue.
    Queue,
    /// A link's outage.
    Outage,
    /// Longer than a link carries.
    Mtu,
    /// Corruption detected by a checksum.
    Checksum,
    /// The addressee's full receive buffer.
    Buffer,
    /// The addressee left the group while the datagram was in flight.
    NotJoined,
}

/// The number of copies with each outcome.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeCounts {
    /// On a link.
    pub in_flight: u64,
    /// In a receive buffer.
    pub unread: u64,
    /// Delivered intact.
    pub delivered: u64,
    /// Handed over with a bit flipped.
    pub corrupted: u64,
    lost: [u64; LostBy::ALL.len()],
}

struct Row {
    /// Key of the datagram; equal to its ordinal if everything is kept.
    ordinal: u32,
    copied: Copied,
    outcome: Outcome,
}

impl Log {
    pub(crate) const fn new() -> Self {
        Self { store: Store::all(), sent_count: 0, hops: Vec::new(), trace: TraceHash::EMPTY }
    }

    /// Makes a log that keeps only counts, for long runs.
    pub(crate) const fn of_counts() -> Self {
        Self { store: Store::passing(), sent_count: 0, hops: Vec::new(), trace: TraceHash::EMPTY }
    }

    pub(crate) const fn keeps_all(&self) -> bool {
        self.store.keeps_all()
    }

    /// Returns how many datagrams were sent.
    #[must_use]
    pub const fn sent_count(&self) -> u64 {
        self.sent_count
    }

    /// Returns a datagram as it was sent.
    ///
    /// # Panics
    /// If fewer datagrams were sent, or the network keeps only counts.
    #[must_use]
    pub fn sent(&self, ordinal: u64) -> Sent<'_> {
        self.must_keep_all();
        self.store.sent(u32::try_from(ordinal).expect("fewer than 2^32 datagrams fit into memory"))
    }

    fn must_keep_all(&self) {
        assert!(
            self.keeps_all(),
            "this network keeps only counts; make it with `Network::new` to ask for more"
        );
    }

    /// Returns every datagram sent, in order.
    pub fn all_sent(&self) -> impl Iterator<Item = Sent<'_>> {
        (0..self.sent_count()).map(|ordinal| self.sent(ordinal))
    }

    /// Returns every copy sent to `node`, in the order in which they began their last hop.
    ///
    /// A datagram lost on its sender's own link has a row here for every intended addressee. A datagram still on its
    /// sender's link, or sent while the node was not a member, has none.
    ///
    /// # Panics
    /// If the network keeps only counts.
    pub fn passes(&self, node: NodeId) -> impl Iterator<Item = Pass> {
        self.must_keep_all();
        let pass = |row: &Row| Pass { ordinal: row.ordinal.into(), copied: row.copied, outcome: row.outcome };
        self.hops[node.index()].rows.iter().map(pass)
    }

    /// Returns the outcome of each datagram meant for `node`, by ordinal: that of its luckiest copy.
    ///
    /// Delivered takes precedence over corrupted, corrupted over in flight, and in flight over lost; of equals the
    /// first copy's outcome counts.
    #[must_use]
    pub fn outcomes(&self, node: NodeId) -> BTreeMap<u64, Outcome> {
        let mut outcomes = BTreeMap::new();
        for Pass { ordinal, outcome, .. } in self.passes(node) {
            let best = outcomes.entry(ordinal).or_insert(outcome);
            if outcome.luck() > best.luck() {
                *best = outcome;
            }
        }
        outcomes
    }

    /// Returns the number of copies for `node`, originals and duplicates, with each outcome.
    #[must_use]
    pub fn counts(&self, node: NodeId) -> OutcomeCounts {
        self.hops[node.index()].counts
    }

    /// Returns the hash over everything so far.
    #[must_use]
    pub const fn trace_hash(&self) -> TraceHash {
        self.trace
    }

    pub(crate) fn add_hop(&mut self) {
        self.hops.push(Hop::default());
    }

    /// Records a datagram and returns its key. The caller holds it until it [releases](Self::release) it.
    pub(crate) fn record_sent(&mut self, at: Instant, from: NodeId, to: Address, bytes: &[u8]) -> u32 {
        let (kind, id) = match to {
            Address::Group(group) => (1 << 32, group.0),
            Address::Node(node) => (0, node.0),
        };
        self.trace.mix(at.as_nanos());
        self.trace.mix(u64::from(from.0));
        self.trace.mix(kind | u64::from(id));
        let traced = if self.keeps_all() { bytes } else { &bytes[..bytes.len().min(TRACED_BYTES)] };
        self.trace.mix_bytes(traced);
        let sent = Sent { ordinal: self.sent_count, at, from, to, bytes };
        self.sent_count += 1;
        self.store.put(&sent)
    }

    /// Adds a hold on a datagram for a planned event.
    pub(crate) fn hold(&mut self, key: u32) {
        self.store.hold(key);
    }

    /// Lets go of a datagram; the last one that does may free it.
    pub(crate) fn release(&mut self, key: u32) {
        self.store.release(key);
    }

    pub(crate) fn sent_by(&self, key: u32) -> Sent<'_> {
        self.store.sent(key)
    }

    /// Begins a row of `node`'s hop; returns its place.
    pub(crate) fn begin(&mut self, node: NodeId, key: u32, copied: Copied, outcome: Outcome) -> u32 {
        let keeps_all = self.keeps_all();
        let hop = &mut self.hops[node.index()];
        hop.counts.add(outcome);
        let row = Row { ordinal: key, copied, outcome };
        let place = match hop.free.pop().filter(|_| !keeps_all) {
            Some(place) => {
                hop.rows[place as usize] = row;
                place
            }
            None => {
                hop.rows.push(row);
                u32::try_from(hop.rows.len() - 1).expect("fewer than 2^32 copies fit into memory")
            }
        };
        self.store.hold(key);
        self.trace_outcome(node, place, outcome);
        self.forget_if_over(node, place, outcome);
        place
    }

    pub(crate) fn settle(&mut self, node: NodeId, row: u32, outcome: Outcome) {
        let hop = &mut self.hops[node.index()];
        let old = core::mem::replace(&mut hop.rows[row as usize].outcome, outcome);
        hop.counts.subtract(old);
        hop.counts.add(outcome);
        self.trace_outcome(node, row, outcome);
        self.forget_if_over(node, row, outcome);
    }

    /// If only counts are kept, frees a row whose outcome is final.
    fn forget_if_over(&mut self, node: NodeId, row: u32, outcome: Outcome) {
        if self.keeps_all() || matches!(outcome, Outcome::InFlight | Outcome::Unread) {
            return;
        }
        let hop = &mut self.hops[node.index()];
        hop.free.push(row);
        let key = hop.rows[row as usize].ordinal;
        self.store.release(key);
    }

    /// Returns the datagram that a row is about.
    pub(crate) fn sent_of(&self, node: NodeId, row: u32) -> Sent<'_> {
        self.store.sent(self.hops[node.index()].rows[row as usize].ordinal)
    }

    fn trace_outcome(&mut self, node: NodeId, row: u32, outcome: Outcome) {
        let (code, detail) = match outcome {
            Outcome::InFlight => (0_u64, 0),
            Outcome::Unread => (1, 0),
            Outcome::Delivered { at } => (2, at.as_nanos()),
            Outcome::Corrupted { at } => (3, at.as_nanos()),
            Outcome::Lost(by) => (4, by as u64),
        };
        self.trace.mix(u64::from(node.0) << 32 | u64::from(row));
        self.trace.mix(code << 60 ^ detail);
    }
}

impl Outcome {
    /// Returns the time at which the node got the copy, intact or not.
    #[must_use]
    pub const fn read_at(self) -> Option<Instant> {
        match self {
            Self::Delivered { at } | Self::Corrupted { at } => Some(at),
            Self::InFlight | Self::Unread | Self::Lost(_) => None,
        }
    }

    const fn luck(self) -> u8 {
        match self {
            Self::Lost(_) => 0,
            Self::InFlight | Self::Unread => 1,
            Self::Corrupted { .. } => 2,
            Self::Delivered { .. } => 3,
        }
    }
}

impl LostBy {
    /// All causes of loss.
    pub const ALL: [Self; 9] = [
        Self::Random,
        Self::Burst,
        Self::Placed,
        Self::Queue,
        Self::Outage,
        Self::Mtu,
        Self::Checksum,
        Self::Buffer,
        Self::NotJoined,
    ];

    /// Returns the name, as tables print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Burst => "burst",
            Self::Placed => "placed",
            Self::Queue => "queue",
            Self::Outage => "outage",
            Self::Mtu => "too long",
            Self::Checksum => "checksum",
            Self::Buffer => "buffer",
            Self::NotJoined => "not joined",
        }
    }
}

impl OutcomeCounts {
    /// Returns the number lost for this cause.
    #[must_use]
    pub const fn lost(&self, by: LostBy) -> u64 {
        self.lost[by as usize]
    }

    /// Returns the total number lost.
    #[must_use]
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Returns how many copies there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.in_flight + self.unread + self.delivered + self.corrupted + self.lost_total()
    }

    const fn add(&mut self, outcome: Outcome) {
        *self.of(outcome) += 1;
    }

    const fn subtract(&mut self, outcome: Outcome) {
        *self.of(outcome) -= 1;
    }

    const fn of(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::InFlight => &mut self.in_flight,
            Outcome::Unread => &mut self.unread,
            Outcome::Delivered { .. } => &mut self.delivered,
            Outcome::Corrupted { .. } => &mut self.corrupted,
            Outcome::Lost(by) => &mut self.lost[by as usize],
        }
    }
}

impl fmt::Display for LostBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl fmt::Display for OutcomeCounts {
    /// Writes what is not zero: `196 delivered, 3 lost random, 1 lost queue`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} delivered", self.delivered)?;
        let others = [(self.corrupted, "corrupted"), (self.unread, "unread"), (self.in_flight, "in flight")];
        for (count, name) in others.into_iter().filter(|(count, _)| *count > 0) {
            write!(formatter, ", {count} {name}")?;
        }
        for by in LostBy::ALL.into_iter().filter(|by| self.lost(*by) > 0) {
            write!(formatter, ", {} lost {by}", self.lost(by))?;
        }
        Ok(())
    }
}

impl fmt::Debug for OutcomeCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OutcomeCounts({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_an_outcome_is_small() {
        assert_eq!(size_of::<Row>(), 24);
    }

    #[test]
    fn the_outcome_of_a_datagram_is_that_of_its_luckiest_copy() {
        let node = NodeId(0);
        let mut log = Log::new();
        log.add_hop();
        let delivered = Outcome::Delivered { at: Instant::from_nanos(4) };
        let ordinal = log.record_sent(Instant::ORIGIN, node, Address::Node(node), b"first");
        log.begin(node, ordinal, Copied::Original, Outcome::Lost(LostBy::Checksum));
        let row = log.begin(node, ordinal, Copied::Duplicate, Outcome::InFlight);
        assert_eq!(log.outcomes(node)[&0], Outcome::InFlight);
        log.settle(node, row, delivered);
        let ordinal = log.record_sent(Instant::ORIGIN, node, Address::Node(node), b"second");
        log.begin(node, ordinal, Copied::Original, Outcome::Lost(LostBy::Queue));
        let outcomes: Vec<_> = log.outcomes(node).into_values().collect();
        assert_eq!(outcomes, [delivered, Outcome::Lost(LostBy::Queue)]);
        assert_eq!(log.counts(node).to_string(), "1 delivered, 1 lost queue, 1 lost checksum");
        assert_eq!(log.sent(0).bytes, b"first");
        assert_eq!(log.sent(1).bytes, b"second");
    }

    #[test]
    fn a_log_of_counts_counts_the_same_and_does_not_grow() {
        let node = NodeId(0);
        let (mut all, mut counts) = (Log::new(), Log::of_counts());
        for log in [&mut all, &mut counts] {
            log.add_hop();
            for round in 0..1_000_u64 {
                let at = Instant::from_nanos(round);
                let key = log.record_sent(at, node, Address::Node(node), &round.to_le_bytes());
                let outcome = if round % 10 == 0 { Outcome::Lost(LostBy::Random) } else { Outcome::InFlight };
                let row = log.begin(node, key, Copied::Original, outcome);
                log.release(key);
                if outcome == Outcome::InFlight {
                    assert_eq!(log.sent_of(node, row).bytes, round.to_le_bytes());
                    log.settle(node, row, Outcome::Unread);
                    log.settle(node, row, Outcome::Delivered { at });
                }
            }
        }
        assert_eq!(counts.counts(node).to_string(), "900 delivered, 100 lost random");
        assert_eq!(counts.counts(node), all.counts(node));
        assert_eq!((counts.sent_count(), counts.hops[0].rows.len()), (1_000, 1));
        assert_eq!((all.sent_count(), all.hops[0].rows.len()), (1_000, 1_000));
    }
}
