//! Points with known answers, for tests of conclusions, and tests of what is computed in a report.

use std::net::Ipv4Addr;

use super::*;
use crate::report::{State, stored};
use crate::throughput::example_account;

/// Returns a report of the notes' own points, in which two runs were ended early: processes gain, threads at one
/// socket lose.
pub(crate) fn example() -> Report {
    stored("capacity-cut")
}

/// Returns a run of one second.
fn run(received: u64, dropped: u64, cpu_percent: f64) -> Run {
    let account = example_account(received + dropped, received);
    let sockets = vec![Socket { drops: dropped, received: vec![received] }];
    let run = example().points[1].runs.remove(0);
    Run {
        packets_per_second: per_second(received, 1.0),
        ports: vec![Port { account: account.clone(), sockets, ..run.ports[0].clone() }],
        account,
        receivers_cpu_percent: cpu_percent,
        rcvbuf_errors: Some(dropped),
        ..run
    }
}

/// Returns a point with three runs of nearly equal rates.
pub(crate) fn point(
    threading_model: ThreadingModel,
    workers: u32,
    payload_bytes: u64,
    rate: u64,
    dropped: u64,
) -> Point {
    let runs = [0, 1, 2].map(|more| run(rate + more, dropped, 90.0)).to_vec();
    Point { threading_model, workers, payload_bytes, runs, noise: Vec::new() }
}

fn builder() -> Builder {
    let Start { client, server, .. } = example().start;
    Builder::new(&Options::default(), 1, (Ipv4Addr::LOCALHOST, 7_430).into(), client, server)
}

#[test]
fn every_point_has_a_row_for_each_figure_over_its_complete_runs() {
    let report = example();
    assert_eq!(report.points.iter().flat_map(Point::rows).collect::<Vec<_>>(), report.rows);
    let row = report.rows.iter().find(|row| row.metric == "packets_per_second").unwrap();
    assert_eq!((row.case.as_str(), row.median, row.runs), ("1B/1workers", 500_001.0, 3));
    let cut = report.points.last().unwrap();
    assert_eq!((cut.rows(), cut.is_limited_by_senders()), (Vec::new(), false));
}

#[test]
fn the_account_of_each_run_adds_up() {
    let report = example();
    let mut runs = report.points.iter().flat_map(|point| &point.runs);
    assert!(runs.all(|run| run.account.adds_up() && run.drops() == run.rcvbuf_errors.unwrap()));
}

#[test]
fn who_lost_next_to_nothing_was_limited_by_the_senders() {
    let of = |dropped| point(ThreadingModel::OwnProcesses, 1, 1, 100_000, dropped).is_limited_by_senders();
    assert!(of(0) && of(100));
    assert!(!of(101));
}

#[test]
fn a_run_without_a_datagram_has_no_rate_and_no_loss() {
    let run = run(0, 0, 0.0);
    assert_eq!((run.lost_percent(), run.packets_per_second), (None, 0.0));
}

#[test]
fn points_without_a_run_are_left_out_and_a_wide_spread_is_noise() {
    let mut builder = builder();
    let plan = Plan { threading_model: ThreadingModel::OwnProcesses, workers: 1, payload_bytes: 1 };
    builder.begin_point(&plan);
    builder.add(run(100, 0, 1.0));
    builder.add(run(200, 0, 1.0));
    builder.begin_point(&Plan { workers: 2, ..plan });
    let report = builder.finish(true);
    assert_eq!((report.points.len(), report.end.state), (1, State::Interrupted));
    assert_eq!(
        report.noise(),
        ["own-processes 1B/1workers: rates of 1B/1workers spread over 67 % of their median"]
    );
    assert!(report.point(ThreadingModel::OwnProcesses, 2, 1).is_none());
    assert!(report.end.notes[0].contains("share its processors"), "both ends are on one host");
}
