//! Scenes of one ledger behind a relay: losses of earlier hops, told by ranges and repaired by counts.

use super::*;
use crate::{Cause, HopShare, Unit};
use units::Random;

const DEADLINE: Outcome = Outcome::Lost(Stage::Deadline);
const NETWORK: Outcome = Outcome::Lost(Stage::Network);

fn counts(shares: &[(u8, Outcome, u64)]) -> HopCounts {
    shares.iter().map(|&(hop, outcome, count)| HopShare { hop, outcome, count }).collect()
}

/// Skipped positions, with or without their hop and outcome.
type Skipped = (Range<u64>, Option<(u8, Outcome)>);

/// A ledger on hop 2, whose relay skips what was lost before.
struct Relayed {
    scene: Scene,
    number: u64,
    position: u64,
}

impl Relayed {
    fn new() -> Self {
        let mut scene = Scene::new();
        scene.ledger = scene.ledger.relayed_on(2);
        Self { scene, number: 0, position: 0 }
    }

    fn data(&mut self, elements: u64) {
        let positions = self.position..self.position + elements;
        let Scene { ledger, brackets, now, .. } = &mut self.scene;
        assert_eq!(ledger.accept(*now, self.number, positions.clone(), brackets), Accepted::Received);
        ledger.deliver(elements);
        (self.number, self.position) = (self.number + 1, positions.end);
        self.scene.check();
    }

    /// Two holes of four elements that no tally lists; returns the later one.
    fn with_two_holes() -> (Self, Range<u64>) {
        let mut relayed = Self::new();
        relayed.data(10);
        relayed.tally(&[], &HopCounts::default());
        relayed.skip(4);
        relayed.data(10);
        let later = relayed.skip(4);
        relayed.data(10);
        (relayed, later)
    }

    fn skip(&mut self, elements: u64) -> Range<u64> {
        self.position += elements;
        self.position - elements..self.position
    }

    /// Loses a datagram.
    fn lose(&mut self, elements: u64) {
        (self.number, self.position) = (self.number + 1, self.position + elements);
    }

    /// A tally that lists these ranges, with or without their outcome, and has these counts.
    fn tally(&mut self, skipped: &[Skipped], totals: &HopCounts) {
        self.tally_of(skipped, &StageCounts::default(), totals);
    }

    /// The same with totals of skipped elements.
    fn tally_of(&mut self, skipped: &[Skipped], elements: &StageCounts, totals: &HopCounts) {
        let Scene { ledger, brackets, now, .. } = &mut self.scene;
        let position = self.position;
        ledger.accept(*now, self.number, position..position, brackets);
        self.number += 1;
        for (positions, told) in skipped {
            ledger.name_skipped(positions.clone(), Stage::Source);
            if let Some((hop, outcome)) = told {
                ledger.name_inherited(positions, *hop, *outcome, None);
            }
        }
        let nothing = StageCounts::default();
        ledger.tally(*now, (self.number - 1, position), &nothing, elements, brackets);
        ledger.inherited_rose(position, Some(totals));
        self.scene.check();
    }

    /// Elements lost in the source, and before they were numbered.
    fn lost(&self) -> [u64; 2] {
        let lost = self.scene.ledger.reader_rows().lost;
        [lost[Stage::Source], lost[Stage::PublisherQueue]]
    }

    fn hops(&self) -> HopCounts {
        let account = self.scene.ledger.account();
        let source = account.elements.lost[Stage::Source];
        assert_eq!(account.hops.total(), source, "every element of stage source has a hop");
        let of_gaps: u64 = account.gaps.iter().map(|gap| gap.inherited.total()).sum();
        assert_eq!(of_gaps, source);
        account.hops
    }
}

#[test]
fn a_range_tells_where_it_was_lost_and_later_news_settles_it() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    let hole = relayed.skip(6);
    relayed.data(10);
    relayed.tally(&[(hole.clone(), Some((0, Outcome::Unsettled)))], &HopCounts::default());
    assert_eq!(relayed.hops(), counts(&[(0, Outcome::Unsettled, 6)]));
    let gap = relayed.scene.ledger.gap(0).unwrap();
    assert_eq!((gap.lost[Stage::Source], gap.unsettled, gap.evidence[0].unit), (6, 0, Unit::Elements));
    while relayed.scene.ledger.take_change().is_some() {}
    relayed.tally(&[(hole, Some((0, NETWORK)))], &counts(&[(0, NETWORK, 6)]));
    assert_eq!(relayed.hops(), counts(&[(0, NETWORK, 6)]));
    assert_eq!(relayed.scene.ledger.take_change(), Some(Change::Updated(0)), "the gap is news");
    assert!(!relayed.scene.ledger.gap(0).unwrap().apportioned);
}

#[test]
fn an_outcome_that_comes_before_the_gap_is_declared_is_remembered() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    let hole = relayed.skip(4);
    relayed.scene.ledger.name_skipped(hole.clone(), Stage::Source);
    relayed.scene.ledger.name_inherited(&hole, 1, DEADLINE, None);
    relayed.data(10);
    assert_eq!(relayed.hops(), counts(&[(1, DEADLINE, 4)]));
}

#[test]
fn what_a_link_gave_up_has_its_cause_as_evidence() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    let hole = relayed.skip(9);
    relayed.data(10);
    relayed.scene.ledger.name_skipped(hole.clone(), Stage::Source);
    let Range { start, end } = hole;
    relayed.scene.ledger.name_inherited(&(start..start + 4), 1, DEADLINE, Some(Cause::LinkDown));
    relayed.scene.ledger.name_inherited(&(start + 4..end), 1, DEADLINE, Some(Cause::Repair));
    let gap = relayed.scene.ledger.gap(0).expect("it was declared");
    let causes = gap.evidence.iter().filter_map(|line| Some((line.stage, line.count, line.source.cause()?)));
    assert_eq!(
        causes.collect::<Vec<_>>(),
        [(Stage::Deadline, 4, Cause::LinkDown), (Stage::Deadline, 5, Cause::Repair)]
    );
    assert_eq!(relayed.hops(), counts(&[(1, DEADLINE, 9)]));
}

#[test]
fn a_hop_that_is_not_before_the_relay_and_a_stream_without_one_are_not_told_of() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    let hole = relayed.skip(4);
    relayed.scene.ledger.name_inherited(&hole, 2, DEADLINE, None);
    relayed.data(10);
    relayed.tally(&[(hole.clone(), None)], &HopCounts::default());
    assert_eq!(relayed.hops(), counts(&[(1, Outcome::Unsettled, 4)]), "on the last hop before");
    let mut plain = Relayed::new();
    plain.scene.ledger = plain.scene.ledger.relayed_on(0);
    plain.data(10);
    let hole = plain.skip(4);
    plain.data(10);
    plain.tally(&[(hole, Some((0, DEADLINE)))], &counts(&[(0, DEADLINE, 4)]));
    assert!(plain.scene.ledger.account().hops.is_empty());
}

#[test]
fn counts_repair_what_lost_tallies_would_have_told() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    relayed.tally(&[], &counts(&[(0, NETWORK, 100)]));
    // Its range is told, and its outcome is not.
    let without_outcome = relayed.skip(6);
    relayed.data(10);
    // Not even its range is told.
    relayed.skip(3);
    relayed.data(10);
    relayed.tally(&[(without_outcome, None)], &counts(&[(0, NETWORK, 104), (1, DEADLINE, 5)]));
    assert_eq!(relayed.hops(), counts(&[(1, Outcome::Unsettled, 6)]), "a range may still come");
    relayed.scene.pass(Duration::from_secs(2));
    assert_eq!(relayed.scene.ledger.reader_rows().unexplained, 3);
    relayed.tally(&[], &counts(&[(0, NETWORK, 104), (1, DEADLINE, 5)]));
    assert_eq!(relayed.hops(), counts(&[(0, NETWORK, 4), (1, DEADLINE, 5)]));
    assert_eq!(relayed.scene.ledger.reader_rows().unexplained, 0);
    assert!(relayed.scene.ledger.gap(0).unwrap().apportioned);
}

#[test]
fn counts_that_may_be_of_elements_behind_a_missing_number_are_of_no_others() {
    for (lost_elements, expected) in [(0, 4), (3, 1), (4, 0), (10, 0)] {
        let mut relayed = Relayed::new();
        relayed.data(10);
        // A hole that no tally lists beside a lost datagram, or another one, which may be of another stage.
        relayed.lose(lost_elements);
        relayed.data(10);
        relayed.skip(8);
        (0..3).for_each(|_| relayed.data(10));
        let source = StageCounts::of(Stage::Source, 4);
        let totals = counts(&[(0, NETWORK, 4)]);
        relayed.tally_of(&[], &source, &HopCounts::default());
        relayed.scene.pass(Duration::from_secs(3));
        assert_eq!(relayed.lost(), [expected, 0], "by the totals of samples, {lost_elements} lost");
        let mut relayed = Relayed::new();
        relayed.data(10);
        relayed.tally(&[], &HopCounts::default());
        relayed.lose(lost_elements);
        relayed.data(10);
        relayed.skip(8);
        (0..3).for_each(|_| relayed.data(10));
        relayed.scene.pass(Duration::from_secs(3));
        relayed.tally(&[], &totals);
        assert_eq!(relayed.lost(), [expected, 0], "by the counts of the hops before");
    }
}

#[test]
fn elements_that_are_listed_after_all_are_counted_once() {
    let (mut relayed, later) = Relayed::with_two_holes();
    let totals = counts(&[(0, NETWORK, 4)]);
    relayed.tally_of(&[], &StageCounts::of(Stage::Source, 4), &HopCounts::default());
    relayed.scene.pass(Duration::from_secs(3));
    assert_eq!(relayed.lost(), [4, 0], "oldest first");
    relayed.tally_of(
        &[(later.clone(), Some((0, NETWORK)))],
        &StageCounts::of(Stage::Source, 4),
        &HopCounts::default(),
    );
    assert_eq!((relayed.lost(), relayed.scene.ledger.reader_rows().unexplained), ([4, 0], 4));
    assert_eq!(relayed.scene.ledger.gap(1).unwrap().lost[Stage::Source], 4, "it was the later one");

    let (mut relayed, later) = Relayed::with_two_holes();
    relayed.scene.pass(Duration::from_secs(3));
    relayed.tally(&[], &totals);
    assert_eq!(relayed.lost(), [4, 0]);
    let told = [(later, Some((0, NETWORK)))];
    let Scene { ledger, .. } = &mut relayed.scene;
    ledger.name_skipped(told[0].0.clone(), Stage::Source);
    ledger.name_inherited(&told[0].0, 0, NETWORK, None);
    ledger.inherited_rose(relayed.position, None);
    assert_eq!((relayed.lost(), relayed.hops()), ([4, 0], totals), "also without counts in that tally");
}

#[test]
fn a_sample_that_began_before_a_tally_is_not_counted_behind_it() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    let first = relayed.skip(1);
    relayed.tally(&[(first, None)], &HopCounts::default());
    let second = relayed.skip(1);
    relayed.data(10);
    relayed.skip(2);
    relayed.data(10);
    relayed.tally_of(&[(second, None)], &StageCounts::of(Stage::Source, 2), &HopCounts::default());
    relayed.scene.pass(Duration::from_secs(3));
    assert_eq!((relayed.lost(), relayed.scene.ledger.reader_rows().unexplained), ([2, 0], 2));
}

#[test]
fn of_exact_totals_what_other_stages_leave_over_is_certain() {
    let mut scene = Scene::new();
    scene.data(0);
    let Scene { ledger, brackets, now, .. } = &mut scene;
    let mut take = |number, positions| _ = ledger.accept(*now, number, positions, brackets);
    // Datagram 1 is lost; elements 20..30 are skipped.
    take(2, 30..40);
    take(3, 40..50);
    take(4, 50..60);
    take(5, 70..80);
    ledger.deliver(40);
    let mut skipped = StageCounts::of(Stage::Source, 12);
    skipped[Stage::PublisherQueue] = 2;
    ledger.accept(*now, 6, 80..80, brackets);
    ledger.tally(*now, (6, 80), &StageCounts::default(), &skipped, brackets);
    scene.pass(Duration::from_secs(3));
    let lost = scene.ledger.reader_rows().lost;
    assert_eq!((lost[Stage::Source], lost[Stage::PublisherQueue]), (8, 0), "of ten without a number");
}

#[test]
fn a_range_that_is_told_after_all_takes_precedence_over_counts() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    relayed.tally(&[], &HopCounts::default());
    let holes = [relayed.skip(4), {
        relayed.data(10);
        relayed.skip(4)
    }];
    relayed.data(10);
    let untold = holes.clone().map(|hole| (hole, None));
    let totals = counts(&[(0, NETWORK, 4), (1, DEADLINE, 4)]);
    relayed.tally(&untold, &totals);
    relayed.scene.pass(Duration::from_secs(2));
    relayed.tally(&[], &totals);
    assert_eq!(relayed.scene.ledger.gap(0).unwrap().inherited, counts(&[(0, NETWORK, 4)]), "oldest first");
    let [first, _] = holes;
    relayed.tally(&[(first, Some((1, DEADLINE)))], &totals);
    let of = |id| relayed.scene.ledger.gap(id).unwrap().inherited.clone();
    assert_eq!((of(0), of(1)), (counts(&[(1, DEADLINE, 4)]), counts(&[(0, NETWORK, 4)])));
}

#[test]
fn what_nothing_tells_of_is_unexplained_on_the_last_hop_at_the_end() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    let hole = relayed.skip(4);
    relayed.data(10);
    relayed.tally(&[(hole.clone(), None)], &HopCounts::default());
    relayed.scene.ledger.final_tally(relayed.number - 1);
    assert!(!relayed.scene.ledger.account().closed());
    relayed.scene.ledger.give_up_inherited();
    relayed.scene.check();
    assert_eq!(relayed.hops(), counts(&[(1, Outcome::Unexplained, 4)]));
    let account = relayed.scene.ledger.account();
    assert!(account.closed() && !account.explained());
    relayed.scene.ledger.name_inherited(&hole, 0, NETWORK, None);
    assert!(relayed.scene.ledger.account().explained(), "late news is welcome");
}

#[test]
fn the_next_account_of_an_epoch_counts_from_where_it_begins() {
    let mut relayed = Relayed::new();
    relayed.data(10);
    let before = counts(&[(0, NETWORK, 9)]);
    relayed.tally(&[], &before);
    relayed.scene.ledger = SocketLedger::continued(&relayed.scene.ledger, KEY);
    relayed.skip(4);
    relayed.data(10);
    relayed.scene.pass(Duration::from_secs(2));
    relayed.tally(&[], &counts(&[(0, NETWORK, 9), (1, DEADLINE, 2)]));
    assert_eq!(relayed.hops(), counts(&[(1, DEADLINE, 2)]));
    assert_eq!(relayed.scene.ledger.reader_rows().unexplained, 2);
}

/// Whatever a relay tells, every element lost before it has exactly one outcome, after every input; what it tells
/// truly and repeats in time is what is counted.
#[test]
fn the_law_over_hops_holds_whatever_tallies_tell_and_lose() {
    let outcomes = [NETWORK, DEADLINE, Outcome::Unexplained];
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut relayed, mut holes, mut truth) = (Relayed::new(), Vec::new(), HopCounts::default());
        relayed.tally(&[], &truth);
        let (mut lies, loses) = (random.chance(0.3), random.chance(0.6));
        for _ in 0..60 {
            match random.below(5) {
                0 => {
                    let hole = relayed.skip(1 + random.below(9));
                    let hop = u8::try_from(random.below(2)).unwrap();
                    let outcome = outcomes[usize::try_from(random.below(3)).unwrap()];
                    truth.add(HopShare { hop, outcome, count: hole.end - hole.start });
                    holes.push((hole, Some((hop, outcome))));
                }
                1 => relayed.scene.pass(Duration::from_millis(random.below(900))),
                2 if loses && random.chance(0.5) => relayed.number += 1,
                2 => {
                    let mut told = holes[holes.len().saturating_sub(3)..].to_vec();
                    if lies && random.chance(0.3) {
                        let start = random.below(relayed.position + 1);
                        told.push((start..start + 5, Some((1, Outcome::Unsettled))));
                        told.push((start + 2..start + 9, Some((0, DEADLINE))));
                    }
                    relayed.tally(&told, &truth);
                }
                _ => relayed.data(1 + random.below(9)),
            }
            relayed.hops();
        }
        // A lost tally's number is declared missing by the next ones.
        for _ in 0..4 {
            relayed.data(2);
        }
        relayed.scene.pass(Duration::from_secs(3));
        relayed.tally(&[], &truth);
        relayed.scene.ledger.final_tally(relayed.number - 1);
        relayed.scene.ledger.give_up_inherited();
        let hops = relayed.hops();
        assert_eq!(hops.unsettled(), 0);
        lies |= relayed.scene.ledger.reader_rows().unexplained > 0;
        if !lies && !loses {
            assert_eq!(hops, truth, "seed {seed}");
        }
    }
}
