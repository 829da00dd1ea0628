//! Runs at work: accounts close, hosts and others take their share, and a run is its seed.

use core::time::Duration;
use std::time::Instant as Wall;

use dumbbell::{Flow, Hosts, Outcome, Path, Run};
use sim::CrossTraffic;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn flows(names: &[&str]) -> Vec<Flow> {
    names.iter().map(|name| Flow::named(name, "").expect("it is built in")).collect()
}

fn play(run: &Run) -> Outcome {
    let outcome = run.play(|_| true).expect("nobody stops it");
    let Outcome { sent_packets, delivered_packets, lost_packets, in_flight_packets, .. } = outcome;
    assert_eq!(sent_packets, delivered_packets + lost_packets + in_flight_packets);
    assert!(outcome.flows.iter().all(|flow| flow.stats.impossible_packets == 0));
    outcome
}

#[test]
#[ignore = "to measure"]
fn speed() {
    for (name, packet_bytes) in [("scalable", 1_500), ("udt", 1_500), ("udt", 9_000)] {
        let mut path = Path::new(10_000_000_000, 20 * MS);
        path.packet_bytes = packet_bytes;
        let began = Wall::now();
        let outcome = play(&Run::new(path, flows(&[name]), SECOND * 10));
        let took = began.elapsed().as_secs_f64();
        let packets = outcome.sent_packets as f64;
        println!(
            "{name} {packet_bytes}: {:.2} Gbit/s, {packets} packets, {took:.1} s, {:.3} us a packet; queue {:?}",
            outcome.goodput_bits_per_s() / 1e9,
            took * 1e6 / packets,
            outcome.mean_queue,
        );
    }
}
