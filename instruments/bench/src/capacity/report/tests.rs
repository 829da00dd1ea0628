//! An example report with known results, for tests of conclusions, and tests of what is computed in it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::*;
use crate::report::Forms as _;
use crate::throughput::{AccountState, Unit};

/// Returns an account of `sent` datagrams, of which `dropped` found the buffer full.
pub(crate) fn account(sent: u64, dropped: u64) -> Account {
    let lost = BTreeMap::from([("receiver_socket_buffer".to_owned(), dropped)]);
    Account {
        unit: Unit::Datagrams,
        state: AccountState::Closed,
        sent,
        received: sent - dropped,
        lost,
        unexplained: 0,
        duplicates: 0,
        unmatched: 0,
    }
}

/// Returns a run of one second.
pub(crate) fn run(received: u64, dropped: u64, cpu_percent: f64) -> Run {
    let account = account(received + dropped, dropped);
    let sockets = vec![Socket { drops: dropped, received: vec![received] }];
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    Run {
        packets_per_second: per_second(received, 1.0),
        seconds: 1.0,
        ports: vec![Port { address, account: account.clone(), sockets }],
        account,
        receivers_cpu_percent: cpu_percent,
        senders_cpu_percent: 100.0,
        processors: Some(Shares { user: 20.0, system: 140.0, softirq: 40.0, ..Shares::default() }),
        rcvbuf_errors: Some(dropped),
        foreign: 0,
        skipped: 0,
        client_elsewhere_cpus: Some(0.0),
        server_elsewhere_cpus: Some(0.0),
        trouble: None,
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

/// Returns a report of the notes' own points: processes gain, threads at one socket lose.
pub(crate) fn example() -> Report {
    use ThreadingModel::{OwnProcesses, SharedThreads};
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 7_430));
    let options = Options { payloads: vec![1], workers: vec![1, 2], ..Options::default() };
    let mut builder = Builder::new(&options, 1, peer, host.clone(), host);
    builder.report.points = vec![
        point(OwnProcesses, 1, 1, 500_000, 300_000),
        point(OwnProcesses, 2, 1, 700_000, 100_000),
        point(SharedThreads, 1, 1, 500_000, 300_000),
        point(SharedThreads, 2, 1, 400_000, 400_000),
    ];
    builder.finish(false)
}

#[test]
fn every_point_has_a_row_for_each_figure_and_the_account_of_each_run_adds_up() {
    let report = example();
    assert_eq!(report.rows.len(), 4 * 3);
    let runs = || report.points.iter().flat_map(|point| &point.runs);
    assert!(runs().all(|run| run.account.adds_up() && run.drops() == run.rcvbuf_errors.unwrap()));
    let row = report.rows.iter().find(|row| row.metric == "packets_per_second").unwrap();
    assert_eq!((row.case.as_str(), row.median, row.runs), ("1B/1workers", 500_001.0, 3));
    assert!(report.end.notes[0].contains("share its processors"), "both ends are on one host");
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
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 7_430));
    let mut builder = Builder::new(&Options::default(), 1, peer, host.clone(), host);
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
}

#[test]
fn a_run_that_was_ended_early_is_shown_and_enters_no_median() {
    let mut report = example();
    let point = &mut report.points[0];
    let (before, rows) = (point.packets_per_second(), point.rows());
    point.runs.push(Run { trouble: Some("it was ended early".to_owned()), ..run(7, 0, 1.0) });
    assert_eq!((point.packets_per_second(), point.rows()), (before, rows));
    assert_eq!(point.runs.len(), 4);
    let text = report.to_string();
    let said = "own-processes 1B/1workers, run 4: it was ended early after 1.0 s, with 7 received a second";
    assert!(text.contains(said), "{text}");
    assert!(report.to_html().unwrap().contains(said), "also on the page");
    // A point without complete runs has no figures, and its run is shown all the same.
    let point = &mut report.points[0];
    point.runs.drain(..3);
    assert_eq!((point.packets_per_second(), point.rows()), (None, Vec::new()));
    assert!(!point.is_limited_by_senders() && report.to_string().contains("run 1: it was ended early"));
}

#[test]
fn a_time_of_day_that_was_set_meanwhile_is_a_note() {
    let (options, host) = (Options::default(), HostState::look(Ipv4Addr::LOCALHOST.into()));
    let mut builder = Builder::new(&options, 1, (Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host);
    builder.began = builder.began.before_a_step_of(5);
    let notes = builder.finish(false).end.notes.join("\n");
    assert!(notes.contains("set forward by 5.0"), "{notes}");
}
