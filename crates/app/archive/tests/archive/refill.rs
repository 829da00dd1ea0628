//! Holes that are refilled from the archive of another station, whatever happens meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use archive::{ArchiveError, Piece, Refiller, Scope, Store, Verification, compact_run};
use ledger::Stage;
use sample::{Dtype, Schema};
use tallycast::Event;
use units::{RangeSet, SampleRate};

use crate::forgetful::Forgetful;
use crate::scene::{
    EPOCH, PER_SAMPLE, account, at_ms, began, block, everything, gap, name, open, read_back, stream, time_of,
};

/// What a recorder got: samples, or nothing.
type Got = (std::ops::Range<u64>, bool);

/// The near archive has everything but 150..160, which nobody has.
const NEAR: &[Got] = &[(0..150, true), (150..160, false), (160..300, true)];
/// The far one began later, ended earlier, and lost more.
const FAR: &[Got] = &[(20..40, true), (40..90, false), (90..130, true), (130..200, false), (200..280, true)];

/// Records samples, each hole with its gap; the sample before the last of each part has lost its middle element.
fn record(disk: &Forgetful, parts: &[Got], cuts_elements: bool) {
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(parts[0].0.start))).unwrap();
    for (id, (samples, is_there)) in (0..).zip(parts) {
        let now = at_ms(samples.start);
        if !is_there {
            recorder.handle(now, &Event::Gap(gap(id, samples.clone(), Some(Stage::Deadline)))).unwrap();
            continue;
        }
        let mut block = block(samples.start, samples.end - samples.start);
        if cuts_elements {
            let at = (block.samples - 2) * PER_SAMPLE + 1;
            block.missing.insert(at..at + 1);
            block.data.as_bytes_mut()[at as usize * 4..at as usize * 4 + 4].fill(0);
            let mut lost = gap(100 + id, 0..1, Some(Stage::Deadline));
            lost.gap.positions = samples.start * PER_SAMPLE + at..samples.start * PER_SAMPLE + at + 1;
            lost.gap.lost = ledger::StageCounts::of(Stage::Deadline, 1);
            recorder.handle(now, &Event::Gap(lost)).unwrap();
        }
        recorder.handle(now, &Event::Block(block)).unwrap();
    }
    recorder.handle(at_ms(400), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(400)).unwrap();
}

fn disks() -> (Forgetful, Forgetful) {
    let (near, far) = (Forgetful::default(), Forgetful::default());
    record(&near, NEAR, false);
    record(&far, FAR, true);
    (near, far)
}

/// Fetches everything once, `limit` bytes at a time; returns how many refills were stored.
fn refill(near: &Forgetful, far: &Forgetful, limit: usize) -> Result<u32, ArchiveError> {
    let near: Arc<dyn Store> = Arc::new(near.clone());
    let (archive, _) = stream(&near);
    let mut refiller = Refiller::open(Arc::new(far.clone()))?;
    let (mut count, mut asked) = (0, RangeSet::new());
    loop {
        let mut wants = refiller.wants()?;
        let want = wants.pop().unwrap();
        let mut missing = want.missing.clone();
        missing.remove_all(asked.iter());
        // Empty at first too: what the other archive reaches is told with any answer.
        if missing.is_empty() && count > 0 {
            return Ok(count);
        }
        let found = archive.supply((&name(), EPOCH), &missing, limit)?.unwrap();
        asked = asked.iter().chain(found.answered.iter()).collect();
        refiller.store(&want, &found, time_of(1_000 + u64::from(count)))?;
        count += 1;
    }
}

fn verified(disk: &Forgetful) -> Verification {
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    stream(&store).0.verify(&Scope::default(), &mut |_| {}).unwrap()
}

/// Returns what the catalogue says, which must be what a verification finds.
fn is_complete(disk: &Forgetful) -> bool {
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let (archive, entry) = stream(&store);
    let complete = entry.epochs.iter().all(|it| archive.is_complete(it).unwrap());
    assert_eq!(complete, verified(disk).is_complete());
    complete
}

fn everything_is_there_but_what_nobody_has(far: &Forgetful) {
    let store: Arc<dyn Store> = Arc::new(far.clone());
    let read = read_back(&store);
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), [0..150, 160..300]);
    let (archive, entry) = stream(&store);
    let blocks = archive.range(&entry, everything()).filter_map(|piece| match piece.unwrap() {
        Piece::Block(block) => Some(block),
        _ => None,
    });
    assert!(blocks.into_iter().all(|block| block.missing.is_empty()), "elements too");
    let [hole] = &read.holes[..] else { panic!("{:?}", read.holes) };
    assert_eq!((hole.first_index, hole.lost[Stage::Deadline]), (150, 30), "told as ever");
    let found = verified(far);
    assert!(found.is_whole() && !is_complete(far), "{found:?}");
    // 20 and 20 outside, 50 and 60 inside, and three single elements.
    assert_eq!((found.missing_elements, found.refilled_elements), (30, 150 * PER_SAMPLE + 3), "{found:?}");
}

#[test]
fn what_another_station_has_fills_holes_and_elements_and_the_gap_map_keeps_that_it_was_missing() {
    for limit in [1, 500, 1 << 20] {
        let (near, far) = disks();
        let before = verified(&far);
        assert!(before.is_whole() && !before.is_complete(), "{before:?}");
        refill(&near, &far, limit).unwrap();
        everything_is_there_but_what_nobody_has(&far);
        let store: Arc<dyn Store> = Arc::new(far.clone());
        let (archive, entry) = stream(&store);
        let recording = &entry.epochs[0];
        let deadline: u64 = recording.gaps.iter().map(|gap| gap.lost[Stage::Deadline]).sum();
        assert_eq!(deadline, 120 * PER_SAMPLE + 3, "as the recorder wrote it");
        let first = &recording.refills[0];
        assert_eq!((&*first.station, first.reaches.clone(), first.at), ("daq-3", 0..300, time_of(1_000)));
        // Any range of indices is read as from a recording without holes.
        for range in [0..5, 10..50, 60..61, 95..145, 128..129, 145..165, 270..300] {
            let mut there = RangeSet::new();
            for piece in archive.epoch(recording, everything()).within(range.clone()) {
                if let Piece::Block(found) = piece.unwrap() {
                    assert_eq!(
                        found.data.as_bytes(),
                        block(found.first_index, found.samples).data.as_bytes()
                    );
                    assert!(
                        there.insert(found.first_index..found.next_index()) == found.samples,
                        "once each"
                    );
                }
            }
            let mut wanted: RangeSet = std::iter::once(range).collect();
            wanted.remove(150..160);
            assert_eq!(there, wanted);
        }
        let again = refill(&near, &far, limit).unwrap();
        assert_eq!(again, if limit == 1 { 10 } else { 1 }, "only what is lacking is asked for again");
    }
}

#[test]
fn an_archive_is_complete_once_the_last_missing_element_has_come() {
    let (near, far) = (Forgetful::default(), Forgetful::default());
    record(&near, &[(0..300, true)], false);
    record(&far, FAR, true);
    let (archive, _) = stream(&(Arc::new(near.clone()) as Arc<dyn Store>));
    let mut refiller = Refiller::open(Arc::new(far.clone())).unwrap();
    let mut is_first = true;
    loop {
        let want = refiller.wants().unwrap().pop().unwrap();
        if want.missing.is_empty() && !is_first {
            break;
        }
        is_first = false;
        assert!(!is_complete(&far));
        let found = archive.supply((&name(), EPOCH), &want.missing, 400).unwrap().unwrap();
        refiller.store(&want, &found, time_of(1_000)).unwrap();
    }
    assert!(is_complete(&far));
    let data = far.paths().into_iter().find(|it| it.ends_with("refill-000001.index")).unwrap();
    far.change(&data, |bytes| bytes[70] ^= 1);
    assert!(!is_complete(&far), "what came can no longer be read");
}

#[test]
fn an_epoch_is_complete_only_once_it_has_ended_and_if_all_its_samples_are_there() {
    let whole = Forgetful::default();
    record(&whole, &[(20..300, true)], false);
    assert!(is_complete(&whole));
    for parts in
        [&[(0..90, true), (90..100, false), (100..300, true)][..], &[(0..90, true), (100..300, true)]]
    {
        let lossy = Forgetful::default();
        record(&lossy, parts, false);
        assert!(!is_complete(&lossy), "{parts:?}");
    }
    let elements = Forgetful::default();
    record(&elements, &[(0..300, true)], true);
    assert!(!is_complete(&elements));

    let open_disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(open_disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    recorder.handle(at_ms(0), &Event::Block(block(0, 10))).unwrap();
    recorder.tick(at_ms(50));
    assert!(!is_complete(&open_disk), "a recorder is at work");
    recorder.close(at_ms(100)).unwrap();
    assert!(!is_complete(&open_disk), "the recorder left before the end");
}

#[test]
fn a_refill_counts_as_a_whole_or_not_at_all_whenever_the_power_is_cut() {
    let (near, whole) = disks();
    let before = whole.steps();
    refill(&near, &whole, 800).unwrap();
    let steps = whole.steps() - before;
    assert!(steps > 40, "{steps} steps prove nothing");
    for cut in 1..=steps {
        let (_, far) = disks();
        far.cut_at(far.steps() + cut);
        drop(refill(&near, &far, 800));
        for seed in 0..2 {
            let found = far.after_power_cut(cut * 10 + seed);
            let verification = verified(&found);
            assert!(verification.is_whole(), "cut at {cut}: {:?}", verification.contradictions);
            refill(&near, &found, 800).unwrap();
            everything_is_there_but_what_nobody_has(&found);
        }
    }
}

#[test]
fn refills_become_parquet_and_stay_what_they_are_behind_the_next_recorder() {
    let (near, far) = disks();
    refill(&near, &far, 800).unwrap();
    let store: Arc<dyn Store> = Arc::new(far.clone());
    compact_run(&*store, &"shot-7".parse().unwrap()).unwrap();
    let is_arrow = |path: &PathBuf| path.extension().is_some_and(|it| it == "arrows");
    assert!(!far.paths().iter().any(is_arrow), "{:?}", far.paths());
    everything_is_there_but_what_nobody_has(&far);
    open(&store, at_ms(1_000)).unwrap().close(at_ms(1_000)).unwrap();
    everything_is_there_but_what_nobody_has(&far);
}

#[test]
fn a_damaged_refill_is_a_hole_that_says_so_and_is_fetched_again() {
    let (near, far) = disks();
    refill(&near, &far, 1 << 20).unwrap();
    let data = |suffix: &str| {
        let is_it = |path: &PathBuf| path.to_str().unwrap().ends_with(suffix);
        far.paths().into_iter().find(is_it).unwrap()
    };
    far.change(&data("refill-000001.arrows"), |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let found = verified(&far);
    assert!(found.contradictions.iter().any(|it| it.what.contains("refill-000001")), "{found:?}");
    assert!(!found.is_complete());
    let store: Arc<dyn Store> = Arc::new(far.clone());
    let (archive, entry) = stream(&store);
    let mut there = RangeSet::new();
    for piece in archive.range(&entry, everything()) {
        match piece.unwrap() {
            Piece::Block(block) => {
                there.insert(block.first_index..block.next_index());
            }
            Piece::Hole(hole) if hole.first_index == 40 => assert!(hole.is_damage(), "{hole:?}"),
            _ => {}
        }
    }
    assert_eq!(there.iter().collect::<Vec<_>>(), [0..40, 90..130, 200..300], "nothing wrong is read");
    far.change(&data("refill-000001.json"), |bytes| bytes[20] ^= 1);
    assert!(!verified(&far).is_whole());
    refill(&near, &far, 1 << 20).unwrap();
    let read = read_back(&store);
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), [0..150, 160..300], "it came again");
}

#[test]
fn only_an_epoch_whose_folder_has_changed_is_read_again() {
    let (near, far) = disks();
    let store: Arc<dyn Store> = Arc::new(far.clone());
    let (archive, _) = stream(&(Arc::new(near.clone()) as Arc<dyn Store>));
    let mut refiller = Refiller::open(Arc::clone(&store)).unwrap();
    let want = refiller.wants().unwrap().pop().unwrap();
    assert_eq!(
        (refiller.wants().unwrap().pop().unwrap().missing, refiller.epochs_read()),
        (want.missing.clone(), 1)
    );
    // A refill: less is missing.
    let found = archive.supply((&name(), EPOCH), &want.missing, 800).unwrap().unwrap();
    refiller.store(&want, &found, time_of(1_000)).unwrap();
    let left = refiller.wants().unwrap().pop().unwrap().missing;
    assert!(left.len() < want.missing.len() && refiller.epochs_read() == 2, "{left:?} of {:?}", want.missing);
    // A recorder that goes on, loses more, and ends: each is seen, and what it stores beside needs no look.
    let mut recorder = open(&store, at_ms(1_000)).unwrap();
    recorder.handle(at_ms(1_000), &Event::Began(began(280))).unwrap();
    let mut reads = Vec::new();
    for step in 0..5 {
        recorder.handle(at_ms(1_000 + step * 30), &Event::Block(block(280 + step * 2, 2))).unwrap();
        recorder.tick(at_ms(1_000 + step * 30 + 20));
        assert!(refiller.wants().unwrap().pop().unwrap().is_open);
        reads.push(refiller.epochs_read());
    }
    // Samples that are added to a segment change nothing.
    assert_eq!(reads[0], reads[2], "{reads:?}");
    recorder.handle(at_ms(1_200), &Event::Gap(gap(500, 290..295, Some(Stage::Deadline)))).unwrap();
    recorder.handle(at_ms(1_200), &Event::Block(block(295, 5))).unwrap();
    recorder.tick(at_ms(1_250));
    let missing = refiller.wants().unwrap().pop().unwrap().missing;
    assert_eq!(missing.count_in(290..295), 5, "{missing:?}");
    recorder.handle(at_ms(1_300), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(1_300)).unwrap();
    assert!(!refiller.wants().unwrap().pop().unwrap().is_open);
    let before = refiller.epochs_read();
    let missing = refiller.wants().unwrap().pop().unwrap().missing;
    assert_eq!(refiller.epochs_read(), before);
    refiller.look_again();
    assert_eq!(refiller.wants().unwrap().pop().unwrap().missing, missing);
    assert_eq!(refiller.epochs_read(), before + 1);
}

#[test]
fn a_second_refiller_and_samples_of_another_schema_are_refused_and_a_recorder_goes_on_beside() {
    let (near, far) = disks();
    let store: Arc<dyn Store> = Arc::new(far.clone());
    let mut recorder = open(&store, at_ms(1_000)).unwrap();
    recorder.handle(at_ms(1_000), &Event::Began(began(280))).unwrap();
    recorder.handle(at_ms(1_000), &Event::Block(block(280, 10))).unwrap();
    recorder.tick(at_ms(1_050));
    let mut refiller = Refiller::open(Arc::clone(&store)).unwrap();
    assert!(matches!(Refiller::open(Arc::clone(&store)), Err(ArchiveError::Refilled(_))));
    let want = refiller.wants().unwrap().pop().unwrap();
    let (archive, _) = stream(&(Arc::new(near.clone()) as Arc<dyn Store>));
    let found = archive.supply((&name(), EPOCH), &want.missing, 1 << 20).unwrap().unwrap();
    let mut other = found.clone();
    let mut description = (*found.description).clone();
    let channels = description.schema.channels.clone();
    description.schema = Arc::new(Schema::new(Dtype::F8, SampleRate::hz(1_000).unwrap(), channels).unwrap());
    other.description = Arc::new(description);
    let refused = refiller.store(&want, &other, time_of(1_000));
    assert!(matches!(refused, Err(ArchiveError::SchemaChanged(_))));
    refiller.store(&want, &found, time_of(1_000)).unwrap();
    recorder.handle(at_ms(1_100), &Event::Block(block(290, 10))).unwrap();
    recorder.handle(at_ms(1_100), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(1_100)).unwrap();
    drop(refiller);
    refill(&near, &far, 1 << 20).unwrap();
    let read = read_back(&store);
    assert_eq!(read.samples.iter().collect::<Vec<_>>(), [0..150, 160..300]);
    assert!(verified(&far).is_whole());
    let beyond: RangeSet = std::iter::once(u64::MAX - 9..u64::MAX).collect();
    let found = archive.supply((&name(), EPOCH), &beyond, 1 << 20).unwrap().unwrap();
    assert!(found.blocks.is_empty() && found.answered == beyond, "{found:?}");
    let unknown = units::Epoch { start_ns: 1, incarnation: 1 };
    assert!(archive.supply((&name(), unknown), &want.missing, 1).unwrap().is_none());
}
