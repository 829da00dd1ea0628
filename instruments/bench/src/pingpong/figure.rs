//! Figures of a ping-pong: message time and rate against message size, as figures 3 to 6 of Petri 2007.

use drawing::{Axis, COLOURS, Chart, Point, Series};

use super::report::{HALF_ROUND_TRIP, RATE, Report};

/// Returns both figures; none if no exchange was completed.
pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let of = |title: &str, y: &str, metric: &str, unit: f64| {
        let series = series(report, metric, unit);
        let is_empty = series.iter().all(|series| series.points.is_empty());
        (!is_empty).then(|| Chart {
            title: title.to_owned(),
            x: Axis::logarithmic("message [bytes]"),
            y: Axis::logarithmic(y),
            series,
        })
    };
    let time = of("Time of a message", "Δt/2, median [µs]", HALF_ROUND_TRIP, 1.0);
    let rate = of("Rate", "size/Δt [Mbit/s]", RATE, 1e6);
    time.into_iter().chain(rate).collect()
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn series(report: &Report, metric: &str, unit: f64) -> Vec<Series> {
    let settings = &report.start.test_start;
    let of_system = |(system, colour): (&String, _)| {
        let points = settings.sizes.iter().filter_map(|size| {
            let row = report.row(system, *size, metric)?;
            let extremes = Some((row.min / unit, row.max / unit));
            Some(Point { x: *size as f64, y: row.median / unit, extremes })
        });
        Series { name: system.clone(), colour, points: points.collect() }
    };
    settings.systems.iter().zip(COLOURS.into_iter().cycle()).map(of_system).collect()
}
