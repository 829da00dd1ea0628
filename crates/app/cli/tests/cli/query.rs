//! Queries of an archive: gaps, damage, and exports that are complete or absent.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use archive::{FileStore, Options, Recorder, Store, compact_run};
use ledger::{Account, AccountState, Gap, GapKind, HopCounts, ReaderRows, Stage, StageCounts};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema, StreamName};
use serde_json::Value;
use source::{FileOptions, Piece, Source};
use tallycast::{Event, Reach, StreamAccount, StreamGap, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

use crate::program::{run, run_with};

const EPOCH: Epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 };
const PERIOD_NS: i64 = 1_000_000;

/// Writes 100 samples of two channels; 40 to 50 lost in the middle, and 100 to 120 behind the last.
fn recorded(root: &Path) {
    record(root, EPOCH);
}

fn record(root: &Path, epoch: Epoch) {
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root).unwrap());
    let run: archive::RunName = "r".parse().unwrap();
    let options = Options { batch_bytes: 200, segment_bytes: 800, ..Options::default() };
    let mut recorder = Recorder::open(Arc::clone(&store), run.clone(), options, Instant::ORIGIN).unwrap();
    let name: Arc<StreamName> = Arc::new("lab/probe".parse().unwrap());
    let channels = vec![Channel::new("current", "A").with_scale(0.5, 1.0), Channel::new("voltage", "V")];
    let schema = Arc::new(Schema::new(Dtype::I16, SampleRate::hz(1_000).unwrap(), channels).unwrap());
    let info = StreamInfo {
        name: Arc::clone(&name),
        id: StreamId(1),
        epoch,
        origin: None,
        schema: Arc::clone(&schema),
        station: String::new(),
        first_index: 0,
        join: 1,
    };
    recorder.handle(Instant::ORIGIN, &Event::Began(Arc::new(info))).unwrap();
    let time = |index: u64| {
        WallTime::from_nanos(i64::try_from(epoch.start_ns).unwrap()).offset(index as i64 * PERIOD_NS)
    };
    for first in (0..100).step_by(10).filter(|first| *first != 40) {
        let bytes: Vec<u8> = (first * 2..first * 2 + 20).flat_map(|at| (at as i16).to_le_bytes()).collect();
        let block = Block {
            stream: Arc::clone(&name),
            schema: Arc::clone(&schema),
            epoch,
            first_index: first,
            t0: time(first),
            samples: 10,
            data: SampleBuffer::from_bytes(&bytes),
            missing: RangeSet::new(),
        };
        recorder.handle(Instant::from_nanos(first * 300_000_000), &Event::Block(block)).unwrap();
    }
    for (id, samples) in [(0, 40..50), (1, 100..120)] {
        let gap = Gap {
            id,
            kind: GapKind::Missing,
            positions: samples.start * 2..samples.end * 2,
            numbers: 0..0,
            lost: StageCounts::of(Stage::Injected, (samples.end - samples.start) * 2),
            inherited: HopCounts::default(),
            unexplained: 0,
            unsettled: 0,
            apportioned: false,
            evidence: Vec::new(),
        };
        let (t0, t1) = (time(samples.start), time(samples.end));
        let (stream, elements_per_sample) = (Arc::clone(&name), schema.elements_per_sample());
        let gap = StreamGap { stream, epoch, join: 1, elements_per_sample, gap, t0, t1 };
        recorder.handle(Instant::from_nanos(40_000_000_000), &Event::Gap(gap)).unwrap();
    }
    recorder.handle(Instant::from_nanos(50_000_000_000), &Event::Ended(ended(name, epoch))).unwrap();
    recorder.close(Instant::from_nanos(51_000_000_000)).unwrap();
    assert!(compact_run(&*store, &run).unwrap().len() > 2);
}

/// Returns the account of a reader whose stream has ended.
pub(crate) fn ended(stream: Arc<StreamName>, epoch: Epoch) -> StreamAccount {
    let (state, elements) = (AccountState::Closed, ReaderRows::default());
    StreamAccount {
        stream,
        id: StreamId(1),
        epoch,
        origin: None,
        upstream: Vec::new(),
        join: 1,
        follows: None,
        reader: "recorder".to_owned(),
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

fn query(root: &Path, arguments: &[&str]) -> Output {
    run(&[&["query", root.to_str().unwrap()], arguments].concat())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn gaps_behind_the_last_sample_are_shown_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let output = query(folder.path(), &["lab/probe", "--gaps", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let holes: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> =
        holes.iter().map(|hole| (hole["first_index"].as_u64(), hole["samples"].as_u64())).collect();
    assert_eq!(found, [(Some(40), Some(10)), (Some(100), Some(20))]);
    let file = folder.path().join("all.csv");
    let output = query(folder.path(), &["lab/probe", "--export", "csv", file.to_str().unwrap()]);
    assert!(said(&output).contains("90 samples, 30 missing in 2 holes"), "{}", said(&output));
}

/// A clock that was set back leaves an epoch whose times precede those of the one it follows.
#[test]
fn an_export_finds_the_epoch_by_the_range_and_asks_only_where_several_lie_in_it() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let earlier = Epoch { start_ns: EPOCH.start_ns - 3_600_000_000_000, incarnation: 8 };
    recorded(folder.path());
    record(folder.path(), earlier);
    let export = |name: &str, range: &[&str]| {
        let file = out.path().join(name);
        let export = ["lab/probe", "--export", "csv", file.to_str().unwrap()];
        let output = query(folder.path(), &[&export[..], range].concat());
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let rows = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
        let times: Vec<u64> = rows.map(|row| row.split(',').nth(1).unwrap().parse().unwrap()).collect();
        (output.status.code(), said(&output), times.len(), times.first().copied())
    };
    // The known range ends with the later epoch, 20 ms behind its last sample: its first sample is 120 ms before that.
    let found = export("first.csv", &["--from", "+0s", "--to", "+1s"]);
    assert_eq!((found.0, found.2, found.3), (Some(0), 90, Some(earlier.start_ns)), "{}", found.1);
    let found = export("second.csv", &["--from", "-120ms", "--to", "-90ms"]);
    assert_eq!((found.0, found.2, found.3), (Some(0), 30, Some(EPOCH.start_ns)), "{}", found.1);
    for range in [&[][..], &["--from", "+119ms", "--to", "-119ms"]] {
        let (code, said, rows, _) = export("both.csv", range);
        assert_eq!((code, rows), (Some(2), 0), "{said}");
        assert!(said.contains(&format!("--epoch: {earlier}, {EPOCH}")), "{said}");
    }
    let (code, said, ..) = export("between.csv", &["--from", "+120ms", "--to", "-120ms"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("nothing is recorded of lab/probe in this range"), "{said}");
}

#[test]
fn an_export_replaces_nothing_unasked_and_leaves_nothing_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let path = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    let export = |format: &str, name: &str, more: &[&str]| {
        query(folder.path(), &[&["lab/probe", "--export", format, &path(name)], more].concat())
    };
    // The array's description is next to it: a name that both would have is refused.
    let output = export("npy", "clash.json", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("does not end in .npy"), "{}", said(&output));
    for range in [["--from", "+50ms", "--to", "+20ms"], ["--from", "+50ms", "--to", "+50ms"]] {
        let output = export("csv", "a.csv", &range);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains("the range is empty"), "{}", said(&output));
    }
    let output = export("csv", "a.csv", &["--from", "+42ms", "--to", "+45ms"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("nothing is stored in this range"), "{}", said(&output));
    assert_eq!(names(out.path()), Vec::<String>::new());

    assert!(export("csv", "a.csv", &[]).status.success());
    let whole = std::fs::read(path("a.csv")).unwrap();
    let output = export("csv", "a.csv", &["--to", "+10ms"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--overwrite"), "{}", said(&output));
    assert_eq!(std::fs::read(path("a.csv")).unwrap(), whole);
    assert!(export("csv", "a.csv", &["--to", "+10ms", "--overwrite"]).status.success());
    assert!(std::fs::read(path("a.csv")).unwrap().len() < whole.len());
    assert_eq!(names(out.path()), ["a.csv"]);
}

#[test]
fn an_exported_array_plays_back_with_its_channels_times_and_holes() {
    let folder = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let path = out.path().join("probe.npy");
    let output = query(folder.path(), &["lab/probe", "--export", "npy", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(names(out.path()), ["probe.json", "probe.npy", "probe.toml"]);
    let mut played = source::open_file(&path, &FileOptions::default()).unwrap();
    let schema = played.description().schema.clone();
    assert_eq!(schema.rate, SampleRate::hz(1_000).unwrap());
    let channels: Vec<_> =
        schema.channels.iter().map(|it| (it.name.as_str(), it.unit.as_str(), it.scale)).collect();
    assert_eq!(channels, [("current", "A", 0.5), ("voltage", "V", 1.0)]);
    let (mut pieces, mut index) = (Vec::new(), 0);
    loop {
        match played.next(NonZeroU64::MAX).unwrap() {
            Piece::Samples(bytes) | Piece::Timed { samples: bytes, .. } => {
                for element in bytes.chunks_exact(2) {
                    let expected = i16::try_from(index).unwrap();
                    assert_eq!(i16::from_le_bytes(element.try_into().unwrap()), expected);
                    index += 1;
                }
            }
            Piece::Hole { samples, .. } => {
                pieces.push((index / 2, samples));
                index += samples * 2;
            }
            _ => break,
        }
    }
    assert_eq!((pieces, index), (vec![(40, 10)], 200));
}

#[test]
fn a_damaged_segment_is_named_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let segment = find(folder.path(), "segment-000002.parquet");
    let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.set_len(500).unwrap();
    let output = query(folder.path(), &["--list"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("segment-000002.parquet"), "{}", said(&output));
    assert!(said(&output).contains("elements lost in archive_write"), "{}", said(&output));
    let target = folder.path().join("rest.csv");
    let output = query(folder.path(), &["lab/probe", "--export", "csv", target.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(std::fs::read_to_string(target).unwrap().contains("archive_write"));
}

#[test]
fn whoever_reads_a_damaged_archive_says_so_and_ends_with_1() {
    let flip = |path: &Path, place: fn(usize) -> usize| {
        let mut bytes = std::fs::read(path).unwrap();
        let at = place(bytes.len());
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    type Damage<'a> = &'a dyn Fn(&Path);
    let damages: [(&str, &str, Damage<'_>); 6] = [
        ("segment-000002.parquet", "is cut", &|path| {
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(500).unwrap();
        }),
        ("segment-000002.parquet", "has a wrong value", &|path| flip(path, |_| 100)),
        ("segment-000002.parquet", "is gone", &|path| std::fs::remove_file(path).unwrap()),
        ("gaps.jsonl", "is gone", &|path| std::fs::remove_file(path).unwrap()),
        ("account.json", "has another checksum", &|path| flip(path, |size| size - 18)),
        ("stream.json", "is a folder", &|path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }),
    ];
    for (file, what, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        let (root, out) = (folder.path().join("archive"), folder.path().join("out.csv"));
        recorded(&root);
        let (root_text, out) = (root.to_str().unwrap(), out.to_str().unwrap());
        let bus = support::ports::private_bus();
        let replay = ["replay", root_text, "--run", "r", "--speed", "1000", "--wait", "0s", "--bus", &bus];
        let asked: [&[&str]; 7] = [
            &["query", root_text, "--list"],
            &["query", root_text, "lab/probe"],
            &["query", root_text, "lab/probe", "--gaps"],
            &["query", root_text, "lab/probe", "--points", "10"],
            &["query", root_text, "lab/probe", "--export", "csv", out, "--overwrite"],
            &["archive", "verify", root_text],
            &replay,
        ];
        for arguments in asked {
            assert_eq!(run(arguments).status.code(), Some(0), "nothing is damaged: {arguments:?}");
        }
        damage(&find(&root, file));
        for (number, arguments) in asked.into_iter().enumerate() {
            let output = run(arguments);
            // Listing reads only the ends of each file.
            let is_seen = number > 1 || what != "has a wrong value";
            let told = format!("{file} {what}: {arguments:?}\n{}", said(&output));
            assert_eq!(output.status.code(), Some(i32::from(is_seen)), "{told}");
            let name = file.split('.').next().unwrap();
            assert!(!is_seen || said(&output).contains(name), "{told}");
        }
    }
}

#[test]
fn the_archive_of_the_settings_is_asked_where_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("kept");
    recorded(&root);
    let settings = folder.path().join("settings.toml");
    std::fs::write(&settings, format!("[record]\nroot = '{}'", root.display())).unwrap();
    let ask = |arguments: &[&str]| {
        let all = [&["query"], arguments].concat();
        run_with(&all, &[("TALLYCAST_CONFIG", settings.to_str().unwrap())], "")
    };
    for arguments in [&[][..], &["--list"], &["lab/probe"]] {
        let output = ask(arguments);
        assert!(output.status.success() && said(&output).contains("lab/probe"), "{}", said(&output));
    }
    let output = ask(&["--gaps"]);
    assert!(said(&output).contains("no stream is given"), "{}", said(&output));
    let output = ask(&["lab/other"]);
    assert!(said(&output).contains("the archive has no stream lab/other"), "{}", said(&output));
}

fn find(folder: &Path, name: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.ends_with(name) {
                return entry;
            }
        }
    }
    panic!("no {name}");
}
