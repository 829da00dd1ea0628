//! `tallycast bench multicast`: the arguments of one sender and many receivers.

use bench::control::Patience;
use bench::multicast::{self, Options};
use clap::Args;

use super::handout::Handout;
use super::outcome;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench multicast --receivers 8                 latency and loss of eight receivers on this host
  tallycast bench multicast -b 100M -l 1472 --netns --html multicast.html
  tallycast bench multicast -c 192.0.2.7 --receivers 4    loss of each; no latency without a shared clock

A latency is one way, from the call that sends a datagram to the read that delivers it.";

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
    let options = Options { from: arguments.other_end.bind, ..arguments.options.clone() };
    options.check()?;
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        Ok(multicast::measure(&options, scene.server(), Patience::default(), watch)?)
    })?;
    outcome(report.end.state, report.runs.iter().any(|run| !run.members.is_empty()))
}
