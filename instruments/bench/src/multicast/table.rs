//! The report as a table for people, a page, and a table for other programs; latencies are never shown without
//! losses.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use drawing::{Column, Page};
use units::text::{self, counted};

use super::report::{MemberReport, Report, Start};
use crate::report::page::{circumstances, medians};
use crate::report::{Times, csv::cell};

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

impl fmt::Display for Report {
    /// Writes every receiver with its latency, its spread and its account, and the notes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n", self.start.in_words())?;
        writeln!(
            formatter,
            "{:>8} {:>12} {:>22} {:>10} {:>10} {:>10}   ACCOUNT IN DATAGRAMS",
            "RECEIVER", "LATENCY p50", "(MIN – MAX) [µs]", "p99", "p99.9", "LONGEST"
        )?;
        for receiver in 0..self.start.test_start.receivers {
            self.write_member(formatter, receiver)?;
        }
        if !self.all_closed() {
            writeln!(formatter, "unconfirmed: the sender could not say how much there was")?;
        }
        for run in &self.runs {
            if let Some(trouble) = &run.trouble {
                writeln!(formatter, "run {} is not whole: {trouble}", run.run + 1)?;
            }
        }
        for noise in &self.noise {
            writeln!(formatter, "~ noisy, not to be relied on: {noise}")?;
        }
        self.end.notes.iter().try_for_each(|note| writeln!(formatter, "note: {note}"))?;
        self.end.state.in_words().map_or(Ok(()), |words| writeln!(formatter, "{words}"))
    }
}

impl Report {
    fn write_member(&self, formatter: &mut fmt::Formatter<'_>, receiver: u32) -> fmt::Result {
        if self.member(receiver).next().is_none() {
            return Ok(());
        }
        let row = |metric| self.row(receiver, metric);
        let number = |metric| row(metric).map_or("–".to_owned(), |row| format!("{:.1}", row.median));
        let mark = if self.noise.is_empty() { "" } else { "~" };
        let spread =
            row("latency_p50").map_or(String::new(), |row| format!("({:.1} – {:.1})", row.min, row.max));
        let longest = row("latency_max").map_or("–".to_owned(), |row| format!("{:.1}", row.max));
        writeln!(
            formatter,
            "{receiver:>8} {:>12} {spread:>22} {:>10} {:>10} {longest:>10}   {}",
            format!("{mark}{}", number("latency_p50")),
            number("latency_p99"),
            number("latency_p999"),
            account(self.member(receiver)),
        )
    }
}

/// Returns the account of a member, all runs together, as text.
fn account<'a>(members: impl Iterator<Item = &'a MemberReport> + Clone) -> String {
    let sum = |of: fn(&MemberReport) -> u64| members.clone().map(of).sum::<u64>();
    let mut lost = BTreeMap::<&str, u64>::new();
    for (stage, count) in members.clone().flat_map(|member| &member.account.lost) {
        *lost.entry(stage).or_default() += count;
    }
    let lost: String = lost.iter().map(|(stage, count)| format!(" + {count} {stage}")).collect();
    let (sent, received) = (sum(|it| it.account.sent), sum(|it| it.account.received));
    format!("{sent} sent = {received} received{lost} + {} unexplained", sum(|it| it.account.unexplained))
}

/// Writes the page.
pub(super) fn page(report: &Report, svgs: &[String]) -> String {
    let mut page = Page::new("Multicast", "Latency and loss of each receiver of a group");
    let where_and_how = format!("{}\n{}", report.start.in_words(), report.start.limits_in_words());
    circumstances(&mut page, &where_and_how, &report.noise);
    page.figures(svgs);
    medians(&mut page, "Medians and spread of the runs", &report.rows);
    page.heading("Every run, and the account of each receiver");
    page.paragraph("sent = received + lost at each stage + unexplained. Latencies are one way, in µs.");
    let columns = [
        Column::Number("run"),
        Column::Number("receiver"),
        Column::Number("p50"),
        Column::Number("p99"),
        Column::Number("p99.9"),
        Column::Number("longest"),
        Column::Number("behind a later one"),
        Column::Word("account"),
        Column::Warning(""),
    ];
    let rows = report.runs.iter().flat_map(|run| {
        run.members.iter().map(move |member| {
            let time = |of: fn(&Times) -> f64| {
                member.latency.as_ref().map_or(String::new(), |times| format!("{:.1}", of(times)))
            };
            vec![
                (run.run + 1).to_string(),
                member.receiver.to_string(),
                time(|it| it.p50_us),
                time(|it| it.p99_us),
                time(|it| it.p999_us),
                time(|it| it.max_us),
                member.reordered.to_string(),
                account(std::iter::once(member)),
                run.trouble.clone().unwrap_or_default(),
            ]
        })
    });
    page.table(&columns, rows);
    page.end(&report.end.notes)
}

const HEADER: &str = "run,receiver,sent,received,lost,unexplained,duplicates,reordered,min_us,p50_us,p90_us,p99_us,p999_us,\
                      max_us,mean_us\n";

/// Returns a row for every receiver of every run; `lost` is the loss at known stages.
pub(super) fn csv(report: &Report) -> String {
    let mut text = HEADER.to_owned();
    for run in &report.runs {
        for member in &run.members {
            let account = &member.account;
            let time = |of: fn(&Times) -> f64| cell(member.latency.as_ref().map(of));
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                run.run,
                member.receiver,
                account.sent,
                account.received,
                account.lost.values().sum::<u64>(),
                account.unexplained,
                account.duplicates,
                member.reordered,
                time(|it| it.min_us),
                time(|it| it.p50_us),
                time(|it| it.p90_us),
                time(|it| it.p99_us),
                time(|it| it.p999_us),
                time(|it| it.max_us),
                time(|it| it.mean_us),
            );
        }
    }
    text
}
