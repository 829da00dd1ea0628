//! Flows of readers to which samples are of use up to an age.

use std::time::Duration;

use super::*;
use crate::assembly::Piece;

/// A scene whose reader has a deadline of a millisecond.
fn hasty() -> Scene {
    let mut scene = Scene::new();
    scene.flow.set_deadline(Some(Duration::from_millis(1)));
    scene.began(A, 0);
    scene
}

/// Returns an instant of birth: long ago, or not yet.
fn born(is_old: bool) -> units::Instant {
    if is_old {
        units::Instant::from_nanos(1_000)
    } else {
        sys::clock::monotonic() + Duration::from_secs(3_600)
    }
}

fn block(scene: &mut Scene, positions: Range<u64>, born: Option<units::Instant>) {
    let payload = vec![7; usize::try_from(positions.end - positions.start).unwrap()];
    let (position, t0) = (positions.start, time_in(A, positions.start / E));
    let block = BlockRecord { epoch: A, position, t0, clock: Clock::System, born, payload: &payload };
    scene.put(&Record::Block(block), [positions.end - positions.start, 0]);
}

#[test]
fn what_is_too_old_is_lost_at_the_deadline_and_the_account_closes() {
    let mut scene = hasty();
    block(&mut scene, 0..100, Some(born(false)));
    block(&mut scene, 100..140, Some(born(true)));
    block(&mut scene, 140..160, Some(born(true)));
    block(&mut scene, 160..200, Some(born(false)));
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let said =
        ["began 1 at 0", "block 0..50", "gap 100..140", "gap 140..160", "block 80..100", "ended 1 closed"];
    assert_eq!(words(&events), said);
    let account = accounts(&events)[0];
    assert!(account.explained(), "{account:?}");
    let rows = &account.elements;
    assert_eq!((rows.delivered, rows.lost[Stage::Deadline], rows.next), (140, 60, 100));
    assert_eq!(account.gaps[0].evidence[0].source, EvidenceSource::TooOld);
}

#[test]
fn samples_of_unknown_age_are_never_too_old_and_a_reader_without_a_deadline_takes_any() {
    let mut scene = hasty();
    block(&mut scene, 0..100, None);
    assert_eq!(words(&scene.read()), ["began 1 at 0", "block 0..50"]);
    let mut scene = Scene::new();
    scene.flow.set_deadline(None);
    scene.began(A, 0);
    block(&mut scene, 0..100, Some(born(true)));
    assert_eq!(words(&scene.read()), ["began 1 at 0", "block 0..50"]);
}

#[test]
fn a_relay_gets_the_old_ones_too_and_decides_by_itself() {
    let mut scene = hasty();
    scene.flow.hand_over_as(Handing::Records);
    block(&mut scene, 0..100, Some(born(true)));
    scene.read();
    let elements = scene.flow.take_records().filter(|it| matches!(it.record, TapRecord::Elements(_)));
    assert_eq!(elements.count(), 1);
}

#[test]
fn of_a_block_only_the_samples_that_are_too_old_are_left_out() {
    let flow = hasty().flow;
    let piece = |position, size_bytes| Piece { position, t0: time_in(A, position / E), size_bytes };
    let divided = |excess_us, piece| {
        let (late, rest) = flow.divide(Duration::from_micros(excess_us), piece);
        (late, rest.map(|rest| (rest.position, rest.t0, rest.size_bytes)))
    };
    let rest = |position, size_bytes| Some((position, time_in(A, position / E), size_bytes));
    // A sample of two bytes each millisecond.
    assert_eq!(divided(0, piece(10, 8)), (0, rest(10, 8)));
    assert_eq!(divided(1, piece(10, 8)), (2, rest(12, 6)));
    assert_eq!(divided(1_000, piece(10, 8)), (2, rest(12, 6)), "the second has just the age of the deadline");
    assert_eq!(divided(1_001, piece(10, 8)), (4, rest(14, 4)));
    assert_eq!(divided(3_001, piece(10, 8)), (8, None));
    assert_eq!(divided(u64::MAX, piece(10, 8)), (8, None));
    assert_eq!(divided(1, piece(11, 7)), (1, rest(12, 6)), "from within a sample");
}
