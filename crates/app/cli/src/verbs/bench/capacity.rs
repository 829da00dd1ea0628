//! `tallycast bench capacity`: datagrams received per second, by number of receivers and threading model.

use std::time::Duration;

use anyhow::bail;
use bench::capacity::{self, Calls, Options, Report, ThreadingModel};
use bench::control::Patience;
use bench::notation;
use bench::report::State;
use bench::throughput::Rate;
use clap::Args;

use super::handout::Handout;
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
    /// Bytes in each datagram
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = notation::size, default_value = "1,100,1472")]
    payloads: Vec<usize>,
    /// Number of receivers
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', default_value = "1,2,4,8")]
    workers: Vec<u32>,
    /// Threading models of the receivers
    #[arg(
        long,
        alias = "structures",
        value_name = "MODEL,…",
        value_delimiter = ',',
        value_parser = threading_model,
        default_value = "own-processes,shared-threads,reuseport-threads"
    )]
    threading_models: Vec<ThreadingModel>,
    /// Rate of all senders together: 100M, or 200kpps; 0 is as fast as possible
    #[arg(short, long, value_name = "RATE")]
    bitrate: Option<Rate>,
    /// Sending threads [default: one per processor, half as many where both ends are on this host]
    #[arg(long, value_name = "COUNT")]
    senders: Option<u32>,
    /// Receive buffer of each socket [default: the system's]
    #[arg(short, long, value_name = "SIZE", value_parser = notation::size)]
    window: Option<usize>,
    /// Duration of a run: seconds, or a duration such as 500ms
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = notation::time)]
    time: Duration,
    /// Runs of each point
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
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
    judge(&report)
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            payloads: self.payloads.clone(),
            workers: self.workers.clone(),
            threading_models: self.threading_models.clone(),
            rate: self.bitrate,
            senders: self.senders,
            duration: self.time,
            repeats: self.repeat,
            receive_buffer_bytes: self.window,
            calls: match (self.gso, self.single_calls) {
                (true, _) => Calls::Trains,
                (_, true) => Calls::Single,
                _ => Calls::Batches,
            },
        }
    }
}

fn threading_model(name: &str) -> Result<ThreadingModel, String> {
    let names = || ThreadingModel::ALL.map(ThreadingModel::name).join(", ");
    let found = ThreadingModel::ALL.into_iter().find(|threading_model| threading_model.name() == name);
    found.ok_or_else(|| format!("unknown threading model\nchoose one of: {}", names()))
}

fn judge(report: &Report) -> anyhow::Result<Outcome> {
    if report.points.is_empty() && report.end.state != State::Interrupted {
        bail!("nothing could be measured\nsee the report for the reason");
    }
    Ok(if report.end.state == State::Complete { Outcome::Fine } else { Outcome::Found })
}
