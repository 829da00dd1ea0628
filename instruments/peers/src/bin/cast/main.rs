//! A stream from publisher to reader over multicast: the highest loss-free rate, processor time per datagram on
//! each side, latency to a reader and to the page, and a ring writer's cost for its readers.
//!
//! Publisher and reader are processes of their own (this program starts itself again in either role), so that
//! each side's CPU time is its own. The reference is a *plain* pair: the same datagrams over the
//! same sockets and system calls, without stream, account or ring; what a stream costs is the ratio of the two.
//!
//! `--json` prints rows as objects; `--command PATH` is the `tallycast` whose monitor server is measured.

mod latency;
mod page;
mod peer;
mod plain;
mod ring_writer;
mod stream;
mod throughput;

use std::path::PathBuf;

use anyhow::{Result, bail};
use peers::Report;
use peers::interrupt::Interrupt;
use peers::place::{ETHERNET_MTU, Place};

use peer::Pair;

/// Number of runs per figure.
const RUNS: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--role") {
        return play(&arguments[at + 1..]);
    }
    let command = arguments.iter().position(|argument| argument == "--command");
    let command = command.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let interrupt = Interrupt::watch()?;
    let report = Report::from_arguments("cast");
    report.note("medians of 5 runs (smallest – largest); a run with a missing datagram is not loss-free");
    ring_writer::measure(&report);
    measure_network(&report, &Place::loopback()?, &interrupt)?;
    match Place::veth("veth", ETHERNET_MTU)? {
        Ok(veth) => measure_network(&report, &veth, &interrupt)?,
        Err(reason) => report.note(&format!("veth: not measured: {reason}")),
    }
    match command {
        Some(command) => page::measure(&report, &command, &interrupt)?,
        None => report.note("page: not measured: --command PATH names the tallycast to measure"),
    }
    Ok(())
}

fn measure_network(report: &Report, place: &Place, interrupt: &Interrupt) -> Result<()> {
    let mut pairs = [Pair::plain(place)?, Pair::stream(place)?];
    throughput::measure(report, place, &mut pairs, interrupt)?;
    latency::measure(report, place, &mut pairs, interrupt)
}

/// Runs one side of a pair; it ends with its standard input.
fn play(arguments: &[String]) -> Result<()> {
    let [role, address, interface] = arguments else { bail!("a role needs an address and an interface") };
    match role.as_str() {
        "stream-source" => stream::source(address, interface),
        "stream-reader" => stream::reader(address, interface),
        "plain-source" => plain::source(address, interface),
        "plain-reader" => plain::reader(address, interface),
        other => bail!("unknown role `{other}`"),
    }
}
