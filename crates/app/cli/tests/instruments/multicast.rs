//! `tallycast bench multicast`: one sender and several receivers, few datagrams. Latency depends on the machine, so the
//! tests check only that every receiver's account closes.

use bench::multicast::Report;
use bench::report::State;
use bench::throughput::AccountState;
use rustix::process::Signal;
use serde_json::Value;
use support::wait_until;

use crate::program::{Running, run};

const SHORT: [&str; 8] = ["bench", "multicast", "-t", "50ms", "--repeat", "2", "--receivers", "3"];

fn read(value: &Value) -> Report {
    assert_eq!(published::check("bench-multicast", value), Ok(()));
    serde_json::from_value(value.clone()).unwrap()
}

/// Checks that every account of every receiver is closed and adds up, and that all are of the same datagrams.
fn check_accounts(report: &Report) {
    for run in &report.runs {
        let sent = run.members[0].account.sent;
        assert!(sent > 0 && run.members.len() == 3, "{run:?}");
        for member in &run.members {
            let account = &member.account;
            assert_eq!((account.state, account.sent), (AccountState::Closed, sent), "{member:?}");
            assert!(account.adds_up(), "{account:?}");
            assert_eq!(member.latency.map(|it| it.count), Some(account.received), "{member:?}");
        }
    }
}

#[test]
fn every_receiver_has_a_latency_and_an_account_that_closes() {
    let output = run(&[&SHORT[..], &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = read(&serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!((report.runs.len(), report.end.state), (2, State::Complete));
    check_accounts(&report);
    assert_eq!(report.row(2, "latency_p99").map(|row| row.runs), Some(2));
}

#[test]
fn datagrams_that_find_no_room_are_in_the_account_of_who_lost_them() {
    // A buffer of a few datagrams, and a rate that no small buffer takes without a loss on a busy machine; whether one is
    // lost, the machine decides, but the account closes in any case.
    let output = run(&[&SHORT[..], &["-b", "20000pps", "-l", "1472", "-w", "4K", "--json"]].concat());
    let report = read(&serde_json::from_slice(&output.stdout).unwrap());
    check_accounts(&report);
}

#[test]
fn files_and_the_table_name_every_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (csv, html, png) = (path("a.csv"), path("a.html"), path("a.png"));
    let output = run(&[&SHORT[..], &["--csv", &csv, "--html", &html, "--png", &png]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.matches(" unexplained").count()), (Some(0), 3), "{text}");
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + 2 * 3);
    assert!(std::fs::read_to_string(&html).unwrap().contains("Latency of each receiver"));
    assert_eq!(&std::fs::read(&png).unwrap()[1..4], b"PNG");
}

#[test]
fn a_measurement_that_is_ended_early_reports_what_it_has() {
    let bench = Running::start(&["bench", "multicast", "-t", "600", "--json"]);
    // It handles signals before it starts its server.
    wait_until("the server of the bench", || (!bench.children().is_empty()).then_some(()));
    bench.signal(Signal::INT);
    let (status, lines) = bench.wait();
    let report = read(&lines[0]);
    assert_eq!((status.code(), report.end.state), (Some(1), State::Interrupted));
    assert!(report.runs.iter().flat_map(|run| &run.members).all(|member| member.account.adds_up()));
}

#[test]
fn what_cannot_be_is_said_with_the_way_out() {
    let said = |arguments: &[&str]| {
        let output = run(&[&["bench", "multicast"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["-b", "0"]).contains("a latency needs a rate"));
    assert!(said(&["-l", "27"]).contains("-l in bytes must be from 28"));
    assert!(said(&["--group", "10.0.0.1"]).contains("not a multicast group"));
    assert!(said(&["--receivers", "65"]).contains("--receivers must be from 1 to 64"));
}
