//! The report as one self-contained page of HTML: figures, the table, the host, the account.

use std::fmt::Write as _;
use std::time::Duration;

use drawing::FigureError;
use drawing::canvas::{STYLE, escaped};
use units::text::grouped;

use super::report::{Outcome, Point, Report, Run};
use crate::report::citation;
use crate::scollo::{self, Comparison};

/// Writes the page.
///
/// # Errors
/// [`FigureError::Drawing`], only for a defect.
pub(super) fn page(report: &Report) -> Result<String, FigureError> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>The largest array every cycle</title><style>{STYLE}</style></head><body>\n\
         <h1>The largest array of u32 that a writer hands to a reader every cycle</h1>\n"
    );
    page += &report.circumstances();
    for panels in report.panels() {
        let svgs = panels.iter().map(|panel| panel.to_svg()).collect::<Result<String, _>>()?;
        let caption = panels.first().map_or("", |panel| report.caption(panel.cpus()));
        let _ = writeln!(page, "<figure>{svgs}<figcaption>{}</figcaption></figure>", escaped(caption));
    }
    if let Some(comparison) = &report.source {
        page += &conclusions(comparison);
    }
    page += &report.table();
    page += &report.account();
    let notes = report.end.notes.iter().map(|note| format!("<p>{}</p>\n", escaped(note)));
    page.extend(notes);
    page += "</body></html>\n";
    Ok(page)
}

impl Report {
    fn caption(&self, cpus: Option<f64>) -> &'static str {
        if self.source.is_some() { scollo::figures(cpus) } else { "" }
    }

    fn circumstances(&self) -> String {
        format!(
            "<p>{}; tallycast {}.<br>\n{} elements. Faint points are searches, strong ones their medians; hollow \
             medians are noisy.</p>\n",
            escaped(&self.host_in_words()),
            escaped(&self.start.tallycast),
            escaped(&self.rules_in_words()),
        )
    }

    fn table(&self) -> String {
        let rows: String = self.points.iter().map(row).collect();
        format!(
            "<h2>Medians and spread</h2>\n<table><tr><th>CPUs</th><th>cycle time</th><th class=\"word\">transport</th>\
             <th>median</th><th>least</th><th>most</th><th>repeats</th><th class=\"word\">failed runs</th><th class=\"word\"></th></tr>\n{rows}</table>\n"
        )
    }

    /// Sums up the accounts of everything that was sent.
    fn account(&self) -> String {
        let runs = || self.points.iter().flat_map(Point::searches).flat_map(|search| &search.runs);
        let sum = |of: fn(&Run) -> u64| grouped_whole(runs().map(of).sum());
        format!(
            "<h2>The account</h2>\n<p>{} runs sent {} cycles: {} came complete, {} incomplete, {} not at all. Of {} pieces {} \
             arrived as they were sent, {} with another content, {} not at all, of which the transport had refused {}.</p>\n",
            grouped_whole(runs().count() as u64),
            sum(|run| run.account.cycles.sent),
            sum(|run| run.account.cycles.complete),
            sum(|run| run.account.cycles.incomplete),
            sum(|run| run.account.cycles.missing),
            sum(|run| run.account.pieces.handed),
            sum(|run| run.account.pieces.received),
            sum(|run| run.account.pieces.wrong),
            sum(|run| run.account.pieces.absent),
            sum(|run| run.account.pieces.refused),
        )
    }
}

fn row(point: &Point) -> String {
    let cpus = point.cpus.map_or("max".to_owned(), |cpus| cpus.to_string());
    let cycle_time = Duration::from_nanos(point.cycle_time_ns);
    let head =
        format!("<tr><td>{cpus}</td><td>{cycle_time:?}</td><td class=\"word\">{}</td>", point.transport);
    let tail = match &point.outcome {
        Outcome::Measured { elements: it, noise, broken_off, .. } => format!(
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"word\">{}</td>\
             <td class=\"word noisy\">{}</td></tr>\n",
            grouped(it.median),
            grouped(it.min),
            grouped(it.max),
            it.runs,
            point.failures(),
            escaped(&noise.iter().chain(broken_off).map(String::as_str).collect::<Vec<_>>().join("; "))
        ),
        Outcome::Skipped { reason } => not_measured("skipped", reason),
        Outcome::Failed { reason } => not_measured("failed", reason),
    };
    head + &tail
}

fn not_measured(how: &str, reason: &str) -> String {
    format!("<td class=\"word\" colspan=\"6\">{how}: {}</td></tr>\n", escaped(reason))
}

fn conclusions(comparison: &Comparison) -> String {
    let rows = comparison.conclusions.iter().map(|it| {
        format!(
            "<tr><td class=\"word\">{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td></tr>\n",
            escaped(&it.source),
            escaped(&it.here),
            it.agreement.words()
        )
    });
    format!(
        "<h2>Conclusions of {}, and of this host</h2>\n<table><tr><th class=\"word\">published</th>\
         <th class=\"word\">here</th><th class=\"word\"></th></tr>\n{}</table>\n<p>{} of {} points were noisy.</p>\n",
        escaped(citation(&comparison.document)),
        rows.collect::<String>(),
        comparison.noisy_points,
        comparison.points,
    )
}

fn grouped_whole(value: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "pieces are far below 2^53")]
    grouped(value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::report::tests::example;
    use crate::report::Forms as _;
    use crate::scollo::{Grid, compare};

    #[test]
    fn a_page_is_self_contained_and_escapes_its_text() {
        let page = example().to_html().unwrap();
        assert!(page.contains("Some &lt;CPU&gt; &amp; more"));
        assert_eq!(page.matches("<svg").count(), 3);
        for outside in ["<script", "<link", "src=", "href="] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("NaN"));
    }

    #[test]
    fn a_failed_repeat_is_shown_with_its_point() {
        let mut report = example();
        let Outcome::Measured { broken_off, .. } = &mut report.points[0].outcome else { panic!() };
        *broken_off = Some("the <writer> ended".to_owned());
        assert!(report.to_html().unwrap().contains("; the &lt;writer&gt; ended</td>"));
    }

    #[test]
    fn a_page_of_a_source_shows_its_conclusions_and_names_its_figures() {
        let mut report = example();
        report.source = Some(compare(&report, Grid::Short));
        let page = report.to_html().unwrap();
        assert!(page.contains("As figures 3 and 4 of Scollo."));
        assert!(page.contains("shared memory carries consistently more than UDP"));
    }
}
