//! `tallycast bench capacity`: real datagrams to real receivers, few of them. The rate depends on the machine, so the
//! tests check only that the account closes and that the report follows from it.

use bench::capacity::{Report, ThreadingModel};
use bench::report::State;

use crate::measured::{self, Files, check_refusals, interrupted};

/// Minimal runs, at a rate that any host can handle.
const SHORT: [&str; 9] = ["bench", "capacity", "-t", "50ms", "--repeat", "1", "-b", "2kpps", "--json"];

fn report(arguments: &[&str]) -> Report {
    measured::complete(&[&SHORT[..], arguments].concat())
}

/// Checks that every account of every run adds up, each port's and all together.
fn check_accounts(report: &Report) {
    for (point, run) in report.points.iter().flat_map(|point| point.runs.iter().map(move |run| (point, run)))
    {
        assert!(run.account.adds_up() && run.account.sent > 0, "{run:?}");
        // The first datagrams always find room, and are recognised. Other arrivals, at a port that another program
        // had just before, depend on the machine.
        assert!(run.account.received > 0, "{run:?}");
        for port in &run.ports {
            let received: u64 = port.sockets.iter().flat_map(|socket| &socket.received).sum();
            assert!(port.account.adds_up(), "{port:?}");
            assert_eq!(port.account.received, received, "{port:?}");
            let drops: u64 = port.sockets.iter().map(|socket| socket.drops).sum();
            let dropped = port.account.lost.get("receiver_socket_buffer").copied().unwrap_or(0);
            assert_eq!(dropped + port.account.unmatched, drops, "{port:?}");
        }
        let sum = |of: fn(&bench::capacity::Port) -> u64| run.ports.iter().map(of).sum::<u64>();
        assert_eq!(run.account.sent, sum(|port| port.account.sent));
        assert_eq!(run.account.received, sum(|port| port.account.received));
        let receivers: usize =
            run.ports.iter().flat_map(|port| &port.sockets).map(|socket| socket.received.len()).sum();
        assert_eq!(receivers, point.workers as usize, "{} {}", point.threading_model, point.case());
    }
}

#[test]
fn every_structure_closes_its_accounts_and_has_its_ports_and_sockets() {
    let all = ThreadingModel::ALL.map(ThreadingModel::name).join(",");
    let report = report(&["--payloads", "1,100", "--workers", "2", "--threading-models", &all]);
    assert_eq!((report.end.state, report.points.len()), (State::Complete, 10));
    check_accounts(&report);
    for point in &report.points {
        let (ports, sockets) = match point.threading_model {
            ThreadingModel::OwnProcesses | ThreadingModel::OwnThreads => (2, 1),
            ThreadingModel::SharedThreads => (1, 1),
            ThreadingModel::ReuseportProcesses | ThreadingModel::ReuseportThreads => (1, 2),
        };
        let run = &point.runs[0];
        assert_eq!(run.ports.len(), ports, "{}", point.threading_model);
        assert!(run.ports.iter().all(|port| port.sockets.len() == sockets), "{}", point.threading_model);
        assert_eq!(run.account.lost.values().sum::<u64>() + run.account.unexplained, run.account.missing());
    }
    assert!(report.start.same_host);
    assert_eq!(report.conclusions.len(), 6);
}

#[test]
fn what_finds_the_buffer_full_is_counted_by_socket_and_host_alike() {
    // Each train is far larger than the smallest buffer, and arrives as a unit: no receiver can have all of it, also
    // of a single one. One sender has no more in flight than the kernel's queue of a processor holds.
    let flood = ["--json", "-b", "0", "--gso", "--payloads", "1000", "--workers", "1", "--senders", "1"];
    let flood = [&flood[..], &["--threading-models", "own-threads", "-w", "1"]].concat();
    let (report, _) = measured::report::<Report>(&[&SHORT[..6], &flood].concat());
    check_accounts(&report);
    let run = &report.points[0].runs[0];
    assert!(run.drops() > 0, "{run:?}");
    // Other programs on this host may lose datagrams meanwhile.
    assert!(run.rcvbuf_errors.unwrap() >= run.drops(), "{run:?}");
    assert_eq!(run.account.unexplained, 0, "all that is missing is in the kernel's count: {run:?}");
    assert!(!report.points[0].is_limited_by_senders());
}

#[test]
fn trains_and_single_calls_close_the_same_account() {
    for calls in ["--gso", "--single-calls"] {
        let report =
            report(&[calls, "--payloads", "65507,1", "--workers", "1", "--threading-models", "own-threads"]);
        check_accounts(&report);
    }
}

#[test]
fn an_early_end_prints_what_there_is() {
    let endless = ["bench", "capacity", "-b", "1kpps", "-t", "1h", "--json", "--repeat", "2"];
    let (report, code) = interrupted::<Report>(&endless, |bench| has_thread(bench.id(), "sender"));
    assert_eq!((code, report.end.state), (Some(1), State::Interrupted));
    let runs: Vec<_> = report.points.iter().flat_map(|point| &point.runs).collect();
    assert_eq!((runs.len(), runs[0].account.adds_up()), (1, true));
    // It is shown, and in no median.
    assert_eq!((runs[0].trouble.as_deref(), report.rows.len()), (Some("it was ended early"), 0));
}

fn has_thread(process: u32, name: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.map(|it| it.trim().to_owned()).any(|it| it == name)
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_way_out() {
    let refusals = [
        ("--workers 0", "--workers must be from 1"),
        ("--threading-models forked", "own-processes"),
        // The earlier spelling.
        ("--structures forked", "own-processes"),
    ];
    check_refusals("bench capacity", &refusals);
}

#[test]
fn files_are_written_with_the_report() {
    let files = Files::new();
    let small = ["--payloads", "100", "--workers", "1", "--threading-models", "own-threads"];
    let report = report(&[&small[..], &files.options()].concat());
    assert!(files.check(1 + report.points[0].runs.len()).contains("<svg"));
}
