//! The report as one page of HTML that needs nothing beside it: figures, runs, accounts, hosts.

use std::fmt::Write as _;

use super::report::{Figures, FlowReport, Report};
use super::table::rate_text;
use crate::drawing::{FigureError, STYLE, escaped};

impl Report {
    /// Writes the page.
    ///
    /// # Errors
    /// [`FigureError::Drawing`], only on a defect.
    pub fn to_html(&self) -> Result<String, FigureError> {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Throughput</title>\
             <style>{STYLE}</style></head><body>\n<h1>Throughput, and what was lost</h1>\n"
        );
        let circumstances = format!("{}\n{}", self.start.in_words(), self.start.limits_in_words());
        let _ = writeln!(page, "<p>{}</p>", escaped(&circumstances).replace('\n', "<br>\n"));
        let class = if self.end.noise.is_empty() { "quiet" } else { "noisy" };
        let _ = writeln!(page, "<p class=\"{class}\">{}</p>", escaped(&self.noise_in_words()));
        let _ = writeln!(page, "<figure>{}</figure>", self.to_svgs()?.concat());
        page += &self.medians();
        page += &self.runs();
        page += &self.accounts();
        page.extend(self.end.notes.iter().map(|note| format!("<p>{}</p>\n", escaped(note))));
        page += "</body></html>\n";
        Ok(page)
    }

    fn medians(&self) -> String {
        let rows = self.end.rows.iter().map(|row| {
            let value = |value: f64| match row.unit.as_str() {
                "bit/s" => rate_text(value),
                unit => format!("{value:.3} {unit}"),
            };
            format!(
                "<tr><td class=\"word\">{}</td><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(&row.case),
                escaped(&row.metric.replace('_', " ")),
                value(row.median),
                value(row.min),
                value(row.max),
                row.runs
            )
        });
        let rows: String = rows.collect();
        format!(
            "<h2>Medians and spread</h2>\n<table><tr><th class=\"word\">flows</th><th class=\"word\">figure</th><th>median</th>\
             <th>least</th><th>most</th><th>runs</th></tr>\n{rows}</table>\n"
        )
    }

    fn runs(&self) -> String {
        let mut rows = String::new();
        for run in &self.end.runs {
            for (figures, name) in run.sums.all() {
                if let Some(figures) = figures {
                    rows += &row(run.run, &name.replace('_', " "), &figures, run.trouble.as_deref());
                }
            }
        }
        format!(
            "<h2>Runs</h2>\n<table><tr><th>run</th><th class=\"word\">sum</th><th>seconds</th><th>rate</th><th>lost</th>\
             <th>jitter [ms]</th><th>sent again</th><th class=\"word\"></th></tr>\n{rows}</table>\n"
        )
    }

    fn accounts(&self) -> String {
        let rows: String = self.end.streams.iter().map(account).collect();
        format!(
            "<h2>The accounts</h2>\n<p>sent = received + lost at each stage + unexplained, all of each run.</p>\n<table><tr>\
             <th>run</th><th class=\"word\">way</th><th>sent</th><th>received</th><th class=\"word\">lost</th>\
             <th>unexplained</th><th class=\"word\">state</th></tr>\n{rows}</table>\n"
        )
    }
}

fn row(run: u32, name: &str, it: &Figures, trouble: Option<&str>) -> String {
    let lost = it.lost_packets.zip(it.packets).map_or(String::new(), |(lost, packets)| {
        format!("{lost}/{packets} ({:.2} %)", it.lost_percent.unwrap_or(0.0))
    });
    format!(
        "<tr><td>{}</td><td class=\"word\">{name}</td><td>{:.2}</td><td>{}</td><td>{lost}</td><td>{}</td><td>{}</td>\
         <td class=\"word noisy\">{}</td></tr>\n",
        run + 1,
        it.seconds,
        rate_text(it.bits_per_second),
        it.jitter_ms.map_or(String::new(), |jitter| format!("{jitter:.3}")),
        it.retransmits.map_or(String::new(), |count| count.to_string()),
        escaped(trouble.unwrap_or("")),
    )
}

fn account(flow: &FlowReport) -> String {
    let way = if flow.way == super::Way::Forward { "forward" } else { "reverse" };
    let head = format!("<tr><td>{}</td><td class=\"word\">{way}</td>", flow.run + 1);
    let Some(account) = &flow.account else {
        return format!("{head}<td class=\"word\" colspan=\"5\">the receiver could not tell</td></tr>\n");
    };
    let lost: Vec<String> = account.lost.iter().map(|(stage, count)| format!("{count} {stage}")).collect();
    let state = if account.state == super::AccountState::Closed { "closed" } else { "unconfirmed" };
    format!(
        "{head}<td>{}</td><td>{}</td><td class=\"word\">{}</td><td>{}</td><td class=\"word\">{state}</td></tr>\n",
        account.sent,
        account.received,
        escaped(&lost.join(", ")),
        account.unexplained
    )
}
