//! RBUDP's blasts over the real transport, compared with their closed form, and FOBS, which does not wait.

use core::time::Duration;

use sim::Link;
use udt::{SocketConfig, SocketType};
use units::Instant;

use crate::controls::built_in;
use crate::line::{SECOND, Work, config};
use crate::pair::{CLIENT, Path, SERVER, pair, stats};

/// Number of packets of a blast in the scenes.
const BLAST: u64 = 4_000;
const BLAST_ROUND_TRIP: Duration = Duration::from_millis(20);

/// Sends this many full packets in blasts over a round-trip time of 20 ms; returns the time until all had arrived.
fn blast(packets: u64, paths: [Link; 2], server: SocketConfig) -> (Duration, udt::Stats) {
    blast_by("rbudp", 1, packets, paths, server)
}

/// Sends a blast by a control with a given seed.
fn blast_by(
    control: &str,
    seed: u64,
    packets: u64,
    [forward, reverse]: [Link; 2],
    server: SocketConfig,
) -> (Duration, udt::Stats) {
    let half = BLAST_ROUND_TRIP / 2;
    let path = Path { forward: forward.delay(half), reverse: reverse.delay(half) };
    let client = built_in(control, "rate=100m");
    let work = Work { send_bytes: packets * 1_456, ..Work::default() };
    let mut network = pair(seed, path, (client, work), (server, Work::default()));
    network.run_until(Instant::ORIGIN + SECOND * 20);
    let (client, server) = (network.node(CLIENT).only(), network.node(SERVER).only());
    assert_eq!((server.received, server.wrong_bytes), (packets * 1_456, 0));
    let began = client.connected_at.expect("it sent");
    (server.done_at.expect("all arrived").since(began), stats(&network, CLIENT))
}

/// The rate is that of the client: the server's has no effect.
fn blasted() -> SocketConfig {
    built_in("rbudp", "rate=1g")
}

/// The closed form, until the last packet has arrived: no query is needed for that. Units: seconds.
fn blast_form(packets_per_s: f64, q: f64) -> f64 {
    let packets = BLAST as f64;
    let rounds = if q > 0.0 { 1.0 + (packets.ln() / (1.0 / q).ln()).ceil() } else { 1.0 };
    let sending = packets / packets_per_s * (1.0 - q.powf(rounds)) / (1.0 - q);
    // The silence before a query is 5 ms. A lost one is repeated after 40 ms, the next after 80, and so on.
    let again = 0.04 * q / (1.0 - q).powi(2);
    sending + (rounds - 1.0) * (0.02 + 0.005 + again) + 0.01
}

#[test]
fn a_blast_takes_the_time_of_its_closed_form() {
    for q in [0.0, 0.01, 0.1, 0.3] {
        let lossy = if q > 0.0 { Link::ideal().loss(q) } else { Link::ideal() };
        let mut all: Vec<(f64, u64, f64)> = (1..=9)
            .map(|seed| {
                let paths = [lossy.clone(), Link::ideal()];
                let (took, stats) = blast_by("rbudp", seed, BLAST, paths, blasted());
                // Each packet is sent 1/(1 - q) times.
                let times = stats.sent_packets as f64 / BLAST as f64;
                (took.as_secs_f64(), stats.timeouts, times * (1.0 - q))
            })
            .collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        // Chance decides for the last packet whether there is a round more or less, of 25 ms.
        let ((median, timeouts, times), expected) = (all[4], blast_form(100e6 / 12_000.0, q));
        assert!(timeouts == 0 && (times - 1.0).abs() < 0.05, "q={q}: {all:?}");
        assert!((median / expected - 1.0).abs() < 0.06, "q={q}: {median} s for {expected} s, {all:?}");
    }
}

/// Twice as fast as the link: every second packet is lost, and it takes little longer than the link needs.
#[test]
fn a_blast_that_is_too_fast_costs_rounds() {
    let link = Link::ideal().rate(50_000_000, 30_000);
    let (took, stats) = blast(BLAST, [link, Link::ideal()], blasted());
    let needs = BLAST as f64 * 1_538.0 * 8.0 / 50e6;
    let rounds = 1.0 + (BLAST as f64).ln() / 2.0_f64.ln();
    let expected = needs + rounds * 0.025;
    let part = took.as_secs_f64() / expected;
    assert!((part - 1.0).abs() < 0.15, "{took:?} for {expected} s");
    assert!(stats.sent_packets as f64 > 1.7 * BLAST as f64, "{}", stats.sent_packets);
}

#[test]
fn a_blast_to_a_peer_that_does_not_know_the_question_goes_by_its_reports() {
    let other = config(SocketType::Stream);
    let (took, stats) = blast(BLAST, [Link::ideal().loss(0.1), Link::ideal()], other);
    assert!(stats.received_naks > 0);
    // The time of sending, and three queries of 300 ms without an answer: no acknowledgement has given the round
    // trip. Packets lost again wait for the repeated reports.
    assert!(took < Duration::from_millis(2_500), "{took:?}");
}

#[test]
fn blasts_arrive_though_questions_and_answers_are_lost_and_the_peers_buffer_is_small() {
    for (packets, q) in [(BLAST, 0.3), (5 * BLAST, 0.1)] {
        let link = || Link::ideal().loss(q);
        let mut server = blasted();
        server.receive_buffer_packets = 3_000;
        let sending = packets as f64 / (100e6 / 12_000.0) / (1.0 - q);
        let mut all: Vec<(f64, u64, f64)> = (1..=9)
            .map(|seed| {
                let (took, stats) = blast_by("rbudp", seed, packets, [link(), link()], server.clone());
                let times = stats.sent_packets as f64 / packets as f64;
                (took.as_secs_f64(), stats.timeouts, times * (1.0 - q))
            })
            .collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        // After several lost answers in a row the wait grows, and a sender without any answer relies on reports and
        // timeouts: half of them have better luck.
        let (took, timeouts, times) = all[4];
        assert!(took < 3.0 * sending && timeouts == 0 && times < 1.1, "{all:?} for {sending} s of sending");
    }
}

#[test]
fn fobs_repeats_while_it_sends_and_waits_only_for_its_tail() {
    for q in [0.0, 0.01, 0.1, 0.3] {
        let lossy = if q > 0.0 { Link::ideal().loss(q) } else { Link::ideal() };
        let mut all: Vec<(f64, f64)> = (1..=9)
            .map(|seed| {
                let server = built_in("fobs", "rate=1g");
                let (took, stats) = blast_by("fobs", seed, BLAST, [lossy.clone(), Link::ideal()], server);
                let times = stats.sent_packets as f64 / BLAST as f64;
                (took.as_secs_f64(), times * (1.0 - q))
            })
            .collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (median, times) = all[4];
        let sending = BLAST as f64 / (100e6 / 12_000.0) / (1.0 - q) + 0.01;
        println!("q={q}: {all:?} for {sending}");
        assert!(median < sending + 0.2 && times < 1.1, "q={q}: {all:?} for {sending} s of sending");
    }
}
