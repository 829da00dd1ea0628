//! A path that withholds one kind of datagram, by chance or on purpose: a reader says what it cannot know, and believes
//! nothing instead.

use core::time::Duration;
use std::collections::BTreeSet;

use cast::secure::GateEvent;
use cast::send::Input;
use keys::Suite;
use ledger::{AccountState, Stage};
use wire::{Kind, SecuredHead};

use crate::ends::{Listener, Source, publisher};
use crate::group_level::{EPOCH, at};
use crate::laboratory::{Laboratory, wall};
use crate::nodes::config;

/// Interval of the publisher's blocks. Units: milliseconds.
const INTERVAL: u64 = 10;
/// Time at which the publisher has ended. Units: milliseconds.
const FINISH: u64 = 6_000;
/// Time at which a reader has judged all of it. Units: milliseconds.
const END: u64 = 30_000;
/// Every such data datagram is refused by the publisher's queue discipline, which its tallies tell.
const REFUSED: u64 = 7;

/// What a path withholds at a time in milliseconds.
struct Path {
    stream: fn(u64, &SecuredHead) -> bool,
    requests: bool,
}

struct Scene {
    listener: Listener,
    /// Numbers of the datagrams of samples that the publisher's host refused, and of those that the path withheld.
    refused: BTreeSet<u64>,
    withheld: BTreeSet<u64>,
    /// Time of the first sample. Units: milliseconds.
    first: Option<u64>,
    samples: u64,
}

fn play(path: &Path) -> Scene {
    let mut laboratory = Laboratory::new(4, Suite::Aes256Gcm);
    let secrets = [laboratory.secret(1, wall(at(0)))];
    let ours = laboratory.member(&secrets);
    let mut source = Source::new(config(&mut laboratory, &ours, EPOCH, at(0)), at(0));
    let (listener, samples) = (Listener::new(&ours, at(0)), FINISH / INTERVAL * 10);
    let (refused, withheld) = (BTreeSet::new(), BTreeSet::new());
    let mut scene = Scene { listener, refused, withheld, first: None, samples };
    for millis in (0..FINISH + 1_000).chain((FINISH + 1_000..END).step_by(10)) {
        let now = at(millis);
        match millis {
            FINISH => source.sender.handle(now, Input::Finish),
            ..FINISH if millis.is_multiple_of(INTERVAL) => source.measure(now),
            _ => {}
        }
        for (destinations, bytes) in source.sends(millis) {
            let head = SecuredHead::read(&bytes).unwrap();
            if !destinations.contains(&0) {
                continue;
            }
            if head.kind == Kind::Data && head.nonce.is_multiple_of(REFUSED) {
                scene.refused.insert(head.nonce);
                let (destination, number, stage) = (0, head.nonce, Stage::SenderQdisc);
                let size_bytes = bytes.len();
                source.sender.handle(now, Input::Refused { destination, number, stage, size_bytes });
            } else if (path.stream)(millis, &head) {
                scene.withheld.extend((head.kind == Kind::Data).then_some(head.nonce));
            } else {
                scene.listener.hears(now, &bytes, bytes.len(), publisher());
            }
        }
        let requests = scene.listener.sends(now);
        requests.iter().filter(|_| !path.requests).for_each(|bytes| source.hears(now, bytes));
        if scene.listener.delivered() > 0 {
            scene.first.get_or_insert(millis);
        }
    }
    scene
}

impl Scene {
    /// Returns the state of the only account, datagrams lost at the publisher's host, at any stage, and without
    /// explanation; its law holds.
    fn outcome(&self) -> (AccountState, u64, u64, u64) {
        let [account] = &self.listener.accounts[..] else { panic!("{:?}", self.listener.accounts) };
        let rows = account.datagrams.unwrap();
        rows.check().unwrap();
        account.elements.check().unwrap();
        assert_eq!((rows.unsettled, rows.in_flight), (0, 0), "{rows:?}");
        assert_eq!(account.elements.delivered, self.listener.delivered());
        assert_eq!(self.listener.gate.stats().unauthentic.total(), 0);
        (account.state, rows.lost[Stage::SenderQdisc], rows.lost.total(), rows.unexplained)
    }

    /// Returns how many of these numbers are in the account.
    fn since_joining(&self, numbers: &BTreeSet<u64>) -> u64 {
        let first = self.listener.accounts[0].datagrams.unwrap().first;
        numbers.range(first..).count() as u64
    }
}

#[test]
fn nothing_withheld_gives_every_loss_its_stage() {
    let scene = play(&Path { stream: |_, _| false, requests: false });
    let refused = scene.since_joining(&scene.refused);
    assert!(refused > 50);
    assert_eq!(scene.outcome(), (AccountState::Closed, refused, refused, 0));
    assert!(scene.listener.told.is_empty(), "{:?}", scene.listener.told);
}

#[test]
fn withheld_descriptors_begin_no_account_and_are_counted() {
    let scene = play(&Path { stream: |_, head| head.kind == Kind::Descriptor, requests: false });
    assert!(scene.listener.delivered.is_empty() && scene.listener.accounts.is_empty());
    let stats = scene.listener.gate.stats();
    assert!(stats.undescribed > scene.samples / 20, "{stats:?}");
    assert_eq!((stats.unauthentic.total(), stats.unconfirmed_epochs), (0, 0));
}

#[test]
fn descriptors_withheld_for_two_seconds_begin_the_account_after_them() {
    let is_withheld = |millis, head: &SecuredHead| head.kind == Kind::Descriptor && millis < 2_000;
    let scene = play(&Path { stream: is_withheld, requests: false });
    assert!((2_000..3_500).contains(&scene.first.unwrap()), "{:?}", scene.first);
    let refused = scene.since_joining(&scene.refused);
    assert!(refused > 30);
    assert_eq!(scene.outcome(), (AccountState::Closed, refused, refused, 0));
    assert_eq!(scene.listener.gate.stats().unconfirmed_epochs, 0);
}

#[test]
fn withheld_questions_begin_the_account_after_three_seconds_and_it_is_said_once() {
    let scene = play(&Path { stream: |_, _| false, requests: true });
    assert!((3_000..3_100).contains(&scene.first.unwrap()), "{:?}", scene.first);
    assert_eq!(scene.listener.gate.stats().unconfirmed_epochs, 1);
    let [GateEvent::Unconfirmed { from, stream }] = &scene.listener.told[..] else {
        panic!("{:?}", scene.listener.told)
    };
    assert_eq!((*from, scene.listener.gate.unconfirmed_epochs(*stream)), (publisher(), 1));
    assert_eq!(scene.listener.gate.unconfirmed_epochs(units::StreamId(stream.0 ^ 1)), 0);
    let refused = scene.since_joining(&scene.refused);
    assert_eq!(scene.outcome(), (AccountState::Closed, refused, refused, 0));
}

/// No answer comes with them, no evidence, and no end.
#[test]
fn withheld_tallies_leave_every_loss_unexplained_and_the_end_unconfirmed() {
    let scene = play(&Path { stream: |_, head| head.kind == Kind::Tally, requests: false });
    assert!((3_000..3_100).contains(&scene.first.unwrap()), "{:?}", scene.first);
    assert_eq!(scene.listener.gate.stats().unconfirmed_epochs, 1);
    let (state, at_publisher, at_any_stage, unexplained) = scene.outcome();
    assert_eq!((state, at_publisher, at_any_stage), (AccountState::Unconfirmed, 0, 0));
    assert!(unexplained > 30, "also tallies themselves are missing: {unexplained}");
}

#[test]
fn tallies_withheld_from_the_middle_on_explain_no_later_loss_and_end_nothing() {
    let is_withheld = |millis, head: &SecuredHead| head.kind == Kind::Tally && millis >= 3_000;
    let scene = play(&Path { stream: is_withheld, requests: false });
    assert!(scene.first.unwrap() < 200);
    let (state, at_publisher, at_any_stage, unexplained) = scene.outcome();
    assert_eq!((state, at_publisher), (AccountState::Unconfirmed, at_any_stage));
    let refused = scene.since_joining(&scene.refused);
    assert!((30..refused - 30).contains(&at_publisher) && unexplained >= refused - at_publisher, "{refused}");
    assert_eq!(scene.listener.gate.stats().unconfirmed_epochs, 0);
}

/// Samples are missing, and the publisher says that it sent them.
#[test]
fn withheld_samples_are_lost_in_the_network_and_nowhere_else() {
    let is_withheld = |_, head: &SecuredHead| head.kind == Kind::Data && head.nonce % 5 == 1;
    let scene = play(&Path { stream: is_withheld, requests: false });
    let [refused, withheld] = [&scene.refused, &scene.withheld].map(|numbers| scene.since_joining(numbers));
    assert!(withheld > 50);
    let (state, at_publisher, at_any_stage, unexplained) = scene.outcome();
    assert_eq!((state, at_publisher), (AccountState::Closed, refused));
    assert_eq!(at_any_stage + unexplained, refused + withheld);
    let lost = scene.listener.accounts[0].datagrams.unwrap().lost;
    assert_eq!(lost.total(), refused + lost[Stage::Network], "{lost:?}");
    assert!(scene.listener.delivered.len() as u64 > withheld / 2);
}

/// A question that gets no answer costs no more than the time for one.
#[test]
fn an_answer_that_is_withheld_for_a_second_is_asked_for_again() {
    let is_withheld = |millis, head: &SecuredHead| head.kind == Kind::Tally && millis < 1_000;
    let scene = play(&Path { stream: is_withheld, requests: false });
    let first = Duration::from_millis(scene.first.unwrap());
    assert!((1_000..1_400).contains(&first.as_millis()), "{first:?}");
    assert_eq!(scene.listener.gate.stats().unconfirmed_epochs, 0);
    assert_eq!(scene.outcome().0, AccountState::Closed);
}
