//! Damaged files: what they held is a hole that names them, and everything else is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, Input, RecordingState, Store, compact_run};
use ledger::Stage;

use crate::forgetful::Forgetful;
use crate::scene::{PER_SAMPLE, account, at_ms, began, block, open, read_back, stream};

/// 1,000 samples in several Parquet segments.
fn compacted() -> (Forgetful, Arc<dyn Store>) {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), Input::Began(began(0))).unwrap();
    for first in (0..1_000).step_by(10) {
        recorder.handle(at_ms(first), Input::Block(&block(first, 10))).unwrap();
    }
    recorder.handle(at_ms(1_200), Input::Ended(account())).unwrap();
    recorder.close(at_ms(1_210)).unwrap();
    assert!(compact_run(&*store, &"shot-7".parse().unwrap()).unwrap().len() > 2);
    (disk, store)
}

fn named(disk: &Forgetful, end: &str) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| path.to_str().unwrap().ends_with(end);
    disk.paths().into_iter().filter(ours).collect()
}

fn cut(store: &Arc<dyn Store>, path: &Path) {
    store.append_to(path).unwrap().truncate(2_000).unwrap();
}

/// What a damage of some segments must come to: a hole for each, counted, with the file's name.
fn check_holes(store: &Arc<dyn Store>, damaged: &[&PathBuf]) {
    let read = read_back(store);
    assert_eq!(read.holes.len(), damaged.len(), "{:?}", read.holes);
    for (hole, path) in read.holes.iter().zip(damaged) {
        assert_eq!(hole.lost[Stage::ArchiveWrite], hole.samples * PER_SAMPLE);
        assert!(hole.gaps[0].evidence[0].starts_with(path.to_str().unwrap()), "{:?}", hole.gaps);
    }
    let missing: u64 = read.holes.iter().map(|hole| hole.samples).sum();
    assert_eq!(read.samples.len() + missing, 1_000);
}

#[test]
fn a_cut_segment_is_a_hole_that_names_it_wherever_it_lies() {
    let count = named(&compacted().0, ".parquet").len();
    for number in 0..count {
        let (disk, store) = compacted();
        let paths = named(&disk, ".parquet");
        cut(&store, &paths[number]);
        check_holes(&store, &[&paths[number]]);
        let (_, entry) = stream(&store);
        let recording = &entry.epochs[0];
        assert_eq!((recording.first_index, recording.stored_index), (0, 1_000));
        assert!(recording.damaged[0].contains("segment-"), "{:?}", recording.damaged);
        assert_eq!(recording.losses().0[Stage::ArchiveWrite], (1_000 - recording.samples) * PER_SAMPLE);
    }
}

#[test]
fn flipped_bytes_never_end_a_reading() {
    let (disk, _) = compacted();
    let path = named(&disk, ".parquet")[1].clone();
    let size = archive::read_whole(&disk, &path).unwrap().len();
    for offset in (0..size).step_by(97) {
        let (disk, store) = compacted();
        disk.flip(&path, offset);
        let archive = Archive::on(store).unwrap();
        let entry = archive.stream(&"shot-7".parse().unwrap(), &crate::scene::name()).unwrap();
        let mut next = 0;
        for piece in archive.range(&entry, crate::scene::everything()) {
            match piece.unwrap() {
                archive::Piece::Block(block) => {
                    assert_eq!(block.first_index, next, "a silent hole after byte {offset}");
                    next = block.next_index();
                }
                archive::Piece::Hole(hole) => {
                    assert_eq!(hole.first_index, next, "a silent hole after byte {offset}");
                    next += hole.samples;
                }
                archive::Piece::Epoch(_) => {}
            }
        }
        assert_eq!(next, 1_000, "after byte {offset}");
    }
}

#[test]
fn a_recorder_goes_on_behind_a_damaged_segment() {
    let (disk, store) = compacted();
    let paths = named(&disk, ".parquet");
    cut(&store, paths.last().unwrap());
    let mut recorder = open(&store, at_ms(2_000)).unwrap();
    recorder.handle(at_ms(2_000), Input::Began(began(1_000))).unwrap();
    recorder.handle(at_ms(2_000), Input::Block(&block(1_000, 10))).unwrap();
    recorder.handle(at_ms(2_001), Input::Ended(account())).unwrap();
    recorder.close(at_ms(2_002)).unwrap();
    let read = read_back(&store);
    let [hole] = &read.holes[..] else { panic!("one hole: {:?}", read.holes) };
    assert_eq!(hole.lost[Stage::ArchiveWrite], hole.samples * PER_SAMPLE, "nobody was absent: {hole:?}");
    assert!(read.samples.contains(1_009));
}

#[test]
fn without_its_description_a_recording_is_read_by_that_of_its_segments() {
    let (disk, store) = compacted();
    let before = stream(&store).1.epochs[0].clone();
    let path = named(&disk, "stream.json").remove(0);
    let written = archive::read_whole(&*store, &path).unwrap();
    store.remove(&path).unwrap();
    let after = stream(&store).1.epochs[0].clone();
    assert_eq!((&after.description, after.samples), (&before.description, 1_000));
    // The next recorder writes it down again.
    drop(open(&store, at_ms(2_000)).unwrap());
    assert_eq!(archive::read_whole(&*store, &path).unwrap(), written);

    store.remove(&path).unwrap();
    named(&disk, ".parquet").iter().for_each(|path| cut(&store, path));
    let archive = Archive::on(Arc::clone(&store)).unwrap();
    let (streams, unreadable) = archive.survey(&"shot-7".parse().unwrap()).unwrap();
    assert!(streams.is_empty());
    assert!(unreadable[0].cause.to_string().contains("stream.json is missing"), "{unreadable:?}");
}

#[test]
fn an_epoch_that_cannot_be_read_takes_no_other_with_it() {
    let (_, store) = compacted();
    let other = Path::new("run=shot-7/stream=other/epoch=7-0000000000000001/stream.json");
    archive::replace(&*store, other, b"{\"format\":\"tallycast-stream\",\"version\":2}").unwrap();
    let archive = Archive::on(Arc::clone(&store)).unwrap();
    let (streams, unreadable) = archive.survey(&"shot-7".parse().unwrap()).unwrap();
    assert_eq!((streams.len(), unreadable.len()), (1, 1));
    assert!(unreadable[0].cause.to_string().contains("version 2"));
    assert_eq!(streams[0].epochs[0].state, RecordingState::Closed);
}
