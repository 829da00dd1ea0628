//! The truth that accounts are compared with: every datagram sent, and its fate on the way to every addressee.
//!
//! The log is kept by the network itself and knows nothing of the nodes' books. It is compact: the bytes of
//! a datagram lie in it once however many addressees there are, and a row of fate takes 24 bytes. Start with
//! [`Log::outcomes`].

use core::fmt;
use std::collections::BTreeMap;

use units::Instant;

use crate::trace::TraceHash;
use crate::{Address, NodeId};

/// Everything that was sent and what became of it.
pub struct Log {
    sent: Vec<SentRow>,
    /// The payloads, one behind the other.
    bytes: Vec<u8>,
    /// By addressee, in the order in which the copies began their last leg.
    legs: Vec<Vec<Row>>,
    trace: TraceHash,
}

/// A datagram as it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent<'a> {
    /// How many datagrams all nodes together had sent before.
    pub ordinal: u64,
    /// When it was sent.
    pub at: Instant,
    /// By whom.
    pub from: NodeId,
    /// To whom.
    pub to: Address,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// One copy of a datagram on its way to one addressee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// The datagram's [`Sent::ordinal`].
    pub ordinal: u64,
    /// Whether the copy was sent or made on the way.
    pub copied: Copied,
    /// What became of it.
    pub fate: Fate,
}

/// Whether a copy of a datagram was sent or made on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// As it was sent.
    Original,
    /// Made by a link that duplicates.
    Duplicate,
}

/// What became of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// On the addressee's link.
    InFlight,
    /// In the addressee's receive buffer.
    Unread,
    /// Handed to the node.
    Delivered {
        /// When the node read it.
        at: Instant,
    },
    /// Handed to the node with a bit flipped.
    Corrupted {
        /// When the node read it.
        at: Instant,
    },
    /// Never handed to the node.
    Lost(LostBy),
}

/// Where and why a copy was lost.
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
    /// Corruption that a checksum found.
    Checksum,
    /// The addressee's full receive buffer.
    Buffer,
    /// The addressee left the group while the datagram was on its way.
    NotJoined,
}

/// How many copies met which fate.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct FateCounts {
    /// On a link.
    pub in_flight: u64,
    /// In a receive buffer.
    pub unread: u64,
    /// Handed over whole.
    pub delivered: u64,
    /// Handed over with a bit flipped.
    pub corrupted: u64,
    lost: [u64; LostBy::ALL.len()],
}

struct SentRow {
    at: Instant,
    from: NodeId,
    to: Address,
    /// Where its payload begins in the log's bytes; it ends where the next one begins.
    start: usize,
}

struct Row {
    ordinal: u32,
    copied: Copied,
    fate: Fate,
}

impl Log {
    pub(crate) const fn new() -> Self {
        Self { sent: Vec::new(), bytes: Vec::new(), legs: Vec::new(), trace: TraceHash::EMPTY }
    }

    /// Returns how many datagrams were sent.
    #[must_use]
    pub const fn sent_count(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Returns a datagram as it was sent.
    ///
    /// # Panics
    /// If fewer datagrams were sent.
    #[must_use]
    pub fn sent(&self, ordinal: u64) -> Sent<'_> {
        let index = usize::try_from(ordinal).expect("ordinals are counted in memory");
        let SentRow { at, from, to, start } = self.sent[index];
        let end = self.sent.get(index + 1).map_or(self.bytes.len(), |next| next.start);
        Sent { ordinal, at, from, to, bytes: &self.bytes[start..end] }
    }

    /// Returns every datagram sent, in order.
    pub fn all_sent(&self) -> impl Iterator<Item = Sent<'_>> {
        (0..self.sent_count()).map(|ordinal| self.sent(ordinal))
    }

    /// Returns every copy on its way to `node`, in the order in which they began their last leg.
    ///
    /// A datagram lost on its sender's own link has a row here for everyone it was meant for. One that is
    /// still on its sender's link, or was sent while the node was no member, has none.
    pub fn passes(&self, node: NodeId) -> impl Iterator<Item = Pass> {
        let pass = |row: &Row| Pass { ordinal: row.ordinal.into(), copied: row.copied, fate: row.fate };
        self.legs[node.index()].iter().map(pass)
    }

    /// Returns the fate of each datagram meant for `node`, by ordinal: that of its luckiest copy.
    ///
    /// Delivered beats corrupted, corrupted beats what is still on its way, and that beats lost; between
    /// equals the first copy's fate stands.
    #[must_use]
    pub fn outcomes(&self, node: NodeId) -> BTreeMap<u64, Fate> {
        let mut outcomes = BTreeMap::new();
        for Pass { ordinal, fate, .. } in self.passes(node) {
            let best = outcomes.entry(ordinal).or_insert(fate);
            if fate.luck() > best.luck() {
                *best = fate;
            }
        }
        outcomes
    }

    /// Returns how many copies for `node`, originals and duplicates, met which fate.
    #[must_use]
    pub fn counts(&self, node: NodeId) -> FateCounts {
        let mut counts = FateCounts::default();
        for row in &self.legs[node.index()] {
            counts.add(row.fate);
        }
        counts
    }

    /// Returns the hash over everything so far.
    #[must_use]
    pub const fn trace_hash(&self) -> TraceHash {
        self.trace
    }

    pub(crate) fn add_leg(&mut self) {
        self.legs.push(Vec::new());
    }

    pub(crate) fn record_sent(&mut self, at: Instant, from: NodeId, to: Address, bytes: &[u8]) -> u32 {
        let ordinal = u32::try_from(self.sent.len()).expect("fewer than 2^32 datagrams fit into memory");
        let (kind, id) = match to {
            Address::Group(group) => (1 << 32, group.0),
            Address::Node(node) => (0, node.0),
        };
        self.trace.mix(at.as_nanos());
        self.trace.mix(u64::from(from.0));
        self.trace.mix(kind | u64::from(id));
        self.trace.mix_bytes(bytes);
        self.sent.push(SentRow { at, from, to, start: self.bytes.len() });
        self.bytes.extend_from_slice(bytes);
        ordinal
    }

    /// Begins a row of `node`'s leg; returns its place.
    pub(crate) fn begin(&mut self, node: NodeId, ordinal: u32, copied: Copied, fate: Fate) -> u32 {
        let leg = &mut self.legs[node.index()];
        let place = u32::try_from(leg.len()).expect("fewer than 2^32 copies fit into memory");
        leg.push(Row { ordinal, copied, fate });
        self.trace_fate(node, place, fate);
        place
    }

    pub(crate) fn settle(&mut self, node: NodeId, row: u32, fate: Fate) {
        self.legs[node.index()][row as usize].fate = fate;
        self.trace_fate(node, row, fate);
    }

    /// Returns the datagram that a row is about.
    pub(crate) fn sent_of(&self, node: NodeId, row: u32) -> Sent<'_> {
        self.sent(self.legs[node.index()][row as usize].ordinal.into())
    }

    fn trace_fate(&mut self, node: NodeId, row: u32, fate: Fate) {
        let (code, detail) = match fate {
            Fate::InFlight => (0_u64, 0),
            Fate::Unread => (1, 0),
            Fate::Delivered { at } => (2, at.as_nanos()),
            Fate::Corrupted { at } => (3, at.as_nanos()),
            Fate::Lost(by) => (4, by as u64),
        };
        self.trace.mix(u64::from(node.0) << 32 | u64::from(row));
        self.trace.mix(code << 60 ^ detail);
    }
}

impl Fate {
    /// Returns the moment at which the node got the copy, whole or not.
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
    /// Every way to be lost.
    pub const ALL: [Self; 8] = [
        Self::Random,
        Self::Burst,
        Self::Placed,
        Self::Queue,
        Self::Outage,
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
            Self::Checksum => "checksum",
            Self::Buffer => "buffer",
            Self::NotJoined => "not joined",
        }
    }
}

impl FateCounts {
    /// Returns how many were lost in this way.
    #[must_use]
    pub const fn lost(&self, by: LostBy) -> u64 {
        self.lost[by as usize]
    }

    /// Returns how many were lost in any way.
    #[must_use]
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Returns how many copies there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.in_flight + self.unread + self.delivered + self.corrupted + self.lost_total()
    }

    const fn add(&mut self, fate: Fate) {
        match fate {
            Fate::InFlight => self.in_flight += 1,
            Fate::Unread => self.unread += 1,
            Fate::Delivered { .. } => self.delivered += 1,
            Fate::Corrupted { .. } => self.corrupted += 1,
            Fate::Lost(by) => self.lost[by as usize] += 1,
        }
    }
}

impl fmt::Display for LostBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl fmt::Display for FateCounts {
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

impl fmt::Debug for FateCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FateCounts({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_fate_is_small() {
        assert_eq!(size_of::<Row>(), 24);
    }

    #[test]
    fn the_outcome_is_the_fate_of_the_luckiest_copy() {
        let node = NodeId(0);
        let mut log = Log::new();
        log.add_leg();
        let delivered = Fate::Delivered { at: Instant::from_nanos(4) };
        let ordinal = log.record_sent(Instant::ORIGIN, node, Address::Node(node), b"first");
        log.begin(node, ordinal, Copied::Original, Fate::Lost(LostBy::Checksum));
        let row = log.begin(node, ordinal, Copied::Duplicate, Fate::InFlight);
        assert_eq!(log.outcomes(node)[&0], Fate::InFlight);
        log.settle(node, row, delivered);
        let ordinal = log.record_sent(Instant::ORIGIN, node, Address::Node(node), b"second");
        log.begin(node, ordinal, Copied::Original, Fate::Lost(LostBy::Queue));
        let outcomes: Vec<_> = log.outcomes(node).into_values().collect();
        assert_eq!(outcomes, [delivered, Fate::Lost(LostBy::Queue)]);
        assert_eq!(log.counts(node).to_string(), "1 delivered, 1 lost queue, 1 lost checksum");
        assert_eq!(log.sent(0).bytes, b"first");
        assert_eq!(log.sent(1).bytes, b"second");
    }
}
