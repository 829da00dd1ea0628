//! Effects of the path on datagrams, and the resulting account.

use core::time::Duration;

use ledger::{Account, AccountState, Stage, StageCounts};
use sim::{Bursts, Corruption, Link, Order, Port};
use units::Instant;
use wire::Kind;

use crate::line::at;
use crate::line::feed::Holes;
use crate::line::publisher::{Command, Publisher, Refusal};
use crate::line::scene::{EPOCH, StreamShape, accounts, publisher, reader, watched, watched_by};
use crate::line::truth::Truth;

const MILLISECOND: Duration = Duration::from_millis(1);

/// A thousand datagrams a second for two seconds.
fn plain() -> Publisher {
    publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE)
}

/// Plays a publisher before one reader behind `link`; the account must have closed.
fn play(publisher: Publisher, link: Link) -> (Truth, Account) {
    let (mut network, reader) = watched(1, publisher, Port { down: link, ..Port::default() });
    let mut accounts = accounts(&mut network, reader, at(15_000));
    assert_eq!(accounts.len(), 1);
    let (truth, account) = accounts.remove(0);
    assert_eq!(account.state, AccountState::Closed);
    (truth, account)
}

fn rows(account: &Account) -> ledger::NetworkRows {
    account.datagrams.expect("a reader with a socket")
}

#[test]
fn without_loss_every_element_arrives() {
    let (_, account) = play(plain(), Link::lan());
    assert_eq!(account.elements.delivered, 20_000);
    assert!(account.explained() && account.gaps.is_empty());
}

#[test]
fn random_loss_is_unexplained_to_the_last_datagram() {
    let (truth, account) = play(plain(), Link::lan().loss(0.02));
    assert!(truth.network > 20);
    assert_eq!(rows(&account).unexplained, truth.network);
    assert_eq!(rows(&account).lost, StageCounts::default());
}

/// Plays a publisher before one reader with a checkpoint at its host.
fn play_with_checkpoint(publisher: Publisher, link: Link) -> (Truth, Account) {
    let port = Port { down: link, ..Port::default() };
    let (mut network, reader) = watched_by(1, publisher, reader(1).checkpointed(), port);
    accounts(&mut network, reader, at(15_000)).remove(0)
}

#[test]
fn what_left_one_host_and_never_came_to_the_other_is_the_networks() {
    let link = || Link::lan().loss(0.02).jitter(4 * MILLISECOND, Order::Free);
    let (truth, account) = play_with_checkpoint(plain().watched(Instant::ORIGIN), link());
    assert!(truth.network > 20);
    let first = 2 * wire::MAX_RANGES as u64;
    assert!(rows(&account).lost[Stage::Network] + first >= truth.network, "{account:?}");
    assert_eq!(rows(&account).lost[Stage::Network] + rows(&account).unexplained, truth.network);
    // Losses at the publisher's host are not watched.
    let (truth, account) = play_with_checkpoint(plain(), link());
    assert_eq!((rows(&account).unexplained, rows(&account).lost[Stage::Network]), (truth.network, 0));
}

#[test]
fn what_the_publishers_host_lost_is_not_the_networks() {
    let refusal = Refusal { socket: 0.01, qdisc: 0.05 };
    let publisher = plain().refusing(refusal).watched(Instant::ORIGIN);
    let (truth, account) = play_with_checkpoint(publisher, Link::lan().loss(0.02));
    let qdisc = truth.withheld[Stage::SenderQdisc];
    assert!(truth.network > 20 && qdisc > 50);
    assert!(rows(&account).lost[Stage::SenderQdisc] <= qdisc);
    assert!(rows(&account).lost[Stage::Network] * 2 > truth.network, "{account:?}");
}

#[test]
fn a_burst_is_one_gap() {
    let (truth, account) = play(plain(), Link::lan().lose((500..600).collect::<Vec<_>>()));
    assert_eq!(truth.network, 100);
    assert_eq!(account.gaps.len(), 1);
    assert_eq!(rows(&account).unexplained, 100);
}

#[test]
fn bursty_loss_is_counted_like_any_other() {
    let (truth, account) = play(plain(), Link::lan().bursts(Bursts::of(0.05, 20.0)));
    assert!(truth.network > 50);
    assert_eq!(rows(&account).unexplained, truth.network);
    assert!((account.gaps.len() as u64) < truth.network / 4, "bursts make few gaps");
}

#[test]
fn the_lost_tail_is_declared_by_the_tally() {
    let tail = |link: Link| {
        link.lose_when("the tail", |passing| passing.at >= at(1_950) && passing.bytes[3] == Kind::Data.code())
    };
    let (truth, account) = play(plain(), tail(Link::lan()));
    assert!((50..=52).contains(&truth.network), "{truth:?}");
    assert_eq!(rows(&account).unexplained, truth.network);
    assert_eq!(account.elements.next, 20_000, "the horizon is told, not guessed");
}

#[test]
fn reordering_within_the_window_loses_nothing() {
    // Three datagrams follow before it arrives; the fourth would be too late.
    let (_, account) = play(plain(), Link::lan().reorder(0.05, Duration::from_micros(1_500)));
    assert_eq!(rows(&account).lost[Stage::Late], 0);
    assert_eq!(account.elements.delivered, 20_000);
}

#[test]
fn reordering_beyond_the_window_is_late_until_the_window_has_grown() {
    let (_, account) = play(plain(), Link::lan().reorder(0.05, MILLISECOND * 10));
    let late = rows(&account).lost[Stage::Late];
    // Later it is only the tallies, ten a second, that do not wait longer than 5 ms.
    assert!((1..=15).contains(&late), "{late} of a hundred late: the window doubles with each");
    assert!(account.explained());
}

#[test]
fn duplicates_are_counted_and_not_delivered() {
    let (_, account) = play(plain(), Link::lan().duplicate(0.1, MILLISECOND));
    assert!(rows(&account).duplicates > 100);
    assert_eq!(account.elements.delivered, 20_000);
}

#[test]
fn delay_and_ordered_jitter_lose_nothing() {
    let link = Link::ideal().delay(MILLISECOND * 300).jitter(MILLISECOND * 50, Order::Kept);
    let (_, account) = play(plain(), link);
    assert_eq!(account.elements.delivered, 20_000);
}

#[test]
fn what_arrives_damaged_with_a_whole_header_is_decode() {
    // Every tenth tally is hit somewhere in its ranges, behind the header: only its own checksum shows that.
    let link = Link::lan().corrupt(0.05, Corruption::Delivered);
    let (truth, account) = play(plain().told(at(0), Command::Inject(0.3)), link);
    assert!(truth.damaged > 0, "a scene in which nothing recognisable was damaged shows nothing");
    assert_eq!(rows(&account).lost[Stage::Decode], truth.damaged);
    assert_eq!(rows(&account).unexplained, truth.network);
}

#[test]
fn injected_loss_is_named_to_the_last_datagram() {
    for share in [0.01, 0.05] {
        let (truth, account) = play(plain().told(at(0), Command::Inject(share)), Link::lan());
        let injected = rows(&account).lost[Stage::Injected];
        assert_eq!(injected, truth.withheld[Stage::Injected]);
        assert!((1_000.0 * share..3_000.0 * share).contains(&(injected as f64)), "{injected} of 2,000");
        assert_eq!(account.elements.lost[Stage::Injected], injected * 10);
        assert!(account.explained());
    }
}

#[test]
fn refusals_are_told_apart_by_stage() {
    let refusal = Refusal { socket: 0.01, qdisc: 0.01 };
    let (truth, account) = play(plain().refusing(refusal), Link::lan());
    for stage in [Stage::SenderSocket, Stage::SenderQdisc] {
        assert!(truth.withheld[stage] > 5);
        assert_eq!(rows(&account).lost[stage], truth.withheld[stage]);
    }
    assert!(account.explained());
}

#[test]
fn refused_copies_of_the_final_tally_are_nobodys_loss() {
    // Two of three copies are refused; the remaining ones close the account.
    let (_, account) = play(plain().refusing(Refusal { socket: 0.5, qdisc: 0.0 }), Link::lan());
    assert!(account.explained());
}

#[test]
fn totals_repair_what_lost_tallies_would_have_named() {
    // Two of three tallies are lost, and each of the others lists at most 32 of some 60 new ranges.
    let link = Link::lan().lose_when("two of three tallies", |passing| {
        passing.bytes[3] == Kind::Tally.code() && !passing.ordinal.is_multiple_of(3)
    });
    let (truth, account) = play(plain().told(at(0), Command::Inject(0.2)), link);
    assert!(truth.network > 10, "tallies were lost");
    assert_eq!(rows(&account).lost[Stage::Injected], truth.withheld[Stage::Injected]);
    assert_eq!(rows(&account).unexplained, truth.network);
    let by_totals = |gap: &ledger::Gap| gap.evidence.iter().any(|it| it.to_string().contains("totals"));
    assert!(account.gaps.iter().any(by_totals), "some were explained by totals alone");
}

#[test]
fn holes_of_the_source_and_laps_of_the_ring_are_named_without_a_datagram() {
    let holes = Holes { source: 0.05, ring_blocks: usize::MAX };
    let publisher = publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(2_000), holes);
    let (mut network, reader) = watched(1, publisher, Port::default());
    let (_, account) = accounts(&mut network, reader, at(15_000)).remove(0);
    let totals = network.node(sim::NodeId(0)).publisher().epochs[0].totals;
    assert!(totals.samples.source > 500);
    assert_eq!(account.elements.lost[Stage::Source], totals.samples.source);
    assert_eq!(rows(&account).missing_datagrams(), 0);
    assert!(account.explained());
}

/// Sums of rows that the tests compare.
trait Missing {
    fn missing_datagrams(&self) -> u64;
}

impl Missing for ledger::NetworkRows {
    fn missing_datagrams(&self) -> u64 {
        self.lost.total() + self.unexplained + self.unsettled
    }
}

#[test]
fn an_account_that_lies_is_caught_by_the_law_or_by_the_log() {
    let (truth, account) = play(plain().told(at(0), Command::Inject(0.05)), Link::lan().loss(0.02));
    assert_eq!(truth.agrees_with(&account), Ok(()));
    // A dropped increment breaks the law.
    let breaks: [fn(&mut Account); 5] = [
        |account| account.elements.delivered -= 1,
        |account| account.elements.unexplained -= 1,
        |account| account.datagrams.as_mut().unwrap().received -= 1,
        |account| account.datagrams.as_mut().unwrap().unexplained -= 1,
        |account| account.datagrams.as_mut().unwrap().lost[Stage::Injected] -= 1,
    ];
    for (index, change) in breaks.into_iter().enumerate() {
        let mut doctored = account.clone();
        change(&mut doctored);
        assert!(doctored.check().is_err(), "change {index} kept the law");
    }
    // An increment in the wrong row keeps the law, and only the log shows it.
    let lies: [fn(&mut ledger::NetworkRows); 3] = [
        |rows| (rows.received, rows.unexplained) = (rows.received + 1, rows.unexplained - 1),
        |rows| {
            (rows.lost[Stage::Injected], rows.unexplained) =
                (rows.lost[Stage::Injected] + 1, rows.unexplained - 1)
        },
        |rows| {
            (rows.lost[Stage::Injected], rows.unexplained) =
                (rows.lost[Stage::Injected] - 1, rows.unexplained + 1)
        },
    ];
    for (index, change) in lies.into_iter().enumerate() {
        let mut doctored = account.clone();
        change(doctored.datagrams.as_mut().unwrap());
        assert_eq!(doctored.check(), Ok(()));
        assert!(truth.agrees_with(&doctored).is_err(), "lie {index} was believed");
    }
}
