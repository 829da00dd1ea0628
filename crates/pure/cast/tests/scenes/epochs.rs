//! Publishers and readers that come and go.

use cast::send::SenderEvent;
use ledger::{Account, AccountState, Stage};
use sim::{Host, Link, Network, NodeId, Port};
use units::{Epoch, Instant};

use crate::line::feed::Holes;
use crate::line::publisher::{Command, Publisher, Restart};
use crate::line::reader::Move;
use crate::line::scene::{
    EPOCH, Scene, StreamShape, accounts, forged, publisher, reader, watched, watched_by,
};
use crate::line::{GROUP, Part, SHARED_PORTS, Stranger, at};

const SHAPE: StreamShape = StreamShape::PLAIN;

fn plain() -> Publisher {
    publisher(&SHAPE, EPOCH, Instant::ORIGIN..at(3_000), Holes::NONE)
}

fn restart(epoch: Epoch, from: u64) -> Command {
    let feed = SHAPE.feed(epoch, at(from)..at(3_000), Holes::NONE);
    Command::Restart(Box::new(Restart { config: SHAPE.config(epoch), feed }))
}

fn states(accounts: &[(crate::line::truth::Truth, Account)]) -> Vec<AccountState> {
    accounts.iter().map(|(_, account)| account.state).collect()
}

#[test]
fn a_restarted_publisher_is_a_new_account_at_once() {
    let next = Epoch { start_ns: 5_000, incarnation: 22 };
    let publisher = plain().told(at(1_000), Command::Die).told(at(1_200), restart(next, 1_200));
    let (mut network, reader) = watched(1, publisher, Port { down: Link::lan(), ..Port::default() });
    let accounts = accounts(&mut network, reader, at(15_000));
    assert_eq!(states(&accounts), [AccountState::Unconfirmed, AccountState::Closed]);
    assert_eq!(accounts[0].1.elements.delivered, 10_000 - 10, "the last block was made, not sent");
    assert_eq!(accounts[1].1.elements.first, 0);
    assert_eq!(accounts[1].1.elements.delivered, 18_000);
}

#[test]
fn a_clock_step_back_does_not_make_a_new_epoch_look_old() {
    let next = Epoch::succeeding(Some(EPOCH), 3, 22);
    let publisher = plain().told(at(1_000), Command::Finish).told(at(1_500), restart(next, 1_500));
    let (mut network, reader) = watched(1, publisher, Port::default());
    let accounts = accounts(&mut network, reader, at(15_000));
    assert_eq!(states(&accounts), [AccountState::Closed, AccountState::Closed]);
}

/// An epoch that began before the first one by a clock that was set back meanwhile.
const EARLIER: Epoch = Epoch { start_ns: EPOCH.start_ns - 1, incarnation: 22 };

#[test]
fn a_clock_set_back_does_not_make_a_publisher_wait_that_remembers_nothing() {
    let publisher = plain()
        .told(at(1_000), Command::Finish)
        .told(at(1_400), Command::Die)
        .told(at(1_500), restart(EARLIER, 1_500));
    let (mut network, reader) = watched(1, publisher, Port::default());
    let accounts = accounts(&mut network, reader, at(15_000));
    assert_eq!(states(&accounts), [AccountState::Closed, AccountState::Closed]);
    assert_eq!((accounts[1].1.elements.first, accounts[1].1.elements.delivered), (0, 15_000));
}

#[test]
fn a_publisher_that_died_and_whose_clock_was_set_back_is_followed_within_three_seconds() {
    for begin in [2_010, 2_700, 9_000] {
        // Slow: its tallies are a second apart, and its silence would be detected after ten.
        let slow = StreamShape { hz: 50, block_samples: 50, ..SHAPE };
        let feed = slow.feed(EARLIER, at(begin)..at(20_000), Holes::NONE);
        let restart = Command::Restart(Box::new(Restart { config: slow.config(EARLIER), feed }));
        let publisher = publisher(&slow, EPOCH, at(0)..at(20_000), Holes::NONE)
            .told(at(2_005), Command::Die)
            .told(at(begin), restart);
        let (mut network, node) = watched_by(1, publisher, reader(1).waiting(), Port::default());
        network.run_until(at(begin + 3_000));
        let epochs: Vec<_> = network.node(node).reader().receiver.accounts().map(|view| view.epoch).collect();
        assert!(epochs.contains(&EARLIER), "begun at {begin}: {epochs:?}");
        let accounts = accounts(&mut network, node, at(35_000));
        assert_eq!(states(&accounts), [AccountState::Unconfirmed, AccountState::Closed]);
        let rows = &accounts[1].1.elements;
        assert_eq!((rows.first, rows.missing()), (0, 0), "what was held is delivered: {rows:?}");
        let told = &network.node(node).reader().watch;
        assert_eq!((told.two_publishers.len(), told.imposters.len()), (0, 0));
        assert!(network.node(node).reader().receiver.stats().replaced > 0, "and counted");
    }
}

/// Ten datagrams a second.
const TENFOLD: StreamShape = StreamShape { hz: 50, block_samples: 5, ..SHAPE };

fn tenfold_restart(epoch: Epoch, from: u64) -> Command {
    let feed = TENFOLD.feed(epoch, at(from)..at(12_000), Holes::NONE);
    Command::Restart(Box::new(Restart { config: TENFOLD.config(epoch), feed }))
}

/// Plays a publisher that begins another epoch at 6 s and remembers its predecessor, to a waiting reader whose cable
/// is disconnected from 2.5 s to 6.5 s. Returns for each account the epoch, the first sample, and the numbers of
/// samples delivered and missing.
fn told_by_a_successor(publisher: Publisher, successor: Epoch) -> Vec<(Epoch, u64, u64, u64)> {
    let publisher = publisher.told(at(6_000), tenfold_restart(successor, 6_000));
    let port = Port { down: Link::lan().outage(at(2_500)..at(6_500)), ..Port::default() };
    let (mut network, node) = watched_by(1, publisher, reader(1).waiting(), port);
    let accounts = accounts(&mut network, node, at(30_000));
    let epochs = network.node(node).reader().watch.followed.iter().map(|it| it.epoch);
    let rows = accounts.iter().map(|(_, account)| &account.elements);
    epochs.zip(rows).map(|(epoch, rows)| (epoch, rows.first, rows.delivered, rows.missing())).collect()
}

#[test]
fn an_epoch_missed_after_a_clock_step_back_is_counted_by_its_successor() {
    // By its clock the successor began before the first epoch, as the one between did, or after it: the clock was set
    // again.
    for start_ns in [EPOCH.start_ns, EPOCH.start_ns + 1] {
        let successor = Epoch { start_ns, incarnation: 1 };
        let scene = publisher(&TENFOLD, EPOCH, at(0)..at(12_000), Holes::NONE)
            .told(at(2_005), Command::Die)
            .told(at(3_000), tenfold_restart(EARLIER, 3_000));
        let expected = [(EPOCH, 0, 100, 0), (EARLIER, 0, 0, 145), (successor, 0, 280, 20)];
        assert_eq!(told_by_a_successor(scene, successor), expected);
    }
}

#[test]
fn an_epoch_that_a_waiting_reader_never_received_is_counted_before_the_first_received_one() {
    let first = publisher(&TENFOLD, EPOCH, at(3_000)..at(12_000), Holes::NONE);
    let successor = Epoch { start_ns: EPOCH.start_ns + 1, incarnation: 12 };
    let expected = [(EPOCH, 0, 0, 145), (successor, 0, 255, 45)];
    assert_eq!(told_by_a_successor(first, successor), expected);
}

#[test]
fn an_epoch_that_began_before_the_reader_is_not_counted_by_its_successor() {
    // By its clock it began 20 s before its successor.
    let first = publisher(&TENFOLD, EPOCH, at(3_000)..at(12_000), Holes::NONE);
    let successor = Epoch { start_ns: EPOCH.start_ns + 20_000_000_000, incarnation: 12 };
    assert_eq!(told_by_a_successor(first, successor), [(successor, 0, 255, 45)]);
}

#[test]
fn a_standby_whose_clock_is_behind_takes_over_as_any_other() {
    let first = publisher(&SLOW, EPOCH, at(0)..at(60_000), Holes::NONE).told(at(10_500), Command::Die);
    let second = publisher(&SLOW, EARLIER, at(5_600)..at(20_000), Holes::NONE);
    let (mut network, reader) = hosts(1, first, second);
    network.run_until(at(10_500));
    let epochs = |network: &Scene| -> Vec<_> {
        network.node(reader).reader().receiver.accounts().map(|view| view.epoch).collect()
    };
    assert_eq!(epochs(&network), [EPOCH], "the first one is alive");
    network.run_until(at(10_500 + 3_000 + 100));
    assert!(epochs(&network).contains(&EARLIER), "{:?}", epochs(&network));
    let accounts = accounts(&mut network, reader, at(40_000));
    assert_eq!(states(&accounts), [AccountState::Unconfirmed, AccountState::Closed]);
    let rows = &accounts[1].1.elements;
    assert_eq!((rows.first, rows.missing()), (0, 0), "{rows:?}");
    assert_eq!(network.node(reader).reader().watch.imposters.len(), 1);
}

#[test]
fn an_earlier_publisher_is_held_while_another_is_alive_and_follows_its_final_tally() {
    let first = publisher(&SHAPE, EPOCH, at(0)..at(4_000), Holes::NONE);
    let (mut network, node) =
        watched_by(1, first, reader(1).waiting().deceived_by(NodeId(2)), Port::default());
    let mut config = SHAPE.config(EARLIER);
    config.description.report_port = SHARED_PORTS + 2;
    let feed = SHAPE.feed(EARLIER, at(500)..at(8_000), Holes::NONE);
    let second = Publisher::new(config, feed, EARLIER.incarnation, at(500)).told(at(8_200), Command::Finish);
    network.add("second publisher", Part::Publisher(Box::new(second)), Port::default());
    let accounts = accounts(&mut network, node, at(20_000));
    assert_eq!(states(&accounts), [AccountState::Closed; 2]);
    assert_eq!(network.node(node).reader().watch.two_publishers, [(EPOCH, EARLIER)], "told once");
    for (publisher, other) in [(NodeId(0), EARLIER), (NodeId(2), EPOCH)] {
        let events = network.node(publisher).publisher().events.iter().map(|(_, event)| *event);
        let told: Vec<_> = events.filter(|event| *event != SenderEvent::Finished).collect();
        assert_eq!(told, [SenderEvent::TwoPublishers { other }], "{publisher}");
    }
    let (truth, second) = &accounts[1];
    let rows = second.datagrams.expect("a socket");
    assert_eq!(rows.lost.total(), rows.lost[Stage::Decode], "what there was no room for: {truth:?}");
    assert!((1_000..1_100).contains(&rows.received.min(1_050)), "{rows:?}");
}

#[test]
fn duplicates_of_a_past_epoch_do_not_reopen_it() {
    // Each datagram arrives twice, the second time up to three seconds later, also those of the predecessor.
    let next = Epoch { start_ns: 5_000, incarnation: 22 };
    let publisher = plain().told(at(1_000), Command::Finish).told(at(1_100), restart(next, 1_100));
    let down = Link::lan().duplicate(1.0, core::time::Duration::from_secs(3));
    let (mut network, reader) = watched(1, publisher, Port { down, ..Port::default() });
    let accounts = accounts(&mut network, reader, at(20_000));
    assert_eq!(states(&accounts), [AccountState::Closed; 2]);
}

#[test]
fn reports_on_the_epoch_before_a_restart_are_not_a_second_publisher() {
    // The reader receives nothing of the new epoch for a while and continues to report on the old one.
    let next = Epoch { start_ns: 5_000, incarnation: 22 };
    let publisher = plain().told(at(1_000), Command::Die).told(at(1_000), restart(next, 1_000));
    let down = Link::lan().outage(at(990)..at(2_500));
    let (mut network, reader) = watched(1, publisher, Port { down, ..Port::default() });
    accounts(&mut network, reader, at(15_000));
    let events = &network.node(NodeId(0)).publisher().events;
    assert!(events.iter().all(|(_, event)| *event == SenderEvent::Finished), "{events:?}");
}

#[test]
fn a_late_joiner_owes_nothing_for_what_came_before() {
    let (mut network, late) = watched(1, plain(), Port::default());
    let joins = reader(2).told(at(1_234), Move::Join);
    let joiner = network.add("late reader", Part::Reader(Box::new(joins)), Port::default());
    let all = accounts(&mut network, late, at(15_000));
    assert_eq!(all[0].1.elements.first, 0);
    let late = accounts(&mut network, joiner, at(15_000));
    let rows = late[0].1.elements;
    // It waits for the next description, which comes every second.
    assert!((12_340..20_100).contains(&rows.first), "{}", rows.first);
    assert_eq!(rows.delivered, rows.next - rows.first);
    assert!(late[0].1.explained());
}

#[test]
fn a_reader_that_leaves_is_accountable_until_then() {
    let down = Link::lan().loss(0.02);
    let (mut network, stays) = watched(1, plain(), Port { down: down.clone(), ..Port::default() });
    let leaves = reader(2).told(at(1_500), Move::Leave);
    let port = Port { down, ..Port::default() };
    let leaver = network.add("leaver", Part::Reader(Box::new(leaves)), port);
    network.join(leaver, GROUP);
    assert_eq!(states(&accounts(&mut network, stays, at(15_000))), [AccountState::Closed]);
    let left = accounts(&mut network, leaver, at(15_000));
    assert_eq!(states(&left), [AccountState::Cut]);
    assert!(left[0].1.closed());
    assert!((14_900..=15_000).contains(&left[0].1.elements.next));
    let told = network.node(NodeId(0)).publisher().sender().expect("it is still running").readers().count();
    assert_eq!(told, 2, "the leaver said goodbye");
}

#[test]
fn a_reader_that_stops_listening_amid_losses_has_them_all_explained() {
    let publisher = plain().told(at(0), Command::Inject(0.3));
    let leaver = reader(1).told(at(1_517), Move::Deselect);
    let (mut network, leaver) = watched_by(1, publisher, leaver, Port::default());
    let (_, account) = accounts(&mut network, leaver, at(15_000)).remove(0);
    assert_eq!((account.state, account.explained()), (AccountState::Cut, true), "{account:?}");
    assert!(account.elements.lost[Stage::Injected] > 4_000, "{account:?}");
    // At the next tally, and no later.
    assert!((15_170..=16_200).contains(&account.elements.next), "{account:?}");
}

#[test]
fn what_waits_in_the_socket_of_a_stopped_reader_is_no_silence() {
    let host = Host::ideal().stalls(at(700)..at(20_000));
    let reader = reader(1).patient_with_the_unread();
    let (mut network, node) = watched_by(1, plain(), reader, Port { host, ..Port::default() });
    let accounts = accounts(&mut network, node, at(25_000));
    assert_eq!(states(&accounts), [AccountState::Closed]);
    assert_eq!(accounts[0].1.elements.missing(), 0);
}

#[test]
fn a_reader_that_leaves_in_the_middle_of_a_frame_is_not_left_waiting_for_its_rest() {
    let shape = StreamShape { hz: 10, elements: 300_000, block_samples: 1, ..SHAPE };
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(3_000), Holes::NONE);
    let (mut network, stays) = watched(1, publisher, Port::default());
    let leaver = reader(2).told(at(1_540), Move::Leave);
    let leaver = network.add("leaver", Part::Reader(Box::new(leaver)), Port::default());
    network.join(leaver, GROUP);
    accounts(&mut network, stays, at(15_000));
    let (_, account) = accounts(&mut network, leaver, at(15_000)).remove(0);
    assert!(account.closed(), "{account:?}");
    assert!((1..300_000).contains(&account.elements.unexplained), "the rest of one frame");
    assert_eq!(account.gaps.len(), 1);
}

/// An epoch of the stream later than that of the first publisher.
const SECOND: Epoch = Epoch { start_ns: 2_000, incarnation: 33 };

/// Two publishers on one host that do not know of each other, and a reader.
fn rivals(end: u64, port: Port) -> (Scene, NodeId) {
    let first = publisher(&SHAPE, EPOCH, at(0)..at(8_000), Holes::NONE);
    let (mut network, node) = watched_by(1, first, reader(1).deceived_by(NodeId(2)), port);
    let mut config = SHAPE.config(SECOND);
    config.description.report_port = SHARED_PORTS + 2;
    let feed = SHAPE.feed(SECOND, at(500)..at(end), Holes::NONE);
    let second =
        Publisher::new(config, feed, SECOND.incarnation, at(500)).told(at(end + 200), Command::Finish);
    network.add("second publisher", Part::Publisher(Box::new(second)), Port::default());
    (network, node)
}

/// A publisher on one host, and another of the same stream on a second one; both have a sample every `millis`.
fn hosts(millis: u64, first: Publisher, second: Publisher) -> (Scene, NodeId) {
    let down = Link::lan();
    let (mut network, node) =
        watched_by(millis, first, reader(1).waiting(), Port { down, ..Port::default() });
    network.add("second host", Part::Publisher(Box::new(second)), Port::default());
    (network, node)
}

/// A stream with a sample a second: so slow that its publisher sends a tally a second.
const SLOW: StreamShape = StreamShape { hz: 1, block_samples: 1, ..SHAPE };

#[test]
fn a_publisher_on_a_second_host_is_held_back_and_takes_over_after_the_final_tally() {
    let first = publisher(&SHAPE, EPOCH, at(0)..at(3_000), Holes::NONE);
    let second = publisher(&SHAPE, SECOND, at(2_500)..at(5_000), Holes::NONE);
    let (mut network, reader) = hosts(1, first, second);
    let accounts = accounts(&mut network, reader, at(15_000));
    assert_eq!(states(&accounts), [AccountState::Closed; 2]);
    let delivered = accounts.iter().map(|(_, account)| account.elements.delivered).collect::<Vec<_>>();
    assert_eq!(delivered, [30_000, 25_000], "what was held is not lost");
    let watch = &network.node(reader).reader().watch;
    assert_eq!((watch.imposters.len(), watch.two_publishers.len()), (1, 0));
}

#[test]
fn a_standby_on_a_second_host_takes_over_within_three_seconds_and_nothing_of_it_is_lost() {
    let first = publisher(&SLOW, EPOCH, at(0)..at(60_000), Holes::NONE).told(at(10_500), Command::Die);
    let second = publisher(&SLOW, SECOND, at(10_600)..at(20_000), Holes::NONE);
    let (mut network, reader) = hosts(1, first, second);
    network.run_until(at(10_500 + 3_000 + 100));
    let epochs: Vec<_> = network.node(reader).reader().receiver.accounts().map(|view| view.epoch).collect();
    assert!(epochs.contains(&SECOND), "{epochs:?}");
    let accounts = accounts(&mut network, reader, at(40_000));
    assert_eq!(states(&accounts), [AccountState::Unconfirmed, AccountState::Closed]);
    let rows = &accounts[1].1.elements;
    assert_eq!((rows.first, rows.missing()), (0, 0), "{rows:?}");
}

#[test]
fn a_second_host_waits_as_long_as_the_first_one_answers() {
    // Both are received all the time; the first has long pauses between its samples.
    let slow = StreamShape { hz: 1, block_samples: 4, ..SHAPE };
    let first = publisher(&slow, EPOCH, at(0)..at(40_000), Holes::NONE);
    let second = publisher(&slow, SECOND, at(10_000)..at(30_000), Holes::NONE);
    let (mut network, reader) = hosts(1, first, second);
    let accounts = accounts(&mut network, reader, at(35_000));
    let [(_, only)] = &accounts[..] else { panic!("{accounts:?}") };
    assert_eq!((only.state, only.elements.missing()), (AccountState::Open, 0));
    let events = network.node(NodeId(0)).publisher().events.iter().map(|(_, event)| *event);
    assert_eq!(events.collect::<Vec<_>>(), [SenderEvent::TwoPublishers { other: SECOND }], "it is told");
}

#[test]
fn two_publishers_on_one_name_are_told_to_both_and_to_the_reader() {
    let (mut network, reader) = rivals(8_000, Port { down: Link::lan(), ..Port::default() });
    accounts(&mut network, reader, at(15_000));
    assert_eq!(network.node(reader).reader().watch.two_publishers, [(SECOND, EPOCH)], "told once");
    for (publisher, other) in [(NodeId(0), SECOND), (NodeId(2), EPOCH)] {
        let events = network.node(publisher).publisher().events.iter().map(|(_, event)| *event);
        let told: Vec<_> = events.filter(|event| *event != SenderEvent::Finished).collect();
        assert_eq!(told, [SenderEvent::TwoPublishers { other }], "{publisher}");
    }
}

#[test]
fn of_two_publishers_only_the_later_one_is_listened_to() {
    let (mut network, reader) = rivals(8_000, Port { down: Link::lan(), ..Port::default() });
    let accounts = accounts(&mut network, reader, at(7_900));
    let first = &accounts[0].1;
    assert_eq!(first.state, AccountState::Unconfirmed);
    assert!((4_900..5_200).contains(&first.elements.next), "nothing after the second began");
}

#[test]
fn late_datagrams_of_a_closed_epoch_do_not_reopen_it() {
    // The later of two publishers ends first; copies of its last datagrams arrive when the other is received again.
    let down = Link::lan().duplicate(0.3, core::time::Duration::from_millis(700));
    let (mut network, reader) = rivals(4_000, Port { down, ..Port::default() });
    let accounts = accounts(&mut network, reader, at(20_000));
    let [first, second, again] = &states(&accounts)[..] else { panic!("three accounts: {accounts:?}") };
    assert_eq!(*first, AccountState::Unconfirmed);
    assert_eq!([*second, *again], [AccountState::Closed; 2]);
}

#[test]
fn a_publisher_that_falls_silent_leaves_an_unconfirmed_account() {
    let (mut network, reader) = watched(1, plain().told(at(1_000), Command::Die), Port::default());
    network.run_until(at(1_900));
    let open = network.node(reader).reader().receiver.accounts().next().expect("one account");
    assert_eq!(open.account.state, AccountState::Open, "ten tally intervals are not over");
    let (_, account) = accounts(&mut network, reader, at(2_100)).remove(0);
    assert_eq!(account.state, AccountState::Unconfirmed);
    assert!(account.explained(), "up to the horizon nothing is missing");
}

#[test]
fn what_is_lost_in_a_long_outage_is_missing_and_not_forgotten() {
    let down = Link::lan().outage(at(1_000)..at(2_500));
    let (mut network, reader) = watched(1, plain(), Port { down, ..Port::default() });
    let accounts = accounts(&mut network, reader, at(15_000));
    assert_eq!(states(&accounts), [AccountState::Unconfirmed, AccountState::Closed]);
    let [(_, before), (truth, after)] = &accounts[..] else { panic!("two accounts") };
    assert_eq!(after.elements.first, before.elements.next, "no element falls between the accounts");
    assert!(truth.network > 1_500);
    assert_eq!(after.datagrams.expect("a socket").unexplained, truth.network);
}

#[test]
fn a_silence_that_ends_while_losses_settle_is_one_account() {
    let down = Link::lan().lose([900]).outage(at(1_000)..at(2_200));
    let (mut network, reader) = watched(1, plain(), Port { down, ..Port::default() });
    let accounts = accounts(&mut network, reader, at(15_000));
    assert_eq!(states(&accounts), [AccountState::Closed]);
}

#[test]
fn a_new_epoch_may_receive_reports_at_another_port() {
    let next = Epoch { start_ns: 5_000, incarnation: 22 };
    let mut config = SHAPE.config(next);
    config.description.report_port = 9_999;
    let feed = SHAPE.feed(next, at(2_900)..at(8_000), Holes::NONE);
    let restart = Command::Restart(Box::new(Restart { config, feed }));
    let publisher = publisher(&SHAPE, EPOCH, Instant::ORIGIN..at(8_000), Holes::NONE)
        .told(at(2_900), Command::Die)
        .told(at(2_900), restart);
    let (mut network, reader) = watched(1, publisher, Port::default());
    network.run_until(at(8_000));
    let mut ports = network.node(reader).reader().reported_to.clone();
    ports.dedup();
    assert_eq!(ports, [7_400, 9_999]);
}

#[test]
fn an_account_that_has_ended_is_reported_once_more_and_then_no_more() {
    let (mut network, reader) = watched(1, plain(), Port::default());
    network.run_until(at(6_000));
    let then = network.node(reader).reader().reported_to.len();
    network.run_until(at(60_000));
    assert_eq!(network.node(reader).reader().reported_to.len(), then);
    let publisher = network.node(NodeId(0)).publisher();
    let last = publisher.last_report.as_ref().expect("a report");
    assert_eq!(last.state, AccountState::Closed);
}

#[test]
fn a_corrupt_number_in_a_whole_header_costs_nothing() {
    let stranger = NodeId(2);
    let port = Port { down: Link::lan(), ..Port::default() };
    let (mut network, reader) = watched_by(1, plain(), reader(1).deceived_by(stranger), port);
    let absurd = |number, index| forged(&SHAPE, EPOCH, number, index);
    let forgeries = vec![
        (at(1_000), absurd(1 << 60, 10_000)),
        (at(1_100), absurd(1_200, 1 << 58)),
        (at(1_200), absurd(u64::MAX - 1, 1 << 58)),
    ];
    network.add("stranger", Part::Stranger(Stranger(forgeries)), Port::default());
    network.run_until(at(15_000));
    let (_, account) = accounts(&mut network, reader, at(15_000)).remove(0);
    assert!(network.log().all_sent().filter(|sent| sent.from == stranger).count() == 3);
    assert_eq!(account.state, AccountState::Closed);
    assert_eq!(account.elements.delivered, 30_000);
    assert_eq!(network.node(reader).reader().receiver.stats().suspicious, 3);
}

#[test]
fn without_a_publisher_there_is_no_account() {
    let mut network: Scene = Network::new(1);
    let node = network.add("reader", Part::Reader(Box::new(reader(1))), Port::default());
    network.join(node, GROUP);
    assert!(accounts(&mut network, node, at(5_000)).is_empty());
}
