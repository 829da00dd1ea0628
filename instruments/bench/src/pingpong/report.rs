//! Report of a ping-pong: the object that `--json` prints, from which tables and figures are made.
//!
//! Its form is published as `docs/reference/formats/bench-pingpong.schema.json`, which is made from these types.

use std::net::SocketAddr;

use probe::Percentiles;
pub use probe::pingpong::ExchangeAccount as Account;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::Evidence;
use super::options::{Options, System, Wait};
use crate::host_state::HostState;
use crate::report::noise::{self, Elsewhere};
use crate::report::{self, Course, Metric, Names, Row, State, Times, Used};

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.pingpong";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 1;

/// Metric names of rows; more follow.
pub(crate) const HALF_ROUND_TRIP: &str = "half_round_trip";
pub(crate) const RATE: &str = "bits_per_second";

const METRICS: [Metric<SizeStepReport>; 5] = [
    (HALF_ROUND_TRIP, "µs", |size_step| Some(size_step.half_round_trip?.p50_us)),
    ("half_round_trip_p99", "µs", |size_step| Some(size_step.half_round_trip?.p99_us)),
    ("half_round_trip_p999", "µs", |size_step| Some(size_step.half_round_trip?.p999_us)),
    (RATE, "bit/s", |size_step| size_step.bits_per_second),
    ("lost_percent", "%", |size_step| Some(size_step.account.lost_percent())),
];

/// Start time, hosts and settings of a ping-pong.
pub type Start = report::Start<Settings>;

/// Report of `tallycast bench pingpong --json`. No number is NaN.
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
    /// Every size of every run, in the order of measuring.
    #[serde(rename = "turns")]
    pub size_steps: Vec<SizeStepReport>,
    /// Outcome and evaluation.
    pub end: End,
}

/// Options of a ping-pong, as given.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Systems that carried the messages.
    pub systems: Vec<String>,
    /// Sizes of the messages. Units: bytes.
    pub sizes: Vec<u64>,
    /// Seconds of each size in each run.
    pub time: f64,
    /// Number of exchanges of a size that is enough.
    pub exchanges: u64,
    /// Number of runs.
    pub repeats: u32,
    /// The requested socket buffers; null for the system's, and for room for a message in datagrams.
    pub buffer_bytes: Option<u64>,
    /// Bytes in a datagram, its header of 24 included.
    pub datagram_bytes: u64,
    /// Maximum time to wait for an answer over datagrams. Units: seconds.
    pub timeout: f64,
    /// Way in which both ends wait.
    pub wait: Wait,
}

/// One size over one system in one run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeStepReport {
    /// Number of the run, from 0.
    pub run: u32,
    /// System that carried the messages.
    pub system: String,
    /// Size of a message.
    pub message_bytes: u64,
    /// Account of every exchange, the unmeasured ones included.
    pub account: Account,
    /// Δt/2; null if no exchange was completed.
    pub half_round_trip: Option<Times>,
    /// The size divided by the median Δt; null if no exchange was completed.
    pub bits_per_second: Option<f64>,
    /// Segments of TCP, or packets of UDT, that were sent again, at the client only.
    pub retransmits: Option<u64>,
    /// Reason why the size step ended early; null if it did not.
    pub trouble: Option<String>,
}

/// Outcome of a ping-pong, and its evaluation.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Completeness of the runs.
    pub state: State,
    /// Every system of every run.
    pub sessions: Vec<Session>,
    /// Systems that were not available.
    pub skipped: Vec<Skipped>,
    /// Median and spread over the runs.
    pub rows: Vec<Row>,
    /// Reasons why the measurement is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
    /// Notes, such as buffers that the kernel clamped.
    pub notes: Vec<String>,
    /// Tasks ready to run on the client's host, averaged over the last minute.
    pub load_1min: Option<f64>,
}

/// All sizes over one system in one run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Number of the run, from 0.
    pub run: u32,
    /// System that carried the messages.
    pub system: String,
    /// The congestion control of the client's TCP or UDT.
    pub congestion: Option<String>,
    /// Processors that the client kept busy, in percent of one.
    pub client_cpu_percent: f64,
    /// Processors that the server kept busy, in percent of one.
    pub server_cpu_percent: f64,
    /// Processors that other work kept busy on the client's host; null where the kernel does not report it.
    pub client_elsewhere_cpus: Option<f64>,
    /// Processors that other work kept busy on the server's host; null where the kernel does not report it.
    pub server_elsewhere_cpus: Option<f64>,
    /// Datagram counters of the client's end.
    pub client: Evidence,
    /// Datagram counters of the server's end.
    pub server: Evidence,
    /// Reasons why the session is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
}

/// A system that was not available.
#[derive(Clone, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// Name of the system.
    pub system: String,
    /// The cause, and the remedy.
    pub reason: String,
}

/// The result of one size step.
pub(super) struct Measured {
    pub(super) account: Account,
    pub(super) round_trips: Option<Percentiles>,
    pub(super) retransmits: Option<u64>,
    pub(super) trouble: Option<String>,
    /// True if it was ended early.
    pub(super) was_cut: bool,
}

/// Results of one system in a run.
pub(super) struct Way<'a> {
    pub(super) run: u32,
    pub(super) system: &'a System,
    pub(super) congestion: Option<String>,
    pub(super) ours: (Used, Evidence),
    pub(super) theirs: (Used, Evidence),
    pub(super) failure: Option<String>,
    pub(super) notes: Vec<String>,
}

/// A report under construction.
pub(super) struct Builder {
    course: Course,
    start: Start,
    size_steps: Vec<SizeStepReport>,
    sessions: Vec<Session>,
    skipped: Vec<Skipped>,
}

impl Builder {
    pub(super) fn new(
        options: &Options,
        peer: SocketAddr,
        client: HostState,
        server: HostState,
        piece_bytes: u32,
    ) -> Self {
        Self {
            course: Course::begin(),
            start: Start::now(peer, client, server, Settings::of(options, piece_bytes)),
            size_steps: Vec::new(),
            sessions: Vec::new(),
            skipped: Vec::new(),
        }
    }

    pub(super) const fn has_any(&self) -> bool {
        !self.size_steps.is_empty()
    }

    pub(super) fn add(&mut self, run: u32, system: &System, message_bytes: u32, measured: Measured) {
        let Measured { account, round_trips, retransmits, trouble, was_cut } = measured;
        self.course.has_broken_off |= trouble.is_some();
        let trouble = trouble.or_else(|| was_cut.then(|| "it was ended early".to_owned()));
        self.size_steps.push(SizeStepReport {
            run,
            system: system.to_string(),
            message_bytes: message_bytes.into(),
            account,
            half_round_trip: round_trips.as_ref().map(Times::of_halves),
            bits_per_second: round_trips.as_ref().map(|it| rate(message_bytes, it.p50_ns)),
            retransmits,
            trouble,
        });
    }

    pub(super) fn end_way(&mut self, way: Way<'_>) {
        let Way { run, system, congestion, ours, theirs, failure, notes } = way;
        let same_host = self.start.same_host;
        let elsewhere = Elsewhere::of(same_host, &ours.0, Some(&theirs.0));
        self.sessions.push(Session {
            run,
            system: system.to_string(),
            congestion,
            client_cpu_percent: ours.0.cpu_percent(),
            server_cpu_percent: theirs.0.cpu_percent(),
            client_elsewhere_cpus: elsewhere.client,
            server_elsewhere_cpus: elsewhere.server,
            client: ours.1,
            server: theirs.1,
            noise: elsewhere.disturbances(same_host),
        });
        if let Some(failure) = failure {
            self.break_off(&format!("the server's end of {system} failed: {failure}"));
        }
        self.course.note_all(&notes);
    }

    /// Records that a system is not available.
    pub(super) fn skip(&mut self, system: &System, reason: &str) {
        let skipped = Skipped { system: system.to_string(), reason: reason.to_owned() };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// Returns why systems were not available.
    pub(super) fn refusals(&self) -> String {
        let skipped = self.skipped.iter();
        skipped.map(|it| format!("{}: {}", it.system, it.reason)).collect::<Vec<_>>().join("\n")
    }

    /// Records that the measurement could not continue.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.course.break_off(reason);
    }

    pub(super) fn finish(self, was_interrupted: bool) -> Report {
        let Self { mut course, start, size_steps, sessions, skipped } = self;
        course.has_broken_off |= !skipped.is_empty();
        let report::End { time_ns, state, notes, load_1min } = course.end(was_interrupted);
        let rows = rows(&start.test_start, &size_steps);
        let noise = noise_of(&sessions, &rows, start.same_host);
        let end = End { time_ns, state, sessions, skipped, rows, noise, notes, load_1min };
        Report { format: FORMAT.to_owned(), version: VERSION, start, size_steps, end }
    }
}

fn disturbances(sessions: &[Session], same_host: bool) -> Vec<String> {
    let elsewhere = sessions.iter().map(|it| [it.client_elsewhere_cpus, it.server_elsewhere_cpus]);
    Elsewhere::most(elsewhere).disturbances(same_host)
}

/// Returns why a measurement is unreliable.
fn noise_of(sessions: &[Session], rows: &[Row], same_host: bool) -> Vec<String> {
    let mut noise = disturbances(sessions, same_host);
    let times: Vec<&Row> = rows.iter().filter(|row| row.metric == HALF_ROUND_TRIP).collect();
    let wide = times.iter().filter(|row| noise::is_wide(row)).count();
    if wide > 0 {
        // One line: the table marks them individually.
        noise.push(format!("the runs' times lie far apart at {wide} of {} sizes", times.len()));
    }
    noise
}

fn rows(settings: &Settings, size_steps: &[SizeStepReport]) -> Vec<Row> {
    let of_size = |(system, size): (&str, u64)| {
        let names = Names { bench: "pingpong", case: &case(size), system };
        // A size step that broke off measured a failing path; one that was ended early has too few exchanges.
        let whole = size_steps.iter().filter(|it| it.is_of(system, size) && it.trouble.is_none());
        Row::each(names, whole, &METRICS)
    };
    settings.points().flat_map(of_size).collect()
}

impl Report {
    /// Returns the size steps with this message size over one system, one per run.
    pub(super) fn size_steps_of(
        &self,
        system: &str,
        message_bytes: u64,
    ) -> impl Iterator<Item = &SizeStepReport> {
        self.size_steps.iter().filter(move |it| it.is_of(system, message_bytes))
    }

    /// Returns why the measurement is unreliable at every size; a wide spread concerns its own size only.
    pub(crate) fn disturbances(&self) -> Vec<String> {
        disturbances(&self.end.sessions, self.start.same_host)
    }

    /// Returns the median row of a metric, if there is one.
    #[must_use]
    pub fn row(&self, system: &str, message_bytes: u64, metric: &str) -> Option<&Row> {
        let case = case(message_bytes);
        self.end.rows.iter().find(|row| row.system == system && row.case == case && row.metric == metric)
    }
}

impl SizeStepReport {
    fn is_of(&self, system: &str, message_bytes: u64) -> bool {
        self.system == system && self.message_bytes == message_bytes
    }
}

impl Settings {
    /// Returns every size over each system.
    pub(super) fn points(&self) -> impl Iterator<Item = (&str, u64)> {
        let of_system = |system| self.sizes.iter().map(move |size| (system, *size));
        self.systems.iter().map(String::as_str).flat_map(of_system)
    }

    fn of(options: &Options, piece_bytes: u32) -> Self {
        Self {
            systems: options.systems.iter().map(ToString::to_string).collect(),
            sizes: options.sizes.clone(),
            time: options.time.as_secs_f64(),
            exchanges: options.exchanges,
            repeats: options.repeats,
            buffer_bytes: options.buffer_bytes.map(|bytes| bytes as u64),
            datagram_bytes: u64::from(piece_bytes) + probe::pingpong::PIECE_HEADER_BYTES as u64,
            timeout: options.timeout.as_secs_f64(),
            wait: options.wait,
        }
    }
}

/// Returns the name of a size in rows.
fn case(message_bytes: u64) -> String {
    format!("{message_bytes}B")
}

/// Returns the size divided by Δt, as in Petri 2007 (§4.1); 0 if the time is 0.
#[expect(clippy::cast_precision_loss, reason = "times of exchanges are far below 2^53 ns")]
fn rate(message_bytes: u32, round_trip_ns: u64) -> f64 {
    if round_trip_ns == 0 { 0.0 } else { f64::from(message_bytes) * 8e9 / round_trip_ns as f64 }
}

#[cfg(test)]
pub(crate) mod tests;
