//! `tallycast bench sweep`: throughput and loss over a grid of buffers, sizes, rates and loads.

use std::time::Duration;

use anyhow::bail;
use bench::control::Patience;
use bench::notation;
use bench::report::State;
use bench::sweep::{self, LossBelow, Options, Report};
use bench::throughput::Rate;
use clap::Args;

use super::handout::Handout;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;
use crate::quantity::Probability;

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
    /// Send buffers; `system` keeps the system's
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = buffer, default_value = "system")]
    send_buffers: Vec<Buffer>,
    /// Receive buffers; `system` keeps the system's
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = buffer, default_value = "system")]
    receive_buffers: Vec<Buffer>,
    /// Bytes in each datagram
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = notation::size, default_value = "64,256,1024,1472")]
    payloads: Vec<usize>,
    /// Sending rates: 100M, or 200kpps; 0 is as fast as possible
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', default_value = "0")]
    rates: Vec<Rate>,
    /// CPU load to put on the receiver's host, as a share of the time
    #[arg(long, alias = "burn", value_name = "PART,…", value_delimiter = ',', default_value = "0%")]
    cpu_load: Vec<Probability>,
    /// Threads that generate the CPU load [default: one per processor]
    #[arg(long, alias = "burn-workers", value_name = "COUNT")]
    cpu_load_workers: Option<u32>,
    /// Send trains of datagrams that the kernel handles as one packet (UDP_SEGMENT)
    #[arg(long)]
    gso: bool,
    /// Receive trains of datagrams as one packet (UDP_GRO); drops are then counted in trains
    #[arg(long)]
    gro: bool,
    /// Search the highest rate, up to each of --rates, with no more loss than this
    #[arg(long, value_name = "PART")]
    loss_below: Option<Probability>,
    /// Resolution of the search [default: a hundredth of the rate]
    #[arg(long, value_name = "RATE", requires = "loss_below")]
    step: Option<Rate>,
    /// Duration of a run: seconds, or a duration such as 500ms
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = notation::time)]
    time: Duration,
    /// Runs of each point
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
    #[command(flatten)]
    handout: Handout,
}

/// A socket buffer on the command line.
#[derive(Clone, Copy, Debug)]
struct Buffer(Option<usize>);

/// Measures.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let options = arguments.options();
    options.check()?;
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        let (server, from) = (scene.server(), arguments.other_end.bind);
        Ok(sweep::measure(&options, server, from, Patience::default(), watch)?)
    })?;
    judge(&report)
}

impl Arguments {
    fn options(&self) -> Options {
        let step = |payload: usize| self.step.map(|step| step.bits_per_second(payload));
        let smallest = self.payloads.iter().copied().min().unwrap_or(1);
        let buffers = |all: &[Buffer]| all.iter().map(|buffer| buffer.0).collect();
        Options {
            send_buffers: buffers(&self.send_buffers),
            receive_buffers: buffers(&self.receive_buffers),
            payloads: self.payloads.clone(),
            rates: self.rates.clone(),
            cpu_loads_ppm: self.cpu_load.iter().copied().map(ppm).collect(),
            cpu_load_workers: self.cpu_load_workers,
            duration: self.time,
            repeats: self.repeat,
            loss_below: self.loss_below.map(|most| LossBelow { most_ppm: ppm(most), step: step(smallest) }),
            gso: self.gso,
            gro: self.gro,
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a probability is from 0 to 1")]
fn ppm(part: Probability) -> u32 {
    (part.0 * 1e6).round() as u32
}

fn buffer(text: &str) -> Result<Buffer, notation::NotationError> {
    if text == "system" { Ok(Buffer(None)) } else { notation::size(text).map(|bytes| Buffer(Some(bytes))) }
}

fn judge(report: &Report) -> anyhow::Result<Outcome> {
    if report.points.is_empty() && report.end.state != State::Interrupted {
        bail!("nothing could be measured\nsee the report for the reason");
    }
    Ok(if report.end.state == State::Complete { Outcome::Fine } else { Outcome::Found })
}
