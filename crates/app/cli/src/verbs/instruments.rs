//! The verbs that measure networks, hosts and congestion controls, available with the feature `instruments`.

pub(crate) mod bench;
mod files;
mod lab;
mod link;
mod pending;

use clap::Subcommand;

use crate::Outcome;

/// The verbs of the instruments.
#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "one value, made once when the program starts")]
pub(crate) enum Verb {
    /// Measure throughput, latency and CPU cost, with repeats, spread and the state of the host
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::Arguments),
    /// Emulate a network path with rate, delay, queue and loss, to test programs over it
    #[command(after_help = link::EXAMPLES)]
    Link(link::Arguments),
    /// Compare congestion controls in the virtual network: seeded, packet by packet
    #[command(after_help = lab::EXAMPLES)]
    Lab(lab::Arguments),
}

impl Verb {
    /// Does it.
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Bench(arguments) => bench::run(arguments),
            Self::Link(arguments) => link::run(&arguments),
            Self::Lab(arguments) => lab::run(&arguments),
        }
    }
}
