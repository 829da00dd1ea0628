//! Report of a bench: the object that `--json` prints, from which tables and figures are made.
//!
//! Its form is published as `docs/reference/formats/bench-cycle.schema.json`, which is made from these types.

use probe::Summary;
use probe::cycle::{Account, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::Options;
use super::transport::Transport;
use crate::host::Host;
use crate::host_state::Link;
use crate::report::Row;
use crate::report::noise::QUIET_CPUS;
use crate::scollo::Comparison;

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.cycle";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 1;

/// Spread of repeats, as a share of their median, above which a point is noisy.
const QUIET_SPREAD: f64 = 0.5;

/// Report of `tallycast bench cycle --json` and `tallycast bench reproduce scollo --json`. Times are in nanoseconds;
/// no number is NaN.
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
    pub start: Start,
    /// Every point, in the order of measuring.
    pub points: Vec<Point>,
    /// The points' medians, one row each, in the form all benches share.
    pub rows: Vec<Row>,
    /// The published measurement that this run reproduces, its conclusions compared with ours; null otherwise.
    pub source: Option<Comparison>,
    /// Outcome.
    pub end: End,
}

/// Start time, host and settings of a bench.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Version of this program.
    pub tallycast: String,
    /// The host.
    pub host: Host,
    /// The loopback interface, which carries the datagrams; null if it cannot be found.
    pub interface: Option<Link>,
    /// Settings of the measurement.
    pub options: Settings,
}

/// Options of a bench, as given.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The transports that were compared.
    pub transports: Vec<Transport>,
    /// The cycle times.
    pub cycle_times_ns: Vec<u64>,
    /// The processors that writer and reader may take together; null without a limit.
    pub cpus: Vec<Option<f64>>,
    /// Period of the quotas.
    pub quota_period_ns: u64,
    /// Cycles in each run.
    pub cycles: u32,
    /// Searches at each point.
    pub repeats: u32,
    /// The largest number of elements to try.
    pub limit: u32,
    /// Resolution of the search. Units: elements.
    pub step: u32,
    /// Maximum number of late callbacks.
    pub late_allowed: u64,
    /// Share of the cycles that must arrive complete, in millionths.
    pub complete_ppm: u32,
    /// The largest datagram, header included.
    pub datagram_bytes: u64,
    /// The requested receive buffer; null for the system's default.
    pub receive_buffer_bytes: Option<u64>,
    /// Time at which a run that has failed already ends: `settled` or `last_cycle`.
    #[schemars(extend("enum" = ["settled", "last_cycle"]))]
    pub end_of_run: String,
}

/// One point of a figure: a cycle time, a transport, a quota.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The transport.
    pub transport: Transport,
    /// The cycle time.
    pub cycle_time_ns: u64,
    /// The processors that writer and reader may take together; null without a limit.
    pub cpus: Option<f64>,
    /// Result at the point.
    pub outcome: Outcome,
}

/// Result at a point.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// At least one search was completed.
    Measured {
        /// Median and spread of the searches' element counts.
        #[serde(rename = "multiplicity")]
        elements: Spread,
        /// Reasons why the point is unreliable; empty if undisturbed.
        noise: Vec<String>,
        /// Every search.
        searches: Vec<Search>,
        /// Reason why there are fewer repeats than requested: the next one could not be measured. Null
        /// otherwise.
        broken_off: Option<String>,
    },
    /// The point was not tried.
    Skipped {
        /// The cause, and the remedy.
        reason: String,
    },
    /// The point was tried and could not be measured.
    Failed {
        /// The cause, and the remedy.
        reason: String,
    },
}

/// Five numbers that summarise repeats.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// First quartile.
    pub lower_quartile: f64,
    /// The median.
    pub median: f64,
    /// Third quartile.
    pub upper_quartile: f64,
    /// The maximum.
    pub max: f64,
    /// Number of repeats.
    pub runs: u64,
}

/// One search for the largest number of elements.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The largest number that held; 0 if none did.
    #[serde(rename = "multiplicity")]
    pub elements: u64,
    /// Outcome of the search.
    pub found: Found,
    /// Processors that other work kept busy meanwhile; null where the kernel does not report it.
    pub elsewhere_cpus: Option<f64>,
    /// Every run, in order.
    pub runs: Vec<Run>,
}

/// Outcome of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// No tried number of elements held.
    Nothing,
    /// The largest number that held was found.
    Largest,
    /// The limit of the search held.
    Limit,
}

/// One run with one number of elements.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Elements in a cycle.
    #[serde(rename = "multiplicity")]
    pub elements: u64,
    /// Verdict of the run.
    #[serde(with = "VerdictWords")]
    #[schemars(with = "VerdictWords")]
    pub verdict: Verdict,
    /// Account of everything that was sent.
    pub account: Account,
    /// Processor time of the writer.
    pub writer_cpu_ns: u64,
    /// Processor time of the reader.
    pub reader_cpu_ns: u64,
    /// Datagrams that the kernel dropped because the reader's socket buffer was full; null where it is not
    /// reported.
    pub dropped_by_socket: Option<u64>,
    /// Quota periods in which the pair was stopped, its preparation not counted; null without a quota.
    pub throttled_periods: Option<u64>,
}

/// Outcome of a bench.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Completeness of the points.
    pub state: State,
    /// Tasks ready to run, averaged over the last minute.
    pub load_1min: Option<f64>,
    /// Notes on the points, such as buffers that the kernel clamped.
    pub notes: Vec<String>,
}

/// Completeness of the points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All points are there.
    Complete,
    /// The bench was ended early: points are missing, or repeats of the last.
    Interrupted,
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Verdict", rename_all = "snake_case")]
enum VerdictWords {
    Good,
    Late,
    Incomplete,
    LateAndIncomplete,
    Undecided,
}

impl Settings {
    pub(super) fn of(options: &Options) -> Self {
        let nanos = |duration: &std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            transports: options.transports.clone(),
            cycle_times_ns: options.cycle_times.iter().map(nanos).collect(),
            cpus: options.cpus.iter().map(|limit| limit.cpus()).collect(),
            quota_period_ns: nanos(&options.quota_period),
            cycles: options.cycles,
            repeats: options.repeats,
            limit: options.limit,
            step: options.step,
            late_allowed: options.late_allowed,
            complete_ppm: options.complete_ppm,
            datagram_bytes: options.datagram_bytes as u64,
            receive_buffer_bytes: options.receive_buffer.map(|bytes| bytes as u64),
            end_of_run: if options.whole_runs { "last_cycle" } else { "settled" }.to_owned(),
        }
    }
}

impl Outcome {
    /// Summarises searches; `broken_off` is the reason why there are not more of them.
    ///
    /// # Panics
    /// If `searches` is empty.
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

    /// Returns why the point is unreliable; empty if undisturbed.
    #[must_use]
    pub fn noise(&self) -> &[String] {
        match &self.outcome {
            Outcome::Measured { noise, .. } => noise,
            Outcome::Skipped { .. } | Outcome::Failed { .. } => &[],
        }
    }

    /// Returns why there are fewer repeats than requested; `None` unless one could not be measured.
    #[must_use]
    pub fn broken_off(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Measured { broken_off, .. } => broken_off.as_deref(),
            Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
        }
    }

    /// Counts the failed runs by kind, such as `11 late, 15 incomplete`; the reason for the figure.
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

/// Returns why searches are unreliable.
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
