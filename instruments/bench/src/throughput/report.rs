//! Report of a throughput measurement: the object that `--json` prints, in iperf3's shape, from which tables
//! are made.
//!
//! Its form is published as `docs/reference/formats/bench.schema.json`, which is made from these types. Names of iperf3
//! have the meaning that they have there; the counts of the receiving end (`sum_received`) always come with those
//! of the sending end (`sum_sent`).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::loss_free::LossFreeFound;
use super::message::{Account, Count, FlowKey, FlowResult, Live, SideResult, Unit};
use super::options::{Fragments, Options, Protocol, Rate, Way, Ways};
use crate::cpu_load::AppliedLoad;
use crate::host_state::HostState;
use crate::processor::Processor;
pub use crate::report::State;
use crate::report::number::{mean, per_second, percent, seconds};
use crate::report::{self, Course, Row};

mod summary;

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.throughput";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 1;

/// Report of `tallycast bench throughput --json`, in the shape of iperf3's. No number is NaN.
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
    /// Every interval of every run.
    pub intervals: Vec<Interval>,
    /// Outcome and evaluation.
    pub end: End,
}

/// Start time, hosts and settings of a measurement.
pub type Start = report::Start<Settings>;

/// Options of a measurement, as given.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `TCP`, `UDP`, `multicast`, `stream` or `stream multicast`.
    #[schemars(extend("enum" = ["TCP", "UDP", "multicast", "stream", "stream multicast"]))]
    pub protocol: String,
    /// Parallel flows in each direction.
    #[schemars(range(min = 1))]
    pub num_streams: u32,
    /// Receivers of each flow.
    #[schemars(range(min = 1))]
    pub receivers: u32,
    /// Bytes in a datagram, or in one call.
    pub blksize: u64,
    /// Seconds of each run that are not measured.
    pub omit: f64,
    /// Seconds of each run that are measured.
    pub duration: f64,
    /// Seconds of an interval.
    pub interval: f64,
    /// 1 if the server sends.
    #[schemars(range(max = 1))]
    pub reverse: u8,
    /// 1 if both ends send.
    #[schemars(range(max = 1))]
    pub bidir: u8,
    /// Bits per second of each flow; 0 is as fast as possible.
    pub target_bitrate: u64,
    /// Datagrams per second of each flow, if requested.
    pub target_packets_per_second: Option<u64>,
    /// The requested socket buffers; null for the system's.
    pub sock_bufsize: Option<u64>,
    /// Permission to fragment datagrams along the path.
    pub fragments: Fragments,
    /// True if datagrams were to leave in trains; a note says where they could not.
    pub gso: bool,
    /// True if trains were to be received whole; a note says where they could not.
    pub gro: bool,
    /// The requested congestion control; null for the system's.
    pub congestion: Option<String>,
    /// Number of runs.
    #[schemars(range(min = 1))]
    pub repeats: u32,
}

/// Figures of both ends for an interval.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[schemars(deny_unknown_fields)]
pub struct Interval {
    /// Number of the run, from 0.
    pub run: u32,
    /// Figures of every flow, from its sender and from each receiver.
    pub streams: Vec<Figures>,
    /// All flows together.
    #[serde(flatten)]
    pub sums: Sums,
}

/// Sums over all flows of each direction.
#[derive(Clone, Copy, PartialEq, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct Sums {
    /// Sent data: by the client, unless the server alone sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_sent: Option<Figures>,
    /// Received part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_received: Option<Figures>,
    /// Data sent by the server, if both ends send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_sent_bidir_reverse: Option<Figures>,
    /// Received part of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_received_bidir_reverse: Option<Figures>,
}

/// Amount, rate and loss.
#[derive(Clone, Copy, PartialEq, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Number of the flow, from 1; not in sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<u32>,
    /// Index of its receiver, from 0; only over multicast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<u32>,
    /// Start: seconds since the measured part of the run began; in the unmeasured part, since that began.
    pub start: f64,
    /// End: likewise.
    pub end: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Payload bytes.
    pub bytes: u64,
    /// Payload bits per second; in sums over several receivers of each flow the mean of the receivers.
    pub bits_per_second: f64,
    /// Datagrams sent; at the receiver those that arrived and those that are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Datagrams missing so far. In an interval it is negative when late ones arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_packets: Option<i64>,
    /// The missing part of `packets`, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Number>")]
    pub lost_percent: Option<f64>,
    /// Interarrival jitter (RFC 3550 §6.4.1); in sums the mean of the flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// Mean time from the call that sent a unit to the read that delivered it; only if both ends are on one
    /// host, whose clock they share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// Datagrams that arrived after a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<u64>,
    /// Segments that TCP sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// TCP's congestion window in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snd_cwnd: Option<u64>,
    /// TCP's round-trip time in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<u64>,
    /// True in the unmeasured part.
    pub omitted: bool,
    /// True for figures of the sending end.
    pub sender: bool,
}

/// A flow at the end of a run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowReport {
    /// Number of the run, from 0.
    pub run: u32,
    /// Direction of the flow.
    pub way: Way,
    /// The sender's address.
    #[schemars(with = "Option<String>")]
    pub local: Option<SocketAddr>,
    /// The address that it sent to.
    #[schemars(with = "Option<String>")]
    pub remote: Option<SocketAddr>,
    /// The congestion control of TCP's sender.
    pub congestion: Option<String>,
    /// Buffer that the kernel granted the sender, before it doubles it; null where that is not known.
    pub send_buffer_bytes: Option<u64>,
    /// Buffer that the kernel granted the receiver, before it doubles it; null where that is not known.
    pub receive_buffer_bytes: Option<u64>,
    /// Figures of the sender; null if it could not report them.
    pub sender: Option<Figures>,
    /// Figures of the receiver; null if it could not report them.
    pub receiver: Option<Figures>,
    /// Account of everything sent, the unmeasured part included; null if the receiver could not report it.
    pub account: Option<Account>,
}

/// A run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[schemars(deny_unknown_fields)]
pub struct RunReport {
    /// Number of the run, from 0.
    pub run: u32,
    /// Target rate of each flow in bits per second; 0 is as fast as possible.
    pub target_bitrate: u64,
    /// Reason why the run is incomplete; null if it is complete.
    pub trouble: Option<String>,
    /// Sums over all its flows.
    #[serde(flatten)]
    pub sums: Sums,
    /// Processors that the client kept busy, in percent of one.
    pub client_cpu_percent: f64,
    /// Processors that the server kept busy without the applied load, in percent of one; null if it could not
    /// report it.
    pub server_cpu_percent: Option<f64>,
    /// Processor use of the client.
    pub client_processor: Processor,
    /// Processor use of the server; null if it could not report it.
    pub server_processor: Option<Processor>,
    /// The load applied on the server's host, as measured; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "burned")]
    pub applied_load: Option<AppliedLoad>,
    /// Processors that other work kept busy on the client's host; null where the kernel does not report it.
    pub client_elsewhere_cpus: Option<f64>,
    /// Processors that other work kept busy on the server's host; null where the kernel does not report it.
    pub server_elsewhere_cpus: Option<f64>,
    /// Units that stalls of senders kept from being sent at their time.
    pub skipped: u64,
    /// Reasons why the run is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
}

/// Outcome of a measurement, and its evaluation.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[schemars(deny_unknown_fields)]
pub struct End {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Completeness of the runs.
    pub state: State,
    /// Every flow of every run.
    pub streams: Vec<FlowReport>,
    /// Every run.
    pub runs: Vec<RunReport>,
    /// All runs together.
    #[serde(flatten)]
    pub sums: Sums,
    /// Processors kept busy, in percent of one, on average of the runs.
    pub cpu_utilization_percent: CpuUtilization,
    /// The highest rate without loss, if it was searched for.
    pub loss_free: Option<LossFreeFound>,
    /// Median and spread over the runs, one row for each figure.
    pub rows: Vec<Row>,
    /// Reasons why the measurement is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
    /// Notes, such as buffers that the kernel clamped.
    pub notes: Vec<String>,
    /// Tasks ready to run on the client's host, averaged over the last minute.
    pub load_1min: Option<f64>,
}

/// Processors kept busy by a measurement, in percent of one.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuUtilization {
    /// By the client.
    pub host_total: f64,
    /// By the server; null if it could not report it.
    pub remote_total: Option<f64>,
}

/// Outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// As planned.
    Whole,
    /// Early, by request.
    Stopped,
    /// By a failure.
    Trouble(String),
}

/// Part of its rate that a sender must reach to prove that the rate holds.
const KEPT_UP: f64 = 0.95;

/// State known once both ends are ready.
pub(super) struct Begun {
    pub(super) peer: SocketAddr,
    pub(super) client: HostState,
    pub(super) server: HostState,
    pub(super) unit_bytes: usize,
}

/// A report under construction.
pub(super) struct Builder {
    protocol: Protocol,
    streams: u32,
    ways: Ways,
    omit: Duration,
    run: u32,
    target_bitrate: u64,
    unit_bytes: usize,
    has_begun: bool,
    /// Counts at the last mark, by flow, with their time.
    before: Vec<(FlowKey, Count, u64)>,
    marks: Vec<Duration>,
    course: Course,
    start: Start,
    intervals: Vec<Interval>,
    flows: Vec<FlowReport>,
    runs: Vec<RunReport>,
    loss_free: Option<LossFreeFound>,
}

impl Builder {
    pub(super) fn new(options: &Options, begun: Begun) -> Self {
        let Begun { peer, client, server, unit_bytes } = begun;
        Self {
            protocol: options.protocol,
            streams: options.streams,
            ways: options.ways,
            omit: options.omit,
            run: 0,
            target_bitrate: 0,
            unit_bytes,
            has_begun: false,
            before: Vec::new(),
            marks: options.marks(),
            course: Course::begin(),
            start: Start::now(peer, client, server, Settings::of(options, unit_bytes)),
            intervals: Vec::new(),
            flows: Vec::new(),
            runs: Vec::new(),
            loss_free: None,
        }
    }

    pub(super) const fn start(&self) -> &Start {
        &self.start
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(super) fn last_run(&self) -> Option<&RunReport> {
        self.runs.last()
    }

    pub(super) fn begin_run(&mut self, run: u32, rate: Rate) {
        self.run = run;
        self.target_bitrate = rate.bits_per_second(self.unit_bytes);
        self.has_begun = true;
        self.before.clear();
    }

    /// Adds the counts of both ends up to a mark.
    pub(super) fn interval(&mut self, mark: usize, ours: Option<Live>, theirs: Option<Live>) -> &Interval {
        let mut streams = Vec::new();
        for live in [ours, theirs].into_iter().flatten() {
            for (key, count) in live.flows {
                streams.push((key.way, self.figures_at_mark(mark, key, count, live.at_ns)));
            }
        }
        streams.sort_by_key(|(way, it)| (*way, it.socket, !it.sender, it.receiver));
        let sums = Sums::of(&streams);
        let streams = streams.into_iter().map(|(_, figures)| figures).collect();
        self.intervals.push(Interval { run: self.run, streams, sums });
        self.intervals.last().expect("one was just added")
    }

    fn figures_at_mark(&mut self, mark: usize, key: FlowKey, count: Count, at_ns: u64) -> Figures {
        let place = self.before.iter().position(|(known, ..)| *known == key);
        let (before, before_ns) = place.map_or((Count::default(), 0), |place| {
            let (_, count, at_ns) = self.before.swap_remove(place);
            (count, at_ns)
        });
        self.before.push((key, count, at_ns));
        // The last interval of a run that was ended early is shorter than planned.
        let end = self.marks.get(mark).copied().unwrap_or_default().min(Duration::from_nanos(at_ns));
        let begin = mark.checked_sub(1).and_then(|mark| self.marks.get(mark)).copied().unwrap_or_default();
        let begin = begin.min(end);
        let omitted = end <= self.omit;
        let zero = if omitted { Duration::ZERO } else { self.omit };
        let mut figures = self.figures(key, &before, &count, at_ns.saturating_sub(before_ns));
        figures.start = begin.saturating_sub(zero).as_secs_f64();
        figures.end = end.saturating_sub(zero).as_secs_f64();
        figures.omitted = omitted;
        figures
    }

    /// Returns the figures of a flow between two counts, `nanos` nanoseconds apart.
    fn figures(&self, key: FlowKey, before: &Count, count: &Count, nanos: u64) -> Figures {
        let bytes = count.bytes.saturating_sub(before.bytes);
        let units = count.units.saturating_sub(before.units);
        let is_datagrams = self.protocol != Protocol::Tcp;
        let is_sender = key.receiver.is_none();
        let lost = count.lost.map(|lost| difference(lost, before.lost.unwrap_or(0))).filter(|_| !is_sender);
        let seconds = seconds(nanos);
        Figures {
            socket: Some(self.socket(key)),
            receiver: key.receiver.filter(|_| self.protocol.is_multicast()),
            start: 0.0,
            end: seconds,
            seconds,
            bytes,
            bits_per_second: per_second(bytes, seconds) * 8.0,
            packets: is_datagrams.then_some(if is_sender { units } else { with_lost(units, lost) }),
            lost_packets: lost,
            lost_percent: lost.map(|lost| percent(lost, with_lost(units, Some(lost)))),
            jitter_ms: count.jitter_ns.map(|nanos| nanos / 1e6),
            delay_ms: self.delay_ms(before, count),
            out_of_order: (is_datagrams && !is_sender)
                .then_some(count.out_of_order.saturating_sub(before.out_of_order)),
            retransmits: count.retransmits.map(|now| now.saturating_sub(before.retransmits.unwrap_or(0))),
            snd_cwnd: count.congestion_window_bytes,
            rtt: count.rtt_ns.map(|nanos| nanos / 1_000),
            omitted: false,
            sender: is_sender,
        }
    }

    /// Returns the mean delay of a unit between two counts; `None` where the ends have no clock in common.
    #[expect(clippy::cast_precision_loss, reason = "delays of a run are far below 2^53 ns")]
    fn delay_ms(&self, before: &Count, count: &Count) -> Option<f64> {
        let units = count.delayed.saturating_sub(before.delayed);
        let nanos = count.delay_sum_ns.saturating_sub(before.delay_sum_ns);
        (self.start.same_host && units > 0).then(|| nanos as f64 / units as f64 / 1e6)
    }

    /// Returns the number of a flow, from 1: forward ones first.
    const fn socket(&self, key: FlowKey) -> u32 {
        let first = match (self.ways, key.way) {
            (Ways::Both, Way::Reverse) => self.streams,
            _ => 0,
        };
        first + key.stream + 1
    }

    /// Adds the results of both ends for the run that was begun.
    pub(super) fn end_run(&mut self, ours: SideResult, theirs: Option<SideResult>, ending: Ending) {
        let all = || ours.flows.iter().chain(theirs.iter().flat_map(|side| &side.flows));
        let mut seen = Vec::new();
        for result in all() {
            seen.extend(self.figures_at_end(result).map(|figures| (result.key.way, figures)));
        }
        let sums = Sums::of(&seen);
        let flows = flow_reports(self, &all().collect::<Vec<_>>());
        self.flows.extend(flows);
        self.course.has_broken_off |= matches!(ending, Ending::Trouble(_));
        let trouble = match ending {
            Ending::Whole => None,
            Ending::Stopped => Some("it was ended early".to_owned()),
            Ending::Trouble(trouble) => Some(trouble),
        };
        self.runs.push(self.run_report(sums, &ours, theirs.as_ref(), trouble));
        self.course.note_all(&ours.notes);
        self.course.note_all(&theirs.map(|side| side.notes).unwrap_or_default());
    }

    /// Returns the figures of a flow; `None` if it ended before its measured part began. Missing units come
    /// from the account, which includes the tail.
    fn figures_at_end(&self, result: &FlowResult) -> Option<Figures> {
        let mut figures = self.figures(result.key, &result.omitted, &result.total, result.measured_ns?);
        let account = result.account.as_ref().filter(|_| self.protocol != Protocol::Tcp);
        if let Some(account) = account {
            let lost = difference(self.missing_units(account), result.omitted.lost.unwrap_or(0));
            let packets = with_lost(figures_units(result), Some(lost));
            figures.lost_packets = Some(lost);
            figures.packets = Some(packets);
            figures.lost_percent = Some(percent(lost, packets));
        }
        Some(figures)
    }

    /// Returns the number of missing units: for a stream, whose account is in bytes, as many as would hold
    /// them.
    fn missing_units(&self, account: &Account) -> u64 {
        match account.unit {
            Unit::Datagrams => account.missing(),
            Unit::Bytes => account.missing().div_ceil(self.unit_bytes as u64),
        }
    }

    /// Returns whether no flow of the last run lost more than `most_lost_ppm` millionths, and each reached its
    /// rate.
    pub(super) fn last_run_holds(&self, most_lost_ppm: u32) -> bool {
        let Some(run) = self.last_run() else { return false };
        let mut flows = self.flows.iter().filter(|flow| flow.run == run.run).peekable();
        #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
        let kept_up = |sender: &Figures| sender.bits_per_second >= run.target_bitrate as f64 * KEPT_UP;
        flows.peek().is_some()
            && flows.all(|flow| {
                flow.account.as_ref().is_some_and(|account| account.loses_at_most(most_lost_ppm))
                    && flow.sender.as_ref().is_some_and(kept_up)
            })
    }

    /// Records the result of a search for the highest rate without loss.
    pub(super) fn found(&mut self, found: LossFreeFound) {
        self.loss_free = Some(found);
    }

    /// Records that no further run could be begun.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.course.break_off(&format!("the next run could not be measured: {reason}"));
    }

    pub(super) fn finish(self, was_interrupted: bool) -> Report {
        let Self { course, start, intervals, flows: streams, runs, loss_free, .. } = self;
        let report::End { time_ns, state, notes, load_1min } = course.end(was_interrupted);
        let rows = summary::rows(&start.test_start, &runs, loss_free.as_ref());
        let end = End {
            time_ns,
            state,
            sums: Sums::of_runs(&runs),
            cpu_utilization_percent: CpuUtilization::of(&runs),
            noise: summary::noise(&start, &runs, &rows),
            streams,
            runs,
            loss_free,
            rows,
            notes,
            load_1min,
        };
        Report { format: FORMAT.to_owned(), version: VERSION, start, intervals, end }
    }
}

/// Pairs every receiver with its sender; a sender whose receivers could not report stays alone.
fn flow_reports(builder: &Builder, all: &[&FlowResult]) -> Vec<FlowReport> {
    let mut reports = Vec::new();
    let mut receivers: Vec<&&FlowResult> = all.iter().filter(|flow| flow.key.receiver.is_some()).collect();
    receivers.sort_by_key(|flow| flow.key);
    let sender_of = |key: FlowKey| all.iter().find(|it| it.key == FlowKey::sender(key.way, key.stream));
    let report = |key: FlowKey, sender: Option<&&FlowResult>, receiver: Option<&FlowResult>| FlowReport {
        run: builder.run,
        way: key.way,
        local: sender.map(|it| it.local),
        remote: sender.and_then(|it| it.remote).or(receiver.map(|it| it.local)),
        congestion: sender.and_then(|it| it.congestion_control.clone()),
        send_buffer_bytes: sender.and_then(|it| it.buffer_bytes),
        receive_buffer_bytes: receiver.and_then(|it| it.buffer_bytes),
        sender: sender.and_then(|it| builder.figures_at_end(it)),
        receiver: receiver.and_then(|it| builder.figures_at_end(it)),
        account: receiver.and_then(|it| it.account.clone()),
    };
    for receiver in &receivers {
        reports.push(report(receiver.key, sender_of(receiver.key), Some(**receiver)));
    }
    for sender in all.iter().filter(|flow| flow.key.receiver.is_none()) {
        let has_receiver =
            receivers.iter().any(|it| (it.key.way, it.key.stream) == (sender.key.way, sender.key.stream));
        if !has_receiver {
            reports.push(report(sender.key, Some(sender), None));
        }
    }
    reports
}

impl Sums {
    fn of(streams: &[(Way, Figures)]) -> Self {
        let sum = |way: Way, sender: bool| {
            let of_way = streams.iter().filter(|(it, figures)| *it == way && figures.sender == sender);
            Figures::sum(of_way.map(|(_, figures)| figures))
        };
        let has_forward = streams.iter().any(|(way, _)| *way == Way::Forward);
        if has_forward {
            Self {
                sum_sent: sum(Way::Forward, true),
                sum_received: sum(Way::Forward, false),
                sum_sent_bidir_reverse: sum(Way::Reverse, true),
                sum_received_bidir_reverse: sum(Way::Reverse, false),
            }
        } else {
            Self {
                sum_sent: sum(Way::Reverse, true),
                sum_received: sum(Way::Reverse, false),
                ..Self::default()
            }
        }
    }

    /// Returns each of the sums, with its name.
    #[must_use]
    pub fn all(&self) -> [(Option<Figures>, &'static str); 4] {
        [
            (self.sum_sent, "sum_sent"),
            (self.sum_received, "sum_received"),
            (self.sum_sent_bidir_reverse, "sum_sent_bidir_reverse"),
            (self.sum_received_bidir_reverse, "sum_received_bidir_reverse"),
        ]
    }
}

impl Figures {
    /// Adds up concurrent flows; `None` if there are none.
    fn sum<'a>(flows: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let flows: Vec<&Self> = flows.collect();
        let first = **flows.first()?;
        let longest = flows.iter().map(|it| it.seconds).fold(0.0, f64::max);
        let bytes = flows.iter().map(|it| it.bytes).sum();
        let receivers: BTreeSet<u32> = flows.iter().filter_map(|it| it.receiver).collect();
        // Data received by all members of a group crossed the network once.
        #[expect(clippy::cast_precision_loss, reason = "a group has few members")]
        let members = receivers.len().max(1) as f64;
        let total = |of: fn(&Self) -> Option<u64>| {
            flows.iter().filter_map(|it| of(it)).reduce(|total, more| total + more)
        };
        let lost = flows.iter().filter_map(|it| it.lost_packets).reduce(|total, more| total + more);
        let packets = total(|it| it.packets);
        Some(Self {
            socket: None,
            receiver: None,
            seconds: longest,
            bytes,
            bits_per_second: per_second(bytes, longest) * 8.0 / members,
            packets,
            lost_packets: lost,
            lost_percent: lost.zip(packets).map(|(lost, packets)| percent(lost, packets)),
            jitter_ms: mean(flows.iter().filter_map(|it| it.jitter_ms)),
            delay_ms: mean(flows.iter().filter_map(|it| it.delay_ms)),
            out_of_order: total(|it| it.out_of_order),
            retransmits: total(|it| it.retransmits),
            snd_cwnd: total(|it| it.snd_cwnd),
            rtt: flows.iter().filter_map(|it| it.rtt).max(),
            ..first
        })
    }
}

impl Settings {
    /// Returns the name of a case in a row of figures, for several flows.
    pub(super) fn case(&self, what: &str) -> String {
        let members = match self.receivers {
            0 | 1 => String::new(),
            receivers => format!("/{receivers}receivers"),
        };
        format!("{what}/{}x{}B{members}", self.num_streams, self.blksize)
    }

    /// Returns the name of the system in a row of figures: with trains it is another system.
    pub(super) fn system(&self) -> String {
        let mut name = self.protocol.to_lowercase().replace(' ', "_");
        let is_stream = name.starts_with("stream");
        for (is_on, technique) in [(self.gso && !is_stream, "+gso"), (self.gro && !is_stream, "+gro")] {
            name += if is_on { technique } else { "" };
        }
        name
    }

    fn of(options: &Options, unit_bytes: usize) -> Self {
        let target_packets_per_second = match options.rate() {
            Rate::Bits(_) => None,
            Rate::Units(units) => Some(units),
        };
        Self {
            protocol: options.protocol.name().to_owned(),
            num_streams: options.streams,
            receivers: options.receivers,
            blksize: unit_bytes as u64,
            omit: options.omit.as_secs_f64(),
            duration: options.duration.as_secs_f64(),
            interval: options.interval.as_secs_f64(),
            reverse: u8::from(options.ways == Ways::Reverse),
            bidir: u8::from(options.ways == Ways::Both),
            target_bitrate: options.rate().bits_per_second(unit_bytes),
            target_packets_per_second,
            sock_bufsize: options.buffer_bytes.map(|bytes| bytes as u64),
            fragments: options.fragments,
            // A stream always uses trains.
            gso: options.gso || options.protocol.is_stream(),
            gro: options.gro || options.protocol.is_stream(),
            congestion: options.congestion_control.clone(),
            repeats: options.repeats,
        }
    }
}

/// Returns the number of datagrams of the measured part that arrived.
const fn figures_units(result: &FlowResult) -> u64 {
    result.total.units.saturating_sub(result.omitted.units)
}

fn with_lost(units: u64, lost: Option<i64>) -> u64 {
    units.saturating_add_signed(lost.unwrap_or(0))
}

fn difference(now: u64, before: u64) -> i64 {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    signed(now) - signed(before)
}

#[cfg(test)]
pub(crate) mod tests;
