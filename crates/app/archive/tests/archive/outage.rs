//! Full or failing disk: nothing is lost silently, and recording continues.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use archive::{FileStore, Notice, Options, Recorder, RunName, Store, StoreError, Totals};
use ledger::Stage;
use sample::{Block, StreamName};
use tallycast::{Event, StreamAccount, StreamInfo};
use units::Epoch;

use crate::forgetful::Forgetful;
use crate::scene::{
    EPOCH, PER_SAMPLE, account, at_ms, began, began_of, block, gap, name, open, read_back, schema,
};

/// Returns the notices, without those about the level of the disk, which may be any where the tests run.
pub(crate) fn notices(recorder: &mut Recorder) -> Vec<Notice> {
    let all = std::iter::from_fn(|| recorder.poll_notice());
    all.filter(|notice| !matches!(notice, Notice::DiskFilling(_) | Notice::DiskEased(_))).collect()
}

#[test]
fn a_full_disk_is_said_once_counted_exactly_and_recording_resumes() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    let mut said = Vec::new();
    for step in 0..400_u64 {
        let now = at_ms(step * 10);
        match step {
            50 => disk.set_capacity(Some(disk.used_bytes() + 1_000)),
            200 => disk.set_capacity(None),
            _ => {}
        }
        if step == 120 {
            // A loss on the network while nothing can be written.
            recorder.handle(now, &Event::Gap(gap(9, 1_200..1_210, Some(Stage::Injected)))).unwrap();
        } else {
            recorder.handle(now, &Event::Block(block(step * 10, 10))).unwrap();
        }
        said.extend(notices(&mut recorder));
    }
    let progress = recorder.progress().next().unwrap();
    assert_eq!(progress.accepted, 3_990 * PER_SAMPLE);
    assert!(progress.archive_write > 0);
    recorder.handle(at_ms(4_000), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(4_010)).unwrap();
    assert!(matches!(&said[..], [Notice::DiskFull { .. }, Notice::DiskBack]), "{said:?}");
    let read = read_back(&store);
    assert_eq!(read.samples.len() * PER_SAMPLE + progress.archive_write, progress.accepted);
    let lost: u64 = read.holes.iter().map(|hole| hole.lost[Stage::ArchiveWrite]).sum();
    assert_eq!(lost, progress.archive_write);
    assert_eq!(read.holes.iter().map(|hole| hole.lost[Stage::Injected]).sum::<u64>(), 10 * PER_SAMPLE);
    assert_eq!(read.holes.iter().map(|hole| hole.unexplained).sum::<u64>(), 0);
}

/// Another program frees some space each second and fills it again: each time a little is stored.
#[test]
fn space_that_comes_and_goes_each_second_is_said_once_when_it_stays() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let options = Options { space_holds: Duration::from_secs(10), ..crate::scene::small() };
    let run = "shot-7".parse().unwrap();
    let mut recorder = Recorder::open(Arc::clone(&store), run, options, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    let (mut said, mut stored) = (Vec::new(), Vec::new());
    for step in 0..5_000_u64 {
        match step {
            // Room for ten blocks, enough to begin again on a disk of this size.
            100..3_000 if step % 100 == 0 => disk.set_capacity(Some(disk.used_bytes() * 20 / 19 + 3_000)),
            3_000 => disk.set_capacity(None),
            _ => {}
        }
        recorder.handle(at_ms(step * 10), &Event::Block(block(step * 10, 10))).unwrap();
        said.extend(notices(&mut recorder).into_iter().map(|notice| (step, notice)));
        if step % 100 == 0 {
            stored.push(recorder.progress().next().unwrap().stored);
        }
    }
    assert!(
        stored[1..30].windows(2).filter(|pair| pair[0] < pair[1]).count() > 10,
        "each time a little: {stored:?}"
    );
    let kinds: Vec<&str> = said.iter().map(|(_, notice)| kind_of(notice)).collect();
    assert_eq!(kinds, ["full", "space"], "{said:?}");
    assert!(said[1].0 >= 3_900, "ten seconds after the last refusal: {said:?}");
    recorder.handle(at_ms(50_000), &Event::Ended(account())).unwrap();
    let progress = recorder.progress().next().unwrap();
    recorder.close(at_ms(50_010)).unwrap();
    assert_eq!(progress.stored + progress.archive_write, progress.accepted);
    assert_eq!(read_back(&store).samples.len() * PER_SAMPLE, progress.stored);
}

/// One stream is stored in the very commit in which the disk refuses another.
#[test]
fn a_disk_that_takes_one_stream_and_refuses_another_does_not_say_that_there_is_space() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    let other = || Arc::new("lab/another".parse::<StreamName>().unwrap());
    recorder.handle(at_ms(0), &Event::Began(began_of(other(), 0))).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    let mut refusals = 0;
    for step in 0..600_u64 {
        if step >= 50 && step % 100 == 50 {
            disk.set_capacity(Some(disk.used_bytes() * 20 / 19 + 1_500));
        }
        for stream in [other(), name()] {
            let block = Block { stream, ..block(step * 10, 10) };
            recorder.handle(at_ms(step * 10), &Event::Block(block)).unwrap();
        }
        let said = notices(&mut recorder);
        refusals += said.iter().filter(|notice| kind_of(notice) == "full").count();
        let contradicts = |pair: &[Notice]| pair.iter().map(kind_of).eq(["full", "space"]);
        assert!(!said.windows(2).any(contradicts), "step {step}: {said:?}");
    }
    assert!(refusals > 0);
    disk.set_capacity(None);
    (7..10).for_each(|second| recorder.tick(at_ms(second * 1_000)));
    assert!(recorder.progress().all(|it| it.stored + it.archive_write == it.accepted));
}

#[test]
fn a_disk_that_fills_up_is_said_at_80_percent_once_and_that_it_eased_below_75() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    let mut levels = Vec::new();
    // Share of the disk in use, in percent, at each second.
    for (second, used_percent) in [50, 78, 80, 90, 76, 81, 74, 80].into_iter().enumerate() {
        let now = at_ms(second as u64 * 1_000);
        recorder.handle(now, &Event::Block(block(second as u64 * 10, 10))).unwrap();
        recorder.tick(recorder.deadline());
        disk.set_capacity(Some(disk.used_bytes() * 100 / used_percent));
        recorder.tick(now + Duration::from_millis(999));
        recorder.tick(at_ms((second as u64 + 1) * 1_000));
        let said = std::iter::from_fn(|| recorder.poll_notice()).filter_map(|notice| match notice {
            Notice::DiskFilling(level) => Some((used_percent, "filling", level.used_percent())),
            Notice::DiskEased(level) => Some((used_percent, "eased", level.used_percent())),
            _ => None,
        });
        levels.extend(said);
    }
    let said: Vec<(u64, &str)> = levels.iter().map(|(used, kind, _)| (*used, *kind)).collect();
    assert_eq!(said, [(80, "filling"), (74, "eased"), (80, "filling")], "{levels:?}");
}

#[test]
fn a_failed_sync_gives_up_what_waited_for_it_and_nothing_else() {
    for failing in 0..40 {
        let disk = Forgetful::default();
        let store: Arc<dyn Store> = Arc::new(disk.clone());
        let mut recorder = open(&store, at_ms(0)).unwrap();
        recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
        let mut said = Vec::new();
        for step in 0..40 {
            if step == failing {
                disk.fail_syncs(1);
            }
            recorder.handle(at_ms(step * 10), &Event::Block(block(step * 10, 10))).unwrap();
            said.extend(notices(&mut recorder));
        }
        recorder.handle(at_ms(400), &Event::Ended(account())).unwrap();
        let progress = recorder.progress().next().unwrap();
        drop(recorder.close(at_ms(410)));
        let read = read_back(&store);
        assert_eq!(read.samples.len() * PER_SAMPLE, progress.stored);
        assert_eq!(progress.stored + progress.archive_write, progress.accepted);
        let failed = said.iter().filter(|notice| matches!(notice, Notice::WriteFailed { .. })).count();
        assert!(failed <= 1, "said once: {said:?}");
    }
}

#[test]
fn two_recorders_cannot_write_one_run() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let first = open(&store, at_ms(0)).unwrap();
    let second = open(&store, at_ms(0));
    assert!(matches!(second.err(), Some(archive::ArchiveError::Store(StoreError::Busy(_)))));
    drop(first);
    assert!(open(&store, at_ms(0)).is_ok());
}

#[test]
fn recorders_of_several_runs_begin_an_archive_together() {
    const RECORDERS: usize = 8;
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let together = Barrier::new(RECORDERS);
        std::thread::scope(|threads| {
            for number in 0..RECORDERS {
                let (folder, together) = (folder.path(), &together);
                threads.spawn(move || {
                    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder).unwrap());
                    let run = format!("run-{number}").parse::<RunName>().unwrap();
                    together.wait();
                    Recorder::open(store, run, Options::default(), at_ms(0))
                        .unwrap()
                        .close(at_ms(1))
                        .unwrap();
                });
            }
        });
        archive::Archive::open(folder.path()).unwrap();
    }
}

#[test]
fn samples_that_come_twice_are_stored_once() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in [0, 5, 0, 12, 10] {
        recorder.handle(at_ms(1), &Event::Block(block(first, 10))).unwrap();
    }
    let progress = recorder.progress().next().unwrap();
    assert_eq!(progress.accepted, 22 * PER_SAMPLE);
    recorder.close(at_ms(10)).unwrap();
    assert_eq!(read_back(&store).samples.iter().collect::<Vec<_>>(), [0..22]);
}

#[test]
fn a_small_disk_resumes_with_a_twentieth_of_it_free() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    let mut said = Vec::new();
    for step in 0..100_u64 {
        if step == 20 {
            disk.set_capacity(Some(disk.used_bytes()));
        }
        recorder.handle(at_ms(step * 10), &Event::Block(block(step * 10, 10))).unwrap();
        said.extend(notices(&mut recorder));
    }
    assert!(matches!(&said[..], [Notice::DiskFull { .. }]), "{said:?}");
    let Notice::DiskFull { cause } = &said[0] else { panic!("{said:?}") };
    assert!(cause.starts_with("no space left for") && !cause.contains('\n'), "{cause}");
    // The options of the scene require 8,000 bytes, more than this disk will have free; a new segment fits.
    let used = disk.used_bytes();
    let room = used / 5;
    assert!(room < 8_000 && room > (used + room) / 20, "{used}");
    disk.set_capacity(Some(used + room));
    recorder.tick(at_ms(10_000));
    // Reported once something was stored again, not when there seems to be space.
    assert!(notices(&mut recorder).is_empty());
    recorder.handle(at_ms(10_000), &Event::Block(block(1_000, 10))).unwrap();
    recorder.tick(recorder.deadline());
    assert!(matches!(&notices(&mut recorder)[..], [Notice::DiskBack]));
}

#[test]
fn a_disk_that_tells_of_space_and_takes_nothing_is_said_to_be_full_once() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    disk.refuse_new_files(true);
    let mut said = Vec::new();
    for step in 0..500_u64 {
        if step == 400 {
            disk.refuse_new_files(false);
        }
        recorder.handle(at_ms(step * 10), &Event::Block(block(step * 10, 10))).unwrap();
        said.extend(notices(&mut recorder));
    }
    assert!(matches!(&said[..], [Notice::DiskFull { .. }, Notice::DiskBack]), "{said:?}");
    recorder.handle(at_ms(5_000), &Event::Ended(account())).unwrap();
    let progress = recorder.progress().next().unwrap();
    recorder.close(at_ms(5_010)).unwrap();
    assert_eq!(progress.stored + progress.archive_write, progress.accepted);
    assert_eq!(read_back(&store).samples.len() * PER_SAMPLE, progress.stored);
}

/// Removal of an archive's files while it is recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Taken {
    Root,
    RootAndBack,
    RunAndBack,
    Epoch,
    Segment,
}

#[test]
fn an_archive_that_is_taken_away_is_said_and_what_cannot_be_stored_is_counted() {
    for taken in [Taken::Root, Taken::RootAndBack, Taken::RunAndBack, Taken::Epoch, Taken::Segment] {
        let folder = tempfile::tempdir().unwrap();
        let (root, aside) = (folder.path().join("archive"), folder.path().join("aside"));
        let store: Arc<dyn Store> = Arc::new(FileStore::create(&root).unwrap());
        let mut recorder = open(&store, at_ms(0)).unwrap();
        recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
        let run = root.join("run=shot-7");
        let mut said = Vec::new();
        for step in 0..300_u64 {
            let epoch = root.join("run=shot-7/stream=lab%2Fprobe").join(format!("epoch={}", EPOCH));
            match (step, taken) {
                (50, Taken::Root | Taken::RootAndBack) => std::fs::rename(&root, &aside).unwrap(),
                (200, Taken::RootAndBack) => std::fs::rename(&aside, &root).unwrap(),
                (50, Taken::RunAndBack) => std::fs::rename(&run, &aside).unwrap(),
                (200, Taken::RunAndBack) => {
                    assert!(!run.exists(), "nothing is made where nothing is");
                    std::fs::rename(&aside, &run).unwrap();
                }
                (50, Taken::Epoch) => std::fs::remove_dir_all(&epoch).unwrap(),
                (50, Taken::Segment) => {
                    let names = std::fs::read_dir(&epoch).unwrap().map(|entry| entry.unwrap().path());
                    let arrows = names.filter(|name| name.extension().is_some_and(|end| end == "arrows"));
                    std::fs::remove_file(arrows.max().unwrap()).unwrap();
                }
                _ => {}
            }
            recorder.handle(at_ms(step * 10), &Event::Block(block(step * 10, 10))).unwrap();
            said.extend(notices(&mut recorder));
        }
        recorder.tick(recorder.deadline());
        let progress = recorder.progress().next().unwrap();
        assert_eq!(progress.accepted, 3_000 * PER_SAMPLE, "{taken:?}");
        assert_eq!(progress.stored + progress.archive_write, progress.accepted, "{taken:?}");
        // In a folder that still exists another segment is begun at once.
        let is_lost = progress.archive_write > 0;
        assert_eq!(is_lost, taken != Taken::Segment, "{taken:?}: what could not be stored is counted");
        let closed = recorder.close(at_ms(3_010));
        let expected = match taken {
            Taken::Root | Taken::Epoch => {
                assert!(closed.unwrap_err().to_string().contains("has disappeared"), "{taken:?}");
                assert!(!root.exists() || taken == Taken::Epoch, "nothing is made where nothing is");
                assert!(
                    progress.stored < 1_000 * PER_SAMPLE,
                    "{taken:?}: nothing is stored in a place that is gone"
                );
                if taken == Taken::Root { &["gone"][..] } else { &["failed"][..] }
            }
            Taken::RootAndBack | Taken::RunAndBack => {
                closed.unwrap();
                let read = read_back(&(Arc::new(FileStore::open(&root).unwrap()) as Arc<dyn Store>));
                assert_eq!(read.samples.len() * PER_SAMPLE, progress.stored);
                let lost: u64 = read.holes.iter().map(|hole| hole.lost[Stage::ArchiveWrite]).sum();
                assert_eq!(lost, progress.archive_write);
                &["gone", "back"][..]
            }
            Taken::Segment => {
                closed.unwrap();
                &["damaged"][..]
            }
        };
        let kinds: Vec<&str> = said.iter().map(kind_of).collect();
        assert_eq!(kinds, expected, "{said:?}");
    }
}

/// Change of a file while it is recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Done {
    Cut(u64),
    AddedTo,
    Removed,
    Folder,
}

#[test]
fn what_is_done_to_a_file_while_it_is_recorded_is_said_and_costs_nothing_that_comes_later() {
    let both = [Done::Cut(0), Done::Cut(100), Done::AddedTo, Done::Removed, Done::Folder];
    let files = [".arrows", ".index", "gaps.jsonl"];
    for (end, done) in files.into_iter().flat_map(|end| both.map(|done| (end, done))) {
        let told = format!("{end}: {done:?}");
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(FileStore::create(folder.path()).unwrap());
        let options = Options { segment_bytes: 1 << 20, ..crate::scene::small() };
        let run = "shot-7".parse().unwrap();
        let mut recorder = Recorder::open(Arc::clone(&store), run, options, at_ms(0)).unwrap();
        recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
        let mut said = Vec::new();
        for step in 0..100_u64 {
            if step == 50 {
                let epoch = folder.path().join("run=shot-7/stream=lab%2Fprobe");
                let epoch = epoch.join(format!("epoch={}", EPOCH));
                let names = std::fs::read_dir(epoch).unwrap().map(|entry| entry.unwrap().path());
                let path = names.filter(|name| name.to_str().unwrap().ends_with(end)).max().unwrap();
                let open = || std::fs::OpenOptions::new().append(true).open(&path).unwrap();
                match done {
                    Done::Cut(size) => open().set_len(size).unwrap(),
                    Done::AddedTo => std::io::Write::write_all(&mut open(), b"something").unwrap(),
                    Done::Removed => std::fs::remove_file(&path).unwrap(),
                    Done::Folder => {
                        std::fs::remove_file(&path).unwrap();
                        std::fs::create_dir(&path).unwrap();
                    }
                }
            }
            let now = at_ms(step * 10);
            if step % 10 == 5 {
                let lost = gap(step, step * 10..step * 10 + 10, Some(Stage::Network));
                recorder.handle(now, &Event::Gap(lost)).unwrap();
            } else {
                recorder.handle(now, &Event::Block(block(step * 10, 10))).unwrap();
            }
            said.extend(notices(&mut recorder));
        }
        recorder.handle(at_ms(1_000), &Event::Ended(account())).unwrap();
        let progress = recorder.progress().next().unwrap();
        recorder.close(at_ms(1_010)).unwrap();
        assert_eq!((progress.stored, progress.archive_write), (900 * PER_SAMPLE, 0), "{told}");
        assert_eq!(said.iter().map(kind_of).collect::<Vec<_>>(), ["damaged"], "{told}: {said:?}");
        let Notice::Damaged { cause } = &said[0] else { panic!("{said:?}") };
        assert!(cause.contains(end), "{told}: {cause}");
        let read = read_back(&store);
        assert_eq!(read.samples.count_in(500..1_000), 450, "{told}: what came later is there");
        let later = read.holes.iter().filter(|hole| hole.first_index >= 500);
        let lost: u64 = later.map(|hole| hole.lost[Stage::Network]).sum();
        assert_eq!(lost, 50 * PER_SAMPLE, "{told}: and why something of it is missing");
        if end != ".arrows" {
            assert_eq!(read.samples.len(), 900, "{told}: the segment has everything");
        }
        let archive = archive::Archive::open(folder.path()).unwrap();
        let found = archive.verify(&archive::Scope::default(), &mut |_| {}).unwrap();
        // Bytes added behind a segment or an index are cut off again.
        let is_repaired = done == Done::AddedTo && end != "gaps.jsonl";
        assert_eq!(found.is_whole(), is_repaired, "{told}: {:?}", found.contradictions);
    }
}

pub(crate) fn kind_of(notice: &Notice) -> &'static str {
    match notice {
        Notice::Gone { .. } => "gone",
        Notice::Back => "back",
        Notice::DiskFull { .. } => "full",
        Notice::DiskBack => "space",
        Notice::Resumed { .. } => "earlier",
        Notice::WriteFailed { .. } => "failed",
        Notice::WriteResumed { .. } => "resumed",
        Notice::Damaged { .. } => "damaged",
        _ => "else",
    }
}

#[test]
fn a_lock_that_is_removed_is_taken_again_unless_another_recorder_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(FileStore::create(folder.path()).unwrap());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    std::fs::remove_file(folder.path().join("run=shot-7/recorder.lock")).unwrap();
    recorder.handle(at_ms(20), &Event::Block(block(0, 10))).unwrap();
    assert_eq!(recorder.progress().next().unwrap().stored_index, 10);
    assert!(open(&store, at_ms(0)).is_err(), "a second recorder is kept out again");
    std::fs::remove_file(folder.path().join("run=shot-7/recorder.lock")).unwrap();
    let held = store.lock(std::path::Path::new("run=shot-7/recorder.lock")).unwrap();
    recorder.handle(at_ms(40), &Event::Block(block(10, 10))).unwrap();
    assert_eq!(recorder.progress().next().unwrap().archive_write, 10 * PER_SAMPLE);
    assert!(
        matches!(&notices(&mut recorder)[..], [Notice::Gone { cause }] if cause.contains("recorder.lock"))
    );
    drop(held);
}

/// Publishers that start again and again, some while nothing can be written.
#[test]
fn totals_count_streams_that_ended_long_ago() {
    const STREAMS: u64 = 300;
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    let mut not_written = 0;
    for number in 0..STREAMS {
        let now = at_ms(number * 4_000);
        let epoch = Epoch { start_ns: EPOCH.start_ns + number, ..EPOCH };
        recorder.handle(now, &Event::Began(Arc::new(StreamInfo { epoch, ..(*began(0)).clone() }))).unwrap();
        recorder.tick(now);
        disk.set_capacity((number < 10).then_some(disk.used_bytes()));
        recorder.handle(now, &Event::Block(Block { epoch, ..block(0, 10) })).unwrap();
        recorder.handle(now, &Event::Ended(StreamAccount { epoch, ..account() })).unwrap();
        let lost: u64 = recorder.progress().map(|it| it.archive_write).sum();
        not_written = lost.max(not_written);
        disk.set_capacity(None);
        recorder.tick(at_ms(number * 4_000 + 2_000));
    }
    assert!(recorder.progress().count() < 260, "the oldest are forgotten");
    assert!(recorder.progress().all(|it| it.archive_write == 0), "those that lost are among them");
    let element_bytes = schema().dtype.size_bytes() as u64;
    let accepted_bytes = STREAMS * 10 * PER_SAMPLE * element_bytes;
    assert!(not_written > 0);
    assert_eq!(recorder.totals(), Totals { accepted_bytes, archive_write: not_written });
}
