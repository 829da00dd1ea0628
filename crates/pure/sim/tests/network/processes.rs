//! Processes that are late, busy, randomly stalled, or have their own clock.

use core::time::Duration;

use sim::{Clock, Costs, Host, Lateness, Lineup, Network, NodeId};
use units::Instant;

use crate::part::{GROUP, Part, READER, at, micros};

const ZERO: Duration = Duration::ZERO;

/// One datagram each 100 µs from one host to another.
fn scene(count: u64, sender: Host, receiver: Host) -> Network<Part> {
    Lineup::new(5)
        .host(sender)
        .reader(Part::beacon(count, micros(100)))
        .group(GROUP)
        .host(receiver)
        .reader(Part::listener())
        .build()
}

fn reads(network: &Network<Part>) -> Vec<Instant> {
    network.node(READER).listening().heard.iter().map(|heard| heard.read).collect()
}

#[test]
fn a_coarse_timer_fires_at_its_steps() {
    let mut network = scene(5, Host::ideal().timer_step(micros(250)), Host::ideal());
    network.run_until(at(1_000));
    assert_eq!(reads(&network), [0, 250, 250, 500, 500].map(at));
}

#[test]
fn a_process_that_slept_is_late_by_what_was_said() {
    let lateness = Lateness { usual: micros(5), rare: 0.01, most: micros(2_000) };
    let mut network = scene(20_000, Host::ideal(), Host::ideal().wakes_late(lateness));
    network.run_until(at(3_000_000));
    let heard = &network.node(READER).listening().heard;
    let mut late: Vec<u128> = heard.iter().map(|heard| heard.read.since(heard.arrived).as_nanos()).collect();
    late.sort_unstable();
    let share = |part: usize| late[late.len() * part / 1_000];
    assert!((4_000..6_000).contains(&share(500)), "{} ns", share(500));
    assert!(share(850) <= 10_000, "{} ns", share(850));
    // One in a hundred wake-ups is late by a millisecond on average, in which ten datagrams arrive.
    assert!(share(990) > 500_000, "{} ns", share(990));
    assert!(*late.last().unwrap() <= 2_000_000);
}

#[test]
fn a_process_does_one_thing_after_the_other() {
    // 30 µs per turn and 40 µs per datagram: a single datagram takes 70 µs, and none waits.
    let costs =
        |received| Costs { turn: micros(30), received: micros(received), send_call: ZERO, sent: ZERO };
    let mut network = scene(100, Host::ideal(), Host::ideal().costs(costs(40)));
    network.run_until(at(20_000));
    // The first one waits for the node's initial turn.
    assert_eq!(reads(&network)[0], at(30));
    assert_eq!(reads(&network)[1..], (1..100).map(|number| at(number * 100)).collect::<Vec<_>>());
    // At 140 µs each, datagrams arrive faster than they are read, and one in 140 µs gets through.
    let host = Host::ideal().costs(costs(140)).receive_buffer(10 * 868);
    let mut network = scene(10_000, Host::ideal(), host);
    network.run_until(at(1_000_000));
    let (delivered, drops) = (network.log().counts(READER).delivered, network.socket_drops(READER));
    assert!((6_900..=7_150).contains(&delivered), "{delivered} in a second");
    let unread = network.log().counts(READER).unread;
    assert_eq!(delivered + unread + u64::from(drops), 10_000);
}

#[test]
fn sending_takes_its_time_by_the_call_and_by_the_datagram() {
    let costs = Costs { turn: ZERO, received: ZERO, send_call: micros(100), sent: micros(50) };
    let mut network = scene(1_000, Host::ideal().costs(costs), Host::ideal());
    network.run_until(at(1_000_000));
    // Each in its own call: all thousand take 150 ms.
    let last = *reads(&network).last().unwrap();
    assert!((at(148_000)..at(152_000)).contains(&last), "{last:?}");
}

#[test]
fn stalls_by_chance_are_as_many_and_as_long_as_was_said() {
    let host = Host::ideal().stalls_now_and_then(micros(50_000), micros(1_000)..micros(9_000));
    let mut network = scene(100_000, Host::ideal(), host);
    network.run_until(at(11_000_000));
    let heard = &network.node(READER).listening().heard;
    let late: Vec<u64> =
        heard.iter().map(|heard| heard.read.since(heard.arrived).as_micros() as u64).collect();
    assert!(late.iter().all(|late| *late < 9_000));
    // 10 s hold about 182 stalls: 50 ms between them, 5 ms each.
    let stalled: u64 = late.iter().filter(|late| **late > 0).count() as u64;
    assert!((7_500..10_500).contains(&stalled), "{stalled} of 100,000 datagrams waited");
}

#[test]
fn a_node_runs_on_its_own_clock() {
    let clock = Clock { offset: Duration::from_secs(7), skew_ppb: 100_000 };
    let mut network = scene(10_001, Host::ideal(), Host::ideal().clock(clock));
    network.run_until(at(2_000_000));
    let heard = &network.node(READER).listening().heard;
    assert_eq!(heard[0].arrived, at(7_000_000));
    // A second later it shows 100 µs more.
    assert_eq!((heard[10_000].arrived, heard[10_000].read), (at(8_000_100), at(8_000_100)));
    // A sender with a fast clock sends more often.
    let fast = Clock { offset: ZERO, skew_ppb: 100_000_000 };
    let mut network = scene(100_000, Host::ideal().clock(fast), Host::ideal());
    network.run_until(at(999_950));
    assert_eq!(network.log().counts(NodeId(1)).delivered, 11_000);
}
