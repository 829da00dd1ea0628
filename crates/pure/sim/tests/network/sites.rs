//! Sites behind trunks: a shared link is shared, and crossed once per datagram; and their tables.

use core::time::Duration;

use sim::{Address, CrossTraffic, Group, Lineup, Link, LostBy, Network, NodeId, Order, Port, Trunk};
use units::Instant;

use crate::part::{GROUP, PUBLISHER, Part, at, micros};

/// Two senders, one receiver, and between them a trunk with half of their rate.
fn dumbbell(trunk: Link, counts: bool) -> Network<Part> {
    let mut network = if counts { Network::counting(3) } else { Network::new(3) };
    let site = network.add_site("remote", Trunk { down: trunk, up: Link::ideal() });
    for _ in 0..2 {
        // Random order, because otherwise the same sender always finds the room that has just become free.
        let up = Link::ideal().jitter(micros(90), Order::Free);
        network.add("sender", Part::beacon(1_000, micros(100)), Port { up, ..Port::default() });
    }
    let reader = network.add("reader", Part::listener(), Port { site: Some(site), ..Port::default() });
    network.join(reader, GROUP);
    network
}

/// Half of the offered rate: two senders of 166 bytes on the wire per 100 µs offer 26.56 Mbit/s.
const HALF: u64 = 13_280_000;

#[test]
fn senders_share_a_trunk() {
    let mut network = dumbbell(Link::ideal().rate(HALF, 10 * 166).delay(micros(500)), false);
    network.run_until(at(1_000_000));
    let table = "\
node          sent   delivered       queue
sender        1000           0           0
sender        1000           0           0
reader           0        1009         991";
    assert_eq!(network.table().to_string(), table);
    let heard = &network.node(NodeId(2)).listening().heard;
    let first = heard.iter().filter(|heard| heard.from == PUBLISHER).count();
    assert!((400..=610).contains(&first), "{first} of {} are from the first sender", heard.len());
    assert!(heard.windows(2).all(|pair| pair[1].arrived.since(pair[0].arrived) >= micros(100)));
}

#[test]
fn a_network_of_counts_counts_the_same() {
    let link =
        || Link::ideal().rate(HALF, 10 * 166).delay(micros(500)).loss(0.01).duplicate(0.01, micros(50));
    let run = |counts| {
        let mut network = dumbbell(link(), counts);
        network.run_until(at(1_000_000));
        let numbers = network.node(NodeId(2)).numbers();
        (network.table(), numbers)
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn what_goes_to_a_site_goes_over_its_trunk_once() {
    let group = |lineup: Lineup<Part>, trunk: Link| {
        lineup.site("site", Trunk { down: trunk, up: Link::ideal() }).readers(3, |_| Part::listener())
    };
    let lineup = Lineup::new(2).publisher(Part::beacon(10, micros(100))).group(GROUP);
    let lineup = lineup.readers(2, |_| Part::listener());
    // Room for one datagram each 100 µs: three copies of each would not fit.
    let lineup = group(lineup, Link::ideal().rate(HALF, 166).lose([4]));
    let mut network = group(lineup, Link::ideal()).build();
    network.run_until(at(10_000));
    for node in 1..=2 {
        assert_eq!(network.log().counts(NodeId(node)).delivered, 10);
    }
    for node in 3..=5 {
        let counts = network.log().counts(NodeId(node));
        assert_eq!((counts.delivered, counts.lost(LostBy::Placed)), (9, 1), "what the trunk loses, all lose");
    }
    for node in 6..=8 {
        assert_eq!(network.log().counts(NodeId(node)).delivered, 10);
    }
    let line = network.scenario().to_string();
    assert!(
        line.contains("site site (in: 0ns, 13280000 bit/s with 166 B of queue, lose ordinals [4])"),
        "{line}"
    );
}

#[test]
fn nodes_of_a_site_talk_without_the_trunk() {
    let mut network = Network::new(1);
    let dead = || Link::ideal().outage(Instant::ORIGIN..Instant::from_nanos(u64::MAX));
    let site = network.add_site("island", Trunk { up: dead(), down: dead() });
    let at_site = || Port { site: Some(site), ..Port::default() };
    let publisher = network.add("publisher", Part::beacon(7, micros(100)), at_site());
    let near = network.add("near", Part::listener(), at_site());
    let far = network.add("far", Part::listener(), Port::default());
    network.join(near, Group(1));
    network.join(far, Group(1));
    network.run_until(at(10_000));
    network.act(far, |_, _, socket| socket.send(Address::Node(publisher), b"hello"));
    network.run_until(at(20_000));
    assert_eq!(network.log().counts(near).delivered, 7);
    assert_eq!(network.log().counts(far).lost(LostBy::Outage), 7);
    assert_eq!(network.log().counts(publisher).lost(LostBy::Outage), 1);
}

/// A beacon with a tenth of the rate, and cross traffic that offers all of it: a drop-tail queue treats both alike.
#[test]
fn cross_traffic_takes_its_share_of_rate_and_queue() {
    let small = |rate| CrossTraffic { packet_bytes: 166, ..CrossTraffic::poisson(rate) };
    let run = |others: Option<CrossTraffic>| {
        // Not in step with what is sent: a packet takes 10.06 µs.
        let link = Link::ideal().rate(132_000_000, 50 * 1_538);
        let link = if let Some(others) = others { link.cross_traffic(others) } else { link };
        let mut network = Lineup::new(8)
            .publisher(Part::beacon(100_000, micros(100)))
            .group(GROUP)
            .link(link)
            .reader(Part::listener())
            .build();
        network.run_until(at(11_000_000));
        let heard = &network.node(NodeId(1)).listening().heard;
        let wait: Duration = heard.iter().map(|heard| heard.read.since(at(heard.number * 100))).sum();
        (100_000 - heard.len(), wait / 100_000)
    };
    let alone = run(None);
    assert_eq!((alone.0, alone.1.as_micros()), (0, 10));
    // Half of the rate, at random: at a load of 0.6 a packet waits for three quarters of a packet's time (M/D/1).
    let (lost, wait) = run(Some(small(66_400_000)));
    assert_eq!(lost, 0);
    assert!((micros(15)..micros(19)).contains(&wait), "{wait:?}");
    // More than the rate: the excess is lost, and the queue is always long.
    let (lost, wait) = run(Some(small(159_360_000)));
    assert!((17_000..26_000).contains(&lost), "{lost}");
    assert!(wait > micros(2_000), "{wait:?}");
    // As before with pauses half of the time: half of the losses, and half of the waiting.
    let pausing = small(159_360_000).with_pauses(micros(100_000), micros(100_000));
    let (fewer, shorter) = run(Some(pausing));
    assert!(fewer * 4 > lost && fewer * 4 < lost * 3, "{fewer} of {lost}");
    assert!(shorter < wait * 3 / 4, "{shorter:?} of {wait:?}");
}

#[test]
fn a_path_whose_largest_packet_shrinks_swallows_what_is_longer() {
    let link = Link::ideal().mtu(1_400).mtu_from(at(450), 99);
    let mut network = Lineup::new(1)
        .publisher(Part::beacon(10, micros(100)))
        .group(GROUP)
        .link(link)
        .reader(Part::listener())
        .build();
    network.run_until(at(5_000));
    assert_eq!(network.log().counts(NodeId(1)).to_string(), "5 delivered, 5 lost too long");
}
