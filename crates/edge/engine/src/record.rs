//! What the records of a ring mean: the flow of one stream on its way to local readers.
//!
//! A publisher's ring carries blocks and holes; a receiver's ring carries what the stream machine told. The
//! bytes are laid out by hand and without pointers, because the ring is made to move into shared memory.
//! Every record of the flow carries its epoch, so that a reader who was lapped knows where it is.

use std::ops::Range;

use ledger::{AccountState, Evidence, EvidenceSource, Gap, GapKind, NetworkRows, Stage, StageCounts, Unit};
use units::{Epoch, WallTime};
use wire::Clock;

use crate::bytes::{Cursor, Put};

/// The most gaps' evidence lines that a record carries; a gap rarely has more than two.
const MAX_EVIDENCE: usize = 32;

/// A record of the flow.
#[derive(Clone, PartialEq, Debug)]
pub enum Record<'a> {
    /// An account was opened.
    Began {
        /// The publisher's life.
        epoch: Epoch,
        /// Index of the first sample since joining.
        first_index: u64,
    },
    /// Elements.
    Block(BlockRecord<'a>),
    /// Elements that are missing at this place.
    Gap(Epoch, Gap),
    /// News of a gap told before.
    Settled(Epoch, Gap),
    /// An account was ended.
    Ended {
        /// The publisher's life.
        epoch: Epoch,
        /// How it ended.
        state: AccountState,
        /// The network book of the receiving socket; `None` where no network lies between.
        datagrams: Option<NetworkRows>,
    },
    /// Two publishers share the stream's name.
    TwoPublishers {
        /// The life that is listened to.
        winner: Epoch,
        /// The one that should have ended.
        other: Epoch,
    },
}

/// Elements of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRecord<'a> {
    /// The publisher's life.
    pub epoch: Epoch,
    /// Position of the first element.
    pub position: u64,
    /// When the sample that holds the first element was taken.
    pub t0: WallTime,
    /// The clock that `t0` was read from.
    pub clock: Clock,
    /// The elements, little-endian.
    pub payload: &'a [u8],
}

/// Says that a record is not one of these: the ring was written by something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record of kind {kind} in the ring cannot be read")]
pub struct UnreadableRecord {
    /// The kind as found.
    pub kind: u16,
}

/// The kinds of records, as the ring carries them.
pub mod kind {
    /// An account was opened.
    pub const BEGAN: u16 = 1;
    /// Elements.
    pub const BLOCK: u16 = 2;
    /// Missing elements.
    pub const GAP: u16 = 3;
    /// News of a gap.
    pub const SETTLED: u16 = 4;
    /// An account was ended.
    pub const ENDED: u16 = 5;
    /// Two publishers share the name.
    pub const TWO_PUBLISHERS: u16 = 6;
}

/// The size of a block record before its payload.
pub const BLOCK_HEAD_BYTES: usize = 40;

impl<'a> BlockRecord<'a> {
    /// Returns the head that goes before the payload.
    #[must_use]
    pub fn head(&self) -> [u8; BLOCK_HEAD_BYTES] {
        let mut head = [0; BLOCK_HEAD_BYTES];
        head[0..8].copy_from_slice(&self.epoch.start_ns.to_le_bytes());
        head[8..16].copy_from_slice(&self.epoch.life.to_le_bytes());
        head[16..24].copy_from_slice(&self.position.to_le_bytes());
        head[24..32].copy_from_slice(&self.t0.as_nanos().to_le_bytes());
        head[32] = self.clock.code();
        head
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, payload) = bytes.split_at_checked(BLOCK_HEAD_BYTES)?;
        let mut cursor = Cursor::new(head);
        Some(Self {
            epoch: cursor.epoch()?,
            position: cursor.u64()?,
            t0: WallTime::from_nanos(cursor.u64()?.cast_signed()),
            clock: Clock::from_code(cursor.u8()?),
            payload,
        })
    }
}

impl<'a> Record<'a> {
    /// Writes the record behind what `out` holds and returns its kind.
    pub fn encode(&self, out: &mut Vec<u8>) -> u16 {
        match self {
            Self::Began { epoch, first_index } => {
                out.epoch(*epoch);
                out.u64(*first_index);
                kind::BEGAN
            }
            Self::Block(block) => {
                out.extend_from_slice(&block.head());
                out.extend_from_slice(block.payload);
                kind::BLOCK
            }
            Self::Gap(epoch, gap) => {
                put_gap(out, *epoch, gap);
                kind::GAP
            }
            Self::Settled(epoch, gap) => {
                put_gap(out, *epoch, gap);
                kind::SETTLED
            }
            Self::Ended { epoch, state, datagrams } => {
                out.epoch(*epoch);
                out.push(state_code(*state));
                if let Some(rows) = datagrams {
                    put_rows(out, rows);
                }
                kind::ENDED
            }
            Self::TwoPublishers { winner, other } => {
                out.epoch(*winner);
                out.epoch(*other);
                kind::TWO_PUBLISHERS
            }
        }
    }

    /// Reads a record of `kind`.
    ///
    /// # Errors
    /// [`UnreadableRecord`] if the bytes are not such a record.
    pub fn decode(kind: u16, bytes: &'a [u8]) -> Result<Self, UnreadableRecord> {
        Self::read(kind, bytes).ok_or(UnreadableRecord { kind })
    }

    fn read(kind: u16, bytes: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        match kind {
            kind::BEGAN => Some(Self::Began { epoch: cursor.epoch()?, first_index: cursor.u64()? }),
            kind::BLOCK => BlockRecord::read(bytes).map(Self::Block),
            kind::GAP => Some(Self::Gap(cursor.epoch()?, read_gap(&mut cursor)?)),
            kind::SETTLED => Some(Self::Settled(cursor.epoch()?, read_gap(&mut cursor)?)),
            kind::ENDED => Some(Self::Ended {
                epoch: cursor.epoch()?,
                state: state_from(cursor.u8()?)?,
                datagrams: if cursor.is_empty() { None } else { Some(read_rows(&mut cursor)?) },
            }),
            kind::TWO_PUBLISHERS => {
                Some(Self::TwoPublishers { winner: cursor.epoch()?, other: cursor.epoch()? })
            }
            _ => None,
        }
    }

    /// Returns the life that the record belongs to.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        match self {
            Self::Began { epoch, .. }
            | Self::Gap(epoch, _)
            | Self::Settled(epoch, _)
            | Self::Ended { epoch, .. }
            | Self::TwoPublishers { winner: epoch, .. } => *epoch,
            Self::Block(block) => block.epoch,
        }
    }
}

pub(crate) fn put_gap(out: &mut Vec<u8>, epoch: Epoch, gap: &Gap) {
    out.epoch(epoch);
    out.u64(gap.id);
    out.push(match gap.kind {
        GapKind::Missing => 0,
        GapKind::PublisherAbsent => 1,
        GapKind::ReaderAbsent => 2,
    });
    out.range(&gap.positions);
    out.range(&gap.numbers);
    put_counts(out, &gap.lost);
    out.u64(gap.unexplained);
    out.u64(gap.unsettled);
    out.push(u8::from(gap.apportioned));
    let evidence = &gap.evidence[..gap.evidence.len().min(MAX_EVIDENCE)];
    out.push(u8::try_from(evidence.len()).expect("bounded just above"));
    for line in evidence {
        put_evidence(out, line);
    }
}

pub(crate) fn read_gap(cursor: &mut Cursor<'_>) -> Option<Gap> {
    let id = cursor.u64()?;
    let kind = match cursor.u8()? {
        0 => GapKind::Missing,
        1 => GapKind::PublisherAbsent,
        2 => GapKind::ReaderAbsent,
        _ => return None,
    };
    let (positions, numbers): (Range<u64>, Range<u64>) = (cursor.range()?, cursor.range()?);
    let lost = read_counts(cursor)?;
    let (unexplained, unsettled) = (cursor.u64()?, cursor.u64()?);
    let apportioned = cursor.u8()? != 0;
    let lines = cursor.u8()?;
    let evidence = (0..lines).map(|_| read_evidence(cursor)).collect::<Option<_>>()?;
    Some(Gap { id, kind, positions, numbers, lost, unexplained, unsettled, apportioned, evidence })
}

fn put_evidence(out: &mut Vec<u8>, line: &Evidence) {
    out.push(line.stage.code());
    out.u64(line.count);
    out.push(u8::from(line.unit == Unit::Elements));
    let (code, numbers) = match line.source {
        EvidenceSource::TallyTotals { after, before } => (1, [after, before, 0]),
        EvidenceSource::SocketDrops { rise, after, before: Some(before) } => (2, [rise, after, before]),
        EvidenceSource::SocketDrops { rise, after, before: None } => (3, [rise, after, 0]),
        EvidenceSource::Malformed => (4, [0; 3]),
        EvidenceSource::LateArrival => (5, [0; 3]),
        EvidenceSource::SampleTotals => (6, [0; 3]),
        EvidenceSource::RingTotals => (7, [0; 3]),
        // Later sources are told as what they are most like until a reader knows them.
        _ => (0, [0; 3]),
    };
    out.push(code);
    numbers.into_iter().for_each(|number| out.u64(number));
}

fn read_evidence(cursor: &mut Cursor<'_>) -> Option<Evidence> {
    let stage = Stage::from_code(cursor.u8()?)?;
    let count = cursor.u64()?;
    let unit = if cursor.u8()? == 0 { Unit::Datagrams } else { Unit::Elements };
    let code = cursor.u8()?;
    let [a, b, c] = [cursor.u64()?, cursor.u64()?, cursor.u64()?];
    let source = match code {
        0 => EvidenceSource::TallyRange,
        1 => EvidenceSource::TallyTotals { after: a, before: b },
        2 => EvidenceSource::SocketDrops { rise: a, after: b, before: Some(c) },
        3 => EvidenceSource::SocketDrops { rise: a, after: b, before: None },
        4 => EvidenceSource::Malformed,
        5 => EvidenceSource::LateArrival,
        6 => EvidenceSource::SampleTotals,
        7 => EvidenceSource::RingTotals,
        _ => return None,
    };
    Some(Evidence { stage, count, unit, source })
}

fn put_counts(out: &mut Vec<u8>, counts: &StageCounts) {
    out.push(u8::try_from(counts.nonzero().count()).expect("there are 25 stages"));
    for (stage, count) in counts.nonzero() {
        out.push(stage.code());
        out.u64(count);
    }
}

fn read_counts(cursor: &mut Cursor<'_>) -> Option<StageCounts> {
    let mut counts = StageCounts::default();
    for _ in 0..cursor.u8()? {
        let stage = Stage::from_code(cursor.u8()?)?;
        counts[stage] = cursor.u64()?;
    }
    Some(counts)
}

fn put_rows(out: &mut Vec<u8>, rows: &NetworkRows) {
    for number in [rows.first, rows.next, rows.received, rows.unexplained, rows.unsettled, rows.in_flight] {
        out.u64(number);
    }
    out.u64(rows.duplicates);
    out.u64(rows.before_join);
    put_counts(out, &rows.lost);
}

fn read_rows(cursor: &mut Cursor<'_>) -> Option<NetworkRows> {
    Some(NetworkRows {
        first: cursor.u64()?,
        next: cursor.u64()?,
        received: cursor.u64()?,
        unexplained: cursor.u64()?,
        unsettled: cursor.u64()?,
        in_flight: cursor.u64()?,
        duplicates: cursor.u64()?,
        before_join: cursor.u64()?,
        lost: read_counts(cursor)?,
    })
}

const STATES: [AccountState; 4] =
    [AccountState::Open, AccountState::Closed, AccountState::Cut, AccountState::Unconfirmed];

fn state_code(state: AccountState) -> u8 {
    let index = STATES.iter().position(|known| *known == state).expect("every state is listed");
    u8::try_from(index).expect("there are four states")
}

fn state_from(code: u8) -> Option<AccountState> {
    STATES.get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { start_ns: 3, life: 4 };

    fn gap() -> Gap {
        let mut lost = StageCounts::of(Stage::ReceiverSocketBuffer, 7);
        lost[Stage::Late] = 2;
        let sources = [
            EvidenceSource::TallyRange,
            EvidenceSource::TallyTotals { after: 1, before: 9 },
            EvidenceSource::SocketDrops { rise: 4, after: 2, before: Some(8) },
            EvidenceSource::SocketDrops { rise: 4, after: 2, before: None },
            EvidenceSource::Malformed,
            EvidenceSource::LateArrival,
            EvidenceSource::SampleTotals,
            EvidenceSource::RingTotals,
        ];
        let line = |source| Evidence { stage: Stage::Late, count: 2, unit: Unit::Elements, source };
        Gap {
            id: 5,
            kind: GapKind::ReaderAbsent,
            positions: 10..20,
            numbers: 3..4,
            lost,
            unexplained: 1,
            unsettled: 0,
            apportioned: true,
            evidence: sources.into_iter().map(line).collect(),
        }
    }

    fn records(payload: &[u8]) -> Vec<Record<'_>> {
        let datagrams = NetworkRows {
            first: 1,
            next: 20,
            received: 17,
            lost: StageCounts::of(Stage::Injected, 2),
            duplicates: 3,
            ..NetworkRows::default()
        };
        let (t0, clock) = (WallTime::from_nanos(-5), Clock::Recorded);
        vec![
            Record::Began { epoch: EPOCH, first_index: 12 },
            Record::Block(BlockRecord { epoch: EPOCH, position: 99, t0, clock, payload }),
            Record::Gap(EPOCH, gap()),
            Record::Settled(EPOCH, gap()),
            Record::Ended { epoch: EPOCH, state: AccountState::Cut, datagrams: Some(datagrams) },
            Record::Ended { epoch: EPOCH, state: AccountState::Closed, datagrams: None },
            Record::TwoPublishers { winner: EPOCH, other: Epoch { start_ns: 1, life: 1 } },
        ]
    }

    #[test]
    fn every_record_reads_back_as_written() {
        for record in records(&[1, 2, 3]) {
            let mut bytes = Vec::new();
            let kind = record.encode(&mut bytes);
            assert_eq!(Record::decode(kind, &bytes), Ok(record));
        }
    }

    #[test]
    fn a_record_cut_short_is_refused_at_every_length() {
        for record in records(&[]) {
            let mut bytes = Vec::new();
            let kind = record.encode(&mut bytes);
            // An end without a network's book is a whole record.
            let whole = |len: usize| kind == kind::ENDED && len == 17;
            for len in (0..bytes.len()).filter(|len| !whole(*len)) {
                assert_eq!(Record::decode(kind, &bytes[..len]), Err(UnreadableRecord { kind }));
            }
        }
    }

    #[test]
    fn a_kind_that_nobody_wrote_is_refused() {
        assert_eq!(Record::decode(99, &[0; 100]), Err(UnreadableRecord { kind: 99 }));
    }
}
