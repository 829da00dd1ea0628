//! Horizons: behind everything that was read, and of open accounts only.

use super::*;
use crate::event::StreamHorizon;

fn told(scene: &mut Scene, epoch: Epoch, position: u64, at: u64) {
    let at = units::Instant::from_nanos(at);
    scene.put(&Record::Horizon { epoch, position, at, is_idle: true }, [0, 0]);
}

fn of(horizon: &StreamHorizon) -> (Epoch, u64, u64) {
    (horizon.epoch, horizon.next_index, horizon.at.as_nanos())
}

#[test]
fn the_newest_horizon_of_the_ring_is_told_once_behind_the_records_before_it() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..200);
    told(&mut scene, A, 200, 5);
    scene.gap(A, unsettled(200..240));
    told(&mut scene, A, 240, 6);
    assert!(scene.flow.take_horizon().is_none(), "nothing was read");
    let events = scene.read();
    assert!(matches!(events.last(), Some(Event::Gap(_))), "{events:?}");
    assert_eq!(scene.flow.take_horizon().as_ref().map(of), Some((A, 120, 6)));
    assert!(scene.flow.take_horizon().is_none());
    // A publisher that has ended tells no more, and one whose account did not begin here told nothing.
    told(&mut scene, A, 240, 7);
    scene.ended(A, AccountState::Closed);
    scene.read();
    assert!(scene.flow.take_horizon().is_none());
    told(&mut scene, B, 10, 8);
    scene.read();
    assert!(scene.flow.take_horizon().is_none());
}

#[test]
fn a_reader_that_was_lapped_is_told_the_gap_before_the_horizon() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..200);
    scene.read();
    let lapped = 200 + 4 * RING_BYTES as u64;
    scene.blocks(A, 200..lapped);
    told(&mut scene, A, lapped, 9);
    let events = scene.read();
    assert!(events.iter().any(|event| matches!(event, Event::Gap(_))), "{:?}", words(&events));
    assert_eq!(scene.flow.take_horizon().as_ref().map(of), Some((A, lapped / E, 9)));
}

#[test]
fn the_end_of_a_publishers_ring_on_this_host_is_its_horizon_now() {
    let mut host = host::HostScene::new();
    let scene = &mut host.scene;
    scene.began(A, 0);
    scene.blocks(A, 0..200);
    assert!(scene.flow.take_horizon().is_none(), "nothing was read");
    scene.read();
    let before = sys::clock::monotonic();
    let horizon = scene.flow.take_horizon().expect("everything was read");
    assert_eq!((horizon.epoch, horizon.next_index), (A, 100));
    assert!(horizon.at >= before);
    scene.blocks(A, 200..202);
    assert!(scene.flow.take_horizon().is_none(), "a record is unread");
    scene.read();
    assert_eq!(scene.flow.take_horizon().map(|it| it.next_index), Some(101));
    scene.ended(A, AccountState::Closed);
    scene.read();
    assert!(scene.flow.take_horizon().is_none());
}
