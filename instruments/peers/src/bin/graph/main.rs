//! The processing graph: what 200 nodes cost the monitor server that read a million values per second in all.
//!
//! One process publishes 200 streams, and each node reads one of them. The monitor server is the real one, started anew for
//! each run; its processor time is that of its whole process. A run whose nodes have a hole is an error. Options: [`Bench`].

mod nodes;
mod server;
mod source;

use anyhow::{Context, Result, ensure};
use peers::place::Place;
use peers::process::{Process, Role, plays};
use peers::{Bench, Extent, Standing};

use nodes::{Kind, Nodes};
use server::Computing;

/// Nodes of a graph, and streams that they read.
const NODES: usize = 200;
/// Samples of one stream per second, each with one value: all nodes together read a million.
const RATE_HZ: u32 = 5_000;

fn main() -> Result<()> {
    if plays(&[Role::new("source", source::publish)])? {
        return Ok(());
    }
    let bench = Bench::begin("graph", Extent { runs: 5, seconds: 10.0 }, Extent { runs: 1, seconds: 2.0 })?;
    let Extent { runs, seconds } = bench.extent;
    bench.introduce(&format!(
        "medians of {runs} runs of {seconds} s, each with a monitor server of its own; {NODES} streams of {RATE_HZ} samples/s, \
         one value each, in blocks of 20 ms"
    ));
    let cases = [
        ("no-nodes", Nodes::none()),
        ("200-nodes/derive", Nodes::of(&[Kind::Derive])),
        ("200-nodes/mixed", Nodes::of(Kind::ALL)),
    ];
    for (name, nodes) in cases {
        let Some(case) = bench.case(name.to_owned()) else { continue };
        let taken = case.in_turn(&mut [("tallycast", nodes)], |nodes| run(&bench, nodes))?;
        case.row("tallycast", "processor_time", "cores", taken[0].runs.iter().map(|run| run.cores));
        case.row("tallycast", "read", "/s", taken[0].runs.iter().filter_map(|run| run.values_per_s));
    }
    Ok(())
}

/// Figures of one run.
struct Run {
    /// Processor time of the server by time elapsed.
    cores: f64,
    /// Values that its nodes read per second, if there are any.
    values_per_s: Option<f64>,
}

fn run(bench: &Bench, nodes: &Nodes) -> Result<Run> {
    let place = Place::loopback()?;
    let bus = format!("udp://239.84.0.0:{}?iface={}", place.port, place.interface);
    let mut source = Process::start("source", Standing::Anywhere, &bus)?;
    source.hear::<()>("ready")?;
    let monitor = Computing::start(bench.command()?, &bus, nodes)?;
    source.go()?;
    monitor.wait_until_all_read(bench)?;
    let before = monitor.look_when_shown()?;
    std::thread::sleep(std::time::Duration::from_secs_f64(bench.extent.seconds));
    let after = monitor.look_when_shown()?;
    let seconds = (after.at - before.at).as_secs_f64();
    let values = nodes.values(&after.offered).checked_sub(nodes.values(&before.offered));
    let values = values.context("the nodes' totals went back: one of them began anew")?;
    let holes = after.holes - before.holes;
    ensure!(holes == 0, "the nodes have {holes} samples in holes: the host is too busy to measure");
    let values_per_s = (nodes.len() > 0).then_some(values as f64 / seconds);
    Ok(Run { cores: (after.cpu_s - before.cpu_s) / seconds, values_per_s })
}

/// Returns the name of a stream that a node reads.
fn input(number: usize) -> String {
    format!("bench/in/{number}")
}
