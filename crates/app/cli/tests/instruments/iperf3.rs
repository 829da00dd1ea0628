//! `tallycast bench iperf3` against the real iperf3, each as the other's server: both agree on every comparable count.
//!
//! Over TCP an iperf3 receiver may leave data unread when the test ends; then it has a part of the sent data, and the
//! account names the rest. Everything else is equal to the byte.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{WATCHDOG, wait_until};

use crate::program::{Running, run};

/// Duration of timed tests: each end sends something even if it is delayed by a second.
const SECONDS: &str = "2";

/// Returns whether iperf3 is installed; prints a note if not.
fn has_iperf3() -> bool {
    let found = Command::new("iperf3").arg("--version").stdout(Stdio::null()).status();
    if found.is_err() {
        println!("SKIPPED: iperf3 is missing (Debian package iperf3)");
    }
    found.is_ok()
}

/// A server, ended when it is dropped.
struct Server {
    child: Child,
    port: String,
    /// Its output, once it has ended.
    output: Option<std::thread::JoinHandle<String>>,
}

impl Server {
    /// Starts this program's server at its own port.
    fn ours(more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallycast"));
        command.args(["bench", "-s", "--iperf3", "-J", "-p", "0"]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let port = line.split_whitespace().find_map(|word| word.strip_prefix("127.0.0.1:"));
        let port = port.unwrap_or_else(|| panic!("no port in `{line}`")).to_owned();
        // Read to its end, or it would stop at a full pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let mut output = child.stdout.take().unwrap();
        let output = std::thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, port, output: Some(output) }
    }

    /// Starts iperf3 at its own port.
    fn stock() -> Self {
        Self::of(Command::new("iperf3"))
    }

    /// Starts it on a processor where it runs only when nothing else does.
    fn stock_behind_all_else(cpu: usize) -> Self {
        let mut command = on(cpu);
        command.args(["chrt", "--idle", "0", "iperf3"]);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let port = free_port();
        command.args(["-s", "--forceflush", "-B", "127.0.0.1", "-p", &port]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("Server listening") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "iperf3 does not listen at {port}");
        }
        let output = std::thread::spawn(move || {
            let mut text = String::new();
            said.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, port, output: Some(output) }
    }

    /// Ends it as Ctrl-C does; returns what it printed.
    fn end(self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.join()
    }

    /// Waits for its end; returns what it printed.
    fn join(mut self) -> String {
        wait_until("the server's end", || self.child.try_wait().unwrap());
        self.output.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

/// Returns a port outside the range of automatic ports.
fn free_port() -> String {
    support::ports::free().to_string()
}

/// Begins a command that runs on one processor.
fn on(cpu: usize) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &cpu.to_string()]);
    command
}

/// Runs the real client against our server; returns its JSON and ours.
fn stock_client(options: &[&str]) -> (Value, Value) {
    let server = Server::ours(&[]);
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-p", &server.port, "-J"]).args(options);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let theirs: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(theirs.get("error"), None, "{options:?}");
    // This program prints once the client has said goodbye; only then may it be ended.
    let ours = wait_for_report(server);
    (theirs, ours)
}

/// Waits for the report of a server; it comes after the client's own.
fn wait_for_report(server: Server) -> Value {
    // A second client is served only after the first one.
    wait_until("the first test's end", || knock(&server.port).filter(|byte| *byte == PARAM_EXCHANGE));
    let text = server.end();
    let first = text.lines().next().unwrap_or_else(|| panic!("the server printed nothing"));
    serde_json::from_str(first).unwrap()
}

/// Runs our client against the real server; returns our JSON.
fn our_client(options: &[&str]) -> Value {
    let server = Server::stock();
    let output = run(&[&["bench", "iperf3", "-c", "127.0.0.1", "-p", &server.port, "-J"], options].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{options:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

const TEST_START: u8 = 1;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const IPERF_DONE: u8 = 16;
const ACCESS_DENIED: u8 = 0xff;

/// Sends a cookie to a port; returns the first byte of the answer.
fn knock(port: &str) -> Option<u8> {
    let mut control = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    control.write_all(&[&[b'k'; 36][..], &[0]].concat()).unwrap();
    first_byte(&mut control)
}

fn first_byte(control: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    control.read(&mut byte).ok().filter(|read| *read == 1).map(|_| byte[0])
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {value}"))
}

/// Asserts that every account of one of our reports closes; returns how many streams it has.
fn closes(report: &Value) -> usize {
    let streams = report["end"]["streams"].as_array().unwrap();
    for stream in streams {
        let account = &stream["account"];
        let part = |name: &str| number(account, &format!("/{name}"));
        assert_eq!(account["state"], "closed", "{report}");
        assert_eq!(part("sent"), part("received") + part("missing") + part("after_last"), "{account}");
        assert!(part("sent") > 0, "{account}");
    }
    // The intervals of this side add up to its totals, except for the omitted time.
    for (index, stream) in streams.iter().enumerate() {
        let intervals = report["intervals"].as_array().unwrap().iter();
        let bytes: u64 = intervals.map(|it| number(it, &format!("/streams/{index}/bytes"))).sum();
        let sends = report["intervals"][0]["streams"][index]["sender"].as_bool().unwrap();
        let side = if sends { "sent" } else { "received" };
        let scale = if stream["udp"].is_null() { 1 } else { number(report, "/start/test_start/blksize") };
        assert_eq!(bytes, number(&stream["account"], &format!("/{side}")) * scale, "{report}");
    }
    streams.len()
}

#[test]
fn a_stock_client_over_tcp_gets_what_it_sent_counted_to_the_byte() {
    if !has_iperf3() {
        return;
    }
    for options in [&["-n", "1M"][..], &["-t", SECONDS, "-P", "2"], &["-k", "7", "-l", "1000"]] {
        let (theirs, ours) = stock_client(options);
        assert_eq!(closes(&ours), theirs["end"]["streams"].as_array().unwrap().len());
        for index in 0..closes(&ours) {
            let sent = number(&theirs, &format!("/end/streams/{index}/sender/bytes"));
            assert_eq!(number(&theirs, &format!("/end/streams/{index}/receiver/bytes")), sent, "{options:?}");
            assert_eq!(number(&ours, &format!("/end/streams/{index}/sender/bytes")), sent);
            assert_eq!(number(&ours, &format!("/end/streams/{index}/account/received")), sent);
        }
    }
}

#[test]
fn a_stock_client_may_have_the_server_send() {
    if !has_iperf3() {
        return;
    }
    for options in [&["-n", "1M", "-R"][..], &["-t", SECONDS, "--bidir"], &["-t", SECONDS, "-R", "-P", "2"]] {
        let (theirs, ours) = stock_client(options);
        for index in 0..closes(&ours) {
            // Each side reports what the other measured unchanged.
            for side in ["sender", "receiver"] {
                let path = format!("/end/streams/{index}/{side}/bytes");
                assert_eq!(number(&theirs, &path), number(&ours, &path), "{options:?} {path}");
            }
        }
    }
}

#[test]
fn a_test_that_ends_within_a_block_is_heard_by_iperf3() {
    if !has_iperf3() {
        return;
    }
    // The largest blocks through the smallest buffers: nearly every check of the clock falls in the middle of one.
    let options = ["-n", "3M", "-l", "1M", "-w", "8K"];
    closes(&stock_client(&[&options[..], &["-R"]].concat()).1);
    let ours = our_client(&["-t", SECONDS, "-l", "1M", "-w", "8K"]);
    closes(&ours);
    assert_eq!(number(&ours, "/end/sum_sent/bytes") % (1 << 20), 0, "only whole blocks were sent");
}

#[test]
fn a_client_that_reads_once_more_than_there_is_gets_another_block() {
    // Like iperf3 under load, but reproducible: the test is over, and it waits for a whole block.
    let server = Server::ours(&["-1"]);
    let connect = || {
        let mut socket = TcpStream::connect(format!("127.0.0.1:{}", server.port)).unwrap();
        socket.write_all(&[&[b'a'; 36][..], &[0]].concat()).unwrap();
        socket
    };
    let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    let mut control = connect();
    assert_eq!(first_byte(&mut control), Some(PARAM_EXCHANGE));
    // One block at once, and the next one two hours later.
    let parameters = r#"{"tcp":true,"reverse":true,"parallel":1,"len":1000,"bandwidth":1}"#;
    control.write_all(&text(parameters)).unwrap();
    assert_eq!(first_byte(&mut control), Some(CREATE_STREAMS));
    let mut stream = connect();
    let mut begun = [0; 2];
    control.read_exact(&mut begun).unwrap();
    let mut block = [0; 1_000];
    stream.read_exact(&mut block).unwrap();
    control.write_all(&[TEST_END]).unwrap();
    assert_eq!(first_byte(&mut control), Some(EXCHANGE_RESULTS));
    stream.read_exact(&mut block).unwrap();
    control.write_all(&text(r#"{"streams":[{"id":1,"bytes":2000,"end_time":1}]}"#)).unwrap();
    let mut rest = vec![0; 4];
    control.read_exact(&mut rest).unwrap();
    let len = u32::from_be_bytes(rest[..].try_into().unwrap());
    control.read_exact(&mut vec![0; usize::try_from(len).unwrap() + 1]).unwrap();
    control.write_all(&[IPERF_DONE]).unwrap();
    let text = server.join();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(closes(&report), 1);
    assert!(number(&report, "/end/streams/0/account/sent") >= 2_000, "{report}");
}

#[test]
fn datagrams_of_a_stock_client_are_counted_one_by_one() {
    if !has_iperf3() {
        return;
    }
    let wide = "--udp-counters-64bit";
    for options in [
        &["-u", "-b", "20M", "-n", "1M", "-l", "1000"][..],
        &["-u", "-b", "20M", "-t", SECONDS, "-l", "1000", "-R", wide],
        &["-u", "-b", "5M", "-t", SECONDS, "-l", "500", "--bidir", "-P", "2", wide],
    ] {
        let (theirs, ours) = stock_client(options);
        for index in 0..closes(&ours) {
            let account = &ours["end"]["streams"][index]["account"];
            let udp = &theirs["end"]["streams"][index]["udp"];
            let sends = ours["intervals"][0]["streams"][index]["sender"].as_bool().unwrap();
            if sends {
                assert_eq!(number(udp, "/packets"), number(account, "/sent"), "{options:?}");
                // Datagrams behind the last that arrived are unknown to iperf3.
                assert_eq!(number(udp, "/lost_packets"), number(account, "/missing"), "{options:?}");
            } else {
                assert_eq!(number(udp, "/packets"), number(account, "/sent"), "{options:?}");
                let lost = number(account, "/missing") + number(account, "/after_last");
                assert_eq!(number(udp, "/lost_packets"), lost, "{options:?}");
            }
        }
    }
}

#[test]
fn a_stock_server_counts_what_we_send_and_sends_what_we_count() {
    if !has_iperf3() {
        return;
    }
    for options in [
        &["-n", "1M"][..],
        &["-t", SECONDS, "-P", "2", "-C", "reno", "-N", "-M", "1000", "-w", "64K"],
        &["-n", "1M", "-R"],
        &["-t", SECONDS, "--bidir"],
    ] {
        let ours = our_client(options);
        closes(&ours);
        if options.contains(&"-n") && !options.contains(&"-R") {
            assert_eq!(number(&ours, "/end/sum_sent/bytes"), 1 << 20);
        }
    }
}

#[test]
fn a_stock_server_and_we_agree_on_datagrams() {
    if !has_iperf3() {
        return;
    }
    for (options, streams) in [
        (&["-u", "-b", "20M", "-n", "1M", "-l", "1000"][..], 1),
        (&["-u", "-b", "5M", "-t", SECONDS, "-l", "1000", "-R", "-P", "2"], 2),
        (&["-u", "-b", "5M/5", "-t", SECONDS, "-l", "1000", "--bidir", "--udp-counters-64bit"], 2),
    ] {
        let ours = our_client(options);
        assert_eq!(closes(&ours), streams, "{options:?}");
        let udp = &ours["end"]["streams"][0]["udp"];
        assert_eq!(number(udp, "/packets"), number(&ours["end"]["streams"][0]["account"], "/sent"));
    }
}

#[test]
fn what_is_omitted_is_in_the_intervals_and_not_in_the_sums() {
    if !has_iperf3() {
        return;
    }
    let ours = our_client(&["-u", "-b", "1M", "-t", SECONDS, "-O", SECONDS, "-l", "1000"]);
    let intervals = ours["intervals"].as_array().unwrap().iter();
    let (omitted, counted): (Vec<_>, Vec<_>) = intervals.partition(|it| it["sum"]["omitted"] == true);
    let packets = |intervals: &[&Value]| intervals.iter().map(|it| number(it, "/sum/packets")).sum::<u64>();
    assert!(packets(&omitted) > 0);
    assert_eq!(number(&ours, "/end/sum_sent/packets"), packets(&counted));
    assert_eq!(ours["end"]["streams"][0]["account"]["state"], "unknown");
}

#[test]
fn our_client_and_our_server_agree_on_everything() {
    let server = Server::ours(&[]);
    for options in
        [&["-t", SECONDS, "-P", "2"][..], &["-u", "-t", SECONDS, "-l", "1000", "-b", "20M", "--bidir"]]
    {
        let arguments = [&["bench", "iperf3", "-c", "127.0.0.1", "-p", &server.port, "-J"], options].concat();
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let client: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(closes(&client), 2);
        wait_until("the test's end", || knock(&server.port).filter(|byte| *byte == PARAM_EXCHANGE));
    }
    let text = server.end();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let reports: Vec<Value> = lines.filter(|line| line["error"].is_null()).collect();
    assert_eq!(reports.iter().map(closes).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    let server = Server::ours(&[]);
    let mut first = TcpStream::connect(format!("127.0.0.1:{}", server.port)).unwrap();
    first.write_all(&[&[b'a'; 36][..], &[0]].concat()).unwrap();
    assert_eq!(first_byte(&mut first), Some(PARAM_EXCHANGE));
    assert_eq!(knock(&server.port), Some(ACCESS_DENIED));
    let second = run(&["bench", "iperf3", "-c", "127.0.0.1", "-p", &server.port]);
    assert_eq!(second.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&second.stderr).contains("busy with another test"));
    // The first one vanishes, and the next is served.
    drop(first);
    wait_until("the server to be free", || knock(&server.port).filter(|byte| *byte == PARAM_EXCHANGE));
}

#[test]
fn a_client_that_vanishes_in_the_middle_does_not_keep_the_server() {
    if !has_iperf3() {
        return;
    }
    let server = Server::ours(&[]);
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-p", &server.port, "-t", "60", "-R", "--forceflush", "-i", "0.1"]);
    let mut client = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("bits/sec")), "data flow");
    client.kill().unwrap();
    client.wait().unwrap();
    wait_until("the server to be free", || knock(&server.port).filter(|byte| *byte == PARAM_EXCHANGE));
    let text = server.end();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(first["error"].is_string() && first["intervals"].is_array(), "{first}");
}

#[test]
fn a_hello_from_another_host_is_not_answered() {
    let server = Server::ours(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    let mut control = TcpStream::connect(&address).unwrap();
    control.write_all(&[&[b'a'; 36][..], &[0]].concat()).unwrap();
    assert_eq!(first_byte(&mut control), Some(PARAM_EXCHANGE));
    let parameters = br#"{"udp":true,"time":1,"parallel":1,"len":1000}"#;
    control.write_all(&u32::try_from(parameters.len()).unwrap().to_be_bytes()).unwrap();
    control.write_all(parameters).unwrap();
    assert_eq!(first_byte(&mut control), Some(CREATE_STREAMS));

    let [stranger, client] = ["127.0.0.2:0", "127.0.0.1:0"].map(|local| {
        let socket = UdpSocket::bind(local).unwrap();
        socket.connect(&address).unwrap();
        socket
    });
    stranger.send(b"9876").unwrap();
    client.send(b"9876").unwrap();
    // The stream is the client's: the test begins with its hello, and the stranger's data are ignored.
    assert_eq!(first_byte(&mut control), Some(TEST_START));
    let mut answer = [0; 4];
    // The answer was sent before the byte, and may arrive after it.
    client.set_read_timeout(Some(WATCHDOG)).unwrap();
    assert_eq!(client.recv(&mut answer).unwrap(), 4);
    assert_eq!(&answer, b"6789");
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut answer).is_err(), "a stranger was answered");
}

#[test]
fn garbage_at_the_port_of_a_server_is_closed_and_the_next_is_served() {
    let server = Server::ours(&[]);
    let cookie = [&[b'a'; 36][..], &[0]].concat();
    let too_long = [&cookie[..], b"\xff\xff\xff\xff"].concat();
    for garbage in [&b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n"[..], &[0xff; 64], &too_long] {
        let mut stranger = TcpStream::connect(format!("127.0.0.1:{}", server.port)).unwrap();
        stranger.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        // It is closed, or reset if it had sent more than was read.
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == PARAM_EXCHANGE && answer[1] == 0xfe, "{answer:?}");
        wait_until("the server to be free", || knock(&server.port).filter(|byte| *byte == PARAM_EXCHANGE));
    }
}

#[test]
fn what_is_not_supported_is_refused_on_both_sides() {
    if !has_iperf3() {
        return;
    }
    let server = Server::ours(&[]);
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-p", &server.port, "-t", SECONDS, "--get-server-output"]);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not implemented"), "{said}");
}

#[test]
fn a_server_that_is_gone_or_is_none_is_an_error_with_a_way_out() {
    let said = |port: &str| {
        let output = run(&["bench", "iperf3", "-c", "127.0.0.1", "-p", port, "-n", "1K", "-J"]);
        assert_eq!(output.status.code(), Some(2));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(json["error"].as_str().unwrap().lines().next().unwrap()), "{json}");
        said
    };
    let nobody = said(&free_port());
    assert!(nobody.contains("no server at 127.0.0.1") && nobody.contains("iperf3 -s"), "{nobody}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let answering = std::thread::spawn(move || {
        let (mut socket, _) = other.accept().unwrap();
        socket.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        socket.read_to_end(&mut Vec::new()).unwrap();
    });
    let ssh = said(&port);
    assert!(ssh.contains("0x53") && ssh.contains("see whether the other side is iperf3"), "{ssh}");
    answering.join().unwrap();
}

#[test]
fn a_port_that_is_taken_is_an_error_with_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["bench", "-s", "--iperf3", "-p", &port]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("cannot listen on") && said.contains("choose another port with -p"), "{said}");
}

#[test]
fn a_taken_udp_port_is_told_to_the_client() {
    if !has_iperf3() {
        return;
    }
    let server = Server::ours(&[]);
    let _taken = UdpSocket::bind(format!("127.0.0.1:{}", server.port)).unwrap();
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-p", &server.port, "-u", "-t", SECONDS]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("Address already in use"), "{said}");
}

#[test]
fn every_datagram_that_iperf3_loses_is_named_by_the_doctor() {
    if !has_iperf3() {
        return;
    }
    // Client and server share a processor, which the server gets when the client rests: of what is sent at once the server's
    // buffer holds a small part, and the rest is lost. All that is sent is little: the watcher has room for all it loses,
    // however late it looks.
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let server = Server::stock_behind_all_else(cpu);
    // Its datagrams carry seconds, microseconds and their number.
    let profile = ["--profile", "number=8:4,order=big", "--port", &server.port];
    let watcher =
        Running::start(&[&["doctor", "watch", "--json", "--interval", "100ms"], &profile[..]].concat());
    let first = watcher.lines_until(|line| line["event"] == "watching").pop().unwrap();
    if first["names_datagrams"] != true {
        println!("SKIPPED: single datagrams cannot be looked at here");
        return;
    }
    let bursts = ["-u", "-b", "8M/100", "-k", "500", "-l", "1000", "-w", "8K", "-J"];
    let mut client = on(cpu);
    client.args(["iperf3", "-c", "127.0.0.1", "-p", &server.port]).args(bursts);
    let output = client.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lost = report["end"]["sum"]["lost_packets"].as_u64().unwrap();
    // It takes one more snapshot before it ends.
    watcher.signal(Signal::INT);
    let mut named = BTreeSet::new();
    // Other programs of this host may lose something meanwhile, which is not assigned here.
    for line in watcher
        .lines_until(|line| line["event"] == "ended")
        .iter()
        .filter(|line| line["event"] == "loss" && line["stage"] == "receiver_socket_buffer")
    {
        for range in
            line["datagrams"].as_array().unwrap().iter().flat_map(|it| it["numbers"].as_array().unwrap())
        {
            named.extend(range[0].as_u64().unwrap()..=range[1].as_u64().unwrap());
        }
    }
    assert!(!named.is_empty(), "something was lost: {report}");
    // Losses behind the last datagram that arrived are invisible to iperf3.
    assert!(named.len() as u64 >= lost, "{} are named of {lost}", named.len());
    server.end();
}
