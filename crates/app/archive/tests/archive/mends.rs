//! Repairs of lost or cut files by a recovery, a compaction and a reader, one repair per test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{
    Archive, ClosedSegment, FileStore, Notice, Options, Recorder, Scope, Store, compact, read_whole,
};
use ledger::Stage;
use tallycast::Event;

use crate::damage::{closed_in_arrow, named};
use crate::forgetful::Forgetful;
use crate::golden::copy_of;
use crate::outage::notices;
use crate::scene::{EPOCH, PER_SAMPLE, account, at_ms, began, block, gap, open, read_back, small, stream};

/// End of an Arrow stream.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

fn contradictions(store: &Arc<dyn Store>) -> Vec<archive::Finding> {
    let archive = Archive::on(Arc::clone(store)).unwrap();
    archive.verify(&Scope::default(), &mut |_| {}).unwrap().contradictions
}

fn size_of(disk: &Forgetful, path: &Path) -> usize {
    read_whole(disk, path).unwrap().len()
}

#[test]
fn a_segment_whose_index_is_lost_becomes_parquet_if_it_is_whole_and_stays_if_not() {
    let (disk, store) = closed_in_arrow();
    let segments = named(&disk, ".arrows");
    let folder = segments[0].parent().unwrap().to_owned();
    named(&disk, ".index").iter().take(3).for_each(|path| store.remove(path).unwrap());
    // In the second segment the last batch is damaged, in the third one in the middle.
    disk.flip(&segments[1], size_of(&disk, &segments[1]) - 20);
    disk.flip(&segments[2], size_of(&disk, &segments[2]) / 2);
    let before = read_back(&store).samples;
    let compacted = |number| compact(&*store, &ClosedSegment { folder: folder.clone(), number });
    assert!(compacted(1).unwrap().is_some());
    for number in [2, 3] {
        let said = compacted(number).unwrap_err().to_string();
        assert!(said.contains("it is kept unchanged"), "{said}");
    }
    assert!(!disk.paths().contains(&segments[0]) && named(&disk, ".parquet").len() == 1);
    assert!(disk.paths().contains(&segments[1]) && disk.paths().contains(&segments[2]));
    assert_eq!(read_back(&store).samples, before);
}

#[test]
fn what_was_recovered_once_is_left_alone_by_the_next_recovery() {
    let (base, _) = closed_in_arrow();
    for path in named(&base, ".index") {
        let disk = base.copy();
        disk.flip(&path, 0);
        let recovered = |ms| {
            drop(open(&(Arc::new(disk.clone()) as Arc<dyn Store>), at_ms(ms)).unwrap());
            disk.paths().into_iter().map(|path| (read_whole(&disk, &path).unwrap(), path)).collect::<Vec<_>>()
        };
        let once = recovered(2_000);
        assert!(once.len() > base.paths().len(), "the damaged index is kept aside");
        assert!(recovered(3_000) == once, "{}", path.display());
    }
}

#[test]
fn a_recording_begins_where_its_account_says_if_the_line_of_its_session_is_spoiled() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(100))).unwrap();
    recorder.handle(at_ms(0), &Event::Gap(gap(0, 100..150, Some(Stage::Network)))).unwrap();
    recorder.handle(at_ms(0), &Event::Block(block(150, 50))).unwrap();
    recorder.handle(at_ms(10), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(20)).unwrap();
    spoil_session(&disk);
    assert_eq!(stream(&store).1.epochs[0].first_index, 100);
    let read = read_back(&store);
    let [hole] = &read.holes[..] else { panic!("one hole before the first sample: {:?}", read.holes) };
    assert_eq!((hole.first_index, hole.lost[Stage::Network]), (100, 50 * PER_SAMPLE));
}

/// Damages the session line of the gap map.
fn spoil_session(disk: &Forgetful) {
    let path = named(disk, "gaps.jsonl").remove(0);
    let text = String::from_utf8(read_whole(disk, &path).unwrap()).unwrap();
    disk.flip(&path, text.find("\"reader\":").unwrap() + 2);
}

#[test]
fn a_recovery_that_is_cut_while_it_replaces_a_file_leaves_the_old_one_or_the_new() {
    let (disk, _) = closed_in_arrow();
    spoil_session(&disk);
    let lost = |disk: &Forgetful, told: &str| {
        let read = read_back(&(Arc::new(disk.clone()) as Arc<dyn Store>));
        let lost: u64 = read.holes.iter().map(|hole| hole.lost[Stage::Network]).sum();
        assert_eq!((read.samples.len(), lost), (990, 10 * PER_SAMPLE), "{told}");
    };
    for cut in 1.. {
        let cutting = disk.copy();
        cutting.cut_at(cut);
        let is_finished = open(&(Arc::new(cutting.clone()) as Arc<dyn Store>), at_ms(2_000)).is_ok();
        for seed in 0..4 {
            let told = format!("cut at step {cut}, outcome {seed}");
            let found = cutting.after_power_cut(cut * 10 + seed);
            lost(&found, &told);
            drop(open(&(Arc::new(found.clone()) as Arc<dyn Store>), at_ms(3_000)).unwrap());
            lost(&found, &told);
        }
        if is_finished {
            assert!(cut > 5, "the recovery has too few steps to prove anything: {cut}");
            break;
        }
    }
}

#[test]
fn without_its_description_a_recording_is_read_by_that_of_its_segments_as_they_were_recorded() {
    let (disk, store) = closed_in_arrow();
    let path = named(&disk, "stream.json").remove(0);
    let written = read_whole(&*store, &path).unwrap();
    store.remove(&path).unwrap();
    assert_eq!(read_back(&store).samples.len(), 990);
    drop(open(&store, at_ms(2_000)).unwrap());
    assert_eq!(read_whole(&*store, &path).unwrap(), written);
    assert_eq!(contradictions(&store), []);
}

#[test]
fn only_the_end_marker_itself_is_taken_for_the_end_of_a_segment() {
    for (tail, is_end) in [(END_OF_STREAM, true), ([0x55; 8], false)] {
        let disk = Forgetful::default();
        let store: Arc<dyn Store> = Arc::new(disk.clone());
        let mut recorder = open(&store, at_ms(0)).unwrap();
        recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
        recorder.handle(at_ms(0), &Event::Block(block(0, 40))).unwrap();
        recorder.tick(at_ms(10));
        std::mem::forget(recorder);
        disk.kill();
        let path = named(&disk, ".arrows").remove(0);
        let stored = read_whole(&disk, &path).unwrap();
        disk.change(&path, |bytes| bytes.extend(tail));
        open(&store, at_ms(1_000)).unwrap().close(at_ms(1_001)).unwrap();
        assert_eq!(read_whole(&disk, &path).unwrap(), [&stored[..], &END_OF_STREAM].concat(), "{tail:x?}");
        let gaps = read_whole(&disk, &named(&disk, "gaps.jsonl")[0]).unwrap();
        let is_told = String::from_utf8(gaps).unwrap().contains("\"line\":\"trim\"");
        assert_eq!(is_told, !is_end, "{tail:x?}");
        assert_eq!(read_back(&store).samples.len(), 40);
        assert_eq!(contradictions(&store), []);
    }
}

#[test]
fn batches_that_tell_nothing_of_themselves_count_if_something_says_that_they_were_synced() {
    // Two batches without their own entries, 20 and 10 samples: by the size of the rest of the index, with the
    // account or without.
    const ENTRY: u64 = 64;
    for (index_bytes, has_account, expected) in [
        (2 * ENTRY, true, 30),
        (2 * ENTRY + 20, false, 30),
        (2 * ENTRY, false, 20),
        (ENTRY + 20, false, 20),
        (ENTRY, true, 30),
        (ENTRY, false, 0),
    ] {
        let told = format!("{index_bytes} bytes of index, account: {has_account}");
        let folder = copy_of("v1");
        let epoch = folder.path().join(format!("run=shot-7/stream=lab%2Fprobe/epoch={EPOCH}"));
        let index = std::fs::OpenOptions::new().write(true).open(epoch.join("segment-000001.index")).unwrap();
        index.set_len(index_bytes).unwrap();
        if !has_account {
            std::fs::remove_file(epoch.join("account.json")).unwrap();
        }
        let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
        assert_eq!(read_back(&store).samples.len(), expected, "{told}");
        open(&store, at_ms(1_000)).unwrap().close(at_ms(1_001)).unwrap();
        assert_eq!(read_back(&store).samples.len(), expected, "{told}, recovered");
    }
}

#[test]
fn a_recorder_takes_no_number_that_an_earlier_account_has() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let record = |session: u64| {
        let (first, now) = (session * 100, at_ms(session * 1_000));
        let mut recorder = open(&store, now).unwrap();
        recorder.handle(now, &Event::Began(began(first))).unwrap();
        recorder.handle(now, &Event::Block(block(first, 50))).unwrap();
        recorder.close(now).unwrap();
    };
    (1..=3).for_each(record);
    let folder = named(&disk, "account.json")[0].parent().unwrap().to_owned();
    let earlier: Vec<PathBuf> = [1, 2].map(|number| folder.join(format!("account-{number:06}.json"))).into();
    let kept = || earlier.iter().map(|path| read_whole(&disk, path).unwrap()).collect::<Vec<_>>();
    let before = kept();
    // Only they still have the first three.
    store.remove(&folder.join("account.json")).unwrap();
    store.remove(&folder.join("gaps.jsonl")).unwrap();
    record(4);
    assert!(kept() == before, "an earlier account is as it was");
    let told = read_whole(&disk, &folder.join("account.json")).unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["session"], 4);
    let aside = |path: &PathBuf| path.to_str().unwrap().contains(".damaged");
    assert!(!disk.paths().iter().any(aside), "{:?}", disk.paths());
    assert_eq!(read_back(&store).samples.len(), 4 * 50);
    assert_eq!(contradictions(&store), []);
}

/// Returns a recorder that was killed while it wrote its only segment: 300 samples are stored in thirty batches, and
/// its account has the first ten.
fn killed_behind_its_account() -> (Forgetful, Arc<dyn Store>) {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let hour = std::time::Duration::from_secs(3_600);
    let options = Options { segment_bytes: 1 << 20, account_interval: hour, ..small() };
    let run = "shot-7".parse().unwrap();
    let mut recorder = Recorder::open(Arc::clone(&store), run, options, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..300).step_by(10) {
        recorder.handle(at_ms(first + 10), &Event::Block(block(first, 10))).unwrap();
    }
    assert_eq!(recorder.progress().next().unwrap().stored_index, 300);
    std::mem::forget(recorder);
    disk.kill();
    let told = read_whole(&disk, &named(&disk, "account.json")[0]).unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["stored_index"], 10);
    (disk, store)
}

fn damaged(store: &Arc<dyn Store>) -> Vec<String> {
    stream(store).1.epochs[0].damaged.clone()
}

#[test]
fn what_the_index_of_a_lost_segment_tells_is_no_time_in_which_nobody_recorded() {
    let (disk, store) = killed_behind_its_account();
    let path = named(&disk, ".arrows").remove(0);
    let written = read_whole(&disk, &path).unwrap();
    store.remove(&path).unwrap();
    let mut recorder = open(&store, at_ms(1_000)).unwrap();
    recorder.handle(at_ms(1_000), &Event::Began(began(400))).unwrap();
    recorder.handle(at_ms(1_000), &Event::Block(block(400, 10))).unwrap();
    recorder.close(at_ms(1_010)).unwrap();
    let read = read_back(&store);
    let [hole] = &read.holes[..] else { panic!("{:?}", read.holes) };
    assert_eq!(hole.lost[Stage::ArchiveWrite], 300 * PER_SAMPLE);
    assert_eq!(hole.reader_absent, 100 * PER_SAMPLE);
    disk.put(&path, &written);
    assert_eq!(read_back(&store).samples.iter().collect::<Vec<_>>(), [0..300, 400..410]);
    assert_eq!(contradictions(&store), []);
}

#[test]
fn an_index_that_is_cut_is_said_and_made_again_wherever_something_tells_that_it_was_longer() {
    // With the account: header only, or not even that. With the data behind it: a batch is skipped.
    for kept in [&[][..], &[0..64], &[0..128, 192..1_984]] {
        let (disk, store) = killed_behind_its_account();
        let path = named(&disk, ".index").remove(0);
        let written = read_whole(&disk, &path).unwrap();
        assert_eq!(written.len(), 31 * 64);
        disk.put(&path, &kept.iter().flat_map(|range| written[range.clone()].to_vec()).collect::<Vec<_>>());
        let said = damaged(&store);
        assert!(said.len() == 1 && said[0].contains("segment-000001.index"), "{kept:?}: {said:?}");
        assert_eq!(read_back(&store).samples.len(), 300, "{kept:?}");
        let mut recorder = open(&store, at_ms(1_000)).unwrap();
        let said = notices(&mut recorder);
        assert!(matches!(&said[..], [Notice::Mended { .. }]), "{kept:?}: {said:?}");
        recorder.close(at_ms(1_001)).unwrap();
        assert!(read_whole(&disk, &path).unwrap().starts_with(&written), "{kept:?}");
        assert_eq!((damaged(&store), contradictions(&store)), (Vec::new(), Vec::new()), "{kept:?}");
    }
}

#[test]
fn a_batch_that_is_lost_with_its_entry_is_no_reason_to_make_the_index_again_and_again() {
    let (disk, store) = killed_behind_its_account();
    let (path, data) = (named(&disk, ".index").remove(0), named(&disk, ".arrows").remove(0));
    let written = read_whole(&disk, &path).unwrap();
    let [offset, length] = [128, 136].map(|at| u64::from_le_bytes(written[at..at + 8].try_into().unwrap()));
    disk.flip(&data, usize::try_from(offset + length - 20).unwrap());
    disk.put(&path, &[&written[..128], &written[192..]].concat());
    for time in [1_000, 2_000] {
        assert_eq!(read_back(&store).samples.len(), 290);
        open(&store, at_ms(time)).unwrap().close(at_ms(time + 1)).unwrap();
        assert!(!disk.paths().iter().any(|path| path.to_str().unwrap().contains(".damaged")));
    }
}

#[test]
fn a_recorder_says_what_it_finds_damaged_and_leaves_as_it_lies() {
    type Damage = fn(&Forgetful);
    let damages: [(&str, Damage); 4] = [
        ("segment-000002.arrows", |disk| {
            let path = named(disk, "segment-000002.arrows").remove(0);
            disk.change(&path, |bytes| bytes.truncate(200));
        }),
        ("segment-000002.arrows and its index are missing", |disk| {
            let path = named(disk, "segment-000002.arrows").remove(0);
            disk.remove(&path).unwrap();
            disk.remove(&path.with_extension("index")).unwrap();
        }),
        ("account.json is missing", |disk| {
            disk.remove(&named(disk, "account.json")[0]).unwrap();
        }),
        ("tallycast-archive.json", |disk| {
            disk.change(Path::new("tallycast-archive.json"), |bytes| bytes.truncate(20));
        }),
    ];
    for (what, damage) in damages {
        let (disk, store) = closed_in_arrow();
        damage(&disk);
        let said = notices(&mut open(&store, at_ms(2_000)).unwrap());
        let cause = match said.first() {
            Some(Notice::Damaged { cause }) => cause,
            Some(Notice::Mended { mended, .. }) => &mended.cause,
            _ => panic!("{what}: {said:?}"),
        };
        assert!(cause.contains(what), "{what}: {cause}");
        // A repair is reported once.
        let is_made_again = !what.starts_with("segment");
        let said = notices(&mut open(&store, at_ms(3_000)).unwrap());
        assert_eq!(said.is_empty(), is_made_again, "{what}: {said:?}");
    }
    let (_, store) = closed_in_arrow();
    assert_eq!(notices(&mut open(&store, at_ms(2_000)).unwrap()), []);
}
