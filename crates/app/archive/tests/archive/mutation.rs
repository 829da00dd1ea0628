//! Mutations of every kind of file of an archive, as disks or persons damage them: the result of reading is right, or
//! a hole, or an error; nothing is lost silently, and the next recorder does not increase the loss: what could be
//! read before it still can, and once the damaged file is restored from a copy, everything is there.
//!
//! `TALLYCAST_MUTATIONS=N` makes N times as many; CI runs N = 1. A failure names its mutation, and the same N repeats
//! it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, FileStore, Piece, Recorder, Store, compact, read_whole};
use ledger::Stage;
use sample::{Block, StreamName};
use serde_json::Value;
use tallycast::{Event, StreamAccount};
use units::{Random, RangeSet};

use crate::forgetful::Forgetful;
use crate::scene::{account, at_ms, began, began_of, block, everything, gap, name, open, time_of};

/// Number of flips and cuts of each file in the version that CI runs.
const TRIES: u64 = 2;

fn tries() -> u64 {
    let scale = std::env::var("TALLYCAST_MUTATIONS").ok();
    TRIES * scale.map_or(1, |scale| scale.parse().expect("TALLYCAST_MUTATIONS is a whole number"))
}

fn other() -> Arc<StreamName> {
    Arc::new("lab/other".parse().unwrap())
}

/// Records both streams from a first sample on, with a loss in the middle.
fn record(recorder: &mut Recorder, first: u64, samples: u64, ms: u64) {
    for stream in [name(), other()] {
        recorder.handle(at_ms(ms), &Event::Began(began_of(stream, first))).unwrap();
    }
    for index in (first..first + samples).step_by(10) {
        for stream in [name(), other()] {
            let now = at_ms(ms + index - first);
            let place = index - first;
            if place == 50 {
                let mut gap = gap(index, index..index + 10, Some(Stage::Injected));
                gap.stream = stream;
                recorder.handle(now, &Event::Gap(gap)).unwrap();
            } else {
                recorder.handle(now, &Event::Block(Block { stream, ..block(index, 10) })).unwrap();
            }
        }
    }
}

/// Returns two recorders' epoch: the first was killed, part of its segments became Parquet; the second closed.
fn closed() -> Forgetful {
    let disk = killed();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(1_000)).unwrap();
    let left = recorder.take_closed();
    left.iter().take(left.len() / 2).for_each(|segment| drop(compact(&*store, segment).unwrap()));
    record(&mut recorder, 400, 200, 1_000);
    for stream in [name(), other()] {
        // A loss behind the last sample, which no stored sample shows.
        let mut gap = gap(77, 600..610, Some(Stage::Network));
        gap.stream = stream.clone();
        recorder.handle(at_ms(1_300), &Event::Gap(gap)).unwrap();
        recorder.handle(at_ms(1_300), &Event::Ended(StreamAccount { stream, ..account() })).unwrap();
    }
    recorder.close(at_ms(1_310)).unwrap();
    disk
}

/// Returns the disk of a recorder that was killed.
fn killed() -> Forgetful {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    record(&mut recorder, 0, 300, 0);
    recorder.tick(at_ms(400));
    std::mem::forget(recorder);
    disk.kill();
    disk
}

/// Result of reading a stream.
#[derive(Clone, PartialEq, Debug, Default)]
struct Reading {
    samples: RangeSet,
    /// Missing samples with their reasons.
    holes: Vec<(u64, u64, Value)>,
    /// True if an error or fault was reported.
    loud: bool,
}

/// Reads a stream; the result must be right. `None` if it cannot be read, and that was reported.
fn read(store: &Arc<dyn Store>, stream: &StreamName, told: &str) -> Option<Reading> {
    let archive = Archive::on(Arc::clone(store)).ok()?;
    let (entries, unreadable) = archive.survey(&"shot-7".parse().unwrap()).ok()?;
    let Some(entry) = entries.iter().find(|entry| *entry.name == *stream) else {
        assert!(!unreadable.is_empty(), "{told}: the stream is gone and nothing was said");
        return None;
    };
    let mut reading = Reading { loud: !unreadable.is_empty(), ..Reading::default() };
    let mut expected = 0;
    for piece in archive.range(entry, everything()) {
        match piece.ok()? {
            Piece::Epoch(recording) => {
                reading.loud |= !recording.damaged.is_empty();
                expected = recording.first_index;
            }
            Piece::Block(found) => {
                assert_eq!(found.first_index, expected, "{told}: a silent hole");
                let wanted = block(found.first_index, found.samples);
                assert!(found.data.as_bytes() == wanted.data.as_bytes(), "{told}: a wrong value");
                assert_eq!(found.t0, time_of(found.first_index), "{told}: a wrong time");
                assert!(
                    *found.schema == *wanted.schema && *found.stream == *stream,
                    "{told}: a wrong schema"
                );
                expected = found.next_index();
                reading.samples.insert(found.first_index..found.next_index());
            }
            Piece::Hole(hole) => {
                assert_eq!(hole.first_index, expected, "{told}: a silent hole");
                assert_eq!(hole.reasons().total(), hole.samples * 3, "{told}: {hole:?}");
                reading.loud |= hole.is_damage();
                expected = hole.first_index + hole.samples;
                reading.holes.push((hole.first_index, hole.samples, serde_json::json!(hole.reasons())));
            }
        }
    }
    Some(reading)
}

/// Verifies, and returns the contradictions; `None` if that was impossible.
fn verified(store: &Arc<dyn Store>) -> Option<Vec<archive::Finding>> {
    let archive = Archive::on(Arc::clone(store)).ok()?;
    Some(archive.verify(&archive::Scope::default(), &mut |_| {}).ok()?.contradictions)
}

/// Returns the missing elements that the gap map assigns to a stage.
fn explained(reading: &Reading) -> u64 {
    let stage = |reasons: &Value, stage: &str| reasons["lost"][stage].as_u64().unwrap_or(0);
    reading.holes.iter().map(|(_, _, it)| stage(it, "injected") + stage(it, "network")).sum()
}

/// Checks that a reading has all samples and reasons that an earlier one has.
fn check_kept(earlier: &Reading, later: &Reading, told: &str) {
    for samples in earlier.samples.iter() {
        let kept = later.samples.count_in(samples.clone());
        assert_eq!(kept, samples.end - samples.start, "{told} lost samples of {samples:?}");
    }
    assert!(explained(later) >= explained(earlier), "{told} lost reasons\n{later:?}\n{earlier:?}");
}

/// Mutation of a file.
struct Mutation<'a> {
    disk: Arc<dyn Store>,
    path: &'a Path,
    told: &'a str,
}

impl Mutation<'_> {
    /// Checks the results after it: of reading at once, of the next recorder, and of restoring the file.
    fn judge(&self, base: &BTreeMap<Arc<StreamName>, Reading>, come_back: impl FnOnce()) {
        let (disk, told) = (&self.disk, self.told);
        let mut before = BTreeMap::new();
        for (stream, base) in base {
            let found = read(disk, stream, told);
            if let Some(found) = &found {
                let same = Reading { loud: base.loud, ..found.clone() } == *base;
                assert!(
                    found.loud || same,
                    "{told}: read otherwise, and nothing was said\n{found:?}\n{base:?}"
                );
            }
            before.insert(Arc::clone(stream), found);
        }
        let (other_found, other_base) = (&before[&other()], &base[&other()]);
        // An unreadable epoch is reported to a reader of any stream.
        let is_untouched = other_found
            .as_ref()
            .is_some_and(|it| Reading { loud: other_base.loud, ..it.clone() } == *other_base);
        let is_of_one = self.path.components().count() > 2;
        assert!(is_untouched || !is_of_one, "{told}: it is of another stream\n{other_found:?}");
        let is_whole = verified(disk).is_some_and(|found| found.is_empty());
        let was_loud = before.values().any(|found| found.as_ref().is_none_or(|found| found.loud));
        assert!(!(is_whole && was_loud), "{told}: a reader complains, and the verification does not");
        // An error is reported, and leaves everything unchanged.
        if let Ok(recorder) = open(disk, at_ms(5_000)) {
            record_on(recorder);
            for (stream, before) in before.iter().filter_map(|(stream, it)| Some((stream, it.as_ref()?))) {
                let after = read(disk, stream, told);
                let after = after.unwrap_or_else(|| panic!("{told}: a recovery lost a stream"));
                check_kept(before, &after, &format!("{told}: a recovery"));
            }
            assert!(
                !is_whole || verified(disk) == Some(Vec::new()),
                "{told}: a recovery made a contradiction"
            );
        }
        come_back();
        for (stream, base) in base {
            let found = read(disk, stream, told);
            let found = found.unwrap_or_else(|| panic!("{told}: with the file back a stream is lost"));
            check_kept(base, &found, &format!("{told}, which came back: a recovery"));
        }
        if self.path.to_str().unwrap().contains("segment-") {
            let mut found = verified(disk).unwrap_or_default();
            found.retain(|it| it.what.contains("but are stored"));
            assert_eq!(
                found,
                [],
                "{told}, which came back: a recovery told something missing that was only away"
            );
        }
    }
}

/// Records the mutated stream with the next recorder, with samples far behind.
fn record_on(mut recorder: Recorder) {
    const BEHIND: u64 = 2_000;
    // An error is reported, and is no loss of earlier samples.
    if recorder.handle(at_ms(5_000), &Event::Began(began(BEHIND))).is_ok() {
        recorder.handle(at_ms(5_000), &Event::Block(block(BEHIND, 10))).unwrap();
    }
    drop(recorder.close(at_ms(5_001)));
}

fn readings(disk: &Forgetful) -> BTreeMap<Arc<StreamName>, Reading> {
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    assert_eq!(verified(&store), Some(Vec::new()), "nothing is damaged");
    let reading = |stream: Arc<StreamName>| {
        let reading = read(&store, &stream, "nothing is damaged").unwrap();
        assert!(!reading.loud, "nothing is damaged");
        (stream, reading)
    };
    [name(), other()].into_iter().map(reading).collect()
}

/// Returns the files to be mutated: those of one of two streams, and those of both.
fn files(disk: &Forgetful) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| !path.to_str().unwrap().contains("other")).collect()
}

/// Checks that a recovery left a damaged file in its place or set it aside: it may be the only copy.
fn check_not_deleted(disk: &Forgetful, path: &Path, mutated: &[u8], told: &str) {
    let is_it = |found: &PathBuf| found.to_str().unwrap().starts_with(path.to_str().unwrap());
    let kept = disk.paths().into_iter().filter(is_it).any(|found| {
        let found = read_whole(disk, &found).unwrap();
        // Its start: a torn end may be cut, and something written behind it.
        let alike = found.iter().zip(mutated).take_while(|(a, b)| a == b).count();
        alike >= mutated.len().min(64)
    });
    assert!(kept, "{told}: a recovery deleted what was there");
}

/// Checks a mutation of a simulated disk.
fn judge(
    base: &Forgetful,
    disk: Forgetful,
    readings: &BTreeMap<Arc<StreamName>, Reading>,
    path: &Path,
    told: &str,
) {
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mutated = read_whole(&disk, path);
    let come_back = || {
        if let (Ok(mutated), true) = (&mutated, path.to_str().unwrap().contains("segment-")) {
            check_not_deleted(&disk, path, mutated, told);
        }
        disk.put(path, &read_whole(base, path).unwrap());
    };
    Mutation { disk: store, path, told }.judge(readings, come_back);
}

#[test]
fn flipped_bits_are_right_values_or_holes_or_errors() {
    for (base, kind) in [(closed(), "closed"), (killed(), "killed")] {
        let readings = readings(&base);
        let mut random = Random::new(7);
        for path in files(&base) {
            let size = read_whole(&base, &path).unwrap().len() as u64;
            for _ in 0..tries().min(size * 8) {
                let bit = random.below(size * 8);
                let disk = base.copy();
                disk.change(&path, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
                judge(&base, disk, &readings, &path, &format!("{kind}: bit {bit} of {}", path.display()));
            }
        }
    }
}

#[test]
fn cut_and_zeroed_files_are_right_values_or_holes_or_errors() {
    for (base, kind) in [(closed(), "closed"), (killed(), "killed")] {
        let readings = readings(&base);
        let mut random = Random::new(8);
        for path in files(&base) {
            let size = read_whole(&base, &path).unwrap().len() as u64;
            // The gap map of a dead recorder is only covered by its account, which is written from time to time.
            let is_tail = kind == "killed" && path.ends_with("gaps.jsonl");
            let lengths =
                (0..tries()).map(|_| random.below(size + 1)).chain([0, 64, 128, size.saturating_sub(64)]);
            for length in lengths.collect::<Vec<_>>().into_iter().filter(|length| *length < size) {
                let how = if random.chance(0.7) { "cut" } else { "zeroed" };
                let disk = base.copy();
                disk.change(&path, |bytes| match how {
                    "cut" => bytes.truncate(length as usize),
                    _ => bytes[length as usize..].iter_mut().take(300).for_each(|byte| *byte = 0),
                });
                if is_tail {
                    continue;
                }
                let told = format!("{kind}: {} {how} at {length}", path.display());
                judge(&base, disk, &readings, &path, &told);
            }
        }
    }
}

#[test]
fn sectors_that_cannot_be_read_are_holes_or_errors() {
    for (base, kind) in [(closed(), "closed"), (killed(), "killed")] {
        let readings = readings(&base);
        let mut random = Random::new(11);
        for path in files(&base) {
            let size = read_whole(&base, &path).unwrap().len() as u64;
            for _ in 0..tries().min(size) {
                let offset = random.below(size) as usize;
                let disk = base.copy();
                disk.wear_out(&path, offset);
                let told = format!("{kind}: byte {offset} of {} cannot be read", path.display());
                if path.to_str().unwrap().contains("segment-") {
                    let found = read(&(Arc::new(disk.copy()) as Arc<dyn Store>), &name(), &told);
                    let kept =
                        found.map_or(0, |found| found.samples.iter().map(|it| it.end - it.start).sum());
                    assert!(kept > 0, "{told}: the other segments are read");
                }
                judge(&base, disk, &readings, &path, &told);
            }
        }
    }
}

#[test]
fn files_that_are_removed_or_anothers_are_said() {
    for (base, kind) in [(closed(), "closed"), (killed(), "killed")] {
        let readings = readings(&base);
        let mut random = Random::new(9);
        for path in files(&base) {
            let told = format!("{kind}: {} is removed", path.display());
            let disk = base.copy();
            disk.remove(&path).unwrap();
            let store: Arc<dyn Store> = Arc::new(disk.clone());
            // The account of a recorder may not be written yet, and its lock means nothing while no process holds it.
            let may_be_absent = path.ends_with("account.json") || path.ends_with("recorder.lock");
            let found = read(&store, &name(), &told);
            assert!(may_be_absent || found.is_none_or(|found| found.loud), "{told} and nothing was said");
            judge(&base, disk, &readings, &path, &told);

            let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
            let alike = base.paths().into_iter().filter(|other| {
                *other != path && other.extension().is_some_and(|other| other == end) && end != "lock"
            });
            let mut alike: Vec<PathBuf> = alike.collect();
            // A sample of them, and as many of the other stream.
            while alike.len() as u64 > tries() {
                alike.swap_remove(random.below(alike.len() as u64) as usize);
            }
            for other in alike {
                let told = format!("{kind}: {} is {}", path.display(), other.display());
                let disk = base.copy();
                disk.put(&path, &read_whole(&base, &other).unwrap());
                judge(&base, disk, &readings, &path, &told);
            }
        }
    }
}

/// Writes an archive to a real file system, which can hold things that are no files.
fn write_out(base: &Forgetful, root: &Path) {
    for path in base.paths() {
        let to = root.join(&path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, read_whole(base, &path).unwrap()).unwrap();
    }
}

#[test]
fn a_folder_a_link_or_a_pipe_in_the_place_of_a_file_is_said_and_nobody_waits() {
    for (base, kind) in [(closed(), "closed"), (killed(), "killed")] {
        let readings = readings(&base);
        let mut random = Random::new(10);
        for path in files(&base) {
            // Segments are many and alike: a sample suffices, unless more mutations are requested.
            let is_more = path.to_str().unwrap().contains("segment-") && random.chance(0.6);
            if is_more && tries() == TRIES {
                continue;
            }
            for what in ["folder", "link", "pipe"] {
                let folder = tempfile::tempdir().unwrap();
                let root = folder.path().join("archive");
                write_out(&base, &root);
                let place = root.join(&path);
                let aside = folder.path().join("outside");
                std::fs::rename(&place, &aside).unwrap();
                match what {
                    "folder" => std::fs::create_dir(&place).unwrap(),
                    "link" => std::os::unix::fs::symlink(&aside, &place).unwrap(),
                    _ => rustix::fs::mknodat(
                        rustix::fs::CWD,
                        &place,
                        rustix::fs::FileType::Fifo,
                        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                        0,
                    )
                    .unwrap(),
                }
                let told = format!("{kind}: {} is a {what}", path.display());
                let store: Arc<dyn Store> = Arc::new(FileStore::open(&root).unwrap());
                let found = read(&store, &name(), &told);
                assert!(found.is_none_or(|found| found.loud), "{told} and nothing was said");
                Mutation { disk: store, path: &path, told: &told }.judge(&readings, || {
                    assert!(aside.is_file(), "{told}: what lies outside is nobody's");
                    match std::fs::symlink_metadata(&place) {
                        Ok(found) if found.is_dir() => std::fs::remove_dir(&place).unwrap(),
                        Ok(_) => std::fs::remove_file(&place).unwrap(),
                        Err(_) => {}
                    }
                    std::fs::rename(&aside, &place).unwrap();
                });
            }
        }
    }
}
