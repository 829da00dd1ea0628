//! What a reader's leg makes of records, laps, settlements and the end.

use super::*;
use crate::{Evidence, EvidenceSource, GapKind, Stage, StageCounts, Unit};
use units::Random;

fn gap(positions: Range<u64>, lost: StageCounts) -> Gap {
    let unsettled = positions.end - positions.start - lost.total();
    let evidence = lost.nonzero().map(|(stage, count)| {
        let source = EvidenceSource::TallyRange;
        Evidence { stage, count, unit: Unit::Elements, source }
    });
    Gap {
        id: 5,
        kind: GapKind::Missing,
        positions,
        numbers: 0..1,
        lost,
        unexplained: 0,
        unsettled,
        apportioned: false,
        evidence: evidence.collect(),
    }
}

fn injected(positions: Range<u64>) -> Gap {
    let len = positions.end - positions.start;
    gap(positions, StageCounts::of(Stage::Injected, len))
}

fn unsettled(positions: Range<u64>) -> Gap {
    gap(positions, StageCounts::default())
}

/// The account adds up in elements, in samples, and its gaps to what is missing.
fn check(leg: &Leg) {
    let rows = leg.rows();
    assert_eq!(rows.check(), Ok(()));
    assert_eq!(leg.samples().check(rows.next - rows.first), Ok(()));
}

#[test]
fn a_lapped_reader_takes_differences() {
    let mut leg = Leg::join(2, [100, 10], 110);
    leg.delivered(110..120);
    assert!(leg.leads_to([150, 14], 164) && !leg.leads_to([150, 14], 166));
    assert_eq!(leg.lapped([150, 14]).unwrap().positions, 120..164);
    leg.delivered(164..170);
    let rows = leg.rows();
    assert_eq!((rows.delivered, rows.lost[Stage::ReaderLag], rows.unsettled), (16, 40, 4));
    check(&leg);
}

#[test]
fn totals_of_something_else_are_not_booked() {
    let mut leg = Leg::join(1, [100, 10], 110);
    assert!(!leg.leads_to([5, 10], 15));
    assert_eq!(leg.lapped([5, 10]), None);
    assert_eq!(leg.lapped([100, 10]), None, "nothing lies between");
    check(&leg);
}

#[test]
fn settlements_of_lapped_gaps_find_their_way_into_the_laps_gap() {
    let mut leg = Leg::join(1, [0, 0], 0);
    leg.lapped([6, 4]);
    assert_eq!(leg.settled(&unsettled(2..5)), None, "that something was missing is known");
    let lap = leg.settled(&injected(2..5)).unwrap();
    assert_eq!((lap.positions.clone(), lap.lost[Stage::Injected], lap.unsettled), (0..10, 3, 1));
    assert_eq!(lap.evidence.len(), 2, "the ring's totals and what the bridge knows");
    let rows = leg.rows();
    assert_eq!((rows.lost[Stage::Injected], rows.lost[Stage::ReaderLag], rows.unsettled), (3, 6, 1));
    assert_eq!(leg.settled(&injected(2..5)), None, "no news");
    assert_eq!(leg.settled(&injected(6..8)), None, "more than was missing there");
    assert!(leg.settled(&injected(6..7)).is_some());
    leg.end(AccountState::Cut);
    assert!(!leg.is_unsettled());
    check(&leg);
    assert_eq!(leg.gaps().count(), 1, "a lap is one gap");
}

#[test]
fn news_after_the_end_moves_what_had_been_given_up() {
    let mut leg = Leg::join(1, [0, 0], 0);
    leg.lapped([6, 4]);
    leg.gap(unsettled(10..12));
    leg.settled(&unsettled(3..5));
    leg.end(AccountState::Unconfirmed);
    assert_eq!(leg.rows().unexplained, 6);
    for news in [injected(3..5), injected(7..9), injected(10..12)] {
        assert!(leg.settled(&news).is_some());
        check(&leg);
    }
    assert_eq!(leg.settled(&unsettled(10..12)).map(|gap| gap.unexplained), Some(2));
    assert_eq!((leg.rows().lost[Stage::Injected], leg.rows().unexplained, leg.rows().unsettled), (4, 2, 0));
}

#[test]
fn what_was_lost_before_the_reader_joined_is_not_its_loss() {
    let mut leg = Leg::join(1, [5, 5], 10);
    assert_eq!(leg.settled(&injected(2..7)), None);
    leg.gap(unsettled(10..12));
    assert!(leg.settled(&injected(10..12)).is_some());
    assert_eq!(leg.rows().lost[Stage::Injected], 2);
    check(&leg);
}

#[test]
fn the_next_account_of_an_epoch_begins_where_the_one_before_ended() {
    let mut leg = Leg::join(2, [0, 0], 4);
    leg.delivered(4..8);
    let mut next = leg.continued().unwrap();
    assert!(next.leads_to([6, 2], 12));
    next.lapped([6, 2]);
    assert_eq!((next.rows().first, next.rows().lost[Stage::ReaderLag]), (4, 2));
    check(&next);
    leg.delivered(8..9);
    assert!(leg.continued().is_none(), "inside a sample");
}

#[test]
fn a_leg_remembers_the_newest_gaps_and_counts_them_all() {
    let mut leg = Leg::join(1, [0, 0], 0);
    let count = MAX_GAPS as u64 + 1_000;
    for index in 0..count {
        leg.gap(injected(2 * index..2 * index + 1));
        leg.delivered(2 * index + 1..2 * index + 2);
    }
    assert_eq!(leg.gaps().count(), MAX_GAPS);
    assert_eq!(leg.gaps().last().unwrap().positions.start, 2 * (count - 1));
    assert_eq!(leg.settled(&unsettled(0..1)), None, "forgotten");
    assert_eq!(leg.rows().lost[Stage::Injected], count);
    // Gaps inside of a lap are remembered in place of older ones.
    leg.lapped([count + 1_000, count + 1_000]);
    for index in 0..1_000 {
        leg.settled(&injected(2 * count + index..2 * count + index + 1));
    }
    leg.gap(injected(2 * count + 2_000..2 * count + 2_001));
    assert_eq!(leg.gaps().count(), MAX_GAPS - 1_000);
    check(&leg);
}

/// Any flow of blocks, gaps and laps adds up after every record, and whatever the bridge knows in the end
/// explains every missing element.
#[test]
fn any_flow_adds_up_after_every_record() {
    let mut random = Random::new(7);
    for _ in 0..200 {
        let per_sample = u32::try_from(1 + random.below(4)).unwrap();
        let start = u64::from(per_sample) * random.below(10);
        let mut leg = Leg::join(per_sample, [start, 0], start);
        let (mut position, mut totals, mut at_bridge) = (start, [start, 0], Vec::new());
        for _ in 0..100 {
            let read = random.chance(0.7);
            let positions = position..position + 1 + random.below(9);
            position = positions.end;
            if read && leg.next_position() != positions.start {
                assert!(leg.leads_to(totals, positions.start));
                leg.lapped(totals);
            }
            let missing = random.chance(0.3);
            totals[usize::from(missing)] += positions.end - positions.start;
            match (read, missing) {
                (true, true) => drop(leg.gap(unsettled(positions.clone())).clone()),
                (true, false) => leg.delivered(positions.clone()),
                (false, _) => {}
            }
            if missing {
                at_bridge.push(positions);
            }
            check(&leg);
        }
        leg.lapped(totals);
        for positions in at_bridge {
            assert!(leg.settled(&injected(positions)).is_some());
            check(&leg);
        }
        leg.end(AccountState::Closed);
        let rows = leg.rows();
        assert_eq!((rows.unexplained, rows.lost[Stage::Injected]), (0, totals[1]));
        assert_eq!(rows.delivered + rows.lost[Stage::ReaderLag], totals[0] - start);
    }
}
