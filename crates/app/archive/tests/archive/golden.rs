//! Files of every version ever released must stay readable: they lie under `tests/golden/vN`.
//!
//! To add those of a new version: `cargo test -p archive -- --ignored golden::`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{FileStore, Input, Store};
use ledger::Stage;

use crate::scene::{account, at_ms, began, block, gap, open, read_back};

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}"))
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
fn files_of_version_1_are_read() {
    assert_scene(&golden(1));
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
    assert!(!golden(1).exists(), "released files are never rewritten");
    write(&golden(1));
}
