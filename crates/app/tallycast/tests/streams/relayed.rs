//! Relay publishers, and readers behind them: elements with holes, and on which hop each was lost.

use std::num::NonZeroU8;
use std::ops::Range;
use std::time::Duration;

use support::Watchdog;
use tallycast::relayed::{ElementTimes, RelayPublisher, RelayedStream};
use tallycast::{
    Block, Bus, Channel, Clock, Dtype, Epoch, Event, HopCounts, HopShare, Node, Origin, Outcome, SampleRate,
    Schema, Stage, StageCounts, StreamAccount, Subscriber, TapRecord, UpstreamHop, WallTime, account_json,
};
use units::Instant;
use wire::Description;

use crate::scene::{bus, bus_from_now, node, wait_until_joined, watch};

const E: u64 = 3;
const ORIGIN: Origin = Origin {
    epoch: Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 },
    hop: NonZeroU8::new(2).unwrap(),
};

/// A stream of three channels that was taken up at its sample 100.
fn stream() -> RelayedStream {
    let channels = ["a", "b", "c"].map(|name| Channel::new(name, "V")).into();
    let schema = Schema::new(Dtype::I32, SampleRate::hz(1_000).unwrap(), channels).unwrap();
    let (name, station) = ("lab/probe".parse().unwrap(), "rig".to_owned());
    let description = Description { name, schema, report_port: 0, station, unknown: Default::default() };
    RelayedStream { description, origin: ORIGIN, first_position: 100 * E, deadline: None }
}

fn shares(of: &[(u8, Outcome, u64)]) -> HopCounts {
    of.iter().map(|&(hop, outcome, count)| HopShare { hop, outcome, count }).collect()
}

fn t0(position: u64) -> WallTime {
    let ms = i64::try_from(position / E).unwrap();
    WallTime::from_nanos(1_763_756_051_000_000_000 + ms * 1_000_000)
}

/// The origin publishes seven milliseconds earlier.
fn born() -> Instant {
    sys::clock::monotonic() - Duration::from_millis(7)
}

fn elements(relay: &mut RelayPublisher, positions: Range<u64>) {
    let bytes: Vec<u8> =
        positions.clone().flat_map(|position| i32::try_from(position).unwrap().to_le_bytes()).collect();
    let times = ElementTimes { t0: t0(positions.start), clock: Clock::Ptp, born: Some(born()) };
    relay.elements(positions.start, times, &bytes).unwrap();
}

/// Publishes with holes: 30 elements before the relay, and 23 between the relays, of which 20 wait for their
/// outcome at first.
fn publish(relay: &mut RelayPublisher) {
    let (lag, late) = (Outcome::Lost(Stage::ReaderLag), Outcome::Lost(Stage::Deadline));
    elements(relay, 300..340);
    relay.inherited(340..370, &shares(&[(0, lag, 30)]), None).unwrap();
    elements(relay, 370..401);
    relay.inherited(401..424, &shares(&[(1, late, 3), (1, Outcome::Unsettled, 20)]), None).unwrap();
    elements(relay, 424..450);
    relay.settled(&(401..424), &shares(&[(1, late, 23)])).unwrap();
    let hop = |station: &str, stage, count| UpstreamHop {
        station: station.to_owned(),
        lost: StageCounts::of(stage, count),
        unexplained: 0,
    };
    relay.upstream(vec![hop("rig", Stage::ReaderLag, 30), hop("gate", Stage::Deadline, 23)]).unwrap();
    elements(relay, 450..600);
}

/// Reads until the stream has ended; checks values and times.
fn read_to_the_end(subscriber: &mut Subscriber) -> StreamAccount {
    watch(subscriber, |event| match event {
        Event::Block(block) => {
            check_values(&block);
            None
        }
        Event::Ended(account) => Some(account),
        _ => None,
    })
}

fn check_values(block: &Block) {
    let first = block.first_index * E;
    for (value, position) in block.elements::<i32>().unwrap().iter().zip(first..) {
        let is_missing = block.missing.contains(position - first);
        assert_eq!(*value, if is_missing { 0 } else { i32::try_from(position).unwrap() });
    }
    assert_eq!(block.t0, t0(first));
}

fn check_account(account: &StreamAccount) {
    assert!(account.account.explained(), "{account:?}");
    let rows = account.account.elements;
    assert_eq!((account.origin, rows.first, rows.next), (Some(ORIGIN), 100, 200));
    assert_eq!((rows.delivered, rows.lost), (300 - 53, StageCounts::of(Stage::Source, 53)));
    let lost = [(0, Outcome::Lost(Stage::ReaderLag), 30), (1, Outcome::Lost(Stage::Deadline), 23)];
    assert_eq!(account.account.hops, shares(&lost));
    let json = account_json(account);
    assert_eq!(json["hops"][1]["lost"]["deadline"], 23);
    assert_eq!(json["origin"]["hop"], 2);
    let stations: Vec<_> = account.upstream.iter().map(|hop| hop.station.as_str()).collect();
    assert_eq!(stations, ["rig", "gate"]);
    assert_eq!(json["hops"][0]["station"], "rig");
}

/// A reader that waits where a relay publishes.
fn far_reader(bus: &Bus) -> Subscriber {
    node(bus).subscriber("lab/**").reader("far").open().unwrap()
}

fn relay_on(node: &Node) -> RelayPublisher {
    node.relay_publisher(stream()).unwrap()
}

#[test]
fn a_far_reader_in_shared_memory_knows_on_which_hop_elements_were_lost() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let bus: Bus = format!("shm://relayed?dir={}", directory.path().display()).parse().unwrap();
    let mut reader = far_reader(&bus);
    let mut relay = relay_on(&node(&bus));
    wait_until_joined(&mut reader);
    publish(&mut relay);
    drop(relay);
    let account = read_to_the_end(&mut reader);
    check_account(&account);
}

#[test]
fn a_far_reader_over_the_network_knows_on_which_hop_elements_were_lost() {
    let bus = bus();
    let mut reader = far_reader(&bus);
    let mut relay = relay_on(&node(&bus));
    wait_until_joined(&mut reader);
    publish(&mut relay);
    assert!(relay.close().finished);
    check_account(&read_to_the_end(&mut reader));
}

#[test]
fn losses_of_the_far_network_are_told_beside_those_of_the_hops_before() {
    let bus = bus_from_now();
    let mut reader = far_reader(&bus);
    let mut relay = relay_on(&node(&bus));
    wait_until_joined(&mut reader);
    elements(&mut relay, 300..303);
    relay.set_injection(0.3);
    for start in (303..3_303).step_by(30) {
        elements(&mut relay, start..start + 27);
        relay
            .inherited(start + 27..start + 30, &shares(&[(1, Outcome::Lost(Stage::Deadline), 3)]), None)
            .unwrap();
    }
    drop(relay);
    let account = read_to_the_end(&mut reader).account;
    assert!(account.explained(), "{account:?}");
    assert!(account.elements.lost[Stage::Injected] > 0, "{account:?}");
    assert_eq!(account.hops.total(), account.elements.lost[Stage::Source]);
    assert_eq!(account.hops.rows(1).lost[Stage::Deadline], account.hops.total());
}

/// Reads elements by a tap, and checks that their age is counted from their origin.
fn check_age(bus: &Bus) {
    let mut tap = node(bus).tap("lab/**").unwrap();
    let mut relay = relay_on(&node(bus));
    let watchdog = Watchdog::new("elements");
    let mut next = 300;
    let (tapped, now) = loop {
        elements(&mut relay, next..next + 3);
        next += 3;
        if let Some(TapRecord::Elements(tapped)) = tap.next(Duration::from_millis(20)).map(|it| it.record) {
            break (tapped, sys::clock::monotonic());
        }
        watchdog.check();
    };
    let age = now.since(tapped.born.expect("it came by a relay"));
    assert!(age >= Duration::from_millis(7), "{age:?}");
}

#[test]
fn the_next_relay_knows_the_age_since_the_origin_in_shared_memory_and_over_the_network() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    check_age(&format!("shm://relayed?dir={}", directory.path().display()).parse().unwrap());
    check_age(&bus());
}
