//! Example that writes a small archive with known content, which `tests/archive-readers` reads with other tools.
//!
//!     cargo run -p tallycast-archive --example sample_archive -- DIR
//!
//! Two runs of the same streams: `arrow` is left as recorded, `parquet` is compacted. Every element's bits are
//! `position * 2654435761` cut to its width; samples 40 to 50 are lost on purpose.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::{FileStore, Options, Recorder, RunName, Store, compact_run};
use ledger::{
    Account, AccountState, Evidence, EvidenceSource, Gap, GapKind, HopCounts, ReaderRows, Stage, StageCounts,
    Unit,
};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName};
use tallycast::{Event, Reach, StreamAccount, StreamGap, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

const READER: &str = "sample";
const T0_NS: i64 = 1_763_756_051_123_456_789;
const EPOCH: Epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 0xc0ffee };

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("say where: sample_archive DIR")?;
    let store: Arc<dyn Store> = Arc::new(FileStore::create(Path::new(&folder))?);
    for run in ["arrow", "parquet"] {
        let run: RunName = run.parse()?;
        record(&store, run.clone())?;
        if run.as_str() == "parquet" {
            compact_run(&*store, &run)?;
        }
    }
    Ok(())
}

type Stream = (Arc<StreamName>, Arc<Schema>);

fn streams() -> Result<Vec<Stream>, Box<dyn Error>> {
    let mut streams = Vec::new();
    for dtype in Dtype::ALL {
        let channels = vec![
            Channel::new("current", "A").with_scale(0.5, 1.0),
            Channel::new("image", "V").with_shape([2, 3]),
        ];
        let mut schema = Schema::new(dtype, SampleRate::new(1_000, 3)?, channels)?;
        schema.labels.insert("device".to_owned(), "probe 1".to_owned());
        streams.push((Arc::new(format!("lab/probe-{dtype}").parse()?), Arc::new(schema)));
    }
    Ok(streams)
}

fn record(store: &Arc<dyn Store>, run: RunName) -> Result<(), Box<dyn Error>> {
    let options =
        Options { reader: READER.to_owned(), batch_bytes: 1_000, segment_bytes: 500, ..Options::default() };
    let mut recorder = Recorder::open(Arc::clone(store), run, options, Instant::ORIGIN)?;
    let mut now = Instant::ORIGIN;
    for (name, schema) in streams()? {
        let info = StreamInfo {
            name: Arc::clone(&name),
            id: StreamId(1),
            epoch: EPOCH,
            origin: None,
            schema: Arc::clone(&schema),
            station: "daq-3".into(),
            first_index: 0,
            join: 1,
        };
        recorder.handle(now, &Event::Began(Arc::new(info)))?;
        for first in (0..100).step_by(10).filter(|first| *first != 40) {
            recorder.handle(now, &Event::Block(block(&name, &schema, first)))?;
            // Every commit ends a segment, so that there are several.
            if first % 30 == 20 {
                now += Duration::from_secs(1);
                recorder.tick(now);
            }
        }
        recorder.handle(now, &Event::Gap(gap(&name, &schema)))?;
        recorder.handle(now, &Event::Ended(account(name)))?;
    }
    recorder.close(now + Duration::from_secs(1))?;
    Ok(())
}

/// Returns ten samples; in the block at 70 the image's last two elements of sample 73 never arrived.
fn block(name: &Arc<StreamName>, schema: &Arc<Schema>, first_index: u64) -> Block {
    let per_sample = u64::from(schema.elements_per_sample());
    let size = schema.dtype.size_bytes();
    let mut missing = RangeSet::new();
    if first_index == 70 {
        missing.insert(3 * per_sample + 5..4 * per_sample);
    }
    let element = |position: u64| -> Vec<u8> {
        if missing.contains(position - first_index * per_sample) {
            return vec![0; size];
        }
        let bits = u128::from(position) * 2_654_435_761;
        let bytes = (bits | bits << 64).to_le_bytes();
        if schema.dtype == Dtype::Bool { vec![bytes[0] & 1] } else { bytes[..size].to_vec() }
    };
    let positions = first_index * per_sample..(first_index + 10) * per_sample;
    let bytes: Vec<u8> = positions.flat_map(element).collect();
    Block {
        stream: Arc::clone(name),
        schema: Arc::clone(schema),
        epoch: EPOCH,
        first_index,
        t0: schema.rate.time_of(first_index, 0, WallTime::from_nanos(T0_NS)),
        samples: 10,
        data: SampleBuffer::from_bytes(&bytes),
        missing,
    }
}

fn gap(name: &Arc<StreamName>, schema: &Arc<Schema>) -> StreamGap {
    let per_sample = u64::from(schema.elements_per_sample());
    let count = 10 * per_sample;
    let time = |index| schema.rate.time_of(index, 0, WallTime::from_nanos(T0_NS));
    let evidence =
        Evidence { stage: Stage::Injected, count, unit: Unit::Elements, source: EvidenceSource::TallyRange };
    let gap = Gap {
        id: 1,
        kind: GapKind::Missing,
        positions: 40 * per_sample..50 * per_sample,
        numbers: 4..5,
        lost: StageCounts::of(Stage::Injected, count),
        inherited: HopCounts::default(),
        unexplained: 0,
        unsettled: 0,
        apportioned: false,
        evidence: vec![evidence],
    };
    StreamGap {
        stream: Arc::clone(name),
        epoch: EPOCH,
        join: 1,
        elements_per_sample: schema.elements_per_sample(),
        gap,
        t0: time(40),
        t1: time(50),
    }
}

fn account(stream: Arc<StreamName>) -> StreamAccount {
    let (state, elements) = (AccountState::Closed, ReaderRows::default());
    StreamAccount {
        id: StreamId(1),
        stream,
        epoch: EPOCH,
        origin: None,
        upstream: Vec::new(),
        join: 1,
        follows: None,
        reader: READER.to_owned(),
        reach: Reach::Udp,
        account: Account { state, datagrams: None, elements, hops: HopCounts::default(), gaps: Vec::new() },
        samples: None,
        reclassified: Vec::new(),
        settled_early: 0,
        port: None,
        age: None,
        unauthentic: tallycast::UnauthenticCounts::default(),
        unconfirmed_epochs: 0,
    }
}
