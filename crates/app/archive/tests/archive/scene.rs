//! Test scene: a stream whose every sample follows from its index, a recorder for it, and a check of the result.

use std::sync::Arc;
use std::time::Duration;

use archive::{Archive, ArchiveError, Hole, Options, Piece, Recorder, Store, StreamEntry};
use ledger::{
    Account, AccountState, Evidence, EvidenceSource, Gap, GapKind, HopCounts, ReaderRows, Stage, StageCounts,
    Unit,
};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName};
use tallycast::{Reach, StreamAccount, StreamGap, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

/// Returns the amount of work for a test: the value of `variable`, for long runs, or else a small one.
pub(crate) fn amount(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a whole number"))
}

pub(crate) const EPOCH: Epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 0xc0ffee };
/// Elements in one sample.
pub(crate) const PER_SAMPLE: u64 = 3;
/// Two channels: a value, and an array of two.
pub(crate) fn schema() -> Arc<Schema> {
    let channels =
        vec![Channel::new("current", "A").with_scale(0.5, 1.0), Channel::new("pair", "V").with_shape([2])];
    let mut schema = Schema::new(Dtype::I32, SampleRate::hz(1_000).unwrap(), channels).unwrap();
    schema.labels.insert("device".into(), "probe 1".into());
    Arc::new(schema)
}

pub(crate) fn name() -> Arc<StreamName> {
    Arc::new("lab/probe".parse().unwrap())
}

pub(crate) fn began(first_index: u64) -> Arc<StreamInfo> {
    began_of(name(), first_index)
}

pub(crate) fn began_of(name: Arc<StreamName>, first_index: u64) -> Arc<StreamInfo> {
    Arc::new(StreamInfo {
        id: StreamId(1),
        name,
        epoch: EPOCH,
        origin: None,
        schema: schema(),
        station: "daq-3".into(),
        first_index,
        join: 1,
    })
}

pub(crate) fn element(position: u64) -> i32 {
    (position as i32).wrapping_mul(-1_640_531_527)
}

pub(crate) fn time_of(index: u64) -> WallTime {
    WallTime::from_nanos(1_763_756_051_000_000_000 + index as i64 * 1_000_000)
}

pub(crate) fn block(first_index: u64, samples: u64) -> Block {
    let positions = first_index * PER_SAMPLE..(first_index + samples) * PER_SAMPLE;
    let bytes: Vec<u8> = positions.flat_map(|position| element(position).to_le_bytes()).collect();
    Block {
        stream: name(),
        schema: schema(),
        epoch: EPOCH,
        first_index,
        t0: time_of(first_index),
        samples,
        data: SampleBuffer::from_bytes(&bytes),
        missing: RangeSet::new(),
    }
}

/// A gap of whole samples, lost at one stage or still unsettled.
pub(crate) fn gap(id: u64, samples: std::ops::Range<u64>, stage: Option<Stage>) -> StreamGap {
    let positions = samples.start * PER_SAMPLE..samples.end * PER_SAMPLE;
    let count = positions.end - positions.start;
    let evidence = stage.map(|stage| Evidence {
        stage,
        count,
        unit: Unit::Elements,
        source: EvidenceSource::TallyRange,
    });
    let gap = Gap {
        id,
        kind: GapKind::Missing,
        positions,
        numbers: id..id + 1,
        lost: stage.map_or_else(StageCounts::default, |stage| StageCounts::of(stage, count)),
        inherited: HopCounts::default(),
        unexplained: 0,
        unsettled: if stage.is_none() { count } else { 0 },
        apportioned: false,
        evidence: evidence.into_iter().collect(),
    };
    StreamGap {
        stream: name(),
        epoch: EPOCH,
        join: 1,
        elements_per_sample: PER_SAMPLE as u32,
        gap,
        t0: time_of(samples.start),
        t1: time_of(samples.end),
    }
}

pub(crate) fn account() -> StreamAccount {
    StreamAccount {
        stream: name(),
        id: StreamId(1),
        epoch: EPOCH,
        origin: None,
        upstream: Vec::new(),
        join: 1,
        follows: None,
        reader: "recorder".into(),
        reach: Reach::Udp,
        account: Account {
            state: AccountState::Closed,
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
        unauthentic: tallycast::UnauthenticCounts::default(),
        unconfirmed_epochs: 0,
    }
}

/// Commits, batches and segments small enough that a short recording has many of each.
pub(crate) fn small() -> Options {
    Options {
        commit_interval: Duration::from_millis(10),
        batch_bytes: 300,
        segment_bytes: 4_000,
        account_interval: Duration::from_millis(40),
        resume_space_bytes: 8_000,
        space_holds: Duration::ZERO,
        ..Options::default()
    }
}

pub(crate) fn at_ms(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(ms)
}

pub(crate) fn open(store: &Arc<dyn Store>, now: Instant) -> Result<Recorder, ArchiveError> {
    Recorder::open(Arc::clone(store), "shot-7".parse().unwrap(), small(), now)
}

pub(crate) fn stream(store: &Arc<dyn Store>) -> (Archive, StreamEntry) {
    let archive = Archive::on(Arc::clone(store)).unwrap();
    let entry = archive.stream(&"shot-7".parse().unwrap(), &name()).unwrap();
    (archive, entry)
}

pub(crate) fn everything() -> std::ops::Range<WallTime> {
    WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX)
}

/// Result of reading: the samples, and the holes between them.
#[derive(Debug, Default)]
pub(crate) struct ReadBack {
    pub(crate) samples: RangeSet,
    pub(crate) holes: Vec<Hole>,
}

/// Reads everything; checks each value and time, and that no index is left out without a hole.
pub(crate) fn read_back(store: &Arc<dyn Store>) -> ReadBack {
    let (archive, entry) = stream(store);
    let mut read = ReadBack::default();
    let mut expected = None;
    for piece in archive.range(&entry, everything()) {
        match piece.unwrap() {
            Piece::Epoch(recording) => expected = Some(recording.first_index),
            Piece::Block(found) => {
                assert_eq!(Some(found.first_index), expected, "a silent hole");
                let wanted = block(found.first_index, found.samples);
                assert_eq!(found.data.as_bytes(), wanted.data.as_bytes());
                assert_eq!(found.t0, wanted.t0);
                assert_eq!(*found.schema, *wanted.schema);
                expected = Some(found.next_index());
                read.samples.insert(found.first_index..found.next_index());
            }
            Piece::Hole(hole) => {
                assert_eq!(Some(hole.first_index), expected, "a silent hole");
                let counted = hole.lost.total() + hole.unexplained + hole.unsettled + hole.reader_absent;
                assert_eq!(counted, hole.samples * PER_SAMPLE, "{hole:?}");
                expected = Some(hole.first_index + hole.samples);
                read.holes.push(hole);
            }
        }
    }
    read
}
