//! `tallycast bench pingpong` and `bench reproduce petri-2007`: a few exchanges between two processes. Times depend on
//! the machine, so the tests check only that the account closes and that the report follows.

use bench::pingpong::Report;
use bench::report::{Reproduction, State};

use crate::measured::{self, Files, between_namespaces, check_refusals, has_server, interrupted, refusal};
use crate::program::run;

/// As short as it can be.
const SHORT: [&str; 10] =
    ["bench", "pingpong", "-t", "10ms", "--exchanges", "5", "--repeat", "2", "--sizes", "1,3000,100000"];

fn report(arguments: &[&str]) -> (Report, Option<i32>) {
    measured::report(&[&SHORT[..], arguments, &["--json"]].concat())
}

/// Checks that every exchange is counted once, and that only datagrams lost some.
fn check_accounts(report: &Report) {
    for size_step in &report.size_steps {
        assert!(size_step.account.adds_up() && size_step.account.sent > 0, "{size_step:?}");
        assert_eq!(size_step.account.unexplained, 0, "{size_step:?}");
        assert!(size_step.system == "udp" || size_step.account.lost() == 0, "{size_step:?}");
        assert_eq!(size_step.half_round_trip.is_some(), size_step.bits_per_second.is_some());
        if let Some(times) = size_step.half_round_trip {
            assert!(times.min_us <= times.p50_us && times.p50_us <= times.max_us, "{times:?}");
            assert!(times.count <= size_step.account.completed);
        }
    }
}

#[test]
fn every_exchange_of_every_size_is_accounted_for_over_every_protocol() {
    for more in [&[][..], &["--busy-poll"], &["--datagram", "1472", "-w", "4M"]] {
        let (report, code) = report(more);
        assert_eq!((code, report.end.state, report.size_steps.len()), (Some(0), State::Complete, 2 * 4 * 3));
        check_accounts(&report);
        assert_eq!(report.start.test_start.systems, ["tcp", "udp", "udt", "shm"]);
        assert_eq!(report.end.sessions.len(), 2 * 4);
        let over_tcp = report.row("tcp", 1, "half_round_trip").unwrap();
        assert!(over_tcp.runs == 2 && over_tcp.min <= over_tcp.median);
        assert!(report.start.same_host);
    }
}

#[test]
fn layers_and_controls_of_udt_are_systems_of_their_own() {
    let more = [
        "--protocols",
        "udp,udt",
        "--cc",
        "udt,fixed?rate=1g",
        "--layers",
        "none,announced",
        "--sizes",
        "1,3000",
    ];
    let (report, code) = report(&more);
    assert_eq!(code, Some(0));
    check_accounts(&report);
    let systems = ["udp", "udt udt", "announced udt udt", "udt fixed?rate=1g", "announced udt fixed?rate=1g"];
    assert_eq!(report.start.test_start.systems, systems);
    let congestion = |system: &str| {
        report.end.sessions.iter().find(|it| it.system == system).and_then(|it| it.congestion.clone())
    };
    assert_eq!(congestion("udt fixed?rate=1g").as_deref(), Some("fixed?rate=1g"));
}

#[test]
fn every_congestion_control_is_measured_or_left_out_with_its_reason() {
    let (report, code) = report(&["-C", "all", "--protocols", "tcp", "--sizes", "1"]);
    check_accounts(&report);
    let all = sys::tcp::available().unwrap();
    let (skipped, sessions) = (&report.end.skipped, &report.end.sessions);
    for name in &all {
        let system = format!("tcp {name}");
        let was_left_out = skipped.iter().any(|it| it.system == system);
        let mut measured = sessions.iter().filter(|it| it.system == system).peekable();
        assert!(was_left_out != measured.peek().is_some(), "{system}");
        assert!(measured.all(|it| it.congestion.as_deref() == Some(name)), "{system}");
    }
    assert_eq!(code, Some(i32::from(!skipped.is_empty())));
}

#[test]
fn files_hold_the_whole_report() {
    let files = Files::new();
    let output = run(&[&SHORT[..], &files.options()].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("size/Δt at 100000 B") && text.contains("account of udp in exchanges"), "{text}");
    assert_eq!(files.check(1 + 2 * 4 * 3).matches("<svg").count(), 2);
}

#[test]
fn a_ping_pong_that_is_ended_early_reports_what_it_has() {
    let endless = ["bench", "pingpong", "-t", "600", "--exchanges", "10000000", "--sizes", "1", "--json"];
    let (report, code) = interrupted::<Report>(&endless, has_server);
    assert_eq!((code, report.end.state), (Some(1), State::Interrupted));
    assert!(report.size_steps.iter().all(|size_step| size_step.account.adds_up()));
}

#[test]
fn a_document_done_again_and_ended_early_still_names_its_table_and_conclusions() {
    let (report, code) = interrupted::<Reproduction>(&["bench", "reproduce", "003", "--json"], has_server);
    assert_eq!((code, report.state), (Some(1), State::Interrupted));
    let udt: Vec<_> = report.table.iter().filter(|line| line.what.starts_with("udtpp")).collect();
    assert!(
        udt.len() == 4 && udt.iter().all(|line| line.here.is_some() != line.remark.contains("measured")),
        "{udt:?}"
    );
    assert_eq!(report.conclusions.len(), 8);
    let alone = refusal(&["bench", "reproduce", "scollo", "-c", "127.0.0.1"]);
    assert!(alone.contains("two processes of one host"), "{alone}");
    assert_eq!(refusal(&["bench", "reproduce", "004", "-c", "127.0.0.1"]), alone, "the earlier spelling");
}

#[test]
fn what_cannot_be_is_said_with_the_way_out() {
    let refusals = [
        ("--sizes 0", "a size in bytes must be from 1"),
        ("--datagram 24", "--datagram in bytes must be from 25"),
        ("--protocols sctp", "possible values: tcp, udp, udt, shm"),
        ("--protocols tcp --cc bbr", "--cc has no effect without UDT"),
        ("--protocols udp --layers framed", "--layers has no effect"),
        ("--protocols udt --cc turbo --sizes 1", "unknown congestion control `turbo`"),
        ("--mtu 9000", "--netns"),
        ("--protocols tcp --timeout 1s", "--timeout has no effect"),
        ("--protocols tcp --datagram 1472", "--datagram has no effect"),
        ("--protocols udp -C cubic", "-C has no effect without TCP"),
        ("-C nonesuch --protocols tcp --sizes 1", "has no congestion control `nonesuch`"),
    ];
    check_refusals("bench pingpong", &refusals);
}

#[test]
fn a_jumbo_cable_takes_jumbo_datagrams() {
    let between = between_namespaces::<Report>(&[&SHORT[..], &["--mtu", "9000"]].concat());
    let Some((report, code)) = between else { return };
    assert_eq!(code, Some(0));
    check_accounts(&report);
    assert_eq!(report.start.test_start.datagram_bytes, 9_000 - 28);
    assert_eq!(report.start.server.interface.as_ref().map(|link| link.mtu_bytes), Some(9_000));
}
