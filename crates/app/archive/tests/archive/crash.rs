//! Power cuts at every single step of a recording, and of the recovery after it. The result of an interrupted step is
//! random: two outcomes each, unless `TALLYCAST_CUTS` asks for more.

use std::sync::Arc;

use archive::{ArchiveError, Store, compact};
use ledger::Stage;
use tallycast::Event;
use units::RangeSet;

use crate::forgetful::Forgetful;
use crate::scene::{account, amount, at_ms, began, block, gap, open, read_back};

const BLOCKS: u64 = 40;
const SAMPLES: u64 = 10;

/// Samples and gaps that a recorder had acknowledged at the power cut.
#[derive(Debug, Default)]
struct Promise {
    stored_index: u64,
    accepted: RangeSet,
    lost: RangeSet,
}

/// Records blocks with a planted hole at every fifth, settled two blocks later; compacts closed segments.
fn record(disk: &Forgetful, promise: &mut Promise) -> Result<(), ArchiveError> {
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0))?;
    recorder.handle(at_ms(0), &Event::Began(began(0)))?;
    for step in 0..BLOCKS {
        let now = at_ms(step * 4);
        let samples = step * SAMPLES..(step + 1) * SAMPLES;
        if step % 5 == 3 {
            recorder.handle(now, &Event::Gap(gap(step, samples.clone(), None)))?;
            promise.lost.insert(samples);
        } else {
            recorder.handle(now, &Event::Block(block(samples.start, SAMPLES)))?;
            promise.accepted.insert(samples);
        }
        if step % 5 == 0 && step > 0 {
            let late = step - 2;
            let news = gap(late, late * SAMPLES..(late + 1) * SAMPLES, Some(Stage::Injected));
            recorder.handle(now, &Event::Gap(news))?;
        }
        if disk.is_off() {
            return Ok(());
        }
        promise.stored_index = recorder.progress().next().unwrap().stored_index;
        for closed in recorder.take_closed() {
            drop(compact(&*store, &closed));
        }
    }
    recorder.handle(at_ms(200), &Event::Ended(account()))?;
    promise.stored_index = recorder.progress().next().unwrap().stored_index;
    recorder.close(at_ms(200)).map(drop)
}

fn check_promise(disk: &Forgetful, promise: &Promise) {
    if promise.stored_index == 0 {
        return;
    }
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let read = read_back(&store);
    for range in promise.accepted.intersection(0..promise.stored_index) {
        assert_eq!(
            read.samples.count_in(range.clone()),
            range.end - range.start,
            "{range:?} was acknowledged"
        );
    }
}

/// Recovers, records a little after a pause, and checks that everything in between is accounted for.
fn recover_and_record_on(disk: &Forgetful, promise: &Promise) {
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(1_000)).unwrap();
    recorder.handle(at_ms(1_000), &Event::Began(began(900))).unwrap();
    recorder.handle(at_ms(1_000), &Event::Block(block(900, SAMPLES))).unwrap();
    recorder.handle(at_ms(1_001), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(1_002)).unwrap();
    check_promise(disk, promise);
    let read = read_back(&store);
    assert!(read.samples.contains(900) && read.samples.contains(909));
    for hole in &read.holes {
        assert_eq!(hole.unsettled, 0, "nobody is left to settle it: {hole:?}");
        let recorded: u64 = hole.gaps.iter().map(|gap| gap.positions.end - gap.positions.start).sum();
        assert!(recorded >= hole.samples * 3, "a hole without a record: {hole:?}");
    }
}

#[test]
fn whatever_is_acknowledged_survives_a_power_cut_at_any_step() {
    let whole = Forgetful::default();
    record(&whole, &mut Promise::default()).unwrap();
    let steps = whole.steps();
    assert!(steps > 150, "the scene has too few steps to prove anything: {steps}");
    for cut in 1..=steps {
        let disk = Forgetful::default();
        disk.cut_at(cut);
        let mut promise = Promise::default();
        // An error is how the recorder sees the power cut.
        drop(record(&disk, &mut promise));
        for seed in 0..amount("TALLYCAST_CUTS", 2) {
            let found = disk.after_power_cut(cut * 100 + seed);
            check_promise(&found, &promise);
            recover_and_record_on(&found, &promise);
        }
    }
}

#[test]
fn a_recovery_that_is_itself_cut_comes_to_the_same_end() {
    let whole = Forgetful::default();
    record(&whole, &mut Promise::default()).unwrap();
    for cut in (5..whole.steps()).step_by(23) {
        let disk = Forgetful::default();
        disk.cut_at(cut);
        let mut promise = Promise::default();
        drop(record(&disk, &mut promise));
        for second_cut in 1..60 {
            let found = disk.after_power_cut(cut);
            found.cut_at(second_cut);
            let store: Arc<dyn Store> = Arc::new(found.clone());
            let finished = open(&store, at_ms(1_000)).is_ok();
            recover_and_record_on(&found.after_power_cut(second_cut), &promise);
            if finished {
                break;
            }
        }
    }
}

#[test]
fn a_killed_process_loses_only_what_it_had_not_written_whole() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    recorder.handle(at_ms(0), &Event::Block(block(0, 40))).unwrap();
    recorder.tick(at_ms(10));
    // Two batches that were never acknowledged: a part of one is lost, the other is intact by its own checksum.
    recorder.handle(at_ms(12), &Event::Block(block(40, 40))).unwrap();
    recorder.handle(at_ms(12), &Event::Block(block(80, 40))).unwrap();
    std::mem::forget(recorder);
    disk.kill();
    let data = disk.paths().into_iter().find(|path| path.to_str().unwrap().ends_with(".arrows")).unwrap();
    disk.change(&data, |bytes| bytes.truncate(bytes.len() - 10));
    let promise =
        Promise { stored_index: 40, accepted: (0..1).map(|_| 0..120).collect(), lost: RangeSet::new() };
    recover_and_record_on(&disk, &promise);
    let read = read_back(&store);
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), [0..80, 900..910]);
    assert_eq!(read.holes.len(), 1);
    assert_eq!(read.holes[0].reader_absent, 820 * 3);
    let map = std::str::from_utf8(
        &archive::read_whole(&*store, disk.paths().iter().find(|path| path.ends_with("gaps.jsonl")).unwrap())
            .unwrap(),
    )
    .unwrap()
    .to_owned();
    assert!(map.contains("\"line\":\"trim\""), "what was cut is written down: {map}");
}

#[test]
fn what_a_dead_recorder_left_uncompacted_is_handed_to_the_compactor() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..600).step_by(10) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    std::mem::forget(recorder);
    disk.kill();
    let mut recorder = open(&store, at_ms(1_000)).unwrap();
    let left = recorder.take_closed();
    assert!(left.len() > 1, "{left:?}");
    left.iter().for_each(|segment| drop(compact(&*store, segment).unwrap()));
    assert!(!disk.paths().iter().any(|path| path.to_str().unwrap().ends_with(".arrows")));
    assert!(read_back(&store).samples.len() > 500);
}
