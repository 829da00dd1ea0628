//! `tallycast bench cost`: the arguments of the cost of moving data.

use anyhow::bail;
use bench::cost::{self, Options, Report};
use bench::notation::CpuPair;
use clap::Args;

use super::handout::Handout;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench cost                                    UDP, TCP and streams on this host, ten runs each
  tallycast bench cost -c 192.0.2.7 --repeat 100          between two hosts, with as many runs as Gu & Grossman 2005
  tallycast bench cost --transports udp,stream -b 1G --html cost.html

A cost is processor frequency per megabit per second, or cycles per bit; docs/guide/bench.md says what it includes.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    other_end: OtherEnd,
    #[command(flatten)]
    options: Options,
    /// Processor of this end's threads, and of the server's: 2 or 2,3
    #[arg(short = 'A', long, value_name = "CPU[,CPU]")]
    affinity: Option<CpuPair>,
    #[command(flatten)]
    handout: Handout,
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
            client_cpu: self.affinity.map(|cpus| cpus.client),
            server_cpu: self.affinity.and_then(|cpus| cpus.server),
            from: self.other_end.bind,
            ..self.options.clone()
        }
    }
}

fn judge(report: &Report) -> anyhow::Result<Outcome> {
    if report.transports.iter().all(|it| it.runs.iter().all(|run| run.bytes_received == 0)) {
        bail!("nothing could be measured\nsee the report for the reason");
    }
    Ok(if report.is_whole() { Outcome::Fine } else { Outcome::Found })
}
