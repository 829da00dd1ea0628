//! Damaged files: their content becomes a hole with the file's name, and everything else is read.
//! `TALLYCAST_FLIP_STRIDE=1` tries every byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, GapMap, Piece, RecordingState, Store, compact_run, read_whole};
use ledger::Stage;
use sample::{Block, SampleBuffer, StreamName};
use tallycast::Event;

use crate::forgetful::Forgetful;
use crate::scene::{
    PER_SAMPLE, account, amount, at_ms, began, began_of, block, everything, gap, open, read_back, stream,
};

/// 1,000 samples in several Parquet segments.
fn compacted() -> (Forgetful, Arc<dyn Store>) {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..1_000).step_by(10) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    recorder.handle(at_ms(1_200), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(1_210)).unwrap();
    assert!(compact_run(&*store, &"shot-7".parse().unwrap()).unwrap().len() > 2);
    (disk, store)
}

pub(crate) fn named(disk: &Forgetful, end: &str) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| path.to_str().unwrap().ends_with(end);
    disk.paths().into_iter().filter(ours).collect()
}

fn cut(store: &Arc<dyn Store>, path: &Path) {
    store.append_to(path).unwrap().truncate(2_000).unwrap();
}

/// Checks the result of damaging some segments: a hole for each, counted, with the file's name.
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
fn a_flipped_bit_anywhere_in_a_segment_is_a_hole_and_never_a_wrong_value() {
    let (disk, store) = compacted();
    let path = named(&disk, ".parquet")[1].clone();
    let size = read_whole(&disk, &path).unwrap().len();
    let stride = usize::try_from(amount("TALLYCAST_FLIP_STRIDE", 53)).unwrap();
    for offset in (0..size).step_by(stride) {
        disk.flip(&path, offset);
        // Values, times and indices are compared there; the whole file is one block of its seal.
        let read = read_back(&store);
        let missing: u64 = read.holes.iter().map(|hole| hole.samples).sum();
        assert_eq!(read.samples.len() + missing, 1_000, "byte {offset}");
        assert_eq!(read.holes.len(), 1, "byte {offset}");
        assert_eq!(read.holes[0].lost[Stage::ArchiveWrite], missing * PER_SAMPLE, "byte {offset}");
        disk.flip(&path, offset);
    }
    assert_eq!(read_back(&store).samples.len(), 1_000);
}

#[test]
fn a_flipped_bit_in_a_segment_of_many_blocks_costs_its_row_group_and_changes_no_value() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let (run, options) = ("shot-7".parse().unwrap(), archive::Options::default());
    let mut recorder = archive::Recorder::open(Arc::clone(&store), run, options, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    // Data that do not compress.
    let mut random = units::Random::new(1);
    let values: Vec<u8> = (0..30_000 * PER_SAMPLE * 4).map(|_| random.next_u64() as u8).collect();
    for (first, values) in (0..).step_by(1_000).zip(values.chunks(1_000 * PER_SAMPLE as usize * 4)) {
        let noise = Block { data: SampleBuffer::from_bytes(values), ..block(first, 1_000) };
        recorder.handle(at_ms(first), &Event::Block(noise)).unwrap();
    }
    recorder.handle(at_ms(30_000), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(30_001)).unwrap();
    assert_eq!(compact_run(&*store, &"shot-7".parse().unwrap()).unwrap().len(), 1);
    let path = named(&disk, ".parquet").remove(0);
    let size = read_whole(&disk, &path).unwrap().len();
    assert!(size > 300_000, "{size} bytes are many blocks");
    for offset in (0..size).step_by(size / 30) {
        disk.flip(&path, offset);
        let (archive, entry) = stream(&store);
        let mut missing = 0;
        for piece in archive.range(&entry, everything()) {
            match piece.unwrap() {
                Piece::Block(found) => {
                    let (start, found) = (found.first_index as usize * 12, found.data.as_bytes());
                    assert!(found == &values[start..start + found.len()], "byte {offset}");
                }
                Piece::Hole(hole) => missing += hole.samples,
                Piece::Epoch(_) => {}
            }
        }
        assert!(missing > 0, "byte {offset} is in no block");
        disk.flip(&path, offset);
    }
}

#[test]
fn a_recorder_goes_on_behind_a_damaged_segment() {
    let (disk, store) = compacted();
    let paths = named(&disk, ".parquet");
    cut(&store, paths.last().unwrap());
    let mut recorder = open(&store, at_ms(2_000)).unwrap();
    recorder.handle(at_ms(2_000), &Event::Began(began(1_000))).unwrap();
    recorder.handle(at_ms(2_000), &Event::Block(block(1_000, 10))).unwrap();
    recorder.handle(at_ms(2_001), &Event::Ended(account())).unwrap();
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
    let written = read_whole(&*store, &path).unwrap();
    store.remove(&path).unwrap();
    let after = stream(&store).1.epochs[0].clone();
    assert_eq!((&after.description, after.samples), (&before.description, 1_000));
    // The next recorder rewrites it.
    drop(open(&store, at_ms(2_000)).unwrap());
    assert_eq!(read_whole(&*store, &path).unwrap(), written);

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

/// 1,000 samples in several Arrow segments, with one loss.
pub(crate) fn closed_in_arrow() -> (Forgetful, Arc<dyn Store>) {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..1_000).step_by(10).filter(|first| *first != 500) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    let lost = gap(1, 500..510, Some(Stage::Network));
    recorder.handle(at_ms(1_190), &Event::Gap(lost)).unwrap();
    recorder.handle(at_ms(1_200), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(1_210)).unwrap();
    (disk, store)
}

#[test]
fn segments_that_were_swapped_are_not_cut_and_are_whole_once_swapped_back() {
    for ends in [&[".arrows"][..], &[".index"], &[".arrows", ".index"]] {
        let (disk, store) = closed_in_arrow();
        let swap = || {
            for end in ends {
                let paths = named(&disk, end);
                let (first, last) = (&paths[0], &paths[paths.len() - 1]);
                let [one, other] = [first, last].map(|path| read_whole(&*store, path).unwrap());
                disk.put(first, &other);
                disk.put(last, &one);
            }
        };
        let sizes = |end| {
            let size = |path: &PathBuf| store.open(path).unwrap().size_bytes().unwrap();
            named(&disk, end).iter().map(size).collect::<Vec<_>>()
        };
        swap();
        let before = sizes(".arrows");
        drop(open(&store, at_ms(2_000)).unwrap());
        assert_eq!(sizes(".arrows"), before, "{ends:?}");
        if ends.contains(&".arrows") {
            swap();
        }
        let read = read_back(&store);
        assert_eq!(read.samples.len(), 990, "{ends:?}");
    }
}

#[test]
fn a_recovery_without_the_gap_map_goes_on_with_the_number_of_the_account() {
    let (disk, store) = closed_in_arrow();
    let path = named(&disk, "gaps.jsonl").remove(0);
    store.remove(&path).unwrap();
    drop(open(&store, at_ms(2_000)).unwrap());
    let map = GapMap::decode(&read_whole(&*store, &path).unwrap()).unwrap();
    assert!(map.gaps.keys().all(|key| key.session == 1), "{map:?}");
    assert_eq!(map.gaps.len(), 1, "{map:?}");
    let (_, entry) = stream(&store);
    assert_eq!(entry.epochs[0].state, RecordingState::Closed);
    let read = read_back(&store);
    assert_eq!(read.holes.iter().map(|hole| hole.unexplained).sum::<u64>(), 10 * PER_SAMPLE);
}

#[test]
fn a_segment_that_cannot_be_read_keeps_its_reason_whatever_else_a_recovery_mends() {
    for (has_index, has_gaps, was_killed) in
        [(true, false, false), (false, false, false), (true, true, true), (false, true, true)]
    {
        let told = format!("index: {has_index}, gap map: {has_gaps}, killed: {was_killed}");
        let (disk, store) = closed_in_arrow();
        let number = named(&disk, ".arrows").len() / 2;
        let path = named(&disk, ".arrows").remove(number);
        let written = read_whole(&*store, &path).unwrap();
        disk.put(&path, b"nothing of ours");
        if !has_index {
            store.remove(&path.with_extension("index")).unwrap();
        }
        if !has_gaps {
            store.remove(&named(&disk, "gaps.jsonl")[0]).unwrap();
        }
        if was_killed {
            // The state that a dying recorder leaves.
            disk.change(&named(&disk, "account.json")[0], |bytes| {
                let mut account: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                account["state"] = "open".into();
                account.as_object_mut().unwrap().remove("crc32c");
                *bytes = account.to_string().into_bytes();
            });
        }
        let lost = || {
            let lost = |hole: &archive::Hole| hole.lost[Stage::ArchiveWrite];
            read_back(&store).holes.iter().map(lost).sum::<u64>()
        };
        let before = lost();
        assert!(before > 0, "{told}");
        assert!(stream(&store).1.epochs[0].damaged.iter().any(|it| it.contains("segment-")), "{told}");
        open(&store, at_ms(2_000)).unwrap().close(at_ms(2_001)).unwrap();
        assert_eq!(lost(), before, "{told}: nothing of it is unexplained");
        // None of it was recorded: the file is restored from a copy, and nothing contradicts.
        disk.put(&path, &written);
        assert_eq!(read_back(&store).samples.len(), 990, "{told}");
        if has_index {
            let archive = Archive::on(Arc::clone(&store)).unwrap();
            let found = archive.verify(&archive::Scope::default(), &mut |_| {}).unwrap();
            assert_eq!(found.contradictions, [], "{told}");
        }
    }
}

#[test]
fn a_stream_whose_name_ends_like_what_is_set_aside_is_recovered_and_read() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let name: Arc<StreamName> = Arc::new("lab/x.damaged".parse().unwrap());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began_of(Arc::clone(&name), 0))).unwrap();
    recorder.handle(at_ms(1), &Event::Block(Block { stream: Arc::clone(&name), ..block(0, 10) })).unwrap();
    recorder.close(at_ms(20)).unwrap();
    let archive = Archive::on(Arc::clone(&store)).unwrap();
    let (entries, _) = archive.survey(&"shot-7".parse().unwrap()).unwrap();
    assert_eq!(entries.iter().map(|entry| &entry.name).collect::<Vec<_>>(), [&name]);
    assert_eq!(entries[0].epochs[0].samples, 10);
}
