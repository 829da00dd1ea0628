//! Streams, blocks, gaps and an archive for tests: one channel `x` on a steady clock that began at 100 s.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ledger::{Account, Gap, GapKind, HopCounts, ReaderRows, StageCounts};
use sample::{Block, SampleBuffer, StreamName};
use tallycast::{
    AccountState, Buffer, Channel, Direction, Dtype, PortStatus, Reach, ReceiverStats, Schema, StreamAccount,
    StreamGap, StreamInfo, UnauthenticCounts, Waits,
};
use units::{Epoch, RangeSet, StreamId, WallTime};

use crate::clock::{self, Moment};
use crate::gap_map::KnownGap;
use crate::memory::element_of;
use crate::stored::{HistoryStore, StoreFailure, StoredRequest, StoredSamples, StoredSpan};

pub(crate) const SECOND: i64 = 1_000_000_000;

pub(crate) fn info(name: &str, rate_hz: u32) -> StreamInfo {
    let rate = units::SampleRate::hz(rate_hz).unwrap();
    let schema = Schema::new(Dtype::F8, rate, vec![Channel::new("x", "V")]).unwrap();
    StreamInfo {
        name: Arc::new(name.parse().unwrap()),
        id: StreamId(1),
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        origin: None,
        schema: Arc::new(schema),
        station: "bench".to_owned(),
        first_index: 0,
        join: 1,
    }
}

/// Returns the moment at which the wall clock shows this, if both clocks run alike.
pub(crate) fn moment(wall: WallTime) -> Moment {
    let since = Duration::from_nanos(u64::try_from(wall.as_nanos()).expect("a time since 1970"));
    Moment { wall, steady: clock::origin() + since }
}

pub(crate) fn time_of(info: &StreamInfo, index: u64) -> WallTime {
    info.schema.rate.time_of(index, 0, WallTime::from_nanos(100 * SECOND))
}

pub(crate) fn block(info: &StreamInfo, first_index: u64, values: &[f64]) -> Block {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Block {
        stream: Arc::clone(&info.name),
        schema: Arc::clone(&info.schema),
        epoch: info.epoch,
        first_index,
        t0: time_of(info, first_index),
        samples: values.len() as u64,
        data: SampleBuffer::from_bytes(&bytes),
        missing: RangeSet::new(),
    }
}

pub(crate) fn gap(info: &StreamInfo, id: u64, positions: Range<u64>, lost: StageCounts) -> StreamGap {
    StreamGap {
        stream: Arc::clone(&info.name),
        epoch: info.epoch,
        join: info.join,
        elements_per_sample: 1,
        t0: time_of(info, positions.start),
        t1: time_of(info, positions.end),
        gap: Gap {
            id,
            kind: GapKind::Missing,
            unsettled: positions.end - positions.start - lost.total(),
            positions,
            numbers: 0..0,
            lost,
            inherited: HopCounts::default(),
            unexplained: 0,
            apportioned: false,
            evidence: Vec::new(),
        },
    }
}

/// A receiving socket.
pub(crate) fn port() -> PortStatus {
    let (asked_bytes, effective_bytes) = (4 << 20, 8 << 20);
    PortStatus {
        address: "239.84.3.4:7400".parse().unwrap(),
        buffer: Buffer { direction: Direction::Receive, asked_bytes, effective_bytes, limit_bytes: None },
        drops: 0,
        unmatched: StageCounts::default(),
        stats: ReceiverStats::default(),
        unauthentic: UnauthenticCounts::default(),
        waits: Waits::default(),
    }
}

pub(crate) fn account(info: &StreamInfo, state: AccountState) -> StreamAccount {
    StreamAccount {
        stream: Arc::clone(&info.name),
        id: info.id,
        epoch: info.epoch,
        origin: None,
        upstream: Vec::new(),
        join: info.join,
        follows: None,
        reader: "monitor".to_owned(),
        reach: Reach::Udp,
        account: Account {
            state,
            datagrams: None,
            elements: ReaderRows::default(),
            hops: HopCounts::default(),
            gaps: Vec::new(),
        },
        samples: None,
        reclassified: Vec::new(),
        settled_early: 0,
        port: None,
        age: None,
        unauthentic: UnauthenticCounts::default(),
        unconfirmed_epochs: 0,
    }
}

/// An archive of blocks.
#[derive(Default)]
pub(crate) struct Archived {
    pub(crate) blocks: Vec<Block>,
    pub(crate) gaps: Vec<KnownGap>,
    /// What every question is answered with, if it fails.
    pub(crate) failure: Option<StoreFailure>,
    pub(crate) asked: AtomicU32,
}

impl Archived {
    /// Returns how often it was asked for samples.
    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    fn ask(&self) -> Result<(), StoreFailure> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Returns the samples of a stream in a span of time.
    fn within(&self, stream: &StreamName, range: &Range<WallTime>) -> impl Iterator<Item = Block> {
        let of_stream = self.blocks.iter().filter(|block| *block.stream == *stream);
        of_stream.filter_map(|block| part(block, range))
    }
}

/// Returns the part of a block in a span of time.
fn part(block: &Block, range: &Range<WallTime>) -> Option<Block> {
    let inside = |index: &u64| range.contains(&block.time_of(*index));
    let mut indices = (block.first_index..block.next_index()).filter(inside);
    let first_index = indices.next()?;
    let samples = 1 + indices.count() as u64;
    let size = block.schema.sample_bytes();
    let start = (first_index - block.first_index) as usize * size;
    let bytes = &block.data.as_bytes()[start..start + samples as usize * size];
    Some(Block {
        first_index,
        samples,
        t0: block.time_of(first_index),
        data: SampleBuffer::from_bytes(bytes),
        ..block.clone()
    })
}

impl HistoryStore for Archived {
    fn span(&self, _: &StoredRequest<'_>) -> Result<Option<StoredSpan>, StoreFailure> {
        Ok(None)
    }

    fn samples(&self, asked: &StoredSamples<'_>, take: &mut dyn FnMut(&Block)) -> Result<bool, StoreFailure> {
        self.ask()?;
        let samples = self.within(asked.stream, &asked.range).map(|block| block.samples).sum();
        if samples > asked.limit {
            return Err(StoreFailure::TooLong { samples, limit: asked.limit });
        }
        self.within(asked.stream, &asked.range).for_each(|block| take(&block));
        Ok(true)
    }

    fn newest(
        &self,
        stream: &StreamName,
        channel: &str,
        end: WallTime,
    ) -> Result<Option<Block>, StoreFailure> {
        self.ask()?;
        let has_channel = |block: &Block| element_of(&block.schema, channel).is_some();
        let before = WallTime::from_nanos(i64::MIN)..end.offset(1);
        let found = self.within(stream, &before);
        Ok(found.filter(has_channel).max_by_key(|block| block.time_of(block.next_index() - 1)))
    }

    fn gaps(&self, _: &StreamName, range: Range<WallTime>) -> Result<Option<Vec<KnownGap>>, StoreFailure> {
        let overlaps = |gap: &&KnownGap| gap.from < range.end && gap.to > range.start;
        Ok(Some(self.gaps.iter().filter(overlaps).cloned().collect()))
    }
}
