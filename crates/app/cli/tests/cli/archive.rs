//! Recording, asking, exporting, replaying; and a recorder that is killed.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

use archive::{Archive, Piece, Recording, RunName};
use rustix::process::Signal;
use serde_json::{Value, json};
use source::{Shape, Source, WaveOptions};
use support::ports::{private_bus, private_bus_from_now};
use support::wait_until;
use tallycast::{StreamName, WallTime};

use crate::accounts::{Accounts, count};
use crate::program::{Running, run};
use crate::reaches::{host_bus, memory};

/// Starts a publisher of the samples of [`ramp`].
fn publisher(bus: &str, loss: &[&str]) -> Running {
    let wave = ["--wave", "ramp", "--rate", "20k", "--dtype", "i32"];
    Running::start(&[&["pub", "test/wave"], &wave[..], loss, &["--json", "--bus", bus]].concat())
}

const LOSS: [&str; 2] = ["--loss", "2%"];

/// Makes the publisher's samples.
fn ramp(samples: u64) -> Vec<u8> {
    let options = WaveOptions {
        dtype: tallycast::Dtype::I32,
        samples: Some(samples),
        ..WaveOptions::new("test/wave".parse().unwrap(), Shape::Ramp, "20k".parse().unwrap())
    };
    let mut wave = options.open().unwrap();
    let mut bytes = Vec::new();
    while let source::Piece::Samples(samples) = wave.next(NonZeroU64::MAX).unwrap() {
        bytes.extend_from_slice(samples);
    }
    bytes
}

fn recording(root: &Path, run: &str) -> Option<Recording> {
    let (run, name): (RunName, StreamName) = (run.parse().unwrap(), "test/wave".parse().unwrap());
    Archive::open(root).ok()?.stream(&run, &name).ok()?.epochs.pop()
}

/// Reads a recording; every sample must be the published one. Returns the indices: of samples, and of holes.
fn read_and_compare(root: &Path, recording: &Recording) -> (u64, u64) {
    let expected = ramp(recording.stored_index);
    let always = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
    let (mut samples, mut missing) = (0, 0);
    for piece in Archive::open(root).unwrap().epoch(recording, always) {
        match piece.unwrap() {
            Piece::Block(block) => {
                let start = usize::try_from(block.first_index).unwrap() * 4;
                let bytes = block.data.as_bytes();
                assert_eq!(bytes, &expected[start..start + bytes.len()], "block at {}", block.first_index);
                samples += block.samples;
            }
            Piece::Hole(hole) => missing += hole.samples,
            Piece::Epoch(_) => {}
        }
    }
    (samples, missing)
}

#[test]
fn everything_acknowledged_survives_a_killed_recorder() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus_from_now());
    let (root, publisher) = (folder.path(), publisher(&bus, &LOSS));
    let root_text = root.to_str().unwrap();
    let record =
        ["record", "test/*", "--run", "crash", "--root", root_text, "--until-end", "--json", "--bus", &bus];
    let recorder = Running::start(&record);
    // Wait for a second of acknowledged samples, then pull the plug.
    let acknowledged = wait_until("samples", || recording(root, "crash").filter(|it| it.samples > 20_000));
    recorder.signal(Signal::KILL);
    drop(recorder);
    let found = recording(root, "crash").unwrap();
    assert!(found.stored_index >= acknowledged.stored_index);
    let (samples, missing) = read_and_compare(root, &found);
    // A loss behind the last stored sample may be known too.
    assert!(samples + missing >= found.stored_index - found.first_index);
    assert!(samples >= acknowledged.samples);

    // The same command continues the recording; the time between is a gap of its own kind.
    let recorder = Running::start(&record);
    wait_until("more samples", || recording(root, "crash").filter(|it| it.samples > found.samples + 10_000));
    publisher.signal(Signal::INT);
    assert!(publisher.wait().0.success());
    let (status, lines) = recorder.wait();
    assert!(status.success(), "{lines:?}");
    let accounts = Accounts::whole(&lines);
    let whole = recording(root, "crash").unwrap();
    let (samples, missing) = read_and_compare(root, &whole);
    // Not up to the last stored sample: the stream's last datagram may be one of those withheld.
    assert_eq!(whole.first_index + samples + missing, accounts.next());
    assert!(whole.gaps.iter().any(|gap| gap.kind == tallycast::GapKind::ReaderAbsent), "{:?}", whole.gaps);
}

#[test]
fn a_recording_is_listed_exported_and_replayed_with_its_gaps() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus_from_now());
    let root = folder.path();
    let root_text = root.to_str().unwrap();
    let recorder = Running::start(&[
        "record",
        "**",
        "--run",
        "r1",
        "--root",
        root_text,
        "--until-end",
        "--json",
        "--bus",
        &bus,
    ]);
    let publisher = publisher(&bus, &LOSS);
    wait_until("samples", || recording(root, "r1").filter(|it| it.samples > 20_000));
    publisher.signal(Signal::INT);
    let totals = publisher.wait().1.remove(0);
    let (status, told) = recorder.wait();
    assert!(status.success(), "{told:?}");
    let accounts = Accounts::whole(&told);
    assert_eq!(count(&accounts.last()["archive"]["stored"]), accounts.delivered());
    assert_eq!(accounts.next(), count(&totals["samples"]["offered"]));

    let listed = lines(&["query", root_text, "--list", "--json"]);
    assert_eq!(listed[0]["stream"], "test/wave");
    assert_eq!(listed[0]["state"], "closed");
    assert_eq!(listed[0]["lost"], json!(accounts.lost()));
    let (samples, missing) = read_and_compare(root, &recording(root, "r1").unwrap());
    assert_eq!(samples, accounts.delivered());
    assert_eq!(listed[0]["complete"], json!(missing == 0));

    let csv = root.join("wave.csv");
    let exported =
        lines(&["query", root_text, "test/wave", "--export", "csv", csv.to_str().unwrap(), "--json"]);
    assert_eq!(exported[0]["samples"], json!(samples));
    let text = std::fs::read_to_string(&csv).unwrap();
    let rows = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count();
    assert_eq!(rows as u64, samples);

    let reader = Running::start(&["sub", "again/**", "--json", "--until-end", "--bus", &bus]);
    let replay = ["replay", root_text, "--run", "r1", "--prefix", "again", "--speed", "4", "--wait", "60s"];
    let replayed = lines(&[&replay[..], &["--json", "--bus", &bus]].concat());
    assert_eq!(replayed[0]["samples"]["source"], json!(missing));
    assert_eq!(replayed[0]["samples"]["numbered"], json!(samples));
    // One element per sample: the losses of the recording are the holes of the replay.
    assert_eq!(replayed[0]["inherited"]["lost"], json!(accounts.lost()));
    assert_eq!(replayed[0]["inherited"]["elements"], json!(missing));
    let (status, told) = reader.wait();
    assert!(status.success(), "{status}");
    Accounts::whole(&told);
}

#[test]
fn a_recorder_that_is_told_to_end_has_stored_all_it_was_handed() {
    // Within one host, where a delayed publisher does not count as silent.
    let (folder, memory) = (tempfile::tempdir().unwrap(), memory());
    let bus = host_bus(&memory);
    let (root, _publisher) = (folder.path(), publisher(&bus, &[]));
    let root_text = root.to_str().unwrap();
    let record = ["record", "test/*", "--run", "r", "--root", root_text, "--json", "--bus", &bus];
    let recorder = Running::start(&record);
    wait_until("samples", || recording(root, "r").filter(|it| it.samples > 10_000));
    recorder.signal(Signal::INT);
    let (status, lines) = recorder.wait();
    assert!(status.success(), "{lines:?}");
    let account = lines.iter().find(|line| line["event"] == "account").expect("an account");
    assert_eq!(account["archive"]["accepted"], account["elements"]["delivered"], "{account}");
    assert_eq!(account["archive"]["stored"], account["elements"]["delivered"]);
    // The first to leave cuts: the reader's account and the recording agree.
    assert_eq!(account["state"], "cut");
    assert_eq!(recording(root, "r").unwrap().state, archive::RecordingState::Cut);
}

#[test]
fn a_publisher_that_died_and_came_back_is_recorded_twice() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus_from_now());
    let root = folder.path();
    let root_text = root.to_str().unwrap();
    let recorder =
        Running::start(&["record", "test/*", "--run", "r", "--root", root_text, "--json", "--bus", &bus]);
    let first = publisher(&bus, &LOSS);
    wait_until("samples", || recording(root, "r").filter(|it| it.samples > 1_000));
    first.signal(Signal::KILL);
    drop(first);
    let _second = publisher(&bus, &LOSS);
    let epochs = || {
        Some(
            Archive::open(root)
                .ok()?
                .stream(&"r".parse().unwrap(), &"test/wave".parse().unwrap())
                .ok()?
                .epochs,
        )
    };
    wait_until("a second epoch", || epochs().filter(|it| it.len() == 2 && it[1].samples > 1_000));
    recorder.signal(Signal::INT);
    let lines = recorder.wait().1;
    let mut epochs: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line["event"] == "account") {
        epochs.entry(line["epoch"].as_str()).or_default().push(line);
    }
    assert_eq!(epochs.len(), 2, "{lines:?}");
    for accounts in epochs.into_values().map(Accounts::of) {
        assert_eq!(count(&accounts.last()["archive"]["accepted"]), accounts.delivered());
    }
}

#[test]
fn a_recorder_that_finds_something_damaged_says_so_records_on_and_ends_with_1() {
    let (folder, memory) = (tempfile::tempdir().unwrap(), memory());
    let bus = host_bus(&memory);
    let (root, _publisher) = (folder.path(), publisher(&bus, &[]));
    let root_text = root.to_str().unwrap();
    let record = |signal: Signal| {
        let before = recording(root, "r").map_or(0, |it| it.samples);
        let record = ["record", "test/*", "--run", "r", "--root", root_text, "--json", "--bus", &bus];
        let (recorder, mut heard) = Running::start_heard(&record);
        let is_on = |it: &Recording| it.attended && it.samples > before + 5_000;
        wait_until("samples", || recording(root, "r").filter(is_on));
        recorder.signal(signal);
        let (status, _) = recorder.wait();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut heard, &mut said).unwrap();
        (status.code(), said)
    };
    // Killed, so that segment and index are as they were written.
    record(Signal::KILL);
    let epoch = root.join("run=r/stream=test%2Fwave");
    let epoch = std::fs::read_dir(epoch).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(epoch.join("segment-000001.index")).unwrap();
    let (code, said) = record(Signal::INT);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("segment-000001.index was damaged and is rebuilt"), "{said}");
    // It is intact again.
    let (code, said) = record(Signal::INT);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(run(&["archive", "verify", root_text]).status.code(), Some(0));
    // Data that cannot be restored stay as they are, and every command reports them.
    std::fs::remove_file(epoch.join("segment-000001.parquet")).unwrap();
    for _ in 0..2 {
        let (code, said) = record(Signal::INT);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("segment-000001.arrows and its index are missing"), "{said}");
    }
    let found = recording(root, "r").unwrap();
    read_and_compare(root, &found);
}

#[test]
fn a_run_without_a_name_is_named_and_said_where_it_is() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus_from_now());
    let root = folder.path().to_str().unwrap();
    let record = ["record", "test/*", "--archive", root, "--station", "daq-3", "--json", "--bus", &bus];
    let recorder = Running::start(&record);
    let began = recorder.lines_until(|line| line["event"] == "recording").pop().unwrap();
    let run = began["run"].as_str().unwrap().to_owned();
    assert!(run.ends_with("Z-daq-3"), "{run}");
    assert_eq!(began["root"], root);
    assert!(folder.path().join(format!("run={run}")).is_dir());
    recorder.signal(Signal::INT);
    assert_eq!(recorder.wait().0.code(), Some(1), "nothing was recorded");
}

#[test]
fn recording_nothing_is_said() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus());
    let root_text = folder.path().to_str().unwrap();
    let output =
        run(&["record", "no/such", "--run", "r", "--root", root_text, "--duration", "100ms", "--bus", &bus]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nothing was recorded") && said.contains("tallycast ls"), "{said}");
}

#[test]
fn what_an_archive_does_not_have_is_refused_with_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["query", folder.path().to_str().unwrap(), "--list"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(folder.path().to_str().unwrap()), "{said}");
}

#[test]
fn an_archive_is_verified_and_what_is_damaged_is_said_with_exit_codes() {
    use archive::{FileStore, Options, Recorder};
    use tallycast::{Event, StreamId, StreamInfo};
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let root_text = root.to_str().unwrap();
    let (name, epoch) =
        ("lab/ramp".parse::<StreamName>().unwrap(), tallycast::Epoch { start_ns: 7, incarnation: 9 });
    let channels = vec![sample::Channel::new("u", "V")];
    let schema = sample::Schema::new(tallycast::Dtype::F8, "1k".parse().unwrap(), channels).unwrap();
    let schema = std::sync::Arc::new(schema);
    let name = std::sync::Arc::new(name);
    let info = StreamInfo {
        name: name.clone(),
        id: StreamId(1),
        epoch,
        origin: None,
        schema: schema.clone(),
        station: String::new(),
        first_index: 0,
        join: 1,
    };
    let now = units::Instant::ORIGIN;
    let store = std::sync::Arc::new(FileStore::create(root).unwrap());
    let mut recorder = Recorder::open(store, "r".parse().unwrap(), Options::default(), now).unwrap();
    recorder.handle(now, &Event::Began(info.into())).unwrap();
    let block = sample::Block {
        stream: name,
        schema,
        epoch,
        first_index: 0,
        t0: WallTime::from_nanos(7),
        samples: 100,
        data: sample::SampleBuffer::zeroed(800),
        missing: units::RangeSet::new(),
    };
    recorder.handle(now, &Event::Block(block)).unwrap();
    recorder.close(now).unwrap();

    let verify = || run(&["archive", "verify", root_text, "--json"]);
    let last = |output: &std::process::Output| -> Value {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    };
    let whole = verify();
    assert_eq!((whole.status.code(), last(&whole)["samples"].clone()), (Some(0), json!(100)));
    let epoch = root.join("run=r/stream=lab%2Framp").join(format!("epoch={epoch}"));
    let flip = |name: &str, from_end: usize| {
        let path = epoch.join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let place = bytes.len() - from_end;
        bytes[place] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    // The index is rebuilt from the segment: everything is read, and the damage is reported.
    flip("segment-000001.index", 100);
    let damaged = verify();
    assert_eq!((damaged.status.code(), last(&damaged)["samples"].clone()), (Some(1), json!(100)));
    assert_eq!(run(&["query", root_text, "--list"]).status.code(), Some(1));
    flip("segment-000001.index", 100);
    // A value: only who reads it notices, and has a hole.
    flip("segment-000001.arrows", 60);
    assert_eq!(run(&["query", root_text, "--list"]).status.code(), Some(0));
    let damaged = verify();
    assert_eq!((damaged.status.code(), last(&damaged)["missing_samples"].clone()), (Some(1), json!(100)));
    let gaps = run(&["query", root_text, "lab/ramp", "--gaps", "--json"]);
    assert_eq!(gaps.status.code(), Some(1));
    assert_eq!(last(&gaps)["lost"], json!({"archive_write": 100}));
    assert_eq!(run(&["archive", "verify", root_text, "--run", "none"]).status.code(), Some(2));
}

/// Runs a verb that prints lines of JSON, to its end.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
