//! `tallycast bench multicast`: the arguments of one sender and many receivers.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::bail;
use bench::control::Patience;
use bench::multicast::{self, Options};
use bench::report::State;
use bench::throughput::Rate;
use clap::Args;

use super::handout::Handout;
use super::notation;
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
    /// Multicast group
    #[arg(long, value_name = "GROUP", default_value = "239.84.7.2")]
    group: Ipv4Addr,
    /// Number of receivers at the other end
    #[arg(long, value_name = "COUNT", default_value = "3")]
    receivers: u32,
    /// Sending rate: 1000pps, 100M
    #[arg(short, long, value_name = "RATE", default_value = "1000pps", value_parser = notation::rate)]
    bitrate: Rate,
    /// Bytes in a datagram
    #[arg(short, long, value_name = "SIZE", default_value = "1000", value_parser = notation::size)]
    length: usize,
    /// Receive buffers [default: the system's]
    #[arg(short, long, value_name = "SIZE", value_parser = notation::size)]
    window: Option<usize>,
    /// Duration of a run: seconds, or a duration such as 500ms
    #[arg(short, long, value_name = "TIME", default_value = "5", value_parser = notation::time)]
    time: Duration,
    /// Number of runs
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
    #[command(flatten)]
    handout: Handout,
}

/// Measures.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let options = arguments.options();
    options.check()?;
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        Ok(multicast::measure(&options, scene.server(), Patience::default(), watch)?)
    })?;
    if report.end.state == State::BrokenOff && report.runs.iter().all(|run| run.members.is_empty()) {
        bail!("nothing could be measured\nsee the report for the reason");
    }
    Ok(if report.end.state == State::Complete { Outcome::Fine } else { Outcome::Found })
}

impl Arguments {
    const fn options(&self) -> Options {
        Options {
            group: self.group,
            receivers: self.receivers,
            rate: self.bitrate,
            payload_bytes: self.length,
            buffer_bytes: self.window,
            duration: self.time,
            repeats: self.repeat,
            from: self.other_end.bind,
        }
    }
}
