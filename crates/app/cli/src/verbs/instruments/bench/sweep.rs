//! `tallycast bench sweep`: throughput and loss over a grid of buffers, sizes, rates and loads.

use bench::control::Patience;
use bench::sweep::{self, Options};
use clap::Args;

use super::handout::Handout;
use super::outcome;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench sweep --cpu-load 0%,50% --html sweep.html      against datagram size, without and with CPU load
  tallycast bench sweep --receive-buffers 64K,256K,1M,4M --payloads 1472
  tallycast bench sweep --rates 1G --loss-below 0.1% --receive-buffers 64K,1M --payloads 1472
                                                                 the highest rate at which at most 0.1 % is lost
  tallycast bench sweep -c 192.0.2.7 --rates 50M,100M --csv sweep.csv

Every combination of the listed values is a point. docs/guide/bench.md says how to read the report.";

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    other_end: OtherEnd,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    handout: Handout,
}

/// Measures.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.options.check()?;
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        let (server, from) = (scene.server(), arguments.other_end.bind);
        Ok(sweep::measure(&arguments.options, server, from, Patience::default(), watch)?)
    })?;
    outcome(report.end.state, !report.points.is_empty())
}
