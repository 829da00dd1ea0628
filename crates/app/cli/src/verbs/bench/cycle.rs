//! `tallycast bench cycle`: the arguments of the cyclic exchange.

use std::time::Duration;

use bench::cycle::{Buffer, CpuLimit, EndOfRun, Options, Transport};
use clap::{Args, ValueEnum};

use super::handout::Handout;
use super::output;
use crate::Outcome;
use crate::quantity::{self, Durations, Probability};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench cycle                                   an array every 10 ms, without a processor quota
  tallycast bench cycle --cycle-times 1..14ms --html cycle.html
  tallycast bench cycle --cpus 0.05,0.1,0.3,1.5 --cycle-times 1..14ms --png cycle.png
  tallycast bench cycle --transports udp --receive-buffer 8MiB --json

A run is good if every callback k, from 0, comes by start + (k + 1) cycle times and enough cycles come complete.
Each repeat is a search of its own for the largest good array; docs/bench.md says how to read the figures.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// What is compared
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "udp,shm")]
    transports: Vec<Way>,
    /// One array every so often: 10ms, 1ms,2ms,5ms or 1..14ms
    #[arg(long, value_name = "DURATIONS", default_value = "10ms")]
    cycle_times: Durations,
    /// How many CPUs writer and reader may take together: 0.05,0.3 or max; enforced by a control group
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "max")]
    cpus: Vec<CpuLimit>,
    /// How often a quota is given anew
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = quantity::duration)]
    quota_period: Duration,
    /// Cycles in a run
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    cycles: u32,
    /// Searches at each point
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
    /// The largest array to try, in elements of four bytes
    #[arg(long, value_name = "ELEMENTS", default_value = "1000000")]
    limit: u32,
    /// How close a search comes to the largest good array, in elements
    #[arg(long, value_name = "ELEMENTS", default_value = "2")]
    step: u32,
    /// How many callbacks of a run may come after their deadline
    #[arg(long, value_name = "COUNT", default_value = "0")]
    max_late: u64,
    /// Which part of a run's cycles must come complete, rounded down to whole cycles
    #[arg(long, value_name = "PART", default_value = "99.95%")]
    min_complete: Probability,
    /// The largest datagram, with its header of 16 bytes
    #[arg(long, value_name = "SIZE", default_value = "65507", value_parser = quantity::size_bytes)]
    datagram: usize,
    /// The reader's socket buffer; without it the system's default
    #[arg(long, value_name = "SIZE", value_parser = quantity::size_bytes)]
    receive_buffer: Option<usize>,
    /// Let runs that cannot be good any more go on to their last cycle
    #[arg(long)]
    whole_runs: bool,
    #[command(flatten)]
    handout: Handout,
}

/// A transport on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// Datagrams over the loopback interface
    Udp,
    /// A ring in shared memory
    Shm,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    output::measure(&arguments.options(), &arguments.handout, |_| {})
}

impl Arguments {
    fn options(&self) -> Options {
        let limits = probe_limits(self.max_late, self.min_complete);
        Options {
            transports: self.transports.iter().map(|way| way.transport()).collect(),
            cycle_times: self.cycle_times.0.clone(),
            cpus: self.cpus.clone(),
            quota_period: self.quota_period,
            cycles: self.cycles,
            repeats: self.repeat,
            limit: self.limit,
            step: self.step,
            limits,
            datagram_bytes: self.datagram,
            receive_buffer: self.receive_buffer.map_or(Buffer::System, Buffer::Bytes),
            end_of_run: if self.whole_runs { EndOfRun::LastCycle } else { EndOfRun::WhenSettled },
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a probability is from 0 to 1")]
fn probe_limits(late_allowed: u64, complete: Probability) -> bench::cycle::Limits {
    bench::cycle::Limits { late_allowed, complete_ppm: (complete.0 * 1e6).round() as u32 }
}

impl Way {
    const fn transport(self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Shm => Transport::Shm,
        }
    }
}
