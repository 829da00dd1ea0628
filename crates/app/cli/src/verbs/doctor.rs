//! `tallycast doctor`: where datagrams die on this host, by the kernel's evidence, and what helps.

mod watch;

use clap::{Args, Subcommand};

use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast doctor watch                        losses of every UDP program of this host, as they happen
  tallycast doctor watch --port 7400            of one port, whatever program has it";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Tell losses as they happen: where, how many, by which counters, why, and what helps
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    match arguments.what {
        What::Watch(arguments) => watch::run(arguments),
    }
}
