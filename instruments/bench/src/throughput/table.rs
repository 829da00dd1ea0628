//! The report for people and as CSV: a row for each run and direction, and for each interval.

use units::text;

use super::figure::charts;
use super::message::{Account, AccountState, Unit};
use super::options::Way;
use super::report::{Figures, FlowReport, Interval, Report, RunReport};
use crate::report::table::{Value, decimals, ordinal, plain};
use crate::report::{Columns, Document, Row, Section, forms};

forms!(Report);

impl crate::report::Report for Report {
    fn document(&self) -> Document {
        let mark = if self.end.noise.is_empty() { "" } else { "~" };
        Document {
            title: "Throughput".to_owned(),
            heading: "Throughput, and what was lost".to_owned(),
            circumstances: self.start.in_words(),
            is_announced: true,
            details: self.start.limits_in_words(),
            noise: self.end.noise.clone(),
            charts: charts(self),
            sections: vec![
                Row::medians(&self.end.rows, mark),
                Section::lines("All runs together", self.together()),
                Section::table("Runs", runs().table(self.end.runs.iter().flat_map(RunReport::ways)))
                    .on_page(),
                Section::table("The accounts", accounts().table(&self.end.streams))
                    .remark("sent = received + lost at each stage + unexplained, all of each run")
                    .on_page(),
            ],
            notes: self.end.notes.clone(),
            missing: self.end.state.in_words(),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        samples().to_csv(self.intervals.iter().flat_map(|interval| self.samples(interval)))
    }
}

/// A direction of a run: the name of the sum, and its figures.
type RunWay<'a> = (&'a RunReport, &'static str, Figures);

fn runs<'a>() -> Columns<RunWay<'a>> {
    Columns::<RunWay>::new()
        .number("run", ordinal, |(run, ..)| run.run)
        .words("sum", |(_, name, _)| name.replace('_', " "))
        .number("seconds", decimals::<2>, |(.., it)| it.seconds)
        .number("rate", text::rate, |(.., it)| it.bits_per_second)
        .number("lost", plain, |(.., it)| {
            let (lost, percent) = (it.lost_packets?, it.lost_percent.unwrap_or(0.0));
            Some(format!("{lost}/{} ({percent:.2} %)", it.packets?))
        })
        .number("jitter [ms]", decimals::<3>, |(.., it)| it.jitter_ms)
        .number("sent again", plain, |(.., it)| it.retransmits)
        .warning(|(run, ..)| run.trouble.as_deref())
}

fn accounts<'a>() -> Columns<&'a FlowReport> {
    Columns::<&FlowReport>::new()
        .number("run", ordinal, |flow| flow.run)
        .words("way", |flow| if flow.way == Way::Forward { "forward" } else { "reverse" })
        .number("sent", plain, |flow| match &flow.account {
            Some(account) => account.sent.into(),
            None => Value::Rest("the receiver could not tell".to_owned()),
        })
        .number("received", plain, |flow| Some(flow.account.as_ref()?.received))
        .words("lost", |flow| {
            let lost = flow.account.iter().flat_map(|account| &account.lost);
            lost.map(|(stage, count)| format!("{count} {stage}")).collect::<Vec<_>>().join(", ")
        })
        .number("unexplained", plain, |flow| Some(flow.account.as_ref()?.unexplained))
        .words("state", |flow| {
            let is_closed = flow.account.as_ref()?.state == AccountState::Closed;
            Some(if is_closed { "closed" } else { "unconfirmed" })
        })
}

/// Figures of a flow in an interval, or of all flows of a direction.
struct Sample {
    run: u32,
    way: &'static str,
    figures: Figures,
}

fn samples() -> Columns<Sample> {
    Columns::<Sample>::new()
        .csv("run", |it| it.run)
        .csv("way", |it| it.way)
        .csv("side", |it| if it.figures.sender { "sender" } else { "receiver" })
        .csv("stream", |it| it.figures.socket)
        .csv("receiver", |it| it.figures.receiver)
        .csv("start_s", |it| it.figures.start)
        .csv("end_s", |it| it.figures.end)
        .csv("omitted", |it| u8::from(it.figures.omitted))
        .csv("bytes", |it| it.figures.bytes)
        .csv("bits_per_second", |it| it.figures.bits_per_second)
        .csv("packets", |it| it.figures.packets)
        .csv("lost_packets", |it| it.figures.lost_packets)
        .csv("lost_percent", |it| it.figures.lost_percent)
        .csv("jitter_ms", |it| it.figures.jitter_ms)
        .csv("out_of_order", |it| it.figures.out_of_order)
        .csv("retransmits", |it| it.figures.retransmits)
        .csv("rtt_us", |it| it.figures.rtt)
        .csv("snd_cwnd_bytes", |it| it.figures.snd_cwnd)
}

impl RunReport {
    fn ways(&self) -> impl Iterator<Item = RunWay<'_>> {
        self.sums.all().into_iter().filter_map(move |(figures, name)| Some((self, name, figures?)))
    }
}

impl Report {
    /// Returns every flow of an interval, then the sums, which have no stream.
    fn samples(&self, interval: &Interval) -> Vec<Sample> {
        let settings = &self.start.test_start;
        let is_back = |socket: u32| settings.bidir == 1 && socket > settings.num_streams;
        let flows = interval.streams.iter().map(|it| (*it, it.socket.is_some_and(is_back)));
        let sums = interval.sums.all().into_iter();
        let sums = sums.filter_map(|(figures, name)| Some((figures?, name.ends_with("reverse"))));
        let sample = |(figures, is_back): (Figures, bool)| {
            let way = if is_back || settings.reverse == 1 { "reverse" } else { "forward" };
            Sample { run: interval.run, way, figures }
        };
        flows.chain(sums).map(sample).collect()
    }

    /// Describes the highest rate, the account and the processor time of all runs together.
    fn together(&self) -> Vec<String> {
        let cpu = &self.end.cpu_utilization_percent;
        let remote = cpu.remote_total.map_or("unknown".to_owned(), |percent| format!("{percent:.0} %"));
        let load = self.end.load_1min.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        let cpu = format!("CPU: client {:.0} %, server {remote}; load {load} afterwards", cpu.host_total);
        let found = self.end.loss_free.as_ref().map(super::LossFreeFound::in_words);
        found.into_iter().chain([self.account_in_words(), cpu]).collect()
    }

    /// Describes the account by stage of loss, all flows of all runs together.
    fn account_in_words(&self) -> String {
        let accounts: Vec<Account> =
            self.end.streams.iter().filter_map(|flow| flow.account.clone()).collect();
        let Some(first) = accounts.first() else {
            return "account: none, no receiver could tell what arrived".to_owned();
        };
        let unit = if first.unit == Unit::Bytes { "bytes" } else { "datagrams" };
        let sum = Account::sum(&accounts);
        let state = match sum.state {
            AccountState::Closed => "closed",
            AccountState::Unconfirmed => "unconfirmed: a sender could not say how much there was",
        };
        format!("account in {unit}: {} ({state})", sum.in_words())
    }
}
