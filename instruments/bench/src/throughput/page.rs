//! The report as one self-contained page of HTML: figures, runs, accounts, hosts.

use drawing::{Column, FigureError, Page};
use units::text;

use super::figure;
use super::report::{Figures, FlowReport, Report, RunReport};
use crate::report::page::{circumstances, medians};

/// Writes the page.
pub(super) fn page(report: &Report) -> Result<String, FigureError> {
    let mut page = Page::new("Throughput", "Throughput, and what was lost");
    let where_and_how = format!("{}\n{}", report.start.in_words(), report.start.limits_in_words());
    circumstances(&mut page, &where_and_how, &report.end.noise);
    page.figures(&drawing::svgs(&figure::charts(report))?);
    medians(&mut page, "Medians and spread", &report.end.rows);
    runs(&mut page, report);
    accounts(&mut page, report);
    Ok(page.end(&report.end.notes))
}

fn runs(page: &mut Page, report: &Report) {
    page.heading("Runs");
    let columns = [
        Column::Number("run"),
        Column::Word("sum"),
        Column::Number("seconds"),
        Column::Number("rate"),
        Column::Number("lost"),
        Column::Number("jitter [ms]"),
        Column::Number("sent again"),
        Column::Warning(""),
    ];
    let of_run = |run: &RunReport| {
        let sums = run.sums.all().into_iter();
        let rows = sums.filter_map(|(figures, name)| Some(row(run, name, &figures?)));
        rows.collect::<Vec<_>>()
    };
    page.table(&columns, report.end.runs.iter().flat_map(of_run));
}

fn row(run: &RunReport, name: &str, it: &Figures) -> Vec<String> {
    let lost = it.lost_packets.zip(it.packets).map_or(String::new(), |(lost, packets)| {
        format!("{lost}/{packets} ({:.2} %)", it.lost_percent.unwrap_or(0.0))
    });
    vec![
        (run.run + 1).to_string(),
        name.replace('_', " "),
        format!("{:.2}", it.seconds),
        text::rate(it.bits_per_second),
        lost,
        it.jitter_ms.map_or(String::new(), |jitter| format!("{jitter:.3}")),
        it.retransmits.map_or(String::new(), |count| count.to_string()),
        run.trouble.clone().unwrap_or_default(),
    ]
}

fn accounts(page: &mut Page, report: &Report) {
    page.heading("The accounts");
    page.paragraph("sent = received + lost at each stage + unexplained, all of each run.");
    let columns = [
        Column::Number("run"),
        Column::Word("way"),
        Column::Number("sent"),
        Column::Number("received"),
        Column::Word("lost"),
        Column::Number("unexplained"),
        Column::Word("state"),
    ];
    page.table(&columns, report.end.streams.iter().map(account));
}

fn account(flow: &FlowReport) -> Vec<String> {
    let way = if flow.way == super::Way::Forward { "forward" } else { "reverse" };
    let head = [(flow.run + 1).to_string(), way.to_owned()];
    let tail = match &flow.account {
        None => vec!["the receiver could not tell".to_owned()],
        Some(account) => {
            let lost: Vec<String> =
                account.lost.iter().map(|(stage, count)| format!("{count} {stage}")).collect();
            let state = if account.state == super::AccountState::Closed { "closed" } else { "unconfirmed" };
            let count = |count: u64| count.to_string();
            vec![
                count(account.sent),
                count(account.received),
                lost.join(", "),
                count(account.unexplained),
                state.to_owned(),
            ]
        }
    };
    head.into_iter().chain(tail).collect()
}
