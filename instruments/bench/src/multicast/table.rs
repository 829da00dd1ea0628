//! The report for people and as CSV: a row for each receiver, and for each receiver of each run. Latencies are
//! never shown without losses.

use units::text::{self, counted};

use super::figure::charts;
use super::report::{MemberReport, Report, RunReport, Start};
use crate::report::table::{decimals, ordinal, plain};
use crate::report::{Columns, Document, Row, Section, forms};
use crate::throughput::Account;

forms!(Report);

impl crate::report::Report for Report {
    fn document(&self) -> Document {
        let mark = if self.noise.is_empty() { "" } else { "~" };
        let members = (0..self.start.test_start.receivers).filter_map(|number| self.receiver(number));
        Document {
            title: "Multicast".to_owned(),
            heading: "Latency and loss of each receiver of a group".to_owned(),
            circumstances: self.start.in_words(),
            details: self.start.limits_in_words(),
            noise: self.noise.clone(),
            charts: charts(self),
            sections: vec![
                Section::table("Every receiver", receivers(mark).table(members))
                    .remark("one-way latencies [µs], medians of the runs, and the account in datagrams"),
                Row::medians(&self.rows, mark).on_page(),
                Section::table("Every run", samples().table(self.samples()))
                    .remark("one-way latencies [µs], and the account of each receiver")
                    .on_page(),
                Section::lines("Not whole", self.not_whole()),
            ],
            notes: self.end.notes.clone(),
            missing: self.end.state.in_words(),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        samples().to_csv(self.samples())
    }
}

/// All runs of a receiver.
struct Receiver<'a> {
    report: &'a Report,
    number: u32,
    account: Account,
}

fn receivers<'a>(mark: &'static str) -> Columns<Receiver<'a>> {
    Columns::<Receiver>::new()
        .number("receiver", plain, |it| it.number)
        .number("p50", plain, move |it| Some(format!("{mark}{:.1}", it.row("latency_p50")?.median)))
        .number("least", decimals::<1>, |it| it.row("latency_p50").map(|row| row.min))
        .number("most", decimals::<1>, |it| it.row("latency_p50").map(|row| row.max))
        .number("p99", decimals::<1>, |it| it.row("latency_p99").map(|row| row.median))
        .number("p99.9", decimals::<1>, |it| it.row("latency_p999").map(|row| row.median))
        .number("longest", decimals::<1>, |it| it.row("latency_max").map(|row| row.max))
        .words("account", |it| it.account.in_words())
}

/// A receiver in a run.
type Sample<'a> = (&'a RunReport, &'a MemberReport);

fn samples<'a>() -> Columns<Sample<'a>> {
    Columns::<Sample>::new()
        .shared("run", "run", ordinal, |(run, _)| run.run)
        .shared("receiver", "receiver", plain, |(_, member)| member.receiver)
        .csv("sent", |(_, member)| member.account.sent)
        .csv("received", |(_, member)| member.account.received)
        .csv("lost", |(_, member)| member.account.lost.values().sum::<u64>())
        .csv("unexplained", |(_, member)| member.account.unexplained)
        .csv("duplicates", |(_, member)| member.account.duplicates)
        .shared("reordered", "reordered", plain, |(_, member)| member.reordered)
        .times(|(_, member)| member.latency)
        .words("account", |(_, member)| member.account.in_words())
        .warning(|(run, _)| run.trouble.as_deref())
}

impl<'a> Receiver<'a> {
    fn row(&self, metric: &str) -> Option<&'a Row> {
        self.report.row(self.number, metric)
    }
}

impl Report {
    /// Returns all runs of a receiver together; none if it was in no run.
    fn receiver(&self, number: u32) -> Option<Receiver<'_>> {
        let accounts: Vec<Account> = self.member(number).map(|member| member.account.clone()).collect();
        (!accounts.is_empty()).then(|| Receiver { report: self, number, account: Account::sum(&accounts) })
    }

    fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.runs.iter().flat_map(|run| run.members.iter().map(move |member| (run, member)))
    }

    fn not_whole(&self) -> Vec<String> {
        let unconfirmed = "unconfirmed: the sender could not say how much there was";
        let unconfirmed = (!self.all_closed()).then(|| unconfirmed.to_owned());
        let cut = self.runs.iter().filter_map(|run| Some((run.run + 1, run.trouble.as_ref()?)));
        let cut = cut.map(|(number, trouble)| format!("run {number} is not whole: {trouble}"));
        unconfirmed.into_iter().chain(cut).collect()
    }
}

impl Start {
    /// Describes measurement and ends.
    #[must_use]
    pub fn in_words(&self) -> String {
        let settings = &self.test_start;
        format!(
            "{}\n{} to {}, members at {}:{}; datagrams of {} bytes, {}; {} of {} s",
            self.hosts_in_words(),
            counted(settings.receivers, "receiver"),
            settings.group,
            self.connecting_to.host,
            self.connecting_to.port,
            settings.payload_bytes,
            text::rate(settings.target_bitrate as f64),
            counted(settings.repeats, "run"),
            settings.duration,
        )
    }
}
