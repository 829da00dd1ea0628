//! `tallycast bench cycle`: the arguments of the cyclic exchange.

use bench::cycle::Options;
use clap::Args;

use super::handout::Handout;
use super::output;
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench cycle                                   an array every 10 ms, without a processor quota
  tallycast bench cycle --cycle-times 1..14ms --html cycle.html
  tallycast bench cycle --cpus 0.05,0.1,0.3,1.5 --cycle-times 1..14ms --png cycle.png
  tallycast bench cycle --transports udp --receive-buffer 8MiB --json

A run is good if every callback k, from 0, comes by start + (k + 1) cycle times and enough cycles come complete.
Each repeat is a search of its own for the largest good array; docs/guide/bench.md says how to read the figures.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    handout: Handout,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    output::measure(&arguments.options, &arguments.handout, |_| {})
}
