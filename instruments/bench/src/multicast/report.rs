//! Report of a multicast measurement: the object that `--json` prints, from which tables and figures are made.
//!
//! Its form is published as `docs/reference/formats/bench-multicast.schema.json`, which is made from these types.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::MemberResult;
use super::options::Options;
use crate::day_clock::Moment;
use crate::host_state::HostState;
use crate::report::noise::{self, Elsewhere};
use crate::report::{End, Row, RowNames, State, Times, Used};
use crate::throughput::{Account, AccountState};

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.multicast";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 2;

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
    /// Time at which the measurement began.
    began: Moment,
    broken_off: bool,
    report: Report,
}

impl Builder {
    pub(super) fn new(options: &Options, peer: SocketAddr, client: HostState, server: HostState) -> Self {
        let start = Start::now(peer, client, server, Settings::of(options));
        let mut builder = Self {
            began: Moment::now(),
            broken_off: false,
            report: Report {
                format: FORMAT.to_owned(),
                version: VERSION,
                start,
                runs: Vec::new(),
                rows: Vec::new(),
                noise: Vec::new(),
                end: End::open(),
            },
        };
        if !builder.report.start.same_host {
            builder.note("two hosts have no clock in common: loss is told of each receiver, latency of none");
        }
        builder
    }

    pub(super) fn add(&mut self, run: u32, ended: Ended) {
        let Ended { members, ours, theirs, skipped, failures, notes, was_stopped } = ended;
        let same_host = self.report.start.same_host;
        let elsewhere = Elsewhere::of(same_host, &ours, Some(&theirs));
        let unbalanced = members.values().any(|member| !member.account.adds_up());
        let mut troubles = failures;
        troubles
            .extend(unbalanced.then(|| "an account does not add up\nreport this: it is a defect".to_owned()));
        self.broken_off |= !troubles.is_empty();
        troubles.extend((was_stopped && troubles.is_empty()).then(|| "it was ended early".to_owned()));
        let members = members.into_iter().map(|(receiver, member)| MemberReport {
            receiver,
            account: member.account,
            reordered: member.reordered,
            latency: member.latency.filter(|_| same_host),
        });
        self.report.runs.push(RunReport {
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
        notes.iter().for_each(|note| self.note(note));
    }

    /// Records that a run could not be made or completed.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.broken_off = true;
        self.note(&format!("a run broke off: {reason}"));
    }

    fn note(&mut self, note: &str) {
        self.report.end.note(note);
    }

    pub(super) fn finish(mut self, was_interrupted: bool) -> Report {
        self.began.step_in_words(&Moment::now()).iter().for_each(|note| self.note(note));
        let elsewhere = self
            .report
            .runs
            .iter()
            .map(|run| Elsewhere { client: run.client_elsewhere_cpus, server: run.server_elsewhere_cpus });
        let mut noise = Elsewhere::most(elsewhere).disturbances(self.report.start.same_host);
        let rows = self.report.rows();
        noise.extend(noise::spreads("latencies", rows.iter().filter(|row| row.metric == "latency_p50")));
        let skipped: u64 = self.report.runs.iter().map(|run| run.skipped).sum();
        if skipped > 0 {
            noise.push(format!("stalls of the sender kept {skipped} datagrams from being sent"));
        }
        (self.report.rows, self.report.noise) = (rows, noise);
        self.report.end.close(State::of(self.broken_off, was_interrupted));
        self.report
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

    fn rows(&self) -> Vec<Row> {
        /// Selects a figure of a member.
        type Pick = fn(&MemberReport) -> Option<f64>;
        let metrics: [(&str, &str, Pick); 5] = [
            ("latency_p50", "µs", |member| Some(member.latency?.p50_us)),
            ("latency_p99", "µs", |member| Some(member.latency?.p99_us)),
            ("latency_p999", "µs", |member| Some(member.latency?.p999_us)),
            ("latency_max", "µs", |member| Some(member.latency?.max_us)),
            ("lost_percent", "%", |member| Some(lost_percent(&member.account))),
        ];
        let mut rows = Vec::new();
        for receiver in 0..self.start.test_start.receivers {
            for (metric, unit, pick) in metrics {
                // A run that broke off, or was ended early, is not a repeat of the others.
                let whole = self.runs.iter().filter(|run| run.trouble.is_none());
                let values: Vec<f64> =
                    whole.filter_map(|run| run.member(receiver)).filter_map(pick).collect();
                let case = case(receiver);
                let names = RowNames { bench: "multicast", case: &case, system: "multicast", metric, unit };
                rows.extend(Row::of(names, &values));
            }
        }
        rows
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
            group: options.group.to_string(),
            receivers: options.receivers,
            payload_bytes: options.payload_bytes as u64,
            target_bitrate: options.rate.bits_per_second(options.payload_bytes),
            duration: options.duration.as_secs_f64(),
            repeats: options.repeats,
            buffer_bytes: options.buffer_bytes.map(|bytes| bytes as u64),
        }
    }
}

/// Returns the name of a member in rows.
fn case(receiver: u32) -> String {
    format!("receiver {receiver}")
}

#[expect(clippy::cast_precision_loss, reason = "datagrams are far below 2^53")]
fn lost_percent(account: &Account) -> f64 {
    if account.sent == 0 { 0.0 } else { account.missing() as f64 * 100.0 / account.sent as f64 }
}

#[cfg(test)]
mod tests;
