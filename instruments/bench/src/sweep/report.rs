//! Report of a sweep: the object that `--json` prints, from which table, page and figures are made.
//!
//! Its form is published as `docs/reference/formats/bench-sweep.schema.json`, which is made from these types.

use probe::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::text;

use super::granted::Granted;
use super::options::{Options, Place};
use crate::cpu_load::AppliedLoad;
use crate::report::noise::{Elsewhere, spreads};
use crate::report::{Course, End, Metric, Names, Row, Start, State};
use crate::throughput::{self, Account, Figures, LossFreeFound, Rate};

/// Format name of the object.
pub const FORMAT: &str = "tallycast.bench.sweep";
/// Version of the format; an incompatible change raises it.
pub const VERSION: u32 = 1;

const METRICS: [Metric<Run>; 4] = [
    ("sent_bits_per_second", "bit/s", |run| run.sent_bits_per_second),
    ("received_bits_per_second", "bit/s", |run| run.received_bits_per_second),
    ("lost_percent", "%", Run::lost_percent),
    ("burned_cpu_percent", "%", Run::applied_load_percent),
];

/// Report of `tallycast bench sweep --json`. No number is NaN.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Name of this format.
    #[schemars(extend("const" = FORMAT))]
    pub format: String,
    /// Version of this format.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// Time, hosts and settings; null if the sweep was ended before the first point.
    pub start: Option<Start<Settings>>,
    /// Every point, in the order of measuring.
    pub points: Vec<Point>,
    /// Median and spread, one row for each figure of each point.
    pub rows: Vec<Row>,
    /// Outcome.
    pub end: End,
}

/// The grid, as given.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Send buffers; null for the system's.
    pub send_buffers: Vec<Option<u64>>,
    /// Receive buffers; null for the system's.
    pub receive_buffers: Vec<Option<u64>>,
    /// Bytes in each datagram.
    pub payloads: Vec<u64>,
    /// Rates of the sender.
    pub rates: Vec<Rate>,
    /// The CPU load applied on the receiver's host, in percent of the time.
    #[serde(rename = "burns_percent")]
    pub cpu_loads_percent: Vec<f64>,
    /// The number of threads that generated this load; null for one per processor.
    #[serde(rename = "burn_workers")]
    pub cpu_load_workers: Option<u32>,
    /// Seconds of each run.
    pub duration: f64,
    /// Runs of each point.
    #[schemars(range(min = 1))]
    pub repeats: u32,
    /// Maximum lost part of the datagrams in a search for the highest rate, in millionths; null without a
    /// search.
    pub loss_below_ppm: Option<u32>,
    /// True if datagrams were to leave in trains; a note says where they could not.
    pub gso: bool,
    /// True if trains were to be received whole; a note says where they could not.
    pub gro: bool,
}

/// One point of the grid.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The requested send buffer; null for the system's.
    pub send_buffer_bytes: Option<u64>,
    /// The requested receive buffer; null for the system's.
    pub receive_buffer_bytes: Option<u64>,
    /// Bytes in each datagram.
    pub payload_bytes: u64,
    /// Rate of the sender.
    pub rate: Rate,
    /// The CPU load to apply on the receiver's host, in percent of the time.
    #[serde(rename = "burn_percent")]
    pub cpu_load_percent: f64,
    /// Every run; of a search those at the rate that it found.
    pub runs: Vec<Run>,
    /// Send buffer that the kernel granted, before it doubles it: the minimum of all runs, those of a search at
    /// other rates included; null if no run has it.
    pub granted_send_buffer_bytes: Option<u64>,
    /// Receive buffer that the kernel granted, likewise.
    pub granted_receive_buffer_bytes: Option<u64>,
    /// The highest rate, if it was searched for.
    pub highest: Option<LossFreeFound>,
    /// Reasons why the point is unreliable; empty if undisturbed.
    pub noise: Vec<String>,
}

/// One run.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Payload bits sent per second; null if the sender could not report it.
    pub sent_bits_per_second: Option<f64>,
    /// Payload bits received per second; null if the receiver could not report it.
    pub received_bits_per_second: Option<f64>,
    /// Account of all datagrams; null if the receiver could not report it.
    pub account: Option<Account>,
    /// Send buffer that the kernel granted, before it doubles it; null if the sender could not report it.
    pub send_buffer_bytes: Option<u64>,
    /// Receive buffer that the kernel granted, before it doubles it; null if the receiver could not report it.
    pub receive_buffer_bytes: Option<u64>,
    /// Processor time of the client, in percent of one processor.
    pub client_cpu_percent: f64,
    /// Processor time of the server without the applied load, in percent of one; null if it could not report
    /// it.
    pub server_cpu_percent: Option<f64>,
    /// The applied load, as measured; null without one.
    #[serde(rename = "burned")]
    pub applied_load: Option<AppliedLoad>,
    /// Processors that other work kept busy on the client's host, the applied load not counted; null where the
    /// kernel does not report it.
    pub client_elsewhere_cpus: Option<f64>,
    /// Processors that other work kept busy on the server's host, the applied load not counted; null likewise.
    pub server_elsewhere_cpus: Option<f64>,
    /// Reason why the run is incomplete; null if it is complete.
    pub trouble: Option<String>,
}

impl Run {
    fn of(report: &throughput::Report, run: &throughput::RunReport) -> Self {
        let flow = report.end.streams.iter().find(|flow| flow.run == run.run);
        let rate = |figures: Option<Figures>| figures.map(|it| it.bits_per_second);
        Self {
            sent_bits_per_second: rate(run.sums.sum_sent),
            received_bits_per_second: rate(run.sums.sum_received),
            account: flow.and_then(|flow| flow.account.clone()),
            send_buffer_bytes: flow.and_then(|flow| flow.send_buffer_bytes),
            receive_buffer_bytes: flow.and_then(|flow| flow.receive_buffer_bytes),
            client_cpu_percent: run.client_cpu_percent,
            server_cpu_percent: run.server_cpu_percent,
            applied_load: run.applied_load,
            client_elsewhere_cpus: run.client_elsewhere_cpus,
            server_elsewhere_cpus: run.server_elsewhere_cpus,
            trouble: run.trouble.clone(),
        }
    }

    /// Returns the part of the sent datagrams that did not arrive, in percent; `None` where it is not known.
    #[must_use]
    pub fn lost_percent(&self) -> Option<f64> {
        self.account.as_ref()?.lost_percent()
    }

    fn applied_load_percent(&self) -> Option<f64> {
        self.applied_load.map(|applied_load| applied_load.cpu_percent())
    }
}

impl Point {
    fn of(place: &Place, report: &throughput::Report, kind: Kind) -> Self {
        let found = report.end.loss_free;
        let all: Vec<(u64, Run)> =
            report.end.runs.iter().map(|run| (run.target_bitrate, Run::of(report, run))).collect();
        let granted = Granted::of(all.iter().map(|(_, run)| run));
        let is_of_point = |rate: u64| match (kind, found) {
            (Kind::Rate, _) => true,
            (Kind::Search, Some(found)) => rate == found.bits_per_second,
            // A search that was cut short has runs at many rates, none of which stands for the point.
            (Kind::Search, None) => false,
        };
        let runs = all.into_iter().filter(|(rate, _)| is_of_point(*rate)).map(|(_, run)| run).collect();
        let mut point = Self {
            send_buffer_bytes: place.send_buffer.map(|bytes| bytes as u64),
            receive_buffer_bytes: place.receive_buffer.map(|bytes| bytes as u64),
            payload_bytes: place.payload as u64,
            rate: place.rate,
            cpu_load_percent: f64::from(place.cpu_load_ppm) / 10_000.0,
            runs,
            granted_send_buffer_bytes: granted.send,
            granted_receive_buffer_bytes: granted.receive,
            highest: found,
            noise: Vec::new(),
        };
        point.noise = point.judge_noise(report.start.same_host);
        if kind == Kind::Search && found.is_none() {
            point.noise.push("the search for a rate did not come to its end".to_owned());
        }
        point
    }

    /// Returns median and spread of the sent bits per second.
    #[must_use]
    pub fn sent(&self) -> Option<Summary> {
        self.summary(|run| run.sent_bits_per_second)
    }

    /// Returns median and spread of the received bits per second.
    #[must_use]
    pub fn received(&self) -> Option<Summary> {
        self.summary(|run| run.received_bits_per_second)
    }

    /// Returns median and spread of the lost part, in percent.
    #[must_use]
    pub fn lost_percent(&self) -> Option<Summary> {
        self.summary(Run::lost_percent)
    }

    /// Returns median and spread of the applied load, in percent of one processor.
    #[must_use]
    pub fn applied_load_percent(&self) -> Option<Summary> {
        self.summary(Run::applied_load_percent)
    }

    fn whole_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.trouble.is_none())
    }

    fn summary(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Summary> {
        Summary::of(&self.whole_runs().filter_map(of).collect::<Vec<_>>())
    }

    /// Returns the name of the point.
    #[must_use]
    pub fn case(&self) -> String {
        let buffer = |bytes: Option<u64>| bytes.map_or("system".to_owned(), |bytes| bytes.to_string());
        let rate = match self.rate {
            Rate::Bits(0) | Rate::Units(0) => "max".to_owned(),
            Rate::Bits(bits) => format!("{bits}bit/s"),
            Rate::Units(units) => format!("{units}pps"),
        };
        format!(
            "{}B/{rate}/send {}/receive {}/burn {}%",
            self.payload_bytes,
            buffer(self.send_buffer_bytes),
            buffer(self.receive_buffer_bytes),
            self.cpu_load_percent
        )
    }

    fn rows(&self, system: &str) -> Vec<Row> {
        Row::each(Names { bench: "sweep", case: &self.case(), system }, self.whole_runs(), &METRICS)
    }

    fn judge_noise(&self, same_host: bool) -> Vec<String> {
        let elsewhere = self.runs.iter().map(|run| [run.client_elsewhere_cpus, run.server_elsewhere_cpus]);
        let mut noise = Elsewhere::most(elsewhere).disturbances(same_host);
        noise.extend(spreads(
            "rates",
            self.rows("udp").iter().filter(|row| row.metric == "received_bits_per_second"),
        ));
        let troubles = self.runs.iter().filter_map(|run| run.trouble.as_ref());
        noise.extend(troubles.map(|trouble| format!("a run is not whole: {trouble}")));
        noise
    }
}

impl Place {
    /// Describes the settings of the point.
    pub(super) fn in_words(&self) -> String {
        let buffer =
            |bytes: Option<usize>| bytes.map_or("the system's".to_owned(), |bytes| text::size(bytes as f64));
        let rate = match self.rate {
            Rate::Bits(0) | Rate::Units(0) => "as fast as possible".to_owned(),
            Rate::Bits(bits) => text::rate(bits as f64),
            Rate::Units(units) => format!("{units} a second"),
        };
        let cpu_load = f64::from(self.cpu_load_ppm) / 10_000.0;
        format!(
            "{} B {rate}, buffers {} and {}, load {cpu_load} %",
            self.payload,
            buffer(self.send_buffer),
            buffer(self.receive_buffer)
        )
    }
}

/// Method of measuring a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// At one rate.
    Rate,
    /// By a search for the highest rate.
    Search,
}

/// A report under construction.
pub(super) struct Builder {
    course: Course,
    settings: Settings,
    start: Option<Start<Settings>>,
    points: Vec<Point>,
    /// Points that were refused, by reason.
    left_out: Vec<(String, Vec<Place>)>,
}

impl Builder {
    pub(super) fn new(options: &Options) -> Self {
        let (settings, start) = (Settings::of(options), None);
        Self { course: Course::default(), settings, start, points: Vec::new(), left_out: Vec::new() }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    pub(super) fn add(&mut self, place: &Place, report: throughput::Report) {
        self.course.has_broken_off |= report.end.state == State::BrokenOff;
        let kind = if self.settings.loss_below_ppm.is_some() { Kind::Search } else { Kind::Rate };
        self.points.push(Point::of(place, &report, kind));
        self.course.note_all(&report.end.notes);
        self.start.get_or_insert_with(|| report.start.with(self.settings.clone()));
    }

    /// Leaves out a point that the server refused.
    pub(super) fn leave_out(&mut self, place: &Place, reason: &str) {
        self.course.has_broken_off = true;
        match self.left_out.iter_mut().find(|(known, _)| known == reason) {
            Some((_, places)) => places.push(*place),
            None => self.left_out.push((reason.to_owned(), vec![*place])),
        }
    }

    /// Records that no further point could be measured.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.course.break_off(&format!("the next point could not be measured: {reason}"));
    }

    pub(super) fn finish(mut self, was_interrupted: bool) -> Report {
        for (reason, places) in &self.left_out {
            let names = places.iter().map(Place::in_words).collect::<Vec<_>>().join("; ");
            let count = text::counted(u32::try_from(places.len()).unwrap_or(u32::MAX), "point");
            let note = format!("{count} of the grid could not be measured: {reason}\nmissing: {names}");
            self.course.note(&note);
        }
        let Self { course, settings, start, points, .. } = self;
        let (system, end) = (settings.system(), course.end(was_interrupted));
        let rows = points.iter().flat_map(|point| point.rows(&system)).collect();
        Report { format: FORMAT.to_owned(), version: VERSION, start, points, rows, end }
    }
}

impl Report {
    /// Returns a text with the number of unreliable points; none if all were undisturbed.
    /// Returns the points that the report does not call unreliable, and the number of those that it does.
    pub(crate) fn quiet_points(&self) -> (Vec<Point>, usize) {
        let quiet: Vec<Point> = self.points.iter().filter(|point| point.noise.is_empty()).cloned().collect();
        let noisy = self.points.len() - quiet.len();
        (quiet, noisy)
    }

    pub(super) fn noise_in_short(&self) -> Option<String> {
        let noisy = self.points.iter().filter(|point| !point.noise.is_empty()).count();
        let all = self.points.len();
        (noisy > 0).then(|| format!("{noisy} of {all} points were disturbed or spread widely"))
    }

    /// Returns why points are unreliable, with their names; empty if all were undisturbed.
    #[must_use]
    pub fn noise(&self) -> Vec<String> {
        let noisy = self.points.iter().filter(|point| !point.noise.is_empty());
        noisy.map(|point| format!("{}: {}", point.case(), point.noise.join(", "))).collect()
    }
}

impl Settings {
    /// Returns the name of the system in a row of figures: with trains it is another system.
    fn system(&self) -> String {
        let techniques = [(self.gso, "+gso"), (self.gro, "+gro")];
        let named = techniques.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name);
        ["udp"].into_iter().chain(named).collect()
    }

    fn of(options: &Options) -> Self {
        let bytes = |all: &[Option<usize>]| all.iter().map(|bytes| bytes.map(|it| it as u64)).collect();
        Self {
            send_buffers: bytes(&options.send_buffers),
            receive_buffers: bytes(&options.receive_buffers),
            payloads: options.payloads.iter().map(|it| *it as u64).collect(),
            rates: options.rates.clone(),
            cpu_loads_percent: options.cpu_loads_ppm.iter().map(|ppm| f64::from(*ppm) / 10_000.0).collect(),
            cpu_load_workers: options.cpu_load_workers,
            duration: options.duration.as_secs_f64(),
            repeats: options.repeats,
            loss_below_ppm: options.loss_below_ppm,
            gso: options.gso,
            gro: options.gro,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
