//! Curves of each flow over time, and of goodput over loss.

use core::time::Duration;

use drawing::{Axis, COLOURS, Chart, Point, Series};
use serde::Serialize;

use crate::{Cell, FlowOutcome, Outcome, Standing};

/// Time series of one run, for programs that draw it themselves.
#[derive(Serialize)]
pub(super) struct OverTime<'a> {
    /// Time between points; the first covers the time up to one step.
    step_seconds: f64,
    flows: Vec<FlowOverTime<'a>>,
    queueing_delay_seconds: Vec<f64>,
}

#[derive(Serialize)]
struct FlowOverTime<'a> {
    name: &'a str,
    goodput_bits_per_second: &'a [f64],
    in_flight_packets: &'a [u32],
}

impl<'a> OverTime<'a> {
    pub(super) fn of(outcome: &'a Outcome) -> Self {
        let flow = |flow: &'a FlowOutcome| FlowOverTime {
            name: &flow.name,
            goodput_bits_per_second: &flow.goodput_over_time,
            in_flight_packets: &flow.window_over_time,
        };
        Self {
            step_seconds: outcome.step.as_secs_f64(),
            flows: outcome.flows.iter().map(flow).collect(),
            queueing_delay_seconds: outcome.queue_over_time.iter().map(Duration::as_secs_f64).collect(),
        }
    }
}

/// Returns goodput, queue and packets in flight over the time of a control's first seed.
pub(super) fn over_time(standing: &Standing) -> Vec<Chart> {
    let outcome = &standing.first;
    let step = outcome.step.as_secs_f64();
    let points = |values: &mut dyn Iterator<Item = f64>| -> Vec<Point> {
        values
            .zip(0_u32..)
            .map(|(value, index)| Point::plain((f64::from(index) + 0.5) * step, value))
            .collect()
    };
    let flows = |of: &dyn Fn(&FlowOutcome) -> Vec<f64>| -> Vec<Series> {
        let one_has_no_name = outcome.flows.len() == 1;
        let series = |(index, flow): (usize, &FlowOutcome)| Series {
            name: if one_has_no_name { String::new() } else { format!("flow {}", index + 1) },
            colour: COLOURS[index % COLOURS.len()],
            points: points(&mut of(flow).into_iter()),
        };
        outcome.flows.iter().enumerate().map(series).collect()
    };
    let label = standing.label();
    let chart = |what: &str, unit: &str, series| Chart {
        title: format!("{label}: {what}"),
        x: Axis::linear("time [s]", 0.0),
        y: Axis::linear(unit, 0.001),
        series,
    };
    let waits = &mut outcome.queue_over_time.iter().map(|wait| wait.as_secs_f64() * 1e3);
    let queue = Series { name: String::new(), colour: COLOURS[1], points: points(waits) };
    let megabits = flows(&|flow| flow.goodput_over_time.iter().map(|bits| bits / 1e6).collect());
    let in_flight = flows(&|flow| flow.window_over_time.iter().copied().map(f64::from).collect());
    vec![
        chart("goodput", "goodput [Mbit/s]", megabits),
        chart("the queue", "wait before the bottleneck [ms]", vec![queue]),
        chart("on the way", "packets in flight", in_flight),
    ]
}

/// Returns a control's goodput over loss, a line for each round trip.
pub(super) fn over_loss(label: &str, cells: &[Cell]) -> Chart {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.label() == label).collect();
    let least = cells.iter().map(|cell| cell.loss).filter(|loss| *loss > 0.0).fold(1.0, f64::min);
    // A loss of zero has no position on a logarithmic axis: it is drawn at the left end.
    let place = |loss: f64| if loss > 0.0 { loss } else { least / 10.0 };
    let line = |(index, round_trip): (usize, f64)| Series {
        name: format!("round-trip time {:?}", Duration::from_secs_f64(round_trip)),
        colour: COLOURS[index % COLOURS.len()],
        points: cells
            .iter()
            .filter(|cell| cell.round_trip_seconds == round_trip)
            .map(|cell| Point::plain(place(cell.loss), cell.goodput_bits_per_second / 1e6))
            .collect(),
    };
    let round_trips = distinct(cells.iter().map(|cell| cell.round_trip_seconds));
    Chart {
        title: label.to_owned(),
        x: Axis::logarithmic("loss [part of the packets]"),
        y: Axis::logarithmic("goodput [Mbit/s]"),
        series: round_trips.into_iter().enumerate().map(line).collect(),
    }
}

/// Returns the distinct values, in the order of their first appearance.
pub(super) fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut distinct: Vec<f64> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}
