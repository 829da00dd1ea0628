//! A small recording in memory whose every element is known from its place, and what can be read of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archive::{
    Archive, Began, ClosedSegment, Description, Input, Options, Piece, ReaderGap, Recorder, RunName, Store,
    compact,
};
use ledger::{Gap, GapKind, Stage, StageCounts};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName};
use units::{Epoch, Instant, RangeSet, SampleRate, WallTime};

use crate::memory::Memory;

/// Samples in all, those of the gap included.
pub const SAMPLES: u64 = 120;
/// Those that were lost on the way.
pub const LOST: std::ops::Range<u64> = 40..50;
/// Elements of one sample.
pub const PER_SAMPLE: u64 = 3;
/// The publisher's epoch.
pub const EPOCH: Epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 };

/// The run it is in.
#[must_use]
pub fn run() -> RunName {
    "r".parse().expect("a name")
}

/// The stream.
#[must_use]
pub fn name() -> Arc<StreamName> {
    Arc::new("lab/probe".parse().expect("a name"))
}

/// The folder of its epoch.
#[must_use]
pub fn folder() -> PathBuf {
    format!("run=r/stream=lab%2Fprobe/epoch={EPOCH}").into()
}

/// Records it and pulls the plug: the first segments are compacted, the last one is open.
#[must_use]
pub fn cut() -> Memory {
    let disk = Memory::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = recorder(&store).expect("an empty disk");
    let description =
        Description { name: name(), epoch: EPOCH, schema: schema(), station: "daq-3".to_owned() };
    let began = Began { description, first_index: 0, reader: "recorder".to_owned() };
    recorder.handle(at_ms(0), Input::Began(began)).expect("memory takes everything");
    for first in (0..SAMPLES).step_by(10).filter(|first| !LOST.contains(first)) {
        recorder.handle(at_ms(first), Input::Block(&block(first))).expect("memory takes everything");
        recorder.tick(at_ms(first + 10));
    }
    let gap = gap();
    recorder.handle(at_ms(SAMPLES), Input::Gap(&gap)).expect("memory takes everything");
    recorder.tick(at_ms(SAMPLES + 10));
    for number in [1, 2] {
        let segment = ClosedSegment { folder: folder(), number };
        compact(&*store, &segment).expect("it is whole");
    }
    drop(recorder);
    disk
}

/// Opens a recorder on what is there, which recovers it.
///
/// # Errors
/// What the archive says of what it finds.
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

/// The bytes of a sample.
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

fn gap() -> ReaderGap {
    let positions = LOST.start * PER_SAMPLE..LOST.end * PER_SAMPLE;
    let gap = Gap {
        id: 1,
        kind: GapKind::Missing,
        lost: StageCounts::of(Stage::Injected, positions.end - positions.start),
        positions,
        numbers: 4..5,
        unexplained: 0,
        unsettled: 0,
        apportioned: false,
        evidence: Vec::new(),
    };
    ReaderGap { stream: name(), epoch: EPOCH, gap, t0: time_of(LOST.start), t1: time_of(LOST.end) }
}

/// What can be read: samples by index, and how far it is known what there was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Their bytes.
    pub samples: BTreeMap<u64, Vec<u8>>,
    /// Every hole lay where it had to, and its elements add up.
    pub in_order: bool,
}

/// Reads everything; `None` where there is nothing, or the archive says why it cannot be read.
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
