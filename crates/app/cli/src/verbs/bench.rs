//! `tallycast bench`: what is measured lies in the crate of that name, one verb a file here.

mod cycle;
mod output;

use clap::{Args, Subcommand};

use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench cycle --cycle-times 1..14ms             the largest array every cycle, UDP and shared memory
  tallycast bench cycle --help                            every option of it

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
    /// Be one of the processes of `cycle`
    #[command(hide = true)]
    CycleWorker,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    match arguments.what {
        What::Cycle(arguments) => cycle::run(&arguments),
        What::CycleWorker => {
            bench::cycle::serve()?;
            Ok(Outcome::Fine)
        }
    }
}
