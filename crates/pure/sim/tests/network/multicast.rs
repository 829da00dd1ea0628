//! Multicast: fan-out, membership, each reader's own link, and the reverse link.

use sim::{Corruption, Lineup, Link, LostBy, NodeId, Outcome, Port};
use units::Instant;

use crate::part::{GROUP, PUBLISHER, Part, READER, at, micros};

#[test]
fn every_member_hears_over_a_link_of_its_own() {
    let mut network = Lineup::new(1)
        .publisher(Part::beacon(4, micros(1_000)))
        .group(GROUP)
        .link(Link::lan())
        .reader(Part::listener())
        .link(Link::ideal().delay(micros(7_000)).lose([1]))
        .reader(Part::listener())
        .build();
    network.run_until(at(20_000));
    let read = |node| network.node(node).listening().heard.iter().map(|heard| heard.read).collect::<Vec<_>>();
    assert_eq!(read(NodeId(1)), [100, 1_100, 2_100, 3_100].map(at));
    assert_eq!(read(NodeId(2)), [7_000, 9_000, 10_000].map(at));
    assert_eq!(network.log().outcomes(NodeId(2))[&1], Outcome::Lost(LostBy::Placed));
    assert_eq!(network.now(), at(20_000));
}

#[test]
fn a_node_that_joins_late_hears_from_then_on_and_one_that_leaves_drops_what_is_on_its_way() {
    let mut network = Lineup::new(1)
        .publisher(Part::beacon(10, micros(1_000)))
        .link(Link::ideal().delay(micros(1_500)))
        .reader(Part::listener())
        .build();
    network.run_until(at(2_500));
    network.act(READER, |_, _, socket| socket.join(GROUP));
    network.run_until(at(6_900));
    network.act(READER, |_, _, socket| socket.leave(GROUP));
    network.run_until(at(20_000));
    assert_eq!(network.node(READER).numbers(), [3, 4, 5]);
    let counts = network.log().counts(READER);
    assert_eq!(counts.to_string(), "3 delivered, 1 lost not joined");
}

#[test]
fn a_node_may_be_added_while_the_network_runs() {
    let mut network = Lineup::new(1).publisher(Part::beacon(10, micros(1_000))).build();
    network.run_until(at(4_500));
    let late = network.add("late reader", Part::listener(), Port::default());
    network.join(late, GROUP);
    network.run_until(at(20_000));
    assert_eq!(network.node(late).numbers(), [5, 6, 7, 8, 9]);
    assert_eq!(network.scenario().to_string(), "seed 1: publisher — late reader");
}

#[test]
fn answers_come_back_over_the_readers_own_way() {
    let mut network = Lineup::new(1)
        .publisher(Part::beacon(10, micros(1_000)))
        .group(GROUP)
        .reverse_link(Link::lan().lose([0, 1, 2]))
        .reader(Part::answering_listener())
        .build();
    network.run_until(at(20_000));
    let Part::Beacon(beacon) = network.node(PUBLISHER) else { panic!("node 0 is the beacon") };
    assert_eq!(beacon.answers, 7);
    assert_eq!(network.log().counts(PUBLISHER).lost(LostBy::Placed), 3);
}

#[test]
fn a_sender_does_not_hear_itself() {
    let mut network = Lineup::new(1).publisher(Part::beacon(3, micros(1_000))).build();
    network.join(PUBLISHER, GROUP);
    network.run_until(at(5_000));
    assert_eq!(network.log().counts(PUBLISHER).total(), 0);
}

#[test]
fn what_the_senders_own_link_loses_every_reader_loses() {
    let port = Port { up: Link::lan().loss(0.2), ..Port::default() };
    let mut network = Lineup::new(3)
        .publisher_at(port, Part::beacon(500, micros(100)))
        .group(GROUP)
        .readers(3, |_| Part::listener())
        .build();
    network.run_until(at(100_000));
    let first = network.node(NodeId(1)).numbers();
    assert!((350..450).contains(&first.len()));
    for reader in [2, 3].map(NodeId) {
        assert_eq!(network.node(reader).numbers(), first);
        assert_eq!(network.log().outcomes(reader).len(), 500);
    }
}

#[test]
fn duplicates_and_corrupted_copies_are_told_apart_in_the_log() {
    let mut network = Lineup::new(5)
        .publisher(Part::beacon(1_000, micros(100)))
        .group(GROUP)
        .link(Link::lan().duplicate(0.1, micros(30)).corrupt(0.1, Corruption::Delivered))
        .reader(Part::listener())
        .build();
    network.run_until(at(200_000));
    let counts = network.log().counts(READER);
    let heard = network.node(READER).numbers().len() as u64;
    assert_eq!(counts.total(), heard);
    assert_eq!(counts.delivered + counts.corrupted, heard);
    assert!((60..140).contains(&counts.corrupted), "10 % of 1,000 gave {}", counts.corrupted);
    assert!((1_060..1_140).contains(&heard), "10 % more than 1,000 gave {heard}");
}

#[test]
fn the_log_agrees_with_what_the_reader_wrote_down() {
    let lossy = Link::lan().loss(0.1).reorder(0.1, micros(350)).duplicate(0.05, micros(10));
    let mut network = Lineup::new(8)
        .publisher(Part::beacon(2_000, micros(100)))
        .group(GROUP)
        .link(lossy)
        .reader(Part::listener())
        .build();
    network.run_until(at(1_000_000));
    let mut heard: Vec<(Instant, u64)> =
        network.node(READER).listening().heard.iter().map(|heard| (heard.read, heard.number)).collect();
    let number = |ordinal| u64::from_le_bytes(*network.log().sent(ordinal).bytes.first_chunk().unwrap());
    let mut logged: Vec<(Instant, u64)> = network
        .log()
        .passes(READER)
        .filter_map(|pass| pass.outcome.read_at().map(|at| (at, number(pass.ordinal))))
        .collect();
    heard.sort_unstable();
    logged.sort_unstable();
    assert_eq!(heard, logged);
}
