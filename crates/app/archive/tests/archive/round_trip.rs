//! Round trip of every dtype, shape and odd value, bit for bit, in both forms.

use std::sync::Arc;

use archive::{Archive, FileStore, Options, Piece, Recorder, Store, compact_run};
use proptest::prelude::*;
use sample::{Block, Channel, Dtype, SampleBuffer, Schema};
use tallycast::{Event, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

use crate::scene::everything;

fn schema(dtype: Dtype, shapes: &[&[u32]], rate: SampleRate) -> Arc<Schema> {
    let channel = |(number, shape): (usize, &&[u32])| {
        Channel::new(format!("c{number}"), "V").with_shape(shape.to_vec())
    };
    Arc::new(Schema::new(dtype, rate, shapes.iter().enumerate().map(channel).collect()).unwrap())
}

fn record(folder: &std::path::Path, schema: &Arc<Schema>, blocks: &[Block]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(FileStore::create(folder).unwrap());
    let options = Options { batch_bytes: 2_000, segment_bytes: 10_000, ..Options::default() };
    let run = "r".parse().unwrap();
    let mut recorder = Recorder::open(Arc::clone(&store), run, options, Instant::ORIGIN).unwrap();
    let (name, epoch) = (Arc::clone(&blocks[0].stream), blocks[0].epoch);
    let info = StreamInfo {
        id: StreamId(1),
        name,
        epoch,
        origin: None,
        schema: Arc::clone(schema),
        station: String::new(),
        first_index: blocks[0].first_index,
        join: 1,
    };
    recorder.handle(Instant::ORIGIN, &Event::Began(Arc::new(info))).unwrap();
    for (number, block) in blocks.iter().enumerate() {
        let now = Instant::from_nanos(number as u64 * 100_000_000);
        recorder.handle(now, &Event::Block(block.clone())).unwrap();
    }
    recorder.close(Instant::from_nanos(u64::MAX)).unwrap();
    store
}

/// Reads all samples: index, time within a nanosecond, bytes, missing positions.
fn read(store: &Arc<dyn Store>) -> (Vec<u64>, Vec<i64>, Vec<u8>, RangeSet) {
    let archive = Archive::on(Arc::clone(store)).unwrap();
    let entry = archive.streams(&"r".parse().unwrap()).unwrap().remove(0);
    let (mut index, mut times, mut bytes, mut missing) = (vec![], vec![], vec![], RangeSet::new());
    for piece in archive.range(&entry, everything()) {
        if let Piece::Block(block) = piece.unwrap() {
            flatten(&block, &mut index, &mut times, &mut bytes, &mut missing);
        }
    }
    (index, times, bytes, missing)
}

fn flatten(
    block: &Block,
    index: &mut Vec<u64>,
    times: &mut Vec<i64>,
    bytes: &mut Vec<u8>,
    missing: &mut RangeSet,
) {
    index.extend(block.first_index..block.next_index());
    times.extend((block.first_index..block.next_index()).map(|at| block.time_of(at).as_nanos()));
    bytes.extend(block.data.as_bytes());
    let base = block.first_index * u64::from(block.schema.elements_per_sample());
    missing.extend(block.missing.iter().map(|range| base + range.start..base + range.end));
}

fn assert_read(store: &Arc<dyn Store>, blocks: &[Block]) {
    let (mut index, mut times, mut bytes, mut missing) = (vec![], vec![], vec![], RangeSet::new());
    blocks.iter().for_each(|block| flatten(block, &mut index, &mut times, &mut bytes, &mut missing));
    let found = read(store);
    assert_eq!(found.0, index);
    assert!(found.1.iter().zip(&times).all(|(a, b)| a.abs_diff(*b) <= 1), "times are off");
    assert!(found.2 == bytes, "samples differ");
    assert_eq!(found.3, missing);
}

fn dtypes() -> impl Strategy<Value = Dtype> {
    proptest::sample::select(Dtype::ALL.to_vec())
}

const SHAPES: [&[&[u32]]; 4] = [&[&[]], &[&[], &[], &[]], &[&[2, 3], &[]], &[&[1], &[4]]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_samples_come_back_from_arrow_and_from_parquet(
        dtype in dtypes(),
        shape in 0..SHAPES.len(),
        rate in (1..50_000_u32, 1..7_u32),
        lengths in proptest::collection::vec((1..60_u64, 0..5_u64, -3..4_i64), 1..30),
        seed: u64,
    ) {
        let schema = schema(dtype, SHAPES[shape], SampleRate::new(rate.0, rate.1).unwrap());
        let mut random = units::Random::new(seed);
        let (mut next_index, mut blocks) = (random.below(1 << 60), Vec::new());
        let start = WallTime::from_nanos(1_700_000_000_000_000_000);
        for (samples, hole, jitter) in lengths {
            next_index += hole;
            let since = schema.rate.time_of(next_index, blocks.first().map_or(next_index, |b: &Block| b.first_index), start);
            let elements = samples * u64::from(schema.elements_per_sample());
            let mut missing = RangeSet::new();
            if random.chance(0.3) {
                let first = random.below(elements);
                missing.insert(first..(first + 1 + random.below(9)).min(elements));
            }
            let size = dtype.size_bytes();
            let mut bytes: Vec<u8> = (0..elements as usize * size).map(|_| random.next_u64() as u8).collect();
            if dtype == Dtype::Bool {
                bytes.iter_mut().for_each(|byte| *byte &= 1);
            }
            for range in missing.iter() {
                bytes[range.start as usize * size..range.end as usize * size].fill(0);
            }
            blocks.push(Block {
                stream: Arc::new("a/b".parse().unwrap()),
                schema: Arc::clone(&schema),
                epoch: Epoch { start_ns: 5, incarnation: 6 },
                first_index: next_index,
                t0: since.offset(jitter),
                samples,
                data: SampleBuffer::from_bytes(&bytes),
                missing,
            });
            next_index += samples;
        }
        let folder = tempfile::tempdir().unwrap();
        let store = record(folder.path(), &schema, &blocks);
        assert_read(&store, &blocks);
        let compacted = compact_run(&*store, &"r".parse().unwrap()).unwrap();
        prop_assert!(!compacted.is_empty());
        assert_read(&store, &blocks);
        prop_assert!(compact_run(&*store, &"r".parse().unwrap()).unwrap().is_empty());
    }
}

#[test]
fn an_image_larger_than_a_batch_comes_back() {
    let schema = schema(Dtype::U16, &[&[512, 512]], SampleRate::hz(10).unwrap());
    let bytes: Vec<u8> = (0..512 * 512 * 2 * 3_u32).map(|byte| (byte % 251) as u8).collect();
    let block = Block {
        stream: Arc::new("camera".parse().unwrap()),
        schema: Arc::clone(&schema),
        epoch: Epoch { start_ns: 5, incarnation: 6 },
        first_index: 7,
        t0: WallTime::from_nanos(9),
        samples: 3,
        data: SampleBuffer::from_bytes(&bytes),
        missing: RangeSet::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let store = record(folder.path(), &schema, std::slice::from_ref(&block));
    assert_read(&store, std::slice::from_ref(&block));
    compact_run(&*store, &"r".parse().unwrap()).unwrap();
    assert_read(&store, &[block]);
}
