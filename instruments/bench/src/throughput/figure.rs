//! Figures of a measurement: the rate over time, as sent and as received, and the missing part; every run is a
//! line.

use std::collections::BTreeSet;

use drawing::{Axis, COLOURS, Chart, Point, Series};

use super::report::{Figures, Report};

/// A quantity of a sum that is drawn.
struct Quantity {
    title: &'static str,
    y_title: &'static str,
    value: fn(&Figures) -> Option<f64>,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity { title: "Rate", y_title: "payload [Mbit/s]", value: |it| Some(it.bits_per_second / 1e6) },
    Quantity { title: "Missing so far", y_title: "datagrams lost [%]", value: |it| it.lost_percent },
];

/// Names of the four sums, in their order.
const NAMES: [&str; 4] = ["sent", "received", "sent, reverse", "received, reverse"];

/// Returns all figures; empty if there are no intervals.
pub(super) fn charts(report: &Report) -> Vec<Chart> {
    QUANTITIES.iter().filter_map(|quantity| chart(report, quantity)).collect()
}

fn chart(report: &Report, quantity: &Quantity) -> Option<Chart> {
    let mut series: Vec<Series> = Vec::new();
    for run in report.intervals.iter().map(|it| it.run).collect::<BTreeSet<_>>() {
        for (index, (name, colour)) in NAMES.into_iter().zip(COLOURS).enumerate() {
            let intervals = report.intervals.iter().filter(|it| it.run == run);
            let figures = intervals.filter_map(|it| it.sums.all()[index].0).filter(|it| !it.omitted);
            let points: Vec<Point> =
                figures.filter_map(|it| Some(Point::plain(it.end, (quantity.value)(&it)?))).collect();
            if !points.is_empty() {
                let known = series.iter().any(|series| series.colour == colour);
                let name = if known { "" } else { name };
                series.push(Series { name: name.to_owned(), colour, points });
            }
        }
    }
    (!series.is_empty()).then(|| Chart {
        title: quantity.title.to_owned(),
        x: Axis::linear("time in the run [s]", 0.001),
        y: Axis::linear(quantity.y_title, 0.01),
        series,
    })
}
