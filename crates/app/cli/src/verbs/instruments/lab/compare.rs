//! `tallycast lab compare`: controls on one path.

use std::time::Duration;

use clap::Args;
use units::text;

use super::Results;
use super::setting::Setting;
use crate::Outcome;
use crate::quantity::Probability;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast lab compare --cc reno,cubic,udt,bbr --rate 1G --rtt 20ms --loss 1e-5 --flows 4 --seeds 10
  tallycast lab compare --cc udt,cubic --rate 10G --rtt 20ms --lose 20000000 --duration 60s --mtu 9000 --png loss.png
  tallycast lab compare --cc all --hosts real --html compare.html --save compare.json

QUEUE is the queueing delay of a packet at the bottleneck. RENO: the goodput of a Reno flow that competes with the
control, relative to a Reno flow that competes with another Reno; at 1 the control takes nothing from it.";

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setting: Setting,
    /// Round-trip time without queueing
    #[arg(long, value_name = "DURATION", value_parser = text::duration, default_value = "20ms")]
    rtt: Duration,
    /// Loss probability of each packet, behind the bottleneck
    #[arg(long, value_name = "PART", default_value = "0")]
    loss: Probability,
    /// Leave out the runs against Reno: takes half the time
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
