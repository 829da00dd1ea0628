//! One-way delay of a datagram to a reader: half of a round trip, for the limit, a stream and `sockperf` in turn.

use anyhow::{Context, Result};
use peers::place::{Place, Side};
use peers::{Row, percentile};

use crate::Bench;
use crate::limit::{self, Waiting};
use crate::peer::{self, Server};
use crate::stream_latency;

const SOCKPERF: &str = "sockperf";
/// Minimum message size of sockperf. Units: bytes.
const SOCKPERF_BYTES: usize = 14;
/// Duration of a run: sockperf runs for whole seconds.
const SECONDS: f64 = 1.0;

/// Delays of one run. Units: microseconds.
#[derive(Clone, Copy, Debug)]
struct Delays {
    p50: f64,
    p99: f64,
}

impl Delays {
    /// Computes the percentiles of `sorted`, the delays of one run.
    fn of(sorted: &[f64]) -> Self {
        Self { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
    }
}

/// Measures blocking and spinning readers.
pub(crate) fn measure(bench: &Bench, place: &Place) -> Result<()> {
    for (waiting, name) in [(Waiting::Blocking, "blocking"), (Waiting::Spinning, "spinning")] {
        let case = format!("{}/one-way/{name}", place.name);
        if !bench.leaves_out(&case) {
            measure_case(bench, place, waiting, &case)?;
        }
    }
    Ok(())
}

fn measure_case(bench: &Bench, place: &Place, waiting: Waiting, case: &str) -> Result<()> {
    let has_sockperf = bench.has_peer(SOCKPERF);
    let (mut bare, mut streams, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for repeat in 1..=bench.runs {
        bench.interrupt.check()?;
        bench.progress(&format!("{case} ({repeat} of {})", bench.runs));
        bare.push(Delays::of(&limit::delays(place, waiting, SECONDS)?));
        // All threads of a stream's side share one processor: if one of them spun, the others would wait for it.
        if waiting == Waiting::Blocking {
            streams.push(Delays::of(&stream_latency::delays(place, SECONDS)?));
        }
        if has_sockperf {
            peers.push(sockperf(place, waiting).with_context(|| format!("{case}: {SOCKPERF}"))?);
        }
    }
    for (system, delays) in [("limit", &bare), ("tallycast", &streams), (SOCKPERF, &peers)] {
        if delays.is_empty() {
            continue;
        }
        for (metric, value) in
            [("p50", (|delays| delays.p50) as fn(&Delays) -> f64), ("p99", |delays| delays.p99)]
        {
            let runs: Vec<f64> = delays.iter().map(value).collect();
            bench.report.row(&Row { case, system, metric, unit: "us", runs: &runs });
        }
    }
    Ok(())
}

fn sockperf(place: &Place, waiting: Waiting) -> Result<Delays> {
    let (address, port) = (place.reader.to_string(), peer::port(place).to_string());
    let standing = ["-i", &address, "-p", &port];
    let waiting = (waiting == Waiting::Spinning).then_some("--nonblocked");
    let mut serve = peer::command(place, Side::Reader, SOCKPERF)?;
    serve.arg("server").args(standing).args(waiting);
    let server = Server::start(serve, "to block on socket")?;
    let mut call = peer::command(place, Side::Source, SOCKPERF)?;
    call.arg("ping-pong").args(standing).args(waiting);
    call.args(["-m", &SOCKPERF_BYTES.to_string(), "-t", &SECONDS.to_string()]);
    let said = peer::output(call)?;
    drop(server);
    let share = |share: &str| {
        let line = said.lines().find(|line| line.contains(&format!("percentile {share}")));
        let value = line.and_then(|line| line.split_once('=')).map(|(_, value)| value.trim());
        let value = value.with_context(|| format!("no percentile {share} in its output: {said}"))?;
        value.parse().with_context(|| format!("unexpected value `{value}`"))
    };
    Ok(Delays { p50: share("50.000")?, p99: share("99.000")? })
}
