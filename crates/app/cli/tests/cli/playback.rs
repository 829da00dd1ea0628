//! Playback of recordings: `query --export` and `pub`, and `replay`. The same samples, the same holes, for every dtype.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use archive::{Archive, FileStore, Options, Recorder, RunName, Store};
use ledger::{Gap, GapKind, HopCounts, Stage, StageCounts};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName};
use serde_json::json;
use source::{FileOptions, FileSource, Piece, Source, Timing};
use support::ports::private_bus;
use tallycast::{Event, StreamGap, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

use crate::program::{Running, run};
use crate::query::ended;

const EPOCH: Epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 };
/// The recorder joined late.
const FIRST: u64 = 1_000;
/// Behind this sample the publisher's clock was set forward, and nothing is missing.
const STEP: u64 = FIRST + 60;
const STEP_NS: i64 = 7_000_000_000;

/// A scaled channel, an image, and one whose name is that of a leading column.
fn schema(dtype: Dtype) -> Arc<Schema> {
    let channels = vec![
        Channel::new("current", "A").with_scale(0.5, 1.0),
        Channel::new("image", "V").with_shape([2, 2]),
        Channel::new("index", ""),
    ];
    let mut schema = Schema::new(dtype, SampleRate::new(1_000, 3).unwrap(), channels).unwrap();
    schema.labels.insert("device".into(), "probe 1".into());
    schema.labels.insert("title".into(), "a test".into());
    Arc::new(schema)
}

/// An element valid for every dtype, derived from its position.
fn element(position: u64, dtype: Dtype) -> Vec<u8> {
    let small = (position * 7 % 101) as u8;
    let float = f32::from(small) + 0.25;
    match dtype {
        Dtype::F4 => float.to_le_bytes().to_vec(),
        Dtype::F8 => f64::from(float).to_le_bytes().to_vec(),
        Dtype::C8 => [float, -float].iter().flat_map(|part| part.to_le_bytes()).collect(),
        Dtype::C16 => [float, -float].iter().flat_map(|part| f64::from(*part).to_le_bytes()).collect(),
        Dtype::Bool => vec![small & 1],
        _ => (0..dtype.size_bytes()).map(|byte| if byte == 0 { small } else { 0 }).collect(),
    }
}

/// 100 samples without 40 to 50, which were injected; sample 73 lacks two elements, lost in the network, and the last
/// one another, which is unexplained.
fn recorded(root: &Path, dtype: Dtype) {
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root).unwrap());
    let run: RunName = "r".parse().unwrap();
    let options = Options { batch_bytes: 200, ..Options::default() };
    let mut recorder = Recorder::open(store, run, options, Instant::ORIGIN).unwrap();
    let (name, schema): (Arc<StreamName>, _) = (Arc::new("lab/probe".parse().unwrap()), schema(dtype));
    let per_sample = u64::from(schema.elements_per_sample());
    let info = StreamInfo {
        name: Arc::clone(&name),
        id: StreamId(1),
        epoch: EPOCH,
        origin: None,
        schema: Arc::clone(&schema),
        station: String::new(),
        first_index: FIRST,
        join: 1,
    };
    recorder.handle(Instant::ORIGIN, &Event::Began(Arc::new(info))).unwrap();
    for block in (0..100).step_by(10).filter(|block| *block != 40) {
        let first_index = FIRST + block;
        let missing: RangeSet = match block {
            70 => std::iter::once(3 * per_sample + 2..3 * per_sample + 4).collect(),
            90 => std::iter::once(10 * per_sample - 1..10 * per_sample).collect(),
            _ => RangeSet::new(),
        };
        let bytes = |place: u64| match missing.contains(place) {
            true => vec![0; dtype.size_bytes()],
            false => element(first_index * per_sample + place, dtype),
        };
        let data: Vec<u8> = (0..10 * per_sample).flat_map(bytes).collect();
        let start = WallTime::from_nanos(EPOCH.start_ns as i64);
        let step = if first_index >= STEP { STEP_NS } else { 0 };
        let block = Block {
            stream: Arc::clone(&name),
            schema: Arc::clone(&schema),
            epoch: EPOCH,
            first_index,
            t0: schema.rate.time_of(first_index, 0, start).offset(step),
            samples: 10,
            data: SampleBuffer::from_bytes(&data),
            missing,
        };
        recorder.handle(Instant::ORIGIN, &Event::Block(block)).unwrap();
    }
    let first = FIRST * per_sample;
    for (id, positions, stage) in [
        (0, first + 40 * per_sample..first + 50 * per_sample, Stage::Injected),
        (1, first + 73 * per_sample + 2..first + 73 * per_sample + 4, Stage::Network),
    ] {
        let gap = Gap {
            id,
            kind: GapKind::Missing,
            lost: StageCounts::of(stage, positions.end - positions.start),
            positions,
            numbers: 0..0,
            inherited: HopCounts::default(),
            unexplained: 0,
            unsettled: 0,
            apportioned: false,
            evidence: Vec::new(),
        };
        let (t0, t1) = (WallTime::default(), WallTime::default());
        let (stream, elements_per_sample) = (Arc::clone(&name), schema.elements_per_sample());
        let gap = StreamGap { stream, epoch: EPOCH, join: 1, elements_per_sample, gap, t0, t1 };
        recorder.handle(Instant::ORIGIN, &Event::Gap(gap)).unwrap();
    }
    recorder.handle(Instant::ORIGIN, &Event::Ended(ended(name, EPOCH))).unwrap();
    recorder.close(Instant::from_nanos(1_000_000_000)).unwrap();
}

/// Samples by their index since the first stored one.
type Samples = BTreeMap<u64, Vec<u8>>;

/// Returns the whole samples that the archive has, and when the first was taken.
fn stored(root: &Path) -> (Samples, WallTime) {
    let archive = Archive::open(root).unwrap();
    let entry = archive.stream(&"r".parse().unwrap(), &"lab/probe".parse().unwrap()).unwrap();
    let always = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
    let mut samples = Samples::new();
    for piece in archive.epoch(&entry.epochs[0], always) {
        let archive::Piece::Block(block) = piece.unwrap() else { continue };
        let per_sample = u64::from(block.schema.elements_per_sample());
        let rows = block.data.as_bytes().chunks_exact(block.schema.sample_bytes());
        for (row, bytes) in (0..).zip(rows) {
            if block.missing.intersection(row * per_sample..(row + 1) * per_sample).next().is_none() {
                samples.insert(block.first_index - FIRST + row, bytes.to_vec());
            }
        }
    }
    assert_eq!(samples.len(), 88, "90 are stored, of which two are not whole");
    (samples, entry.epochs[0].t0)
}

/// Plays a file to its end: its samples, and how many there were with the holes.
fn played(source: &mut FileSource) -> (Samples, u64) {
    let sample_bytes = source.description().schema.sample_bytes();
    let (mut samples, mut index) = (Samples::new(), 0);
    loop {
        match source.next(NonZeroU64::MAX).unwrap() {
            Piece::Samples(bytes) | Piece::Timed { samples: bytes, .. } => {
                for sample in bytes.chunks_exact(sample_bytes) {
                    samples.insert(index, sample.to_vec());
                    index += 1;
                }
            }
            Piece::Hole { samples, .. } => index += samples,
            Piece::End => return (samples, index),
        }
    }
}

fn export(root: &Path, format: &str, file: &Path) {
    let arguments =
        ["query", root.to_str().unwrap(), "lab/probe", "--export", format, file.to_str().unwrap()];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn exported_elements_play_back_bit_for_bit_with_their_schema_and_holes() {
    for dtype in Dtype::ALL {
        let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        recorded(folder.path(), dtype);
        let (samples, t0) = stored(folder.path());
        for format in ["parquet", "npy"] {
            let file = out.path().join("probe").with_extension(format);
            export(folder.path(), format, &file);
            let mut source = source::open_file(&file, &FileOptions::default()).unwrap();
            let what = format!("{dtype} in {format}");
            assert_eq!(source.description().schema, *schema(dtype), "{what}");
            assert_eq!(source.description().timing, Timing::Recorded { start: Some(t0) }, "{what}");
            let first = played(&mut source);
            assert_eq!(first, (samples.clone(), 100), "{what}");
            source.rewind().unwrap();
            assert_eq!(played(&mut source), first, "{what}, again");
        }
    }
}

#[test]
fn an_exported_table_of_text_plays_back_in_units_with_its_holes() {
    for dtype in Dtype::ALL {
        let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        recorded(folder.path(), dtype);
        let (samples, t0) = stored(folder.path());
        let file = out.path().join("probe.csv");
        export(folder.path(), "csv", &file);
        let mut source = source::open_file(&file, &FileOptions::default()).unwrap();
        let schema = schema(dtype);
        let described = source.description().schema.clone();
        assert_eq!(described.rate, schema.rate, "{dtype}");
        assert_eq!(source.description().timing, Timing::Recorded { start: Some(t0) });
        let headings: Vec<_> =
            described.channels.iter().map(|it| (it.name.as_str(), it.unit.as_str())).collect();
        if !matches!(dtype, Dtype::C8 | Dtype::C16) {
            let image = ["image[0]", "image[1]", "image[2]", "image[3]"].map(|name| (name, "V"));
            assert_eq!(headings, [&[("current", "A")], &image[..], &[("index", "")]].concat());
        } else {
            assert_eq!(headings[..2], [("current re", "A"), ("current im", "A")]);
        }
        let (read, end) = played(&mut source);
        assert_eq!((read.keys().collect::<Vec<_>>(), end), (samples.keys().collect(), 100), "{dtype}");
        for (index, sample) in &read {
            let found: Vec<f64> = sample.chunks_exact(8).map(|value| Dtype::F8.to_f64(value)).collect();
            assert_eq!(found, in_units(&samples[index], &schema), "{dtype}, sample {index}");
        }
    }
}

/// Returns a sample's values in their channels' units, complex ones as two.
fn in_units(sample: &[u8], schema: &Schema) -> Vec<f64> {
    let (part, parts) = match schema.dtype {
        Dtype::C8 => (Dtype::F4, 2),
        Dtype::C16 => (Dtype::F8, 2),
        real => (real, 1),
    };
    let values: Vec<f64> = sample.chunks_exact(part.size_bytes()).map(|value| part.to_f64(value)).collect();
    let mut units = Vec::new();
    for (place, channel) in schema.channels.iter().enumerate() {
        let elements = schema.channel_elements(place);
        for (at, value) in values[elements.start * parts..elements.end * parts].iter().enumerate() {
            // The offset shifts a complex value along the real axis.
            let offset = if at % parts == 0 { channel.offset } else { 0.0 };
            units.push(value * channel.scale + offset);
        }
    }
    units
}

#[test]
fn an_exported_table_is_published_with_its_gaps_as_holes_of_the_source() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus());
    recorded(folder.path(), Dtype::I16);
    let file = folder.path().join("probe.parquet");
    export(folder.path(), "parquet", &file);
    let reader = Running::start(&["sub", "again/*", "--until-end", "--json", "--bus", &bus]);
    let file = file.to_str().unwrap();
    // The reader may begin after the program: then it is waited for.
    let publish = ["pub", "again/probe", "--file", file, "--wait", "60s", "--json", "--bus", &bus];
    let (status, totals) = Running::start(&publish).wait();
    assert!(status.success(), "{status}");
    assert_eq!(
        (&totals[0]["samples"]["numbered"], &totals[0]["samples"]["source"]),
        (&json!(88), &json!(12))
    );
    let (status, lines) = reader.wait();
    assert!(status.success(), "{status}");
    let account = lines.iter().find(|line| line["event"] == "account").expect("an account");
    assert_eq!(account["elements"]["lost"], json!({"source": 12 * 6}), "{account}");
    let schema = &lines.iter().find(|line| line["event"] == "began").expect("it began")["schema"];
    assert_eq!(schema["channels"][0]["scale"], 0.5, "{schema}");
}

#[test]
fn a_replay_tells_the_stages_that_its_holes_were_lost_at() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus());
    recorded(folder.path(), Dtype::U8);
    let root = folder.path().to_str().unwrap();
    let reader = Running::start(&["sub", "again/**", "--until-end", "--json", "--bus", &bus]);
    let what = ["replay", root, "--run", "r", "--prefix", "again", "--speed", "10"];
    let (status, totals) =
        Running::start(&[&what[..], &["--wait", "60s", "--json", "--bus", &bus]].concat()).wait();
    assert!(status.success(), "{status}");
    let inherited = &totals[0]["inherited"];
    assert_eq!((&inherited["stream"], &inherited["run"]), (&json!("lab/probe"), &json!("r")));
    // Of samples 73 and 99, 4 and 5 elements are stored, and not published.
    let expected = json!({"injected": 60, "network": 2});
    assert_eq!((&inherited["lost"], &inherited["unexplained"]), (&expected, &json!(1)), "{inherited}");
    assert_eq!((&inherited["left_out"], &inherited["holes"]), (&json!(9), &json!(3)), "{inherited}");
    assert_eq!((&inherited["elements"], &totals[0]["samples"]["source"]), (&json!(12 * 6), &json!(12)));
    assert_eq!(totals[0]["readers"].as_array().map(Vec::len), Some(1), "it was waited for");

    let (status, lines) = reader.wait();
    assert!(status.success(), "{status}");
    let labels = &lines.iter().find(|line| line["event"] == "began").expect("it began")["schema"]["labels"];
    assert_eq!(labels["replay_of"], json!(format!("r/lab/probe/{EPOCH}")));
    assert_eq!(labels["replay_from"], json!(FIRST.to_string()));
    assert_eq!(labels["replay_lost"], json!("injected 60, network 2"));
    let account = lines.iter().find(|line| line["event"] == "account").expect("an account");
    assert_eq!(account["elements"]["lost"], json!({"source": 12 * 6}), "{account}");
    assert_eq!(account["elements"]["first"], 0, "nothing was sent before the reader was there");

    let output = run(&[&what[..], &["--wait", "0s", "--bus", &bus]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "3 holes inherited from lab/probe, 72 elements: injected 60, network 2, unexplained 1, of samples \
                    recorded in part 9";
    assert!(said.contains(expected), "{said}");
}
