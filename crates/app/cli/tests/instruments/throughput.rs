//! `tallycast bench`, `tallycast bench throughput`: real flows between two processes, small ones. Their rate depends on
//! the machine, so the tests check only that the account closes and that the report follows from it.

use std::io::BufRead;
use std::net::SocketAddr;
use std::process::Stdio;

use bench::throughput::{Account, AccountState, Report, State, Unit};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{or_skip, wait_until};

use crate::measured::{self, Files, between_namespaces, check_refusals, check_schema, read, refusal};
use crate::program::{Running, command, run, run_as_nobody};

/// One run, as short as it can be.
const SHORT: [&str; 8] = ["bench", "throughput", "-t", "100ms", "-i", "50ms", "--repeat", "1"];

fn report(arguments: &[&str]) -> Report {
    measured::complete(&[&SHORT[..], arguments, &["--json"]].concat())
}

fn accounts(report: &Report) -> Vec<&Account> {
    report.end.streams.iter().map(|flow| flow.account.as_ref().unwrap()).collect()
}

/// Checks that every account of a whole measurement is closed and adds up, and that sums are those of the flows.
fn check_accounts(report: &Report) {
    for account in accounts(report) {
        assert_eq!(account.state, AccountState::Closed, "{account:?}");
        assert!(account.adds_up(), "{account:?}");
        assert!(account.sent > 0, "{account:?}");
    }
    let total = |sender: bool| {
        let seen = |flow: &bench::throughput::FlowReport| {
            (if sender { flow.sender } else { flow.receiver }).map_or(0, |figures| figures.bytes)
        };
        report.end.streams.iter().map(seen).sum::<u64>()
    };
    let sums = &report.end.sums;
    let of = |forward: Option<bench::throughput::Figures>, back: Option<bench::throughput::Figures>| {
        forward.map_or(0, |it| it.bytes) + back.map_or(0, |it| it.bytes)
    };
    assert_eq!(of(sums.sum_received, sums.sum_received_bidir_reverse), total(false));
    if report.start.test_start.receivers == 1 {
        assert_eq!(of(sums.sum_sent, sums.sum_sent_bidir_reverse), total(true));
    }
}

/// Starts a long measurement, and waits for an interval that satisfies `wanted`.
fn running_until(arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> (Running, Vec<Value>) {
    let long = ["bench", "throughput", "-t", "600", "-i", "20ms", "--json-stream"];
    let bench = Running::start(&[&long, arguments].concat());
    let lines = bench.lines_until(|line| line["event"] == "interval" && wanted(&line["data"]));
    (bench, lines)
}

/// Ends a measurement like Ctrl-C; returns its report, whose first lines were read before.
fn interrupt(bench: Running, mut lines: Vec<Value>) -> Report {
    bench.signal(Signal::INT);
    let (status, rest) = bench.wait();
    lines.extend(rest);
    let data = |name: &str| {
        let of_name = lines.iter().filter(|line| line["event"] == name);
        of_name.map(|line| line["data"].clone()).collect::<Vec<_>>()
    };
    let report: Report = read(&serde_json::json!({
        "format": "tallycast.bench.throughput", "version": 1,
        "start": data("start")[0], "intervals": data("interval"), "end": data("end")[0],
    }));
    assert_eq!((status.code(), report.end.state), (Some(1), State::Interrupted));
    report
}

/// Waits for the end of a measurement that is broken off, as its server ends; returns the data of its event `end`.
fn broken_off(bench: Running) -> Value {
    let (status, lines) = bench.wait();
    let end = &lines.last().unwrap()["data"];
    assert_eq!((status.code(), end["state"].as_str()), (Some(1), Some("broken_off")));
    end.clone()
}

/// Kills the server of a measurement, and waits for the measurement's end; `None`, with a note, if the server is unknown.
fn end_without_server(bench: Running) -> Option<Value> {
    let [server] = &bench.children()[..] else {
        println!("SKIPPED: the kernel does not list the children of a process");
        return None;
    };
    kill_process(Pid::from_raw(server.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    Some(broken_off(bench))
}

/// Returns whether something was sent in an interval.
fn has_sent(interval: &Value) -> bool {
    interval["sum_sent"]["bytes"].as_u64() > Some(0)
}

#[test]
fn datagrams_are_accounted_for_and_both_ends_are_seen_live() {
    let report = report(&["-u", "-b", "10M", "-P", "2"]);
    assert_eq!((report.end.state, accounts(&report).len()), (State::Complete, 2));
    check_accounts(&report);
    assert!(accounts(&report).iter().all(|account| account.unit == Unit::Datagrams));
    assert_eq!(report.intervals.len(), 2);
    for interval in &report.intervals {
        let (sent, received) = (interval.sums.sum_sent.unwrap(), interval.sums.sum_received.unwrap());
        assert!(sent.sender && !received.sender);
        assert!(received.lost_packets.is_some(), "losses are known while it runs");
        assert_eq!(interval.streams.len(), 4);
    }
    assert!(report.start.same_host);
    assert_eq!(report.start.client.interface.as_ref().map(|link| link.name.as_str()), Some("lo"));
}

#[test]
fn the_rows_of_datagrams_say_how_fast_and_how_evenly_they_came_and_what_was_lost() {
    // The jitter of a single datagram is undefined.
    let (bench, lines) =
        running_until(&["-u", "-b", "10M"], |interval| interval["sum_received"]["jitter_ms"].is_f64());
    let report = interrupt(bench, lines);
    let metrics: Vec<&str> = report.end.rows.iter().map(|row| row.metric.as_str()).collect();
    assert_eq!(metrics, ["bits_per_second", "lost_percent", "jitter_ms"]);
}

#[test]
fn tcp_brings_every_byte_both_ways() {
    let report = report(&["--bidir", "-P", "2", "-w", "64K"]);
    check_accounts(&report);
    assert_eq!(accounts(&report).len(), 4);
    assert!(accounts(&report).iter().all(|it| it.unit == Unit::Bytes && it.is_loss_free()));
    assert!(report.end.sums.sum_sent_bidir_reverse.unwrap().retransmits.is_some());
    assert!(report.end.streams.iter().all(|flow| flow.congestion.is_some()));
}

#[test]
fn datagrams_that_leave_and_arrive_in_trains_are_the_same_to_the_account() {
    for way in [&["-u"][..], &["-u", "--bidir"], &["--multicast", "--receivers", "2"]] {
        let report = report(&[way, &["-b", "200M", "--gso", "--gro", "-w", "4M"]].concat());
        check_accounts(&report);
        assert!(accounts(&report).iter().all(|account| account.unit == Unit::Datagrams));
        assert!(report.start.test_start.gso && report.start.test_start.gro);
        assert!(report.end.rows.iter().all(|row| row.system.ends_with("+gso+gro")), "{:?}", report.end.rows);
    }
}

#[test]
fn a_stream_is_accounted_for_to_the_byte_whichever_way_it_goes() {
    for way in [&["--bidir", "-P", "2"][..], &["-R"], &["--multicast", "--receivers", "2"]] {
        let report = report(&[&["--stream", "-b", "4M"], way].concat());
        check_accounts(&report);
        assert!(accounts(&report).iter().all(|account| account.unit == Unit::Bytes));
        let received = report.end.sums.sum_received.unwrap();
        assert!(received.lost_packets.is_some(), "what is missing is known");
        assert_eq!(
            received.delay_ms.is_some(),
            received.bytes > 0,
            "how long all that came took: {received:?}"
        );
        assert_eq!(report.start.test_start.blksize, 1_392, "with its header it fills a packet");
    }
}

#[test]
fn a_stream_whose_publisher_is_killed_leaves_the_reader_with_what_it_has() {
    let (bench, _) = running_until(&["--stream", "-R", "-b", "5M"], |_| true);
    let Some(end) = end_without_server(bench) else { return };
    let account: Account = serde_json::from_value(end["streams"][0]["account"].clone()).unwrap();
    assert!(account.adds_up() && account.state == AccountState::Unconfirmed, "{account:?}");
}

#[test]
fn the_server_sends_where_the_way_is_turned() {
    let report = report(&["-u", "-R", "-b", "5M"]);
    assert_eq!(report.start.test_start.reverse, 1);
    check_accounts(&report);
    let flow = &report.end.streams[0];
    assert_eq!(serde_json::to_value(flow.way).unwrap(), "reverse");
    assert!(flow.sender.unwrap().bytes > 0);
    assert!(report.end.sums.sum_sent_bidir_reverse.is_none());
}

#[test]
fn what_is_omitted_is_in_the_account_and_not_in_the_rate() {
    let is_measured = |interval: &Value| interval["sum_sent"]["omitted"] == false;
    let (bench, lines) = running_until(&["-u", "-b", "5M", "-O", "40ms"], is_measured);
    let report = interrupt(bench, lines);
    check_accounts(&report);
    let sent = |interval: &bench::throughput::Interval| interval.sums.sum_sent.unwrap();
    let omitted: Vec<bool> = report.intervals.iter().map(|interval| sent(interval).omitted).collect();
    assert_eq!(omitted[..3], [true, true, false]);
    assert!(omitted[3..].iter().all(|is_omitted| !is_omitted), "{omitted:?}");
    let packets = |it: bench::throughput::Figures| it.packets.unwrap();
    let before = report.intervals[..2].iter().map(|interval| packets(sent(interval))).sum::<u64>();
    let measured = packets(report.end.sums.sum_sent.unwrap());
    assert_eq!(before + measured, accounts(&report)[0].sent, "{omitted:?}");
}

#[test]
fn every_member_of_a_group_has_an_account_of_its_own() {
    let report = report(&["--multicast", "--receivers", "3", "-b", "5M"]);
    assert_eq!(accounts(&report).len(), 3);
    check_accounts(&report);
    let sent: Vec<u64> = accounts(&report).iter().map(|account| account.sent).collect();
    assert!(sent.iter().all(|count| *count == sent[0]), "{sent:?}");
}

#[test]
fn the_smallest_and_the_largest_datagram_go_and_one_more_byte_does_not() {
    for length in ["0", "27", "28", "65507"] {
        let report = report(&["-u", "-b", "500pps", "-l", length]);
        check_accounts(&report);
        assert_eq!(report.start.test_start.blksize.to_string(), length);
    }
    let refusals =
        [("-u -l 65508", "-l in bytes must be from 0 to 65507, not 65508"), ("-u -l 0 -b 1M", "-b 1000pps")];
    check_refusals("bench throughput", &refusals);
}

#[test]
fn datagrams_that_must_not_be_cut_are_refused_and_accounted_for() {
    let report = report(&["-u", "-b", "200pps", "-l", "65507", "--dont-fragment"]);
    // The loopback interface takes 65,536 bytes: a datagram of that size and its headers just fits.
    check_accounts(&report);
}

#[test]
fn repeats_have_a_median_and_a_spread() {
    let report: Report =
        measured::complete(&["bench", "throughput", "-u", "-t", "50ms", "--repeat", "3", "-J"]);
    assert_eq!((report.end.runs.len(), report.end.rows[0].runs), (3, 3));
    let row = &report.end.rows[0];
    assert!(row.min <= row.median && row.median <= row.max);
    check_accounts(&report);
}

#[test]
fn a_search_finds_a_rate_that_held_as_often_as_was_asked() {
    let report = report(&["-u", "-b", "4M", "--loss-free", "--step", "2M"]);
    check_accounts(&report);
    let found = report.end.loss_free.unwrap();
    let at_it = report.end.runs.iter().filter(|run| run.target_bitrate == found.bits_per_second);
    let held = at_it.filter(|run| {
        let mut flows = report.end.streams.iter().filter(|flow| flow.run == run.run);
        flows.all(|flow| flow.account.as_ref().unwrap().is_loss_free())
    });
    let is_nothing = found.found == bench::throughput::Found::Nothing;
    assert!(is_nothing || held.count() >= found.confirmations as usize, "{found:?}");
    check_refusals("bench throughput", &[("-u --loss-free", "give it with -b")]);
}

#[test]
fn a_stream_of_json_has_a_start_intervals_runs_and_an_end() {
    let bench = Running::start(&[&SHORT[..], &["-u", "--json-stream"]].concat());
    let (status, lines) = bench.wait();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["start", "interval", "interval", "run", "end"]);
    assert!(status.success());
    let data = |index: usize| lines[index]["data"].clone();
    let whole = serde_json::json!({
        "format": "tallycast.bench.throughput", "version": 1,
        "start": data(0), "intervals": [data(1), data(2)], "end": data(4),
    });
    check_accounts(&read(&whole));
}

#[test]
fn a_measurement_that_is_ended_early_reports_what_it_has() {
    let (bench, lines) = running_until(&["-u", "-b", "5M"], has_sent);
    check_accounts(&interrupt(bench, lines));
}

#[test]
fn a_server_that_is_killed_leaves_the_client_with_what_it_has() {
    let (bench, _) = running_until(&["-u", "-b", "5M"], has_sent);
    let Some(end) = end_without_server(bench) else { return };
    let trouble = end["runs"][0]["trouble"].as_str().unwrap();
    assert!(trouble.contains("is gone"), "{trouble}");
    assert!(end["streams"][0]["sender"]["bytes"].as_u64() > Some(0));
}

/// Starts a server for clients of a test; returns it and its port.
fn server() -> (Running, String) {
    let arguments = ["bench", "-s", "-p", "0"];
    let mut server = Running::of(command(&arguments).stderr(Stdio::piped()), &arguments);
    let (mut said, mut line) = (server.take_errors(), String::new());
    said.read_line(&mut line).unwrap();
    // Otherwise its next message would find a closed pipe.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let address = line.split_whitespace().nth(2).and_then(|word| word.trim_end_matches(';').parse().ok());
    let address: SocketAddr = address.unwrap_or_else(|| panic!("{line}"));
    (server, address.port().to_string())
}

#[test]
fn a_server_serves_one_client_after_the_other_and_a_taken_port_is_said() {
    let (_server, port) = server();
    for protocol in [&[][..], &["-u"]] {
        let client = ["bench", "-c", "127.0.0.1", "-p", &port, "-t", "50ms", "--repeat", "1", "-J"];
        let report = measured::complete(&[&client[..], protocol].concat());
        check_accounts(&report);
    }
    let taken = refusal(&["bench", "-s", "-p", &port]);
    assert!(taken.contains("cannot listen on") && taken.contains("choose another port"), "{taken}");
}

#[test]
fn a_server_that_is_ended_ends_the_run_in_order() {
    let (server, port) = server();
    let (bench, _) = running_until(&["-c", "127.0.0.1", "-p", &port, "-u"], has_sent);
    server.signal(Signal::INT);
    let end = broken_off(bench);
    assert_eq!(end["runs"][0]["trouble"].as_str(), Some("the server was ended"));
    let account: Account = serde_json::from_value(end["streams"][0]["account"].clone()).unwrap();
    assert!(account.adds_up() && account.state == AccountState::Closed && account.sent > 0, "{account:?}");
}

#[test]
fn a_client_that_is_killed_leaves_the_server_free() {
    let (_server, port) = server();
    let (first, _) = running_until(&["-c", "127.0.0.1", "-p", &port, "-u", "-R"], |_| true);
    let busy = refusal(&["bench", "-c", "127.0.0.1", "-p", &port, "-t", "50ms"]);
    assert!(busy.contains("is busy measuring with 127.0.0.1"), "{busy}");
    first.signal(Signal::KILL);
    first.wait();
    wait_until("the server to be free", || {
        let output = run(&["bench", "-c", "127.0.0.1", "-p", &port, "-t", "20ms", "--repeat", "1", "-J"]);
        (output.status.code() == Some(0)).then_some(())
    });
}

#[test]
fn nobody_there_and_what_cannot_be_are_said_with_the_way_out() {
    let unused = support::ports::free().to_string();
    let output = run(&["bench", "-c", "127.0.0.1", "-p", &unused, "-J"]);
    let (nobody, json) =
        (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap());
    assert_eq!(output.status.code(), Some(2));
    assert!(nobody.contains("no answer from a bench server"), "{nobody}");
    assert!(json.starts_with(r#"{"error":"no answer from a bench server"#), "{json}");
    let refusals = [
        ("-C nonesuch -t 50ms", "has no congestion control `nonesuch`"),
        ("-u -C cubic", "-C has no effect without TCP"),
        ("-b fast", "write 100M"),
        ("-t 1ms", "-t in ms must be from 10"),
        ("--csv /nonexistent/x.csv", "name a file in a writable folder"),
    ];
    check_refusals("bench throughput", &refusals);
    let stranger = refusal(&["bench", "throughput", "--client", "no such host.invalid"]);
    assert!(stranger.contains("unknown host"), "{stranger}");
}

#[test]
fn files_hold_the_whole_report() {
    let (files, log) = (Files::new(), tempfile::NamedTempFile::new().unwrap());
    let logfile = ["--logfile", log.path().to_str().unwrap()];
    let output = run(&[&SHORT[..], &files.options(), &logfile, &["-u", "-b", "5M"]].concat());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    // Two intervals, each with a flow and a sum at both ends.
    let (page, table) = (files.check(1 + 2 * 4), files.table());
    let columns = table.lines().next().unwrap().split(',').count();
    assert!(table.lines().all(|line| line.split(',').count() == columns), "{table}");
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("The accounts") && page.contains("closed"));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("account in datagrams") && log.contains("lost"), "{log}");
}

#[test]
fn two_namespaces_are_made_measured_between_and_removed() {
    let between = between_namespaces::<Report>(&[&SHORT[..], &["-u", "-b", "5M"]].concat());
    let Some((report, code)) = between else { return };
    assert_eq!(code, Some(0));
    check_accounts(&report);
    assert_eq!(report.start.connecting_to.host, "10.84.7.1");
    assert_eq!(report.start.client.interface.as_ref().map(|link| link.mtu_bytes), Some(1_500));
}

/// Returns the namespaces that a process of the bench made and that are still there.
fn namespaces_of(process: u32) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let owner = format!("-{process}-");
    names.filter(|name| name.starts_with("tallycast-bench-") && name.contains(&owner)).collect()
}

/// Starts a long measurement in namespaces, and waits until it runs; `None`, with a note, if that is impossible.
fn running_in_namespaces() -> Option<Running> {
    let arguments = ["bench", "throughput", "--netns", "-u", "-t", "600", "-i", "20ms", "--json-stream"];
    let bench = Running::start(&arguments);
    let first = bench.next_line()?;
    if first["event"] == "error" {
        println!("SKIPPED: {}", first["data"]);
        return None;
    }
    bench.lines_until(|line| line["event"] == "interval");
    assert_eq!(namespaces_of(bench.id()).len(), 2);
    Some(bench)
}

#[test]
fn namespaces_are_removed_by_ctrl_c_and_those_of_a_killed_bench_by_the_next() {
    let Some(interrupted) = running_in_namespaces() else { return };
    let process = interrupted.id();
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.wait().0.code(), Some(1));
    assert_eq!(namespaces_of(process), Vec::<String>::new());

    let Some(killed) = running_in_namespaces() else { return };
    let process = killed.id();
    killed.signal(Signal::KILL);
    killed.wait();
    let output = run(&[&SHORT[..], &["--netns", "-J"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(namespaces_of(process), Vec::<String>::new());
}

#[test]
fn a_user_without_rights_is_told_who_may_make_namespaces() {
    let Some(output) = run_as_nobody(&[&SHORT[..], &["--netns"]].concat()) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("sudo"), "{said}");
}

#[test]
fn an_interval_of_0_is_the_whole_run() {
    let whole = ["bench", "throughput", "-u", "-t", "50ms", "-i", "0", "--repeat", "1", "-J"];
    assert_eq!(measured::complete::<Report>(&whole).intervals.len(), 1);
}

#[test]
fn a_processor_that_there_is_not_is_said_whichever_end_it_is_of() {
    let refusals = ["-A 4095", "-A 0,4095"].map(|cpus| (cpus, "processor 4095 cannot be used"));
    check_refusals("bench throughput", &refusals);
    let report = report(&["-u", "-A", "0,0"]);
    check_accounts(&report);
}

#[test]
fn in_namespaces_a_datagram_larger_than_the_path_is_refused_where_it_must_not_be_cut() {
    let larger = ["-u", "-b", "200pps", "-l", "1473", "--dont-fragment"];
    let between = between_namespaces::<Report>(&[&SHORT[..], &larger].concat());
    let Some((report, _)) = between else { return };
    check_accounts(&report);
    let account = accounts(&report)[0];
    assert_eq!((account.received, account.lost.get("sender_ip")), (0, Some(&account.sent)), "{account:?}");
    assert!(report.end.notes.iter().any(|note| note.contains("EMSGSIZE")), "{:?}", report.end.notes);
}

#[test]
fn the_schema_accepts_nothing_that_is_not_in_it() {
    let changes: [fn(&mut Value); 4] = [
        |it| it["version"] = 2.into(),
        |it| it["end"]["more"] = 1.into(),
        |it| it["intervals"][0]["sum_sent"]["bytes"] = (-1).into(),
        |it| drop(it["end"]["streams"][0].as_object_mut().unwrap().remove("account")),
    ];
    check_schema("bench", &report(&["-u"]), &changes);
}

#[test]
fn a_server_that_no_route_leads_to_is_said_with_where_to_look() {
    let Some(nowhere) = or_skip(sys::Namespace::create("nowhere")) else { return };
    for test in [&["bench", "-c"][..], &["bench", "pingpong", "-c"], &["bench", "multicast", "-c"]] {
        let mut client = nowhere.command(env!("CARGO_BIN_EXE_tallycast"));
        let output = client.args(test).args(["192.0.2.7", "-J"]).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("unreachable") && said.contains("ip route get 192.0.2.7"), "{said}");
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(error["error"].as_str().unwrap().contains("192.0.2.7:7430"), "{error}");
    }
}
