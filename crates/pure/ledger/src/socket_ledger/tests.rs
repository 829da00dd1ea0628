//! Scenes of one ledger, from join to end; the whole machine is proven over the virtual network in `cast`.

mod relayed;

use super::*;
use crate::{DropUnit, KernelName};
use std::collections::BTreeSet;

const KEY: LedgerKey = LedgerKey(0);
const PER_SAMPLE: u32 = 2;
/// Number of elements in each data datagram of these scenes.
const LOAD: u64 = 10;

/// A ledger whose data datagram `n` carries positions `10n..10n+10`, with the state of the surrounding machine.
struct Scene {
    ledger: SocketLedger,
    brackets: Brackets,
    now: Instant,
    /// Numbers of data that were received and not yet delivered.
    waiting: BTreeSet<u64>,
}

impl Scene {
    fn new() -> Self {
        let ledger = SocketLedger::join(KEY, LedgerConfig::default(), PER_SAMPLE, 0, 0);
        Self { ledger, brackets: Brackets::default(), now: Instant::ORIGIN, waiting: BTreeSet::new() }
    }

    fn data(&mut self, number: u64) -> Accepted {
        let positions = number * LOAD..(number + 1) * LOAD;
        let accepted = self.ledger.accept(self.now, number, positions, &mut self.brackets);
        if accepted == Accepted::Received {
            self.waiting.insert(number);
        }
        self.hand_over();
        accepted
    }

    fn hand_over(&mut self) {
        let kept = self.waiting.split_off(&self.ledger.deliverable_below());
        let handed = core::mem::replace(&mut self.waiting, kept);
        self.ledger.deliver(handed.len() as u64 * LOAD);
        self.check();
    }

    fn pass(&mut self, duration: Duration) {
        self.now += duration;
        self.ledger.expire(self.now, &mut self.brackets);
        self.hand_over();
    }

    fn name(&mut self, numbers: Range<u64>, stage: Stage) {
        self.ledger.name_exactly(numbers, stage, EvidenceSource::TallyRange, &mut self.brackets);
        self.check();
    }

    fn check(&self) {
        self.ledger.account().check().expect("the law holds after every input");
    }

    fn lost(&self, stage: Stage) -> (u64, u64) {
        (self.ledger.network_rows().lost[stage], self.ledger.reader_rows().lost[stage])
    }
}

#[test]
fn three_numbers_above_declare_a_gap_and_not_two() {
    let mut scene = Scene::new();
    for number in [0, 2, 3] {
        scene.data(number);
    }
    assert_eq!(scene.ledger.network_rows().in_flight, 1);
    assert_eq!(scene.ledger.take_change(), None);
    scene.data(4);
    assert_eq!(scene.ledger.network_rows().unsettled, 1);
    assert_eq!(scene.ledger.take_change(), Some(Change::Declared(0)));
    assert_eq!(scene.ledger.gap(0).unwrap().positions, 10..20);
}

#[test]
fn a_reordered_datagram_fills_its_hole() {
    let mut scene = Scene::new();
    for number in [0, 3, 1] {
        assert_eq!(scene.data(number), Accepted::Received);
    }
    assert_eq!(scene.ledger.network_rows().in_flight, 1);
    assert_eq!(scene.data(2), Accepted::Received);
    let rows = scene.ledger.reader_rows();
    assert_eq!((rows.delivered, rows.missing(), rows.in_flight), (40, 0, 0));
}

#[test]
fn a_tally_declares_the_tail_after_the_reorder_time() {
    let mut scene = Scene::new();
    scene.data(0);
    let totals = StageCounts::default();
    // Datagram 1 is lost; the tally takes number 2 and reports 20 as the horizon.
    scene.ledger.accept(scene.now, 2, 20..20, &mut scene.brackets);
    scene.ledger.tally(scene.now, (2, 20), &totals, &totals, &mut scene.brackets);
    scene.check();
    scene.pass(Duration::from_millis(4));
    assert_eq!(scene.ledger.network_rows().in_flight, 1);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.ledger.network_rows().unsettled, 1);
    assert_eq!(scene.ledger.reader_rows().unsettled, 10);
}

#[test]
fn what_nobody_explains_in_time_is_unexplained() {
    let mut scene = Scene::new();
    for number in [0, 2, 3, 4] {
        scene.data(number);
    }
    scene.pass(Duration::from_millis(1_999));
    assert_eq!(scene.ledger.network_rows().unsettled, 1);
    scene.pass(Duration::from_millis(1));
    let rows = scene.ledger.network_rows();
    assert_eq!((rows.unsettled, rows.unexplained), (0, 1));
    assert_eq!(scene.ledger.reader_rows().unexplained, 10);
}

#[test]
fn a_name_that_comes_before_the_gap_is_declared_is_remembered() {
    let mut scene = Scene::new();
    scene.data(0);
    scene.data(2);
    scene.name(1..2, Stage::Injected);
    scene.data(3);
    scene.data(4);
    assert_eq!(scene.lost(Stage::Injected), (1, 10));
}

#[test]
fn what_a_drop_event_names_is_not_explained_by_the_socket_counter_once_more() {
    let event = EvidenceSource::DropEvent(KernelName::new("SOCKET_RCVBUFF"));
    // The event comes before the counter has risen, between that and settling, or afterwards.
    for order in 0..3 {
        let mut scene = Scene::new();
        let name = |scene: &mut Scene| {
            let stage = Stage::ReceiverSocketBuffer;
            scene.ledger.name_exactly(3..4, stage, event, &mut scene.brackets);
            scene.check();
        };
        scene.data(0);
        if order == 0 {
            name(&mut scene);
        }
        // Number 1 was lost in the network, number 3 in front of the socket.
        scene.data(2);
        scene.brackets.socket_drops_rose(scene.now, 1, DropUnit::Datagram, [(KEY, 0)]);
        for number in 4..7 {
            scene.data(number);
        }
        if order == 1 {
            name(&mut scene);
        }
        scene.pass(Duration::from_secs(2));
        if order == 2 {
            assert_eq!(scene.lost(Stage::ReceiverSocketBuffer), (1, 10), "the oldest is taken for it");
            name(&mut scene);
            assert_eq!(
                scene.lost(Stage::ReceiverSocketBuffer),
                (1, 10),
                "the socket dropped no more than one"
            );
            continue;
        }
        assert_eq!(scene.lost(Stage::ReceiverSocketBuffer), (1, 10));
        assert_eq!(scene.ledger.network_rows().unexplained, 1, "{order}");
        let evidence = &scene.ledger.gap(1).unwrap().evidence;
        assert_eq!(evidence.iter().map(|it| it.source).collect::<Vec<_>>(), [event]);
    }
}

#[test]
fn an_event_after_its_time_explains_what_the_counter_has_counted_and_not_explained() {
    let event = EvidenceSource::DropEvent(KernelName::new("SOCKET_RCVBUFF"));
    let mut scene = Scene::new();
    for number in [0, 3, 4, 5] {
        scene.data(number);
    }
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.ledger.network_rows().unexplained, 2);
    scene.brackets.socket_drops_rose(scene.now, 1, DropUnit::Datagram, [(KEY, 0)]);
    scene.ledger.name_exactly(1..3, Stage::ReceiverSocketBuffer, event, &mut scene.brackets);
    scene.check();
    assert_eq!(scene.lost(Stage::ReceiverSocketBuffer), (1, 10));
    let moved = Reclassified { from: None, to: Stage::ReceiverSocketBuffer, datagrams: 1 };
    assert_eq!(scene.ledger.reclassified(), [moved]);
    scene.ledger.name_exactly(1..3, Stage::ReceiverIp, event, &mut scene.brackets);
    scene.check();
    assert_eq!(scene.lost(Stage::ReceiverIp), (2, 20), "no counter of the socket's bounds other stages");
    scene.brackets.expire(scene.now + Duration::from_secs(100));
    assert_eq!(scene.brackets.unmatched().total(), 0);
}

#[test]
fn between_two_exact_names_the_earlier_stage_wins() {
    let mut scene = Scene::new();
    for number in [0, 2, 3, 4] {
        scene.data(number);
    }
    scene.name(1..2, Stage::SenderQdisc);
    scene.name(1..2, Stage::Injected);
    scene.name(1..2, Stage::Decode);
    assert_eq!(scene.lost(Stage::Injected), (1, 10));
    let moved = Reclassified { from: Some(Stage::SenderQdisc), to: Stage::Injected, datagrams: 1 };
    assert_eq!(scene.ledger.reclassified(), [moved]);
}

#[test]
fn a_late_datagram_moves_its_loss_and_releases_the_evidence() {
    let mut scene = Scene::new();
    scene.data(0);
    scene.brackets.socket_drops_rose(scene.now, 1, DropUnit::Datagram, [(KEY, 0)]);
    for number in [3, 4, 5] {
        scene.data(number);
    }
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.lost(Stage::ReceiverSocketBuffer), (1, 10));
    assert_eq!(scene.ledger.reader_rows().unexplained, 10);
    assert_eq!(scene.data(1), Accepted::Late);
    assert_eq!(scene.lost(Stage::ReceiverSocketBuffer), (0, 0));
    assert_eq!(scene.lost(Stage::Late), (1, 10));
    let moved = Reclassified { from: Some(Stage::ReceiverSocketBuffer), to: Stage::Late, datagrams: 1 };
    assert_eq!(scene.ledger.reclassified(), [moved]);
    assert_eq!(scene.ledger.reorder_count(), 6, "the wait is doubled");
    assert_eq!(scene.data(1), Accepted::Duplicate);
}

#[test]
fn the_wait_for_reordered_datagrams_doubles_up_to_its_limit() {
    let mut scene = Scene::new();
    let mut number = 0;
    for expected in [6, 12, 24, 48, 64, 64] {
        let missing = number + 1;
        scene.data(number);
        number += 2;
        while scene.ledger.network_rows().in_flight > 0 || scene.ledger.network_rows().unsettled == 0 {
            scene.data(number);
            number += 1;
        }
        assert_eq!(scene.data(missing), Accepted::Late);
        assert_eq!(scene.ledger.reorder_count(), expected);
    }
}

#[test]
fn the_wait_after_a_tally_grows_by_itself() {
    let mut scene = Scene::new();
    let totals = StageCounts::default();
    scene.data(0);
    let waits = [5, 10, 20, 40, 80, 105, 105].map(Duration::from_millis);
    for (round, wait) in (0..).zip(waits) {
        // Data with number n are missing when the tally n + 1 comes, and arrive after all.
        let (number, position) = (2 * round + 1, (2 * round + 2) * LOAD);
        scene.ledger.accept(scene.now, number + 1, position..position, &mut scene.brackets);
        scene.ledger.tally(scene.now, (number + 1, position), &totals, &totals, &mut scene.brackets);
        scene.pass(wait - Duration::from_nanos(1));
        assert_eq!(scene.ledger.network_rows().in_flight, 1, "{wait:?}");
        scene.pass(Duration::from_nanos(1));
        let positions = position - LOAD..position;
        assert_eq!(scene.ledger.accept(scene.now, number, positions, &mut scene.brackets), Accepted::Late);
    }
    assert_eq!(scene.ledger.reorder_count(), 3, "the count was not too small");
}

#[test]
fn elements_that_never_had_a_number_are_missing_at_once() {
    let mut scene = Scene::new();
    scene.data(0);
    scene.ledger.accept(scene.now, 1, 30..40, &mut scene.brackets);
    scene.ledger.deliver(10);
    scene.check();
    assert_eq!(scene.ledger.reader_rows().unsettled, 20);
    assert_eq!(scene.ledger.network_rows().unsettled, 0, "no datagram is missing");
    scene.ledger.name_skipped(10..24, Stage::Source);
    scene.check();
    assert_eq!(scene.ledger.reader_rows().lost[Stage::Source], 14);
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.ledger.reader_rows().unexplained, 6);
}

#[test]
fn a_tally_that_comes_late_from_inside_a_hole_of_the_source_is_no_contradiction() {
    let mut scene = Scene::new();
    scene.data(0);
    // The tally with number 1 was sent at position 20, between two holes that are later listed as one.
    for number in [2, 3, 4] {
        let positions = (number + 1) * LOAD..(number + 2) * LOAD;
        scene.ledger.accept(scene.now, number, positions, &mut scene.brackets);
    }
    scene.ledger.deliver(3 * LOAD);
    scene.ledger.name_skipped(10..30, Stage::Source);
    assert_eq!(scene.ledger.accept(scene.now, 1, 20..20, &mut scene.brackets), Accepted::Late);
    scene.check();
}

#[test]
fn running_totals_repair_what_lost_tallies_would_have_named() {
    let mut scene = Scene::new();
    let tally = |scene: &mut Scene, number: u64, injected: u64, source: u64, position: u64| {
        scene.ledger.accept(scene.now, number, position..position, &mut scene.brackets);
        let withheld = StageCounts::of(Stage::Injected, injected);
        let skipped = StageCounts::of(Stage::Source, source);
        scene.ledger.tally(scene.now, (number, position), &withheld, &skipped, &mut scene.brackets);
        scene.check();
    };
    tally(&mut scene, 0, 5, 7, 0);
    // Numbers 1 and 2 are withheld, then eight elements are skipped; no tally lists any of them.
    tally(&mut scene, 3, 7, 7, 20);
    tally(&mut scene, 4, 7, 15, 28);
    scene.pass(Duration::from_millis(5));
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.lost(Stage::Injected), (2, 20));
    assert_eq!(scene.ledger.reader_rows().lost[Stage::Source], 8);
    assert!(scene.ledger.nothing_pending());
}

#[test]
fn an_account_closes_with_the_final_tally_and_nothing_pending() {
    let mut scene = Scene::new();
    scene.data(0);
    scene.data(1);
    assert_eq!(scene.ledger.state(), AccountState::Open);
    scene.ledger.accept(scene.now, 2, 20..20, &mut scene.brackets);
    scene.ledger.final_tally(2);
    scene.check();
    assert_eq!(scene.ledger.state(), AccountState::Closed);
    assert!(scene.ledger.account().explained());
}

#[test]
fn a_publisher_that_said_its_last_word_is_not_silent_while_losses_settle() {
    let mut scene = Scene::new();
    for number in [0, 2] {
        scene.data(number);
    }
    scene.ledger.accept(scene.now, 3, 30..30, &mut scene.brackets);
    scene.ledger.final_tally(3);
    scene.ledger.tally(
        scene.now,
        (3, 30),
        &StageCounts::default(),
        &StageCounts::default(),
        &mut scene.brackets,
    );
    scene.pass(Duration::from_millis(5));
    assert!(!scene.ledger.expects_more());
    scene.ledger.give_up(scene.now, &mut scene.brackets);
    scene.hand_over();
    assert_eq!(scene.ledger.state(), AccountState::Open, "one number is unsettled");
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.ledger.state(), AccountState::Closed);
}

#[test]
fn a_reader_that_leaves_is_accountable_up_to_the_first_number_in_flight() {
    let mut scene = Scene::new();
    for number in [0, 1, 3, 4] {
        scene.data(number);
    }
    scene.ledger.cut(scene.now, &mut scene.brackets);
    let account = scene.ledger.account();
    assert_eq!(account.check(), Ok(()));
    assert!(account.closed());
    let rows = scene.ledger.network_rows();
    assert_eq!((account.state, rows.next, rows.received), (AccountState::Cut, 2, 2));
    assert_eq!(scene.ledger.reader_rows().delivered, 20);
}

#[test]
fn a_publisher_that_falls_silent_leaves_an_unconfirmed_account() {
    let mut scene = Scene::new();
    for number in [0, 1, 3] {
        scene.data(number);
    }
    scene.ledger.give_up(scene.now, &mut scene.brackets);
    scene.hand_over();
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.ledger.state(), AccountState::Unconfirmed);
    assert_eq!(scene.ledger.network_rows().unexplained, 1);
    assert!(scene.ledger.account().closed());
}

#[test]
fn a_header_that_contradicts_the_others_changes_nothing() {
    let mut scene = Scene::new();
    for number in [0, 1, 3, 5, 6, 7] {
        scene.data(number);
    }
    let before = scene.ledger.account();
    let contradictions = [(9, 3..13), (2, 5..15), (2, 25..35), (4, 35..45), (u64::MAX, 90..100)];
    for (number, positions) in contradictions {
        let accepted = scene.ledger.accept(scene.now, number, positions, &mut scene.brackets);
        assert_eq!(accepted, Accepted::Contradictory, "{number}");
    }
    assert_eq!(scene.ledger.account(), before);
}

#[test]
fn elements_of_mixed_gaps_are_shared_out_and_marked() {
    let mut scene = Scene::new();
    for number in [0, 4, 5, 6] {
        scene.data(number);
    }
    scene.name(1..2, Stage::Injected);
    scene.pass(Duration::from_secs(2));
    let gap = scene.ledger.gap(0).unwrap();
    assert!(gap.apportioned);
    assert_eq!((gap.lost[Stage::Injected], gap.unexplained), (10, 20));
}

#[test]
fn a_forgotten_increment_is_noticed() {
    let mut scene = Scene::new();
    scene.data(0);
    scene.ledger.accept(scene.now, 1, 10..20, &mut scene.brackets);
    scene.ledger.elements_in_flight -= LOAD;
    // The elements were delivered but not counted.
    let imbalance = scene.ledger.account().check().unwrap_err();
    assert_eq!((imbalance.expected, imbalance.counted), (20, 10));
}

#[test]
fn only_the_newest_gaps_are_remembered_and_the_totals_keep_the_rest() {
    let mut scene = Scene::new();
    let gaps = MAX_GAPS as u64 + 10;
    let mut number = 0;
    for _ in 0..gaps {
        for _ in 0..4 {
            number += 1;
            if number % 4 != 0 {
                scene.ledger.accept(
                    scene.now,
                    number,
                    number * LOAD..(number + 1) * LOAD,
                    &mut scene.brackets,
                );
            }
        }
    }
    scene.now += Duration::from_secs(3);
    scene.ledger.expire(scene.now, &mut scene.brackets);
    let account = scene.ledger.account();
    assert_eq!(account.gaps.len(), MAX_GAPS);
    assert_eq!(account.elements.unexplained, gaps * LOAD, "number 0 and every fourth");
    assert_eq!(account.check(), Ok(()));
}
