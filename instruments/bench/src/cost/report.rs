//! Report of a measurement of costs: the object that `--json` prints, from which the other forms are made.
//!
//! Its form is published as `docs/reference/formats/bench-cost.schema.json`, which is made from these types.

use std::time::Duration;

use probe::{Moments, Summary, is_unsteady, mhz_per_mbit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::options::Options;
use super::source::{SourceHost, hosts};
use crate::processor::{FrequencySource, Processor};
use crate::report::{Course, End, Names, Row, Start, State, noise};
use crate::throughput::{self, Account, Protocol, RunReport};

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.cost";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 2;

/// Names of the transports.
const TRANSPORTS: [&str; 3] = [Protocol::Udp.name(), Protocol::Tcp.name(), Protocol::Stream.name()];

/// Report of `tallycast bench cost --json`. A cost is in MHz per Mbit/s, which is cycles per bit; no number is NaN.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Name of this format.
    #[schemars(extend("const" = FORMAT))]
    pub format: String,
    /// Version of this format.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// Time, hosts and settings.
    pub start: Start<Settings>,
    /// Every transport, in the order of measuring.
    pub transports: Vec<Measured>,
    /// The costs that Gu & Grossman 2005 measured on their hosts.
    pub source: Vec<SourceHost>,
    /// Median and spread, one row for each figure.
    pub rows: Vec<Row>,
    /// Reasons why the measurement is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
    /// Outcome.
    pub end: End,
}

/// Settings of the measurement, as given.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The transports that were compared.
    #[schemars(extend("items" = { "enum": TRANSPORTS }))]
    pub transports: Vec<String>,
    /// Payload bits per second.
    pub target_bitrate: u64,
    /// The payload of a UDP datagram.
    pub datagram_bytes: u64,
    /// The requested socket buffers.
    pub sock_bufsize: u64,
    /// Seconds of a run.
    pub duration: f64,
    /// Runs of each transport.
    #[schemars(range(min = 1))]
    pub runs: u32,
}

/// Describes the spread of a row of costs if it is too wide.
fn wide_cost(row: &Row) -> Option<String> {
    let end = match row.metric.as_str() {
        "send_mhz_per_mbit" => "sending",
        "receive_mhz_per_mbit" => "receiving",
        _ => return None,
    };
    noise::wide_spread(&format!("costs of {end} {} over {}", row.case, row.system), row)
}

/// The runs of a transport.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Name of the transport.
    #[schemars(extend("enum" = TRANSPORTS))]
    pub transport: String,
    /// Payload bytes of a unit: a datagram, or the bytes that one call handed over.
    pub blksize: u64,
    /// Every run.
    pub runs: Vec<Run>,
    /// Statistics of the complete runs.
    pub figures: Vec<Figure>,
    /// Reason why runs are missing; null if all are there.
    pub trouble: Option<String>,
}

/// A run: the client sends, the server receives.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Number of the run, from 0.
    pub run: u32,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes that arrived.
    pub bytes_received: u64,
    /// Payload bits that arrived, per second.
    pub bits_per_second: f64,
    /// Datagrams that did not arrive, in percent; null over TCP.
    #[schemars(with = "Option<Number>")]
    pub lost_percent: Option<f64>,
    /// Processor time of the sender.
    pub sender: Processor,
    /// Processor time of the receiver; null if it could not be read.
    pub receiver: Option<Processor>,
    /// Processor frequency per megabit per second sent; null where the frequency is not known.
    pub send_mhz_per_mbit: Option<f64>,
    /// Processor frequency per megabit per second received; null where the frequency is not known.
    pub receive_mhz_per_mbit: Option<f64>,
    /// Mean time from the sending call to the delivering read; null where the hosts have no clock in common.
    pub delay_ms: Option<f64>,
    /// Accounts of all data sent.
    pub accounts: Vec<Account>,
    /// Reason why the run is incomplete, and counts nowhere; null if it is complete.
    pub trouble: Option<String>,
    /// Reasons why the run is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
}

/// Statistics of one metric over the runs of a transport.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The metric.
    pub metric: Metric,
    /// The arithmetic mean, as in the paper.
    pub mean: f64,
    /// The standard deviation of a sample; null for a single run.
    pub standard_deviation: Option<f64>,
    /// The median.
    pub median: f64,
    /// First quartile.
    pub lower_quartile: f64,
    /// Third quartile.
    pub upper_quartile: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// Number of runs.
    #[schemars(range(min = 1))]
    pub runs: u64,
}

/// A metric of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Processor frequency per megabit per second sent.
    SendMhzPerMbit,
    /// Processor frequency per megabit per second received.
    ReceiveMhzPerMbit,
    /// The delay in both end systems.
    DelayMs,
}

impl Metric {
    /// All metrics, in the order of the paper's table.
    pub const ALL: [Self; 3] = [Self::SendMhzPerMbit, Self::ReceiveMhzPerMbit, Self::DelayMs];

    /// Returns its name, as in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendMhzPerMbit => "send_mhz_per_mbit",
            Self::ReceiveMhzPerMbit => "receive_mhz_per_mbit",
            Self::DelayMs => "delay_ms",
        }
    }

    /// Returns its unit.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::SendMhzPerMbit | Self::ReceiveMhzPerMbit => "MHz/(Mbit/s)",
            Self::DelayMs => "ms",
        }
    }

    /// Returns the value of a run.
    #[must_use]
    pub const fn of(self, run: &Run) -> Option<f64> {
        match self {
            Self::SendMhzPerMbit => run.send_mhz_per_mbit,
            Self::ReceiveMhzPerMbit => run.receive_mhz_per_mbit,
            Self::DelayMs => run.delay_ms,
        }
    }
}

impl Report {
    /// Returns the measurement of a transport.
    #[must_use]
    pub fn of(&self, protocol: Protocol) -> Option<&Measured> {
        self.transports.iter().find(|it| it.transport == protocol.name())
    }

    /// Returns whether every run of every transport is there and complete.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.end.state == State::Complete && self.transports.iter().all(|it| it.trouble.is_none())
    }
}

impl Measured {
    /// Summarises the runs of a transport.
    pub(crate) fn of(protocol: Protocol, blksize: u64, runs: Vec<Run>, trouble: Option<String>) -> Self {
        let (transport, figures) = (protocol.name().to_owned(), Vec::new());
        let mut it = Self { transport, blksize, runs, figures, trouble };
        let figure = |metric: &Metric| Figure::of(*metric, &it.values(*metric));
        it.figures = Metric::ALL.iter().filter_map(figure).collect();
        it
    }

    /// Returns the medians of its costs.
    pub(crate) fn rows(&self, settings: &Settings) -> Vec<Row> {
        let case = format!("{}B/{}Mbit/s", self.blksize, settings.target_bitrate / 1_000_000);
        let names = Names { bench: "cost", case: &case, system: &self.transport.to_lowercase() };
        let row = |metric: &Metric| Row::of(names, metric.name(), metric.unit(), &self.values(*metric));
        Metric::ALL.iter().filter_map(row).collect()
    }

    /// Returns the values of all complete runs.
    #[must_use]
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        let whole = self.runs.iter().filter(|run| run.trouble.is_none());
        whole.filter_map(|run| metric.of(run)).collect()
    }

    /// Returns the statistics of a metric.
    #[must_use]
    pub fn figure(&self, metric: Metric) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.metric == metric)
    }
}

impl Figure {
    fn of(metric: Metric, values: &[f64]) -> Option<Self> {
        let (summary, moments) = (Summary::of(values)?, Moments::of(values)?);
        Some(Self {
            metric,
            mean: moments.mean,
            standard_deviation: moments.standard_deviation,
            median: summary.median,
            lower_quartile: summary.lower_quartile,
            upper_quartile: summary.upper_quartile,
            min: summary.min,
            max: summary.max,
            runs: summary.count as u64,
        })
    }
}

impl Run {
    fn of(report: &throughput::Report, run: &RunReport) -> Self {
        let (sent, received) = (run.sums.sum_sent, run.sums.sum_received);
        let (bytes_sent, bytes_received) = (sent.map_or(0, |it| it.bytes), received.map_or(0, |it| it.bytes));
        let cost = |taken: &Processor, bytes: u64| {
            mhz_per_mbit(Duration::try_from_secs_f64(taken.cpu_seconds).ok()?, taken.mhz?, bytes * 8)
        };
        let flows = report.end.streams.iter().filter(|flow| flow.run == run.run);
        Self {
            run: run.run,
            bytes_sent,
            bytes_received,
            bits_per_second: received.map_or(0.0, |it| it.bits_per_second),
            lost_percent: received.and_then(|it| it.lost_percent),
            sender: run.client_processor,
            receiver: run.server_processor,
            send_mhz_per_mbit: cost(&run.client_processor, bytes_sent),
            receive_mhz_per_mbit: run.server_processor.and_then(|it| cost(&it, bytes_received)),
            delay_ms: received.and_then(|it| it.delay_ms),
            accounts: flows.filter_map(|flow| flow.account.clone()).collect(),
            trouble: run.trouble.clone(),
            noise: run.noise.clone(),
        }
    }
}

/// A report under construction.
pub(super) struct Builder {
    course: Course,
    start: Start<Settings>,
    transports: Vec<Measured>,
    noise: Vec<String>,
}

impl Builder {
    /// Begins, with the hosts of the first transport's measurement.
    pub(super) fn new(options: &Options, start: &throughput::Start) -> Self {
        let settings = Settings {
            transports: options.transports.iter().map(|it| it.name().to_owned()).collect(),
            target_bitrate: options.bits_per_second(),
            datagram_bytes: options.datagram_bytes as u64,
            sock_bufsize: options.buffer_bytes as u64,
            duration: options.duration.as_secs_f64(),
            runs: options.runs,
        };
        let start = start.clone().with(settings);
        Self { course: Course::default(), start, transports: Vec::new(), noise: Vec::new() }
    }

    /// Adds the runs of a transport.
    pub(super) fn add(&mut self, protocol: Protocol, report: throughput::Report) {
        let runs: Vec<Run> = report.end.runs.iter().map(|run| Run::of(&report, run)).collect();
        let trouble = match report.end.state {
            State::Complete => None,
            State::Interrupted => Some("it was ended early".to_owned()),
            State::BrokenOff => {
                let of_run = runs.iter().find_map(|run| run.trouble.clone());
                Some(of_run.unwrap_or_else(|| "it broke off".to_owned()))
            }
        };
        self.course.has_broken_off |= report.end.state == State::BrokenOff;
        self.course.note_all(&report.end.notes);
        let name = protocol.name();
        self.noise.extend(report.end.noise.iter().map(|noise| format!("{name}: {noise}")));
        self.transports.push(Measured::of(protocol, report.start.test_start.blksize, runs, trouble));
    }

    /// Adds a transport that could not be measured.
    pub(super) fn skip(&mut self, protocol: Protocol, reason: &str) {
        self.course.has_broken_off = true;
        self.transports.push(Measured::of(protocol, 0, Vec::new(), Some(reason.to_owned())));
    }

    pub(super) fn finish(self, was_interrupted: bool) -> Report {
        let Self { mut course, start, transports, mut noise } = self;
        let rows: Vec<Row> = transports.iter().flat_map(|it| it.rows(&start.test_start)).collect();
        noise.extend(rows.iter().filter_map(wide_cost));
        course.note_all(&limits(&start, &transports));
        let (source, end) = (hosts(), course.end(was_interrupted));
        Report { format: FORMAT.to_owned(), version: VERSION, start, transports, source, rows, noise, end }
    }
}

/// Returns notes on the limits of the figures.
fn limits(start: &Start<Settings>, transports: &[Measured]) -> Vec<String> {
    let runs = || transports.iter().flat_map(|it| &it.runs);
    let mut notes = Vec::new();
    if start.same_host {
        notes.push(
            "both ends are on one host: the kernel's work for receiving is charged to the sender's call, so that the \
             costs of sending and receiving can be added, but not compared"
                .to_owned(),
        );
    } else {
        notes.push("the delay was not measured: the two hosts have no clock in common".to_owned());
    }
    let senders: Vec<Processor> = runs().map(|run| run.sender).collect();
    let receivers: Vec<Processor> = runs().filter_map(|run| run.receiver).collect();
    if start.same_host {
        notes.extend(limits_of_frequency("the processors", &[senders, receivers].concat()));
    } else {
        notes.extend(limits_of_frequency("the processors of the client's host", &senders));
        notes.extend(limits_of_frequency("the processors of the server's host", &receivers));
    }
    notes
}

/// Returns a note on how well the frequency of a host's processors is known, from which a cost is computed.
fn limits_of_frequency(processors: &str, ends: &[Processor]) -> Vec<String> {
    let mut notes = Vec::new();
    if ends.iter().any(|end| end.mhz.is_none()) {
        notes.push(format!(
            "the frequency of {processors} is not reported here: costs are known as processor time only (`cpu_seconds`)"
        ));
    }
    if ends.iter().any(|end| end.mhz_source == Some(FrequencySource::Cpuinfo)) {
        notes.push(format!(
            "the frequency of {processors} is what /proc/cpuinfo says, in most virtual machines a nominal one: the \
             actual one is not known"
        ));
    }
    let least = ends.iter().filter_map(|end| end.least_mhz).reduce(f64::min);
    let most = ends.iter().filter_map(|end| end.most_mhz).reduce(f64::max);
    if let Some((least, most)) = least.zip(most).filter(|(least, most)| is_unsteady(*least, *most)) {
        notes.push(format!(
            "{processors} worked at {least:.0} to {most:.0} MHz: each sample of their frequency is weighted by the \
             busy time before it\nhold it with: sudo cpupower frequency-set -g performance"
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
