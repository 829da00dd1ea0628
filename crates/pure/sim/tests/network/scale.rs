//! Sizes that the protocol's own scenarios need.

use sim::{Lineup, Link, NodeId, Order};

use crate::part::{GROUP, Part, at, micros};

#[test]
fn ten_thousand_readers_hear_two_hundred_datagrams() {
    let mut network = Lineup::new(1)
        .publisher(Part::beacon(200, micros(1_000)))
        .group(GROUP)
        .link(Link::lan().loss(0.01).jitter(micros(2_000), Order::Free))
        .readers(10_000, |_| Part::listener())
        .build();
    network.run_until(at(1_000_000));
    let heard: usize = (1..=10_000).map(|node| network.node(NodeId(node)).numbers().len()).sum();
    assert!((1_978_000..1_982_000).contains(&heard), "99 % of 2,000,000 gave {heard}");
}
