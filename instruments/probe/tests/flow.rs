//! Flows over the virtual network: their accounts against the simulator's own log, and the search for a bottleneck.
//!
//! A scene is fully determined by its seed; a failure prints the command that repeats it.

use std::time::Duration;

use ledger::Stage;
use probe::flow::{
    Arrival as Read, Due, FlowAccount, FlowRate, FlowReceiver, FlowSent, Numbering, Pace, SocketDrops, Stamp,
};
use probe::{Answer, Found, NextRate, RateSearch, Resolution};
use sim::{
    Address, Arrival, Bursts, Group, Lineup, Link, Node, NodeId, Order, Outcome, Socket, WIRE_OVERHEAD_BYTES,
};
use units::{Instant, Random};

const GROUP: Group = Group(1);
const RUN: u32 = 3;
const FLOW: u32 = 1;
const SCENES: u64 = 300;

enum Part {
    Sender { pace: Pace, payload: Vec<u8>, sent: FlowSent, end: Instant },
    Receiver(FlowReceiver),
}

impl Part {
    fn sender(rate: FlowRate, payload_bytes: usize, time: Duration) -> Self {
        Self::Sender {
            pace: Pace::new(rate, Instant::ORIGIN),
            payload: vec![0; payload_bytes],
            sent: FlowSent::default(),
            end: Instant::ORIGIN + time,
        }
    }
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        if let Self::Receiver(receiver) = self {
            receiver.accept(Read { host: now, reader: now }, arrival.bytes);
            let totals = receiver.totals();
            assert!(totals.jitter_ns.is_none_or(f64::is_finite));
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        let Self::Sender { pace, payload, sent, end } = self else { return None };
        if now >= *end {
            return None;
        }
        loop {
            let count = match pace.due(now) {
                Due::At(moment) => return Some(moment.min(*end)),
                Due::Now(count) => count,
            };
            for _ in 0..count {
                Stamp { run: RUN, flow: FLOW, number: sent.numbered, sent: now }.write(payload);
                socket.send(Address::Group(GROUP), payload);
                sent.numbered += 1;
                sent.bytes += payload.len() as u64;
            }
            pace.hand(count);
        }
    }
}

/// Plays a flow; returns its account, and how many of its datagrams arrived according to the log.
fn play(seed: u64, link: Link, rate: FlowRate, payload_bytes: usize, time: Duration) -> (FlowAccount, u64) {
    let numbering = Numbering::of_payload(payload_bytes);
    let mut network = Lineup::new(seed)
        .publisher(Part::sender(rate, payload_bytes, time))
        .group(GROUP)
        .link(link)
        .reader(Part::Receiver(FlowReceiver::new(RUN, FLOW, numbering)))
        .build();
    network.run_for(time + Duration::from_secs(2));
    let (Part::Sender { sent, .. }, Part::Receiver(receiver)) =
        (network.node(NodeId(0)), network.node(NodeId(1)))
    else {
        unreachable!("the sender comes first in the line-up")
    };
    let outcomes = network.log().outcomes(NodeId(1));
    let arrived =
        outcomes.values().filter(|outcome| matches!(outcome, Outcome::Delivered { .. })).count() as u64;
    assert_eq!(network.log().sent_count(), sent.numbered);
    (receiver.close(Some(sent), SocketDrops::default()), arrived)
}

/// A link with one or several of all possible impairments.
fn any_link(random: &mut Random) -> Link {
    let mut link = Link::ideal().delay(Duration::from_micros(random.below(2_000)));
    if random.chance(0.4) {
        link = link.loss(0.05);
    }
    if random.chance(0.3) {
        link = link.bursts(Bursts::of(0.02, 5.0));
    }
    if random.chance(0.4) {
        link = link.jitter(Duration::from_micros(3_000), Order::Free);
    }
    if random.chance(0.3) {
        link = link.duplicate(0.05, Duration::from_micros(300));
    }
    if random.chance(0.3) {
        link = link.rate(5_000_000, 10_000);
    }
    link
}

#[test]
fn the_account_of_every_flow_adds_up_and_is_what_the_log_says() {
    let (mut whole, mut lossy) = (0, 0);
    let seeds =
        sim::seeds::Seeds { first: 0, count: SCENES, repeat: "cargo test -p tallycast-probe --test flow" };
    sim::seeds::each(&seeds, |seed| {
        let mut random = Random::new(seed);
        let link = any_link(&mut random);
        let rate = FlowRate::of_units(100 + random.below(5_000));
        let payload_bytes = 28 + usize::try_from(random.below(1_400)).expect("small");
        let (account, arrived) = play(seed, link, rate, payload_bytes, Duration::from_millis(100));
        assert_eq!(account.check(), Ok(()));
        assert_eq!((account.received, account.missing()), (arrived, account.sent - arrived));
        assert_eq!(account.lost[Stage::Late], 0, "nothing is later than the window is long");
        if account.is_loss_free() { whole += 1 } else { lossy += 1 }
    });
    assert!(whole > 0 && lossy > 0, "{whole} whole, {lossy} lossy");
}

/// Payload of the datagrams of a search, and time of each of its runs.
const PAYLOAD_BYTES: usize = 1_000;
const TIME: Duration = Duration::from_millis(500);

/// Searches the highest rate without loss over a link; every run has its own seed.
fn search(mut search: RateSearch, link: impl Fn() -> Link) -> Found {
    let mut seed = 0;
    loop {
        match search.next() {
            NextRate::Done(found) => return found,
            NextRate::Try(rate) | NextRate::Confirm(rate) => {
                let flow = FlowRate::of_bits(rate, PAYLOAD_BYTES as u64);
                let (account, _) = play(seed, link(), flow, PAYLOAD_BYTES, TIME);
                search.tell(if account.is_loss_free() { Answer::Good } else { Answer::Bad });
                seed += 1;
            }
        }
    }
}

#[test]
fn the_search_finds_the_bottleneck_to_within_its_step() {
    for (bottleneck, queue_bytes) in [(1_000_000, 4_000), (20_000_000, 8_000), (300_000_000, 60_000)] {
        let link = || Link::lan().rate(bottleneck, queue_bytes);
        let (limit, step) = (bottleneck * 2, bottleneck / 100);
        let found = search(RateSearch::new(limit, Resolution::Step(step), 3), link);
        // Link headers take their share of the rate; datagrams still queued at the end of a run do not count as lost.
        let wire_bytes = PAYLOAD_BYTES as u64 + WIRE_OVERHEAD_BYTES;
        let edge = bottleneck * PAYLOAD_BYTES as u64 / wire_bytes;
        let gift = queue_bytes * 8 * 1_000 / u64::try_from(TIME.as_millis()).expect("small");
        let rate = found.size();
        assert!(matches!(found, Found::Largest(_)), "{found:?}");
        assert!(rate + step >= edge && rate <= edge + gift + step, "{rate} of {edge}, {gift} in the queue");
    }
}

#[test]
fn a_lossy_link_has_no_rate_without_loss() {
    let found = search(RateSearch::new(50_000_000, Resolution::Step(500_000), 3), || Link::lan().loss(0.2));
    assert_eq!(found, Found::Nothing);
}
