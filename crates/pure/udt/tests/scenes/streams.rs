//! Streams arrive complete and in order, regardless of the path's effects on their packets.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use congestion::{Acked, CongestionControl, Environment, Factory, Lost, Policy};
use sim::{Link, Order, Passing};
use udt::{CloseReason, SocketType};
use units::Instant;

use crate::line::{MS, Work, config};
use crate::pair::{CLIENT, Path, SERVER, pair, run, stats};

fn stream(bytes: u64) -> Work {
    Work { send_bytes: bytes, closes: true, ..Work::default() }
}

/// Sends this many bytes over a path; all of them arrive, in order, and both ends know that the stream has ended.
fn arrives(seed: u64, path: Path, bytes: u64) -> sim::Network<crate::line::Host> {
    let kind = SocketType::Stream;
    let mut network = pair(seed, path, (config(kind), stream(bytes)), (config(kind), Work::default()));
    run(&mut network, 120);
    let (client, server) = (network.node(CLIENT).only(), network.node(SERVER).only());
    assert_eq!((server.received, server.wrong_bytes), (bytes, 0), "{}", network.scenario());
    assert_eq!(server.closed, Some(CloseReason::ByPeer), "{}", network.scenario());
    assert_eq!(client.closed, Some(CloseReason::Local), "{}", network.scenario());
    network
}

#[test]
fn every_size_arrives() {
    for bytes in [1, 1_455, 1_456, 1_457, 2_912, 100_000] {
        arrives(bytes, Path::of(5 * MS), bytes);
    }
}

#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    let network = arrives(1, Path::of(5 * MS), 3_000_000);
    assert_eq!(network.node(SERVER).only().wrong_bytes, 0);
    let stats = stats(&network, SERVER);
    assert_eq!((stats.duplicate_packets, stats.missing_packets, stats.refused_packets), (0, 0, 0));
}

#[test]
fn what_is_lost_is_sent_again() {
    for (forward, reverse) in [(0.001, 0.0), (0.05, 0.05), (0.3, 0.3)] {
        let link = |share| Link::ideal().delay(5 * MS).loss(share);
        arrives(7, Path { forward: link(forward), reverse: link(reverse) }, 300_000);
    }
}

#[test]
fn packets_that_overtake_each_other_or_come_twice_do_no_harm() {
    let forward = Link::ideal()
        .delay(5 * MS)
        .jitter(3 * MS, Order::Free)
        .duplicate(0.1, 2 * MS)
        .reorder(0.05, 20 * MS)
        .corrupt(0.01, sim::Corruption::Dropped);
    arrives(3, Path { forward: forward.clone(), reverse: forward }, 1_000_000);
}

#[test]
fn sequence_numbers_wrap() {
    let kind = SocketType::Stream;
    let mut near_the_end = config(kind);
    near_the_end.first_sequence = Some(0x7fff_ffff - 50);
    let path = Path { forward: Link::ideal().delay(2 * MS).loss(0.05), reverse: Link::ideal().delay(2 * MS) };
    let mut network = pair(5, path, (near_the_end, stream(400_000)), (config(kind), Work::default()));
    run(&mut network, 60);
    let server = network.node(SERVER).only();
    assert_eq!((server.received, server.wrong_bytes), (400_000, 0));
}

#[test]
fn both_ends_can_send_at_once() {
    let kind = SocketType::Stream;
    let work = Work { send_bytes: 500_000, ..Work::default() };
    let path = Path {
        forward: Link::ideal().delay(3 * MS).loss(0.01),
        reverse: Link::ideal().delay(3 * MS).loss(0.01),
    };
    let mut network = pair(2, path, (config(kind), work.clone()), (config(kind), work));
    network.run_until(Instant::ORIGIN + Duration::from_secs(20));
    for node in [CLIENT, SERVER] {
        assert_eq!((network.node(node).only().received, network.node(node).only().wrong_bytes), (500_000, 0));
    }
}

#[test]
fn a_reader_that_sleeps_stops_its_sender_and_goes_on_where_it_was() {
    let kind = SocketType::Stream;
    let mut small = config(kind);
    small.receive_buffer_packets = 64;
    let wakes = Instant::ORIGIN + Duration::from_secs(5);
    let server = Work { reads_from: wakes, ..Work::default() };
    let mut network = pair(4, Path::of(5 * MS), (config(kind), stream(500_000)), (small, server));
    network.run_until(wakes - MS);
    let before = stats(&network, CLIENT);
    assert!(before.sent_packets < 140, "{before:?}");
    assert_eq!(before.timeouts, 0, "a full buffer is no loss");
    run(&mut network, 30);
    let server = network.node(SERVER).only();
    assert_eq!((server.received, server.wrong_bytes), (500_000, 0));
    let done = server.done_at.unwrap();
    assert!(done < wakes + Duration::from_secs(1), "{done:?}");
}

#[test]
fn a_lost_tail_does_not_wait_for_the_long_timeout() {
    // The last of a hundred packets is the only short one; it is lost the first time.
    let passed = core::cell::Cell::new(None);
    let is_last = move |passing: &Passing<'_>| {
        let is_first_time = passing.bytes.len() == 16 + 56 && passed.get().is_none();
        passed.set(passed.get().or(is_first_time.then_some(passing.at)));
        is_first_time
    };
    let forward = Link::ideal().delay(5 * MS).lose_when("the last, once", is_last);
    let network = arrives(1, Path { forward, reverse: Link::ideal().delay(5 * MS) }, 99 * 1_456 + 56);
    let stats = stats(&network, SERVER);
    assert_eq!((stats.received_packets, stats.duplicate_packets), (100, 0));
    let done = network.node(SERVER).only().done_at.unwrap();
    assert!(done < Instant::ORIGIN + 250 * MS, "{done:?}");
}

#[test]
fn a_lost_report_is_repeated() {
    // One packet, and the first three datagrams that the server sends after it was found missing.
    let path = Path {
        forward: Link::ideal().delay(5 * MS).lose([10]),
        reverse: Link::ideal().delay(5 * MS).lose([2, 3, 4]),
    };
    arrives(1, path, 200_000);
}

#[test]
fn a_bottleneck_is_filled_without_a_collapse() {
    let forward = Link::ideal().delay(10 * MS).rate(50_000_000, 100_000);
    let network = arrives(1, Path { forward, reverse: Link::ideal().delay(10 * MS) }, 5_000_000);
    let done = network.node(SERVER).only().done_at.unwrap();
    // 50 Mbit/s carry it in 0.85 s.
    assert!(done < Instant::ORIGIN + 2_000 * MS, "{done:?}");
}

/// A control with 50 packets in flight that records every round trip.
#[derive(Clone, Default, Debug)]
struct Listening(Arc<Mutex<Vec<Duration>>>);

impl CongestionControl for Listening {
    fn policy(&self) -> Policy {
        Policy::window(50.0)
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, acked: &Acked) {
        self.0.lock().expect("nobody panics").extend(acked.round_trip);
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}
}

impl Factory for Listening {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

#[test]
fn a_round_trip_is_the_ways_and_not_the_timers() {
    let heard = Listening::default();
    let kind = SocketType::Stream;
    let mut listening = config(kind);
    listening.congestion = Arc::new(heard.clone());
    let path = Path {
        forward: Link::ideal().delay(5 * MS).lose([100, 101, 230]),
        reverse: Link::ideal().delay(5 * MS),
    };
    let mut network = pair(1, path, (listening, stream(1_000_000)), (config(kind), Work::default()));
    run(&mut network, 60);
    let heard = heard.0.lock().unwrap();
    assert!(heard.len() > 50, "{}", heard.len());
    // The delay of an acknowledgement is reported in whole microseconds.
    let odd: Vec<&Duration> =
        heard.iter().filter(|sample| **sample < 10 * MS || **sample >= 10 * MS + MS / 1_000).collect();
    assert!(odd.is_empty(), "{odd:?}");
}
