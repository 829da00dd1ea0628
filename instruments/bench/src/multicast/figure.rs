//! Figure of a multicast measurement: the latency of every receiver.

use drawing::{Axis, Chart, Point};

use super::report::Report;

/// Draws the latency of every receiver; empty if there is none.
pub(super) fn charts(report: &Report) -> Vec<Chart> {
    let lines = [
        ("p50", "latency_p50"),
        ("p99", "latency_p99"),
        ("p99.9", "latency_p999"),
        ("longest", "latency_max"),
    ];
    let points = |metric| {
        let receivers = 0..report.start.test_start.receivers;
        let rows = receivers.filter_map(|receiver| Some((receiver, report.row(receiver, metric)?)));
        rows.map(|(receiver, row)| Point::spread(receiver.into(), row.median, row.min, row.max)).collect()
    };
    let lines = lines.map(|(name, metric)| (name.to_owned(), points(metric)));
    let (x, y) = (Axis::linear("receiver", 1.0), Axis::logarithmic("one way [µs]"));
    Chart::of_lines("Latency of each receiver", x, y, lines).into_iter().collect()
}
