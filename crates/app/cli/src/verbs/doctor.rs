//! `tallycast doctor`: losses of datagrams on this host, from the kernel's evidence, and their remedies.

mod audit;
mod fix;
mod load;
mod names;
mod preflight;
mod text;
mod watch;

use clap::{Args, Subcommand};
use doctor::Wanted;

use crate::Outcome;
use crate::settings::Sources;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast doctor audit                        is this host set up for continuous data?
  tallycast doctor preflight                    do groups work between hosts? run on both at the same time
  tallycast doctor watch                        losses of every UDP program of this host, as they happen
  tallycast doctor watch --port 7400            of one port, in any program
  sudo tallycast doctor fix --port 7400         apply a remedy, measure, keep it only if it helped
  sudo tallycast doctor undo                    undo it";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

/// Selection of sockets.
#[derive(Args, Debug)]
struct Selection {
    /// Only sockets of this port, of any process; may be given several times
    #[arg(long = "port", short, value_name = "PORT")]
    ports: Vec<u16>,
    /// Only sockets of this process; may be given several times
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,
}

impl From<Selection> for Wanted {
    fn from(Selection { ports, pids }: Selection) -> Self {
        Self { ports: ports.into_iter().collect(), pids: pids.into_iter().collect() }
    }
}

#[derive(Subcommand, Debug)]
enum What {
    /// Check the setup of this host: buffers, limits, interfaces, clock, disks, with reasons and remedies
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::Arguments),
    /// Test whether a multicast group works between hosts, in both directions, and lasts: run on all of them at the same time
    #[command(after_help = preflight::EXAMPLES)]
    Preflight(preflight::Arguments),
    /// Report losses as they happen: place, count, counters, cause and remedies
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::Arguments),
    /// Evaluate an event file of `watch` again, from any host
    #[command(after_help = watch::REPLAY_EXAMPLES)]
    Replay(watch::ReplayArguments),
    /// Apply a remedy, measure again, and keep it only if it helped
    #[command(after_help = fix::EXAMPLES)]
    Fix(fix::Arguments),
    /// Undo the changes of `fix`
    #[command(after_help = fix::UNDO_EXAMPLES)]
    Undo(fix::UndoArguments),
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    match arguments.what {
        What::Audit(arguments) => audit::run(arguments, sources),
        What::Preflight(arguments) => preflight::run(arguments, sources),
        What::Watch(arguments) => watch::run(arguments, sources),
        What::Replay(arguments) => watch::replay(arguments),
        What::Fix(arguments) => fix::run(arguments),
        What::Undo(arguments) => fix::undo(arguments),
    }
}
