//! `tallycast bench cost`: the arguments of the cost of moving data.

use std::time::Duration;

use anyhow::bail;
use bench::cost::{self, Options, Report};
use bench::notation::{self, CpuPair};
use bench::throughput::{Protocol, Rate};
use clap::{Args, ValueEnum};

use super::handout::Handout;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench cost                                    UDP, TCP and streams on this host, ten runs each
  tallycast bench cost -c 192.0.2.7 --runs 100            between two hosts, with as many runs as Gu & Grossman 2005
  tallycast bench cost --transports udp,stream -b 1G --html cost.html

A cost is processor frequency per megabit per second, or cycles per bit; docs/guide/bench.md says what it includes.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    other_end: OtherEnd,
    /// Transports to compare
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "udp,tcp,stream")]
    transports: Vec<Transport>,
    /// Rate of each flow
    #[arg(short, long, value_name = "RATE", default_value = "100M")]
    bitrate: Rate,
    /// Bytes per datagram, or per write to TCP
    #[arg(short, long, value_name = "SIZE", default_value = "1472", value_parser = notation::size)]
    length: usize,
    /// Socket buffers
    #[arg(short, long, value_name = "SIZE", default_value = "1M", value_parser = notation::size)]
    window: usize,
    /// Duration of a run: seconds, or a duration such as 500ms
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = notation::time)]
    time: Duration,
    /// Runs of each transport
    #[arg(long, value_name = "COUNT", default_value = "10")]
    runs: u32,
    /// Processor of this end's threads, and of the server's: 2 or 2,3
    #[arg(short = 'A', long, value_name = "CPU[,CPU]")]
    affinity: Option<CpuPair>,
    #[command(flatten)]
    handout: Handout,
}

/// A transport on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    /// Datagrams
    Udp,
    /// A connection
    Tcp,
    /// A Tallycast stream
    Stream,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let options = arguments.options();
    options.check()?;
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        Ok(cost::measure(&options, scene.server(), watch)?)
    })?;
    judge(&report)
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            transports: self.transports.iter().map(|it| it.protocol()).collect(),
            bits_per_second: self.bitrate.bits_per_second(self.length),
            datagram_bytes: self.length,
            buffer_bytes: self.window,
            duration: self.time,
            runs: self.runs,
            client_cpu: self.affinity.map(|cpus| cpus.client),
            server_cpu: self.affinity.and_then(|cpus| cpus.server),
            from: self.other_end.bind,
        }
    }
}

impl Transport {
    const fn protocol(self) -> Protocol {
        match self {
            Self::Udp => Protocol::Udp,
            Self::Tcp => Protocol::Tcp,
            Self::Stream => Protocol::Stream,
        }
    }
}

fn judge(report: &Report) -> anyhow::Result<Outcome> {
    if report.transports.iter().all(|it| it.runs.iter().all(|run| run.bytes_received == 0)) {
        bail!("nothing could be measured\nsee the report for the reason");
    }
    Ok(if report.is_whole() { Outcome::Fine } else { Outcome::Found })
}
