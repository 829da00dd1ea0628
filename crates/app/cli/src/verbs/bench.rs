//! `tallycast bench`: what is measured lies in the crate of that name, one verb a file here.

mod cycle;
mod iperf3;
mod output;
mod reproduce;

use clap::{Args, Subcommand};

use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench cycle --cycle-times 1..14ms             the largest array every cycle, UDP and shared memory
  tallycast bench reproduce 004                           a published comparison, done again on this host

Every figure comes with its repeats, their spread and the state of this host.
Exit code 1: some of it could not be measured, and the report says why.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// The largest array two processes exchange every cycle, over UDP and shared memory
    #[command(after_help = cycle::EXAMPLES)]
    Cycle(cycle::Arguments),
    /// Do a document's measurements again, and compare its conclusions
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(reproduce::Arguments),
    /// Speak to iperf3's clients and servers
    #[command(hide = true, after_help = iperf3::EXAMPLES)]
    Iperf3(Box<iperf3::Arguments>),
    /// Be one of the processes of `cycle`
    #[command(hide = true)]
    CycleWorker,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    match arguments.what {
        What::Cycle(arguments) => cycle::run(&arguments),
        What::Reproduce(arguments) => reproduce::run(&arguments),
        What::Iperf3(arguments) => iperf3::run(&arguments),
        What::CycleWorker => {
            bench::cycle::serve()?;
            Ok(Outcome::Fine)
        }
    }
}
