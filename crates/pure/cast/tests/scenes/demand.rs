//! Sending on demand: no data cross the network while no reader is heard, and no reader has an unexplained loss.

use core::time::Duration;

use cast::Sender;
use cast::send::{Input, Output, Sending};
use ledger::{AccountState, LedgerConfig, Stage};
use sim::{Link, Network, NodeId, Port};
use units::{Instant, ReaderId, WallTime};
use wire::{Datagram, Kind, Request, Wanted};

use crate::line::feed::Holes;
use crate::line::publisher::Publisher;
use crate::line::reader::{Move, Reader};
use crate::line::scene::{EPOCH, Scene, StreamShape, accounts, publisher, reader};
use crate::line::{Part, at};

/// A datagram every millisecond, while a reader listens.
const SHAPE: StreamShape = StreamShape { sending: Sending::OnDemand, ..StreamShape::PLAIN };

fn fed(millis: u64) -> Publisher {
    publisher(&SHAPE, EPOCH, Instant::ORIGIN..at(millis), Holes::NONE)
}

fn lan() -> Port {
    Port { up: Link::lan(), down: Link::lan(), ..Port::default() }
}

/// Sets a publisher before a reader that joins on command.
fn before(seed: u64, publisher: Publisher, guest: Reader, port: Port) -> (Scene, NodeId) {
    let mut network = Network::new(seed);
    network.add("publisher", Part::Publisher(Box::new(publisher)), Port::default());
    let node = network.add("reader", Part::Reader(Box::new(guest)), port);
    (network, node)
}

/// Returns when datagrams of a kind were sent. Units: milliseconds.
fn sent(network: &Scene, kind: Kind) -> Vec<u64> {
    let all = network.log().all_sent();
    all.filter(|sent| sent.bytes[3] == kind.code()).map(|sent| sent.at.as_nanos() / 1_000_000).collect()
}

#[test]
fn while_nobody_listens_nothing_is_sent_but_a_tally_and_a_description_a_second() {
    let nobody = reader(1).told(at(60_000), Move::Join);
    let (mut network, _) = before(1, fed(30_000), nobody, Port::default());
    network.run_until(at(30_000));
    assert_eq!(sent(&network, Kind::Data), []);
    let (tallies, descriptions) = (sent(&network, Kind::Tally).len(), sent(&network, Kind::Descriptor).len());
    assert!((30..=34).contains(&tallies) && (30..=31).contains(&descriptions), "{tallies} {descriptions}");
    let totals = network.nodes().next().expect("a publisher").1.publisher().epochs[0].totals.samples;
    assert!(totals.publisher_paused >= 299_900 && totals.numbered == 0, "{totals:?}");
}

#[test]
fn a_late_reader_wakes_the_publisher_and_its_account_closes() {
    let (mut network, node) = before(1, fed(4_000), reader(1).told(at(2_000), Move::Join), lan());
    let [(_, account)] = &accounts(&mut network, node, at(10_000))[..] else { panic!("one account") };
    assert_eq!(account.state, AccountState::Closed);
    assert!(account.explained(), "{account:?}");
    let (rows, paused) = (&account.elements, account.elements.lost[Stage::PublisherPaused]);
    assert_eq!((rows.next, rows.delivered + paused), (40_000, 40_000 - rows.first));
    let first = sent(&network, Kind::Data)[0];
    assert!((2_000..3_100).contains(&first), "asked for at the first tally that says so: {first} ms");
    assert_eq!(rows.delivered, 40_000 - (first - 1) * 10, "all that was handed over since the request came");
}

#[test]
fn a_reader_that_stays_keeps_the_publisher_awake_however_many_reports_are_lost() {
    // Two of three reports are lost; five intervals of silence are rare, and the next tally ends them.
    let up = Link::lan().lose_when("two of three", |passing| !passing.ordinal.is_multiple_of(3));
    let port = Port { up, ..lan() };
    let (mut network, node) = before(1, fed(60_000), reader(1).told(at(0), Move::Join), port);
    let [(_, account)] = &accounts(&mut network, node, at(65_000))[..] else { panic!("one account") };
    assert_eq!(account.state, AccountState::Closed);
    assert!(account.explained() && account.elements.delivered > 580_000, "{account:?}");
}

#[test]
fn the_publisher_falls_silent_again_after_the_last_reader_has_left() {
    let guest = reader(1).told(at(0), Move::Join).told(at(3_000), Move::Leave).told(at(20_000), Move::Join);
    let (mut network, node) = before(1, fed(22_000), guest, lan());
    let accounts = accounts(&mut network, node, at(30_000));
    let states: Vec<_> = accounts.iter().map(|(_, account)| account.state).collect();
    assert_eq!(states, [AccountState::Cut, AccountState::Closed]);
    assert!(accounts.iter().all(|(_, account)| account.explained()));
    let data = sent(&network, Kind::Data);
    let before: Vec<_> = data.iter().filter(|millis| **millis < 19_000).copied().collect();
    let last = before.last().copied().expect("data for the first reader");
    assert!((8_000..=9_100).contains(&last), "five intervals after its farewell: {last} ms");
    assert!(data.len() > before.len() + 900, "and it wakes for the second");
}

#[test]
fn a_pause_is_one_range_so_any_tally_explains_it_however_many_are_lost() {
    let down = Link::lan().lose_when("most tallies", |passing| {
        passing.bytes[3] == Kind::Tally.code() && !passing.ordinal.is_multiple_of(8)
    });
    // The publisher does not receive the reader for a while: its account is open, and the samples pass.
    let port = Port { up: Link::lan().outage(at(0)..at(5_000)), down, ..Port::default() };
    let publisher = fed(20_000);
    let (mut network, node) = before(3, publisher, reader(1).told(at(0), Move::Join), port);
    let [(_, account)] = &accounts(&mut network, node, at(30_000))[..] else { panic!("one account") };
    let rows = &account.elements;
    assert!(rows.delivered > 50_000 && rows.lost[Stage::PublisherPaused] > 40_000, "{rows:?}");
    assert_eq!((account.state, rows.unexplained), (AccountState::Closed, 0), "{rows:?}");
}

/// Readers of a slow stream report every quarter of a minute; when all but one have left, the interval falls to a
/// second with the sweep that forgets them, and the last report of the remaining one is many seconds old.
#[test]
fn a_reader_that_stays_is_not_forgotten_with_a_crowd_that_leaves() {
    let shape = StreamShape { hz: 100, ..SHAPE };
    for seed in 1..=5 {
        let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(300_000), Holes::NONE);
        let (mut network, node) = before(seed, publisher, reader(1).told(at(0), Move::Join), lan());
        for id in 2..=40 {
            let guest = Reader::light(id, LedgerConfig::default());
            let guest = guest.told(at(id), Move::Join).told(at(100_000 + id), Move::Leave);
            network.add("guest", Part::Reader(Box::new(guest)), lan());
        }
        let standing = |network: &Scene| {
            let publisher = network.node(NodeId(0)).publisher();
            let readers = publisher.sender().map_or(0, Sender::reader_count);
            (readers, publisher.epochs[0].totals.samples.publisher_paused)
        };
        network.run_until(at(99_000));
        let (readers, paused) = standing(&network);
        assert_eq!(readers, 40, "seed {seed}");
        network.run_until(at(250_000));
        assert_eq!(standing(&network), (1, paused), "seed {seed}: the publisher never paused again");
        let [(_, account)] = &accounts(&mut network, node, at(310_000))[..] else { panic!("one account") };
        assert!(account.explained(), "seed {seed}: {account:?}");
        assert_eq!(standing(&network).1, paused, "seed {seed}");
    }
}

/// A sender without a network.
struct Alone {
    sender: Sender,
    buffer: Vec<u8>,
    next_index: u64,
}

impl Alone {
    fn new() -> Self {
        let config = SHAPE.config(EPOCH);
        let buffer = vec![0; config.datagram_bytes];
        let sender = Sender::new(config, 1, Instant::ORIGIN).expect("a description that fits");
        let mut alone = Self { sender, buffer, next_index: 0 };
        alone.drain(Instant::ORIGIN);
        alone
    }

    /// Passes ten samples and returns the first indices of the data sent then.
    fn block(&mut self, now: Instant) -> Vec<u64> {
        let first_index = self.next_index;
        self.next_index += 10;
        let t0 = WallTime::from_nanos(0);
        self.sender.handle(now, Input::Samples { first_index, t0, bytes: &[0; 40] });
        self.drain(now).0
    }

    /// Returns the first indices of data, and the `paused` flag of each tally.
    fn drain(&mut self, now: Instant) -> (Vec<u64>, Vec<bool>) {
        let (mut data, mut tallies) = (Vec::new(), Vec::new());
        while let Output::Transmit { size_bytes, .. } = self.sender.poll(now, &mut self.buffer) {
            match Datagram::decode(&self.buffer[..size_bytes]).expect("our own") {
                Datagram::Data(sent) => data.push(sent.head.first_index),
                Datagram::Tally(tally) => tallies.push(tally.paused),
                _ => {}
            }
        }
        (data, tallies)
    }

    fn ask(&mut self, now: Instant) {
        let head = self.sender.next_head();
        let (stream, epoch, reader) = (head.stream, head.epoch, ReaderId(1));
        let request = Request { stream, epoch, reader, what: Wanted::Data, waiting: None, nonce: None };
        self.sender.handle(now, Input::Request(&request));
    }
}

#[test]
fn data_begin_with_the_first_block_handed_over_after_a_request() {
    let mut alone = Alone::new();
    assert_eq!(alone.block(at(5)), [], "nobody has asked");
    alone.ask(at(10));
    assert_eq!(alone.drain(at(10)).0, [], "what was made before is nobody's");
    assert_eq!(alone.block(at(10)), [10]);
    assert_eq!(alone.sender.totals().samples.publisher_paused, 10);
}

#[test]
fn data_end_five_seconds_after_the_last_request_to_the_nanosecond() {
    let mut alone = Alone::new();
    alone.ask(at(50));
    (50..5_045).for_each(|millis| drop(alone.drain(at(millis))));
    let over = at(5_050);
    assert_eq!(alone.block(over - Duration::from_nanos(1)), [0]);
    assert_eq!(alone.block(over), []);
    alone.ask(over);
    alone.drain(at(5_052));
    assert_eq!(alone.block(at(5_055)), [20]);
}

#[test]
fn tallies_say_whether_the_publisher_is_paused() {
    let mut alone = Alone::new();
    assert_eq!(alone.drain(at(100)).1, [true]);
    alone.ask(at(110));
    assert_eq!(alone.drain(at(400)).1, [false]);
}

#[test]
fn what_was_handed_over_in_time_leaves_although_the_last_reader_has_gone() {
    let mut alone = Alone::new();
    alone.ask(at(1));
    // A long block: its datagrams are paced, and most of them leave when no reader is heard any more.
    let bytes = vec![0; 400_000];
    let t0 = WallTime::from_nanos(0);
    alone.sender.handle(at(5_000), Input::Samples { first_index: 0, t0, bytes: &bytes });
    let datagrams: usize = (5_000..6_000).map(|millis| alone.drain(at(millis)).0.len()).sum();
    assert!(alone.sender.is_paused(at(5_999)) && datagrams > 200, "{datagrams}");
    let totals = alone.sender.totals().samples;
    assert_eq!((totals.numbered, totals.queued, totals.publisher_paused), (100_000, 0, 0));
}
