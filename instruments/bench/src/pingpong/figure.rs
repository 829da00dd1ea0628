//! Figures of a ping-pong: message time and rate against message size, as figures 3 to 6 of Petri 2007.

use drawing::{Axis, Chart, Point};

use super::report::{HALF_ROUND_TRIP, RATE, Report};

/// Returns both figures; none if no exchange was completed.
pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let systems = &report.start.test_start.systems;
    let chart = |title: &str, y: &str, metric: &str, unit: f64| {
        let lines = systems.iter().map(|system| (system.clone(), points(report, system, metric, unit)));
        Chart::of_lines(title, Axis::logarithmic("message [bytes]"), Axis::logarithmic(y), lines)
    };
    let time = chart("Time of a message", "Δt/2, median [µs]", HALF_ROUND_TRIP, 1.0);
    let rate = chart("Rate", "size/Δt [Mbit/s]", RATE, 1e6);
    time.into_iter().chain(rate).collect()
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn points(report: &Report, system: &str, metric: &str, unit: f64) -> Vec<Point> {
    let sizes = report.start.test_start.sizes.iter();
    let rows = sizes.filter_map(|size| Some((*size as f64, report.row(system, *size, metric)?)));
    rows.map(|(size, row)| Point::spread(size, row.median / unit, row.min / unit, row.max / unit)).collect()
}
