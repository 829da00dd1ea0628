//! Deadlines that readers state: what a publisher, which is a relay, knows of them.

use core::time::Duration;

use cast::send::ReaderDeadlines;
use sim::{Link, Network, NodeId, Port};
use units::{Instant, ReaderId};

use crate::line::feed::Holes;
use crate::line::publisher::Publisher;
use crate::line::reader::{Move, Reader};
use crate::line::relay::{RelayFeed, relaying};
use crate::line::scene::{EPOCH, Scene, StreamShape, publisher, reader};
use crate::line::{GROUP, Part, at};

const MS: Duration = Duration::from_millis(1);

/// Sets readers around a publisher, all of which hear it from the beginning.
fn among(seed: u64, publisher: Publisher, readers: Vec<Reader>) -> (Scene, Vec<NodeId>) {
    let mut network = Network::new(seed);
    network.add("publisher", Part::Publisher(Box::new(publisher)), Port::default());
    let port = Port { up: Link::lan(), down: Link::lan(), ..Port::default() };
    let nodes: Vec<NodeId> = readers
        .into_iter()
        .map(|reader| network.add("reader", Part::Reader(Box::new(reader)), port.clone()))
        .collect();
    nodes.iter().for_each(|node| network.join(*node, GROUP));
    (network, nodes)
}

fn fed(millis: u64) -> Publisher {
    publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(millis), Holes::NONE)
}

fn reader_deadlines(network: &Scene, now_ms: u64) -> ReaderDeadlines {
    let (_, part) = network.nodes().next().expect("a publisher");
    part.publisher().sender().expect("it sends").reader_deadlines(at(now_ms))
}

/// Returns what each reader states, and how many state nothing.
fn told(deadlines: &ReaderDeadlines) -> (Vec<(ReaderId, Duration)>, u32) {
    let mut stated: Vec<_> = deadlines.stated.iter().map(|it| (it.reader, it.deadline)).collect();
    stated.sort();
    (stated, deadlines.unstated)
}

#[test]
fn a_publisher_knows_the_deadline_of_each_reader_and_how_many_state_none() {
    for seed in 0..8 {
        let readers = vec![reader(1).with_deadline(300 * MS), reader(2), reader(3).with_deadline(2_000 * MS)];
        let (mut network, _) = among(seed, fed(6_000), readers);
        network.run_until(at(5_000));
        let known = reader_deadlines(&network, 5_000);
        let stated = vec![(ReaderId(1), 300 * MS), (ReaderId(3), 2_000 * MS)];
        assert_eq!(told(&known), (stated, 1), "seed {seed}");
        assert_eq!(known.stated[0].name, "reader 1");
    }
}

#[test]
fn a_reader_that_states_another_deadline_is_known_by_it_soon() {
    for seed in 0..8 {
        let changed = reader(1).with_deadline(300 * MS).told(at(4_000), Move::State(900 * MS));
        let (mut network, _) = among(seed, fed(9_000), vec![changed]);
        network.run_until(at(3_900));
        assert_eq!(told(&reader_deadlines(&network, 3_900)).0, [(ReaderId(1), 300 * MS)], "seed {seed}");
        network.run_until(at(5_700));
        assert_eq!(told(&reader_deadlines(&network, 5_700)).0, [(ReaderId(1), 900 * MS)], "seed {seed}");
    }
}

#[test]
fn a_reader_that_has_left_is_forgotten() {
    let leaves = reader(1).with_deadline(300 * MS).told(at(4_000), Move::Leave);
    let (mut network, _) = among(1, fed(9_000), vec![leaves, reader(2).with_deadline(900 * MS)]);
    network.run_until(at(4_100));
    assert_eq!(told(&reader_deadlines(&network, 4_100)).0, [(ReaderId(2), 900 * MS)]);
}

#[test]
fn a_reader_that_is_silent_for_long_is_forgotten() {
    // From 4 s on its reports are lost.
    let mut network = Network::new(1);
    network.add("publisher", Part::Publisher(Box::new(fed(20_000))), Port::default());
    let up = Link::lan().lose_when("all from 4 s on", |passing| passing.at >= at(4_000));
    let part = Part::Reader(Box::new(reader(1).with_deadline(300 * MS)));
    let node = network.add("reader", part, Port { up, down: Link::lan(), ..Port::default() });
    network.join(node, GROUP);
    network.run_until(at(4_000));
    assert_eq!(told(&reader_deadlines(&network, 4_000)).0.len(), 1);
    network.run_until(at(15_000));
    assert_eq!(told(&reader_deadlines(&network, 15_000)), (Vec::new(), 0));
}

#[test]
fn a_reader_of_a_relayed_stream_states_its_deadline_as_it_joins() {
    let shape = StreamShape { hz: 1_000, elements: 3, ..StreamShape::PLAIN };
    for seed in 0..8 {
        let config = relaying(shape.config(EPOCH), 2, 3_000);
        let feed = RelayFeed::new(&config, seed, at(2_000), 40, 0.0);
        let relay = Publisher::new(config, feed, seed, Instant::ORIGIN);
        let (mut network, _) = among(seed, relay, vec![reader(1).with_deadline(300 * MS)]);
        network.run_until(at(300));
        let known = reader_deadlines(&network, 300);
        assert_eq!(told(&known).0, [(ReaderId(1), 300 * MS)], "seed {seed}, before its first report");
    }
}
