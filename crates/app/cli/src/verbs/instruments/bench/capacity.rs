//! `tallycast bench capacity`: datagrams received per second, by number of receivers and threading model.

use bench::capacity::{self, Calls, Options};
use bench::control::Patience;
use clap::Args;

use super::handout::Handout;
use super::outcome;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench capacity                                    the grid of the UDP notes on this host, in three minutes
  tallycast bench capacity --payloads 1 --workers 1,2 --threading-models own-processes,shared-threads
  tallycast bench capacity -c 192.0.2.7 --html capacity.html  receivers on another host, at a server there
  tallycast bench capacity -b 200kpps --workers 4             at a given rate instead of full speed

Receivers: own-processes and own-threads have a port each, shared-threads one socket, reuseport-processes and
reuseport-threads a socket each at one port. docs/guide/bench.md says how to read the table.";

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    other_end: OtherEnd,
    #[command(flatten)]
    options: Options,
    /// Send trains of datagrams that the kernel segments (UDP_SEGMENT)
    #[arg(long)]
    gso: bool,
    /// Send and receive one datagram per system call
    #[arg(long, conflicts_with = "gso")]
    single_calls: bool,
    #[command(flatten)]
    handout: Handout,
}

/// Measures.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let options = arguments.options();
    options.check()?;
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        let (server, from) = (scene.server(), arguments.other_end.bind);
        Ok(capacity::measure(&options, server, from, Patience::default(), watch)?)
    })?;
    outcome(report.end.state, !report.points.is_empty())
}

impl Arguments {
    fn options(&self) -> Options {
        let calls = match (self.gso, self.single_calls) {
            (true, _) => Calls::Trains,
            (_, true) => Calls::Single,
            _ => Calls::Batches,
        };
        Options { calls, ..self.options.clone() }
    }
}
