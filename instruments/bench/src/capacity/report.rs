//! Report of a capacity measurement: the object that `--json` prints, from which table, page and figures are
//! made.
//!
//! Its form is published as `docs/reference/formats/bench-capacity.schema.json`, which is made from these types.

use std::net::SocketAddr;

use probe::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::{Plan, Received};
use super::options::{Calls, Options, ThreadingModel};
use super::send::Sent;
use crate::host_state::HostState;
use crate::processor_time::Shares;
use crate::report::noise::{Elsewhere, spreads};
use crate::report::number::{per_second, seconds};
use crate::report::{Conclusion, Course, End, Metric, Names, Row, Start, Used};
use crate::throughput::{Account, Rate};
use crate::udp_notes;

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.capacity";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 1;

/// Maximum share of sent datagrams that receivers may miss and still count as keeping up. Senders that do not
/// saturate the receivers say nothing about how much more these could take.
const KEPT_UP: f64 = 0.001;

const METRICS: [Metric<Run>; 3] = [
    ("packets_per_second", "1/s", |run| Some(run.packets_per_second)),
    ("lost_percent", "%", Run::lost_percent),
    ("receivers_cpu_percent", "%", |run| Some(run.receivers_cpu_percent)),
];

/// Report of `tallycast bench capacity --json`. No number is NaN.
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
    /// Every point that was begun, in the order of measuring.
    pub points: Vec<Point>,
    /// Median and spread, one row for each figure of each point.
    pub rows: Vec<Row>,
    /// The conclusions of the UDP notes compared with ours.
    pub conclusions: Vec<Conclusion>,
    /// Outcome.
    pub end: End,
}

/// Settings of the measurement, as given.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Bytes in each datagram.
    #[schemars(inner(range(min = 1)))]
    pub payloads: Vec<u64>,
    /// Numbers of receivers.
    #[schemars(inner(range(min = 1)))]
    pub workers: Vec<u32>,
    /// Threading models of the receivers.
    #[serde(rename = "structures")]
    pub threading_models: Vec<ThreadingModel>,
    /// Datagrams per second of all senders together, if requested; 0 is as fast as possible.
    pub target_packets_per_second: Option<u64>,
    /// Bits per second of all senders together, if requested.
    pub target_bitrate: Option<u64>,
    /// Number of sending threads.
    #[schemars(range(min = 1))]
    pub senders: u32,
    /// Seconds of each run.
    pub duration: f64,
    /// Runs of each point.
    #[schemars(range(min = 1))]
    pub repeats: u32,
    /// The requested receive buffer; null for the system's.
    pub receive_buffer_bytes: Option<u64>,
    /// Number of datagrams per system call.
    pub calls: Calls,
}

/// Runs with one threading model, number of receivers and size of datagrams.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Threading model of the receivers.
    #[serde(rename = "structure")]
    pub threading_model: ThreadingModel,
    /// Number of receivers.
    #[schemars(range(min = 1))]
    pub workers: u32,
    /// Bytes in each datagram.
    #[schemars(range(min = 1))]
    pub payload_bytes: u64,
    /// Every run.
    pub runs: Vec<Run>,
    /// Reasons why the point is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
}

/// One run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Datagrams received per second, by all receivers together.
    pub packets_per_second: f64,
    /// Seconds from the start to the end of sending, or from the first to the last datagram if that is longer.
    pub seconds: f64,
    /// Account of all datagrams.
    pub account: Account,
    /// Account of each destination port.
    pub ports: Vec<Port>,
    /// Processor time of all receivers together, including the kernel's on their behalf, in percent of one
    /// processor.
    pub receivers_cpu_percent: f64,
    /// Processor time of all senders together, in percent of one processor.
    pub senders_cpu_percent: f64,
    /// Shares of time of all processors of the receivers' host; null where the kernel does not report them.
    pub processors: Option<Shares>,
    /// Growth of the receiving host's own count (`RcvbufErrors`); null where it is not reported.
    pub rcvbuf_errors: Option<u64>,
    /// Datagrams of another size than the run's, from other senders.
    pub foreign: u64,
    /// Datagrams that stalls of the senders kept from being sent at their time.
    pub skipped: u64,
    /// Processors that other work kept busy on the client's host; null where the kernel does not report it.
    pub client_elsewhere_cpus: Option<f64>,
    /// Processors that other work kept busy on the server's host; null where the kernel does not report it.
    pub server_elsewhere_cpus: Option<f64>,
    /// Reason why the run is incomplete; null if it is complete. An incomplete run is listed but enters no
    /// median.
    pub trouble: Option<String>,
}

/// A destination port.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Address of the port.
    #[schemars(with = "String")]
    pub address: SocketAddr,
    /// Account of all datagrams sent to it.
    pub account: Account,
    /// The sockets at it: several only with `SO_REUSEPORT`.
    pub sockets: Vec<Socket>,
}

/// A receiving socket.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Socket {
    /// The kernel's own count of datagrams that it dropped at this socket.
    pub drops: u64,
    /// Datagrams that each receiver at it got.
    pub received: Vec<u64>,
}

impl Run {
    /// Joins the counts of both ends.
    pub(super) fn of(
        plan: &Plan,
        accounts: &[Account],
        sent: &Sent,
        client: Used,
        received: &Received,
        same_host: bool,
    ) -> Self {
        debug_assert!(accounts.len() == sent.endpoints.len(), "{plan:?}");
        let counted = || received.sockets.iter().flat_map(|socket| &socket.workers);
        let first = counted().filter_map(|it| it.first_ns).min();
        let last = counted().filter_map(|it| it.last_ns).max();
        let span = first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first));
        let seconds = sent.elapsed.as_secs_f64().max(seconds(span));
        let account = Account::sum(accounts);
        let elsewhere = Elsewhere::of(same_host, &client, Some(&received.used));
        Self {
            packets_per_second: per_second(account.received, seconds),
            seconds,
            ports: ports(accounts, received),
            account,
            receivers_cpu_percent: cpu_percent(received.workers_cpu_ns, seconds),
            senders_cpu_percent: cpu_percent(sent.cpu_ns, seconds),
            processors: received.processors,
            rcvbuf_errors: received.rcvbuf_errors,
            foreign: counted().map(|it| it.foreign).sum(),
            skipped: sent.skipped,
            client_elsewhere_cpus: elsewhere.client,
            server_elsewhere_cpus: elsewhere.server,
            trouble: None,
        }
    }

    /// Returns the part of the sent datagrams that did not arrive, in percent; `None` if nothing was sent.
    #[must_use]
    pub fn lost_percent(&self) -> Option<f64> {
        self.account.lost_percent()
    }

    /// Returns the number of datagrams that the kernel counted as dropped, at all sockets.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.ports.iter().flat_map(|port| &port.sockets).map(|socket| socket.drops).sum()
    }
}

fn ports(accounts: &[Account], received: &Received) -> Vec<Port> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for socket in &received.sockets {
        if !addresses.contains(&socket.address) {
            addresses.push(socket.address);
        }
    }
    let sockets_at = |address: SocketAddr| {
        let at = received.sockets.iter().filter(move |socket| socket.address == address);
        at.map(|socket| Socket {
            drops: socket.drops,
            received: socket.workers.iter().map(|worker| worker.datagrams).collect(),
        })
    };
    let port = |(address, account): (SocketAddr, &Account)| Port {
        address,
        account: account.clone(),
        sockets: sockets_at(address).collect(),
    };
    addresses.into_iter().zip(accounts).map(port).collect()
}

impl Point {
    /// Returns median and spread of the datagrams received per second; `None` if there was no run.
    #[must_use]
    pub fn packets_per_second(&self) -> Option<Summary> {
        self.summary(|run| Some(run.packets_per_second))
    }

    /// Returns median and spread of the lost part, in percent.
    #[must_use]
    pub fn lost_percent(&self) -> Option<Summary> {
        self.summary(Run::lost_percent)
    }

    /// Returns median and spread of the receivers' processor time, in percent of one processor.
    #[must_use]
    pub fn receivers_cpu_percent(&self) -> Option<Summary> {
        self.summary(|run| Some(run.receivers_cpu_percent))
    }

    /// Returns whether the receivers kept up with the senders: then they could perhaps take more.
    #[must_use]
    pub fn is_limited_by_senders(&self) -> bool {
        self.lost_percent().is_some_and(|lost| lost.median <= KEPT_UP * 100.0)
    }

    /// Returns size and number as a name.
    #[must_use]
    pub fn case(&self) -> String {
        format!("{}B/{}workers", self.payload_bytes, self.workers)
    }

    /// Returns the complete runs.
    pub(crate) fn whole_runs(&self) -> impl Iterator<Item = &Run> + Clone {
        self.runs.iter().filter(|run| run.trouble.is_none())
    }

    fn summary(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Summary> {
        Summary::of(&self.whole_runs().filter_map(of).collect::<Vec<_>>())
    }

    fn rows(&self) -> Vec<Row> {
        let names = Names { bench: "capacity", case: &self.case(), system: self.threading_model.name() };
        Row::each(names, self.whole_runs(), &METRICS)
    }

    fn judge_noise(&mut self, same_host: bool) {
        let elsewhere = self.whole_runs().map(|run| [run.client_elsewhere_cpus, run.server_elsewhere_cpus]);
        self.noise = Elsewhere::most(elsewhere).disturbances(same_host);
        self.noise.extend(spreads("rates", self.rows().iter().filter(|row| row.unit == "1/s")));
    }
}

/// A report under construction.
pub(super) struct Builder {
    course: Course,
    start: Start<Settings>,
    points: Vec<Point>,
    planned: u64,
    repeats: u32,
}

impl Builder {
    pub(super) fn new(
        options: &Options,
        senders: u32,
        peer: SocketAddr,
        client: HostState,
        server: HostState,
    ) -> Self {
        let planned = options.payloads.len() * options.workers.len() * options.threading_models.len();
        Self {
            course: Course::begin(),
            start: Start::now(peer, client, server, Settings::of(options, senders)),
            points: Vec::new(),
            planned: planned as u64,
            repeats: options.repeats,
        }
    }

    pub(super) const fn is_same_host(&self) -> bool {
        self.start.same_host
    }

    pub(super) fn begin_point(&mut self, plan: &Plan) {
        let Plan { threading_model, workers, payload_bytes } = *plan;
        let (payload_bytes, runs, noise) = (payload_bytes as u64, Vec::new(), Vec::new());
        self.points.push(Point { threading_model, workers, payload_bytes, runs, noise });
    }

    pub(super) fn add(&mut self, run: Run) {
        self.points.last_mut().expect("a point was begun").runs.push(run);
    }

    /// Returns the progress as text.
    pub(super) fn progress(&self) -> String {
        let Some(point) = self.points.last() else { return String::new() };
        let rate = point.runs.last().map_or(0.0, |run| run.packets_per_second);
        format!(
            "point {} of {}, run {} of {}: {} {}, {rate:.0} packets/s",
            self.points.len(),
            self.planned,
            point.runs.len(),
            self.repeats,
            point.threading_model,
            point.case(),
        )
    }

    pub(super) fn note(&mut self, note: &str) {
        self.course.note(note);
    }

    /// Records that a run could not be made or completed.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.course.break_off(&format!("a run broke off: {reason}"));
    }

    pub(super) fn finish(self, was_interrupted: bool) -> Report {
        let Self { course, start, mut points, .. } = self;
        points.retain(|point| !point.runs.is_empty());
        points.iter_mut().for_each(|point| point.judge_noise(start.same_host));
        let rows = points.iter().flat_map(Point::rows).collect();
        let conclusions = udp_notes::conclude(&points, start.same_host);
        let mut end = course.end(was_interrupted);
        if start.same_host {
            let note = "both ends are on this host: senders and receivers share its processors, and the soft interrupts of \
                        receiving are done in the senders' time";
            end.notes.push(note.to_owned());
        }
        Report { format: FORMAT.to_owned(), version: VERSION, start, points, rows, conclusions, end }
    }
}

impl Report {
    /// Returns a point of the grid, if it was measured.
    #[must_use]
    pub fn point(&self, threading_model: ThreadingModel, workers: u32, payload_bytes: u64) -> Option<&Point> {
        let is_it = |point: &&Point| {
            (point.threading_model, point.workers, point.payload_bytes)
                == (threading_model, workers, payload_bytes)
        };
        self.points.iter().find(is_it)
    }

    /// Returns a text with the number of unreliable points; none if all were undisturbed.
    pub(super) fn noise_in_short(&self) -> Option<String> {
        let noisy = self.points.iter().filter(|point| !point.noise.is_empty()).count();
        let all = self.points.len();
        (noisy > 0).then(|| format!("{noisy} of {all} points were disturbed or spread widely"))
    }

    /// Describes the incomplete runs and their results.
    pub(super) fn cut_runs(&self) -> Vec<String> {
        let of_point = |point: &Point| {
            let name = format!("{} {}", point.threading_model, point.case());
            let cut = point.runs.iter().enumerate().filter_map(|(index, run)| {
                let (trouble, rate) = (run.trouble.as_ref()?, run.packets_per_second);
                Some(format!(
                    "{name}, run {}: {trouble} after {:.1} s, with {rate:.0} received a second; it is in no median",
                    index + 1,
                    run.seconds
                ))
            });
            cut.collect::<Vec<_>>()
        };
        self.points.iter().flat_map(of_point).collect()
    }

    /// Returns why points are unreliable, with their names; empty if all were undisturbed.
    #[must_use]
    pub fn noise(&self) -> Vec<String> {
        let name = |point: &Point| format!("{} {}", point.threading_model, point.case());
        let noisy = self.points.iter().filter(|point| !point.noise.is_empty());
        noisy.map(|point| format!("{}: {}", name(point), point.noise.join(", "))).collect()
    }
}

impl Settings {
    fn of(options: &Options, senders: u32) -> Self {
        let (packets, bits) = match options.rate {
            None => (Some(0), None),
            Some(Rate::Units(packets)) => (Some(packets), None),
            Some(Rate::Bits(bits)) => (None, Some(bits)),
        };
        Self {
            payloads: options.payloads.iter().map(|bytes| *bytes as u64).collect(),
            workers: options.workers.clone(),
            threading_models: options.threading_models.clone(),
            target_packets_per_second: packets,
            target_bitrate: bits,
            senders,
            duration: options.duration.as_secs_f64(),
            repeats: options.repeats,
            receive_buffer_bytes: options.receive_buffer_bytes.map(|bytes| bytes as u64),
            calls: options.calls,
        }
    }
}

fn cpu_percent(cpu_ns: u64, elapsed: f64) -> f64 {
    if elapsed > 0.0 { seconds(cpu_ns) * 100.0 / elapsed } else { 0.0 }
}

#[cfg(test)]
pub(crate) mod tests;
