//! Horizons: behind everything that was read, and of open accounts only; on this host, while the publisher's process runs.

use units::{Instant, Random};

use super::*;
use crate::event::StreamHorizon;

/// Returns the horizon at a time at which it does not matter when that is.
fn taken(scene: &mut Scene) -> Option<StreamHorizon> {
    scene.flow.take_horizon(at_ms(0))
}

fn at_ms(count: u64) -> Instant {
    Instant::from_nanos(count * 1_000_000)
}

fn told(scene: &mut Scene, epoch: Epoch, position: u64, at: u64) {
    let at = Instant::from_nanos(at);
    scene.put(&Record::Horizon { epoch, position, at, is_idle: true }, [0, 0]);
}

fn of(horizon: &StreamHorizon) -> (Epoch, u64, u64) {
    (horizon.epoch, horizon.next_index, horizon.at.as_nanos())
}

#[test]
fn the_newest_horizon_of_the_ring_is_told_once_behind_the_records_before_it() {
    let scene = &mut Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..200);
    told(scene, A, 200, 5);
    scene.gap(A, unsettled(200..240));
    told(scene, A, 240, 6);
    assert!(taken(scene).is_none(), "nothing was read");
    let events = scene.read();
    assert!(matches!(events.last(), Some(Event::Gap(_))), "{events:?}");
    assert_eq!(taken(scene).as_ref().map(of), Some((A, 120, 6)));
    assert!(taken(scene).is_none());
    // A publisher that has ended tells no more, and one whose account did not begin here told nothing.
    told(scene, A, 240, 7);
    scene.ended(A, AccountState::Closed);
    scene.read();
    assert!(taken(scene).is_none());
    told(scene, B, 10, 8);
    scene.read();
    assert!(taken(scene).is_none());
}

#[test]
fn a_reader_that_was_lapped_is_told_the_gap_before_the_horizon() {
    let scene = &mut Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..200);
    scene.read();
    let lapped = 200 + 4 * RING_BYTES as u64;
    scene.blocks(A, 200..lapped);
    told(scene, A, lapped, 9);
    let events = scene.read();
    assert!(events.iter().any(|event| matches!(event, Event::Gap(_))), "{:?}", words(&events));
    assert_eq!(taken(scene).as_ref().map(of), Some((A, lapped / E, 9)));
}

#[test]
fn the_end_of_a_publishers_ring_on_this_host_is_its_horizon_now() {
    let mut host = host::HostScene::new();
    let scene = &mut host.scene;
    scene.began(A, 0);
    scene.blocks(A, 0..200);
    assert!(taken(scene).is_none(), "nothing was read");
    scene.read();
    let horizon = scene.flow.take_horizon(at_ms(7));
    assert_eq!(horizon.as_ref().map(of), Some((A, 100, 7_000_000)));
    scene.blocks(A, 200..202);
    assert!(taken(scene).is_none(), "a record is unread");
    scene.read();
    assert_eq!(taken(scene).map(|it| it.next_index), Some(101));
    scene.ended(A, AccountState::Closed);
    scene.read();
    assert!(taken(scene).is_none());
}

#[test]
fn a_publisher_on_this_host_has_no_horizon_two_seconds_after_its_last_beat_until_it_beats_again() {
    let mut host = host::HostScene::new();
    let scene = &mut host.scene;
    let pulse = scene.writer.pulse();
    scene.began(A, 0);
    scene.blocks(A, 0..200);
    scene.read();
    let at = |flow: &mut Flow, ms: u64| flow.take_horizon(at_ms(ms)).map(|it| it.at);
    assert_eq!(at(&mut scene.flow, 500_000), Some(at_ms(500_000)), "one that does not count is believed");
    assert_eq!(at(&mut scene.flow, 900_000), Some(at_ms(900_000)));
    pulse.beat();
    for (now, is_told) in [(1_000_000, true), (1_002_000, true), (1_002_001, false), (9_000_000, false)] {
        assert_eq!(at(&mut scene.flow, now), is_told.then_some(at_ms(now)), "{now}");
    }
    // What it wrote before it was stopped is read.
    scene.blocks(A, 200..202);
    assert_eq!(words(&scene.read()), ["block 100..101"]);
    assert_eq!(at(&mut scene.flow, 9_000_100), None);
    pulse.beat();
    assert_eq!(scene.flow.take_horizon(at_ms(9_001_000)).as_ref().map(of), Some((A, 101, 9_001_000_000_000)));
}

/// A publisher whose process is stopped and continued at random, and a reader that looks at random.
#[test]
fn a_horizon_is_told_exactly_as_long_as_a_beat_was_seen_within_two_seconds() {
    const INTERVAL_MS: u64 = engine::BEAT_INTERVAL.as_millis() as u64;
    for seed in 0..100 {
        let mut host = host::HostScene::new();
        let scene = &mut host.scene;
        let pulse = scene.writer.pulse();
        scene.began(A, 0);
        scene.blocks(A, 0..20);
        scene.read();
        let mut random = Random::new(seed);
        let (mut now, mut beat_at, mut runs_from) = (1, 0, 0);
        let (mut seen, mut beats, mut count_seen) = (0, 0_u64, None);
        for step in 0..200 {
            now += 1 + random.below(700);
            if now >= runs_from && random.chance(0.05) {
                runs_from = now + random.below(20_000);
            }
            // A process that runs beats at each interval, late by what it was stopped.
            while beat_at + INTERVAL_MS <= now && runs_from <= now {
                beat_at = (beat_at + INTERVAL_MS).max(runs_from);
                pulse.beat();
                beats += 1;
            }
            if count_seen != Some(beats) {
                (seen, count_seen) = (now, Some(beats));
            }
            let told = scene.flow.take_horizon(at_ms(now));
            let expected = (beats == 0 || now - seen <= 2 * INTERVAL_MS).then_some((A, 10, now * 1_000_000));
            assert_eq!(told.as_ref().map(of), expected, "seed {seed}, step {step}, {now} ms");
        }
    }
}
