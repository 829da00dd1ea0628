//! Broken nodes end a run with the scene and the seed in the message; turns can be checked one by one.

use core::time::Duration;

use sim::{Address, Arrival, Lineup, Link, Node, NodeId, Socket, seeds};
use units::Instant;

use crate::part::{GROUP, PUBLISHER, Part, READER, at, micros};

/// A node that never becomes idle, in one of several ways.
enum Restless {
    AlwaysDue,
    Flooding,
    Answering(Option<NodeId>),
}

impl Node for Restless {
    fn receive(&mut self, _now: Instant, arrival: &Arrival<'_>) {
        if let Self::Answering(to) = self {
            *to = Some(arrival.from);
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        match self {
            Self::AlwaysDue => Some(now),
            Self::Flooding => loop {
                socket.send(Address::Node(PUBLISHER), b"");
            },
            Self::Answering(to) => {
                if let Some(to) = to.take() {
                    socket.send(Address::Node(to), b"");
                }
                None
            }
        }
    }
}

fn run(node: Restless) {
    Lineup::new(71).publisher(node).build().run_for(Duration::from_secs(1));
}

#[test]
#[should_panic(expected = "node 0 is not idle at 0.000000000s: 100000 turns without time moving; seed 71")]
fn a_deadline_that_is_always_now_is_found() {
    run(Restless::AlwaysDue);
}

#[test]
#[should_panic(expected = "node 0 sent 100000 datagrams in one turn and has no end; seed 71: publisher")]
fn a_poll_that_always_sends_is_found() {
    run(Restless::Flooding);
}

#[test]
#[should_panic(expected = "is not idle")]
fn two_nodes_that_answer_each_other_for_ever_are_found() {
    let answering = || Restless::Answering(None);
    let mut network = Lineup::new(71).publisher(answering()).reader(answering()).build();
    network.act(PUBLISHER, |_, _, socket| {
        socket.send(Address::Node(READER), b"ping");
    });
    network.run_for(Duration::from_secs(1));
}

#[test]
#[should_panic(expected = "node 9 is not in the line-up: seed 71: publisher")]
fn a_datagram_to_nobody_is_a_mistake_of_the_test() {
    let mut network = Lineup::new(71).publisher(Restless::Answering(None)).build();
    network.act(PUBLISHER, |_, _, socket| {
        socket.send(Address::Node(NodeId(9)), b"");
    });
}

#[test]
fn every_turn_can_be_checked() {
    let lineup = Lineup::new(1).publisher(Part::beacon(3, micros(1_000))).group(GROUP);
    let mut network = lineup.link(Link::lan()).reader(Part::listener()).build();
    let mut turns = Vec::new();
    while let Some(node) = network.step() {
        turns.push((node, network.now()));
    }
    let expected = [(0, 0), (1, 0), (1, 100), (0, 1_000), (1, 1_100), (0, 2_000), (1, 2_100)];
    assert_eq!(turns, expected.map(|(node, micros)| (NodeId(node), at(micros))));
    assert_eq!(network.next_event_at(), None);
}

#[test]
#[should_panic(expected = "seed 5 failed: reader heard 3\nrepeat it with: cargo test -p tallycast-sim -- 5")]
fn a_scene_that_fails_names_its_seed() {
    let plan = seeds::Seeds { first: 3, count: 10, repeat: "cargo test -p tallycast-sim -- {seed}" };
    seeds::each(&plan, |seed| {
        let lineup = Lineup::new(seed).publisher(Part::beacon(seed - 2, micros(10))).group(GROUP);
        let mut network = lineup.reader(Part::listener()).build();
        let check = |network: &sim::Network<Part>, node: NodeId| {
            assert!(node == PUBLISHER || network.node(READER).numbers().len() < 3, "reader heard 3");
        };
        network.run_checked(at(1_000), check);
    });
}
