//! Beginnings: a reader that waited before a publisher began gets sample 0, or learns how much of the beginning it
//! misses.

use cast::send::{Beginning, Sending};
use ledger::{AccountState, Stage};
use sim::{Link, NodeId, Port};
use units::{Epoch, Instant};
use wire::Kind;

use crate::line::at;
use crate::line::continuity::check_continuity;
use crate::line::feed::Holes;
use crate::line::publisher::{Command, Publisher, Restart};
use crate::line::reader::Move;
use crate::line::scene::{EPOCH, StreamShape, accounts, announcement, publisher, reader, watched_by};

const HELD: StreamShape =
    StreamShape { beginning: Beginning::Held { most_bytes: usize::MAX }, ..StreamShape::PLAIN };
/// Number of elements per millisecond.
const PER_MS: u64 = 10;

fn held() -> Publisher {
    publisher(&HELD, EPOCH, Instant::ORIGIN..at(3_000), Holes::NONE)
}

/// Times of announcements in a publisher's first second. Units: milliseconds.
const ANNOUNCED_MS: [u64; 5] = [5, 55, 155, 305, 605];

/// Plays a scene in which the reader receives the announcements and, from a moment on, the group; returns its
/// accounts.
fn heard_from(
    joined_ms: u64,
    waits: bool,
    publisher: Publisher,
    down: Link,
) -> Vec<(crate::line::truth::Truth, ledger::Account)> {
    let reader = if waits { reader(1).waiting() } else { reader(1) };
    let hear = || Move::Hear(Box::new(announcement(&HELD, EPOCH)), NodeId(0));
    let reader = ANNOUNCED_MS.into_iter().fold(reader, |reader, ms| reader.told(at(ms), hear()));
    let reader = reader.told(at(0), Move::Leave).told(at(joined_ms), Move::Join);
    let (mut network, node) = watched_by(1, publisher, reader, Port { down, ..Port::default() });
    accounts(&mut network, node, at(12_000))
}

#[test]
fn a_reader_that_asks_and_joins_within_half_a_second_gets_sample_0() {
    for joined_ms in [6, 60, 149, 400] {
        let account = heard_from(joined_ms, true, held(), Link::lan()).remove(0).1;
        assert_eq!(account.state, AccountState::Closed);
        assert_eq!((account.elements.first, account.elements.delivered), (0, 30_000), "{joined_ms} ms");
    }
}

#[test]
fn what_was_held_leaves_at_the_streams_pace_and_not_as_one_burst() {
    let (mut network, reader) = watched_by(1, held(), reader(1), Port::default());
    network.run_until(at(151));
    let position = |network: &crate::line::scene::Scene| {
        network.node(reader).reader().receiver.accounts().next().map(|it| it.account.elements.next)
    };
    let first = position(&network).unwrap();
    assert!(first < 40 * PER_MS, "{first} samples left in a millisecond: more than one datagram");
    // 1.25 times the rate, and room for the description and the datagram that is let out ahead.
    network.run_until(at(301));
    let later = position(&network).unwrap() - first;
    assert!((150 * PER_MS..=200 * PER_MS).contains(&later), "{later}");
    network.run_until(at(800));
    let caught_up = position(&network).unwrap();
    assert!(caught_up >= 795 * PER_MS, "{caught_up}");
}

#[test]
fn what_a_reader_that_waited_did_not_get_of_the_beginning_is_missing() {
    let (truth, account) = heard_from(700, true, held(), Link::lan()).remove(0);
    assert_eq!((account.state, account.elements.first), (AccountState::Closed, 0));
    let gap = account.gaps.first().expect("a gap");
    assert_eq!(gap.positions.start, 0);
    let missing = account.elements.unexplained + account.elements.lost[Stage::Decode];
    assert_eq!(missing, 30_000 - account.elements.delivered);
    assert!((300 * PER_MS..700 * PER_MS).contains(&gap.len()), "{gap:?}");
    assert!(truth.network > 1);
}

#[test]
fn who_came_later_has_not_lost_the_beginning() {
    let account = heard_from(700, false, held(), Link::lan()).remove(0).1;
    assert!(account.elements.first > 500 * PER_MS);
    assert!(account.explained());
}

#[test]
fn data_before_the_description_were_received_and_could_not_be_used() {
    let down = Link::lan().lose_when("descriptors of the first second", |passing| {
        passing.bytes[3] == Kind::Descriptor.code() && passing.at < at(900)
    });
    let (truth, account) = heard_from(0, true, held(), down).remove(0);
    assert_eq!((account.state, account.elements.first), (AccountState::Closed, 0));
    let rows = account.datagrams.expect("a socket");
    assert!(rows.lost[Stage::Decode] > 10 && truth.damaged == rows.lost[Stage::Decode], "{rows:?}");
    assert_eq!(
        account.elements.delivered + account.elements.lost[Stage::Decode] + account.elements.unexplained,
        30_000
    );
}

#[test]
fn the_beginning_of_an_epoch_during_an_outage_is_missing() {
    let next = Epoch { start_ns: 5_000, incarnation: 22 };
    let feed = HELD.feed(next, at(1_500)..at(5_000), Holes::NONE);
    let restart = Command::Restart(Box::new(Restart { config: HELD.config(next), feed }));
    let publisher = publisher(&HELD, EPOCH, Instant::ORIGIN..at(5_000), Holes::NONE);
    let publisher = publisher.told(at(1_400), Command::Die).told(at(1_500), restart);
    let accounts = heard_from(0, true, publisher, Link::lan().outage(at(1_450)..at(3_500)));
    let [(_, old), (truth, new)] = &accounts[..] else { panic!("two accounts: {accounts:?}") };
    assert_eq!(old.elements.first, 0);
    assert_eq!((new.state, new.elements.first), (AccountState::Closed, 0));
    assert!(new.elements.unexplained > 1_500 * PER_MS && truth.network > 1_000, "{new:?}");
}

#[test]
fn a_beginning_that_fills_its_ring_is_held_no_longer() {
    let shape = StreamShape { beginning: Beginning::Held { most_bytes: 2_000 }, ..StreamShape::PLAIN };
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(3_000), Holes::NONE);
    let (mut network, node) = watched_by(1, publisher, reader(1), Port::default());
    // 40 bytes a millisecond.
    network.run_until(at(60));
    assert!(network.node(node).reader().receiver.accounts().next().unwrap().account.elements.next > 0);
    assert_eq!(network.node(NodeId(0)).publisher().epochs[0].totals.samples.publisher_queue, 0);
}

/// A publisher that ends an epoch after two seconds and begins the next half a second later, remembering the first.
fn restarted() -> Publisher {
    let next = Epoch { start_ns: 5_000, incarnation: 22 };
    let feed = HELD.feed(next, at(2_500)..at(5_000), Holes::NONE);
    let restart = Command::Restart(Box::new(Restart { config: HELD.config(next), feed }));
    let publisher = publisher(&HELD, EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE);
    publisher.told(at(2_500), restart).told(at(5_200), Command::Finish)
}

#[test]
fn losses_of_an_outage_are_counted_by_what_the_next_epoch_says_of_its_predecessor() {
    let down = Link::lan().outage(at(900)..at(3_500));
    let accounts = heard_from(0, true, restarted(), down);
    let [(_, heard), (hidden, rest), (_, next)] = &accounts[..] else { panic!("three: {accounts:?}") };
    assert_eq!((heard.state, rest.state), (AccountState::Unconfirmed, AccountState::Closed));
    assert_eq!((rest.elements.first, rest.elements.delivered), (heard.elements.next, 0));
    assert_eq!(rest.elements.next, 2_000 * PER_MS, "up to the last sample of the epoch");
    assert_eq!(rest.elements.unexplained, 2_000 * PER_MS - heard.elements.next);
    assert!(hidden.network > 900, "{hidden:?}");
    assert_eq!((next.state, next.elements.first), (AccountState::Closed, 0));
    assert!(next.elements.unexplained > 900 * PER_MS, "{next:?}");
}

#[test]
fn an_epoch_with_a_missed_end_is_closed_by_its_successor() {
    let down = Link::lan().outage(at(1_900)..at(2_550));
    let accounts = heard_from(0, true, restarted(), down);
    let [(truth, before), (_, next)] = &accounts[..] else { panic!("two: {accounts:?}") };
    assert_eq!((before.state, before.elements.next), (AccountState::Closed, 2_000 * PER_MS));
    assert_eq!(before.datagrams.expect("a socket").unexplained, truth.network);
    assert_eq!((next.state, next.elements.first), (AccountState::Closed, 0));
}

#[test]
fn a_new_epoch_is_held_for_its_descriptor_for_a_bounded_time_without_loss() {
    for until in [3_000, 4_500] {
        let down = Link::lan().outage(at(900)..at(2_300)).lose_when("descriptors", move |passing| {
            passing.bytes[3] == Kind::Descriptor.code() && (at(2_000)..at(until)).contains(&passing.at)
        });
        let accounts = heard_from(0, true, restarted(), down);
        let told: Vec<_> =
            accounts.iter().map(|(_, account)| (account.state, account.elements.first)).collect();
        let (_, heard) = &accounts[0];
        let first = (AccountState::Unconfirmed, 0);
        let rest = (AccountState::Closed, heard.elements.next);
        let next = (AccountState::Closed, 0);
        // The report on the predecessor arrives late, and counts.
        let expected = if until == 3_000 { [first, rest, next] } else { [first, next, rest] };
        assert_eq!(told, expected);
        let next = &accounts[if until == 3_000 { 2 } else { 1 }].1;
        assert_eq!(next.elements.missing(), 0, "{next:?}");
    }
}

/// A publisher that begins a new epoch every second and remembers its predecessor.
fn restarting() -> Publisher {
    let publisher = publisher(&HELD, EPOCH, Instant::ORIGIN..at(1_000), Holes::NONE);
    (1..4).fold(publisher, |publisher, second| {
        let epoch = Epoch { start_ns: 5_000 + second, incarnation: 20 + second };
        let (begin, end) = (1_500 * second, 1_500 * second + 1_000);
        let feed = HELD.feed(epoch, at(begin)..at(end), Holes::NONE);
        let restart = Command::Restart(Box::new(Restart { config: HELD.config(epoch), feed }));
        publisher.told(at(begin), restart).told(at(end + 100), Command::Finish)
    })
}

#[test]
fn an_epoch_within_an_outage_is_missing_from_first_to_last_sample() {
    // The first epoch is received at its beginning, the second not at all, the third at its end.
    for descriptors_lost_until in [0, 4_000] {
        let down = Link::lan().outage(at(500)..at(3_200)).lose_when("descriptors", move |passing| {
            passing.bytes[3] == Kind::Descriptor.code()
                && (at(3_000)..at(descriptors_lost_until)).contains(&passing.at)
        });
        let port = Port { down, ..Port::default() };
        let (mut network, node) = watched_by(1, restarting(), reader(1).waiting(), port);
        let accounts = accounts(&mut network, node, at(20_000));
        check_continuity(&network, NodeId(0), node);
        let of_second = accounts.iter().find(|(_, account)| {
            let elements = &account.elements;
            (elements.first, elements.next, elements.delivered) == (0, 1_000 * PER_MS, 0)
        });
        let (truth, account) = of_second.expect("an account of the second epoch");
        assert_eq!((account.state, account.elements.unexplained), (AccountState::Closed, 1_000 * PER_MS));
        assert_eq!(account.datagrams.expect("a socket").unexplained, truth.network);
    }
}

#[test]
fn samples_paused_at_the_end_of_an_epoch_are_counted_by_its_successors_predecessor_field() {
    // The publisher receives nothing from the reader: everything is paused, and has no number.
    let shape = StreamShape { hz: 10, block_samples: 1, sending: Sending::OnDemand, ..StreamShape::PLAIN };
    let next = Epoch { start_ns: 5_000, incarnation: 22 };
    let feed = shape.feed(next, at(2_500)..at(5_000), Holes::NONE);
    let restart = Command::Restart(Box::new(Restart { config: shape.config(next), feed }));
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(5_000), Holes::NONE);
    let publisher = publisher.told(at(2_500), restart).told(at(5_200), Command::Finish);
    let up = Link::lan().outage(at(0)..at(20_000));
    let port = Port { up, down: Link::lan(), ..Port::default() };
    let (mut network, node) = watched_by(1, publisher, reader(1).waiting(), port);
    let accounts = accounts(&mut network, node, at(20_000));
    check_continuity(&network, NodeId(0), node);
    let [(_, before), (_, next)] = &accounts[..] else { panic!("two: {accounts:?}") };
    assert_eq!((before.elements.next, before.elements.delivered), (24, 0), "the last was made, not paused");
    assert_eq!(next.state, AccountState::Closed);
}
