//! Figures 1 and 2 of document 001: the rate over socket buffers, and over the size of packets.
//!
//! Source: §2 of the document: the rate of UDP was raised as long as less than 0.1 % was lost. Each point here is the
//! highest such rate, found by halving and confirmed by repeats. Where a search ended at its own limit a rate is only known
//! to be at least that: such a point is compared with those that it can be told apart from.

use std::collections::BTreeMap;
use std::time::Duration;

use probe::{Contrast, Summary};

use super::{MTU_PAYLOAD, PAYLOADS};
use crate::report::chart::Chart;
use crate::report::{Beside, Comparisons, Conclusion, Grid, words};
use crate::sweep::{self, LossBelow, Options, Point, Report};
use crate::throughput::{Found, Rate};

/// How much the source lets be lost: a thousandth.
const MOST_LOST_PPM: u32 = 1_000;

/// Where searches begin: more datagrams a second than one flow of a program sends.
const LIMIT: Rate = Rate::Units(1_000_000);

/// The buffers with which the source measured over sizes.
const SOURCE_BUFFER_BYTES: usize = 1 << 20;

/// Returns what is measured for figure 1.
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

/// Returns what is measured for figure 2.
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
        loss_below: Some(LossBelow { most_ppm: MOST_LOST_PPM, step: None }),
        duration,
        repeats,
        ..Options::default()
    }
}

/// What figure 1 says, judged by points of every combination of buffers.
pub(super) fn conclusions_of_buffers(report: Option<&Report>) -> Vec<Conclusion> {
    let points = report.map_or(&[][..], |report| &report.points);
    vec![
        receive_buffer_decides(points),
        larger_do_not_help(points),
        small_send_buffer_is_enough(points, report.is_some_and(is_on_one_host)),
    ]
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
    more(source, pairs, in_words_of_buffers)
}

fn larger_do_not_help(points: &[Point]) -> Conclusion {
    let source = "beyond the receive buffer that is large enough, larger ones do not help";
    let pairs = curves(points, send_buffer, receive_buffer).into_iter().filter_map(|curve| {
        let [.., one, largest] = &curve[..] else { return None };
        Some((*largest, *one))
    });
    no_more(source, pairs, in_words_of_buffers)
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
        return Conclusion::not_judged(source, &format!("{why}; {}", conclusion.here));
    }
    conclusion
}

/// What figure 2 says of the rate.
pub(super) fn larger_is_faster(report: Option<&Report>) -> Conclusion {
    let source = "the packet should be as large as the MTU: smaller ones reach lower rates";
    let points = report.map_or(&[][..], |report| &report.points);
    let at_mtu = points.iter().find(|point| point.payload_bytes == MTU_PAYLOAD as u64);
    let smaller = points.iter().filter(|point| point.payload_bytes < MTU_PAYLOAD as u64);
    let pairs = smaller.filter_map(|smaller| Some((at_mtu?, smaller)));
    more(source, pairs, |point| format!("{} B", point.payload_bytes))
}

/// Returns the points along one buffer for each size of the other, by rising size; of several that the kernel granted the
/// same, the one that asked for least.
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

fn send_buffer(point: &Point) -> Option<u64> {
    point.granted_send_buffer()
}

fn receive_buffer(point: &Point) -> Option<u64> {
    point.granted_receive_buffer()
}

/// Judges that the first of each pair reached a higher rate than the second.
fn more<'a>(
    source: &str,
    pairs: impl Iterator<Item = (&'a Point, &'a Point)>,
    name: impl Fn(&Point) -> String,
) -> Conclusion {
    // What is at least as much as the limit may be more than the other, too.
    let tells = |(_, less): &(&Point, &Point)| !is_at_limit(less);
    judge(source, pairs, (tells, |contrast| contrast), name)
}

/// Judges that the first of each pair reached no higher rate than the second.
fn no_more<'a>(
    source: &str,
    pairs: impl Iterator<Item = (&'a Point, &'a Point)>,
    name: impl Fn(&Point) -> String,
) -> Conclusion {
    let tells = |(one, other): &(&Point, &Point)| !is_at_limit(one) && !is_at_limit(other);
    let turned = |contrast| match contrast {
        Contrast::More => Contrast::Less,
        Contrast::Less | Contrast::Alike => Contrast::More,
        Contrast::Unclear => Contrast::Unclear,
    };
    judge(source, pairs, (tells, turned), name)
}

/// Judges pairs that tell something by a claim, which is `More` where it holds.
fn judge<'a>(
    source: &str,
    pairs: impl Iterator<Item = (&'a Point, &'a Point)>,
    (tells, claim): (impl Fn(&(&'a Point, &'a Point)) -> bool, impl Fn(Contrast) -> Contrast),
    name: impl Fn(&Point) -> String,
) -> Conclusion {
    let (pairs, bound): (Vec<_>, Vec<_>) = pairs.partition(tells);
    if pairs.is_empty() && !bound.is_empty() {
        return Conclusion::not_judged(source, "the searches ended at their own limit");
    }
    let pairs_are_empty = pairs.is_empty();
    let measured: Vec<_> =
        pairs.into_iter().filter_map(|(a, b)| Some((a, a.received()?, b, b.received()?))).collect();
    if !pairs_are_empty && measured.is_empty() {
        return Conclusion::not_judged(source, "no rate held that the searches tried");
    }
    let told = |point: &Point, rate: &Summary| format!("{} at {}", words::rate(rate.median), name(point));
    let here = measured.iter().map(|(a, of_a, b, of_b)| format!("{}, {}", told(a, of_a), told(b, of_b)));
    let here = here.collect::<Vec<_>>().join("; ");
    Comparisons::of(measured.iter().map(|(_, of_a, _, of_b)| claim(of_a.against(of_b))))
        .conclude(source, &here)
}

fn is_at_limit(point: &Point) -> bool {
    point.highest.is_some_and(|found| found.found == Found::Limit)
}

fn median(point: &Point) -> f64 {
    point.received().map_or(0.0, |rate| rate.median)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn in_words_of_buffers(point: &Point) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |bytes| words::bytes(bytes as f64));
    format!("buffers {}/{}", bytes(send_buffer(point)), bytes(receive_buffer(point)))
}

/// Draws a figure of the document.
pub(super) fn charts(figure: u32, report: &Report) -> impl Iterator<Item = Chart> {
    let drawn = |chart: &Chart| chart.series.iter().any(|series| !series.points.is_empty());
    sweep::charts(report).into_iter().filter(drawn).map(move |mut chart| {
        chart.title = format!("{} (figure {figure})", chart.title.replace(", without load", ""));
        chart
    })
}

/// Returns our figures; the source has drawn its own and not written them down.
pub(super) fn table(figure: u32, report: &Report) -> impl Iterator<Item = Beside> {
    let shown = ["received_bits_per_second", "lost_percent"];
    let rows = report.rows.iter().filter(move |row| shown.contains(&row.metric.as_str()));
    rows.map(move |row| Beside {
        what: row.case.clone(),
        metric: row.metric.clone(),
        unit: row.unit.clone(),
        source: None,
        here: Some(row.clone()),
        remark: format!("figure {figure}, which names no numbers"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Agreement;
    use crate::sweep::{Run, example_point, example_run};
    use crate::throughput::LossFreeFound;

    const FOUND: LossFreeFound =
        LossFreeFound { found: Found::Largest, bits_per_second: 1, limit: 2, step: 1, confirmations: 3 };

    /// A point with buffers of so many KiB at which so many Mbit/s were received in each of three runs.
    fn point(send: u64, receive: u64, rates: [f64; 3]) -> Point {
        let runs = rates.map(|rate| Run {
            received_bits_per_second: Some(rate * 1e6),
            send_buffer_bytes: Some(send << 10),
            receive_buffer_bytes: Some(receive << 10),
            ..example_run(1_000, 0)
        });
        let (send_buffer_bytes, receive_buffer_bytes) = (Some(send << 10), Some(receive << 10));
        let highest = Some(FOUND);
        Point {
            send_buffer_bytes,
            receive_buffer_bytes,
            runs: runs.to_vec(),
            highest,
            ..example_point(1_472, None, 0.0, 0)
        }
    }

    fn at_limit(point: Point) -> Point {
        Point { highest: Some(LossFreeFound { found: Found::Limit, ..FOUND }), ..point }
    }

    /// As the source has it: rising to a receive buffer of 256 KiB, level beyond; the send buffer changes nothing.
    fn like_the_source() -> Vec<Point> {
        let of = |send, receive, rate: f64| point(send, receive, [rate, rate + 1.0, rate + 2.0]);
        [64, 1_024]
            .into_iter()
            .flat_map(|send| [of(send, 16, 100.0), of(send, 256, 900.0), of(send, 4_096, 910.0)])
            .collect()
    }

    #[test]
    fn figure_1_like_the_sources_agrees_with_it() {
        let points = like_the_source();
        let decides = receive_buffer_decides(&points);
        assert_eq!(decides.agreement, Agreement::Agrees);
        assert!(
            decides.here.starts_with(
                "911 Mbit/s at buffers 64.0 KiB/4.00 MiB, 101 Mbit/s at buffers 64.0 KiB/16.0 KiB"
            ),
            "{}",
            decides.here
        );
        assert_eq!(larger_do_not_help(&points).agreement, Agreement::Agrees);
        assert_eq!(small_send_buffer_is_enough(&points, false).agreement, Agreement::Agrees);
        let here = small_send_buffer_is_enough(&points, true);
        assert_eq!(here.agreement, Agreement::NotMeasured, "nothing waits in a send buffer here");
        assert!(here.here.contains("911 Mbit/s"), "the figures stand beside: {}", here.here);
    }

    #[test]
    fn a_rate_that_still_rises_or_never_did_differs() {
        let of = |receive, rate: f64| point(64, receive, [rate; 3]);
        let rising = [of(16, 100.0), of(256, 400.0), of(4_096, 900.0)];
        assert_eq!(receive_buffer_decides(&rising).agreement, Agreement::Agrees);
        assert_eq!(larger_do_not_help(&rising).agreement, Agreement::Differs);
        let level = [of(16, 900.0), of(256, 900.0), of(4_096, 900.0)];
        assert_eq!(receive_buffer_decides(&level).agreement, Agreement::Differs);
        assert_eq!(receive_buffer_decides(&level[..1]).agreement, Agreement::NotMeasured, "one buffer alone");
    }

    #[test]
    fn buffers_that_were_clamped_to_the_same_are_one() {
        let mut points = like_the_source();
        for point in &mut points {
            point.runs.iter_mut().for_each(|run| run.receive_buffer_bytes = Some(16 << 10));
        }
        assert_eq!(receive_buffer_decides(&points).agreement, Agreement::NotMeasured);
        assert_eq!(larger_do_not_help(&points).agreement, Agreement::NotMeasured);
    }

    #[test]
    fn a_search_that_ended_at_its_limit_tells_only_that_it_was_more() {
        let of = |receive, rate: f64| point(64, receive, [rate; 3]);
        let fast = [of(16, 100.0), of(256, 900.0), at_limit(of(4_096, 900.0))];
        assert_eq!(receive_buffer_decides(&fast).agreement, Agreement::Agrees, "at least nine times as much");
        assert!(larger_do_not_help(&fast).here.contains("ended at their own limit"));
        let all = fast.map(at_limit);
        assert!(receive_buffer_decides(&all).here.contains("ended at their own limit"));
    }

    #[test]
    fn where_no_rate_held_at_all_that_is_said() {
        let mut points = like_the_source();
        points.iter_mut().for_each(|point| point.runs.clear());
        // As the search of a point has it: nobody could tell a buffer, either.
        assert_eq!(receive_buffer_decides(&points).agreement, Agreement::NotMeasured);
        let mut report = sweep::example();
        let nothing = |payload_bytes| Point { payload_bytes, runs: Vec::new(), ..point(64, 64, [1.0; 3]) };
        report.points = vec![nothing(256), nothing(1_472)];
        assert!(larger_is_faster(Some(&report)).here.contains("no rate held"));
        assert_eq!(charts(2, &report).count(), 1, "of what was found; there is no loss to draw");
    }

    #[test]
    fn noise_judges_nothing() {
        let wide = [point(64, 16, [50.0, 100.0, 900.0]), point(64, 256, [60.0, 200.0, 950.0])];
        assert_eq!(receive_buffer_decides(&wide).agreement, Agreement::NotMeasured);
        assert_eq!(larger_do_not_help(&wide).agreement, Agreement::NotMeasured);
    }

    #[test]
    fn packets_as_large_as_the_mtu_are_compared_with_smaller_ones_only() {
        let of = |payload_bytes, rate: f64| Point { payload_bytes, ..point(1_024, 1_024, [rate; 3]) };
        let mut report = sweep::example();
        report.points = vec![of(256, 100.0), of(1_472, 600.0), of(8_192, 3_000.0)];
        let conclusion = larger_is_faster(Some(&report));
        assert_eq!(
            (conclusion.agreement, conclusion.here.as_str()),
            (Agreement::Agrees, "600 Mbit/s at 1472 B, 100 Mbit/s at 256 B")
        );
        report.points[0] = of(256, 700.0);
        assert_eq!(larger_is_faster(Some(&report)).agreement, Agreement::Differs);
        assert_eq!(larger_is_faster(None).agreement, Agreement::NotMeasured);
    }

    #[test]
    fn both_plans_are_in_order_and_every_figure_names_the_sources() {
        for grid in [Grid::Short, Grid::Full] {
            assert_eq!(
                (options_of_buffers(grid).check(), options_of_packets(grid).check()),
                (Ok(()), Ok(()))
            );
        }
        let report = sweep::example();
        assert!(charts(1, &report).all(|chart| chart.title.ends_with(" (figure 1)")));
        assert!(charts(1, &report).count() > 0 && table(1, &report).count() == report.points.len() * 2);
    }
}
