//! Files of every version ever released must stay readable: they lie under `tests/golden/vN`.
//!
//! `v1` was written before files told their checksums and whose they are, `v1-sealed` since.
//! To add those of a new version: `cargo test -p archive -- --ignored golden::`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, FileStore, Input, Scope, Store};
use ledger::Stage;

use crate::scene::{account, at_ms, began, block, gap, open, read_back};

/// What is written today.
const TODAY: &str = "v1-sealed";

fn golden(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version)
}

fn write(root: &Path) {
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root).unwrap());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), Input::Began(began(0))).unwrap();
    for first in [0, 10, 30] {
        recorder.handle(at_ms(first), Input::Block(&block(first, 10))).unwrap();
    }
    recorder.handle(at_ms(50), Input::Gap(&gap(0, 20..30, Some(Stage::ReceiverSocketBuffer)))).unwrap();
    recorder.handle(at_ms(60), Input::Ended(account())).unwrap();
    recorder.close(at_ms(70)).unwrap();
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
}

#[test]
#[ignore = "writes the golden files of the current version"]
fn writes_the_golden_files() {
    assert!(!golden(TODAY).exists(), "released files are never rewritten");
    write(&golden(TODAY));
}
