//! Selection of a reader: streams that are not selected have no account, and a stream is left in order.

use core::time::Duration;

use cast::receive::Input;
use ledger::{AccountState, DropNotice, KernelName, Stage};
use sample::{Selection, StreamPattern};
use wire::{Numbered, Skipped, Tally, Withheld};

use crate::victim::{MILLISECOND, Victim};

#[test]
fn a_stream_nobody_asked_for_has_no_account_until_somebody_does() {
    let mut victim = Victim::ignorant();
    let other = "somebody/else".parse().expect("a pattern");
    let mut selection = Selection::none();
    selection.add(StreamPattern::clone(&other));
    victim.select(&selection);
    victim.describe();
    (1..5).for_each(|number| victim.data(number));
    assert_eq!((victim.began, victim.receiver.accounts().count()), (0, 0));
    assert_eq!(victim.receiver.stats().unwanted, 5);
    victim.select(&Selection::all());
    (4..8).for_each(|number| victim.data(number));
    let rows = victim.rows();
    assert_eq!((victim.began, rows.first, rows.received), (1, 5, 3), "4 came before somebody asked");
    victim.select(&selection);
    assert_eq!(victim.ended, [AccountState::Cut]);
    victim.select(&Selection::all());
    (8..10).for_each(|number| victim.data(number));
    assert_eq!((victim.began, victim.rows().first), (2, 8), "the description is still known");
}

/// A reader that has lost numbers 3 and 4 and is told to leave the stream.
fn leaving_with_a_loss() -> Victim {
    let mut victim = Victim::new();
    [1, 2, 5, 6, 7].into_iter().for_each(|number| victim.data(number));
    assert_eq!(victim.rows().unsettled, 2);
    victim.select(&Selection::none());
    assert!(victim.receiver.is_leaving() && victim.ended.is_empty());
    victim
}

#[test]
fn a_reader_that_leaves_waits_for_the_publishers_word_on_its_losses() {
    let mut victim = leaving_with_a_loss();
    victim.data(8);
    victim.tally(Numbered { number: 9, first_index: 90, ..victim.head }, |tally| {
        tally.totals.datagrams.injected = 2;
        tally.withheld = vec![Withheld { numbers: 3..5, stage: Stage::Injected }];
    });
    assert!(!victim.receiver.is_leaving());
    let [account] = &victim.accounts[..] else { panic!("one account: {:?}", victim.accounts) };
    let rows = account.datagrams.expect("a socket");
    assert_eq!((account.state, rows.unexplained, rows.lost[Stage::Injected]), (AccountState::Cut, 0, 2));
    assert_eq!((rows.next, victim.delivered), (10, 60), "what came while it waited was handed over");
    victim.data(10);
    assert_eq!((victim.began, victim.delivered), (1, 60), "and nothing came after");
}

#[test]
fn running_totals_are_word_enough() {
    let mut victim = leaving_with_a_loss();
    victim.tally(Numbered { number: 8, first_index: 80, ..victim.head }, |tally| {
        tally.totals.datagrams.injected = 2;
    });
    let rows = victim.accounts[0].datagrams.expect("a socket");
    assert_eq!((rows.unexplained, rows.lost[Stage::Injected]), (0, 2));
}

#[test]
fn a_reader_that_leaves_does_not_wait_longer_than_evidence_may_take() {
    let mut victim = leaving_with_a_loss();
    victim.pass(MILLISECOND * 1_999);
    assert!(victim.ended.is_empty());
    victim.pass(MILLISECOND);
    assert_eq!(victim.ended, [AccountState::Cut]);
    assert_eq!(victim.accounts[0].datagrams.expect("a socket").unexplained, 2);
}

/// A leaving reader with a loss, and a drop reporter on its host that reports within 100 ms.
fn leaving_with_a_loss_and_a_drop_reporter() -> Victim {
    let mut victim = Victim::new();
    victim.receiver.handle(victim.now, Input::DropReporter(Some(MILLISECOND * 100)));
    [1, 2, 5, 6, 7].into_iter().for_each(|number| victim.data(number));
    victim.select(&Selection::none());
    victim
}

/// The publisher withheld nothing; the samples before the scene were missing in its source.
fn withheld_nothing(tally: &mut Tally) {
    tally.skipped = vec![Skipped { positions: 0..10, stage: Stage::Source, inherited: None }];
}

/// The kernel was seen to free these numbers.
fn freed(victim: &mut Victim, numbers: std::ops::Range<u64>) {
    let notice = DropNotice {
        stream: victim.head.stream,
        incarnation: victim.head.epoch.incarnation,
        numbers,
        stage: Stage::ReceiverHook,
        reason: KernelName::new("NETFILTER_DROP @ nft_do_chain"),
        destination: "239.84.1.2:7400".parse().expect("an address"),
        socket: None,
    };
    victim.receiver.handle(victim.now, Input::Dropped(&notice));
    victim.drain();
}

#[test]
fn a_reader_that_leaves_waits_for_its_drop_reporter_although_the_publisher_has_reported() {
    let mut victim = leaving_with_a_loss_and_a_drop_reporter();
    victim.tally(Numbered { number: 8, first_index: 80, ..victim.head }, withheld_nothing);
    assert!(victim.receiver.is_leaving() && victim.ended.is_empty(), "the publisher withheld nothing");
    victim.pass(MILLISECOND * 99);
    freed(&mut victim, 3..4);
    assert!(victim.ended.is_empty(), "4 is still missing");
    freed(&mut victim, 4..5);
    assert_eq!(victim.ended, [AccountState::Cut], "nothing is left to be told");
    let rows = victim.accounts[0].datagrams.expect("a socket");
    assert_eq!((rows.unexplained, rows.lost[Stage::ReceiverHook]), (0, 2));
}

#[test]
fn a_drop_reporter_without_events_is_waited_for_as_long_as_it_takes_and_no_longer() {
    let mut victim = leaving_with_a_loss_and_a_drop_reporter();
    victim.tally(Numbered { number: 8, first_index: 80, ..victim.head }, withheld_nothing);
    victim.pass(MILLISECOND * 99);
    assert!(victim.ended.is_empty());
    victim.pass(MILLISECOND);
    assert_eq!(victim.ended, [AccountState::Cut]);
    assert_eq!(victim.accounts[0].datagrams.expect("a socket").unexplained, 2);
}

#[test]
fn after_the_publishers_last_tally_only_the_drop_reporter_is_waited_for() {
    let mut victim = Victim::new();
    victim.receiver.handle(victim.now, Input::DropReporter(Some(MILLISECOND * 100)));
    [1, 2, 5, 6, 7].into_iter().for_each(|number| victim.data(number));
    victim.tally(Numbered { number: 8, first_index: 80, ..victim.head }, |tally| {
        withheld_nothing(tally);
        tally.last = true;
    });
    victim.select(&Selection::none());
    assert!(victim.receiver.is_leaving() && victim.ended.is_empty());
    freed(&mut victim, 3..5);
    assert_eq!(victim.accounts[0].datagrams.expect("a socket").lost[Stage::ReceiverHook], 2);
}

#[test]
fn a_reader_that_changes_its_mind_keeps_its_account() {
    let mut victim = leaving_with_a_loss();
    victim.select(&Selection::all());
    victim.tally(Numbered { number: 8, first_index: 80, ..victim.head }, |_| {});
    assert!(victim.ended.is_empty() && !victim.receiver.is_leaving());
    victim.data(9);
    assert_eq!((victim.began, victim.rows().received), (1, 8));
}

#[test]
fn a_leaving_reader_does_not_follow_the_next_epoch() {
    let mut victim = leaving_with_a_loss();
    let later = Numbered { number: 0, first_index: 0, ..victim.head };
    let later = Numbered { epoch: units::Epoch { start_ns: u64::MAX, incarnation: 1 }, ..later };
    let description = victim.description.clone();
    victim.send_description(&description, later);
    victim.data_at(later.epoch, 1, 0);
    victim.pass(Duration::from_secs(3));
    assert_eq!((victim.began, &victim.ended[..]), (1, &[AccountState::Cut][..]));
}

#[test]
fn a_stream_that_another_socket_receives_is_left_to_it_and_taken_over_when_it_fails() {
    let mut victim = Victim::new();
    let stream = victim.head.stream;
    [1, 2, 5, 6, 7].into_iter().for_each(|number| victim.data(number));
    victim.receiver.handle(victim.now, Input::Elsewhere(stream, true));
    victim.drain();
    assert_eq!(victim.ended, [AccountState::Cut], "at once: the other socket's account has the evidence");
    (8..10).for_each(|number| victim.data(number));
    victim.select(&Selection::all());
    victim.data(10);
    assert_eq!((victim.began, victim.receiver.accounts().count()), (1, 0), "a wish does not change that");
    victim.receiver.handle(victim.now, Input::Elsewhere(stream, false));
    (11..13).for_each(|number| victim.data(number));
    assert_eq!((victim.began, victim.rows().first), (2, 11));
}
