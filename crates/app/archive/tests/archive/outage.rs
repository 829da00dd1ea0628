//! The disk runs full, or refuses: nothing is lost silently, and recording goes on.

use std::sync::{Arc, Barrier};

use archive::{FileStore, Input, Notice, Options, Recorder, RunName, Store, StoreError};
use ledger::Stage;

use crate::forgetful::Forgetful;
use crate::scene::{PER_SAMPLE, account, at_ms, began, block, gap, open, read_back};

fn notices(recorder: &mut Recorder) -> Vec<Notice> {
    std::iter::from_fn(|| recorder.poll_notice()).collect()
}

#[test]
fn a_full_disk_is_said_once_counted_exactly_and_recording_resumes() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), Input::Began(began(0))).unwrap();
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
            recorder.handle(now, Input::Gap(&gap(9, 1_200..1_210, Some(Stage::Injected)))).unwrap();
        } else {
            recorder.handle(now, Input::Block(&block(step * 10, 10))).unwrap();
        }
        said.extend(notices(&mut recorder));
    }
    let progress = recorder.progress().next().unwrap();
    assert_eq!(progress.accepted, 3_990 * PER_SAMPLE);
    assert!(progress.archive_write > 0);
    recorder.handle(at_ms(4_000), Input::Ended(account())).unwrap();
    recorder.close(at_ms(4_010)).unwrap();
    assert!(matches!(&said[..], [Notice::DiskFull { .. }, Notice::DiskBack]), "{said:?}");
    let read = read_back(&store);
    assert_eq!(read.samples.len() * PER_SAMPLE + progress.archive_write, progress.accepted);
    let lost: u64 = read.holes.iter().map(|hole| hole.lost[Stage::ArchiveWrite]).sum();
    assert_eq!(lost, progress.archive_write);
    assert_eq!(read.holes.iter().map(|hole| hole.lost[Stage::Injected]).sum::<u64>(), 10 * PER_SAMPLE);
    assert_eq!(read.holes.iter().map(|hole| hole.unexplained).sum::<u64>(), 0);
}

#[test]
fn a_failed_sync_gives_up_what_waited_for_it_and_nothing_else() {
    for failing in 0..40 {
        let disk = Forgetful::default();
        let store: Arc<dyn Store> = Arc::new(disk.clone());
        let mut recorder = open(&store, at_ms(0)).unwrap();
        recorder.handle(at_ms(0), Input::Began(began(0))).unwrap();
        let mut said = Vec::new();
        for step in 0..40 {
            if step == failing {
                disk.fail_syncs(1);
            }
            recorder.handle(at_ms(step * 10), Input::Block(&block(step * 10, 10))).unwrap();
            said.extend(notices(&mut recorder));
        }
        recorder.handle(at_ms(400), Input::Ended(account())).unwrap();
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
    recorder.handle(at_ms(0), Input::Began(began(0))).unwrap();
    for first in [0, 5, 0, 12, 10] {
        recorder.handle(at_ms(1), Input::Block(&block(first, 10))).unwrap();
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
    recorder.handle(at_ms(0), Input::Began(began(0))).unwrap();
    let mut said = Vec::new();
    for step in 0..100_u64 {
        if step == 20 {
            disk.set_capacity(Some(disk.used_bytes()));
        }
        recorder.handle(at_ms(step * 10), Input::Block(&block(step * 10, 10))).unwrap();
        said.extend(notices(&mut recorder));
    }
    assert!(matches!(&said[..], [Notice::DiskFull { .. }]), "{said:?}");
    let Notice::DiskFull { cause } = &said[0] else { panic!("{said:?}") };
    assert!(cause.starts_with("no space left for") && !cause.contains('\n'), "{cause}");
    // The options of the scene ask for 8,000 bytes, more than this disk will have free.
    let used = disk.used_bytes();
    let room = used / 12;
    assert!(room < 8_000 && room > (used + room) / 20, "{used}");
    disk.set_capacity(Some(used + room));
    recorder.tick(at_ms(10_000));
    assert!(matches!(&notices(&mut recorder)[..], [Notice::DiskBack]));
}
