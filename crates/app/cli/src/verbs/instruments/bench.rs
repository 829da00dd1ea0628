//! `tallycast bench`: the measurements are in the crate of that name; here is one verb per file.

mod capacity;
mod cost;
mod cycle;
mod handout;
mod iperf3;
mod multicast;
mod output;
mod pingpong;
mod reproduce;
mod scene;
mod server;
mod sweep;
mod throughput;

use std::ffi::OsString;
use std::net::IpAddr;

use anyhow::bail;
use bench::report::State;
use clap::{Args, Subcommand};

use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench -s --listen 0.0.0.0                     wait for clients
  tallycast bench -s --listen 0.0.0.0 --key daq-1.keys    only for clients that the file or --peer lists
  tallycast bench -c 192.0.2.7 -u -b 100M                 measure to a server: throughput, loss and its causes
  tallycast bench throughput                              the same with both ends on this host
  tallycast bench -c 192.0.2.7 --iperf3 -u -b 100M        against a server of iperf3; -s --iperf3 serves its clients
  tallycast bench pingpong -c 192.0.2.7 -C all            round-trip time of messages from 1 byte to 9 MB
  tallycast bench multicast --receivers 8                 latency and loss of each member of a group
  tallycast bench capacity                                datagrams received per second, by threading model
  tallycast bench sweep --cpu-load 0%,50%                 throughput and loss against size, with and without load
  tallycast bench cycle --cycle-times 1..14ms             largest array per cycle over UDP and shared memory
  tallycast bench reproduce scollo                        reproduce a published comparison on this host

With --key the control connection is secured: who measures, what, and the figures. The data that are measured go in
clear, but for streams with --secured.
Every figure comes with its repeats, their spread and the state of this host.
Exit code 1: part of it could not be measured; the report has the reason.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    server: server::Arguments,
    #[command(flatten)]
    throughput: throughput::Arguments,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Throughput, loss and its causes, to another host or on this one
    #[command(after_help = throughput::EXAMPLES)]
    Throughput(throughput::Arguments),
    /// Round-trip time and rate at every message size, over TCP and in datagrams
    #[command(after_help = pingpong::EXAMPLES)]
    Pingpong(pingpong::Arguments),
    /// Latency and loss of each receiver of a multicast group
    #[command(after_help = multicast::EXAMPLES)]
    Multicast(multicast::Arguments),
    /// CPU cost of sending and receiving, and end-system delay: UDP, TCP and Tallycast streams
    #[command(after_help = cost::EXAMPLES)]
    Cost(cost::Arguments),
    /// Datagrams received per second, by processes or threads, at separate ports or a shared one
    #[command(after_help = capacity::EXAMPLES)]
    Capacity(capacity::Arguments),
    /// Throughput and loss over a grid of socket buffers, sizes, rates and CPU loads
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(sweep::Arguments),
    /// Largest array that two processes can exchange every cycle, over UDP and shared memory
    #[command(after_help = cycle::EXAMPLES)]
    Cycle(cycle::Arguments),
    /// Reproduce published measurements and compare their conclusions
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(reproduce::Arguments),
    /// Speak to iperf3's clients and servers
    #[command(hide = true, after_help = iperf3::EXAMPLES)]
    Iperf3(Box<iperf3::Arguments>),
    /// Run as one of the processes of `cycle`
    #[command(hide = true)]
    CycleWorker,
    /// Run as one of the receivers of `capacity`
    #[command(hide = true)]
    CapacityWorker,
    /// Run as the server of a measurement on this host
    #[command(hide = true)]
    ServerWorker {
        #[arg(long)]
        listen: IpAddr,
    },
}

/// The option that makes either end speak iperf3's protocol, with iperf3's own short options.
const IPERF3: &str = "--iperf3";

/// Reads `bench … --iperf3 …` as the verb with iperf3's short options: some of them have another meaning there, and
/// most cannot be combined with the other options.
pub(crate) fn as_iperf3(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let bench = arguments.iter().position(|word| word == "bench");
    let asked = arguments.iter().position(|word| word == IPERF3);
    if let (Some(bench), Some(asked)) = (bench, asked)
        && bench < asked
    {
        arguments.remove(asked);
        arguments.insert(bench + 1, "iperf3".into());
    }
    arguments
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    match arguments.what {
        None if arguments.server.server => {
            let other_end = &arguments.throughput.other_end;
            server::run(&arguments.server, other_end.port, &other_end.keys)
        }
        None => throughput::run(&arguments.throughput),
        Some(What::Throughput(arguments)) => throughput::run(&arguments),
        Some(What::Pingpong(arguments)) => pingpong::run(&arguments),
        Some(What::Multicast(arguments)) => multicast::run(&arguments),
        Some(What::Cost(arguments)) => cost::run(&arguments),
        Some(What::Capacity(arguments)) => capacity::run(&arguments),
        Some(What::Sweep(arguments)) => sweep::run(&arguments),
        Some(What::Cycle(arguments)) => cycle::run(&arguments),
        Some(What::Reproduce(arguments)) => reproduce::run(&arguments),
        Some(What::Iperf3(arguments)) => iperf3::run(&arguments),
        Some(What::CycleWorker) => {
            bench::cycle::serve()?;
            Ok(Outcome::Fine)
        }
        Some(What::CapacityWorker) => {
            bench::capacity::serve_worker()?;
            Ok(Outcome::Fine)
        }
        Some(What::ServerWorker { listen }) => server::run_for_parent(listen),
    }
}

/// Returns the outcome of a verb, given the state of its report. A report without figures is an error, unless the
/// measurement was interrupted.
fn outcome(state: State, has_figures: bool) -> anyhow::Result<Outcome> {
    if !has_figures && state != State::Interrupted {
        bail!("nothing could be measured\nsee the report for the reason");
    }
    Ok(if state == State::Complete { Outcome::Fine } else { Outcome::Found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iperf3_is_a_word_behind_bench() {
        let read = |line: &str| {
            let words = as_iperf3(line.split(' ').map(OsString::from));
            words.join(&OsString::from(" ")).into_string().unwrap()
        };
        assert_eq!(read("tallycast bench -c host --iperf3 -u"), "tallycast bench iperf3 -c host -u");
        assert_eq!(read("tallycast bench -s --iperf3"), "tallycast bench iperf3 -s");
        assert_eq!(read("tallycast bench -s"), "tallycast bench -s");
        assert_eq!(
            read("tallycast --iperf3 bench -s"),
            "tallycast --iperf3 bench -s",
            "an error, as it should be"
        );
    }
}
