//! Streams that change their reach: nothing is reported twice, and the data in between are.

use super::*;

/// A flow that received epoch A, up to position 30, by another reach, where it ended in this state.
fn rest_of_a(state: AccountState) -> Rest {
    let mut before = Scene::new();
    before.began(A, 0);
    before.blocks(A, 0..30);
    before.ended(A, state);
    before.read();
    before.flow.into_rest()
}

/// A scene whose flow has this state.
fn resumed(state: AccountState) -> Scene {
    let mut scene = Scene::new();
    scene.flow.resume(rest_of_a(state));
    scene
}

#[test]
fn an_epoch_that_was_closed_is_not_told_again() {
    let mut scene = resumed(AccountState::Closed);
    scene.began(A, 20);
    scene.blocks(A, 20..30);
    scene.gap(A, unsettled(30..40));
    scene.ended(A, AccountState::Closed);
    assert_eq!(words(&scene.read()), Vec::<String>::new());
    assert!(scene.flow.is_idle());
    scene.began(B, 0);
    scene.blocks(B, 0..10);
    assert_eq!(words(&scene.read()), ["began 2 at 0", "absent", "block 0..5"]);
}

#[test]
fn an_epoch_goes_on_behind_what_was_had_of_it() {
    let mut scene = resumed(AccountState::Unconfirmed);
    scene.began(A, 10);
    scene.blocks(A, 10..20);
    scene.gap(A, unsettled(20..24));
    scene.blocks(A, 24..50);
    let events = scene.read();
    assert_eq!(words(&events), ["began 1 at 15", "block 15..25"]);
    let Event::Block(block) = &events[1] else { panic!("a block") };
    assert_eq!(block.t0, time_in(A, 15));
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let rows = accounts(&events)[0].elements;
    assert_eq!((rows.first, rows.next, rows.delivered), (15, 25, 20));
}

#[test]
fn a_gap_that_reaches_beyond_what_was_had_is_this_readers_absence() {
    let mut scene = resumed(AccountState::Unconfirmed);
    scene.began(A, 20);
    scene.gap(A, unsettled(20..40));
    scene.blocks(A, 40..44);
    let events = scene.read();
    assert_eq!(words(&events), ["began 1 at 20", "gap 30..40", "block 20..22"]);
    assert_eq!(gaps(&events)[0].gap.kind, GapKind::ReaderAbsent);
}

#[test]
fn what_came_before_a_reader_was_here_again_is_no_lag_of_its() {
    let mut scene = resumed(AccountState::Unconfirmed);
    scene.began(B, 0);
    scene.blocks(B, 0..TOO_MANY);
    scene.ended(B, AccountState::Closed);
    let events = scene.read();
    let rows = accounts(&events)[0].elements;
    assert_eq!((rows.lost.total(), rows.next), (0, TOO_MANY / E));
    assert!(rows.first > 0);
}

#[test]
fn an_older_epoch_is_not_told_behind_a_newer_one() {
    let mut scene = Scene::new();
    let mut rest = rest_of_a(AccountState::Closed);
    rest.epochs.clear();
    rest.current = Some(B);
    scene.flow.resume(rest);
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.ended(A, AccountState::Closed);
    assert_eq!(words(&scene.read()), Vec::<String>::new());
}

#[test]
fn an_absence_waits_until_a_time_is_known() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.gap(A, injected(0..20));
    scene.ended(A, AccountState::Unconfirmed);
    scene.read();
    let mut next = Scene::new();
    next.flow.resume(scene.flow.into_rest());
    next.began(A, 40);
    assert_eq!(words(&next.read()), ["began 1 at 20"]);
    next.blocks(A, 40..50);
    let events = next.read();
    assert_eq!(words(&events), ["gap 20..40", "block 20..25"]);
    assert_eq!(gaps(&events)[0].gap.kind, GapKind::ReaderAbsent);
}

#[test]
fn a_reader_that_leaves_inside_a_sample_gets_what_there_is_of_it() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..8);
    scene.blocks(A, 8..9);
    scene.flow.leave("desk", &mut scene.events);
    let events = std::mem::take(&mut scene.events);
    assert_eq!(words(&events), ["began 1 at 0", "block 0..5", "gap 9..10", "ended 1 cut"]);
    let Event::Block(block) = &events[1] else { panic!("a block") };
    assert_eq!(block.missing.iter().collect::<Vec<_>>(), vec![9..10]);
    let rows = accounts(&events)[0].elements;
    assert_eq!((rows.delivered, rows.unexplained, rows.in_flight), (9, 1, 0));
}
