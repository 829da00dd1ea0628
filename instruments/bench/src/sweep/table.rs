//! The report for people and as CSV: a row for each point, and for each run.

use units::text;

use super::figure::charts;
use super::report::{Point, Report, Run, Settings};
use crate::report::table::{decimals, plain};
use crate::report::{Columns, Document, Section, forms};
use crate::throughput::{Found, LossFreeFound, Rate};

forms!(Report);

impl crate::report::Report for Report {
    fn document(&self) -> Document {
        let accounts = accounts().table(&self.points);
        Document {
            title: "Sweep".to_owned(),
            heading: "Throughput and loss over buffers, sizes, rates and load".to_owned(),
            circumstances: self.circumstances(),
            noise: self.noise(),
            noise_in_short: self.noise_in_short(),
            charts: charts(self),
            sections: vec![
                Section::table("Every point", points().table(&self.points)),
                Section::table("The accounts", accounts).remark(
                    "sent = received + lost at each stage + unexplained, all runs of a point together",
                ),
            ],
            notes: self.end.notes.clone(),
            missing: self.end.state.in_words(),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        samples().to_csv(self.points.iter().flat_map(Point::samples))
    }
}

fn points<'a>() -> Columns<&'a Point> {
    Columns::<&Point>::new()
        .number("payload [B]", plain, |it| it.payload_bytes)
        .number("rate", plain, |it| it.rate_in_words())
        .number("send buffer", plain, |it| buffer(it.send_buffer_bytes, it.granted_send_buffer_bytes))
        .number("receive buffer", plain, |it| {
            buffer(it.receive_buffer_bytes, it.granted_receive_buffer_bytes)
        })
        .number("load [%]", decimals::<0>, |it| it.applied_load_percent().map(|load| load.median))
        .number("sent", text::rate, |it| it.sent().map(|rate| rate.median))
        .number("received", plain, |it| it.received_in_words())
        .number("least", text::rate, |it| it.received().map(|rate| rate.min))
        .number("most", text::rate, |it| it.received().map(|rate| rate.max))
        .number("lost [%]", decimals::<3>, |it| it.lost_percent().map(|lost| lost.median))
}

fn accounts<'a>() -> Columns<&'a Point> {
    Columns::<&Point>::new().words("of", |it| it.case()).words("account in datagrams", |it| account(it))
}

/// A run with its point; without a run, a point that has none.
struct Sample<'a> {
    point: &'a Point,
    run: Option<(usize, &'a Run)>,
}

fn samples<'a>() -> Columns<Sample<'a>> {
    Columns::<Sample>::new()
        .csv("send_buffer_bytes", |it| it.point.send_buffer_bytes)
        .csv("receive_buffer_bytes", |it| it.point.receive_buffer_bytes)
        .csv("payload_bytes", |it| it.point.payload_bytes)
        .csv("target_bits_per_second", |it| match it.point.rate {
            Rate::Bits(bits) => Some(bits),
            Rate::Units(_) => None,
        })
        .csv("target_packets_per_second", |it| match it.point.rate {
            Rate::Bits(_) => None,
            Rate::Units(packets) => Some(packets),
        })
        .csv("burn_percent", |it| it.point.cpu_load_percent)
        .csv("run", |it| it.run.map(|(index, _)| index))
        .csv("sent_bits_per_second", |it| it.run()?.sent_bits_per_second)
        .csv("received_bits_per_second", |it| it.run()?.received_bits_per_second)
        .csv("sent", |it| Some(it.run()?.account.as_ref()?.sent))
        .csv("received", |it| Some(it.run()?.account.as_ref()?.received))
        .csv("receiver_socket_buffer", |it| Some(it.run()?.account.as_ref()?.lost_in_socket_buffer()))
        .csv("lost_elsewhere", |it| Some(it.run()?.account.as_ref()?.lost_elsewhere()))
        .csv("unexplained", |it| Some(it.run()?.account.as_ref()?.unexplained))
        .csv("lost_percent", |it| it.run()?.lost_percent())
        .csv("burned_cpu_percent", |it| Some(it.run()?.applied_load?.cpu_percent()))
        .csv("client_cpu_percent", |it| Some(it.run()?.client_cpu_percent))
        .csv("server_cpu_percent", |it| it.run()?.server_cpu_percent)
        .csv("highest_bits_per_second", |it| it.point.highest.map(|found| found.bits_per_second))
        .csv("granted_send_buffer_bytes", |it| match it.run() {
            Some(run) => run.send_buffer_bytes,
            None => it.point.granted_send_buffer_bytes,
        })
        .csv("granted_receive_buffer_bytes", |it| match it.run() {
            Some(run) => run.receive_buffer_bytes,
            None => it.point.granted_receive_buffer_bytes,
        })
        .csv("trouble", |it| match it.run() {
            Some(run) => run.trouble.clone(),
            None => Some(it.point.why_no_rate().unwrap_or_else(|| it.point.noise.join("; "))),
        })
}

impl<'a> Sample<'a> {
    fn run(&self) -> Option<&'a Run> {
        self.run.map(|(_, run)| run)
    }
}

impl Point {
    fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        let runs = self.runs.iter().enumerate().map(Some);
        let hole = self.runs.is_empty().then_some(None);
        runs.chain(hole).map(|run| Sample { point: self, run })
    }

    pub(super) fn rate_in_words(&self) -> String {
        match self.rate {
            Rate::Bits(0) | Rate::Units(0) => "max".to_owned(),
            Rate::Bits(bits) => text::rate(bits as f64),
            Rate::Units(units) => format!("{units} /s"),
        }
    }

    /// Returns the received or the highest rate, marked if it is noisy.
    fn received_in_words(&self) -> String {
        let mark = if self.noise.is_empty() { "" } else { "~" };
        let received = || self.received().map_or_else(String::new, |rate| text::rate(rate.median));
        format!("{mark}{}", self.highest.as_ref().map_or_else(received, highest))
    }
}

impl Report {
    /// Describes hosts and settings.
    pub(super) fn circumstances(&self) -> String {
        match &self.start {
            Some(start) => format!("{}\n{}", start.hosts_in_words(), start.test_start.in_words()),
            None => "ended before the first point was there".to_owned(),
        }
    }
}

/// Returns a buffer as text: the requested size, and the granted one if that is less.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn buffer(asked: Option<u64>, granted: Option<u64>) -> String {
    let bytes = |bytes: u64| text::size(bytes as f64);
    match (asked, granted) {
        (None, _) => "system".to_owned(),
        (Some(asked), Some(granted)) if granted < asked => {
            format!("{} of {}", bytes(granted), bytes(asked))
        }
        (Some(asked), _) => bytes(asked),
    }
}

/// Describes the result of a search. The table names the maximum loss once for the whole grid.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn highest(found: &LossFreeFound) -> String {
    let rate = |bits: u64| text::rate(bits as f64);
    match found.found {
        Found::Nothing => format!("none from {}", rate(found.step)),
        Found::Largest => format!("highest {}", rate(found.bits_per_second)),
        Found::Limit => format!("≥ {}", rate(found.bits_per_second)),
    }
}

/// Returns the account of all runs of a point as text.
fn account(point: &Point) -> String {
    let accounts: Vec<_> = point.runs.iter().filter_map(|run| run.account.clone()).collect();
    if accounts.is_empty() {
        let why = point.why_no_rate().unwrap_or_else(|| "no receiver could tell what arrived".to_owned());
        return format!("none, {why}");
    }
    crate::throughput::Account::sum(&accounts).in_words()
}

impl Settings {
    fn in_words(&self) -> String {
        let cpu_load =
            match (self.cpu_loads_percent.iter().copied().fold(0.0, f64::max), self.cpu_load_workers) {
                (0.0, _) => "no CPU load".to_owned(),
                (_, None) => {
                    "CPU load on every processor of the receiver's host where LOAD says so".to_owned()
                }
                (_, Some(workers)) => {
                    format!("CPU load generated by {}", text::counted(workers, "thread"))
                }
            };
        let search = self.loss_below_ppm.map_or_else(String::new, |ppm| {
            format!(
                "; the highest rate at which at most {} % is lost, ≥ where the limit held",
                f64::from(ppm) / 10_000.0
            )
        });
        let trains = match (self.gso, self.gro) {
            (false, false) => "",
            (true, false) => " in trains (--gso)",
            (false, true) => ", trains received in one piece (--gro)",
            (true, true) => " in trains, received in one piece (--gso, --gro)",
        };
        format!(
            "UDP{trains}, {} of {} s each, {cpu_load}{search}",
            text::counted(self.repeats, "run"),
            self.duration
        )
    }
}
