//! Leases and kill switches, enforced at the app.

use core::time::Duration;

use crate::app::scene::{ADA, BOB, EVE, ROOT, Scene, refused};
use crate::lease::{LEASE_DURATION, LeaseError};
use crate::record::LeaseChange;
use crate::switch::{Hand, Scope as SwitchScope, SwitchError};
use crate::{Answer, Command, CommandId, Record, Rule, SessionId};

const NANOSECOND: Duration = Duration::from_nanos(1);

fn power(scene: &Scene, id: u128, session: SessionId) -> Command {
    Command { parameter: "power".to_owned(), session, ..scene.gain(id, 2.0) }
}

#[test]
fn only_the_holder_of_a_lease_changes_its_group() {
    let mut scene = Scene::new();
    assert_eq!(scene.send(power(&scene, 1, ADA)), refused(Rule::Lease));
    let granted = scene.app.lease(scene.now, ADA, "heating").unwrap();
    assert_eq!((granted.clock, granted.until), (scene.now, scene.now + LEASE_DURATION));
    assert_eq!(scene.send(power(&scene, 2, ADA)), [Answer::Accepted]);
    assert_eq!(scene.send(power(&scene, 3, BOB)), refused(Rule::Lease));
    let held = LeaseError::Held { group: "heating".to_owned(), by: "user:ada".to_owned() };
    assert_eq!(scene.app.lease(scene.now, BOB, "heating"), Err(held));
    assert!(matches!(scene.apply_all(1)[..], [(CommandId(2), Answer::Applied(_))]));
}

#[test]
fn a_lease_ends_after_ten_seconds_unless_it_is_renewed() {
    let mut scene = Scene::new();
    scene.app.lease(scene.now, ADA, "heating").unwrap();
    scene.now += LEASE_DURATION;
    let renewed = scene.app.lease(scene.now, ADA, "heating").unwrap();
    scene.now = renewed.until;
    assert_eq!(scene.send(power(&scene, 1, ADA)), [Answer::Accepted], "the last moment");
    scene.now += NANOSECOND;
    assert_eq!(scene.apply_all(1), [(CommandId(1), Answer::Refused { rule: Rule::Lease })]);
    assert!(scene.app.lease(scene.now, BOB, "heating").is_ok());
    assert!(scene.app.release(scene.now, ADA, "heating").is_err(), "it is not its own any more");
}

#[test]
fn a_lease_is_released_with_its_session() {
    let mut scene = Scene::new();
    scene.app.lease(scene.now, ADA, "heating").unwrap();
    scene.send(power(&scene, 1, ADA));
    scene.app.close(ADA);
    assert!(scene.app.lease(scene.now, BOB, "heating").is_ok());
    assert_eq!(scene.apply_all(1), [(CommandId(1), Answer::Refused { rule: Rule::Session })]);
    let changes = scene.records.iter().filter(|record| matches!(record, Record::Lease { .. }));
    assert_eq!(changes.count(), 3, "granted, released, granted");
}

#[test]
fn an_administrator_takes_over_with_a_reason_and_commands_that_wait_are_refused() {
    let mut scene = Scene::new();
    scene.app.lease(scene.now, ADA, "heating").unwrap();
    scene.send(power(&scene, 1, ADA));
    let mut take = |session, reason| scene.app.take_over(scene.now, session, "heating", reason).err();
    assert_eq!(take(BOB, "now me"), Some(LeaseError::Administrator));
    assert_eq!(take(ROOT, ""), Some(LeaseError::Reason));
    assert_eq!(take(ROOT, "shift ended"), None);
    assert_eq!(scene.apply_all(1), [(CommandId(1), Answer::Refused { rule: Rule::Lease })]);
    let (from, reason) = ("user:ada".to_owned(), "shift ended".to_owned());
    let told = scene.records.iter().any(|record| {
        let taken = LeaseChange::TakenOver { from: from.clone(), reason: reason.clone() };
        matches!(record, Record::Lease { change, .. } if *change == taken)
    });
    assert!(told);
}

#[test]
fn a_lease_needs_a_group_a_session_and_a_rule() {
    let mut scene = Scene::new();
    let mut ask = |session, group| scene.app.lease(scene.now, session, group).err();
    assert_eq!(ask(ADA, "cooling"), Some(LeaseError::Group("cooling".to_owned())));
    assert_eq!(ask(SessionId(9), "heating"), Some(LeaseError::Session(SessionId(9))));
    assert_eq!(ask(EVE, "heating"), Some(LeaseError::ReadOnly("heating".to_owned())));
}

#[test]
fn a_kill_switch_stops_commands_that_wait_and_those_to_come() {
    for scope in [SwitchScope::App, SwitchScope::All] {
        let mut scene = Scene::new();
        scene.send(scene.gain(1, 2.0));
        scene.app.stop(Hand::Session(ADA), scope, "smoke").unwrap();
        scene.app.stop(Hand::Host, scope, "smoke").unwrap();
        assert_eq!(scene.send(scene.gain(2, 2.0)), refused(Rule::Stopped));
        assert_eq!(scene.apply_all(1), [(CommandId(1), Answer::Refused { rule: Rule::Stopped })]);
        let turned = scene.records.iter().filter(|record| matches!(record, Record::Switch { .. }));
        assert_eq!(turned.count(), 1, "it was on already");
    }
}

#[test]
fn either_kill_switch_stops_and_only_an_administrator_releases_it() {
    let mut scene = Scene::new();
    let (ada, root) = (Hand::Session(ADA), Hand::Session(ROOT));
    scene.app.stop(ada, SwitchScope::App, "smoke").unwrap();
    scene.app.stop(root, SwitchScope::All, "drill").unwrap();
    assert_eq!(scene.app.resume(ada, SwitchScope::App, "air"), Err(SwitchError::Administrator));
    assert_eq!(scene.app.resume(root, SwitchScope::App, ""), Err(SwitchError::Reason));
    scene.app.resume(root, SwitchScope::App, "air").unwrap();
    assert_eq!(scene.send(scene.gain(1, 2.0)), refused(Rule::Stopped), "the other one is still on");
    scene.app.resume(root, SwitchScope::All, "over").unwrap();
    assert_eq!(scene.send(scene.gain(2, 2.0)), [Answer::Accepted]);
    let eve = scene.app.stop(Hand::Session(EVE), SwitchScope::App, "no");
    assert_eq!(eve, Err(SwitchError::ReadOnly));
}
