//! Conclusions from curves with known answers, with and without holes.

use super::*;
use crate::sweep::{Run, example_point, example_run};
use crate::throughput::LossFreeFound;

const FOUND: LossFreeFound =
    LossFreeFound { found: Found::Largest, bits_per_second: 1, limit: 2, step: 1, confirmations: 3 };

/// A point with buffers in KiB, and the Mbit/s received in each of three runs.
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
        granted_send_buffer_bytes: send_buffer_bytes,
        granted_receive_buffer_bytes: receive_buffer_bytes,
        runs: runs.to_vec(),
        highest,
        ..example_point(1_472, None, 0.0, 0)
    }
}

fn at_limit(point: Point) -> Point {
    Point { highest: Some(LossFreeFound { found: Found::Limit, ..FOUND }), ..point }
}

/// Points like the paper's: rising to a receive buffer of 256 KiB, level beyond; the send buffer changes
/// nothing.
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
        decides
            .here
            .starts_with("911 Mbit/s at buffers 64.0 KiB/4.00 MiB, 101 Mbit/s at buffers 64.0 KiB/16.0 KiB"),
        "{}",
        decides.here
    );
    assert_eq!(larger_do_not_help(&points).agreement, Agreement::Agrees);
    assert_eq!(small_send_buffer_is_enough(&points, false).agreement, Agreement::Agrees);
    let here = small_send_buffer_is_enough(&points, true);
    assert_eq!(here.agreement, Agreement::NotMeasured, "nothing waits in a send buffer here");
    assert!(here.here.contains("911 Mbit/s"), "the text gives the figures: {}", here.here);
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

/// The point as a kernel reports it that grants no more than `receive` KiB.
fn granted(point: Point, receive: u64) -> Point {
    let granted_receive_buffer_bytes = point.receive_buffer_bytes.map(|asked| asked.min(receive << 10));
    Point { granted_receive_buffer_bytes, ..point }
}

#[test]
fn buffers_that_were_clamped_to_the_same_are_one() {
    let points: Vec<Point> = like_the_source().into_iter().map(|point| granted(point, 16)).collect();
    assert_eq!(receive_buffer_decides(&points).agreement, Agreement::NotMeasured);
    assert_eq!(larger_do_not_help(&points).agreement, Agreement::NotMeasured);
}

#[test]
fn what_the_kernel_did_not_grant_is_no_larger_buffer_that_does_not_help() {
    let points: Vec<Point> = like_the_source().into_iter().map(|point| granted(point, 208)).collect();
    let conclusion = larger_do_not_help(&points);
    assert_eq!(conclusion.agreement, Agreement::NotMeasured, "{}", conclusion.here);
    assert!(conclusion.here.contains("sysctl -w net.core.rmem_max=4194304"), "{}", conclusion.here);
    assert_eq!(receive_buffer_decides(&points).agreement, Agreement::Agrees, "what was granted shows it");
    let level = points.into_iter().map(|it| Point { runs: point(64, 16, [900.0; 3]).runs, ..it });
    let decides = receive_buffer_decides(&level.collect::<Vec<_>>());
    assert_eq!(decides.agreement, Agreement::NotMeasured, "more might have been more: {}", decides.here);
    let of = |send, granted: u64| Point {
        granted_send_buffer_bytes: Some(granted << 10),
        ..point(send, 256, [900.0; 3])
    };
    let sends = [of(64, 64), of(1_024, 208)];
    assert!(small_send_buffer_is_enough(&sends, false).here.contains("net.core.wmem_max=1048576"));
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

/// The point where no rate held.
fn hole(point: Point) -> Point {
    let highest = Some(LossFreeFound { found: Found::Nothing, step: 5_000_000, ..FOUND });
    Point { highest, runs: Vec::new(), ..point }
}

#[test]
fn a_hole_that_decides_is_no_verdict_and_one_that_does_not_is_named() {
    let mut points = like_the_source();
    points.truncate(3);
    points[0] = hole(points[0].clone());
    let decides = receive_buffer_decides(&points);
    assert_eq!(decides.agreement, Agreement::NotMeasured);
    assert_eq!(
        decides.here,
        "cannot be judged here: no rate held down to 5.00 Mbit/s at buffers 64.0 KiB/16.0 KiB"
    );
    assert_eq!(larger_do_not_help(&points).agreement, Agreement::Agrees, "the smallest is not asked there");
    points[2] = hole(points[2].clone());
    assert_eq!(larger_do_not_help(&points).agreement, Agreement::NotMeasured);
    // Of two curves one has a hole: the other is judged, and the hole is named.
    let mut points = like_the_source();
    points[0] = hole(points[0].clone());
    let decides = receive_buffer_decides(&points);
    assert_eq!(decides.agreement, Agreement::Agrees);
    assert!(decides.here.contains("left out: no rate held down to 5.00 Mbit/s"), "{}", decides.here);
}

#[test]
fn where_no_rate_held_at_all_that_is_said() {
    let points: Vec<Point> = like_the_source().into_iter().map(hole).collect();
    let decides = receive_buffer_decides(&points);
    assert_eq!(decides.agreement, Agreement::NotMeasured);
    assert!(decides.here.contains("no rate held"), "{}", decides.here);
    let mut report = sweep::example();
    let nothing = |payload_bytes| Point { payload_bytes, ..hole(point(64, 64, [1.0; 3])) };
    report.points = vec![nothing(256), nothing(1_472)];
    report.rows.clear();
    assert!(larger_is_faster(Some(&report)).here.contains("no rate held"));
    assert_eq!(charts(2, &report).count(), 0, "there is nothing but holes");
    let table: Vec<ReferenceFigure> = table(2, &report).collect();
    assert_eq!((table.len(), &table[0].here), (2, &None), "a hole keeps its line");
    assert_eq!(table[0].remark, "figure 2; no rate held down to 5.00 Mbit/s");
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
        assert_eq!((options_of_buffers(grid).check(), options_of_packets(grid).check()), (Ok(()), Ok(())));
    }
    let report = sweep::example();
    assert!(charts(1, &report).all(|chart| chart.title.ends_with(" (figure 1)")));
    assert!(charts(1, &report).count() > 0 && table(1, &report).count() == report.points.len() * 2);
}
