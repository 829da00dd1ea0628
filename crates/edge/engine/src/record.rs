//! Records of a ring: one stream as it is passed to local readers.
//!
//! A publisher's ring carries blocks and holes; a receiver's ring carries the events of the stream
//! machine. The byte layout is explicit and without pointers, because rings are also in shared
//! memory. Every record carries its epoch, so that a lapped reader knows its place.
//!
//! A process that may write a ring's file can write anything: the content that
//! [`Record::decode_of`] accepts can be added up in 64 bits and fits the stream's schema. Whether
//! it follows from the record before is checked by the reader's account.

mod relayed;

use std::ops::Range;

use cast::receive::Block;
use ledger::{
    AccountState, DropUnit, Evidence, EvidenceSource, Gap, GapKind, HopCounts, KernelName, MAX_POSITION,
    NetworkRows, Stage, StageCounts, Unit, UnsoundGap,
};
use sample::Schema;
use units::{Epoch, Instant, WallTime};
use wire::{Clock, MAX_TALLY_STATEMENT_BYTES, Origin, UpstreamHop};

use crate::bytes::{Cursor, Put};
use relayed::{
    check_origin, check_upstream, put_gap_record, put_origin, put_upstream, read_gap_record, read_origin,
    read_upstream,
};

/// Maximum number of evidence entries of a gap that a record carries; a gap rarely has more than
/// two.
const MAX_EVIDENCE: usize = 32;

/// A record of a stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Record<'a> {
    /// An account was opened.
    Began {
        /// The publisher's epoch.
        epoch: Epoch,
        /// Index of the first sample since joining.
        first_index: u64,
        /// Origin of the samples, of a relayed stream.
        origin: Option<Origin>,
    },
    /// Elements of the stream.
    Block(BlockRecord<'a>),
    /// Elements that are missing at this position.
    Gap(Epoch, Gap),
    /// Update of a gap recorded before.
    Settled(Epoch, Gap),
    /// An account was ended.
    Ended {
        /// The publisher's epoch.
        epoch: Epoch,
        /// State in which it ended.
        state: AccountState,
        /// Network counters of the receiving socket; `None` where there is no network in between.
        datagrams: Option<NetworkRows>,
    },
    /// Two publishers share the stream's name.
    TwoPublishers {
        /// The current epoch.
        winner: Epoch,
        /// The epoch that should have ended.
        other: Epoch,
    },
    /// The publisher's signed statement about its samples, as it is.
    Statement(Epoch, &'a [u8]),
    /// The hops before a relayed stream's own, with their losses since the origin epoch began.
    Upstream(Epoch, Vec<UpstreamHop>),
    /// Everything that had arrived at a moment is in the ring: a sign of a stream of which no samples arrive.
    Horizon {
        /// The publisher's epoch.
        epoch: Epoch,
        /// Position of the next element.
        position: u64,
        /// The moment, by the host's monotonic clock.
        at: Instant,
        /// True if the publisher had nothing more.
        is_idle: bool,
    },
}

/// Elements of a stream in the memory of their record.
pub type BlockRecord<'a> = Block<&'a [u8]>;

/// Error of a record that no writer of this version has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record of kind {kind} in the ring cannot be read: {fault}")]
pub struct UnreadableRecord {
    /// The kind as found in the ring.
    pub kind: u16,
    /// Fault of the record.
    #[source]
    pub fault: Fault,
}

/// Fault of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Its kind or a code in it is unknown, or it has too few bytes.
    #[error("it is truncated, or contains an unknown code")]
    Layout,
    /// It exceeds the range of an account.
    #[error("position, index or total {0} is beyond {MAX_POSITION}")]
    Beyond(u64),
    /// Its gap is not valid.
    #[error(transparent)]
    Gap(#[from] UnsoundGap),
    /// Its gap is outside any account; only readers, which know their accounts, find such gaps.
    #[error("a gap outside any account is invalid in a ring")]
    OutsideAccounts,
    /// It reports the end of an account with the state `open`.
    #[error("an ended account has the state open")]
    StillOpen,
    /// The sum of its network counters exceeds 64 bits.
    #[error("the sum of its datagrams exceeds 64 bits")]
    Datagrams,
    /// Its payload is empty, or contains parts of several samples.
    #[error("{size_bytes} bytes at position {position} are neither whole samples nor a piece of one")]
    Piece {
        /// Position of the first element.
        position: u64,
        /// The size of its payload.
        size_bytes: usize,
    },
}

/// The kinds of records, as the ring carries them.
pub mod kind {
    /// An account was opened.
    pub const BEGAN: u16 = 1;
    /// Elements of the stream.
    pub const BLOCK: u16 = 2;
    /// Missing elements.
    pub const GAP: u16 = 3;
    /// Update of a gap.
    pub const SETTLED: u16 = 4;
    /// An account was ended.
    pub const ENDED: u16 = 5;
    /// Two publishers share the stream's name.
    pub const TWO_PUBLISHERS: u16 = 6;
    /// The publisher's signed statement.
    pub const STATEMENT: u16 = 7;
    /// The hops before a relayed stream's own.
    pub const UPSTREAM: u16 = 8;
    /// Position of a stream that sends no samples.
    pub const HORIZON: u16 = 9;

    /// Returns whether records of this kind are of a later version: readers pass over them.
    ///
    /// A later version gives a new kind only to records that carry no elements and end no account, so that whoever
    /// skips them keeps a right account. A change beyond that is a change of the ring's version.
    #[must_use]
    pub const fn is_later(kind: u16) -> bool {
        kind > HORIZON
    }
}

/// The size of a block record before its payload.
pub const BLOCK_HEAD_BYTES: usize = 40;

/// Returns the head of a block, which precedes its payload in the record.
#[must_use]
pub fn block_head<P>(block: &Block<P>) -> [u8; BLOCK_HEAD_BYTES] {
    let mut head = [0; BLOCK_HEAD_BYTES];
    head[0..8].copy_from_slice(&block.epoch.start_ns.to_le_bytes());
    head[8..16].copy_from_slice(&block.epoch.incarnation.to_le_bytes());
    head[16..24].copy_from_slice(&block.position.to_le_bytes());
    head[24..32].copy_from_slice(&block.t0.as_nanos().to_le_bytes());
    head[32] = block.clock.code();
    head[33..40].copy_from_slice(&born_bytes(block.born));
    head
}

/// Returns a birth as the rest of a block's head has it: in microseconds of the host's monotonic clock, 0 if it is not
/// known. Earlier versions leave it 0, and do not read it.
fn born_bytes(born: Option<Instant>) -> [u8; 7] {
    // Rounded down: samples are never taken for younger than they are.
    let born_us = born.map_or(0, |born| born.as_nanos() / 1_000);
    let [bytes @ .., _] = born_us.to_le_bytes();
    bytes
}

fn born_of(bytes: &[u8]) -> Option<Instant> {
    let mut born_us = [0; 8];
    born_us[..7].copy_from_slice(bytes.get(..7)?);
    match u64::from_le_bytes(born_us) {
        0 => None,
        // One beyond the clock's range was not written by a clock.
        born_us => born_us.checked_mul(1_000).map(Instant::from_nanos),
    }
}

/// Reads the head of a block of whole samples whose payload of `payload_bytes` bytes stays in
/// place; `None` for any other block, which must be decoded and checked as a whole.
#[must_use]
pub fn whole_block(
    schema: &Schema,
    head: [u8; BLOCK_HEAD_BYTES],
    payload_bytes: usize,
) -> Option<BlockRecord<'static>> {
    let block = read_block(&head).map(|block| BlockRecord { payload: &[], ..block })?;
    let per_sample = u64::from(schema.elements_per_sample());
    let end = block.position.saturating_add(payload_bytes as u64);
    let is_whole = payload_bytes > 0
        && payload_bytes.is_multiple_of(schema.sample_bytes())
        && block.position.is_multiple_of(per_sample);
    (is_whole && within(end).is_ok()).then_some(block)
}

fn read_block(bytes: &[u8]) -> Option<BlockRecord<'_>> {
    let (head, payload) = bytes.split_at_checked(BLOCK_HEAD_BYTES)?;
    let mut cursor = Cursor::new(head);
    Some(BlockRecord {
        epoch: cursor.epoch()?,
        position: cursor.u64()?,
        t0: WallTime::from_nanos(cursor.u64()?.cast_signed()),
        clock: Clock::from_code(cursor.u8()?),
        born: born_of(&head[33..]),
        payload,
    })
}

fn check_block(block: &BlockRecord<'_>, per_sample: u64, element_bytes: usize) -> Result<(), Fault> {
    let BlockRecord { position, payload, .. } = *block;
    let elements = (payload.len() / element_bytes) as u64;
    let offset = position % per_sample;
    let whole = offset == 0 && elements.is_multiple_of(per_sample);
    let piece = offset + elements <= per_sample;
    if elements == 0 || !payload.len().is_multiple_of(element_bytes) || !(whole || piece) {
        return Err(Fault::Piece { position, size_bytes: payload.len() });
    }
    Ok(())
}

impl<'a> Record<'a> {
    /// Appends the record to `out` and returns its kind.
    pub fn encode(&self, out: &mut Vec<u8>) -> u16 {
        match self {
            Self::Began { epoch, first_index, origin } => {
                out.epoch(*epoch);
                out.u64(*first_index);
                origin.iter().for_each(|origin| put_origin(out, origin));
                kind::BEGAN
            }
            Self::Block(block) => {
                out.extend_from_slice(&block_head(block));
                out.extend_from_slice(block.payload);
                kind::BLOCK
            }
            Self::Gap(epoch, gap) => {
                put_gap_record(out, *epoch, gap);
                kind::GAP
            }
            Self::Settled(epoch, gap) => {
                put_gap_record(out, *epoch, gap);
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
            Self::Statement(epoch, bytes) => {
                out.epoch(*epoch);
                out.u64(bytes.len() as u64);
                out.extend_from_slice(bytes);
                kind::STATEMENT
            }
            Self::Upstream(epoch, hops) => {
                out.epoch(*epoch);
                put_upstream(out, hops);
                kind::UPSTREAM
            }
            Self::Horizon { epoch, position, at, is_idle } => {
                out.epoch(*epoch);
                out.u64(*position);
                out.u64(at.as_nanos());
                out.push(u8::from(*is_idle));
                kind::HORIZON
            }
        }
    }

    /// Decodes a record of `kind`; its positions are valid, but it is not checked against the
    /// stream's schema.
    ///
    /// # Errors
    /// [`UnreadableRecord`] if the bytes are not a valid record.
    pub fn decode(kind: u16, bytes: &'a [u8]) -> Result<Self, UnreadableRecord> {
        let record = Self::read(kind, bytes).ok_or(Fault::Layout);
        record
            .and_then(|record| record.check().map(|()| record))
            .map_err(|fault| UnreadableRecord { kind, fault })
    }

    /// Decodes a record of a stream that came with these running totals.
    ///
    /// Positions computed from it by the schema, and their sums with the totals, stay within 64 bits; its elements
    /// are whole samples or a piece of one.
    ///
    /// # Errors
    /// [`UnreadableRecord`] if the bytes are not a valid record.
    pub fn decode_of(
        schema: &Schema,
        kind: u16,
        totals: [u64; 2],
        bytes: &'a [u8],
    ) -> Result<Self, UnreadableRecord> {
        let record = Self::decode(kind, bytes)?;
        record.check_of(schema, totals).map(|()| record).map_err(|fault| UnreadableRecord { kind, fault })
    }

    /// Checks everything that does not depend on the schema.
    fn check(&self) -> Result<(), Fault> {
        match self {
            Self::Began { epoch, first_index, origin } => {
                within(*first_index)?;
                origin.map_or(Ok(()), |origin| check_origin(&origin, *epoch))
            }
            // An element has at least one byte.
            Self::Block(block) => within(block.position.saturating_add(block.payload.len() as u64)),
            Self::Gap(_, gap) | Self::Settled(_, gap) => check_gap(gap),
            Self::Ended { state: AccountState::Open, .. } => Err(Fault::StillOpen),
            Self::Ended { datagrams: Some(rows), .. } => check_rows(rows),
            Self::Statement(_, bytes) if bytes.len() > MAX_TALLY_STATEMENT_BYTES => Err(Fault::Layout),
            Self::Upstream(_, hops) => check_upstream(hops),
            Self::Horizon { position, .. } => within(*position),
            Self::Ended { datagrams: None, .. } | Self::TwoPublishers { .. } | Self::Statement(..) => Ok(()),
        }
    }

    fn check_of(&self, schema: &Schema, totals: [u64; 2]) -> Result<(), Fault> {
        totals.into_iter().try_for_each(within)?;
        let per_sample = u64::from(schema.elements_per_sample());
        match self {
            Self::Began { first_index, .. } => within(first_index.saturating_mul(per_sample)),
            Self::Block(block) => check_block(block, per_sample, schema.dtype.size_bytes()),
            Self::Gap(..)
            | Self::Settled(..)
            | Self::Ended { .. }
            | Self::TwoPublishers { .. }
            | Self::Statement(..)
            | Self::Upstream(..)
            | Self::Horizon { .. } => Ok(()),
        }
    }

    fn read(kind: u16, bytes: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        match kind {
            kind::BEGAN => Some(Self::Began {
                epoch: cursor.epoch()?,
                first_index: cursor.u64()?,
                origin: if cursor.is_empty() { None } else { Some(read_origin(&mut cursor)?) },
            }),
            kind::BLOCK => read_block(bytes).map(Self::Block),
            kind::GAP => Some(Self::Gap(cursor.epoch()?, read_gap_record(&mut cursor)?)),
            kind::SETTLED => Some(Self::Settled(cursor.epoch()?, read_gap_record(&mut cursor)?)),
            kind::ENDED => Some(Self::Ended {
                epoch: cursor.epoch()?,
                state: state_from(cursor.u8()?)?,
                datagrams: if cursor.is_empty() { None } else { Some(read_rows(&mut cursor)?) },
            }),
            kind::TWO_PUBLISHERS => {
                Some(Self::TwoPublishers { winner: cursor.epoch()?, other: cursor.epoch()? })
            }
            kind::STATEMENT => {
                let (epoch, size) = (cursor.epoch()?, cursor.u64()?);
                let statement = bytes.get(24..).filter(|statement| statement.len() as u64 == size)?;
                Some(Self::Statement(epoch, statement))
            }
            kind::UPSTREAM => Some(Self::Upstream(cursor.epoch()?, read_upstream(&mut cursor)?)),
            kind::HORIZON => Some(Self::Horizon {
                epoch: cursor.epoch()?,
                position: cursor.u64()?,
                at: Instant::from_nanos(cursor.u64()?),
                is_idle: cursor.u8()? != 0,
            }),
            _ => None,
        }
    }

    /// Returns the epoch that the record belongs to.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        match self {
            Self::Began { epoch, .. }
            | Self::Gap(epoch, _)
            | Self::Settled(epoch, _)
            | Self::Ended { epoch, .. }
            | Self::Horizon { epoch, .. }
            | Self::TwoPublishers { winner: epoch, .. }
            | Self::Statement(epoch, _)
            | Self::Upstream(epoch, _) => *epoch,
            Self::Block(block) => block.epoch,
        }
    }
}

/// Encodes a gap without what it inherited, nor evidence that readers of before relays do not know.
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
    let known = |line: &&Evidence| !matches!(line.source, EvidenceSource::GivenUp(_));
    let evidence = || gap.evidence.iter().filter(known).take(MAX_EVIDENCE);
    out.push(u8::try_from(evidence().count()).expect("bounded just above"));
    evidence().for_each(|line| put_evidence(out, line));
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
    let lines = cursor.u8().filter(|lines| usize::from(*lines) <= MAX_EVIDENCE)?;
    let evidence = (0..lines).map(|_| read_evidence(cursor)).collect::<Option<_>>()?;
    let inherited = HopCounts::default();
    Some(Gap { id, kind, positions, numbers, lost, inherited, unexplained, unsettled, apportioned, evidence })
}

fn put_evidence(out: &mut Vec<u8>, line: &Evidence) {
    out.push(line.stage.code());
    out.u64(line.count);
    out.push(u8::from(line.unit == Unit::Elements));
    let (code, numbers) = match line.source {
        EvidenceSource::TallyTotals { after, before } => (1, [after, before, 0]),
        EvidenceSource::SocketDrops { rise, unit, after, before } => {
            let code = match (unit, before) {
                (DropUnit::Datagram, Some(_)) => 2,
                (DropUnit::Datagram, None) => 3,
                (DropUnit::Train, Some(_)) => 8,
                (DropUnit::Train, None) => 9,
            };
            (code, [rise, after, before.unwrap_or(0)])
        }
        EvidenceSource::Malformed => (4, [0; 3]),
        EvidenceSource::LateArrival => (5, [0; 3]),
        EvidenceSource::SampleTotals => (6, [0; 3]),
        EvidenceSource::RingTotals => (7, [0; 3]),
        EvidenceSource::DropEvent(_) => (10, [0; 3]),
        // Later sources are encoded as the most similar one until readers support them.
        _ => (0, [0; 3]),
    };
    out.push(code);
    numbers.into_iter().for_each(|number| out.u64(number));
    if let EvidenceSource::DropEvent(reason) = line.source {
        out.text(reason.as_str());
    }
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
        2 | 3 | 8 | 9 => {
            let unit = if code < 8 { DropUnit::Datagram } else { DropUnit::Train };
            let before = code.is_multiple_of(2).then_some(c);
            EvidenceSource::SocketDrops { rise: a, unit, after: b, before }
        }
        4 => EvidenceSource::Malformed,
        5 => EvidenceSource::LateArrival,
        6 => EvidenceSource::SampleTotals,
        7 => EvidenceSource::RingTotals,
        10 => EvidenceSource::DropEvent(KernelName::new(cursor.text()?)),
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

/// Decodes counts: every stage at most once, in path order, none of them zero.
fn read_counts(cursor: &mut Cursor<'_>) -> Option<StageCounts> {
    let mut counts = StageCounts::default();
    let mut next_code = 0;
    for _ in 0..cursor.u8()? {
        let code = cursor.u8().filter(|code| *code >= next_code)?;
        counts[Stage::from_code(code)?] = cursor.u64().filter(|count| *count > 0)?;
        next_code = code + 1;
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

/// Checks that a position, an index or a total is within the range of an account.
const fn within(place: u64) -> Result<(), Fault> {
    if place > MAX_POSITION { Err(Fault::Beyond(place)) } else { Ok(()) }
}

/// Checks that a gap is valid and concerns missing elements.
pub(crate) fn check_gap(gap: &Gap) -> Result<(), Fault> {
    gap.check()?;
    if gap.kind == GapKind::Missing { Ok(()) } else { Err(Fault::OutsideAccounts) }
}

/// Checks that both sides of the law can be computed in 64 bits; whether they agree is checked by
/// the account.
fn check_rows(rows: &NetworkRows) -> Result<(), Fault> {
    let lost = rows.lost.nonzero().map(|(_, count)| count);
    let mut counts = lost.chain([rows.received, rows.unexplained, rows.unsettled, rows.in_flight]);
    let sum = counts.try_fold(0, u64::checked_add);
    if rows.first > rows.next || sum.is_none() { Err(Fault::Datagrams) } else { Ok(()) }
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
    use std::num::NonZeroU8;

    use ledger::{Cause, HopShare, Outcome};
    use sample::{Channel, Dtype};
    use units::{Random, SampleRate};

    const EPOCH: Epoch = Epoch { start_ns: 3, incarnation: 4 };

    fn gap() -> Gap {
        let mut lost = StageCounts::of(Stage::ReceiverSocketBuffer, 7);
        lost[Stage::Late] = 2;
        let sources = [
            EvidenceSource::TallyRange,
            EvidenceSource::TallyTotals { after: 1, before: 9 },
            EvidenceSource::SocketDrops { rise: 4, unit: DropUnit::Datagram, after: 2, before: Some(8) },
            EvidenceSource::SocketDrops { rise: 4, unit: DropUnit::Datagram, after: 2, before: None },
            EvidenceSource::SocketDrops { rise: 4, unit: DropUnit::Train, after: 2, before: Some(8) },
            EvidenceSource::SocketDrops { rise: 4, unit: DropUnit::Train, after: 2, before: None },
            EvidenceSource::Malformed,
            EvidenceSource::LateArrival,
            EvidenceSource::SampleTotals,
            EvidenceSource::RingTotals,
            EvidenceSource::DropEvent(KernelName::new("NOT_SPECIFIED @ ip_rcv_finish_core")),
        ];
        let line = |source| Evidence { stage: Stage::Late, count: 2, unit: Unit::Elements, source };
        Gap {
            id: 5,
            kind: GapKind::Missing,
            positions: 10..20,
            numbers: 3..4,
            lost,
            inherited: HopCounts::default(),
            unexplained: 1,
            unsettled: 0,
            apportioned: true,
            evidence: sources.into_iter().map(line).collect(),
        }
    }

    fn origin() -> Origin {
        Origin { epoch: Epoch { start_ns: 1, incarnation: 2 }, hop: NonZeroU8::new(2).unwrap() }
    }

    fn upstream(station: &str, unexplained: u64) -> UpstreamHop {
        let lost = StageCounts::of(Stage::Network, 9);
        UpstreamHop { station: station.to_owned(), lost, unexplained }
    }

    /// A gap of a relayed stream: ten elements, of which seven were lost before.
    fn inherited() -> Gap {
        let mut lost = StageCounts::of(Stage::Source, 7);
        lost[Stage::Network] = 3;
        let share = |hop, outcome, count| HopShare { hop, outcome, count };
        let shares = [
            share(0, Outcome::Lost(Stage::ReaderLag), 2),
            share(0, Outcome::Unexplained, 1),
            share(1, Outcome::Lost(Stage::Deadline), 3),
            share(1, Outcome::Unsettled, 1),
        ];
        let line = |cause| Evidence {
            stage: Stage::Deadline,
            count: 3,
            unit: Unit::Elements,
            source: EvidenceSource::GivenUp(cause),
        };
        Gap {
            lost,
            unexplained: 0,
            inherited: shares.into_iter().collect(),
            evidence: Cause::ALL.map(line).to_vec(),
            ..gap()
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
            Record::Began { epoch: EPOCH, first_index: 12, origin: None },
            Record::Began { epoch: EPOCH, first_index: 12, origin: Some(origin()) },
            Record::Block(BlockRecord {
                epoch: EPOCH,
                position: 99,
                t0,
                clock,
                born: Some(Instant::from_nanos(7_000)),
                payload,
            }),
            Record::Gap(EPOCH, gap()),
            Record::Settled(EPOCH, gap()),
            Record::Gap(EPOCH, inherited()),
            Record::Ended { epoch: EPOCH, state: AccountState::Cut, datagrams: Some(datagrams) },
            Record::Ended { epoch: EPOCH, state: AccountState::Closed, datagrams: None },
            Record::TwoPublishers { winner: EPOCH, other: Epoch { start_ns: 1, incarnation: 1 } },
            Record::Statement(EPOCH, &[7; MAX_TALLY_STATEMENT_BYTES]),
            Record::Upstream(EPOCH, vec![upstream("rig", 4), upstream("gate", 0)]),
            Record::Horizon { epoch: EPOCH, position: 12, at: Instant::from_nanos(5), is_idle: true },
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
            // An end without network counters is a complete record, and so is one without its end for earlier readers.
            let whole = |len: usize| match &record {
                Record::Ended { .. } => len == 17,
                Record::Began { .. } => len == 24,
                Record::Gap(_, gap) => len == gap_bytes(gap),
                _ => false,
            };
            for len in (0..bytes.len()).filter(|len| !whole(*len)) {
                let fault = Fault::Layout;
                assert_eq!(Record::decode(kind, &bytes[..len]), Err(UnreadableRecord { kind, fault }));
            }
        }
    }

    /// Returns the size of a gap's record without the part that only relayed streams have.
    fn gap_bytes(gap: &Gap) -> usize {
        let mut bytes = Vec::new();
        put_gap(&mut bytes, EPOCH, gap);
        bytes.len()
    }

    #[test]
    fn an_earlier_reader_reads_a_relayed_gap_as_one_of_the_source() {
        let mut bytes = Vec::new();
        let kind = Record::Gap(EPOCH, inherited()).encode(&mut bytes);
        let of_before = &bytes[..gap_bytes(&inherited())];
        let read = Gap { inherited: HopCounts::default(), evidence: Vec::new(), ..inherited() };
        assert_eq!(Record::decode(kind, of_before), Ok(Record::Gap(EPOCH, read)));
    }

    #[test]
    fn what_a_gap_inherited_is_what_it_lost_at_the_source() {
        let mut gap = inherited();
        gap.inherited.add(HopShare { hop: 0, outcome: Outcome::Unexplained, count: 1 });
        let expected = UnsoundGap::Inherited { expected: 7, counted: 8 };
        assert_eq!(fault(&Record::Gap(EPOCH, gap.clone())), Some(Fault::Gap(expected)));
        assert_eq!(fault(&Record::Settled(EPOCH, gap)), Some(Fault::Gap(expected)));
    }

    #[test]
    fn an_origin_is_another_epoch_on_a_hop_that_can_be() {
        let began = |epoch, hop| {
            let origin = Origin { epoch, hop: NonZeroU8::new(hop).unwrap() };
            fault(&Record::Began { epoch: EPOCH, first_index: 0, origin: Some(origin) })
        };
        assert_eq!(began(origin().epoch, 8), None);
        assert_eq!(began(origin().epoch, 9), Some(Fault::Layout));
        assert_eq!(began(EPOCH, 2), Some(Fault::Layout));
    }

    #[test]
    fn hops_before_have_names_that_can_be_shown_and_losses_that_can_be_added_up() {
        let told = |hops| fault(&Record::Upstream(EPOCH, hops));
        assert_eq!(told(vec![upstream("rig", u64::MAX - 9)]), None);
        assert_eq!(told(vec![upstream("rig", u64::MAX - 8)]), Some(Fault::Layout));
        assert_eq!(told(vec![upstream("rig", u64::MAX / 2); 2]), Some(Fault::Layout));
        assert_eq!(told(vec![upstream("rig\u{1b}[2J", 0)]), Some(Fault::Layout));
        assert_eq!(told(vec![upstream(&"x".repeat(64), 0)]), Some(Fault::Layout));
        assert_eq!(told(vec![upstream("", 0); 8]), None);
        assert_eq!(told(vec![upstream("", 0); 9]), Some(Fault::Layout));
    }

    #[test]
    fn a_kind_that_nobody_wrote_is_refused() {
        let unreadable = UnreadableRecord { kind: 99, fault: Fault::Layout };
        assert_eq!(Record::decode(99, &[0; 100]), Err(unreadable));
        assert!(unreadable.to_string().contains("kind 99"), "{unreadable}");
    }

    /// Encodes and decodes a record; `None` if it is accepted.
    fn fault(record: &Record<'_>) -> Option<Fault> {
        let mut bytes = Vec::new();
        let kind = record.encode(&mut bytes);
        Record::decode(kind, &bytes).err().map(|unreadable| unreadable.fault)
    }

    fn fault_of(record: &Record<'_>, totals: [u64; 2]) -> Option<Fault> {
        let channels = vec![Channel::new("a", "V").with_shape([3])];
        let schema = Schema::new(Dtype::I16, SampleRate::hz(1).unwrap(), channels).unwrap();
        let mut bytes = Vec::new();
        let kind = record.encode(&mut bytes);
        Record::decode_of(&schema, kind, totals, &bytes).err().map(|unreadable| unreadable.fault)
    }

    const fn block(position: u64, payload: &[u8]) -> Record<'_> {
        let (t0, clock) = (WallTime::from_nanos(0), Clock::System);
        Record::Block(BlockRecord { epoch: EPOCH, position, t0, clock, born: None, payload })
    }

    #[test]
    fn a_gap_that_cannot_be_is_refused_also_as_news() {
        let backwards = Range { start: 20, end: 10 };
        for (gap, expected) in [
            (Gap { positions: 10..10, ..gap() }, UnsoundGap::Empty { start: 10, end: 10 }),
            (Gap { positions: backwards, ..gap() }, UnsoundGap::Empty { start: 20, end: 10 }),
            (Gap { positions: 10..21, ..gap() }, UnsoundGap::Unbalanced { expected: 11, counted: 10 }),
            (
                Gap { kind: GapKind::ReaderAbsent, ..gap() },
                UnsoundGap::Unbalanced { expected: 0, counted: 10 },
            ),
            (
                Gap { unsettled: u64::MAX, ..gap() },
                UnsoundGap::Unbalanced { expected: 10, counted: 10 + u128::from(u64::MAX) },
            ),
            (Gap { positions: 0..MAX_POSITION + 1, ..gap() }, UnsoundGap::Beyond(MAX_POSITION + 1)),
            (Gap { numbers: Range { start: 2, end: 1 }, ..gap() }, UnsoundGap::Numbers { start: 2, end: 1 }),
        ] {
            let expected = Some(Fault::Gap(expected));
            assert_eq!(fault(&Record::Gap(EPOCH, gap.clone())), expected);
            assert_eq!(fault(&Record::Settled(EPOCH, gap)), expected);
        }
    }

    #[test]
    fn a_gap_outside_accounts_is_refused() {
        for kind in [GapKind::PublisherAbsent, GapKind::ReaderAbsent] {
            let gap = Gap::outside_accounts(kind, 7, 10..20);
            assert_eq!(fault(&Record::Gap(EPOCH, gap.clone())), Some(Fault::OutsideAccounts));
            assert_eq!(fault(&Record::Settled(EPOCH, gap)), Some(Fault::OutsideAccounts));
        }
    }

    #[test]
    fn counts_are_refused_that_are_doubled_disordered_or_empty() {
        let mut bytes = Vec::new();
        let kind = Record::Gap(EPOCH, gap()).encode(&mut bytes);
        // Epoch, id, kind, positions, numbers and number of counts; each count is a stage and its
        // value.
        let counts = 16 + 8 + 1 + 16 + 16 + 1;
        let (first, second) = (bytes[counts], bytes[counts + 9]);
        assert_eq!((first, second), (Stage::ReceiverSocketBuffer.code(), Stage::Late.code()));
        for (stages, accepted) in [([first, second], true), ([first, first], false), ([second, first], false)]
        {
            (bytes[counts], bytes[counts + 9]) = (stages[0], stages[1]);
            assert_eq!(Record::decode(kind, &bytes).is_ok(), accepted, "{stages:?}");
        }
        let mut bytes = Vec::new();
        let kind = Record::Gap(EPOCH, Gap { positions: 10..18, ..gap() }).encode(&mut bytes);
        bytes[counts + 10..counts + 18].fill(0);
        bytes[counts + 1] = 7;
        assert_eq!(Record::decode(kind, &bytes).map_err(|it| it.fault), Err(Fault::Layout));
    }

    #[test]
    fn a_gap_has_no_more_evidence_than_is_written() {
        let line = gap().evidence[0].clone();
        let evidence = vec![line; MAX_EVIDENCE];
        let mut bytes = Vec::new();
        let kind = Record::Gap(EPOCH, Gap { evidence, ..gap() }).encode(&mut bytes);
        assert!(Record::decode(kind, &bytes).is_ok());
        let line_bytes = 1 + 8 + 1 + 1 + 3 * 8;
        let lines = bytes.len() - MAX_EVIDENCE * line_bytes - 1;
        assert_eq!(usize::from(bytes[lines]), MAX_EVIDENCE);
        bytes[lines] += 1;
        bytes.extend_from_within(bytes.len() - line_bytes..);
        assert_eq!(Record::decode(kind, &bytes).map_err(|it| it.fault), Err(Fault::Layout));
    }

    #[test]
    fn places_that_no_account_reaches_are_refused() {
        let began = |first_index| Record::Began { epoch: EPOCH, first_index, origin: None };
        assert_eq!(fault(&began(MAX_POSITION)), None);
        assert_eq!(fault(&began(MAX_POSITION + 1)), Some(Fault::Beyond(MAX_POSITION + 1)));
        assert_eq!(fault(&block(MAX_POSITION - 2, &[0; 2])), None);
        assert_eq!(fault(&block(MAX_POSITION - 2, &[0; 3])), Some(Fault::Beyond(MAX_POSITION + 1)));
        assert_eq!(fault(&block(u64::MAX, &[])), Some(Fault::Beyond(u64::MAX)));
    }

    #[test]
    fn places_are_refused_that_the_schema_leads_beyond() {
        let began = |first_index| Record::Began { epoch: EPOCH, first_index, origin: None };
        assert_eq!(fault_of(&began(MAX_POSITION / 3), [0, 0]), None);
        let beyond = (MAX_POSITION / 3 + 1) * 3;
        assert_eq!(fault_of(&began(MAX_POSITION / 3 + 1), [0, 0]), Some(Fault::Beyond(beyond)));
        for record in records(&[0; 6]) {
            let refused = fault_of(&record, [0, MAX_POSITION + 1]);
            assert_eq!(refused, Some(Fault::Beyond(MAX_POSITION + 1)), "{record:?}");
            assert_eq!(fault_of(&record, [MAX_POSITION, MAX_POSITION]), None, "{record:?}");
        }
        assert_eq!(fault_of(&began(0), [u64::MAX, 0]), Some(Fault::Beyond(u64::MAX)));
    }

    #[test]
    fn a_block_holds_whole_samples_or_a_piece_of_one() {
        for (position, size_bytes) in [(3, 6), (3, 12), (3, 2), (3, 4), (4, 4), (5, 2)] {
            assert_eq!(fault_of(&block(position, &[0; 12][..size_bytes]), [0, 0]), None);
        }
        for (position, size_bytes) in [(3, 0), (3, 1), (3, 7), (3, 8), (4, 6), (5, 4), (4, 12)] {
            let expected = Fault::Piece { position, size_bytes };
            assert_eq!(fault_of(&block(position, &[0; 12][..size_bytes]), [0, 0]), Some(expected));
        }
    }

    #[test]
    fn an_end_is_refused_that_leaves_the_account_open_or_cannot_be_added_up() {
        let ended = |state, datagrams| Record::Ended { epoch: EPOCH, state, datagrams };
        assert_eq!(fault(&ended(AccountState::Open, None)), Some(Fault::StillOpen));
        let sound = NetworkRows { first: 5, next: 5, received: u64::MAX, ..NetworkRows::default() };
        // A reader should see that it does not balance.
        assert_eq!(fault(&ended(AccountState::Cut, Some(sound))), None);
        let lost = StageCounts::of(Stage::Late, 1);
        for rows in [
            NetworkRows { next: 4, ..sound },
            NetworkRows { in_flight: 1, ..sound },
            NetworkRows { lost, ..sound },
        ] {
            assert_eq!(fault(&ended(AccountState::Cut, Some(rows))), Some(Fault::Datagrams));
        }
    }

    /// Arbitrary bytes are refused, or decode to a record that encodes to one that decodes the
    /// same; truncated and bit-flipped records are close enough to valid ones to reach deep checks.
    #[test]
    fn spoiled_records_are_refused_or_read_the_same_when_written_again() {
        let mut random = Random::new(11);
        let (mut accepted, mut refused) = (0, 0);
        for record in records(&[1, 2, 3, 4, 5, 6]) {
            let mut bytes = Vec::new();
            let kind = record.encode(&mut bytes);
            for _ in 0..2_000 {
                let mut spoiled = bytes.clone();
                for _ in 0..=random.below(3) {
                    let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
                    spoiled[at] = [0, 1, 2, 0x7f, 0xff][usize::try_from(random.below(5)).unwrap()];
                }
                let Ok(read) = Record::decode(kind, &spoiled) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                let mut again = Vec::new();
                assert_eq!(read.encode(&mut again), kind);
                assert_eq!(Record::decode(kind, &again), Ok(read));
            }
        }
        assert!(accepted > 1_000 && refused > 1_000, "{accepted} {refused}");
    }
}
