//! `tallycast lab compare`: controls on one path.

use std::time::Duration;

use clap::Args;

use super::Results;
use super::setting::Setting;
use crate::Outcome;
use crate::quantity::{self, Probability};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast lab compare --cc reno,cubic,udt,bbr --rate 1G --rtt 20ms --loss 1e-5 --flows 4 --seeds 10
  tallycast lab compare --cc udt,cubic --rate 10G --rtt 20ms --lose 20000000 --duration 60s --mtu 9000 --png loss.png
  tallycast lab compare --cc all --hosts real --html compare.html --save compare.json

QUEUE is how long a packet would have waited before the bottleneck. RENO KEEPS: what one Reno flow gets beside one
of the control, of what it gets beside another Reno; 1 takes nothing from it.";

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setting: Setting,
    /// How long a packet takes there and its acknowledgement back, without any queue
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "20ms")]
    rtt: Duration,
    /// The probability of each packet to be lost on its way, behind the bottleneck
    #[arg(long, value_name = "PART", default_value = "0")]
    loss: Probability,
    /// Leave out the runs beside Reno: it takes half the time
    #[arg(long)]
    without_reno: bool,
    #[command(flatten)]
    results: Results,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut comparison = arguments.setting.comparison(arguments.rtt, arguments.loss.0)?;
    comparison.against_reno = !arguments.without_reno;
    arguments.results.of(|goes_on| comparison.play(goes_on), |report| &report.standings)
}
