//! Figures of costs: one for each metric, with every run.

use drawing::{Axis, Chart, Point};

use super::report::{Measured, Metric, Report};

/// Draws the results of every run: one figure for each metric, a line for each transport.
pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let titles = ["Sending", "Receiving", "Delay in the end systems"];
    let chart = |(metric, title): (Metric, &str)| {
        let name = metric.name().split('_').next().unwrap_or("");
        let y = Axis::linear(format!("{name} [{}]", metric.unit()), 0.001);
        let lines = report.transports.iter().map(|it| (it.transport.clone(), points(it, metric)));
        Chart::of_lines(title, Axis::linear("run", 1.0), y, lines)
    };
    Metric::ALL.into_iter().zip(titles).filter_map(chart).collect()
}

fn points(measured: &Measured, metric: Metric) -> Vec<Point> {
    let whole = measured.runs.iter().filter(|run| run.trouble.is_none());
    whole.filter_map(|run| Some(Point::plain(f64::from(run.run + 1), metric.of(run)?))).collect()
}
