//! Figures 1 and 2 of Gu & Grossman 2005: the rate against socket buffer size and against packet size.
//!
//! Source: §2 of the paper: the rate of UDP was raised as long as less than 0.1 % was lost. Each point here is
//! the highest such rate, found by bisection and confirmed by repeats. Where a search ended at its own limit,
//! the rate is only a lower bound: such a point is compared where the bound suffices. Where no rate held there
//! is no figure to compare: the point is a hole, which is reported, and nothing is concluded from it. Buffers
//! are those that the kernel granted; a buffer that it granted only in part says nothing about larger ones.

use std::collections::BTreeMap;
use std::time::Duration;

use drawing::Chart;
use probe::Summary;
use units::text;

use super::{MTU_PAYLOAD, PAYLOADS};
use crate::report::{Agreement, Comparisons, Conclusion, Grid, ReferenceFigure};
use crate::sweep::{self, Options, Point, Report};
use crate::throughput::{Found, Rate};

/// Maximum loss in the paper: a thousandth.
const MOST_LOST_PPM: u32 = 1_000;
/// The same in percent.
pub(super) const MOST_LOST_PERCENT: f64 = MOST_LOST_PPM as f64 / 10_000.0;

/// Upper limit of the searches: more datagrams per second than one flow of a program sends.
const LIMIT: Rate = Rate::Units(1_000_000);

/// The buffers with which the paper measured over sizes.
const SOURCE_BUFFER_BYTES: usize = 1 << 20;

/// Returns the options for figure 1.
#[must_use]
pub fn options_of_buffers(grid: Grid) -> Options {
    let kib = |sizes: &[usize]| sizes.iter().map(|size| Some(size << 10)).collect();
    let (send_buffers, receive_buffers) = match grid {
        Grid::Short => (kib(&[64, 1_024]), kib(&[16, 256, 4_096])),
        Grid::Full => (
            kib(&[32, 128, 512, 2_048, 8_192]),
            kib(&[16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192]),
        ),
    };
    Options { send_buffers, receive_buffers, payloads: vec![MTU_PAYLOAD], ..searching(grid) }
}

/// Returns the options for figure 2.
#[must_use]
pub fn options_of_packets(grid: Grid) -> Options {
    let payloads = match grid {
        Grid::Short => vec![256, 1_024, MTU_PAYLOAD, 8_192],
        Grid::Full => PAYLOADS.to_vec(),
    };
    let buffers = vec![Some(SOURCE_BUFFER_BYTES)];
    Options { payloads, send_buffers: buffers.clone(), receive_buffers: buffers, ..searching(grid) }
}

fn searching(grid: Grid) -> Options {
    let (duration, repeats) = match grid {
        Grid::Short => (Duration::from_millis(200), 3),
        Grid::Full => (Duration::from_secs(5), 5),
    };
    Options {
        rates: vec![LIMIT],
        loss_below_ppm: Some(MOST_LOST_PPM),
        duration,
        repeats,
        ..Options::default()
    }
}

/// Returns the conclusions of figure 1, judged by points of every combination of buffers.
pub(super) fn conclusions_of_buffers(report: Option<&Report>) -> Vec<Conclusion> {
    let (points, noisy) = report.map(Report::quiet_points).unwrap_or_default();
    let conclusions = [
        receive_buffer_decides(&points),
        larger_do_not_help(&points),
        small_send_buffer_is_enough(&points, report.is_some_and(is_on_one_host)),
    ];
    conclusions.map(|it| it.without_noisy(noisy)).into()
}

fn is_on_one_host(report: &Report) -> bool {
    report.start.as_ref().is_some_and(|start| start.same_host)
}

fn receive_buffer_decides(points: &[Point]) -> Conclusion {
    let source = "the receive buffer decides: it must be large enough for the highest rate";
    let pairs = curves(points, send_buffer, receive_buffer).into_iter().filter_map(|curve| {
        let (smallest, rest) = curve.split_first()?;
        Some((rest.iter().copied().max_by(|a, b| median(a).total_cmp(&median(b)))?, *smallest))
    });
    let conclusion = more(source, pairs, in_words_of_buffers);
    match clamped(points, Point::clamped_receive_buffer) {
        // A rise is visible in the granted sizes, too; its absence cannot be concluded from sizes that were not
        // granted.
        Some(why) if conclusion.agreement != Agreement::Agrees => conclusion.withdrawn(&why),
        _ => conclusion,
    }
}

fn larger_do_not_help(points: &[Point]) -> Conclusion {
    let source = "beyond the receive buffer that is large enough, larger ones do not help";
    let pairs = curves(points, send_buffer, receive_buffer).into_iter().filter_map(|curve| {
        let [.., one, largest] = &curve[..] else { return None };
        Some((*largest, *one))
    });
    let conclusion = no_more(source, pairs, in_words_of_buffers);
    match clamped(points, Point::clamped_receive_buffer) {
        Some(why) => conclusion.withdrawn(&why),
        None => conclusion,
    }
}

fn small_send_buffer_is_enough(points: &[Point], same_host: bool) -> Conclusion {
    let source =
        "the send buffer should be clearly smaller than the receive buffer: a larger one is no better";
    let pairs = curves(points, receive_buffer, send_buffer).into_iter().filter_map(|curve| {
        let [smallest, .., largest] = &curve[..] else { return None };
        Some((*largest, *smallest))
    });
    let conclusion = no_more(source, pairs, in_words_of_buffers);
    if same_host && conclusion.is_judged() {
        let why = "between ends on one host no datagram waits in a send buffer, as before a network it does";
        return conclusion.withdrawn(why);
    }
    match clamped(points, Point::clamped_send_buffer) {
        Some(why) => conclusion.withdrawn(&why),
        None => conclusion,
    }
}

/// Returns why the largest requested buffer was not granted, if it was not.
fn clamped(points: &[Point], why: fn(&Point) -> Option<String>) -> Option<String> {
    let asked = |point: &&Point| (point.receive_buffer_bytes, point.send_buffer_bytes);
    points.iter().filter(|point| why(point).is_some()).max_by_key(asked).and_then(why)
}

/// Returns the conclusion of figure 2 about the rate.
pub(super) fn larger_is_faster(report: Option<&Report>) -> Conclusion {
    let source = "the packet should be as large as the MTU: smaller ones reach lower rates";
    let (points, noisy) = report.map(Report::quiet_points).unwrap_or_default();
    let at_mtu = points.iter().find(|point| point.payload_bytes == MTU_PAYLOAD as u64);
    let smaller = points.iter().filter(|point| point.payload_bytes < MTU_PAYLOAD as u64);
    let pairs = smaller.filter_map(|smaller| Some((at_mtu?, smaller)));
    more(source, pairs, |point| format!("{} B", point.payload_bytes)).without_noisy(noisy)
}

/// Returns the points along one buffer for each size of the other, by rising size; of several that the kernel
/// granted the same, the one that requested least.
fn curves(
    points: &[Point],
    along: fn(&Point) -> Option<u64>,
    over: fn(&Point) -> Option<u64>,
) -> Vec<Vec<&Point>> {
    let mut curves: BTreeMap<Option<u64>, BTreeMap<u64, &Point>> = BTreeMap::new();
    for point in points {
        if let Some(size) = over(point) {
            curves.entry(along(point)).or_default().entry(size).or_insert(point);
        }
    }
    curves.into_values().map(|curve| curve.into_values().collect()).collect()
}

/// Returns the granted buffer; where that is not reported, the requested one.
fn send_buffer(point: &Point) -> Option<u64> {
    point.granted_send_buffer_bytes.or(point.send_buffer_bytes)
}

fn receive_buffer(point: &Point) -> Option<u64> {
    point.granted_receive_buffer_bytes.or(point.receive_buffer_bytes)
}

/// Judges that the first of each pair reached a higher rate than the second.
fn more<'a>(
    source: &str,
    pairs: impl Iterator<Item = (&'a Point, &'a Point)>,
    name: impl Fn(&Point) -> String,
) -> Conclusion {
    // A lower bound at the limit may exceed the other, too.
    let tells = |_: &Point, less: &Point| !is_at_limit(less);
    let (found, here, left_out) = compare(pairs, tells, name);
    found.conclude_but(source, here, &left_out)
}

/// Judges that the first of each pair reached no higher rate than the second.
fn no_more<'a>(
    source: &str,
    pairs: impl Iterator<Item = (&'a Point, &'a Point)>,
    name: impl Fn(&Point) -> String,
) -> Conclusion {
    let tells = |one: &Point, other: &Point| !is_at_limit(one) && !is_at_limit(other);
    let (found, here, left_out) = compare(pairs, tells, name);
    found.turned().conclude_but(source, here, &left_out)
}

/// Compares each pair that `tells` something; returns also the rates in words, and the reasons why others are left out:
/// holes, and searches that ended at their own limit.
fn compare<'a>(
    pairs: impl Iterator<Item = (&'a Point, &'a Point)>,
    tells: impl Fn(&Point, &Point) -> bool,
    name: impl Fn(&Point) -> String,
) -> (Comparisons, Vec<String>, Vec<String>) {
    let (mut contrasts, mut here, mut left_out, mut bound) = (Vec::new(), Vec::new(), Vec::new(), false);
    let hole = |point: &Point| format!("{} at {}", why_hole(point), name(point));
    for (a, b) in pairs {
        let Some((of_a, of_b)) = a.received().zip(b.received()) else {
            for hole in [a, b].into_iter().filter(|point| point.received().is_none()).map(hole) {
                if !left_out.contains(&hole) {
                    left_out.push(hole);
                }
            }
            continue;
        };
        if !tells(a, b) {
            bound = true;
            continue;
        }
        let told = |point: &Point, rate: &Summary| format!("{} at {}", text::rate(rate.median), name(point));
        here.push(format!("{}, {}", told(a, &of_a), told(b, &of_b)));
        contrasts.push(of_a.against(&of_b));
    }
    left_out.extend(bound.then(|| "the searches ended at their own limit".to_owned()));
    (Comparisons::of(contrasts), here, left_out)
}

/// Returns why a point has no rate.
fn why_hole(point: &Point) -> String {
    point.why_no_rate().unwrap_or_else(|| "no search came to its end".to_owned())
}

fn is_at_limit(point: &Point) -> bool {
    point.highest.is_some_and(|found| found.found == Found::Limit)
}

fn median(point: &Point) -> f64 {
    point.received().map_or(0.0, |rate| rate.median)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn in_words_of_buffers(point: &Point) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |bytes| text::size(bytes as f64));
    format!("buffers {}/{}", bytes(send_buffer(point)), bytes(receive_buffer(point)))
}

/// Draws a figure of the paper.
pub(super) fn charts(figure: u32, report: &Report) -> impl Iterator<Item = Chart> {
    let drawn = |chart: &Chart| chart.series.iter().any(|it| it.points.iter().any(|point| !point.y.is_nan()));
    sweep::charts(report).into_iter().filter(drawn).map(move |mut chart| {
        chart.title = format!("{} (figure {figure})", chart.title.replace(", without load", ""));
        chart
    })
}

/// Returns our figures; the paper has drawn its own without numbers.
pub(super) fn table(figure: u32, report: &Report) -> impl Iterator<Item = ReferenceFigure> {
    let shown = ["received_bits_per_second", "lost_percent"];
    let rows = report.rows.iter().filter(move |row| shown.contains(&row.metric.as_str()));
    let found =
        rows.map(move |row| ReferenceFigure::of_row(row, format!("figure {figure}, which names no numbers")));
    let holes = report.points.iter().filter(|point| point.received().is_none());
    found.chain(holes.map(move |point| ReferenceFigure {
        remark: format!("figure {figure}; {}", why_hole(point)),
        ..ReferenceFigure::new(point.case(), "received_bits_per_second", "bit/s", None)
    }))
}

#[cfg(test)]
mod tests;
