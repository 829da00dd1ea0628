//! Events of one stream of one channel, for tests.

use std::sync::Arc;

use ledger::{Account, AccountState, Gap, GapKind, HopCounts, ReaderRows, StageCounts};
use sample::{Channel, Dtype, Schema};
use units::{Epoch, SampleRate, StreamId, WallTime};

use crate::event::{StreamAccount, StreamGap, StreamInfo};
use crate::host_view::Reach;

/// Returns an epoch of the stream by its incarnation; `join` is the number of the reader's account that
/// begins.
pub(crate) fn info(incarnation: u64, join: u32) -> StreamInfo {
    let rate = SampleRate::hz(1_000).expect("a rate");
    let schema = Schema::new(Dtype::F4, rate, vec![Channel::new("a", "V")]).expect("a schema");
    StreamInfo {
        name: Arc::new("lab/probe".parse().expect("a name")),
        id: StreamId(1),
        epoch: Epoch { start_ns: incarnation, incarnation },
        origin: None,
        schema: Arc::new(schema),
        station: "rig".to_owned(),
        first_index: 0,
        join,
    }
}

/// Returns a gap of one sample that is unexplained.
pub(crate) fn missing(info: &StreamInfo) -> StreamGap {
    let gap = Gap {
        id: 0,
        kind: GapKind::Missing,
        positions: 0..1,
        numbers: 0..1,
        lost: StageCounts::default(),
        inherited: HopCounts::default(),
        unexplained: 1,
        unsettled: 0,
        apportioned: false,
        evidence: Vec::new(),
    };
    StreamGap {
        stream: Arc::clone(&info.name),
        epoch: info.epoch,
        join: info.join,
        elements_per_sample: 1,
        gap,
        t0: WallTime::from_nanos(0),
        t1: WallTime::from_nanos(1),
    }
}

/// Returns the account in this state, without a gap.
pub(crate) fn account(info: &StreamInfo, state: AccountState) -> StreamAccount {
    StreamAccount {
        stream: Arc::clone(&info.name),
        id: info.id,
        epoch: info.epoch,
        origin: None,
        upstream: Vec::new(),
        join: info.join,
        follows: None,
        reader: "desk".to_owned(),
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
        unauthentic: crate::UnauthenticCounts::default(),
        unconfirmed_epochs: 0,
    }
}
