//! Logs as written, changed, cut, in segments, and compared with what others have seen.

use super::*;
use crate::Rule;

fn app() -> StreamName {
    "sim/engine".parse().unwrap()
}

fn frames(count: u64) -> (Vec<Vec<u8>>, Head) {
    let mut head = Head::beginning(&app());
    let record = |number| Record::Omitted { refused: vec![(Rule::Full, number)] };
    let frames = (0..count).map(|number| head.append(WallTime::from_nanos(7), &record(number)));
    (frames.collect(), head)
}

/// A signature that only tests accept.
fn sign(bytes: &[u8]) -> Vec<u8> {
    blake3::hash(bytes).as_bytes().to_vec()
}

fn verify(bytes: &[u8], signed: Option<&SignedHead>) -> Result<Log, LogError> {
    Log::verify(&app(), &[bytes], signed, |bytes, signature| sign(bytes) == signature)
}

#[test]
fn a_log_is_read_as_it_was_written() {
    let (frames, head) = frames(3);
    let log = verify(&frames.concat(), Some(&head.signed(sign))).unwrap();
    assert_eq!((log.entries.len(), log.head, log.whole_bytes), (3, head, frames.concat().len()));
    assert_eq!(log.entries[2].record, Record::Omitted { refused: vec![(Rule::Full, 2)] });
    assert_eq!(log.entries[2].time, WallTime::from_nanos(7));
}

#[test]
fn every_changed_byte_shows() {
    let (frames, head) = frames(3);
    let (bytes, signed) = (frames.concat(), head.signed(sign));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(verify(&changed, Some(&signed)).is_err(), "byte {at}");
        }
    }
}

#[test]
fn missing_reordered_and_repeated_records_show() {
    let (frames, _) = frames(4);
    let of = |order: &[usize]| {
        let bytes: Vec<u8> = order.iter().flat_map(|at| frames[*at].clone()).collect();
        verify(&bytes, None).err()
    };
    assert_eq!(of(&[0, 1, 2, 3]), None);
    assert_eq!(of(&[0, 3]), Some(LogError::Missing { expected: 1, found: 3 }));
    assert_eq!(of(&[1, 2, 3]), Some(LogError::Missing { expected: 0, found: 1 }));
    assert_eq!(of(&[0, 2, 1, 3]), Some(LogError::Missing { expected: 1, found: 2 }));
    assert_eq!(of(&[0, 1, 1, 2]), Some(LogError::Order { expected: 2, found: 1 }));
}

#[test]
fn a_record_that_is_cut_out_and_renumbered_shows() {
    let (mut frames, _) = frames(3);
    frames[2][4] = 1;
    assert_eq!(verify(&[&frames[0][..], &frames[2]].concat(), None).err(), Some(LogError::Changed(1)));
}

#[test]
fn a_cut_off_end_shows_by_the_signed_head_and_a_forged_head_by_its_signature() {
    let (frames, head) = frames(3);
    let signed = head.signed(sign);
    let short = frames[..2].concat();
    assert!(verify(&short, None).is_ok(), "without a signed head the end is unknown");
    let cut = LogError::CutOff { found: 2, signed: 3 };
    assert_eq!(verify(&short, Some(&signed)).err(), Some(cut));
    let forged = SignedHead { head: Head { count: 2, ..head }, ..signed.clone() };
    assert_eq!(verify(&short, Some(&forged)).err(), Some(LogError::Signature));
    let other = Head { digest: [0; 32], ..head }.signed(sign);
    assert_eq!(verify(&frames.concat(), Some(&other)).err(), Some(LogError::Head(3)));
    let beginning = Head::beginning(&app()).signed(sign);
    assert!(verify(&frames.concat(), Some(&beginning)).is_ok(), "a head of no record is of any log");
    let earlier = Log::recover(&app(), &[&short]).unwrap().head.signed(sign);
    assert!(verify(&frames.concat(), Some(&earlier)).is_ok(), "an earlier head is one of this log");
}

#[test]
fn a_torn_end_is_left_out_after_a_crash_and_refused_otherwise() {
    let (frames, _) = frames(2);
    let bytes = frames.concat();
    for size in frames[0].len() + 1..bytes.len() {
        let log = Log::recover(&app(), &[&bytes[..size]]).unwrap();
        assert_eq!((log.entries.len(), log.whole_bytes), (1, frames[0].len()));
        assert_eq!(verify(&bytes[..size], None).err(), Some(LogError::Torn(1)));
    }
}

#[test]
fn a_log_of_another_app_is_refused() {
    let (frames, _) = frames(1);
    let other = "sim/other".parse().unwrap();
    assert_eq!(Log::recover(&other, &[&frames[0]]).err(), Some(LogError::Changed(0)));
}

#[test]
fn an_earlier_log_shows_by_a_head_that_was_seen_also_after_it_was_continued() {
    let (frames, head) = frames(3);
    let log = |frames: &[Vec<u8>]| verify(&frames.concat(), None).unwrap();
    let marks = |log: &Log| log.entries.iter().map(|entry| entry.mark).collect::<Vec<_>>();
    let whole = log(&frames);
    let seen = marks(&whole);
    assert_eq!(seen.last(), Some(&head.mark()));
    assert!(head.mark().digest < 1 << 48, "a double holds it");
    assert_eq!(whole.compare(seen.clone()), Ok(3));
    assert_eq!(whole.compare([seen[2], seen[0]]), Ok(2), "in any order, and not all");
    assert_eq!(log(&frames[..2]).compare(seen.clone()), Err(LogError::Earlier { found: 2, seen: 3 }));
    let mut continued = log(&frames[..2]).head;
    let other = continued.append(WallTime::from_nanos(8), &Record::Omitted { refused: Vec::new() });
    let continued = log(&[&frames[..2], &[other]].concat());
    assert_eq!(continued.compare(seen.clone()), Err(LogError::Replaced(2)));
    assert_eq!(continued.compare(seen[..2].to_vec()), Ok(2), "what was not seen does not show");
}

/// Returns three segments; the second and the third begin with a checkpoint.
fn segments() -> ([Vec<u8>; 3], Head) {
    let mut head = Head::beginning(&app());
    let mut number = 0;
    let segments = [2, 3, 2].map(|count| {
        let mut bytes = Vec::new();
        if head.count > 0 {
            let (totals, switches) = Default::default();
            let record = Record::Checkpoint { app: app(), before: head, totals, switches };
            bytes.extend(head.append(WallTime::from_nanos(7), &record));
        }
        for _ in 0..count {
            number += 1;
            let record = Record::Omitted { refused: vec![(Rule::Full, number)] };
            bytes.extend(head.append(WallTime::from_nanos(7), &record));
        }
        bytes
    });
    (segments, head)
}

#[test]
fn segments_are_one_chain_and_a_missing_swapped_or_cut_one_shows() {
    let ([first, second, third], head) = segments();
    let verify = |segments: &[&[u8]]| Log::verify(&app(), segments, None, |_, _| true);
    let log = verify(&[&first, &second, &third]).unwrap();
    assert_eq!((log.entries.len(), log.head, log.whole_bytes), (9, head, third.len()));
    let missing = |segments: &[&[u8]]| match verify(segments) {
        Err(LogError::Missing { expected, found }) => (expected, found),
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&[&second, &third]), (0, 2), "the first");
    assert_eq!(missing(&[&first, &third]), (2, 6), "one between");
    assert_eq!(missing(&[&first, &third, &second]), (2, 6), "swapped");
    assert_eq!(verify(&[&first, &second, &second]).err(), Some(LogError::Order { expected: 6, found: 2 }));
    let cut = verify(&[&first, &second[..second.len() - 1], &third]);
    assert_eq!(cut.err(), Some(LogError::Torn(5)), "cut inside a frame");
    let frame = first.len() / 2;
    assert_eq!(missing(&[&first[..frame], &second, &third]), (1, 2), "cut between frames");
    let last = Log::verify(&app(), &[&first, &second], Some(&head.signed(sign)), |bytes, signature| {
        sign(bytes) == signature
    });
    assert_eq!(last.err(), Some(LogError::CutOff { found: 6, signed: 9 }), "the last one");
}

#[test]
fn segments_read_alone_are_compared_with_what_was_seen_of_them() {
    let ([first, second, third], _) = segments();
    let log = |segments: &[&[u8]]| Log::recover(&app(), segments).unwrap();
    let seen: Vec<Mark> = log(&[&first, &second, &third]).entries.iter().map(|entry| entry.mark).collect();
    let last = log(&[&second, &third]);
    assert_eq!(last.compare(seen.clone()), Ok(9), "what is before them is not known, and not another one");
    let other = Mark { digest: 7, ..seen[3] };
    assert_eq!(last.compare([other]), Err(LogError::Replaced(3)));
}

#[test]
fn the_last_segments_are_read_alone_from_their_checkpoint_on_but_not_those_of_another_app() {
    let ([first, second, third], head) = segments();
    let segments = [&first[..], &second, &third];
    for from in 0..3 {
        let log = Log::recover(&app(), &segments[from..]).unwrap();
        assert_eq!((log.head, log.whole_bytes), (head, third.len()));
    }
    assert_eq!(Log::recover(&app(), &[&second[..], &[]]).unwrap().whole_bytes, 0, "an empty segment");
    let other = "sim/other".parse().unwrap();
    assert!(matches!(Log::recover(&other, &[&third]), Err(LogError::Missing { expected: 0, .. })));
    let mut changed = third.clone();
    changed[40] ^= 1;
    assert!(Log::recover(&app(), &[&changed]).is_err());
}
