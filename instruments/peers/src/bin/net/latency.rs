//! One-way delay of a datagram to a reader: half of a round trip, for the limit, a stream and `sockperf` in turn.

use anyhow::{Context, Result, ensure};
use peers::place::{Place, Side};
use peers::{Bench, Case, Server, Standing, quantiles};
use serde::Serialize;

use crate::limit::{Ping, Waiting};
use crate::peer;
use crate::stream_latency::Meeting;

const SOCKPERF: &str = "sockperf";
/// Minimum message size of sockperf. Units: bytes.
const SOCKPERF_BYTES: usize = 14;
/// Duration of a run: sockperf runs for whole seconds.
const SECONDS: f64 = 1.0;
/// The median and the tail of the delays of one run.
pub(crate) const SHARES: [f64; 2] = [0.5, 0.99];

type Delays = [f64; SHARES.len()];

/// Measures blocking and spinning readers.
pub(crate) fn measure(bench: &Bench, place: &Place) -> Result<()> {
    for (waiting, name) in [(Waiting::Blocking, "blocking"), (Waiting::Spinning, "spinning")] {
        let Some(case) = bench.case(format!("{}/one-way/{name}", place.name)) else { continue };
        let bare = || ping_pong(place, ["limit-ping", "limit-pong"], &Ping::new(place, waiting, SECONDS));
        let stream = || ping_pong(place, ["stream-ping", "stream-pong"], &Meeting::new(place, SECONDS));
        let sockperf = || sockperf(place, waiting);
        let mut systems: Vec<(_, &dyn Fn() -> Result<Delays>)> = vec![("limit", &bare)];
        // All threads of a stream's side share one processor: if one of them spun, the others would wait for it.
        if waiting == Waiting::Blocking {
            systems.push(("tallycast", &stream));
        }
        if peer::is_there(bench, SOCKPERF) {
            systems.push((SOCKPERF, &sockperf));
        }
        let taken = case.in_turn(&mut systems, |run| run())?;
        taken.iter().for_each(|it| rows(&case, it.system, "us", &it.runs));
    }
    Ok(())
}

/// Prints the delays of a system.
pub(crate) fn rows(case: &Case<'_>, system: &str, unit: &str, runs: &[Delays]) {
    for (index, metric) in ["p50", "p99"].into_iter().enumerate() {
        case.row(system, metric, unit, runs.iter().map(|delays| delays[index]));
    }
}

/// Runs two roles against each other; the first measures the delays one way. Units: microseconds.
fn ping_pong(place: &Place, [ping, pong]: [&'static str; 2], order: &impl Serialize) -> Result<Delays> {
    let mut other = place.start(Side::Reader, pong, Standing::Reader { index: 0 }, order)?;
    other.hear::<()>("ready")?;
    let mut one = place.start(Side::Source, ping, Standing::Source, order)?;
    let delays: Vec<f64> = one.hear("delays")?;
    ensure!(!delays.is_empty(), "no round trip completed in time");
    Ok(quantiles(delays, SHARES))
}

fn sockperf(place: &Place, waiting: Waiting) -> Result<Delays> {
    let (address, port) = (place.reader.to_string(), peer::port(place).to_string());
    let standing = ["-i", &address, "-p", &port];
    let waiting = (waiting == Waiting::Spinning).then_some("--nonblocked");
    let mut serve = peer::command(place, Side::Reader, SOCKPERF)?;
    let _server = Server::start(serve.arg("server").args(standing).args(waiting), "to block on socket")?;
    let mut call = peer::command(place, Side::Source, SOCKPERF)?;
    call.arg("ping-pong").args(standing).args(waiting);
    call.args(["-m", &SOCKPERF_BYTES.to_string(), "-t", &SECONDS.to_string()]);
    let said = peer::output(call)?;
    let share = |share: &str| {
        let line = said.lines().find(|line| line.contains(&format!("percentile {share}")));
        let value = line.and_then(|line| line.split_once('=')).map(|(_, value)| value.trim());
        let value = value.with_context(|| format!("no percentile {share} in its output: {said}"))?;
        value.parse().with_context(|| format!("unexpected value `{value}`"))
    };
    Ok([share("50.000")?, share("99.000")?])
}
