//! Costs as HTML, as figures, and as CSV.

use std::fmt::Write as _;

use drawing::{Axis, COLOURS, Chart, Column, FigureError, Page, Point, Series};

use super::report::{Measured, Metric, Report};
use crate::report::csv::cell;
use crate::report::page::{circumstances, medians};

/// Writes the page.
pub(super) fn page(report: &Report) -> Result<String, FigureError> {
    let mut page = Page::new("Cost", "What moving data costs");
    circumstances(&mut page, &report.in_words(), &report.noise);
    page.figures(&drawing::svgs(&charts(report))?);
    page.heading("Means, and those of Gu & Grossman 2005");
    let columns = [
        Column::Word("where"),
        Column::Word("transport"),
        Column::Number("send [MHz/(Mbit/s)]"),
        Column::Number("receive [MHz/(Mbit/s)]"),
        Column::Number("delay [ms]"),
        Column::Word(""),
    ];
    let here = report.transports.iter().map(here);
    let source = report.source.iter().flat_map(|host| {
        [("UDP", host.udp), ("TCP", host.tcp)].map(|(transport, costs)| {
            let [send, receive, delay] = costs.in_words();
            vec![host.name.clone(), transport.to_owned(), send, receive, delay, host.machine.clone()]
        })
    });
    page.table(&columns, here.chain(source));
    medians(&mut page, "Medians and spread", &report.rows);
    runs(&mut page, report);
    Ok(page.end(&report.end.notes))
}

fn here(measured: &Measured) -> Vec<String> {
    let mean = |metric| {
        measured.figure(metric).map_or_else(
            || "not measured".to_owned(),
            |it| match it.standard_deviation {
                Some(deviation) => format!("mean {:.3} ± {deviation:.3}", it.mean),
                None => format!("mean {:.3}", it.mean),
            },
        )
    };
    let mut row = vec!["here".to_owned(), measured.transport.clone()];
    row.extend(Metric::ALL.map(mean));
    row.push(measured.trouble.clone().unwrap_or_else(|| measured.loss_in_words()));
    row
}

fn runs(page: &mut Page, report: &Report) {
    page.heading("Runs");
    let columns = [
        Column::Word("transport"),
        Column::Number("run"),
        Column::Number("Mbit/s"),
        Column::Number("lost [%]"),
        Column::Number("sender [s]"),
        Column::Number("receiver [s]"),
        Column::Number("send"),
        Column::Number("receive"),
        Column::Number("delay [ms]"),
        Column::Warning(""),
    ];
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    let rows = report.transports.iter().flat_map(|measured| {
        measured.runs.iter().map(|run| {
            vec![
                measured.transport.clone(),
                (run.run + 1).to_string(),
                format!("{:.2}", run.bits_per_second / 1e6),
                number(run.lost_percent),
                number(Some(run.sender.cpu_seconds)),
                number(run.receiver.map(|it| it.cpu_seconds)),
                number(run.send_mhz_per_mbit),
                number(run.receive_mhz_per_mbit),
                number(run.delay_ms),
                run.trouble.clone().unwrap_or_else(|| run.noise.join("; ")),
            ]
        })
    });
    page.table(&columns, rows);
}

/// Draws the results of every run: one figure for each metric, a line for each transport.
pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let titles = ["Sending", "Receiving", "Delay in the end systems"];
    let chart = |(metric, title): (Metric, &str)| {
        let series: Vec<Series> = report
            .transports
            .iter()
            .zip(COLOURS.into_iter().cycle())
            .filter_map(|(measured, colour)| {
                let whole = measured.runs.iter().filter(|run| run.trouble.is_none());
                let points: Vec<Point> = whole
                    .filter_map(|run| Some(Point::plain(f64::from(run.run + 1), metric.of(run)?)))
                    .collect();
                let name = measured.transport.clone();
                (!points.is_empty()).then_some(Series { name, colour, points })
            })
            .collect();
        (!series.is_empty()).then(|| Chart {
            title: title.to_owned(),
            x: Axis::linear("run", 1.0),
            y: Axis::linear(
                format!("{} [{}]", metric.name().split('_').next().unwrap_or(""), metric.unit()),
                0.001,
            ),
            series,
        })
    };
    Metric::ALL.into_iter().zip(titles).filter_map(chart).collect()
}

const HEADER: &str = "transport,run,bits_per_second,lost_percent,sender_cpu_s,receiver_cpu_s,sender_mhz,receiver_mhz,\
                      send_mhz_per_mbit,receive_mhz_per_mbit,delay_ms,whole\n";

/// Writes every run.
pub(super) fn csv(report: &Report) -> String {
    let mut text = HEADER.to_owned();
    for measured in &report.transports {
        for run in &measured.runs {
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{}",
                measured.transport,
                run.run,
                run.bits_per_second,
                cell(run.lost_percent),
                run.sender.cpu_seconds,
                cell(run.receiver.map(|it| it.cpu_seconds)),
                cell(run.sender.mhz),
                cell(run.receiver.and_then(|it| it.mhz)),
                cell(run.send_mhz_per_mbit),
                cell(run.receive_mhz_per_mbit),
                cell(run.delay_ms),
                u8::from(run.trouble.is_none()),
            );
        }
    }
    text
}
