//! Streams, blocks and gaps for tests: one channel `x` on a steady clock that began at 100 s.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ledger::{Account, Gap, GapKind, HopCounts, ReaderRows, StageCounts};
use sample::{Block, SampleBuffer};
use tallycast::{
    AccountState, Buffer, Channel, Direction, Dtype, PortStatus, Reach, ReceiverStats, Schema, StreamAccount,
    StreamGap, StreamInfo, UnauthenticCounts, Waits,
};
use units::{Epoch, RangeSet, StreamId, WallTime};

use crate::clock::{self, Moment};

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
