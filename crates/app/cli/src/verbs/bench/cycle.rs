//! `tallycast bench cycle`: the arguments of the cyclic exchange.

use std::time::Duration;

use bench::cycle::{Buffer, CpuLimit, EndOfRun, Options, Transport};
use clap::{Args, ValueEnum};
use units::text;

use super::handout::Handout;
use super::output;
use crate::Outcome;
use crate::quantity::{Durations, Probability};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench cycle                                   an array every 10 ms, without a processor quota
  tallycast bench cycle --cycle-times 1..14ms --html cycle.html
  tallycast bench cycle --cpus 0.05,0.1,0.3,1.5 --cycle-times 1..14ms --png cycle.png
  tallycast bench cycle --transports udp --receive-buffer 8MiB --json

A run is good if every callback k, from 0, comes by start + (k + 1) cycle times and enough cycles come complete.
Each repeat is a search of its own for the largest good array; docs/guide/bench.md says how to read the figures.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Transports to compare
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "udp,shm")]
    transports: Vec<Way>,
    /// Cycle times: 10ms, 1ms,2ms,5ms or 1..14ms
    #[arg(long, value_name = "DURATIONS", default_value = "10ms")]
    cycle_times: Durations,
    /// CPU quota of writer and reader together: 0.05,0.3 or max; enforced by a control group
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "max")]
    cpus: Vec<CpuLimit>,
    /// Period of the quota
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = text::duration)]
    quota_period: Duration,
    /// Cycles per run
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    cycles: u32,
    /// Searches per point
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
    /// Largest array to try, in elements of four bytes
    #[arg(long, value_name = "ELEMENTS", default_value = "1000000")]
    limit: u32,
    /// Resolution of a search, in elements
    #[arg(long, value_name = "ELEMENTS", default_value = "2")]
    step: u32,
    /// Callbacks of a run that may miss their deadline
    #[arg(long, value_name = "COUNT", default_value = "0")]
    max_late: u64,
    /// Share of a run's cycles that must arrive complete, rounded down to whole cycles
    #[arg(long, value_name = "PART", default_value = "99.95%")]
    min_complete: Probability,
    /// Largest datagram, including its header of 16 bytes
    #[arg(long, value_name = "SIZE", default_value = "65507", value_parser = text::size_bytes)]
    datagram: usize,
    /// Receive buffer of the reader [default: the system's]
    #[arg(long, value_name = "SIZE", value_parser = text::size_bytes)]
    receive_buffer: Option<usize>,
    /// Continue runs to the last cycle even when they have already failed
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
