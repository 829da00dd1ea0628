//! Golden files: every version ever released must stay readable; they are under `tests/golden/vN`.
//!
//! `v1` was written before files had checksums and the identity of their stream, `v1-sealed` since;
//! `v1-sealed-several` is of two recorders, in Parquet and in the recorded form, and the second recorder was killed.
//! To add those of a new version: `cargo test -p tallycast-archive -- --ignored golden::`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, FileStore, RecordingState, Scope, Store, compact};
use ledger::Stage;
use tallycast::Event;

use crate::scene::{PER_SAMPLE, account, at_ms, began, block, gap, open, read_back};

/// Name of the version that is written today.
const TODAY: &str = "v1-sealed";
const SEVERAL_TODAY: &str = "v1-sealed-several";

fn golden(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version)
}

fn write(root: &Path) {
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root).unwrap());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in [0, 10, 30] {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    recorder.handle(at_ms(50), &Event::Gap(gap(0, 20..30, Some(Stage::ReceiverSocketBuffer)))).unwrap();
    recorder.handle(at_ms(60), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(70)).unwrap();
}

/// Records with two recorders, and leaves the second as if it had been killed.
fn write_several(root: &Path) {
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root).unwrap());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..200).step_by(10).filter(|first| *first != 100) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    recorder.handle(at_ms(200), &Event::Gap(gap(0, 100..110, Some(Stage::Injected)))).unwrap();
    let closed = recorder.close(at_ms(210)).unwrap();
    let (_, compacted) = closed.split_last().unwrap();
    compacted.iter().for_each(|segment| drop(compact(&*store, segment).unwrap().unwrap()));
    let mut recorder = open(&store, at_ms(250)).unwrap();
    recorder.handle(at_ms(250), &Event::Began(began(250))).unwrap();
    for first in (250..300).step_by(10) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    recorder.tick(at_ms(320));
    std::mem::forget(recorder);
}

fn assert_several(root: &Path) {
    let store: Arc<dyn Store> = Arc::new(FileStore::open(root).unwrap());
    let read = read_back(&store);
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), [0..100, 110..200, 250..300]);
    let [lost, absent] = &read.holes[..] else { panic!("a loss and an absence: {:?}", read.holes) };
    assert_eq!((lost.lost[Stage::Injected], absent.reader_absent), (10 * PER_SAMPLE, 50 * PER_SAMPLE));
    let archive = Archive::open(root).unwrap();
    let found = archive.verify(&Scope::default(), &mut |_| {}).unwrap();
    assert_eq!((found.contradictions, found.samples, found.missing_samples), (Vec::new(), 240, 60));
}

#[test]
fn several_recorders_parquet_and_a_recorder_that_was_killed_are_read_and_recorded_on() {
    assert_several(&golden(SEVERAL_TODAY));
    let folder = copy_of(SEVERAL_TODAY);
    let epoch = folder.path().join(format!("run=shot-7/stream=lab%2Fprobe/epoch={}", crate::scene::EPOCH));
    let has = |end: &str| {
        let mut names = std::fs::read_dir(&epoch).unwrap().map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_str().unwrap().ends_with(end))
    };
    assert!([".parquet", ".arrows", "account-000001.json"].into_iter().all(has));
    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
    let state = || crate::scene::stream(&store).1.epochs[0].state;
    assert_eq!(state(), RecordingState::Open, "its recorder was killed");
    open(&store, at_ms(1_000)).unwrap().close(at_ms(1_001)).unwrap();
    assert_eq!(state(), RecordingState::Cut);
    assert_several(folder.path());
}

fn assert_scene(root: &Path) {
    let store: Arc<dyn Store> = Arc::new(FileStore::open(root).unwrap());
    let read = read_back(&store);
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), [0..20, 30..40]);
    assert_eq!(read.holes.len(), 1);
    assert_eq!(read.holes[0].lost[Stage::ReceiverSocketBuffer], 30);
}

#[test]
fn files_of_every_version_are_read_and_nothing_in_them_contradicts() {
    for version in ["v1", TODAY] {
        assert_scene(&golden(version));
        let archive = Archive::open(&golden(version)).unwrap();
        let found = archive.verify(&Scope::default(), &mut |_| {}).unwrap();
        assert_eq!(found.contradictions, [], "{version}");
        assert_eq!((found.samples, found.missing_samples), (30, 10), "{version}");
    }
}

#[test]
fn an_index_that_is_lost_is_made_again_in_files_of_every_version() {
    for version in ["v1", TODAY] {
        let folder = copy_of(version);
        let run = folder.path().join("run=shot-7/stream=lab%2Fprobe");
        let epoch = run.join(format!("epoch={}", crate::scene::EPOCH));
        std::fs::remove_file(epoch.join("segment-000001.index")).unwrap();
        assert_scene(folder.path());
        let damaged = || {
            let (streams, _) =
                Archive::open(folder.path()).unwrap().survey(&"shot-7".parse().unwrap()).unwrap();
            streams[0].epochs[0].damaged.clone()
        };
        assert!(damaged()[0].contains("segment-000001.index is missing"), "{:?}", damaged());
        let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
        open(&store, at_ms(1_000)).unwrap().close(at_ms(1_001)).unwrap();
        assert!(epoch.join("segment-000001.index").is_file());
        assert_eq!(damaged(), Vec::<String>::new());
        assert_scene(folder.path());
    }
}

/// Returns a copy of the files of a version.
pub(crate) fn copy_of(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&golden(version), folder.path());
    folder
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn what_is_written_today_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    assert_scene(folder.path());
    assert_same_texts(TODAY, folder.path());
    let folder = tempfile::tempdir().unwrap();
    write_several(folder.path());
    assert_same_texts(SEVERAL_TODAY, folder.path());
    // The lock ends with its process.
    std::fs::remove_file(folder.path().join("run=shot-7/recorder.lock")).unwrap();
    assert_several(folder.path());
}

/// Checks that the JSON files are byte for byte those of a version, but for the reader's account, which is a subscriber's.
fn assert_same_texts(version: &str, root: &Path) {
    let epoch = format!("run=shot-7/stream=lab%2Fprobe/epoch={}", crate::scene::EPOCH);
    let is_text = |name: &str| name.ends_with(".json") || name.ends_with(".jsonl");
    let mut count = 0;
    for folder in ["", &epoch] {
        for entry in std::fs::read_dir(golden(version).join(folder)).unwrap() {
            let entry = entry.unwrap();
            if is_text(entry.file_name().to_str().unwrap()) {
                let text = |path: &Path| without_reader(std::fs::read_to_string(path).unwrap());
                assert_eq!(text(&root.join(folder).join(entry.file_name())), text(&entry.path()));
                count += 1;
            }
        }
    }
    assert!(count >= 4, "{count} files");
}

/// Removes the account of the recorder as a reader, and the checksum over it.
fn without_reader(text: String) -> String {
    let Some((before, reader)) = text.split_once("\n  \"reader\": {") else { return text };
    let (_, after) = reader.split_once("\n  },").unwrap();
    let (after, _) = after.split_once(",\n  \"crc32c\"").unwrap();
    before.to_owned() + after
}

#[test]
#[ignore = "writes the golden files of the current version"]
fn writes_the_golden_files() {
    let all = [(TODAY, write as fn(&Path)), (SEVERAL_TODAY, write_several)];
    let missing: Vec<_> = all.into_iter().filter(|(version, _)| !golden(version).exists()).collect();
    assert!(!missing.is_empty(), "released files are never rewritten");
    missing.into_iter().for_each(|(version, write)| write(&golden(version)));
}
