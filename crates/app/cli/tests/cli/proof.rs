//! Proof of a recording from end to end: published with proof, recorded over the network and in shared memory, asked
//! with the laboratory's public key; and changed in the archive by somebody who can write right checksums.
//!
//! A reader may lose anything under load: the truth is what the archive has of what was published.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, FileStore, Options, Piece, Recorder, Recording, RunName, Store};
use sample::{Block, SampleBuffer, StreamName};
use serde_json::{Value, json};
use support::ports::{free_address, private_bus};
use tallycast::{Event, StreamInfo, WallTime};
use tempfile::TempDir;
use units::{Instant, RangeSet, StreamId};

use crate::accounts::{Accounts, count};
use crate::program::{Running, run};
use crate::reaches::memory;

/// Samples of one element: eight intervals of 1 MiB.
const SAMPLES: u64 = 4_000_000;

/// A laboratory with one station, and the archive of its recordings.
struct Laboratory {
    folder: TempDir,
}

impl Laboratory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        let keys = ["keys", "new", keys.to_str().unwrap(), "--laboratory", "lab", "--station", "daq"];
        let made = run(&keys);
        assert!(made.status.success(), "{made:?}");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn bus(&self, bus: &str) -> String {
        format!("{bus}&keys={}", self.path("keys/daq.keys").display())
    }

    /// Publishes and records to the end; returns the number of published samples.
    fn record(&self, bus: &str, more: &[&str]) -> u64 {
        let (bus, root) = (self.bus(bus), self.path("archive"));
        let root = root.to_str().unwrap();
        let record = ["record", "lab/probe", "--run", "r", "--archive", root, "--until-end", "--json"];
        let recorder = Running::start(&[&record[..], &["--bus", &bus]].concat());
        recorder.wait_for("the recorder", |line| line["event"] == "recording");
        let (count_text, wave) = (SAMPLES.to_string(), ["--wave", "ramp", "--rate", "1M", "--dtype", "i16"]);
        let publish = ["pub", "lab/probe", "--count", &count_text, "--wait", "1m", "--json"];
        let publisher = Running::start(&[&publish[..], &wave, more, &["--bus", &bus]].concat());
        let (status, totals) = publisher.wait();
        assert!(status.success(), "{totals:?}");
        let (status, told) = recorder.wait();
        assert!(status.success(), "{told:?}");
        let accounts = Accounts::of(&told);
        assert_eq!(accounts.last()["state"], "closed");
        if let Some(to) = more.iter().skip_while(|word| **word != "--to").nth(1) {
            assert_eq!(accounts.last()["socket"]["address"], to.trim_start_matches("udp://"));
        }
        let offered = count(&totals[0]["samples"]["offered"]);
        assert_eq!((offered, accounts.next()), (SAMPLES, SAMPLES));
        offered
    }

    fn recording(&self, archive: &str) -> (Archive, Recording) {
        let archive = Archive::open(&self.path(archive)).unwrap();
        let (run, name): (RunName, StreamName) = ("r".parse().unwrap(), "lab/probe".parse().unwrap());
        let recording = archive.stream(&run, &name).unwrap().epochs.pop().unwrap();
        (archive, recording)
    }

    fn blocks(&self, archive: &str) -> Vec<Block> {
        let (archive, recording) = self.recording(archive);
        let always = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
        let pieces = archive.epoch(&recording, always).map(Result::unwrap);
        pieces.filter_map(|piece| if let Piece::Block(block) = piece { Some(block) } else { None }).collect()
    }

    /// Returns what the archive has, of `published` samples.
    fn stored(&self, published: u64) -> RangeSet {
        let mut stored = RangeSet::new();
        for block in self.blocks("archive") {
            stored.insert(block.first_index..block.first_index + block.samples);
            block.missing.iter().for_each(|gap| {
                stored.remove(block.first_index + gap.start..block.first_index + gap.end);
            });
        }
        assert!(stored.iter().all(|range| range.end <= published), "{stored:?}");
        stored
    }

    /// Asks whether a recording is proven.
    fn verify(&self, archive: &str) -> Verified {
        self.verify_by(archive, &self.path("keys/lab.authority"), &[])
    }

    /// Asks whether it is proven under another authority, or by a named station.
    fn verify_by(&self, archive: &str, authority: &Path, more: &[&str]) -> Verified {
        let root = self.path(archive);
        let (root, authority) = (root.to_str().unwrap(), authority.to_str().unwrap());
        let ask = ["query", root, "lab/probe", "--run", "r", "--verify", "--authority", authority, "--json"];
        let output = run(&[&ask[..], more].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let summary = lines.pop().expect("a summary");
        let code = output.status.code();
        assert_eq!((&summary["kind"], code), (&json!("summary"), Some(i32::from(summary["whole"] != true))));
        Verified { intervals: lines, summary }
    }
}

/// What `query --verify` printed.
struct Verified {
    intervals: Vec<Value>,
    summary: Value,
}

impl Verified {
    /// Checks every interval by what is stored of it.
    fn check(&self, stored: &RangeSet, published: u64) {
        // A reader that was kept from its processor begins later.
        let mut judged = count(&self.intervals[0]["positions"][0]);
        for line in &self.intervals {
            let positions = count(&line["positions"][0])..count(&line["positions"][1]);
            assert_eq!(positions.start, judged, "each once, in their order: {line}");
            judged = positions.end;
            let mut missing: RangeSet = core::iter::once(positions).collect();
            missing.remove_all(stored.iter());
            let ranges: Vec<Value> = missing.iter().map(|gap| json!([gap.start, gap.end])).collect();
            match line["verdict"].as_str().unwrap() {
                "proven" => assert!(missing.is_empty(), "{missing:?}: {line}"),
                "incomplete" => {
                    assert_eq!(line["missing"], json!(ranges), "by exactly what is not stored");
                    let reasons = &line["reasons"];
                    let others = ["unexplained", "unsettled", "reader_absent"].map(|it| count(&reasons[it]));
                    let lost = reasons["lost"].as_object().unwrap().values().map(count);
                    assert_eq!(
                        lost.chain(others).sum::<u64>(),
                        missing.len(),
                        "each with its reason: {line}"
                    );
                }
                // Lost with the samples of which it spoke.
                "unsigned" => {
                    assert_eq!(line["why"], "statement_lost");
                    assert!(!missing.is_empty(), "the next statement bridges whole ones: {line}");
                }
                other => panic!("{other}: {line}"),
            }
        }
        assert_eq!(judged, published, "to the end");
        let refused = (&self.summary["refused"], &self.summary["contradicted"]);
        assert_eq!(refused, (&json!(0), &json!(0)), "{}", self.summary);
        assert_eq!((&self.summary["end_stated"], &self.summary["station"]), (&json!(true), &json!("daq")));
    }

    /// Returns the verdict of each interval.
    fn verdicts(&self) -> BTreeMap<u64, String> {
        let all = self.intervals.iter().flat_map(|line| {
            let intervals = count(&line["intervals"][0])..count(&line["intervals"][1]);
            intervals.map(|interval| (interval, line["verdict"].as_str().unwrap().to_owned()))
        });
        all.collect()
    }
}

fn file(folder: &Path, name: &str) -> Option<PathBuf> {
    fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .find_map(|path| if path.is_dir() { file(&path, name) } else { path.ends_with(name).then_some(path) })
}

/// Returns the statements of a recording, in the order of their file.
fn statements(folder: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(file(folder, "statements.jsonl").unwrap()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let digits = lines.filter_map(|line| Some(line["statement"].as_str()?.to_owned()));
    let byte = |digits: &str, at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    digits.map(|digits| (0..digits.len()).step_by(2).map(|at| byte(&digits, at)).collect()).collect()
}

/// Records again what a recording has, with the recorder's own code and with its statements, but for one bit.
fn forge(laboratory: &Laboratory, sample: u64) {
    let (_, recording) = laboratory.recording("archive");
    let description = &recording.description;
    let store: Arc<dyn Store> = Arc::new(FileStore::create(&laboratory.path("forged")).unwrap());
    let (run, now) = ("r".parse().unwrap(), Instant::ORIGIN);
    let mut recorder = Recorder::open(store, run, Options::default(), now).unwrap();
    let info = StreamInfo {
        name: Arc::clone(&description.name),
        id: StreamId(1),
        epoch: description.epoch,
        origin: None,
        schema: Arc::clone(&description.schema),
        station: description.station.clone(),
        first_index: 0,
        join: 1,
    };
    recorder.handle(now, &Event::Began(Arc::new(info))).unwrap();
    for block in laboratory.blocks("archive") {
        let mut bytes = block.data.as_bytes().to_vec();
        if (block.first_index..block.first_index + block.samples).contains(&sample) {
            bytes[(sample - block.first_index) as usize * 2] ^= 1;
        }
        let forged = Block { data: SampleBuffer::from_bytes(&bytes), ..block };
        recorder.handle(now, &Event::Block(forged)).unwrap();
    }
    let stream = (&description.name, description.epoch);
    let statements = statements(&laboratory.path("archive"));
    statements.iter().for_each(|it| recorder.note_statement(now, stream, it).unwrap());
    recorder.close(now).unwrap();
}

/// Records what is published without planted loss, and then changes one bit of a proven interval.
fn proven_and_then_contradicted(bus: &str, more: &[&str]) {
    let laboratory = Laboratory::new();
    let published = laboratory.record(bus, more);
    let stored = laboratory.stored(published);
    let verified = laboratory.verify("archive");
    verified.check(&stored, published);
    assert_eq!(verified.summary["whole"], json!(stored.len() == published));
    let mut verdicts = verified.verdicts();
    let proven = |line: &&Value| line["verdict"] == "proven" && line["elements"] != 0;
    let proven = verified.intervals.iter().find(proven).expect("a reader that is not lapped all the time");
    forge(&laboratory, count(&proven["positions"][0]) + 1_000);
    // The archive itself is in order: every checksum is right.
    let forged = laboratory.path("forged");
    let checked = run(&["archive", "verify", forged.to_str().unwrap()]);
    assert!(checked.status.success(), "{checked:?}");
    verdicts.insert(count(&proven["intervals"][0]), "contradicted".to_owned());
    let verified = laboratory.verify("forged");
    assert_eq!((verified.verdicts(), &verified.summary["contradicted"]), (verdicts, &json!(1)));
}

/// Changes the file of statements, asks, and changes it back.
fn with_statements(laboratory: &Laboratory, change: impl FnOnce(&mut Vec<u8>)) -> Verified {
    let path = file(&laboratory.path("archive"), "statements.jsonl").unwrap();
    let whole = fs::read(&path).unwrap();
    let mut changed = whole.clone();
    change(&mut changed);
    fs::write(&path, changed).unwrap();
    let verified = laboratory.verify("archive");
    fs::write(&path, whole).unwrap();
    verified
}

#[test]
fn a_changed_file_of_statements_contradicts_nothing_and_is_told() {
    let laboratory = Laboratory::new();
    laboratory.record(&private_bus(), &["--proof"]);
    let genuine = laboratory.verify("archive");
    let (statements, none) = (count(&genuine.summary["statements"]), json!(0));
    let line = |bytes: &[u8], number: usize| {
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(number).unwrap().0 + 1
    };
    // A bit within the first statement: its line is damaged.
    let flipped = with_statements(&laboratory, |bytes| {
        let at = line(bytes, 0) + 200;
        bytes[at] ^= 1;
    });
    assert_eq!(count(&flipped.summary["statements"]), statements - 1);
    let fault = flipped.summary["faults"][0].as_str().unwrap();
    assert!(fault.ends_with("statements.jsonl: 1 line is damaged"), "{fault}");
    assert_eq!((&flipped.summary["contradicted"], &flipped.summary["whole"]), (&none, &json!(false)));
    // Cut behind the first statement: the rest is unsigned, and no statement tells the end.
    let cut = with_statements(&laboratory, |bytes| bytes.truncate(line(bytes, 1)));
    assert_eq!((&cut.summary["statements"], &cut.summary["end_stated"]), (&json!(1), &json!(false)));
    assert!(count(&cut.summary["unsigned"]) > 0 && cut.summary["contradicted"] == none, "{}", cut.summary);
    // Nothing but the head.
    let empty = with_statements(&laboratory, |bytes| bytes.truncate(line(bytes, 0)));
    assert!(empty.intervals.is_empty(), "{:?}", empty.intervals);
    assert_eq!((&empty.summary["station"], &empty.summary["whole"]), (&Value::Null, &json!(false)));
    assert_eq!(laboratory.verify("archive").verdicts(), genuine.verdicts());
}

#[test]
fn nothing_is_proven_by_another_laboratory_or_another_station() {
    let laboratory = Laboratory::new();
    laboratory.record(&private_bus(), &["--proof"]);
    let genuine = laboratory.verify("archive");
    let (ours, theirs) = (laboratory.path("keys/lab.authority"), Laboratory::new());
    let refused = [
        laboratory.verify_by("archive", &theirs.path("keys/lab.authority"), &[]),
        laboratory.verify_by("archive", &ours, &["--signed-by", "daq-2"]),
    ];
    for verified in refused {
        let sum = &verified.summary;
        assert_eq!(
            (&sum["proven"], &sum["statements"], &sum["station"]),
            (&json!(0), &json!(0), &Value::Null)
        );
        assert_eq!(sum["refused"], genuine.summary["statements"], "{sum}");
    }
    let named = laboratory.verify_by("archive", &ours, &["--signed-by", "daq"]);
    assert_eq!(named.verdicts(), genuine.verdicts());
}

#[test]
fn a_recording_over_multicast_is_proven_and_one_changed_bit_contradicts_its_interval_alone() {
    proven_and_then_contradicted(&private_bus(), &["--proof"]);
}

#[test]
fn a_recording_from_shared_memory_is_proven_and_one_changed_bit_contradicts_its_interval_alone() {
    let memory = memory();
    // Here the bus says it for all publishers.
    let bus = format!("{}&proof=on&shm={}", private_bus(), memory.path().display());
    proven_and_then_contradicted(&bus, &[]);
}

#[test]
fn a_recording_over_unicast_is_proven_and_one_changed_bit_contradicts_its_interval_alone() {
    proven_and_then_contradicted(&private_bus(), &["--proof", "--to", &format!("udp://{}", free_address())]);
}

#[test]
fn planted_loss_leaves_its_intervals_incomplete_by_exactly_that_and_proves_all_others() {
    let laboratory = Laboratory::new();
    let published = laboratory.record(&private_bus(), &["--proof", "--loss", "0.3%"]);
    let stored = laboratory.stored(published);
    assert!(stored.len() < published);
    let verified = laboratory.verify("archive");
    verified.check(&stored, published);
    let injected = verified.intervals.iter().filter_map(|line| line["reasons"]["lost"]["injected"].as_u64());
    assert!(injected.sum::<u64>() > 0, "{:?}", verified.intervals);
    assert_eq!(verified.summary["whole"], false);
}

#[test]
fn proof_without_keys_is_refused_with_the_remedy() {
    let wave = ["pub", "lab/probe", "--wave", "sine", "--rate", "1k"];
    let told = |more: &[&str]| {
        let refused = run(&[&wave[..], more].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        String::from_utf8(refused.stderr).unwrap()
    };
    let bus = private_bus();
    let asked = told(&["--proof", "--bus", &bus]);
    assert!(asked.contains("open the bus with the station's file of keys (keys=FILE)"), "{asked}");
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.toml");
    fs::write(&settings, format!("[bus]\naddress = \"{bus}&proof=on\"\n")).unwrap();
    let asked = told(&["--config", settings.to_str().unwrap()]);
    assert!(asked.contains("add the station's file of keys (keys=FILE), or omit proof"), "{asked}");
}
