//! Missing runs of a stream, for readers, pages and archives.

use core::fmt;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use units::text::counted;

use crate::{DropUnit, HopCounts, KernelName, MAX_TRAIN, Stage, StageCounts};

/// Largest position of an account, one behind its last element, and largest running total: within it no sum of an
/// account comes near the limit of 64 bits.
///
/// Units: elements; at 10⁹ of them per second 36 years.
pub const MAX_POSITION: u64 = 1 << 60;

/// A missing run of a stream, with its stages and the evidence for them.
///
/// `positions.len() == lost.total() + unexplained + unsettled` holds for gaps of kind
/// [`GapKind::Missing`]; late datagrams stay in their gap, under stage `late`. Where the stream was relayed,
/// `lost[Source] == inherited.total()`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Identifier of the gap within its stream, epoch and receiver; later updates carry the same id.
    pub id: u64,
    /// Kind of absence.
    pub kind: GapKind,
    /// The missing elements. Units: position = sample index × elements per sample + element of the sample.
    pub positions: Range<u64>,
    /// The missing datagram numbers; empty when the elements never had one.
    pub numbers: Range<u64>,
    /// Elements lost, by stage.
    pub lost: StageCounts,
    /// Of those lost at stage `source` of a relayed stream, the hop and stage at which they were; empty for others.
    pub inherited: HopCounts,
    /// Lost elements without evidence in time.
    pub unexplained: u64,
    /// Elements still waiting for evidence.
    pub unsettled: u64,
    /// True if elements were apportioned among several stages because their ranges are not known.
    pub apportioned: bool,
    /// Evidence for the stages.
    pub evidence: Vec<Evidence>,
}

/// Reason why a gap reported by another process is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnsoundGap {
    /// It holds no element, or goes backwards.
    #[error("a gap over positions {start} to {end} holds no element")]
    Empty {
        /// First position.
        start: u64,
        /// Position after the last.
        end: u64,
    },
    /// It ends beyond the largest position.
    #[error("a gap ends at position {0}, beyond {MAX_POSITION}")]
    Beyond(u64),
    /// Its datagram numbers go backwards.
    #[error("a gap's datagram numbers run backwards from {start} to {end}")]
    Numbers {
        /// First number.
        start: u64,
        /// Number after the last.
        end: u64,
    },
    /// Its stages, `unexplained` and `unsettled` do not add up to its elements.
    #[error("a gap accounts for {counted} elements where {expected} are missing")]
    Unbalanced {
        /// Elements by its positions and its kind.
        expected: u64,
        /// Sum of its rows.
        counted: u128,
    },
    /// Its losses on earlier hops are not those at stage `source`, or of more hops than there can be.
    #[error("a gap tells the hops of {counted} elements where {expected} were lost before")]
    Inherited {
        /// Elements lost at stage `source`.
        expected: u64,
        /// Sum over its hops.
        counted: u128,
    },
}

/// Kind of absence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapKind {
    /// Elements were lost: part of an account.
    Missing,
    /// Time without any epoch of the stream: outside accounts.
    PublisherAbsent,
    /// Time between two accounts of one named reader in one epoch: outside accounts.
    ReaderAbsent,
}

/// Evidence that attributes a loss to a stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// The stage.
    pub stage: Stage,
    /// Number of lost datagrams or elements that it explains.
    pub count: u64,
    /// Unit of `count`.
    pub unit: Unit,
    /// Origin of the evidence.
    pub source: EvidenceSource,
}

/// Unit of a count of evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Whole datagrams.
    Datagrams,
    /// Single elements.
    Elements,
}

/// Origin of evidence; displays with the kernel's own names, so that they can be searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EvidenceSource {
    /// A tally listed the numbers or indices.
    TallyRange,
    /// The publisher's running totals rose between two tallies by more than their ranges.
    TallyTotals {
        /// Number of the earlier tally.
        after: u64,
        /// Number of the later tally.
        before: u64,
    },
    /// The socket's drop counter rose between two datagrams read from it.
    SocketDrops {
        /// Rise of the counter.
        rise: u64,
        /// Unit of the counter: of trains, the count of datagrams is a bound.
        unit: DropUnit,
        /// Number of the stream's last datagram before the rise.
        after: u64,
        /// Number of its first datagram after the rise, if one arrived.
        before: Option<u64>,
    },
    /// The kernel was seen to free the datagram unread.
    DropEvent(KernelName),
    /// A datagram arrived unreadable, and its header gave its number.
    Malformed,
    /// A datagram arrived after its gap had been declared.
    LateArrival,
    /// The publisher's sample totals rose between two tallies by more than their ranges.
    SampleTotals,
    /// The ring's running totals, read after it had lapped the reader.
    RingTotals,
    /// The reliable reach gave the elements up on purpose.
    GivenUp(Cause),
    /// The elements were older than the reader's deadline when they came.
    TooOld,
}

impl EvidenceSource {
    /// Returns why a link gave elements up, if this is the evidence of it.
    #[must_use]
    pub const fn cause(&self) -> Option<Cause> {
        match self {
            Self::GivenUp(cause) => Some(*cause),
            _ => None,
        }
    }
}

/// Reason why the reliable reach gives elements up before it has brought them across.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The link was down.
    LinkDown,
    /// The link had no room for all.
    Bandwidth,
    /// A repair would have come too late.
    Repair,
    /// The queue before the link was full.
    Memory,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 4] = [Self::LinkDown, Self::Bandwidth, Self::Repair, Self::Memory];

    /// Returns the code in datagrams, messages between relays and records: the place among [`Cause::ALL`].
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the cause with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Returns the name, the same in all outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinkDown => "link_down",
            Self::Bandwidth => "bandwidth",
            Self::Repair => "repair",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::LinkDown => "link down",
            Self::Bandwidth => "not enough bandwidth",
            Self::Repair => "no time for a repair",
            Self::Memory => "queue full",
        })
    }
}

impl Gap {
    /// Creates a gap for an absence outside accounts: none of its positions counts as lost.
    ///
    /// # Panics
    /// If the kind is [`GapKind::Missing`], which is part of an account.
    #[must_use]
    pub fn outside_accounts(kind: GapKind, id: u64, positions: Range<u64>) -> Self {
        assert!(kind != GapKind::Missing, "what is missing is part of an account");
        Self {
            id,
            kind,
            positions,
            numbers: 0..0,
            lost: StageCounts::default(),
            inherited: HopCounts::default(),
            unexplained: 0,
            unsettled: 0,
            apportioned: false,
            evidence: Vec::new(),
        }
    }

    /// Creates a gap of missing elements without further evidence.
    #[must_use]
    pub fn unexplained(positions: Range<u64>) -> Self {
        let (id, unexplained) = (positions.start, positions.end - positions.start);
        let outside = Self::outside_accounts(GapKind::ReaderAbsent, id, positions);
        Self { kind: GapKind::Missing, unexplained, ..outside }
    }

    /// Checks a gap reported by another process: it holds elements, below [`MAX_POSITION`], and its rows add up to
    /// them, or to zero outside accounts; its losses on earlier hops are those at stage `source`.
    ///
    /// # Errors
    /// [`UnsoundGap`] with the reason.
    pub fn check(&self) -> Result<(), UnsoundGap> {
        let Range { start, end } = self.positions;
        if start >= end {
            return Err(UnsoundGap::Empty { start, end });
        }
        if end > MAX_POSITION {
            return Err(UnsoundGap::Beyond(end));
        }
        let Range { start, end } = self.numbers;
        if start > end {
            return Err(UnsoundGap::Numbers { start, end });
        }
        let expected = if self.kind == GapKind::Missing { self.len() } else { 0 };
        let lost = self.lost.nonzero().map(|(_, count)| count);
        let counted: u128 = lost.chain([self.unexplained, self.unsettled]).map(u128::from).sum();
        if counted != u128::from(expected) {
            return Err(UnsoundGap::Unbalanced { expected, counted });
        }
        let expected = self.lost[Stage::Source];
        self.inherited.check(expected).map_err(|counted| UnsoundGap::Inherited { expected, counted })
    }

    /// Returns whether every element has been attributed to a stage or to `unexplained`.
    #[must_use]
    pub const fn settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Returns the number of missing elements.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.positions.end - self.positions.start
    }

    /// Returns whether no element is missing, as when only a tally was lost.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the wait for evidence: unsettled elements become unexplained, on earlier hops too.
    pub fn give_up(&mut self) {
        self.unexplained += core::mem::take(&mut self.unsettled);
        self.inherited.give_up();
    }

    /// Returns the stage with the largest share, the earlier one of equals; `None` while unknown.
    #[must_use]
    pub fn leading_stage(&self) -> Option<Stage> {
        let (stage, count) = self.lost.nonzero().max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)))?;
        (count >= self.unexplained.max(self.unsettled)).then_some(stage)
    }
}

impl Unit {
    const fn one(self) -> &'static str {
        match self {
            Self::Datagrams => "datagram",
            Self::Elements => "element",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, count, unit, source } = self;
        write!(formatter, "{stage}: {}, ", counted(*count, unit.one()))?;
        match source {
            EvidenceSource::TallyRange => write!(formatter, "named by the publisher's tally"),
            EvidenceSource::TallyTotals { after, before } => {
                write!(formatter, "from the publisher's totals between tallies {after} and {before}")
            }
            EvidenceSource::SocketDrops { rise, unit, after, before } => {
                match before {
                    Some(before) => {
                        write!(formatter, "SO_RXQ_OVFL rose by {rise} between datagrams {after} and {before}")
                    }
                    None => write!(formatter, "SO_MEMINFO drops rose by {rise} behind datagram {after}"),
                }?;
                match unit {
                    DropUnit::Datagram => Ok(()),
                    DropUnit::Train => write!(formatter, ", each a train of up to {MAX_TRAIN}"),
                }
            }
            // A hole at a checkpoint is no kernel event.
            EvidenceSource::DropEvent(reason) if reason.as_str().starts_with("HOLE") => {
                write!(formatter, "{reason}")
            }
            EvidenceSource::DropEvent(reason) => write!(formatter, "kfree_skb {reason}"),
            EvidenceSource::Malformed => write!(formatter, "arrived but could not be decoded"),
            EvidenceSource::LateArrival => write!(formatter, "arrived after the gap was declared"),
            EvidenceSource::SampleTotals => write!(formatter, "from the publisher's sample totals"),
            EvidenceSource::RingTotals => write!(formatter, "the ring lapped this reader"),
            EvidenceSource::TooOld => write!(formatter, "older than this reader's deadline"),
            EvidenceSource::GivenUp(cause) => write!(formatter, "given up on the link: {cause}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HopShare, Outcome};

    fn gap(lost: StageCounts, unexplained: u64) -> Gap {
        Gap {
            id: 0,
            kind: GapKind::Missing,
            positions: 0..lost.total() + unexplained,
            numbers: 0..1,
            lost,
            inherited: HopCounts::default(),
            unexplained,
            unsettled: 0,
            apportioned: false,
            evidence: Vec::new(),
        }
    }

    #[test]
    fn losses_before_a_relay_are_those_at_stage_source_and_on_hops_that_can_be() {
        let mut lost = StageCounts::of(Stage::Source, 5);
        lost[Stage::Network] = 2;
        let share = |hop, count| HopShare { hop, outcome: Outcome::Unsettled, count };
        let check =
            |shares: &[HopShare]| Gap { inherited: shares.iter().copied().collect(), ..gap(lost, 1) }.check();
        assert_eq!(check(&[]), Ok(()), "a stream that was not relayed");
        assert_eq!(check(&[share(0, 3), share(7, 2)]), Ok(()), "the last hop there can be");
        let refused = |counted| Err(UnsoundGap::Inherited { expected: 5, counted });
        assert_eq!(check(&[share(0, 3), share(8, 2)]), refused(u128::MAX));
        assert_eq!(check(&[share(0, 3), share(7, 1)]), refused(4));
        assert_eq!(check(&[share(0, u64::MAX), share(1, 6)]), refused(u128::from(u64::MAX) + 6));
        let outside = Gap::outside_accounts(GapKind::ReaderAbsent, 0, 3..9);
        let outside = Gap { inherited: [share(0, 1)].into_iter().collect(), ..outside };
        assert_eq!(outside.check(), Err(UnsoundGap::Inherited { expected: 0, counted: 1 }));
    }

    #[test]
    fn giving_up_leaves_nothing_unsettled_on_any_hop() {
        let shares = [HopShare { hop: 1, outcome: Outcome::Unsettled, count: 4 }];
        let inherited = shares.into_iter().collect();
        let mut gap = Gap { inherited, unsettled: 2, ..gap(StageCounts::of(Stage::Source, 4), 0) };
        gap.positions.end += 2;
        gap.give_up();
        assert_eq!((gap.unexplained, gap.unsettled, gap.lost[Stage::Source]), (2, 0, 4));
        assert_eq!((gap.inherited.unexplained(), gap.inherited.unsettled()), (4, 0));
        assert_eq!(gap.check(), Ok(()));
    }

    #[test]
    fn what_the_link_gave_up_says_why() {
        let evidence = |cause| {
            let source = EvidenceSource::GivenUp(cause);
            Evidence { stage: Stage::Deadline, count: 2_900, unit: Unit::Elements, source }.to_string()
        };
        assert_eq!(
            Cause::ALL.map(evidence),
            [
                "deadline: 2900 elements, given up on the link: link down",
                "deadline: 2900 elements, given up on the link: not enough bandwidth",
                "deadline: 2900 elements, given up on the link: no time for a repair",
                "deadline: 2900 elements, given up on the link: queue full",
            ]
        );
    }

    #[test]
    fn the_largest_share_leads_and_the_earlier_stage_wins_a_tie() {
        let mut lost = StageCounts::of(Stage::Late, 5);
        lost[Stage::Injected] = 5;
        assert_eq!(gap(lost, 4).leading_stage(), Some(Stage::Injected));
        assert_eq!(gap(lost, 6).leading_stage(), None, "most of it is unexplained");
    }

    #[test]
    fn an_absence_has_positions_and_loses_none_of_them() {
        let gap = Gap::outside_accounts(GapKind::ReaderAbsent, 7, 10..20);
        assert_eq!((gap.id, gap.kind, gap.len()), (7, GapKind::ReaderAbsent, 10));
        assert!(gap.settled() && gap.lost.total() == 0 && gap.unexplained == 0);
        assert_eq!(gap.leading_stage(), None);
    }

    #[test]
    fn a_gap_that_holds_no_element_or_goes_backwards_is_not_sound() {
        let sound = gap(StageCounts::of(Stage::Late, 1), 0);
        assert_eq!(sound.check(), Ok(()), "the smallest there is");
        for positions in [5..5, Range { start: 6, end: 5 }, Range { start: u64::MAX, end: 0 }] {
            let Range { start, end } = positions;
            let lost = StageCounts::default();
            let gap = Gap { positions, lost, ..sound.clone() };
            assert_eq!(gap.check(), Err(UnsoundGap::Empty { start, end }));
        }
        let numbers = Range { start: 2, end: 1 };
        let gap = Gap { numbers, ..sound };
        assert_eq!(gap.check(), Err(UnsoundGap::Numbers { start: 2, end: 1 }));
    }

    #[test]
    fn a_sound_gap_lies_below_the_highest_position() {
        let sound = gap(StageCounts::of(Stage::Late, 1), 0);
        let last = Gap { positions: MAX_POSITION - 1..MAX_POSITION, ..sound.clone() };
        assert_eq!(last.check(), Ok(()));
        let beyond = Gap { positions: MAX_POSITION..MAX_POSITION + 1, ..sound };
        assert_eq!(beyond.check(), Err(UnsoundGap::Beyond(MAX_POSITION + 1)));
    }

    #[test]
    fn a_sound_gap_adds_up_and_outside_accounts_to_nothing() {
        let sound = gap(StageCounts::of(Stage::Late, 5), 4);
        assert_eq!(sound.check(), Ok(()));
        for (more, counted) in [(0, 9), (1, 10), (u64::MAX, 9 + u128::from(u64::MAX))] {
            let gap = Gap { unsettled: more, positions: 0..8, ..sound.clone() };
            assert_eq!(gap.check(), Err(UnsoundGap::Unbalanced { expected: 8, counted }));
        }
        let outside = Gap::outside_accounts(GapKind::ReaderAbsent, 0, 3..9);
        assert_eq!(outside.check(), Ok(()));
        let counted = Gap { unexplained: 6, ..outside };
        assert_eq!(counted.check(), Err(UnsoundGap::Unbalanced { expected: 0, counted: 6 }));
    }

    #[test]
    fn evidence_reads_with_the_kernels_own_names() {
        let evidence = Evidence {
            stage: Stage::ReceiverSocketBuffer,
            count: 37,
            unit: Unit::Datagrams,
            source: EvidenceSource::SocketDrops {
                rise: 40,
                unit: DropUnit::Datagram,
                after: 812,
                before: Some(850),
            },
        };
        assert_eq!(
            evidence.to_string(),
            "receiver_socket_buffer: 37 datagrams, SO_RXQ_OVFL rose by 40 between datagrams 812 and 850"
        );
        let source = EvidenceSource::SocketDrops { rise: 2, unit: DropUnit::Train, after: 812, before: None };
        assert_eq!(
            Evidence { source, ..evidence.clone() }.to_string(),
            "receiver_socket_buffer: 37 datagrams, SO_MEMINFO drops rose by 2 behind datagram 812, \
             each a train of up to 64"
        );
        let reason = KernelName::new("SOCKET_RCVBUFF @ udp_queue_rcv_one_skb");
        assert_eq!(
            Evidence { source: EvidenceSource::DropEvent(reason), ..evidence }.to_string(),
            "receiver_socket_buffer: 37 datagrams, kfree_skb SOCKET_RCVBUFF @ udp_queue_rcv_one_skb"
        );
    }
}
