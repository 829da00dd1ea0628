//! Figures of a sweep: throughput over the size of datagrams and over that of the receive buffer, and the loss.

use std::collections::BTreeSet;

use drawing::{Axis, COLOURS, Chart, Series};
use probe::Summary;

use super::report::{Point, Report};
use super::table::buffer;
use crate::throughput::{Found, LossFreeFound};

/// Axis of a figure.
#[derive(Clone, Copy)]
struct Over {
    title: &'static str,
    axis: &'static str,
    of: fn(&Point) -> Option<u64>,
    /// Returns the name of a point's line: all of its settings except the axis and the load.
    line: fn(&Point) -> String,
}

const OVERS: [Over; 2] = [
    Over {
        title: "Throughput over the size of datagrams",
        axis: "payload [B]",
        of: |point| Some(point.payload_bytes),
        line: |point| format!("{}, buffers {}/{}", point.rate_in_words(), send(point), receive(point)),
    },
    Over {
        title: "Throughput over the receive buffer",
        axis: "receive buffer [B]",
        of: |point| {
            point.receive_buffer_bytes.map(|asked| point.granted_receive_buffer_bytes.unwrap_or(asked))
        },
        line: |point| format!("{} B, {}, send {}", point.payload_bytes, point.rate_in_words(), send(point)),
    },
];

/// Returns a figure of throughput for each axis with several points, and each load; and one of loss.
pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let mut charts = Vec::new();
    for over in OVERS {
        let places: BTreeSet<u64> = report.points.iter().filter_map(over.of).collect();
        if places.len() < 2 {
            continue;
        }
        for cpu_load in cpu_loads(report) {
            let points: Vec<&Point> = report
                .points
                .iter()
                .filter(|point| point.cpu_load_percent.to_bits() == cpu_load.to_bits())
                .collect();
            charts.push(throughput(over, cpu_load, &points));
            charts.push(loss(over, cpu_load, &points));
        }
    }
    charts
}

fn cpu_loads(report: &Report) -> Vec<f64> {
    let mut cpu_loads: Vec<f64> = report.points.iter().map(|point| point.cpu_load_percent).collect();
    cpu_loads.sort_by(f64::total_cmp);
    cpu_loads.dedup();
    cpu_loads
}

fn throughput(over: Over, cpu_load: f64, points: &[&Point]) -> Chart {
    let megabits = |summary: Option<Summary>| summary.map(|it| scaled(&it, 1e-6));
    let mut series = Vec::new();
    for (index, line) in lines(over, points).into_iter().enumerate() {
        let on_line: Vec<&Point> =
            points.iter().copied().filter(|point| (over.line)(point) == line).collect();
        if on_line.iter().any(|point| point.highest.is_some()) {
            let highest = |point: &Point| {
                // Where no rate held there is none to draw, and 0 would be a rate: the line has a hole.
                let megabits = |found: LossFreeFound| match found.found {
                    Found::Nothing => f64::NAN,
                    Found::Largest | Found::Limit => found.bits_per_second as f64 / 1e6,
                };
                point.highest.map(|found| [megabits(found); 3])
            };
            let holes = on_line.iter().filter(|point| point.why_no_rate().is_some());
            let holes: Vec<String> = holes.filter_map(|point| Some((over.of)(point)?.to_string())).collect();
            let none =
                if holes.is_empty() { String::new() } else { format!(", none held at {}", holes.join(", ")) };
            series.push(one(over, &on_line, format!("highest, {line}{none}"), index, highest));
        } else {
            let of = [("sent", Point::sent as fn(&Point) -> _), ("received", Point::received)];
            for (place, (name, of)) in of.into_iter().enumerate() {
                let name = format!("{name}, {line}");
                series.push(one(over, &on_line, name, 2 * index + place, |point| megabits(of(point))));
            }
        }
    }
    let (title, y) = (format!("{}, {}", over.title, load(cpu_load)), Axis::linear("payload [Mbit/s]", 0.01));
    Chart { title, x: Axis::logarithmic(over.axis), y, series }
}

fn loss(over: Over, cpu_load: f64, points: &[&Point]) -> Chart {
    let lines = lines(over, points).into_iter().enumerate();
    let series = lines.map(|(index, line)| {
        let on_line: Vec<&Point> =
            points.iter().copied().filter(|point| (over.line)(point) == line).collect();
        one(over, &on_line, line, 2 * index + 1, |point| point.lost_percent().map(|it| scaled(&it, 1.0)))
    });
    Chart {
        title: format!("Loss, {}", load(cpu_load)),
        x: Axis::logarithmic(over.axis),
        y: Axis::linear("datagrams lost [%]", 0.01),
        series: series.collect(),
    }
}

/// Returns one line: median and extremes of each point.
fn one(
    over: Over,
    points: &[&Point],
    name: String,
    index: usize,
    of: impl Fn(&Point) -> Option<[f64; 3]>,
) -> Series {
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    let place = |point: &&Point| {
        let [median, min, max] = of(point)?;
        Some(drawing::Point::spread((over.of)(point)? as f64, median, min, max))
    };
    let mut points: Vec<drawing::Point> = points.iter().filter_map(place).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series { name, colour: COLOURS[index % COLOURS.len()], points }
}

fn lines(over: Over, points: &[&Point]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in points.iter().filter(|point| (over.of)(point).is_some()).map(|point| (over.line)(point)) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn send(point: &Point) -> String {
    buffer(point.send_buffer_bytes, point.granted_send_buffer_bytes)
}

fn receive(point: &Point) -> String {
    buffer(point.receive_buffer_bytes, point.granted_receive_buffer_bytes)
}

fn load(cpu_load: f64) -> String {
    if cpu_load > 0.0 { format!("with {cpu_load} % load") } else { "without load".to_owned() }
}

fn scaled(summary: &Summary, by: f64) -> [f64; 3] {
    [summary.median, summary.min, summary.max].map(|value| value * by)
}
