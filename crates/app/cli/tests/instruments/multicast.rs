//! `tallycast bench multicast`: one sender and several receivers, few datagrams. Latency depends on the machine, so the
//! tests check only that every receiver's account closes.

use bench::multicast::Report;
use bench::report::State;
use bench::throughput::AccountState;

use crate::measured::{self, Files, check_refusals, has_server, interrupted};
use crate::program::run;

const SHORT: [&str; 8] = ["bench", "multicast", "-t", "50ms", "--repeat", "2", "--receivers", "3"];

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
    let report: Report = measured::complete(&[&SHORT[..], &["--json"]].concat());
    assert_eq!((report.runs.len(), report.end.state), (2, State::Complete));
    check_accounts(&report);
    assert_eq!(report.row(2, "latency_p99").map(|row| row.runs), Some(2));
}

#[test]
fn datagrams_that_find_no_room_are_in_the_account_of_who_lost_them() {
    // A buffer of a few datagrams, and a rate that no small buffer takes without a loss on a busy machine; whether one is
    // lost, the machine decides, but the account closes in any case.
    let fast = ["-b", "20000pps", "-l", "1472", "-w", "4K", "--json"];
    check_accounts(&measured::report(&[&SHORT[..], &fast].concat()).0);
}

#[test]
fn files_and_the_table_name_every_receiver() {
    let files = Files::new();
    let output = run(&[&SHORT[..], &files.options()].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.matches(" unexplained").count()), (Some(0), 3), "{text}");
    assert!(files.check(1 + 2 * 3).contains("Latency of each receiver"));
}

#[test]
fn a_measurement_that_is_ended_early_reports_what_it_has() {
    let (report, code) = interrupted::<Report>(&["bench", "multicast", "-t", "600", "--json"], has_server);
    assert_eq!((code, report.end.state), (Some(1), State::Interrupted));
    assert!(report.runs.iter().flat_map(|run| &run.members).all(|member| member.account.adds_up()));
}

#[test]
fn what_cannot_be_is_said_with_the_way_out() {
    let refusals = [
        ("-b 0", "a latency needs a rate"),
        ("-l 27", "-l in bytes must be from 28"),
        ("--group 10.0.0.1", "not a multicast group"),
        ("--receivers 65", "--receivers must be from 1 to 64"),
    ];
    check_refusals("bench multicast", &refusals);
}
