//! Streams that begin while the archive refuses writes: they are recorded once it is back, and the samples missed
//! until then are a counted hole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, ArchiveError, FileStore, Recorder, Scope, Store};
use ledger::Stage;
use sample::{Block, StreamName};
use tallycast::Event;

use crate::forgetful::Forgetful;
use crate::outage::{kind_of, notices};
use crate::scene::{PER_SAMPLE, account, at_ms, began, began_of, block, gap, open, read_back};

/// Recording of the stream before it began.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Before {
    Nothing,
    /// An earlier recorder wrote it up to sample 100.
    Recorder,
    /// The same recorder wrote it up to sample 100.
    Session,
}

/// Archive that can be made unavailable.
struct Place {
    store: Arc<dyn Store>,
    what: What,
}

enum What {
    /// A folder, and its path while it is moved away.
    Folder { folder: PathBuf, aside: PathBuf, _kept: tempfile::TempDir },
    /// A disk that runs full.
    Disk(Forgetful),
}

impl Place {
    fn folder(within: &str) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let (root, aside) = (kept.path().join("archive"), kept.path().join("aside"));
        let store = Arc::new(FileStore::create(&root).unwrap());
        Self { store, what: What::Folder { folder: root.join(within), aside, _kept: kept } }
    }

    fn disk() -> Self {
        let disk = Forgetful::default();
        Self { store: Arc::new(disk.clone()), what: What::Disk(disk) }
    }

    fn take_away(&self) {
        match &self.what {
            What::Folder { folder, aside, .. } => std::fs::rename(folder, aside).unwrap(),
            What::Disk(disk) => disk.set_capacity(Some(disk.used_bytes())),
        }
    }

    fn bring_back(&self) {
        match &self.what {
            What::Folder { folder, aside, .. } => {
                assert!(!folder.exists(), "nothing is made where nothing is");
                std::fs::rename(aside, folder).unwrap();
            }
            What::Disk(disk) => disk.set_capacity(None),
        }
    }

    /// Returns the contradictions.
    fn contradictions(&self) -> Vec<archive::Finding> {
        let archive = Archive::on(Arc::clone(&self.store)).unwrap();
        archive.verify(&Scope::default(), &mut |_| {}).unwrap().contradictions
    }
}

fn record(recorder: &mut Recorder, samples: std::ops::Range<u64>) {
    for first in samples.step_by(10) {
        recorder.handle(at_ms(first * 10), &Event::Block(block(first, 10))).unwrap();
    }
}

#[test]
fn a_stream_that_begins_while_the_archive_is_away_is_recorded_once_it_is_back() {
    let places = [|| Place::folder(""), || Place::folder("run=shot-7"), Place::disk as fn() -> Place];
    for (place, what) in places.into_iter().zip(["root", "run", "full"]) {
        for before in [Before::Nothing, Before::Recorder, Before::Session] {
            let (place, told) = (place(), format!("{what}, {before:?}"));
            let mut recorder = open(&place.store, at_ms(0)).unwrap();
            let mut stored_before = 0;
            if before != Before::Nothing {
                recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
                record(&mut recorder, 0..100);
                recorder.handle(at_ms(1_000), &Event::Ended(account())).unwrap();
                stored_before = 100;
            }
            if before == Before::Recorder {
                recorder.close(at_ms(1_000)).unwrap();
                recorder = open(&place.store, at_ms(1_000)).unwrap();
            }
            place.take_away();
            let first = if before == Before::Nothing { 100 } else { 150 };
            recorder.handle(at_ms(1_500), &Event::Began(began(first))).unwrap();
            record(&mut recorder, first..400);
            recorder.handle(at_ms(4_000), &Event::Gap(gap(0, 400..410, Some(Stage::Injected)))).unwrap();
            record(&mut recorder, 410..500);
            place.bring_back();
            record(&mut recorder, 500..1_000);
            recorder.handle(at_ms(10_000), &Event::Ended(account())).unwrap();
            let progress = recorder.progress().next().unwrap();
            let mut said: Vec<&str> = notices(&mut recorder).iter().map(kind_of).collect();
            said.retain(|kind| *kind != "earlier");
            assert_eq!(said, if what == "full" { ["full", "space"] } else { ["gone", "back"] }, "{told}");
            recorder.close(at_ms(10_010)).unwrap();

            let here = if before == Before::Session { stored_before } else { 0 };
            let delivered = (1_000 - first - 10 + here) * PER_SAMPLE;
            assert_eq!(progress.accepted, delivered, "{told}");
            assert_eq!(progress.stored + progress.archive_write, delivered, "{told}");
            assert!(progress.archive_write >= (500 - first - 10) * PER_SAMPLE, "{told}");
            assert!(progress.stored > here * PER_SAMPLE, "{told}: it is recorded again");
            let read = read_back(&place.store);
            let lost = |stage| read.holes.iter().map(|hole| hole.lost[stage]).sum::<u64>();
            assert_eq!(lost(Stage::ArchiveWrite), progress.archive_write, "{told}");
            assert_eq!(lost(Stage::Injected), 10 * PER_SAMPLE, "{told}");
            let absent: u64 = read.holes.iter().map(|hole| hole.reader_absent).sum();
            assert_eq!(absent, (first - 100) * PER_SAMPLE, "{told}");
            assert_eq!(read.holes.iter().map(|hole| hole.unexplained).sum::<u64>(), 0, "{told}");
            let earlier = if before == Before::Recorder { stored_before * PER_SAMPLE } else { 0 };
            assert_eq!(read.samples.len() * PER_SAMPLE, progress.stored + earlier, "{told}");
            assert_eq!(place.contradictions(), [], "{told}");
        }
    }
}

#[test]
fn a_stream_that_begins_and_ends_while_the_archive_is_away_is_a_hole_once_it_is_back() {
    for is_back in [true, false] {
        let place = Place::folder("");
        let mut recorder = open(&place.store, at_ms(0)).unwrap();
        place.take_away();
        recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
        record(&mut recorder, 0..100);
        recorder.handle(at_ms(1_000), &Event::Ended(account())).unwrap();
        assert_eq!(recorder.progress().next().unwrap().archive_write, 100 * PER_SAMPLE);
        if !is_back {
            let said = recorder.close(at_ms(2_000)).unwrap_err().to_string();
            assert!(said.contains("has disappeared"), "{said}");
            continue;
        }
        place.bring_back();
        recorder.tick(at_ms(5_000));
        // Written as soon as possible: a recorder that dies now has recorded it.
        std::mem::forget(recorder);
        let read = read_back(&place.store);
        assert_eq!(read.holes.iter().map(|hole| hole.lost[Stage::ArchiveWrite]).sum::<u64>(), 300);
    }
}

#[test]
fn a_beginning_that_the_disk_takes_in_part_is_completed_and_leaves_nothing_behind() {
    for before in [Before::Nothing, Before::Recorder, Before::Session] {
        for room in (0..3_000).step_by(60) {
            let place = Place::disk();
            let What::Disk(disk) = &place.what else { panic!("it is one") };
            let mut recorder = open(&place.store, at_ms(0)).unwrap();
            if before != Before::Nothing {
                recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
                record(&mut recorder, 0..100);
                recorder.handle(at_ms(1_000), &Event::Ended(account())).unwrap();
            }
            if before == Before::Recorder {
                recorder.close(at_ms(1_000)).unwrap();
                recorder = open(&place.store, at_ms(1_000)).unwrap();
            }
            disk.set_capacity(Some(disk.used_bytes() + room));
            recorder.handle(at_ms(1_500), &Event::Began(began(150))).unwrap();
            record(&mut recorder, 150..300);
            disk.set_capacity(None);
            record(&mut recorder, 300..600);
            recorder.handle(at_ms(6_000), &Event::Ended(account())).unwrap();
            let progress = recorder.progress().next().unwrap();
            recorder.close(at_ms(6_010)).unwrap();
            let told = format!("{before:?} with room for {room} bytes");
            assert_eq!(progress.stored + progress.archive_write, progress.accepted, "{told}");
            assert!(read_back(&place.store).samples.contains(599), "{told}");
            assert_eq!(place.contradictions(), [], "{told}");
            let aside = |path: &PathBuf| path.to_str().unwrap().contains(".damaged");
            assert_eq!(
                disk.paths().into_iter().filter(aside).collect::<Vec<_>>(),
                [] as [&Path; 0],
                "{told}"
            );
        }
    }
}

#[test]
fn only_so_many_streams_wait_and_one_more_is_refused() {
    const MOST: usize = 1_024;
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    let named = |number: usize| Arc::new(format!("lab/s{number}").parse::<StreamName>().unwrap());
    let mut begin = |number| recorder.handle(at_ms(0), &Event::Began(began_of(named(number), 0)));
    (0..MOST).for_each(|number| begin(number).unwrap());
    assert!(matches!(begin(MOST), Err(ArchiveError::Waiting(MOST))));
    let of = |number| Block { stream: named(number), ..block(0, 10) };
    assert!(recorder.handle(at_ms(1), &Event::Block(of(MOST - 1))).is_ok());
    assert!(matches!(recorder.handle(at_ms(1), &Event::Block(of(MOST))), Err(ArchiveError::Unknown(_))));
    disk.set_capacity(None);
    recorder.tick(at_ms(2_000));
    recorder.handle(at_ms(2_000), &Event::Began(began(0))).unwrap();
    recorder.handle(at_ms(2_000), &Event::Block(block(0, 10))).unwrap();
    recorder.close(at_ms(2_010)).unwrap();
    assert_eq!(read_back(&store).samples.len(), 10);
}
