//! `tallycast bench`, `tallycast bench throughput`: real flows between two processes, small ones. Their rate depends on
//! the machine, so the tests check only that the account closes and that the report follows from it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use bench::throughput::{Account, AccountState, Report, State, Unit};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{or_skip, wait_until};

use crate::program::{Running, command, run, run_as_nobody};

/// One run, as short as it can be.
const SHORT: [&str; 8] = ["bench", "throughput", "-t", "100ms", "-i", "50ms", "--repeat", "1"];

/// Reads a report that the schema accepts.
fn read(value: &Value) -> Report {
    assert_eq!(published::check("bench", value), Ok(()));
    serde_json::from_value(value.clone()).unwrap()
}

/// Runs a measurement to its end; returns its report and its exit code.
fn report(arguments: &[&str]) -> (Report, Option<i32>) {
    let output = run(&[&SHORT[..], arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{said}"));
    (read(&value), output.status.code())
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
    let report = read(&serde_json::json!({
        "format": "tallycast.bench.throughput", "version": 1,
        "start": data("start")[0], "intervals": data("interval"), "end": data("end")[0],
    }));
    assert_eq!((status.code(), report.end.state), (Some(1), State::Interrupted));
    report
}

/// Returns whether something was sent in an interval.
fn has_sent(interval: &Value) -> bool {
    interval["sum_sent"]["bytes"].as_u64() > Some(0)
}

fn refusal(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn datagrams_are_accounted_for_and_both_ends_are_seen_live() {
    let (report, code) = report(&["-u", "-b", "10M", "-P", "2"]);
    assert_eq!((code, report.end.state, accounts(&report).len()), (Some(0), State::Complete, 2));
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
    let (report, code) = report(&["--bidir", "-P", "2", "-w", "64K"]);
    assert_eq!(code, Some(0));
    check_accounts(&report);
    assert_eq!(accounts(&report).len(), 4);
    assert!(accounts(&report).iter().all(|it| it.unit == Unit::Bytes && it.is_loss_free()));
    assert!(report.end.sums.sum_sent_bidir_reverse.unwrap().retransmits.is_some());
    assert!(report.end.streams.iter().all(|flow| flow.congestion.is_some()));
}

#[test]
fn datagrams_that_leave_and_arrive_in_trains_are_the_same_to_the_account() {
    for way in [&["-u"][..], &["-u", "--bidir"], &["--multicast", "--receivers", "2"]] {
        let (report, code) = report(&[way, &["-b", "200M", "--gso", "--gro", "-w", "4M"]].concat());
        assert_eq!(code, Some(0), "{way:?}: {:?}", report.end.runs);
        check_accounts(&report);
        assert!(accounts(&report).iter().all(|account| account.unit == Unit::Datagrams));
        assert!(report.start.test_start.gso && report.start.test_start.gro);
        assert!(report.end.rows.iter().all(|row| row.system.ends_with("+gso+gro")), "{:?}", report.end.rows);
    }
}

#[test]
fn a_stream_is_accounted_for_to_the_byte_whichever_way_it_goes() {
    for way in [&["--bidir", "-P", "2"][..], &["-R"], &["--multicast", "--receivers", "2"]] {
        let (report, code) = report(&[&["--stream", "-b", "4M"], way].concat());
        assert_eq!(code, Some(0), "{way:?}: {:?} {:?}", report.end.runs, report.end.notes);
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
    let [server] = &bench.children()[..] else {
        println!("SKIPPED: the kernel does not list the children of a process");
        return;
    };
    kill_process(Pid::from_raw(server.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let (status, lines) = bench.wait();
    let end = &lines.last().unwrap()["data"];
    assert_eq!((status.code(), end["state"].as_str()), (Some(1), Some("broken_off")));
    let account: Account = serde_json::from_value(end["streams"][0]["account"].clone()).unwrap();
    assert!(account.adds_up() && account.state == AccountState::Unconfirmed, "{account:?}");
}

#[test]
fn the_server_sends_where_the_way_is_turned() {
    let (report, code) = report(&["-u", "-R", "-b", "5M"]);
    assert_eq!((code, report.start.test_start.reverse), (Some(0), 1));
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
    let (report, code) = report(&["--multicast", "--receivers", "3", "-b", "5M"]);
    assert_eq!((code, accounts(&report).len()), (Some(0), 3));
    check_accounts(&report);
    let sent: Vec<u64> = accounts(&report).iter().map(|account| account.sent).collect();
    assert!(sent.iter().all(|count| *count == sent[0]), "{sent:?}");
}

#[test]
fn the_smallest_and_the_largest_datagram_go_and_one_more_byte_does_not() {
    for length in ["0", "27", "28", "65507"] {
        let (report, code) = report(&["-u", "-b", "500pps", "-l", length]);
        assert_eq!(code, Some(0), "{length}");
        check_accounts(&report);
        assert_eq!(report.start.test_start.blksize.to_string(), length);
    }
    let too_large = refusal(&[&SHORT[..], &["-u", "-l", "65508"]].concat());
    assert!(too_large.contains("-l in bytes must be from 0 to 65507, not 65508"), "{too_large}");
    let no_bits = refusal(&[&SHORT[..], &["-u", "-l", "0", "-b", "1M"]].concat());
    assert!(no_bits.contains("-b 1000pps"), "{no_bits}");
}

#[test]
fn datagrams_that_must_not_be_cut_are_refused_and_accounted_for() {
    let (report, code) = report(&["-u", "-b", "200pps", "-l", "65507", "--dont-fragment"]);
    // The loopback interface takes 65,536 bytes: a datagram of that size and its headers just fits.
    assert_eq!(code, Some(0));
    check_accounts(&report);
}

#[test]
fn repeats_have_a_median_and_a_spread() {
    let output = run(&["bench", "throughput", "-u", "-t", "50ms", "--repeat", "3", "-J"]);
    let report = read(&serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!((report.end.runs.len(), report.end.rows[0].runs), (3, 3));
    let row = &report.end.rows[0];
    assert!(row.min <= row.median && row.median <= row.max);
    check_accounts(&report);
}

#[test]
fn a_search_finds_a_rate_that_held_as_often_as_was_asked() {
    let (report, code) = report(&["-u", "-b", "4M", "--loss-free", "--step", "2M"]);
    assert_eq!(code, Some(0));
    check_accounts(&report);
    let found = report.end.loss_free.unwrap();
    let at_it = report.end.runs.iter().filter(|run| run.target_bitrate == found.bits_per_second);
    let held = at_it.filter(|run| {
        let mut flows = report.end.streams.iter().filter(|flow| flow.run == run.run);
        flows.all(|flow| flow.account.as_ref().unwrap().is_loss_free())
    });
    let is_nothing = found.found == bench::throughput::Found::Nothing;
    assert!(is_nothing || held.count() >= found.confirmations as usize, "{found:?}");
    let no_limit = refusal(&[&SHORT[..], &["-u", "--loss-free"]].concat());
    assert!(no_limit.contains("give it with -b"), "{no_limit}");
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
    let [server] = &bench.children()[..] else {
        println!("SKIPPED: the kernel does not list the children of a process");
        return;
    };
    kill_process(Pid::from_raw(server.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let (status, lines) = bench.wait();
    let end = &lines.last().unwrap()["data"];
    assert_eq!((status.code(), end["state"].as_str()), (Some(1), Some("broken_off")));
    let trouble = end["runs"][0]["trouble"].as_str().unwrap();
    assert!(trouble.contains("is gone"), "{trouble}");
    assert!(end["streams"][0]["sender"]["bytes"].as_u64() > Some(0));
}

/// A server process for clients of this test. Dropping it ends it.
struct Server {
    process: std::process::Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let mut process = command(&["bench", "-s", "-p", "0"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(2).and_then(|word| word.trim_end_matches(';').parse().ok());
        // Otherwise its next message would find a closed pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { process, address: address.unwrap_or_else(|| panic!("{line}")) }
    }

    fn port(&self) -> String {
        self.address.port().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_serves_one_client_after_the_other_and_a_taken_port_is_said() {
    let server = Server::start();
    let port = server.port();
    for protocol in [&[][..], &["-u"]] {
        let client = ["bench", "-c", "127.0.0.1", "-p", &port, "-t", "50ms", "--repeat", "1", "-J"];
        let output = run(&[&client[..], protocol].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        check_accounts(&read(&serde_json::from_slice(&output.stdout).unwrap()));
    }
    let taken = refusal(&["bench", "-s", "-p", &port]);
    assert!(taken.contains("cannot listen on") && taken.contains("choose another port"), "{taken}");
}

#[test]
fn a_server_that_is_ended_ends_the_run_in_order() {
    let server = Server::start();
    let port = server.port();
    let (bench, _) = running_until(&["-c", "127.0.0.1", "-p", &port, "-u"], has_sent);
    kill_process(Pid::from_child(&server.process), Signal::INT).unwrap();
    let (status, lines) = bench.wait();
    let end = &lines.last().unwrap()["data"];
    assert_eq!((status.code(), end["state"].as_str()), (Some(1), Some("broken_off")));
    assert_eq!(end["runs"][0]["trouble"].as_str(), Some("the server was ended"));
    let account: Account = serde_json::from_value(end["streams"][0]["account"].clone()).unwrap();
    assert!(account.adds_up() && account.state == AccountState::Closed && account.sent > 0, "{account:?}");
}

#[test]
fn a_client_that_is_killed_leaves_the_server_free() {
    let server = Server::start();
    let port = server.port();
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
fn a_server_of_another_version_is_told_with_both_versions() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let host = serde_json::to_value(bench::HostState::look("127.0.0.1".parse().unwrap())).unwrap();
    let welcome = serde_json::json!({ "welcome": { "protocol": 9, "tallycast": "9.9.9", "host": host } });
    let thread = std::thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let text = welcome.to_string();
        stream.write_all(&u32::try_from(text.len()).unwrap().to_be_bytes()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let output = run(&["bench", "-c", "127.0.0.1", "-p", &port, "-J"]);
    thread.join().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("version 9 ") && said.contains("same version of tallycast"), "{said}");
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(error["error"].as_str().unwrap().contains("version 9 "), "{error}");
}

#[test]
fn nobody_there_and_what_cannot_be_are_said_with_the_way_out() {
    let unused = support::ports::free().to_string();
    let nobody = refusal(&["bench", "-c", "127.0.0.1", "-p", &unused]);
    assert!(
        nobody.contains("no answer from a bench server") && nobody.contains("tallycast bench -s"),
        "{nobody}"
    );
    let said = |arguments: &[&str]| refusal(&[&["bench", "throughput"], arguments].concat());
    assert!(said(&["-C", "nonesuch", "-t", "50ms"]).contains("has no congestion control `nonesuch`"));
    assert!(said(&["-u", "-C", "cubic"]).contains("-C has no effect without TCP"));
    assert!(said(&["-b", "fast"]).contains("write 100M"));
    assert!(said(&["-t", "1ms"]).contains("-t in ms must be from 10"));
    assert!(said(&["--csv", "/nonexistent/x.csv"]).contains("name a file in a writable folder"));
    assert!(said(&["--client", "no such host.invalid"]).contains("unknown host"));
}

#[test]
fn files_hold_the_whole_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (csv, html, png, log) = (path("a.csv"), path("a.html"), path("a.png"), path("a.log"));
    let files = ["--csv", &csv, "--html", &html, "--png", &png, "--logfile", &log];
    let output = run(&[&SHORT[..], &files, &["-u", "-b", "5M"]].concat());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let text = |path: &str| std::fs::read_to_string(path).unwrap();
    let table = text(&csv);
    let columns = table.lines().next().unwrap().split(',').count();
    // Two intervals, each with a flow and a sum at both ends.
    assert_eq!(table.lines().count(), 1 + 2 * 4);
    assert!(table.lines().all(|line| line.split(',').count() == columns), "{table}");
    let page = text(&html);
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(["<script", "<link", "src=", "href=", "NaN"].iter().all(|word| !page.contains(word)));
    assert!(page.contains("The accounts") && page.contains("closed"));
    assert_eq!(&std::fs::read(&png).unwrap()[1..4], b"PNG");
    let log = text(&log);
    assert!(log.contains("account in datagrams") && log.contains("lost"), "{log}");
}

#[test]
fn two_namespaces_are_made_measured_between_and_removed() {
    let output = run(&[&SHORT[..], &["--netns", "-u", "-b", "5M", "-J"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    if ["only root can", "cannot be started", "Operation not"].iter().any(|words| said.contains(words)) {
        println!("SKIPPED: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = read(&serde_json::from_slice(&output.stdout).unwrap());
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
    let output = run(&["bench", "throughput", "-u", "-t", "50ms", "-i", "0", "--repeat", "1", "-J"]);
    let report = read(&serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!(report.intervals.len(), 1);
}

#[test]
fn a_processor_that_there_is_not_is_said_whichever_end_it_is_of() {
    for cpus in ["4095", "0,4095"] {
        let said = refusal(&[&SHORT[..], &["-A", cpus]].concat());
        assert!(said.contains("processor 4095 cannot be used"), "{said}");
    }
    let (report, code) = report(&["-u", "-A", "0,0"]);
    assert_eq!(code, Some(0));
    check_accounts(&report);
}

#[test]
fn in_namespaces_a_datagram_larger_than_the_path_is_refused_where_it_must_not_be_cut() {
    let output = run(&[
        &SHORT[..],
        &["--netns", "-u", "-b", "200pps", "-l", "1473", "--dont-fragment", "-J"],
    ]
    .concat());
    let said = String::from_utf8_lossy(&output.stderr);
    if output.stdout.is_empty() || said.contains("only root can") {
        println!("SKIPPED: {said}");
        return;
    }
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    if let Some(error) = value["error"].as_str() {
        println!("SKIPPED: {error}");
        return;
    }
    let report = read(&value);
    check_accounts(&report);
    let account = accounts(&report)[0];
    assert_eq!((account.received, account.lost.get("sender_ip")), (0, Some(&account.sent)), "{account:?}");
    assert!(report.end.notes.iter().any(|note| note.contains("EMSGSIZE")), "{:?}", report.end.notes);
}

#[test]
fn the_schema_accepts_nothing_that_is_not_in_it() {
    let (report, _) = report(&["-u"]);
    let whole = serde_json::to_value(&report).unwrap();
    let broken = |change: fn(&mut Value)| {
        let mut value = whole.clone();
        change(&mut value);
        published::check("bench", &value).is_err()
    };
    assert!(broken(|it| it["version"] = 2.into()));
    assert!(broken(|it| it["end"]["more"] = 1.into()));
    assert!(broken(|it| it["intervals"][0]["sum_sent"]["bytes"] = (-1).into()));
    assert!(broken(|it| drop(it["end"]["streams"][0].as_object_mut().unwrap().remove("account"))));
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
