//! Samples larger than a datagram, and samples much smaller.

use core::time::Duration;

use cast::send::{DEFAULT_LINGER, DEFAULT_TRAIN};
use ledger::AccountState;
use sample::{Channel, Dtype, Schema};
use sim::{Link, Network, NodeId, Port};
use units::Instant;
use wire::Kind;

use crate::line::feed::{Feed, Holes};
use crate::line::publisher::{Command, Publisher};
use crate::line::scene::{EPOCH, StreamShape, accounts, publisher, reader, watched};
use crate::line::{GROUP, Part, at};

#[test]
fn an_image_stream_loses_only_the_elements_lost() {
    const IMAGE: u64 = 8 * 1024 * 1024;
    let shape = StreamShape {
        dtype: Dtype::U8,
        hz: 10,
        elements: IMAGE as u32,
        block_samples: 1,
        ..StreamShape::PLAIN
    };
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(400), Holes::NONE);
    let down = Link::lan().loss(0.01);
    let (mut network, reader) = watched(1, publisher, Port { down, ..Port::default() });
    let (truth, account) = accounts(&mut network, reader, at(6_000)).remove(0);
    assert_eq!(account.state, AccountState::Closed);
    assert_eq!(account.elements.next, 4);
    let lost = 4 * IMAGE - account.elements.delivered;
    assert_eq!(account.elements.unexplained, lost);
    let share = lost as f64 / (4 * IMAGE) as f64;
    assert!((0.008..0.012).contains(&share), "1 % of the datagrams lost {share} of the elements");
    assert!(truth.network * 1_392 >= lost, "no more than the datagrams held");
}

#[test]
fn an_image_leaves_evenly_and_not_as_a_burst() {
    let shape =
        StreamShape { dtype: Dtype::U8, hz: 10, elements: 1 << 20, block_samples: 1, ..StreamShape::PLAIN };
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(400), Holes::NONE);
    let (mut network, _) = watched(1, publisher, Port::default());
    network.run_until(at(2_000));
    let sent: Vec<_> = network.log().all_sent().filter(|sent| sent.bytes[3] == Kind::Data.code()).collect();
    let longest = sent.windows(32).map(|train| train[31].at.since(train[0].at)).min();
    assert!(longest >= Some(Duration::from_micros(500)), "32 datagrams left within {longest:?}");
}

/// A gigabit Ethernet whose queue holds little more than two trains.
fn gigabit() -> Port {
    Port { up: Link::lan().rate(1_000_000_000, 40 * 1_538), ..Port::default() }
}

/// Plays a publisher behind a gigabit Ethernet; returns how many datagrams were dropped by its queue, and how many
/// left.
fn lost_at_the_gigabit(publisher: Publisher, end: Instant) -> (u64, u64) {
    let mut network = Network::new(1);
    let sender = network.add("publisher", Part::Publisher(Box::new(publisher)), gigabit());
    let node = network.add("reader", Part::Reader(Box::new(reader(1))), Port::default());
    network.join(node, GROUP);
    network.run_until(end);
    assert!(network.node(sender).publisher().sender().is_some_and(cast::Sender::is_finished));
    let counts = network.log().counts(node);
    (counts.lost_total(), counts.total())
}

#[test]
fn a_large_image_leaves_at_its_own_rate_however_seldom_it_comes() {
    for hz in [1, 10] {
        let shape = StreamShape {
            dtype: Dtype::U8,
            hz,
            elements: 8 << 20,
            block_samples: 1,
            linger: DEFAULT_LINGER,
            ..StreamShape::PLAIN
        };
        // Two images, each of which arrives completely.
        let end = u64::from(2_000 / hz);
        let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(end), Holes::NONE);
        let (lost, all) = lost_at_the_gigabit(publisher, at(end + 3_000));
        assert!(all > 2 * 6_000, "{all} datagrams of 1,392 bytes are no two images");
        assert_eq!(lost, 0, "of {all} datagrams at {hz} Hz");
    }
}

#[test]
fn blocks_of_a_second_leave_within_the_second() {
    // 16 MB/s in blocks of 16 MB.
    let shape = StreamShape { hz: 4_000_000, block_samples: 4_000_000, ..StreamShape::default() };
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE);
    let (lost, all) = lost_at_the_gigabit(publisher, at(5_000));
    assert!(all > 22_000, "{all} datagrams of 1,392 bytes are no 32 MB");
    assert_eq!(lost, 0, "of {all} datagrams");
}

#[test]
fn the_parts_of_a_long_description_leave_one_by_one() {
    let channels =
        (0..4_096).map(|index| Channel::new(format!("probe {index}"), "V").with_scale(0.5, index.into()));
    let shape = StreamShape { hz: 100, block_samples: 1, ..StreamShape::default() };
    let mut config = shape.config(EPOCH);
    let rate = config.description.schema.rate;
    config.description.schema = Schema::new(Dtype::I16, rate, channels.collect()).expect("a schema");
    let feed =
        Feed::new(config.description.schema.clone(), EPOCH.incarnation, 1, at(0)..at(3_000), Holes::NONE);
    let publisher = Publisher::new(config, feed, EPOCH.incarnation, at(0)).told(at(3_100), Command::Finish);
    let (mut network, node) = watched(1, publisher, Port::default());
    let (_, account) = accounts(&mut network, node, at(6_000)).remove(0);
    assert_eq!(account.elements.first, 0, "who listens from the beginning misses nothing");
    let sent = network.log().all_sent().filter(|sent| sent.from == NodeId(0));
    let longest = sent.fold((0, 0, at(0)), |(longest, train, last), sent| {
        let train = if sent.at == last { train + 1 } else { 1 };
        (longest.max(train), train, sent.at)
    });
    assert!(longest.0 <= DEFAULT_TRAIN as u64, "a train of {} datagrams", longest.0);
}

#[test]
fn small_blocks_are_joined() {
    let joined = |linger| {
        let shape = StreamShape { hz: 1_000, block_samples: 1, linger, ..StreamShape::PLAIN };
        let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(5_000), Holes::NONE);
        let (mut network, reader) = watched(1, publisher, Port::default());
        let (_, account) = accounts(&mut network, reader, at(10_000)).remove(0);
        assert_eq!(account.elements.delivered, 5_000);
        let data = |sent: &sim::Sent<'_>| sent.from == NodeId(0) && sent.bytes[3] == Kind::Data.code();
        network.log().all_sent().filter(data).count() / 5
    };
    assert_eq!(joined(Duration::ZERO), 1_000, "datagrams per second without joining");
    let per_second = joined(DEFAULT_LINGER);
    assert!((160..=200).contains(&per_second), "{per_second} datagrams per second");
}
