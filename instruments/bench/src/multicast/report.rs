//! Report of a multicast measurement: the object that `--json` prints, from which tables and figures are made.
//!
//! Its form is published as `docs/reference/formats/bench-multicast.schema.json`, which is made from these types.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::MemberResult;
use super::options::Options;
use crate::host_state::HostState;
use crate::report::noise::{self, Elsewhere};
use crate::report::{Course, End, Metric, Names, Row, Times, Used};
use crate::throughput::{Account, AccountState};

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.multicast";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 2;

const METRICS: [Metric<MemberReport>; 5] = [
    ("latency_p50", "µs", |member| Some(member.latency?.p50_us)),
    ("latency_p99", "µs", |member| Some(member.latency?.p99_us)),
    ("latency_p999", "µs", |member| Some(member.latency?.p999_us)),
    ("latency_max", "µs", |member| Some(member.latency?.max_us)),
    ("lost_percent", "%", |member| Some(member.account.lost_percent().unwrap_or(0.0))),
];

/// Start time, hosts and settings of a measurement.
pub type Start = crate::report::Start<Settings>;

/// Report of `tallycast bench multicast --json`. No number is NaN.
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
    /// Every run.
    pub runs: Vec<RunReport>,
    /// Median and spread over the runs, of each member.
    pub rows: Vec<Row>,
    /// Reasons why the measurement is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
    /// Outcome.
    pub end: End,
}

/// Options of a measurement, as given.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The group.
    pub group: String,
    /// Number of members.
    pub receivers: u32,
    /// Bytes in a datagram.
    pub payload_bytes: u64,
    /// Payload bits per second.
    pub target_bitrate: u64,
    /// Seconds of a run.
    pub duration: f64,
    /// Number of runs.
    pub repeats: u32,
    /// The members' receive buffers, as requested; null for the system's.
    pub buffer_bytes: Option<u64>,
}

/// A run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// Number of the run, from 0.
    pub run: u32,
    /// Every member of the group.
    pub members: Vec<MemberReport>,
    /// Datagrams that a stall of the sender kept from being sent.
    pub skipped: u64,
    /// Processors that the client kept busy, in percent of one.
    pub client_cpu_percent: f64,
    /// Processors that the server kept busy, all members together, in percent of one.
    pub server_cpu_percent: f64,
    /// Processors that other work kept busy on the client's host; null where the kernel does not report it.
    pub client_elsewhere_cpus: Option<f64>,
    /// Processors that other work kept busy on the server's host; null where the kernel does not report it.
    pub server_elsewhere_cpus: Option<f64>,
    /// Reason why the run is incomplete; null if it is complete.
    pub trouble: Option<String>,
    /// Reasons why the run is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
}

/// One member of the group in a run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberReport {
    /// Number of the member, from 0.
    pub receiver: u32,
    /// Account of every datagram.
    pub account: Account,
    /// Datagrams that arrived after a later one.
    pub reordered: u64,
    /// Times from the call that sent a datagram to the read that delivered it; null where the ends have no
    /// clock in common.
    pub latency: Option<Times>,
}

/// Results of both ends for a run.
pub(super) struct Ended {
    pub(super) members: BTreeMap<u32, MemberResult>,
    pub(super) ours: Used,
    pub(super) theirs: Used,
    pub(super) skipped: u64,
    pub(super) failures: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) was_stopped: bool,
}

/// A report under construction.
pub(super) struct Builder {
    course: Course,
    start: Start,
    runs: Vec<RunReport>,
}

impl Builder {
    pub(super) fn new(options: &Options, peer: SocketAddr, client: HostState, server: HostState) -> Self {
        let start = Start::now(peer, client, server, Settings::of(options));
        let mut course = Course::begin();
        if !start.same_host {
            course.note(
                "two hosts have no clock in common: loss is reported for each receiver, latency for none",
            );
        }
        Self { course, start, runs: Vec::new() }
    }

    pub(super) fn add(&mut self, run: u32, ended: Ended) {
        let Ended { members, ours, theirs, skipped, failures, notes, was_stopped } = ended;
        let same_host = self.start.same_host;
        let elsewhere = Elsewhere::of(same_host, &ours, Some(&theirs));
        let unbalanced = members.values().any(|member| !member.account.adds_up());
        let mut troubles = failures;
        troubles
            .extend(unbalanced.then(|| "an account does not add up\nreport this: it is a defect".to_owned()));
        self.course.has_broken_off |= !troubles.is_empty();
        troubles.extend((was_stopped && troubles.is_empty()).then(|| "it was ended early".to_owned()));
        let members = members.into_iter().map(|(receiver, member)| MemberReport {
            receiver,
            account: member.account,
            reordered: member.reordered,
            latency: member.latency.filter(|_| same_host),
        });
        self.runs.push(RunReport {
            run,
            members: members.collect(),
            skipped,
            client_cpu_percent: ours.cpu_percent(),
            server_cpu_percent: theirs.cpu_percent(),
            client_elsewhere_cpus: elsewhere.client,
            server_elsewhere_cpus: elsewhere.server,
            trouble: (!troubles.is_empty()).then(|| troubles.join("; ")),
            noise: elsewhere.disturbances(same_host),
        });
        self.course.note_all(&notes);
    }

    /// Records that a run could not be made or completed.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.course.break_off(&format!("a run broke off: {reason}"));
    }

    pub(super) fn finish(self, was_interrupted: bool) -> Report {
        let Self { course, start, runs } = self;
        let elsewhere = runs.iter().map(|run| [run.client_elsewhere_cpus, run.server_elsewhere_cpus]);
        let mut noise = Elsewhere::most(elsewhere).disturbances(start.same_host);
        let rows = rows(&runs, start.test_start.receivers);
        noise.extend(noise::spreads("latencies", rows.iter().filter(|row| row.metric == "latency_p50")));
        let skipped: u64 = runs.iter().map(|run| run.skipped).sum();
        if skipped > 0 {
            noise.push(format!("stalls of the sender kept {skipped} datagrams from being sent"));
        }
        let end = course.end(was_interrupted);
        Report { format: FORMAT.to_owned(), version: VERSION, start, runs, rows, noise, end }
    }
}

impl RunReport {
    fn member(&self, receiver: u32) -> Option<&MemberReport> {
        self.members.iter().find(|member| member.receiver == receiver)
    }
}

impl Report {
    /// Returns the results of a member in every run.
    pub(super) fn member(&self, receiver: u32) -> impl Iterator<Item = &MemberReport> + Clone {
        self.runs.iter().filter_map(move |run| run.member(receiver))
    }

    /// Returns the median row of a metric of a member, if there is one.
    #[must_use]
    pub fn row(&self, receiver: u32, metric: &str) -> Option<&Row> {
        let case = case(receiver);
        self.rows.iter().find(|row| row.case == case && row.metric == metric)
    }

    /// Returns whether every account of every run is closed.
    pub(super) fn all_closed(&self) -> bool {
        let mut members = self.runs.iter().flat_map(|run| &run.members);
        members.all(|member| member.account.state == AccountState::Closed)
    }
}

impl Settings {
    fn of(options: &Options) -> Self {
        Self {
            group: options.group.map_or_else(String::new, |group| group.to_string()),
            receivers: options.receivers,
            payload_bytes: options.payload_bytes as u64,
            target_bitrate: options.rate.bits_per_second(options.payload_bytes),
            duration: options.duration.as_secs_f64(),
            repeats: options.repeats,
            buffer_bytes: options.buffer_bytes.map(|bytes| bytes as u64),
        }
    }
}

fn rows(runs: &[RunReport], receivers: u32) -> Vec<Row> {
    let of_member = |receiver: u32| {
        // A run that broke off, or was ended early, is not a repeat of the others.
        let whole = runs.iter().filter(|run| run.trouble.is_none());
        let names = Names { bench: "multicast", case: &case(receiver), system: "multicast" };
        Row::each(names, whole.filter_map(|run| run.member(receiver)), &METRICS)
    };
    (0..receivers).flat_map(of_member).collect()
}

/// Returns the name of a member in rows.
fn case(receiver: u32) -> String {
    format!("receiver {receiver}")
}

#[cfg(test)]
mod tests;
