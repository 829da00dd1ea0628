//! Ten thousand readers, whose reports must not exceed their share of the stream's bandwidth.

use ledger::LedgerConfig;
use sim::{Address, Lineup, Link, NodeId, Order};
use units::Instant;

use crate::line::feed::Holes;
use crate::line::reader::Reader;
use crate::line::scene::{EPOCH, StreamShape, publisher};
use crate::line::{GROUP, Part, at};

const READERS: usize = 10_000;
/// The budget of a slow stream. Units: bit/s.
const BUDGET: f64 = 8_000.0;
/// Window over which the budget must hold. Units: milliseconds.
const WINDOW: u64 = 20_000;
const END: u64 = 120_000;
/// Size of the IPv4 and UDP headers.
const HEADERS_BYTES: usize = 28;

#[test]
fn ten_thousand_readers_keep_their_reports_within_the_budget() {
    // One value every ten seconds: nearly all traffic is tallies and descriptions.
    let shape = StreamShape { hz: 1, block_samples: 10, ..StreamShape::PLAIN };
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(END), Holes::NONE);
    let delay = Link::lan().jitter(core::time::Duration::from_millis(2), Order::Free);
    let mut network = Lineup::new(7)
        .publisher(Part::Publisher(Box::new(publisher)))
        .group(GROUP)
        .link(delay.clone())
        .reverse_link(delay)
        .readers(READERS, |index| {
            Part::Reader(Box::new(Reader::light(index as u64, LedgerConfig::default())))
        })
        .build();
    network.run_until(at(END));
    let reports: Vec<(Instant, usize)> = network
        .log()
        .all_sent()
        .filter(|sent| sent.to == Address::Node(NodeId(0)))
        .map(|sent| (sent.at, (sent.bytes.len() + HEADERS_BYTES) * 8))
        .collect();
    let bits = |from: u64, to: u64| -> f64 {
        let within = reports.iter().filter(|(sent, _)| (at(from)..at(to)).contains(sent));
        within.map(|(_, bits)| *bits as f64).sum()
    };
    for from in (0..END).step_by(WINDOW as usize) {
        let rate = bits(from, from + WINDOW) / (WINDOW as f64 / 1e3);
        println!("{:>3} s: {rate:>5.0} bit/s", from / 1_000);
        assert!(rate <= BUDGET, "{rate} bit/s of reports from {from} ms on");
    }
    let overall = bits(0, END) / (END as f64 / 1e3);
    assert!(overall <= BUDGET, "{overall} bit/s of reports over all");
    let known = network.node(NodeId(0)).publisher().sender().expect("alive").readers().count();
    assert!(known > 100, "{known} readers were heard");
}
