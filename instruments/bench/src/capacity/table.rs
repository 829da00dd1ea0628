//! The report for people and as CSV: a row for each point, and for each run.

use probe::Summary;
use units::text;

use super::figure::charts;
use super::options::Calls;
use super::report::{Point, Report, Run, Settings};
use crate::report::table::{decimals, plain};
use crate::report::{Columns, Document, Section, forms};
use crate::throughput::Account;
use crate::udp_notes;

forms!(Report);

impl crate::report::Report for Report {
    fn document(&self) -> Document {
        let is_at_limit = self.points.iter().any(Point::is_limited_by_senders);
        let at_limit =
            "≥ where next to nothing was lost; the senders were the limit, the receivers might take more";
        let accounts = accounts().table(&self.points);
        Document {
            title: "Capacity".to_owned(),
            heading: "Datagrams received per second".to_owned(),
            circumstances: format!("{}\n{}", self.start.hosts_in_words(), self.start.test_start.in_words()),
            noise: self.noise(),
            noise_in_short: self.noise_in_short(),
            charts: charts(self),
            sections: vec![
                Section::table("Every point", points().table(&self.points)).remark(if is_at_limit {
                    at_limit
                } else {
                    ""
                }),
                Section::lines("Not whole", self.cut_runs()),
                Section::table("The accounts", accounts).remark(
                    "sent = received + lost at each stage + unexplained, all runs of a point together",
                ),
                Section::table("All processors of the receivers' host", processors().table(&self.points))
                    .remark("in percent of one, in the last run of a point"),
                Section::conclusions("002", &self.conclusions),
            ],
            notes: self.end.notes.clone(),
            missing: self.end.state.in_words(),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        runs().to_csv(self.points.iter().flat_map(Point::samples))
    }
}

fn points<'a>() -> Columns<&'a Point> {
    Columns::<&Point>::new()
        .words("threading model", |it| it.threading_model.name())
        .number("payload [B]", plain, |it| it.payload_bytes)
        .number("receivers", plain, |it| it.workers)
        .number("received [1/s]", plain, |it| it.marked(it.packets_per_second()))
        .number("least", text::grouped, |it| it.packets_per_second().map(|rate| rate.min))
        .number("most", text::grouped, |it| it.packets_per_second().map(|rate| rate.max))
        .number("UDP notes", text::grouped, |it| {
            let figure = udp_notes::figure(it.threading_model, it.workers, it.payload_bytes);
            figure.map(|figure| figure.packets_per_second)
        })
        .number("lost [%]", decimals::<2>, |it| it.lost_percent().map(|lost| lost.median))
        .number("receivers' CPU [%]", decimals::<0>, |it| it.receivers_cpu_percent().map(|cpu| cpu.median))
}

fn accounts<'a>() -> Columns<&'a Point> {
    Columns::<&Point>::new()
        .words("threading model", |it| it.threading_model.name())
        .words("of", |it| it.case())
        .words("account", |it| account(it))
}

fn processors<'a>() -> Columns<&'a Point> {
    Columns::<&Point>::new()
        .words("threading model", |it| it.threading_model.name())
        .words("of", |it| it.case())
        .words("time", |it| Some(it.runs.last()?.processors?.in_words()))
}

/// A run with its point.
struct Sample<'a> {
    point: &'a Point,
    index: usize,
    run: &'a Run,
}

fn runs<'a>() -> Columns<Sample<'a>> {
    Columns::<Sample>::new()
        .csv("structure", |it| it.point.threading_model.name())
        .csv("workers", |it| it.point.workers)
        .csv("payload_bytes", |it| it.point.payload_bytes)
        .csv("run", |it| it.index)
        .csv("packets_per_second", |it| it.run.packets_per_second)
        .csv("seconds", |it| it.run.seconds)
        .csv("sent", |it| it.run.account.sent)
        .csv("received", |it| it.run.account.received)
        .csv("receiver_socket_buffer", |it| it.run.account.lost_in_socket_buffer())
        .csv("lost_elsewhere", |it| it.run.account.lost_elsewhere())
        .csv("unexplained", |it| it.run.account.unexplained)
        .csv("kernel_drops", |it| it.run.drops())
        .csv("rcvbuf_errors", |it| it.run.rcvbuf_errors)
        .csv("receivers_cpu_percent", |it| it.run.receivers_cpu_percent)
        .csv("senders_cpu_percent", |it| it.run.senders_cpu_percent)
        .csv("user_percent", |it| it.run.processors.map(|shares| shares.user))
        .csv("system_percent", |it| it.run.processors.map(|shares| shares.system))
        .csv("softirq_percent", |it| it.run.processors.map(|shares| shares.softirq))
        .csv("irq_percent", |it| it.run.processors.map(|shares| shares.irq))
        .csv("idle_percent", |it| it.run.processors.map(|shares| shares.idle))
        .csv("iowait_percent", |it| it.run.processors.map(|shares| shares.iowait))
        .csv("steal_percent", |it| it.run.processors.map(|shares| shares.steal))
        .csv("trouble", |it| it.run.trouble.as_deref())
}

impl Point {
    fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.runs.iter().enumerate().map(|(index, run)| Sample { point: self, index, run })
    }

    /// Writes the median, marked if it is noisy or limited by the senders.
    fn marked(&self, rate: Option<Summary>) -> Option<String> {
        let noisy = if self.noise.is_empty() { "" } else { "~" };
        let at_least = if self.is_limited_by_senders() { "≥" } else { "" };
        Some(format!("{noisy}{at_least}{}", text::grouped(rate?.median)))
    }
}

/// Returns the account of all runs of a point as text, with the kernel's own count.
fn account(point: &Point) -> String {
    let accounts: Vec<Account> = point.runs.iter().map(|run| run.account.clone()).collect();
    let drops: u64 = point.runs.iter().map(Run::drops).sum();
    format!("{}; {drops} dropped by the sockets", Account::sum(&accounts).in_words())
}

impl Settings {
    fn in_words(&self) -> String {
        let rate = match (self.target_packets_per_second, self.target_bitrate) {
            (Some(packets @ 1..), _) => format!("{packets} datagrams a second"),
            (_, Some(bits @ 1..)) => text::rate(bits as f64),
            _ => "as fast as they go".to_owned(),
        };
        let calls = match self.calls {
            Calls::Single => "one datagram per call",
            Calls::Batches => "several datagrams a call (sendmmsg, recvmmsg)",
            Calls::Trains => "sent in trains (UDP_SEGMENT), received several a call",
        };
        let buffer = self.receive_buffer_bytes.map_or("the system's receive buffer".to_owned(), |bytes| {
            format!("receive buffers of {}", text::size(bytes as f64))
        });
        format!(
            "{} {rate}, {calls}, {buffer}; {} of {} s each",
            text::counted(self.senders, "sender"),
            text::counted(self.repeats, "run"),
            self.duration
        )
    }
}
