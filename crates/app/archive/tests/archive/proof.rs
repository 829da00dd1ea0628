//! Attacks on a recording with signed statements, by somebody who can write every file with the right checksums: each
//! is told at its interval, and nowhere else. Statements survive power cuts as samples do.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use archive::{Proof, Signatory, Store, compact, read_whole};
use keys::{Authority, Certificate, PublicKey, SIGNATURE_BYTES, Signature, SigningKey, Station};
use ledger::Stage;
use proof::{Author, Grid};
use sample::{Block, SampleBuffer};
use tallycast::Event;
use units::WallTime;
use zeroize::Zeroizing;

use crate::forgetful::Forgetful;
use crate::scene::{EPOCH, PER_SAMPLE, account, at_ms, began, block, gap, name, open, schema, stream};

/// Samples in one interval: three leaves of ten.
const INTERVAL: u64 = 30;
const SAMPLES: u64 = 10 * INTERVAL;
const NOW: WallTime = WallTime::from_nanos(1_000);

fn authority() -> Authority {
    Authority::new(SigningKey::from_seed(&Zeroizing::new([1; 32])))
}

fn author(station: &str, seed: u8) -> Author {
    author_of(station, seed, EPOCH)
}

fn author_of(station: &str, seed: u8, epoch: units::Epoch) -> Author {
    let key = SigningKey::from_seed(&Zeroizing::new([seed; 32]));
    let certificate = authority().certify(Certificate {
        name: station.to_owned(),
        signing: key.public(),
        exchange: PublicKey([3; 32]),
        not_before: WallTime::from_nanos(0),
        not_after: WallTime::from_nanos(2_000),
        signature: Signature([0; SIGNATURE_BYTES]),
    });
    let grid = Grid::from_sizes(10 * PER_SAMPLE as u32, 3).unwrap();
    Author::new(Station::new(certificate, key).unwrap(), (&name(), &schema(), epoch), grid).unwrap()
}

/// Returns one statement after each interval, each about that interval only, and one about the end.
fn statements(station: &str, seed: u8) -> Vec<Vec<u8>> {
    let mut author = author(station, seed);
    let mut found = Vec::new();
    for first in (0..SAMPLES).step_by(INTERVAL as usize) {
        author.take(first * PER_SAMPLE, block(first, INTERVAL).data.as_bytes());
        found.push(author.statement(NOW, 460).unwrap());
    }
    author.finish(SAMPLES * PER_SAMPLE);
    found.push(author.statement(NOW, 460).unwrap());
    found
}

/// Records all blocks that `deliver` returns for the true ones, with statements, and compacts half of the segments.
fn record(statements: &[Vec<u8>], deliver: impl Fn(Block) -> Option<Block>) -> (Forgetful, Arc<dyn Store>) {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..SAMPLES).step_by(10) {
        match deliver(block(first, 10)) {
            Some(block) => recorder.handle(at_ms(first), &Event::Block(block)).unwrap(),
            None => {
                let lost = gap(first, first..first + 10, Some(Stage::ReceiverSocketBuffer));
                recorder.handle(at_ms(first), &Event::Gap(lost)).unwrap();
            }
        }
        if first < SAMPLES / 2 {
            recorder.take_closed().iter().for_each(|segment| drop(compact(&*store, segment).unwrap()));
        }
    }
    let stream = (&name(), EPOCH);
    statements.iter().for_each(|it| recorder.note_statement(at_ms(SAMPLES), stream, it).unwrap());
    recorder.handle(at_ms(SAMPLES), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(SAMPLES)).unwrap();
    (disk, store)
}

/// Returns the verdict of each interval, and the sum.
fn prove(store: &Arc<dyn Store>, station: Option<&str>) -> (Vec<&'static str>, Proof) {
    let (archive, entry) = stream(store);
    let signatory = Signatory { authority: authority().public(), station: station.map(str::to_owned) };
    let mut found = Vec::new();
    let proof = archive.prove(&entry.epochs[0], &signatory, &mut |ruling| {
        let count = ruling.judged.intervals.end - ruling.judged.intervals.start;
        found.extend(std::iter::repeat_n(ruling.judged.verdict.name(), count as usize));
        if let proof::Verdict::Incomplete { missing, .. } = &ruling.judged.verdict {
            assert_eq!(ruling.reasons.total(), missing.len(), "every missing element has its reason");
        }
    });
    (found, proof.unwrap())
}

/// Returns verdicts that are all proven but those of the given intervals.
fn proven_but(others: &[(usize, &'static str)]) -> Vec<&'static str> {
    let mut verdicts = vec!["proven"; (SAMPLES / INTERVAL) as usize];
    others.iter().for_each(|(interval, verdict)| verdicts[*interval] = verdict);
    verdicts
}

fn statements_path(disk: &Forgetful) -> PathBuf {
    disk.paths().into_iter().find(|path| path.ends_with("statements.jsonl")).unwrap()
}

/// Changes one element of a block.
fn forged(block: &Block, at: Range<usize>) -> Block {
    let mut bytes = block.data.as_bytes().to_vec();
    bytes[at].iter_mut().for_each(|byte| *byte ^= 1);
    Block { data: SampleBuffer::from_bytes(&bytes), ..block.clone() }
}

#[test]
fn an_untouched_recording_is_proven_to_its_end() {
    let (_, store) = record(&statements("daq-3", 2), Some);
    let (verdicts, proof) = prove(&store, None);
    assert_eq!(verdicts, proven_but(&[]));
    assert!(proof.is_whole() && proof.is_end_stated);
    assert_eq!((proof.station.as_deref(), proof.statements), (Some("daq-3"), 11));
    let (archive, _) = stream(&store);
    let verified = archive.verify(&archive::Scope::default(), &mut |_| {}).unwrap();
    assert!(verified.is_whole() && verified.remarks.is_empty(), "{verified:?}");
}

#[test]
fn a_lost_datagram_leaves_the_rest_of_its_interval_proven() {
    let (_, store) = record(&statements("daq-3", 2), |block| (block.first_index != 70).then_some(block));
    let (verdicts, proof) = prove(&store, None);
    assert_eq!(verdicts, proven_but(&[(2, "incomplete")]));
    assert!(!proof.is_whole());
}

#[test]
fn one_flipped_bit_under_right_checksums_contradicts_its_interval_only() {
    let flipped = |block: Block| Some(if block.first_index == 130 { forged(&block, 5..6) } else { block });
    let (_, store) = record(&statements("daq-3", 2), flipped);
    assert_eq!(prove(&store, None).0, proven_but(&[(4, "contradicted")]));
}

#[test]
fn one_flipped_bit_on_the_disk_is_a_gap_of_its_interval() {
    let (disk, store) = record(&statements("daq-3", 2), Some);
    let segment = disk.paths().into_iter().rfind(|path| path.to_str().unwrap().ends_with(".arrows")).unwrap();
    let size = read_whole(&*store, &segment).unwrap().len();
    disk.flip(&segment, size / 2);
    let (verdicts, _) = prove(&store, None);
    assert!(!verdicts.contains(&"contradicted") && verdicts.contains(&"incomplete"), "{verdicts:?}");
    assert!(verdicts[..5].iter().all(|verdict| *verdict == "proven"), "{verdicts:?}");
}

#[test]
fn swapped_samples_contradict_both_places() {
    let swapped = |it: Block| match it.first_index {
        40 => Some(Block { data: block(220, 10).data, ..it }),
        220 => Some(Block { data: block(40, 10).data, ..it }),
        _ => Some(it),
    };
    let (_, store) = record(&statements("daq-3", 2), swapped);
    assert_eq!(prove(&store, None).0, proven_but(&[(1, "contradicted"), (7, "contradicted")]));
}

#[test]
fn a_swapped_segment_is_never_proven() {
    let (disk, store) = record(&statements("daq-3", 2), Some);
    let arrows = disk.paths().into_iter().filter(|path| path.to_str().unwrap().ends_with(".arrows"));
    let [one, .., other] = &arrows.collect::<Vec<_>>()[..] else { panic!("several segments") };
    let (first, second) = (read_whole(&*store, one).unwrap(), read_whole(&*store, other).unwrap());
    disk.change(one, |bytes| *bytes = second);
    disk.change(other, |bytes| *bytes = first);
    let (verdicts, proof) = prove(&store, None);
    assert!(proof.incomplete + proof.contradicted > 1, "{verdicts:?}");
    assert_eq!(verdicts[0], "proven", "{verdicts:?}");
}

#[test]
fn a_removed_statement_is_bridged_and_the_last_ones_are_missed() {
    let mut list = statements("daq-3", 2);
    drop(list.drain(3..6));
    let (_, store) = record(&list, Some);
    let (verdicts, proof) = prove(&store, None);
    assert_eq!(verdicts, proven_but(&[]));
    assert!(proof.is_end_stated);
    // Only where samples are missing as well nothing can be said.
    let (_, store) = record(&list, |block| (block.first_index != 130).then_some(block));
    let lost = "unsigned";
    assert_eq!(prove(&store, None).0, proven_but(&[(3, lost), (4, lost), (5, lost)]));
    list.truncate(3);
    let (_, store) = record(&list, Some);
    let (verdicts, proof) = prove(&store, None);
    assert_eq!((&verdicts[..4], proof.unsigned), (&["proven", "proven", "proven", lost][..], 7));
    assert!(!proof.is_end_stated && !proof.is_whole());
}

#[test]
fn reordered_statements_prove_the_same() {
    let mut list = statements("daq-3", 2);
    list.reverse();
    list.swap(2, 7);
    let (_, store) = record(&list, Some);
    assert!(prove(&store, None).1.is_whole());
}

#[test]
fn statements_of_another_station_and_forged_ones_prove_nothing() {
    let genuine = statements("daq-3", 2);
    let mut list = statements("daq-9", 4);
    let mut forgery = genuine[4].clone();
    forgery[130] ^= 1;
    list.push(forgery);
    let (_, store) = record(&list, Some);
    let (verdicts, proof) = prove(&store, Some("daq-3"));
    assert!(verdicts.is_empty(), "{verdicts:?}");
    assert_eq!((proof.statements, proof.refused, proof.station.as_deref()), (0, 12, None));
    assert!(proof.faults[0].starts_with("11 statements, first number 1: "), "{:?}", proof.faults[0]);
    assert!(proof.faults[0].contains("by station `daq-9`, not by `daq-3`"), "{:?}", proof.faults[0]);
    assert!(proof.faults[1].contains("forged"), "{:?}", proof.faults[1]);
    // Beside the genuine ones they are refused and told, and take nothing away: the recording names its station.
    list.extend(genuine);
    let (_, store) = record(&list, Some);
    let (verdicts, proof) = prove(&store, None);
    assert_eq!((verdicts, proof.refused), (proven_but(&[]), 12));
    assert!(!proof.is_whole());
}

#[test]
fn a_truncated_recording_is_incomplete_from_where_it_was_cut() {
    let (disk, store) = record(&statements("daq-3", 2), |block| (block.first_index < 200).then_some(block));
    let (verdicts, _) = prove(&store, None);
    let cut: Vec<(usize, &str)> = (6..10).map(|interval| (interval, "incomplete")).collect();
    assert_eq!(verdicts, proven_but(&cut));
    // Also without a gap map and account that tell of them.
    for forgotten in ["gaps.jsonl", "account.json"] {
        let path = disk.paths().into_iter().find(|path| path.ends_with(forgotten)).unwrap();
        store.remove(&path).unwrap();
    }
    assert_eq!(prove(&store, None).0, proven_but(&cut));
}

#[test]
fn a_damaged_line_costs_its_statement_and_is_told() {
    let (disk, store) = record(&statements("daq-3", 2), Some);
    let path = statements_path(&disk);
    disk.flip(&path, 2_000);
    let (verdicts, proof) = prove(&store, None);
    assert_eq!((verdicts, proof.statements), (proven_but(&[]), 10), "the chain bridges it");
    assert_eq!(proof.faults.len(), 1);
    let (archive, _) = stream(&store);
    let verified = archive.verify(&archive::Scope::default(), &mut |_| {}).unwrap();
    assert!(verified.contradictions[0].what.contains("1 line is damaged"), "{verified:?}");
}

#[test]
fn a_changed_byte_of_a_statement_under_a_right_checksum_costs_it_and_contradicts_nothing() {
    let genuine = statements("daq-3", 2);
    // Every part of it: fixed part, entries, certificate, signature.
    for at in (0..genuine[4].len()).step_by(7).chain([genuine[4].len() - 1]) {
        let mut list = genuine.clone();
        list[4][at] ^= 1;
        let (_, store) = record(&list, Some);
        let (verdicts, proof) = prove(&store, Some("daq-3"));
        assert_eq!(verdicts, proven_but(&[]), "byte {at}: the chain bridges it");
        assert_eq!((proof.refused, proof.faults.len()), (1, 1), "byte {at}: {proof:?}");
        assert!(proof.faults[0].starts_with("statement 5: "), "byte {at}: {:?}", proof.faults);
        assert!(!proof.is_whole(), "byte {at}");
    }
}

#[test]
fn a_statement_cut_short_or_of_another_epoch_is_refused_with_its_reason() {
    let mut list = statements("daq-3", 2);
    list[4].pop();
    let (_, store) = record(&list, Some);
    let (verdicts, proof) = prove(&store, None);
    assert_eq!(verdicts, proven_but(&[]));
    assert_eq!(proof.faults, ["statement 5: the bytes are not a signed statement of digests"]);
    let other = units::Epoch { incarnation: EPOCH.incarnation + 1, ..EPOCH };
    let mut author = author_of("daq-3", 2, other);
    author.finish(0);
    list[4] = author.statement(NOW, 460).unwrap();
    let (_, store) = record(&list, Some);
    let (verdicts, proof) = prove(&store, None);
    assert_eq!(verdicts, proven_but(&[]));
    assert_eq!(proof.faults, ["statement 5: the statement is about another stream, schema or epoch"]);
}

#[test]
fn a_file_of_statements_that_is_cut_proves_what_is_left_and_no_end() {
    let (disk, store) = record(&statements("daq-3", 2), Some);
    let path = statements_path(&disk);
    let whole = read_whole(&*store, &path).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    // The first line names stream and epoch; the last statement tells the end.
    let [head, statements @ .., _] = &ends[..] else { panic!("{} lines", ends.len()) };
    for (left, end) in core::iter::once(head).chain(statements).enumerate() {
        // At the end of a line, and within the next one.
        for cut in [*end, end + 100] {
            disk.change(&path, |bytes| *bytes = whole[..cut].to_vec());
            let (verdicts, proof) = prove(&store, None);
            assert_eq!(proof.statements, left as u64, "{cut}");
            assert_eq!(proof.faults, [""; 0], "{cut}: a torn end is no damage");
            assert!(!proof.is_end_stated, "{cut}");
            let mut expected = vec!["proven"; left];
            expected.resize((SAMPLES / INTERVAL) as usize, "unsigned");
            // Without any statement nothing is known of intervals.
            assert_eq!(verdicts, if left == 0 { Vec::new() } else { expected }, "{cut}");
        }
    }
    store.remove(&path).unwrap();
    let (verdicts, proof) = prove(&store, None);
    assert!(verdicts.is_empty() && !proof.is_whole(), "{proof:?}");
    assert_eq!((proof.station, proof.statements), (None, 0));
}

#[test]
fn statements_survive_a_power_cut_at_any_step_once_acknowledged() {
    let list = statements("daq-3", 2);
    let record = |disk: &Forgetful| -> Result<usize, archive::ArchiveError> {
        let store: Arc<dyn Store> = Arc::new(disk.clone());
        let mut acknowledged = 0;
        let mut recorder = open(&store, at_ms(0))?;
        recorder.handle(at_ms(0), &Event::Began(began(0)))?;
        for (step, statement) in list.iter().take(10).enumerate() {
            let first = step as u64 * INTERVAL;
            recorder.handle(at_ms(first), &Event::Block(block(first, INTERVAL)))?;
            recorder.note_statement(at_ms(first), (&name(), EPOCH), statement)?;
            recorder.tick(recorder.deadline());
            let stored = recorder.progress().next().unwrap().stored_index;
            if !disk.is_off() && stored == first + INTERVAL {
                acknowledged = step + 1;
            }
        }
        std::mem::forget(recorder);
        Ok(acknowledged)
    };
    let whole = Forgetful::default();
    assert_eq!(record(&whole).unwrap(), 10);
    for cut in 1..=whole.steps() {
        let disk = Forgetful::default();
        disk.cut_at(cut);
        let acknowledged = record(&disk).unwrap_or(0);
        for seed in 0..2 {
            let found = disk.after_power_cut(cut * 100 + seed);
            let store: Arc<dyn Store> = Arc::new(found.clone());
            // The next recorder continues behind what is whole.
            let mut recorder = open(&store, at_ms(1_000)).unwrap();
            recorder.handle(at_ms(1_000), &Event::Began(began(SAMPLES))).unwrap();
            recorder.note_statement(at_ms(1_000), (&name(), EPOCH), &list[10]).unwrap();
            recorder.close(at_ms(1_001)).unwrap();
            let (_, proof) = prove(&store, None);
            assert_eq!(proof.faults, [""; 0], "cut {cut}");
            assert!(proof.statements > acknowledged as u64, "cut {cut}: {proof:?}, {acknowledged}");
            assert!(proof.proven >= acknowledged as u64, "cut {cut}: {proof:?}");
        }
    }
}

#[test]
fn a_flood_of_forged_statements_does_not_grow_the_archive_without_bound() {
    let forged: Vec<Vec<u8>> = (0..5_000_u32).map(|number| number.to_le_bytes().repeat(100)).collect();
    let (disk, store) = record(&forged, Some);
    let (archive, entry) = stream(&store);
    let path = disk.paths().into_iter().find(|path| path.ends_with("statements.jsonl")).unwrap();
    let size = read_whole(&*store, &path).unwrap().len();
    assert!((1_024 * 800..1_100 * 900).contains(&size), "{size} bytes");
    let signatory = Signatory { authority: authority().public(), station: None };
    assert_eq!(archive.prove(&entry.epochs[0], &signatory, &mut |_| {}).unwrap().statements, 0);
}
