//! Streams that a relay publishes: one folder for the origin's epoch, whichever relay brings its samples.

use std::num::NonZeroU8;
use std::path::Path;
use std::sync::Arc;

use archive::{ArchiveError, Scope, Store};
use ledger::{GapKind, Stage};
use sample::{Block, Dtype, Schema};
use tallycast::{Event, Origin, StreamAccount, StreamGap, StreamInfo};
use units::{Epoch, SampleRate};

use crate::forgetful::Forgetful;
use crate::scene::{EPOCH, account, at_ms, began, block, gap, open, read_back, stream};

/// Returns the epoch of a far relay's publication.
fn hop(number: u64) -> Epoch {
    Epoch { start_ns: EPOCH.start_ns + number * 1_000_000_000, incarnation: number }
}

fn began_by(number: u64, first_index: u64) -> Event {
    let origin = Some(Origin { epoch: EPOCH, hop: NonZeroU8::new(2).unwrap() });
    Event::Began(Arc::new(StreamInfo { epoch: hop(number), origin, ..(*began(first_index)).clone() }))
}

fn block_by(number: u64, first_index: u64, samples: u64) -> Event {
    Event::Block(Block { epoch: hop(number), ..block(first_index, samples) })
}

fn gap_by(number: u64, id: u64, samples: std::ops::Range<u64>, stage: Option<Stage>) -> Event {
    Event::Gap(StreamGap { epoch: hop(number), ..gap(id, samples, stage) })
}

fn ended_by(number: u64) -> Event {
    Event::Ended(StreamAccount { epoch: hop(number), ..account() })
}

fn is_whole(store: &Arc<dyn Store>) {
    let (archive, _) = stream(store);
    let verification = archive.verify(&Scope::default(), &mut |_| {}).unwrap();
    assert!(verification.is_whole(), "{:?}", verification.contradictions);
}

#[test]
fn a_relay_that_starts_again_goes_on_in_the_folder_of_the_origin() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    let events = [
        began_by(1, 0),
        block_by(1, 0, 40),
        gap_by(1, 0, 40..50, None),
        // The second relay begins behind what was lost with the first, and both number their gaps from 0.
        began_by(2, 60),
        block_by(2, 60, 40),
        gap_by(2, 0, 100..105, Some(Stage::Source)),
        gap_by(1, 0, 40..50, Some(Stage::Network)),
        block_by(2, 105, 10),
        ended_by(1),
        ended_by(2),
    ];
    for (step, event) in (0..).zip(&events) {
        recorder.handle(at_ms(step * 4), event).unwrap();
    }
    recorder.close(at_ms(60)).unwrap();
    let read = read_back(&store);
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), [0..40, 60..100, 105..115]);
    let [first, second] = &read.holes[..] else { panic!("{:?}", read.holes) };
    assert_eq!((first.lost[Stage::Network], first.reader_absent), (30, 30));
    assert_eq!(first.gaps[1].kind, GapKind::PublisherAbsent, "{first:?}");
    assert_eq!(second.lost[Stage::Source], 15);
    let (_, entry) = stream(&store);
    let [recording] = &entry.epochs[..] else { panic!("{:?}", entry.epochs) };
    assert_eq!(recording.description.epoch, EPOCH);
    assert_eq!(recording.account["state"], "closed");
    assert_eq!(recording.account["reader"]["epoch"], hop(2).to_string());
    assert_eq!(recording.earlier_accounts[0]["reader"]["epoch"].as_str(), None, "it had not told it yet");
    is_whole(&store);
}

#[test]
fn what_a_relay_tells_again_is_neither_stored_nor_counted_twice_also_behind_a_restart_of_the_recorder() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    for (number, is_dead) in [(1, false), (2, true), (3, false)] {
        let mut recorder = open(&store, at_ms(number * 1_000)).unwrap();
        let base = (number - 1) * 50;
        let events = [
            began_by(number, base.saturating_sub(30)),
            gap_by(number, 0, base.saturating_sub(20)..base, Some(Stage::Source)),
            block_by(number, base, 30),
            gap_by(number, 1, base + 30..base + 40, Some(Stage::Source)),
            block_by(number, base + 40, 5),
            gap_by(number, 2, base + 45..base + 55, Some(Stage::Source)),
        ];
        for event in &events {
            recorder.handle(at_ms(number * 1_000), event).unwrap();
        }
        recorder.tick(at_ms(number * 1_000 + 50));
        if is_dead {
            std::mem::forget(recorder);
            disk.kill();
        } else {
            recorder.handle(at_ms(number * 1_000 + 60), &ended_by(number)).unwrap();
            recorder.close(at_ms(number * 1_000 + 60)).unwrap();
        }
    }
    let read = read_back(&store);
    let stored = [0..30, 40..45, 55..80, 90..95, 105..130, 140..145];
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), stored);
    let lost: u64 = read.holes.iter().map(|hole| hole.lost.total()).sum();
    assert_eq!(lost, 3 * 20 * 3, "{:?}", read.holes);
    is_whole(&store);
}

#[test]
fn two_relays_whose_schemas_differ_are_not_mixed() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &began_by(1, 0)).unwrap();
    recorder.handle(at_ms(0), &block_by(1, 0, 10)).unwrap();
    let Event::Began(info) = began_by(2, 10) else { unreachable!() };
    let other = Schema::new(Dtype::F8, SampleRate::hz(1_000).unwrap(), info.schema.channels.clone()).unwrap();
    let other = Event::Began(Arc::new(StreamInfo { schema: Arc::new(other), ..(*info).clone() }));
    assert!(matches!(recorder.handle(at_ms(1), &other), Err(ArchiveError::SchemaChanged(_))));
    recorder.handle(at_ms(2), &block_by(1, 10, 10)).unwrap();
    recorder.handle(at_ms(3), &ended_by(1)).unwrap();
    recorder.close(at_ms(20)).unwrap();
    assert_eq!(read_back(&store).samples.len(), 20, "the first goes on");
    is_whole(&store);
}

#[test]
fn an_archive_in_which_relays_had_folders_of_their_own_is_read_and_left_as_it_is() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    // As a recorder before wrote it: it did not look at the origin.
    let info = StreamInfo { epoch: hop(1), ..(*began(0)).clone() };
    for event in [Event::Began(Arc::new(info)), block_by(1, 0, 10), ended_by(1)] {
        recorder.handle(at_ms(0), &event).unwrap();
    }
    recorder.close(at_ms(20)).unwrap();
    let mut recorder = open(&store, at_ms(1_000)).unwrap();
    for event in [began_by(2, 30), block_by(2, 30, 10), ended_by(2)] {
        recorder.handle(at_ms(1_000), &event).unwrap();
    }
    recorder.close(at_ms(1_020)).unwrap();
    let (_, entry) = stream(&store);
    let epochs: Vec<_> = entry.epochs.iter().map(|it| (it.description.epoch, it.samples)).collect();
    assert_eq!(epochs, [(EPOCH, 10), (hop(1), 10)]);
    assert!(!store.list(Path::new("run=shot-7")).unwrap().is_empty());
    is_whole(&store);
}
