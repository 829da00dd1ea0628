//! Example that measures the recorder's write speed on a real disk, and the cost of compaction and reading.
//!
//!     cargo run --release -p tallycast-archive --example write_speed -- DIR
//!
//! One stream at a time, 1 GiB of samples each in blocks of one datagram or of 64 KiB, with the default options; the
//! last commit is included, so a rate counts only data on the disk at the end.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant as Clock;

use archive::{Archive, FileStore, Options, Piece, Recorder, Store, compact_run};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName};
use tallycast::{Event, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

const BYTES: usize = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("say where: write_speed DIR")?;
    for (label, dtype, channels, shape, block_bytes) in [
        ("1 x f4, datagrams", Dtype::F4, 1, vec![], 1_440),
        ("8 x i16, datagrams", Dtype::I16, 8, vec![], 1_440),
        ("8 x f4, 64 KiB", Dtype::F4, 8, vec![], 64 << 10),
        ("64 x f8, 64 KiB", Dtype::F8, 64, vec![], 64 << 10),
        ("u16 image 1024 x 1024", Dtype::U16, 1, vec![1_024, 1_024], 2 << 20),
    ] {
        let channel = |number| Channel::new(format!("c{number}"), "V").with_shape(shape.clone());
        let schema =
            Arc::new(Schema::new(dtype, SampleRate::hz(1_000_000)?, (0..channels).map(channel).collect())?);
        let root = Path::new(&folder).join(label.replace([' ', ','], "_"));
        measure(label, &root, &schema, block_bytes)?;
        std::fs::remove_dir_all(&root)?;
    }
    Ok(())
}

fn measure(label: &str, root: &Path, schema: &Arc<Schema>, block_bytes: usize) -> Result<(), Box<dyn Error>> {
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root)?);
    let began = Clock::now();
    let now = || Instant::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut recorder = Recorder::open(Arc::clone(&store), "speed".parse()?, Options::default(), now())?;
    let name = Arc::new("lab/probe".parse::<StreamName>()?);
    let epoch = Epoch { start_ns: 1, incarnation: 1 };
    let info = StreamInfo {
        name: Arc::clone(&name),
        id: StreamId(1),
        epoch,
        origin: None,
        schema: Arc::clone(schema),
        station: String::new(),
        first_index: 0,
        join: 1,
    };
    recorder.handle(now(), &Event::Began(Arc::new(info)))?;
    let samples_per_block = block_bytes / schema.sample_bytes();
    let bytes: Vec<u8> =
        (0..samples_per_block * schema.sample_bytes()).map(|byte| (byte % 253) as u8).collect();
    let mut event = Event::Block(Block {
        stream: name,
        schema: Arc::clone(schema),
        epoch,
        first_index: 0,
        t0: WallTime::from_nanos(0),
        samples: samples_per_block as u64,
        data: SampleBuffer::from_bytes(&bytes),
        missing: RangeSet::new(),
    });
    let rounds = BYTES / bytes.len();
    for _ in 0..rounds {
        recorder.handle(now(), &event)?;
        if let Event::Block(block) = &mut event {
            block.first_index += block.samples;
            block.t0 = schema.rate.time_of(block.first_index, 0, WallTime::from_nanos(0));
        }
    }
    let taken = began.elapsed();
    recorder.close(now())?;
    let written = began.elapsed();
    let total = (rounds * bytes.len()) as f64 / 1e6;

    let archive = Archive::on(Arc::clone(&store))?;
    let read = || -> Result<f64, Box<dyn Error>> {
        let began = Clock::now();
        let entry = archive.streams(&"speed".parse()?)?.remove(0);
        let everything = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
        let mut samples = 0;
        for piece in archive.range(&entry, everything) {
            if let Piece::Block(block) = piece? {
                samples += block.samples;
            }
        }
        assert_eq!(samples, (rounds * samples_per_block) as u64);
        Ok(total / began.elapsed().as_secs_f64())
    };
    let arrow = read()?;
    let began = Clock::now();
    let compacted = compact_run(&*store, &"speed".parse()?)?;
    let compaction = total / began.elapsed().as_secs_f64();
    let parquet = read()?;
    let sizes =
        compacted.iter().fold((0, 0), |sum, one| (sum.0 + one.arrow_bytes, sum.1 + one.parquet_bytes));
    println!(
        "{label:24} taken {:6.0} MB/s, stored {:6.0} MB/s, read {arrow:6.0} MB/s, compacted {compaction:5.0} MB/s \
         to {:.0} % of arrow ({:.2} x samples), parquet read {parquet:5.0} MB/s",
        total / taken.as_secs_f64(),
        total / written.as_secs_f64(),
        sizes.1 as f64 / sizes.0 as f64 * 100.0,
        sizes.0 as f64 / (total * 1e6),
    );
    Ok(())
}
