//! Receive buffers that overflow and report it late, and processes that read rarely or stall.

use sim::{Address, Arrival, Host, Lineup, LostBy, Network, Node, Outcome, Socket};
use units::Instant;

use crate::part::{GROUP, Heard, PUBLISHER, Part, READER, at, micros};

/// One datagram of 100 bytes each 100 µs to a host; a datagram takes 868 bytes of its buffer.
fn scene(count: u64, host: Host) -> Network<Part> {
    Lineup::new(1)
        .publisher(Part::beacon(count, micros(100)))
        .group(GROUP)
        .host(host)
        .reader(Part::listener())
        .build()
}

fn heard(network: &Network<Part>) -> &[Heard] {
    &network.node(READER).listening().heard
}

#[test]
fn a_process_that_wakes_seldom_reads_in_batches_and_the_kernel_knows_better_when() {
    let mut network = scene(20, Host::ideal().reads_every(micros(1_000), 64));
    network.run_until(at(5_000));
    let listener = network.node(READER).listening();
    // At 0 there is one datagram; at 1,000 µs those since then; at 2,000 µs the rest, beginning with the one that
    // arrived just after the process had read.
    assert_eq!(listener.turns, 1 + 3, "the first turn reads nothing");
    assert!(heard(&network)[1..10].iter().all(|heard| heard.read == at(1_000)));
    assert!(heard(&network).iter().all(|heard| heard.arrived == at(heard.number * 100)));
}

#[test]
fn a_batch_is_bounded_and_the_rest_waits_for_the_next_cycle() {
    let mut network = scene(11, Host::ideal().reads_every(micros(1_000), 4));
    network.run_until(at(10_000));
    let read: Vec<_> = heard(&network)[1..].iter().map(|heard| heard.read).collect();
    let expected = [1, 1, 1, 1, 2, 2, 2, 2, 3, 3].map(|cycle| at(cycle * 1_000));
    assert_eq!(read, expected);
}

#[test]
fn drops_are_stamped_on_the_next_datagram_that_is_queued() {
    // The process stalls from 250 µs to 950 µs: numbers 3 to 9 arrive, and there is room for four of them.
    let host = Host::ideal().receive_buffer(4 * 868).stalls(at(250)..at(950));
    let mut network = scene(12, host);
    network.run_until(at(5_000));
    let stamps: Vec<_> = heard(&network).iter().map(|heard| (heard.number, heard.drops)).collect();
    let before = [0, 1, 2, 3, 4, 5, 6].map(|number| (number, None));
    let after = [10, 11].map(|number| (number, Some(3)));
    assert_eq!(stamps, [&before[..], &after].concat());
    let lost: Vec<u64> = network
        .log()
        .outcomes(READER)
        .into_iter()
        .filter(|(_, outcome)| *outcome == Outcome::Lost(LostBy::Buffer))
        .map(|(ordinal, _)| ordinal)
        .collect();
    assert_eq!(lost, [7, 8, 9]);
}

#[test]
fn drops_at_the_tail_show_in_the_meminfo_alone() {
    let host = Host::ideal().receive_buffer(4 * 868).stalls(at(250)..at(5_000));
    let mut network = scene(12, host);
    network.run_until(at(10_000));
    assert!(heard(&network).iter().all(|heard| heard.drops.is_none()));
    assert_eq!(network.node(READER).numbers(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(network.socket_drops(READER), 5);
    assert_eq!(network.node(READER).listening().meminfo, 5);
}

#[test]
fn a_stopped_process_keeps_no_deadline() {
    let mut network = Lineup::new(1)
        .host(Host::ideal().stalls(at(450)..at(2_000)))
        .reader(Part::beacon(10, micros(100)))
        .group(GROUP)
        .host(Host::ideal())
        .reader(Part::listener())
        .build();
    network.run_until(at(5_000));
    let read: Vec<_> = heard(&network).iter().map(|heard| heard.read).collect();
    assert_eq!(read[..5], [0, 100, 200, 300, 400].map(at));
    assert_eq!(read[5..], [at(2_000); 5]);
}

/// Records the order of its calls; its deadline is at 500 µs.
#[derive(Default)]
struct Diary(Vec<&'static str>);

impl Node for Diary {
    fn receive(&mut self, _now: Instant, _arrival: &Arrival<'_>) {
        self.0.push("datagram");
    }

    fn advance(&mut self, now: Instant) {
        self.0.push(if now < at(500) { "begin" } else { "deadline" });
    }

    fn poll(&mut self, _now: Instant, _socket: &mut Socket<'_>) -> Option<Instant> {
        (self.0.last() != Some(&"deadline")).then_some(at(500))
    }
}

#[test]
fn a_process_that_runs_again_reads_everything_before_its_deadlines() {
    let stalled = Host::ideal().stalls(at(400)..at(2_000));
    let mut network =
        Lineup::new(1).publisher(Diary::default()).host(stalled).reader(Diary::default()).build();
    network.run_until(at(600));
    network.act(PUBLISHER, |_, _, socket| {
        for _ in 0..100 {
            socket.send(Address::Node(READER), b"");
        }
    });
    network.run_until(at(5_000));
    let expected = [&["begin"][..], &["datagram"; 100], &["deadline"]].concat();
    assert_eq!(network.node(READER).0, expected);
}
