//! A small recording in memory whose every element follows from its position, and the readable part of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archive::{Archive, ClosedSegment, Options, Piece, Recorder, RunName, Store, compact};
use ledger::{Gap, GapKind, HopCounts, Stage, StageCounts};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName};
use tallycast::{Event, StreamGap, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

use crate::memory::Memory;

/// Number of samples, those of the gap included.
pub const SAMPLES: u64 = 120;
/// Samples that were lost in flight.
pub const LOST: std::ops::Range<u64> = 40..50;
/// Elements per sample.
pub const PER_SAMPLE: u64 = 3;
/// The publisher's epoch.
pub const EPOCH: Epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 };

/// Returns the archive run of the recording.
#[must_use]
pub fn run() -> RunName {
    "r".parse().expect("a name")
}

/// Returns the stream's name.
#[must_use]
pub fn name() -> Arc<StreamName> {
    Arc::new("lab/probe".parse().expect("a name"))
}

/// Returns the folder of its epoch.
#[must_use]
pub fn folder() -> PathBuf {
    format!("run=r/stream=lab%2Fprobe/epoch={EPOCH}").into()
}

/// Records it and stops as in a power failure: the first segments are compacted, the last one is open.
#[must_use]
pub fn cut() -> Memory {
    let disk = Memory::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = recorder(&store).expect("an empty disk");
    let info = StreamInfo {
        name: name(),
        id: StreamId(1),
        epoch: EPOCH,
        origin: None,
        schema: schema(),
        station: "daq-3".to_owned(),
        first_index: 0,
        join: 1,
    };
    recorder.handle(at_ms(0), &Event::Began(Arc::new(info))).expect("memory takes everything");
    for first in (0..SAMPLES).step_by(10).filter(|first| !LOST.contains(first)) {
        recorder.handle(at_ms(first), &Event::Block(block(first))).expect("memory takes everything");
        recorder.tick(at_ms(first + 10));
    }
    recorder.handle(at_ms(SAMPLES), &Event::Gap(gap())).expect("memory takes everything");
    recorder.tick(at_ms(SAMPLES + 10));
    for number in [1, 2] {
        let segment = ClosedSegment { folder: folder(), number };
        compact(&*store, &segment).expect("it is whole");
    }
    drop(recorder);
    disk
}

/// Opens a recorder on the existing files, which recovers them.
///
/// # Errors
/// Errors of the archive about these files.
pub fn recorder(store: &Arc<dyn Store>) -> Result<Recorder, archive::ArchiveError> {
    let options = Options {
        commit_interval: Duration::from_millis(10),
        batch_bytes: 200,
        segment_bytes: 2_000,
        account_interval: Duration::from_millis(40),
        ..Options::default()
    };
    Recorder::open(Arc::clone(store), run(), options, at_ms(0))
}

/// Returns the bytes of a sample.
#[must_use]
pub fn sample(index: u64) -> Vec<u8> {
    let element = |position: u64| (position as i16).wrapping_mul(25_173).to_le_bytes();
    (index * PER_SAMPLE..(index + 1) * PER_SAMPLE).flat_map(element).collect()
}

fn schema() -> Arc<Schema> {
    let channels =
        vec![Channel::new("current", "A").with_scale(0.5, 1.0), Channel::new("pair", "V").with_shape([2])];
    Arc::new(Schema::new(Dtype::I16, SampleRate::hz(1_000).expect("a rate"), channels).expect("a schema"))
}

fn time_of(index: u64) -> WallTime {
    WallTime::from_nanos(1_763_756_051_000_000_000 + index as i64 * 1_000_000)
}

fn at_ms(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(ms)
}

fn block(first_index: u64) -> Block {
    let bytes: Vec<u8> = (first_index..first_index + 10).flat_map(sample).collect();
    Block {
        stream: name(),
        schema: schema(),
        epoch: EPOCH,
        first_index,
        t0: time_of(first_index),
        samples: 10,
        data: SampleBuffer::from_bytes(&bytes),
        missing: RangeSet::new(),
    }
}

fn gap() -> StreamGap {
    let positions = LOST.start * PER_SAMPLE..LOST.end * PER_SAMPLE;
    let gap = Gap {
        id: 1,
        kind: GapKind::Missing,
        lost: StageCounts::of(Stage::Injected, positions.end - positions.start),
        positions,
        numbers: 4..5,
        inherited: HopCounts::default(),
        unexplained: 0,
        unsettled: 0,
        apportioned: false,
        evidence: Vec::new(),
    };
    StreamGap {
        stream: name(),
        epoch: EPOCH,
        join: 1,
        elements_per_sample: PER_SAMPLE as u32,
        gap,
        t0: time_of(LOST.start),
        t1: time_of(LOST.end),
    }
}

/// Readable content: samples by index, and the end of what is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Bytes of the samples.
    pub samples: BTreeMap<u64, Vec<u8>>,
    /// True if every hole was at its position, and its elements add up.
    pub in_order: bool,
}

/// Reads everything; `None` if there is nothing, or the archive reports why it cannot be read.
#[must_use]
pub fn read(store: &Arc<dyn Store>) -> Option<Found> {
    let archive = Archive::on(Arc::clone(store)).ok()?;
    let (streams, _) = archive.survey(&run()).ok()?;
    let entry = streams.into_iter().find(|entry| *entry.name == *name())?;
    let always = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
    let mut found = Found { samples: BTreeMap::new(), in_order: true };
    let mut expected = None;
    for piece in archive.range(&entry, always) {
        let (first, next) = match piece.ok()? {
            Piece::Epoch(recording) => {
                expected = Some(recording.first_index);
                continue;
            }
            Piece::Hole(hole) => {
                let per_sample = u64::from(entry.epochs[0].description.schema.elements_per_sample());
                found.in_order &= hole.reasons().total() == hole.samples * per_sample;
                (hole.first_index, hole.first_index + hole.samples)
            }
            Piece::Block(block) => {
                let samples = block.data.as_bytes().chunks_exact(block.schema.sample_bytes());
                found.samples.extend((block.first_index..).zip(samples.map(<[u8]>::to_vec)));
                (block.first_index, block.next_index())
            }
        };
        found.in_order &= expected.replace(next) == Some(first);
    }
    Some(found)
}
