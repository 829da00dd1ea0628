//! `tallycast bench sweep`: a small grid of real flows. Throughput depends on the machine, so the tests check only that
//! every account closes and that the report follows from it.

use bench::report::State;
use bench::sweep::Report;

use crate::measured::{Files, check_refusals, complete, refusal};

/// Minimal runs, at a rate that any host can handle.
const SHORT: [&str; 9] = ["bench", "sweep", "-t", "50ms", "--repeat", "1", "--rates", "500pps", "--json"];

fn check_accounts(report: &Report) {
    for run in report.points.iter().flat_map(|point| &point.runs) {
        let account = run.account.as_ref().unwrap();
        assert!(account.adds_up() && account.sent > 0, "{run:?}");
    }
}

#[test]
fn every_combination_is_measured_and_its_load_is_told_as_it_was() {
    let grid = ["--payloads", "64,1472", "--receive-buffers", "system,256K", "--cpu-load", "0%,20%"];
    let report = complete::<Report>(&[&SHORT[..], &grid].concat());
    assert_eq!((report.end.state, report.points.len()), (State::Complete, 8));
    check_accounts(&report);
    for point in &report.points {
        let applied_load = point.runs[0].applied_load;
        assert_eq!(applied_load.is_some(), point.cpu_load_percent > 0.0, "{}", point.case());
        assert!(
            applied_load.is_none_or(|applied_load| applied_load.cpu_ns > 0 && applied_load.workers >= 1),
            "{applied_load:?}"
        );
        // The granted size is reported: here the whole request, which is within any host's limit.
        let granted = point.granted_receive_buffer_bytes.unwrap();
        assert!(
            point.receive_buffer_bytes.is_none_or(|asked| asked == granted || granted < 1 << 18),
            "{point:?}"
        );
    }
    let sent_from: Vec<_> = report.points.iter().map(|point| point.granted_send_buffer_bytes).collect();
    assert!(sent_from.iter().all(|granted| *granted == sent_from[0]), "the system's: {sent_from:?}");
    let start = report.start.as_ref().unwrap();
    assert!(
        start.same_host && start.client.path_mtu_bytes.is_some() && start.server.path_mtu_bytes.is_some()
    );
}

#[test]
fn a_search_ends_with_a_rate_at_which_no_more_was_lost_than_allowed() {
    let grid = ["--payloads", "500", "--loss-below", "1%", "--rates", "2M", "--step", "1M"];
    let arguments = [&SHORT[..6], &["--json", "--gso", "--gro"], &grid].concat();
    let report = complete::<Report>(&arguments);
    check_accounts(&report);
    let point = &report.points[0];
    let found = point.highest.unwrap();
    assert!(found.bits_per_second <= 2_000_000 && found.limit == 2_000_000);
    assert!(report.rows.iter().all(|row| row.system == "udp+gso+gro"), "{:?}", report.rows);
    assert!(point.runs.iter().all(|run| run.lost_percent().unwrap() <= 1.0), "{point:?}");
}

#[test]
fn files_are_written_with_the_report_and_what_cannot_be_is_refused() {
    let files = Files::new();
    complete::<Report>(&[&SHORT[..], &["--payloads", "64,256"], &files.options()].concat());
    assert!(files.check(1 + 2).contains("Throughput over the size of datagrams"));

    let refusals = [
        ("--cpu-load 50% --cpu-load-workers 0", "--cpu-load"),
        ("--cpu-load-workers 2", "--cpu-load-workers has no effect without a load"),
    ];
    check_refusals("bench sweep", &refusals);
    let earlier_spelling = refusal(&["bench", "sweep", "--burn", "50%", "--burn-workers", "0"]);
    assert!(earlier_spelling.contains("--cpu-load"), "{earlier_spelling}");
}
