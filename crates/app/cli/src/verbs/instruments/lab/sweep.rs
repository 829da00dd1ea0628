//! `tallycast lab sweep`: goodput over loss and round trip.

use std::time::Duration;

use cc_lab::Sweep;
use clap::Args;
use units::text;

use super::Results;
use super::setting::Setting;
use crate::Outcome;
use crate::quantity::Probability;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast lab sweep --cc reno,cubic,udt,bbr --html sweep.html
  tallycast lab sweep --cc udt --rate 1G --losses 0,1e-5,1e-3 --rtts 1ms,20ms,110ms --seeds 1 --json";

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setting: Setting,
    /// Loss probabilities of each packet
    #[arg(long, value_name = "PART,…", value_delimiter = ',', default_value = "0,1e-5,1e-4,1e-3,1e-2")]
    losses: Vec<Probability>,
    /// Round-trip times without queueing
    #[arg(long, value_name = "DURATION,…", default_value = "2ms,20ms,100ms", value_parser = text::durations)]
    rtts: text::Durations,
    #[command(flatten)]
    results: Results,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let comparison = |round_trip: &Duration| arguments.setting.comparison(*round_trip, 0.0);
    let comparisons = arguments.rtts.iter().map(comparison).collect::<anyhow::Result<Vec<_>>>()?;
    let losses = arguments.losses.iter().map(|loss| loss.0).collect();
    let sweep = Sweep { comparisons, losses };
    arguments.results.of(|goes_on| sweep.play(goes_on), |report| &report.cells)
}
