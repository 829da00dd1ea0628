//! The report as one self-contained page of HTML: figures, medians, accounts.

use drawing::{Column, FigureError, Page};
use units::text;

use super::figure;
use super::report::{Report, SizeStepReport};
use crate::report::Times;
use crate::report::page::{circumstances, medians};

/// Writes the page.
pub(super) fn page(report: &Report) -> Result<String, FigureError> {
    let mut page = Page::new("Ping-pong", "Round-trip time and rate at every message size");
    let where_and_how = format!("{}\n{}", report.start.in_words(), report.start.limits_in_words());
    circumstances(&mut page, &where_and_how, &report.end.noise);
    page.figures(&drawing::svgs(&figure::charts(report))?);
    medians(&mut page, "Medians and spread of the runs", &report.end.rows);
    page.heading("Every run, and its account");
    page.paragraph(
        "sent = completed + lost forward + lost in reverse + unexplained, in exchanges. Times are Δt/2 in µs.",
    );
    let columns = [
        Column::Number("run"),
        Column::Word("over"),
        Column::Number("bytes"),
        Column::Number("sent"),
        Column::Number("completed"),
        Column::Number("lost forward"),
        Column::Number("lost in reverse"),
        Column::Number("unexplained"),
        Column::Number("least"),
        Column::Number("p50"),
        Column::Number("p99"),
        Column::Number("p99.9"),
        Column::Number("most"),
        Column::Number("rate"),
        Column::Warning(""),
    ];
    page.table(&columns, report.size_steps.iter().map(cells));
    let skipped = report.end.skipped.iter().map(|it| format!("{} was left out: {}", it.system, it.reason));
    let notes: Vec<String> = skipped.chain(report.end.notes.iter().cloned()).collect();
    Ok(page.end(&notes))
}

fn cells(size_step: &SizeStepReport) -> Vec<String> {
    let account = &size_step.account;
    let time = |of: fn(&Times) -> f64| {
        size_step.half_round_trip.as_ref().map_or(String::new(), |times| format!("{:.1}", of(times)))
    };
    vec![
        (size_step.run + 1).to_string(),
        size_step.system.clone(),
        size_step.message_bytes.to_string(),
        account.sent.to_string(),
        account.completed.to_string(),
        account.lost_forward.to_string(),
        account.lost_reverse.to_string(),
        account.unexplained.to_string(),
        time(|it| it.min_us),
        time(|it| it.p50_us),
        time(|it| it.p99_us),
        time(|it| it.p999_us),
        time(|it| it.max_us),
        size_step.bits_per_second.map_or(String::new(), text::rate),
        size_step.trouble.clone().unwrap_or_default(),
    ]
}
