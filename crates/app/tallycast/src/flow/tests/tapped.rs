//! Flows whose records a tap takes.

use super::*;
use crate::tap::{TapRecord, Tapped};

/// A scene whose flow hands over records.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.flow.hand_over_as(Handing::Records);
    scene
}

/// Reads to the end; returns the records.
fn read(scene: &mut Scene) -> Vec<Tapped> {
    let events = scene.read();
    let is_block = |event: &Event| matches!(event, Event::Block(_));
    assert!(!events.iter().any(is_block), "{:?}", words(&events));
    scene.flow.take_records().collect()
}

/// Returns records as short texts.
fn told(records: &[Tapped]) -> Vec<String> {
    let word = |tapped: &Tapped| {
        let of = tapped.epoch.incarnation;
        match &tapped.record {
            TapRecord::Began(it) => format!("{of} began at {}, join {}", it.first_position, it.join),
            TapRecord::Elements(it) => {
                format!("{of} elements {}..{}", it.position, it.position + it.bytes.len() as u64)
            }
            TapRecord::Gap(gap) => format!("{of} gap {:?} {:?}", gap.positions, gap.lost),
            TapRecord::Settled(gap) => format!("{of} settled {:?} {:?}", gap.positions, gap.lost),
            TapRecord::Upstream(hops) => format!("{of} upstream {hops:?}"),
            TapRecord::Statement(bytes) => format!("{of} statement {bytes:?}"),
            TapRecord::Ended(state) => format!("{of} ended {state}"),
        }
    };
    records.iter().map(word).collect()
}

fn none() -> StageCounts {
    StageCounts::default()
}

#[test]
fn a_tap_gets_every_record_as_it_lies_in_the_ring() {
    let mut scene = scene();
    scene.began(A, 0);
    // Before any block, which a subscriber's gap would wait for.
    scene.gap(A, unsettled(0..3));
    // The rest of a sample, whole samples, and a piece of one.
    scene.blocks(A, 3..4);
    scene.blocks(A, 4..8);
    scene.blocks(A, 8..9);
    scene.put(&Record::Statement(A, &[1, 2]), [0, 0]);
    scene.settled(A, injected(0..3));
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(A, 20);
    scene.late_blocks(A, 20..22, 70);
    let lost = StageCounts::of(Stage::Injected, 3);
    let expected = [
        "1 began at 0, join 1".to_owned(),
        format!("1 gap 0..3 {:?}", none()),
        "1 elements 3..4".to_owned(),
        "1 elements 4..8".to_owned(),
        "1 elements 8..9".to_owned(),
        "1 statement [1, 2]".to_owned(),
        format!("1 settled 0..3 {lost:?}"),
        "1 ended unconfirmed".to_owned(),
        "1 began at 20, join 2".to_owned(),
        format!("1 gap 9..20 {:?}", none()),
        "1 elements 20..22".to_owned(),
    ];
    let records = read(&mut scene);
    assert_eq!(told(&records), expected);
    let TapRecord::Gap(absence) = &records[9].record else { panic!("a gap") };
    assert_eq!(absence.kind, GapKind::ReaderAbsent);
    let TapRecord::Elements(elements) = &records[10].record else { panic!("elements") };
    assert_eq!((elements.t0, elements.clock), (time_in(A, 10).offset(70_000_000), Clock::System));
    assert_eq!(elements.bytes, [7, 7]);
}

#[test]
fn a_tap_that_was_lapped_is_told_what_it_missed_as_a_gap() {
    let mut scene = scene();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    read(&mut scene);
    scene.blocks(A, 10..30);
    scene.gap(A, unsettled(30..38));
    scene.blocks(A, 38..TOO_MANY);
    scene.bridge_knows(A, vec![injected(30..38)]);
    scene.ended(A, AccountState::Closed);
    let records = read(&mut scene);
    let TapRecord::Gap(lap) = &records[0].record else { panic!("{:?}", told(&records)) };
    assert_eq!((lap.positions.start, lap.unsettled, lap.lost.total()), (10, 8, lap.len() - 8));
    let TapRecord::Elements(behind) = &records[1].record else { panic!("{:?}", told(&records)) };
    assert_eq!(behind.position, lap.positions.end, "it goes on behind what was overwritten");
    let settled = records.iter().rev().find_map(|it| match &it.record {
        TapRecord::Settled(gap) => Some(gap),
        _ => None,
    });
    let settled = settled.expect("the ring's page tells the stages");
    let mut lost = StageCounts::of(Stage::ReaderLag, lap.len() - 8);
    lost[Stage::Injected] = 8;
    assert_eq!((settled.positions.clone(), settled.lost), (lap.positions.clone(), lost));
    let delivered: u64 = records
        .iter()
        .map(|it| match &it.record {
            TapRecord::Elements(elements) => elements.bytes.len() as u64,
            _ => 0,
        })
        .sum();
    assert_eq!(10 + delivered + lap.len(), TOO_MANY, "the account closes");
    assert_eq!(records.last().unwrap().record, TapRecord::Ended(AccountState::Closed));
}

#[test]
fn residence_counts_from_when_a_record_was_noticed_after_rest() {
    let mut scene = scene();
    scene.began(A, 0);
    scene.blocks(A, 0..2);
    scene.blocks(A, 2..4);
    let residences = |records: &[Tapped]| -> Vec<std::time::Duration> {
        let elements = records.iter().filter_map(|it| match &it.record {
            TapRecord::Elements(elements) => Some(elements.residence),
            _ => None,
        });
        elements.collect()
    };
    let first = residences(&read(&mut scene));
    assert!(first[0].is_zero() && first[1] >= first[0], "{first:?}");
    scene.blocks(A, 4..6);
    let next = residences(&read(&mut scene));
    assert!(next[0].is_zero(), "the ring was read to its end before: {next:?}");
}
