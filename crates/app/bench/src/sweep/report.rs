//! What a sweep found: the object that `--json` prints, from which table, page and figures are made.
//!
//! Its form is published as `docs/formats/bench-sweep.schema.json`; a test compares the two.

use probe::Summary;
use serde::{Deserialize, Serialize};
use units::text;

use super::granted::Granted;
use super::options::{Options, Place};
use crate::cpu_load::AppliedLoad;
use crate::report::noise::{Elsewhere, spreads};
use crate::report::{End, Row, RowNames, Start, State};
use crate::throughput::{self, Account, Figures, LossFreeFound, Rate};

/// What kind of object it is.
pub const FORMAT: &str = "tallycast.bench.sweep";
/// The version of its form; a change that a reader must know of raises it.
pub const VERSION: u32 = 1;

/// All that was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// When, where and what; null if it was ended before the first point.
    pub start: Option<Start<Settings>>,
    /// Every point, in the order of measuring.
    pub points: Vec<Point>,
    /// Median and spread, one row for each figure of each point.
    pub rows: Vec<Row>,
    /// How it ended.
    pub end: End,
}

/// The grid, as told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Send buffers; null for the system's.
    pub send_buffers: Vec<Option<u64>>,
    /// Receive buffers; null for the system's.
    pub receive_buffers: Vec<Option<u64>>,
    /// Bytes in each datagram.
    pub payloads: Vec<u64>,
    /// How fast to send.
    pub rates: Vec<Rate>,
    /// The CPU load put on the receiver's host, in percent of the time.
    #[serde(rename = "burns_percent")]
    pub cpu_loads_percent: Vec<f64>,
    /// The number of threads that generated this load; null for one per processor.
    #[serde(rename = "burn_workers")]
    pub cpu_load_workers: Option<u32>,
    /// Seconds of each run.
    pub duration: f64,
    /// Runs of each point.
    pub repeats: u32,
    /// Up to which part of the datagrams may be lost where the highest rate was looked for, in millionths; null where
    /// it was not.
    pub loss_below_ppm: Option<u32>,
    /// Whether datagrams were to leave in trains; where they could not, a note says so.
    pub gso: bool,
    /// Whether trains were to be received in one piece; likewise.
    pub gro: bool,
}

/// One point of the grid.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The send buffer that was asked for; null for the system's.
    pub send_buffer_bytes: Option<u64>,
    /// The receive buffer that was asked for; null for the system's.
    pub receive_buffer_bytes: Option<u64>,
    /// Bytes in each datagram.
    pub payload_bytes: u64,
    /// How fast to send.
    pub rate: Rate,
    /// The CPU load to put on the receiver's host, in percent of the time.
    #[serde(rename = "burn_percent")]
    pub cpu_load_percent: f64,
    /// Every run; of a search those at the rate that it found.
    pub runs: Vec<Run>,
    /// What the kernel granted of the send buffer, before it doubles it: the least in any run, those of a search at other
    /// rates included; null if no run could tell.
    pub granted_send_buffer_bytes: Option<u64>,
    /// The same of the receive buffer.
    pub granted_receive_buffer_bytes: Option<u64>,
    /// The highest rate, where it was looked for.
    pub highest: Option<LossFreeFound>,
    /// Why it is not to be relied on; empty when all was quiet.
    pub noise: Vec<String>,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Payload bits that were handed over a second; null if the sender could not tell.
    pub sent_bits_per_second: Option<f64>,
    /// Payload bits that arrived a second; null if the receiver could not tell.
    pub received_bits_per_second: Option<f64>,
    /// What became of all that was sent; null if the receiver could not tell.
    pub account: Option<Account>,
    /// What the kernel granted of the send buffer, before it doubles it; null if the sender could not tell.
    pub send_buffer_bytes: Option<u64>,
    /// The same of the receive buffer.
    pub receive_buffer_bytes: Option<u64>,
    /// How much of a processor the client kept busy, in percent.
    pub client_cpu_percent: f64,
    /// The same of the server, without the load that was put on; null if it could not tell.
    pub server_cpu_percent: Option<f64>,
    /// The load that was put on, as it was measured; null where there was none.
    #[serde(rename = "burned")]
    pub applied_load: Option<AppliedLoad>,
    /// How many processors others kept busy on the client's host, the load that was put on not counted; null where the
    /// kernel does not say.
    pub client_elsewhere_cpus: Option<f64>,
    /// The same of the server's host.
    pub server_elsewhere_cpus: Option<f64>,
    /// Why it is not whole; null if it is.
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

    /// Returns which part of what was sent did not arrive, in percent; `None` where it is not known.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "datagrams of a run are far below 2^53")]
    pub fn lost_percent(&self) -> Option<f64> {
        let account = self.account.as_ref().filter(|account| account.sent > 0)?;
        Some(account.missing() as f64 * 100.0 / account.sent as f64)
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
            // A search that was cut has runs at many rates, of which none stands for the point.
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

    /// Returns median and spread of what was handed over a second, in bits.
    #[must_use]
    pub fn sent(&self) -> Option<Summary> {
        self.summary(|run| run.sent_bits_per_second)
    }

    /// Returns the same of what arrived.
    #[must_use]
    pub fn received(&self) -> Option<Summary> {
        self.summary(|run| run.received_bits_per_second)
    }

    /// Returns the same of the part that was lost, in percent.
    #[must_use]
    pub fn lost_percent(&self) -> Option<Summary> {
        self.summary(Run::lost_percent)
    }

    /// Returns the same of the load that was put on, in percent of one processor.
    #[must_use]
    pub fn applied_load_percent(&self) -> Option<Summary> {
        self.summary(|run| run.applied_load.map(|applied_load| applied_load.cpu_percent()))
    }

    fn summary(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Summary> {
        let whole = self.runs.iter().filter(|run| run.trouble.is_none());
        Summary::of(&whole.filter_map(of).collect::<Vec<_>>())
    }

    /// Names the point.
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
        let case = self.case();
        let row = |metric: &str, unit: &str, of: fn(&Run) -> Option<f64>| {
            let names = RowNames { bench: "sweep", case: &case, system, metric, unit };
            let whole = self.runs.iter().filter(|run| run.trouble.is_none());
            Row::of(names, &whole.filter_map(of).collect::<Vec<_>>())
        };
        let rows = [
            row("sent_bits_per_second", "bit/s", |run| run.sent_bits_per_second),
            row("received_bits_per_second", "bit/s", |run| run.received_bits_per_second),
            row("lost_percent", "%", Run::lost_percent),
            row("burned_cpu_percent", "%", |run| {
                run.applied_load.map(|applied_load| applied_load.cpu_percent())
            }),
        ];
        rows.into_iter().flatten().collect()
    }

    fn judge_noise(&self, same_host: bool) -> Vec<String> {
        let elsewhere = self
            .runs
            .iter()
            .map(|run| Elsewhere { client: run.client_elsewhere_cpus, server: run.server_elsewhere_cpus });
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
    /// Says where in the grid it is.
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

/// How a point is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// At one rate.
    Rate,
    /// By a search for the highest.
    Search,
}

/// A report that grows.
pub(super) struct Builder {
    report: Report,
    settings: Settings,
    is_broken_off: bool,
    /// Points that were refused, for each reason.
    left_out: Vec<(String, Vec<Place>)>,
}

impl Builder {
    pub(super) fn new(options: &Options) -> Self {
        let end = End::open();
        let (format, start, points, rows) = (FORMAT.to_owned(), None, Vec::new(), Vec::new());
        let report = Report { format, version: VERSION, start, points, rows, end };
        Self { report, settings: Settings::of(options), is_broken_off: false, left_out: Vec::new() }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.report.points.is_empty()
    }

    pub(super) fn add(&mut self, place: &Place, report: throughput::Report) {
        self.is_broken_off |= report.end.state == State::BrokenOff;
        let kind = if self.settings.loss_below_ppm.is_some() { Kind::Search } else { Kind::Rate };
        self.report.points.push(Point::of(place, &report, kind));
        report.end.notes.iter().for_each(|note| self.note(note));
        if self.report.start.is_none() {
            self.report.start = Some(report.start.with(self.settings.clone()));
        }
    }

    /// Leaves a point out that the server refused.
    pub(super) fn leave_out(&mut self, place: &Place, reason: &str) {
        self.is_broken_off = true;
        match self.left_out.iter_mut().find(|(known, _)| known == reason) {
            Some((_, places)) => places.push(*place),
            None => self.left_out.push((reason.to_owned(), vec![*place])),
        }
    }

    /// Takes note that no further point could be measured.
    pub(super) fn break_off(&mut self, reason: &str) {
        self.is_broken_off = true;
        self.note(&format!("the next point could not be measured: {reason}"));
    }

    fn note(&mut self, note: &str) {
        self.report.end.note(note);
    }

    pub(super) fn finish(mut self, was_interrupted: bool) -> Report {
        for (reason, places) in std::mem::take(&mut self.left_out) {
            let names = places.iter().map(Place::in_words).collect::<Vec<_>>().join("; ");
            let count = text::counted(u32::try_from(places.len()).unwrap_or(u32::MAX), "point");
            self.note(&format!("{count} of the grid could not be measured: {reason}\nmissing: {names}"));
        }
        let (report, system) = (&mut self.report, self.settings.system());
        report.rows = report.points.iter().flat_map(|point| point.rows(&system)).collect();
        report.end.close(State::of(self.is_broken_off, was_interrupted));
        self.report
    }
}

impl Report {
    /// Says how many points are not to be relied on; empty when all was quiet.
    pub(super) fn noise_in_short(&self) -> Vec<String> {
        let noisy = self.points.iter().filter(|point| !point.noise.is_empty()).count();
        let all = self.points.len();
        (noisy > 0)
            .then(|| format!("{noisy} of {all} points were disturbed or spread widely"))
            .into_iter()
            .collect()
    }

    /// Returns why points are not to be relied on, with their names; empty when all was quiet.
    #[must_use]
    pub fn noise(&self) -> Vec<String> {
        let noisy = self.points.iter().filter(|point| !point.noise.is_empty());
        noisy.map(|point| format!("{}: {}", point.case(), point.noise.join(", "))).collect()
    }
}

impl Settings {
    /// Names what was measured, in a row of figures: with trains it is another system.
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
            loss_below_ppm: options.loss_below.map(|below| below.most_ppm),
            gso: options.gso,
            gro: options.gro,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
