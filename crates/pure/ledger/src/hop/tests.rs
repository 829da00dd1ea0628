//! A reader's hop: records, laps, settlements and the end.

use super::*;
use crate::{Account, Cause, Evidence, HopShare, Outcome, StageCounts, Unit};
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
        inherited: HopCounts::default(),
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

/// Elements that were lost before the last relay, at a stage that is not known yet or this one on hop 1.
fn inherited(positions: Range<u64>, outcome: Outcome) -> Gap {
    let count = positions.end - positions.start;
    let inherited = core::iter::once(HopShare { hop: 1, outcome, count }).collect();
    Gap { inherited, ..gap(positions, StageCounts::of(Stage::Source, count)) }
}

/// Checks that the account adds up in elements, over its hops, and in samples.
fn check(hop: &Hop) {
    let rows = hop.rows();
    let gaps = hop.gaps().cloned().collect();
    let account =
        Account { state: hop.state(), datagrams: None, elements: rows, hops: hop.inherited(), gaps };
    assert_eq!(account.check(), Ok(()));
    assert_eq!(hop.samples().check(rows.next - rows.first), Ok(()));
}

#[test]
fn a_lapped_reader_takes_differences() {
    let mut hop = Hop::join(2, [100, 10], 110);
    hop.delivered(110..120);
    assert!(hop.leads_to([150, 14], 164) && !hop.leads_to([150, 14], 166));
    assert_eq!(hop.lapped([150, 14]).unwrap().positions, 120..164);
    hop.delivered(164..170);
    let rows = hop.rows();
    assert_eq!((rows.delivered, rows.lost[Stage::ReaderLag], rows.unsettled), (16, 40, 4));
    check(&hop);
}

#[test]
fn totals_of_something_else_are_not_counted() {
    let mut hop = Hop::join(1, [100, 10], 110);
    assert!(!hop.leads_to([5, 10], 15));
    assert_eq!(hop.lapped([5, 10]), None);
    assert_eq!(hop.lapped([100, 10]), None, "nothing lies between");
    check(&hop);
}

#[test]
fn settlements_of_lapped_gaps_find_their_way_into_the_laps_gap() {
    let mut hop = Hop::join(1, [0, 0], 0);
    hop.lapped([6, 4]);
    assert_eq!(hop.settled(&unsettled(2..5)), None, "that something was missing is known");
    let lap = hop.settled(&injected(2..5)).unwrap();
    assert_eq!((lap.positions.clone(), lap.lost[Stage::Injected], lap.unsettled), (0..10, 3, 1));
    assert_eq!(lap.evidence.len(), 2, "the ring's totals and what the bridge knows");
    let rows = hop.rows();
    assert_eq!((rows.lost[Stage::Injected], rows.lost[Stage::ReaderLag], rows.unsettled), (3, 6, 1));
    assert_eq!(hop.settled(&injected(2..5)), None, "no news");
    assert_eq!(hop.settled(&injected(6..8)), None, "more than was missing there");
    assert!(hop.settled(&injected(6..7)).is_some());
    hop.end(AccountState::Cut);
    assert!(!hop.is_unsettled());
    check(&hop);
    assert_eq!(hop.gaps().count(), 1, "a lap is one gap");
}

#[test]
fn news_after_the_end_moves_what_had_been_given_up() {
    let mut hop = Hop::join(1, [0, 0], 0);
    hop.lapped([6, 4]);
    hop.gap(unsettled(10..12));
    hop.settled(&unsettled(3..5));
    hop.end(AccountState::Unconfirmed);
    assert_eq!(hop.rows().unexplained, 6);
    for news in [injected(3..5), injected(7..9), injected(10..12)] {
        assert!(hop.settled(&news).is_some());
        check(&hop);
    }
    assert_eq!(hop.settled(&unsettled(10..12)).map(|gap| gap.unexplained), Some(2));
    assert_eq!((hop.rows().lost[Stage::Injected], hop.rows().unexplained, hop.rows().unsettled), (4, 2, 0));
}

#[test]
fn what_is_given_up_on_the_way_has_its_own_stage_and_evidence() {
    let mut hop = Hop::join(1, [0, 0], 0);
    hop.delivered(0..2);
    let given_up = EvidenceSource::GivenUp(Cause::LinkDown);
    let gap = hop.lapped_as([9, 3], Stage::Deadline, given_up).unwrap().clone();
    assert_eq!((gap.positions, gap.lost[Stage::Deadline], gap.unsettled), (2..12, 7, 3));
    assert_eq!(
        gap.evidence,
        [Evidence { stage: Stage::Deadline, count: 7, unit: Unit::Elements, source: given_up }]
    );
    assert_eq!(hop.rows().lost[Stage::ReaderLag], 0);
    check(&hop);
}

#[test]
fn losses_before_a_relay_keep_their_hop_through_records_laps_and_the_end() {
    let mut hop = Hop::join(1, [0, 0], 0);
    assert!(hop.inherited().is_empty());
    hop.gap(inherited(0..4, Outcome::Unsettled));
    hop.lapped([6, 14]);
    check(&hop);
    let known = Outcome::Lost(Stage::Deadline);
    assert!(hop.settled(&inherited(0..4, known)).is_some(), "only the hop's stage is new");
    assert_eq!(hop.settled(&inherited(0..4, known)), None, "no news");
    assert_eq!(hop.settled(&inherited(5..7, known)).unwrap().inherited.total(), 2);
    hop.settled(&inherited(8..11, Outcome::Unsettled));
    let rows = hop.inherited().rows(1);
    assert_eq!((rows.lost[Stage::Deadline], rows.unsettled, rows.unexplained), (6, 3, 0));
    check(&hop);
    hop.end(AccountState::Closed);
    assert_eq!(hop.inherited().rows(1).unexplained, 3);
    check(&hop);
    assert!(hop.settled(&inherited(8..11, known)).is_some(), "late news moves what was given up");
    assert_eq!(hop.inherited().rows(1).lost[Stage::Deadline], 9);
    check(&hop);
}

#[test]
fn holes_of_the_source_itself_are_on_hop_0_beside_losses_before_a_relay() {
    let mut hop = Hop::join(1, [0, 0], 0);
    hop.gap(gap(0..3, StageCounts::of(Stage::Source, 3)));
    assert!(hop.inherited().is_empty(), "nothing was relayed so far");
    hop.lapped([0, 8]);
    hop.settled(&gap(3..5, StageCounts::of(Stage::Source, 2)));
    check(&hop);
    hop.settled(&inherited(5..6, Outcome::Unexplained));
    check(&hop);
    let hops = hop.inherited();
    assert_eq!((hops.rows(0).lost[Stage::Source], hops.rows(1).unexplained), (5, 1));
}

#[test]
fn what_was_lost_before_the_reader_joined_is_not_its_loss() {
    let mut hop = Hop::join(1, [5, 5], 10);
    assert_eq!(hop.settled(&injected(2..7)), None);
    hop.gap(unsettled(10..12));
    assert!(hop.settled(&injected(10..12)).is_some());
    assert_eq!(hop.rows().lost[Stage::Injected], 2);
    check(&hop);
}

#[test]
fn the_next_account_of_an_epoch_begins_where_the_one_before_ended() {
    let mut hop = Hop::join(2, [0, 0], 4);
    hop.delivered(4..8);
    let mut next = hop.continued().unwrap();
    assert!(next.leads_to([6, 2], 12));
    next.lapped([6, 2]);
    assert_eq!((next.rows().first, next.rows().lost[Stage::ReaderLag]), (4, 2));
    check(&next);
    hop.delivered(8..9);
    assert!(hop.continued().is_none(), "inside a sample");
}

#[test]
fn a_hop_remembers_the_newest_gaps_and_counts_them_all() {
    let mut hop = Hop::join(1, [0, 0], 0);
    let count = MAX_GAPS as u64 + 1_000;
    for index in 0..count {
        hop.gap(injected(2 * index..2 * index + 1));
        hop.delivered(2 * index + 1..2 * index + 2);
    }
    assert_eq!(hop.gaps().count(), MAX_GAPS);
    assert_eq!(hop.gaps().last().unwrap().positions.start, 2 * (count - 1));
    assert_eq!(hop.settled(&unsettled(0..1)), None, "forgotten");
    assert_eq!(hop.rows().lost[Stage::Injected], count);
    // Gaps inside a lap are remembered in place of older ones.
    hop.lapped([count + 1_000, count + 1_000]);
    for index in 0..1_000 {
        hop.settled(&injected(2 * count + index..2 * count + index + 1));
    }
    hop.gap(injected(2 * count + 2_000..2 * count + 2_001));
    assert_eq!(hop.gaps().count(), MAX_GAPS - 1_000);
    check(&hop);
}

#[test]
fn an_account_begins_with_a_whole_sample_where_accounts_come() {
    let inside = InconsistentRecord::InsideSample { position: 7, per_sample: 3 };
    assert_eq!(Hop::try_join(3, [0, 0], 7).err(), Some(inside));
    assert!(Hop::try_join(0, [0, 0], 0).is_err(), "samples without elements cannot be counted");
    assert!(Hop::try_join(2, [0, 0], MAX_POSITION).is_ok());
    let beyond = InconsistentRecord::Beyond(MAX_POSITION + 2);
    assert_eq!(Hop::try_join(2, [0, 0], MAX_POSITION + 2).err(), Some(beyond));
}

#[test]
fn an_account_may_begin_with_any_totals() {
    let mut hop = Hop::join(1, [u64::MAX, u64::MAX], 0);
    hop.delivered(0..5);
    hop.gap(injected(5..7));
    assert!(!hop.leads_to([u64::MAX, u64::MAX], 9));
    assert_eq!(hop.lapped([7, 2]), None);
    check(&hop);
}

#[test]
fn what_does_not_follow_is_not_counted() {
    let mut hop = Hop::join(1, [0, 0], 5);
    for positions in [4..6, 6..8, Range { start: 5, end: 4 }, 0..u64::MAX] {
        let Range { start, end } = positions;
        let elsewhere = InconsistentRecord::Elsewhere { start, end, next: 5 };
        assert_eq!(hop.try_delivered(positions), Err(elsewhere));
    }
    assert_eq!(hop.try_delivered(5..MAX_POSITION + 1), Err(InconsistentRecord::Beyond(MAX_POSITION + 1)));
    let elsewhere = InconsistentRecord::Elsewhere { start: 6, end: 8, next: 5 };
    assert_eq!(hop.try_gap(injected(6..8)).err(), Some(elsewhere));
    assert_eq!((hop.next_position(), hop.gaps().count()), (5, 0));
    assert_eq!(hop.try_delivered(5..5), Ok(()), "nothing, and nothing comes of it");
    assert_eq!(hop.try_delivered(5..MAX_POSITION), Ok(()));
    check(&hop);
}

#[test]
fn a_gap_that_cannot_be_is_not_counted() {
    let mut hop = Hop::join(1, [0, 0], 5);
    let empty = InconsistentRecord::Gap(UnsoundGap::Empty { start: 5, end: 5 });
    for _ in 0..2 {
        assert_eq!(hop.try_gap(unsettled(5..5)).err(), Some(empty));
    }
    let short = Gap { positions: 5..9, ..injected(5..8) };
    let unbalanced = InconsistentRecord::Gap(UnsoundGap::Unbalanced { expected: 4, counted: 3 });
    assert_eq!(hop.try_gap(short.clone()).err(), Some(unbalanced));
    let absence = Gap::outside_accounts(GapKind::ReaderAbsent, 5, 5..9);
    assert_eq!(hop.try_gap(absence.clone()).err(), Some(InconsistentRecord::OutsideAccounts));
    hop.gap(unsettled(5..9));
    for news in [short, absence] {
        assert_eq!(hop.settled(&news), None);
    }
    check(&hop);
}

#[test]
fn totals_beyond_what_accounts_reach_are_of_something_else() {
    let mut hop = Hop::join(1, [0, 0], 10);
    for totals in [[u64::MAX, 0], [0, u64::MAX], [u64::MAX, u64::MAX], [MAX_POSITION, 0]] {
        assert!(!hop.leads_to(totals, totals[0].wrapping_add(totals[1]).wrapping_add(10)));
        assert_eq!(hop.lapped(totals), None);
    }
    assert!(hop.lapped([MAX_POSITION - 20, 10]).is_some(), "the last place there is");
    assert_eq!(hop.next_position(), MAX_POSITION);
    check(&hop);
}

#[test]
fn a_lap_remembers_as_many_gaps_as_a_bridge_does_and_no_more() {
    let mut hop = Hop::join(1, [0, 0], 0);
    let count = MAX_GAPS as u64;
    hop.lapped([0, 2 * count]);
    for index in 0..count {
        assert!(hop.settled(&injected(index..index + 1)).is_some());
    }
    assert_eq!(hop.settled(&injected(count..count + 1)), None);
    let changed = gap(0..1, StageCounts::of(Stage::Late, 1));
    assert!(hop.settled(&changed).is_some(), "news of one that is known");
    assert_eq!(hop.rows().unsettled, count);
    check(&hop);
}

/// Records of a hostile process: mostly consistent, sometimes with random values.
struct Hostile(Random);

impl Hostile {
    fn number(&mut self, near: u64) -> u64 {
        match self.0.below(40) {
            0 => self.0.below(u64::MAX),
            1 => u64::MAX - self.0.below(3),
            2 => MAX_POSITION.wrapping_add(self.0.below(5)).wrapping_sub(2),
            _ => near.saturating_add(self.0.below(5)).saturating_sub(2),
        }
    }

    fn positions(&mut self, near: u64) -> Range<u64> {
        let start = if self.0.chance(0.9) { near } else { self.number(near) };
        let end = if self.0.chance(0.8) { start.saturating_add(self.0.below(9)) } else { self.number(start) };
        start..end
    }

    fn gap(&mut self, near: u64) -> Gap {
        let positions = self.positions(near);
        let len = positions.end.saturating_sub(positions.start);
        let share = self.0.below(len.saturating_add(1).max(1));
        let mut gap = Gap {
            unsettled: len - share,
            positions: positions.clone(),
            ..gap(0..share, StageCounts::of(Stage::Injected, share))
        };
        match self.0.below(12) {
            8 => {
                let hop = u8::try_from(self.0.below(10)).unwrap();
                let outcome =
                    if self.0.chance(0.5) { Outcome::Unsettled } else { Outcome::Lost(Stage::Late) };
                let count = if self.0.chance(0.8) { share } else { self.number(share) };
                gap.lost = StageCounts::of(Stage::Source, share);
                gap.inherited.add(HopShare { hop, outcome, count });
            }
            9 => gap.lost = StageCounts::of(Stage::Source, share),
            0 => gap.unexplained = self.number(len),
            1 => gap.lost[Stage::Late] = self.number(len),
            2 => gap.kind = GapKind::ReaderAbsent,
            3 => gap = Gap::outside_accounts(GapKind::PublisherAbsent, 1, positions),
            _ => {}
        }
        gap
    }
}

#[test]
fn whatever_another_process_writes_the_account_adds_up() {
    let mut recorded = 0;
    for seed in 0..300 {
        let mut hostile = Hostile(Random::new(seed));
        let per_sample = u32::try_from(1 + hostile.0.below(4)).unwrap();
        let whole = u64::from(per_sample) * 4;
        let position = if hostile.0.chance(0.8) { whole } else { hostile.number(whole) };
        let totals = [hostile.number(4), hostile.number(0)];
        let Ok(mut hop) = Hop::try_join(per_sample, totals, position) else { continue };
        for _ in 0..100 {
            let here = hop.next_position();
            let Totals { delivered, missing } = hop.totals;
            match hostile.0.below(5) {
                0 => recorded += u32::from(hop.try_delivered(hostile.positions(here)).is_ok()),
                1 => recorded += u32::from(hop.try_gap(hostile.gap(here)).is_ok()),
                2 => {
                    let near = hop.gaps().last().map_or(here, |gap| gap.positions.start);
                    recorded += u32::from(hop.settled(&hostile.gap(near)).is_some());
                }
                3 => {
                    let totals = [hostile.number(delivered), hostile.number(missing)];
                    let _ = hop.leads_to(totals, here);
                    recorded += u32::from(hop.lapped(totals).is_some());
                }
                _ if hostile.0.chance(0.05) => hop.end(AccountState::Cut),
                _ => drop(hop.continued()),
            }
            check(&hop);
            assert!(hop.next_position() <= MAX_POSITION, "seed {seed}");
        }
    }
    assert!(recorded > 3_000, "only {recorded} were sound: the others prove little");
}

/// Any sequence of blocks, gaps and laps adds up after every record, and the bridge's final knowledge explains every
/// missing element.
#[test]
fn any_flow_adds_up_after_every_record() {
    let mut random = Random::new(7);
    for _ in 0..200 {
        let per_sample = u32::try_from(1 + random.below(4)).unwrap();
        let start = u64::from(per_sample) * random.below(10);
        let mut hop = Hop::join(per_sample, [start, 0], start);
        let (mut position, mut totals, mut at_bridge) = (start, [start, 0], Vec::new());
        for _ in 0..100 {
            let read = random.chance(0.7);
            let positions = position..position + 1 + random.below(9);
            position = positions.end;
            if read && hop.next_position() != positions.start {
                assert!(hop.leads_to(totals, positions.start));
                hop.lapped(totals);
            }
            let missing = random.chance(0.3);
            totals[usize::from(missing)] += positions.end - positions.start;
            match (read, missing) {
                (true, true) => drop(hop.gap(unsettled(positions.clone())).clone()),
                (true, false) => hop.delivered(positions.clone()),
                (false, _) => {}
            }
            if missing {
                at_bridge.push((positions, random.below(3)));
            }
            check(&hop);
        }
        hop.lapped(totals);
        let mut before = 0;
        for (positions, kind) in at_bridge {
            before += if kind == 0 { 0 } else { positions.end - positions.start };
            let news = match kind {
                0 => injected(positions),
                1 => inherited(positions, Outcome::Lost(Stage::Network)),
                _ => {
                    hop.settled(&inherited(positions.clone(), Outcome::Unsettled));
                    check(&hop);
                    inherited(positions, Outcome::Lost(Stage::Late))
                }
            };
            assert!(hop.settled(&news).is_some());
            check(&hop);
        }
        hop.end(AccountState::Closed);
        let rows = hop.rows();
        assert_eq!((rows.unexplained, rows.lost[Stage::Injected] + before), (0, totals[1]));
        assert_eq!((hop.inherited().total(), hop.inherited().unexplained()), (before, 0));
        assert_eq!(rows.delivered + rows.lost[Stage::ReaderLag], totals[0] - start);
    }
}
