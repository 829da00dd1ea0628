//! What a bench found: the object that `--json` prints, from which tables and figures are made.
//!
//! Its form is published as `docs/formats/bench-cycle.schema.json`; a test compares the two.

use drawing::FigureError;
use probe::Summary;
use probe::cycle::{Account, Verdict};
use serde::{Deserialize, Serialize};

use super::message::AccountWords;
use super::options::{Buffer, EndOfRun, Options};
use super::transport::Transport;
use super::{csv, figure, page};
use crate::host::Host;
use crate::host_state::Link;
use crate::report::{Forms, Row};
use crate::scollo::Comparison;

/// What kind of object it is.
pub const FORMAT: &str = "tallycast.bench.cycle";
/// The version of its form; a change that a reader must know of raises it.
pub const VERSION: u32 = 1;

/// How many processors others may keep busy before a search is called noisy.
const QUIET_CPUS: f64 = 0.2;
/// How far repeats may spread, as a share of their median, before a point is called noisy.
const QUIET_SPREAD: f64 = 0.5;

/// All that a bench found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// When, where and what.
    pub start: Start,
    /// Every point, in the order of measuring.
    pub points: Vec<Point>,
    /// The points' medians, one row each, in the form all benches share.
    pub rows: Vec<Row>,
    /// The published measurement that this run reproduces, its conclusions compared with ours; null otherwise.
    pub source: Option<Comparison>,
    /// How it ended.
    pub end: End,
}

/// When a bench began, where, and what it was to measure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The version of this program.
    pub tallycast: String,
    /// The host.
    pub host: Host,
    /// The loopback interface, by which datagrams go; null if it cannot be found.
    pub interface: Option<Link>,
    /// What was to be measured.
    pub options: Settings,
}

/// The options of a bench, as told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The transports that were compared.
    pub transports: Vec<Transport>,
    /// The cycle times.
    pub cycle_times_ns: Vec<u64>,
    /// The processors that writer and reader may take together; null without a limit.
    pub cpus: Vec<Option<f64>>,
    /// How often a quota is given anew.
    pub quota_period_ns: u64,
    /// Cycles in each run.
    pub cycles: u32,
    /// Searches at each point.
    pub repeats: u32,
    /// The largest number of elements that was to be tried.
    pub limit: u32,
    /// How close a search comes.
    pub step: u32,
    /// How many callbacks may be late.
    pub late_allowed: u64,
    /// Which part of the cycles must come complete, in millionths.
    pub complete_ppm: u32,
    /// The largest datagram, header included.
    pub datagram_bytes: u64,
    /// The receive buffer that was asked for; null for the system's default.
    pub receive_buffer_bytes: Option<u64>,
    /// When a run that cannot be good any more ends: `settled` or `last_cycle`.
    pub end_of_run: String,
}

/// One point of a figure: a cycle time, a transport, a quota.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The transport.
    pub transport: Transport,
    /// The cycle time.
    pub cycle_time_ns: u64,
    /// The processors that writer and reader may take together; null without a limit.
    pub cpus: Option<f64>,
    /// What was found.
    pub outcome: Outcome,
}

/// What was found at a point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// Something was measured.
    Measured {
        /// Median and spread of the searches' element counts.
        #[serde(rename = "multiplicity")]
        elements: Spread,
        /// Why the point is not to be relied on; empty when all was quiet.
        noise: Vec<String>,
        /// Every search.
        searches: Vec<Search>,
        /// Why there are fewer repeats than were asked for: the next one could not be measured. Null if it is not so.
        broken_off: Option<String>,
    },
    /// It was not tried.
    Skipped {
        /// Why, and what to do.
        reason: String,
    },
    /// It was tried and could not be measured.
    Failed {
        /// Why, and what to do.
        reason: String,
    },
}

/// Five numbers that stand for repeats.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// A quarter lies below.
    pub lower_quartile: f64,
    /// Half lies below.
    pub median: f64,
    /// Three quarters lie below.
    pub upper_quartile: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub runs: u64,
}

/// One search for the largest number of elements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The largest that held; 0 if none did.
    #[serde(rename = "multiplicity")]
    pub elements: u64,
    /// What the search ended with.
    pub found: Found,
    /// How many processors others kept busy meanwhile; null where the kernel does not say.
    pub elsewhere_cpus: Option<f64>,
    /// Every run, in order.
    pub runs: Vec<Run>,
}

/// What a search ended with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// No tried number of elements held.
    Nothing,
    /// The largest that held.
    Largest,
    /// The limit of the search held.
    Limit,
}

/// One run with one number of elements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Elements in a cycle.
    #[serde(rename = "multiplicity")]
    pub elements: u64,
    /// The judge's word.
    #[serde(with = "VerdictWords")]
    pub verdict: Verdict,
    /// What became of everything that was sent.
    #[serde(with = "AccountWords")]
    pub account: Account,
    /// Processor time of the writer.
    pub writer_cpu_ns: u64,
    /// Processor time of the reader.
    pub reader_cpu_ns: u64,
    /// Datagrams that the kernel dropped because the reader's socket buffer was full; null where it does not say.
    pub dropped_by_socket: Option<u64>,
    /// Quota periods in which the pair was stopped, its preparation not counted; null without a quota.
    pub throttled_periods: Option<u64>,
}

/// How a bench ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Whether all points are there.
    pub state: State,
    /// Tasks ready to run, averaged over the last minute.
    pub load_1min: Option<f64>,
    /// Notes on the points, such as buffers that the kernel clamped.
    pub notes: Vec<String>,
}

/// Whether all points are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// They are.
    Complete,
    /// It was ended early: points are missing, or repeats of the last.
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Verdict", rename_all = "snake_case")]
enum VerdictWords {
    Good,
    Late,
    Incomplete,
    LateAndIncomplete,
    Undecided,
}

impl Forms for Report {
    fn to_html(&self) -> Result<String, FigureError> {
        page::page(self)
    }

    fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        figure::picture(self)
    }

    fn to_csv(&self) -> String {
        csv::table(self)
    }
}

impl Settings {
    pub(super) fn of(options: &Options) -> Self {
        let nanos = |duration: &std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let receive_buffer_bytes = match options.receive_buffer {
            Buffer::System => None,
            Buffer::Bytes(bytes) => Some(bytes as u64),
        };
        let end_of_run = match options.end_of_run {
            EndOfRun::WhenSettled => "settled",
            EndOfRun::LastCycle => "last_cycle",
        };
        Self {
            transports: options.transports.clone(),
            cycle_times_ns: options.cycle_times.iter().map(nanos).collect(),
            cpus: options.cpus.iter().map(|limit| limit.cpus()).collect(),
            quota_period_ns: nanos(&options.quota_period),
            cycles: options.cycles,
            repeats: options.repeats,
            limit: options.limit,
            step: options.step,
            late_allowed: options.limits.late_allowed,
            complete_ppm: options.limits.complete_ppm,
            datagram_bytes: options.datagram_bytes as u64,
            receive_buffer_bytes,
            end_of_run: end_of_run.to_owned(),
        }
    }
}

impl Outcome {
    /// Sums searches up; `broken_off` says why there are not more of them.
    ///
    /// # Panics
    /// If there are none.
    pub(super) fn of(searches: Vec<Search>, broken_off: Option<String>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "element counts are far below 2^53")]
        let sizes: Vec<f64> = searches.iter().map(|search| search.elements as f64).collect();
        let summary = Summary::of(&sizes).expect("a point has at least one search");
        let noise = noise(&summary, &searches);
        Self::Measured { elements: Spread::of(&summary), noise, searches, broken_off }
    }
}

impl Spread {
    fn of(summary: &Summary) -> Self {
        let Summary { min, lower_quartile, median, upper_quartile, max, count } = *summary;
        Self { min, lower_quartile, median, upper_quartile, max, runs: count as u64 }
    }
}

impl Point {
    /// Returns median and spread, if the point was measured.
    #[must_use]
    pub const fn elements(&self) -> Option<&Spread> {
        match &self.outcome {
            Outcome::Measured { elements, .. } => Some(elements),
            Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
        }
    }

    /// Returns every search; none if the point was not measured.
    #[must_use]
    pub fn searches(&self) -> &[Search] {
        match &self.outcome {
            Outcome::Measured { searches, .. } => searches,
            Outcome::Skipped { .. } | Outcome::Failed { .. } => &[],
        }
    }

    /// Returns why the point is not to be relied on; nothing when all was quiet.
    #[must_use]
    pub fn noise(&self) -> &[String] {
        match &self.outcome {
            Outcome::Measured { noise, .. } => noise,
            Outcome::Skipped { .. } | Outcome::Failed { .. } => &[],
        }
    }

    /// Returns why there are fewer repeats than were asked for; `None` unless one could not be measured.
    #[must_use]
    pub fn broken_off(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Measured { broken_off, .. } => broken_off.as_deref(),
            Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
        }
    }

    /// Says how the runs failed that did not hold, such as `11 late, 15 incomplete`; the reason for the figure.
    #[must_use]
    pub fn failures(&self) -> String {
        let verdicts = [Verdict::Late, Verdict::Incomplete, Verdict::LateAndIncomplete];
        let runs = || self.searches().iter().flat_map(|search| &search.runs);
        let counts = verdicts.map(|verdict| (verdict, runs().filter(|run| run.verdict == verdict).count()));
        let met = counts.into_iter().filter(|(_, count)| *count > 0);
        met.map(|(verdict, count)| format!("{count} {}", verdict.name().replace('_', " ")))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns cycle time and quota, such as `10ms/0.3cpu`.
    #[must_use]
    pub fn case(&self) -> String {
        let cycle_time = std::time::Duration::from_nanos(self.cycle_time_ns);
        let cpus = self.cpus.map_or("max".to_owned(), |cpus| cpus.to_string());
        format!("{cycle_time:?}/{cpus}cpu")
    }

    pub(super) fn row(&self) -> Option<Row> {
        let spread = self.elements()?;
        Some(Row {
            bench: "cycle".to_owned(),
            case: self.case(),
            system: self.transport.name().to_owned(),
            metric: "multiplicity".to_owned(),
            unit: "elements".to_owned(),
            median: spread.median,
            min: spread.min,
            max: spread.max,
            runs: spread.runs,
        })
    }
}

/// Says why searches are not to be relied on.
fn noise(summary: &Summary, searches: &[Search]) -> Vec<String> {
    let mut noise = Vec::new();
    let elsewhere = searches.iter().filter_map(|search| search.elsewhere_cpus).fold(0.0, f64::max);
    if elsewhere > QUIET_CPUS {
        noise.push(format!("other work kept {elsewhere:.1} CPUs busy"));
    }
    if let Some(spread) = summary.spread().filter(|spread| *spread > QUIET_SPREAD) {
        noise.push(format!("repeats spread over {:.0} % of their median", spread * 100.0));
    }
    noise
}

#[cfg(test)]
pub(crate) mod tests;
