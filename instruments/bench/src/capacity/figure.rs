//! Figures of a capacity measurement: datagrams received per second over the number of receivers, and their
//! cost.

use drawing::{Axis, COLOURS, Chart, Series};
use probe::Summary;

use super::options::ThreadingModel;
use super::report::{Point, Report};
use crate::udp_notes;

/// Returns two figures for each size of datagrams that was measured: packets per second, and processor time.
pub(crate) fn charts(report: &Report) -> Vec<Chart> {
    let mut payloads: Vec<u64> = report.points.iter().map(|point| point.payload_bytes).collect();
    payloads.sort_unstable();
    payloads.dedup();
    payloads.into_iter().flat_map(|payload| of_payload(report, payload)).collect()
}

fn of_payload(report: &Report, payload: u64) -> impl Iterator<Item = Chart> {
    let lines = |of: fn(&Point) -> Option<Summary>| {
        ThreadingModel::ALL.map(|model| (model.name().to_owned(), points(report, model, payload, of)))
    };
    let receivers = || Axis::linear("receivers", 1.0);
    let (title, y) = (format!("Datagrams of {payload} bytes"), Axis::linear("received [1/s]", 1.0));
    let mut rates = Chart::of_lines(title, receivers(), y, lines(Point::packets_per_second));
    if let Some(rates) = &mut rates {
        rates.series.extend(of_source(payload));
    }
    let title = format!("Receivers' processors, {payload} bytes");
    let y = Axis::linear("of one processor [%]", 1.0);
    let cpu = Chart::of_lines(title, receivers(), y, lines(Point::receivers_cpu_percent));
    rates.into_iter().chain(cpu)
}

fn points(
    report: &Report,
    threading_model: ThreadingModel,
    payload: u64,
    of: fn(&Point) -> Option<Summary>,
) -> Vec<drawing::Point> {
    let of_model =
        |point: &&Point| (point.threading_model, point.payload_bytes) == (threading_model, payload);
    let place = |point: &Point| {
        let Summary { median, min, max, .. } = of(point)?;
        Some(drawing::Point::spread(f64::from(point.workers), median, min, max))
    };
    report.points.iter().filter(of_model).filter_map(place).collect()
}

/// Returns the curve of the UDP notes for processes.
fn of_source(payload: u64) -> Option<Series> {
    let figures = udp_notes::FIGURES.iter();
    let of_payload = figures
        .filter(|it| it.threading_model == ThreadingModel::OwnProcesses && it.payload_bytes == payload);
    let points: Vec<_> =
        of_payload.map(|it| drawing::Point::plain(f64::from(it.workers), it.packets_per_second)).collect();
    let name = "own-processes, UDP notes".to_owned();
    (!points.is_empty()).then(|| Series { name, colour: COLOURS[COLOURS.len() - 1], points })
}
