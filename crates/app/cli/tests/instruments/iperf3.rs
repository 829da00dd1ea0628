//! `tallycast bench iperf3` against the real iperf3, each as the other's server: both agree on every comparable count.
//!
//! Over TCP an iperf3 receiver may leave data unread when the test ends; then it has a part of the sent data, and the
//! account names the rest. Everything else is equal to the byte.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{WATCHDOG, wait_until};

use crate::program::{Running, run};

/// Duration of timed tests: each end sends something even if it is delayed by a second.
const SECONDS: &str = "2";

/// The real iperf3, if it is installed.
struct Stock;

impl Stock {
    /// Prints a note if it is not.
    fn find() -> Option<Self> {
        let found = Command::new("iperf3").arg("--version").stdout(Stdio::null()).status();
        if found.is_err() {
            println!("SKIPPED: iperf3 is missing (Debian package iperf3)");
        }
        found.is_ok().then_some(Self)
    }

    /// Begins a command that tests against a port of this host.
    fn command(&self, port: &str, options: &[&str]) -> Command {
        let mut command = Command::new("iperf3");
        command.args(["-c", "127.0.0.1", "-p", port]).args(options);
        command
    }

    /// Runs it against our server; returns its JSON and ours.
    fn client(&self, options: &[&str]) -> (Value, Value) {
        let server = Server::ours(&[]);
        let output = self.command(&server.port, options).arg("-J").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let theirs: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(theirs.get("error"), None, "{options:?}");
        // Our report comes after the client's own: only then may the server be ended.
        server.wait_until_free();
        let text = server.end();
        let first = text.lines().next().unwrap_or_else(|| panic!("the server printed nothing"));
        (theirs, serde_json::from_str(first).unwrap())
    }

    /// Runs it against our server, which refuses; returns what it says.
    fn refused(&self, server: &Server, options: &[&str]) -> String {
        let output = self.command(&server.port, options).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs our client against it; returns our JSON.
    fn server(&self, options: &[&str]) -> Value {
        let server = Server::of(Command::new("iperf3"));
        let output = our_client(&server.port, &[&["-J"], options].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{options:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Runs our client against a port of this host.
fn our_client(port: &str, options: &[&str]) -> Output {
    run(&[&["bench", "iperf3", "-c", "127.0.0.1", "-p", port], options].concat())
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
        read_to_end(said);
        let output = Some(read_to_end(child.stdout.take().unwrap()));
        Self { child, port, output }
    }

    /// Starts iperf3 with a command, at its own port, outside the range of automatic ports.
    fn of(mut command: Command) -> Self {
        let port = support::ports::free().to_string();
        command.args(["-s", "--forceflush", "-B", "127.0.0.1", "-p", &port]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("Server listening") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "iperf3 does not listen at {port}");
        }
        Self { child, port, output: Some(read_to_end(said)) }
    }

    /// Waits until another client would be served.
    fn wait_until_free(&self) {
        let answer = || first_byte(&mut connect(&self.port, b'k'));
        wait_until("the server to be free", || answer().filter(|byte| *byte == PARAM_EXCHANGE));
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

/// Reads an output to its end: its program would stop at a full pipe.
fn read_to_end(mut output: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    })
}

/// Begins a command that runs on one processor.
fn on(cpu: usize) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &cpu.to_string()]);
    command
}

const TEST_START: u8 = 1;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const IPERF_DONE: u8 = 16;
const ACCESS_DENIED: u8 = 0xff;

/// Connects to a server with a cookie of one letter.
fn connect(port: &str, letter: u8) -> TcpStream {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    socket.write_all(&cookie(letter)).unwrap();
    socket
}

fn cookie(letter: u8) -> Vec<u8> {
    [&[letter; 36][..], &[0]].concat()
}

/// Returns a text with its length before it.
fn framed(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
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
    let Some(iperf3) = Stock::find() else { return };
    for options in [&["-n", "1M"][..], &["-t", SECONDS, "-P", "2"], &["-k", "7", "-l", "1000"]] {
        let (theirs, ours) = iperf3.client(options);
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
    let Some(iperf3) = Stock::find() else { return };
    for options in [&["-n", "1M", "-R"][..], &["-t", SECONDS, "--bidir"], &["-t", SECONDS, "-R", "-P", "2"]] {
        let (theirs, ours) = iperf3.client(options);
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
    let Some(iperf3) = Stock::find() else { return };
    // The largest blocks through the smallest buffers: nearly every check of the clock falls in the middle of one.
    let options = ["-n", "3M", "-l", "1M", "-w", "8K"];
    closes(&iperf3.client(&[&options[..], &["-R"]].concat()).1);
    let ours = iperf3.server(&["-t", SECONDS, "-l", "1M", "-w", "8K"]);
    closes(&ours);
    assert_eq!(number(&ours, "/end/sum_sent/bytes") % (1 << 20), 0, "only whole blocks were sent");
}

#[test]
fn a_client_that_reads_once_more_than_there_is_gets_another_block() {
    // Like iperf3 under load, but reproducible: the test is over, and it waits for a whole block.
    let server = Server::ours(&["-1"]);
    let mut control = connect(&server.port, b'a');
    assert_eq!(first_byte(&mut control), Some(PARAM_EXCHANGE));
    // One block at once, and the next one two hours later.
    let parameters = r#"{"tcp":true,"reverse":true,"parallel":1,"len":1000,"bandwidth":1}"#;
    control.write_all(&framed(parameters)).unwrap();
    assert_eq!(first_byte(&mut control), Some(CREATE_STREAMS));
    let mut stream = connect(&server.port, b'a');
    let mut begun = [0; 2];
    control.read_exact(&mut begun).unwrap();
    let mut block = [0; 1_000];
    stream.read_exact(&mut block).unwrap();
    control.write_all(&[TEST_END]).unwrap();
    assert_eq!(first_byte(&mut control), Some(EXCHANGE_RESULTS));
    stream.read_exact(&mut block).unwrap();
    control.write_all(&framed(r#"{"streams":[{"id":1,"bytes":2000,"end_time":1}]}"#)).unwrap();
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
    let Some(iperf3) = Stock::find() else { return };
    let wide = "--udp-counters-64bit";
    for options in [
        &["-u", "-b", "20M", "-n", "1M", "-l", "1000"][..],
        &["-u", "-b", "20M", "-t", SECONDS, "-l", "1000", "-R", wide],
        &["-u", "-b", "5M", "-t", SECONDS, "-l", "500", "--bidir", "-P", "2", wide],
    ] {
        let (theirs, ours) = iperf3.client(options);
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
    let Some(iperf3) = Stock::find() else { return };
    for options in [
        &["-n", "1M"][..],
        &["-t", SECONDS, "-P", "2", "-C", "reno", "-N", "-M", "1000", "-w", "64K"],
        &["-n", "1M", "-R"],
        &["-t", SECONDS, "--bidir"],
    ] {
        let ours = iperf3.server(options);
        closes(&ours);
        if options.contains(&"-n") && !options.contains(&"-R") {
            assert_eq!(number(&ours, "/end/sum_sent/bytes"), 1 << 20);
        }
    }
}

#[test]
fn a_stock_server_and_we_agree_on_datagrams() {
    let Some(iperf3) = Stock::find() else { return };
    for (options, streams) in [
        (&["-u", "-b", "20M", "-n", "1M", "-l", "1000"][..], 1),
        (&["-u", "-b", "5M", "-t", SECONDS, "-l", "1000", "-R", "-P", "2"], 2),
        (&["-u", "-b", "5M/5", "-t", SECONDS, "-l", "1000", "--bidir", "--udp-counters-64bit"], 2),
    ] {
        let ours = iperf3.server(options);
        assert_eq!(closes(&ours), streams, "{options:?}");
        let udp = &ours["end"]["streams"][0]["udp"];
        assert_eq!(number(udp, "/packets"), number(&ours["end"]["streams"][0]["account"], "/sent"));
    }
}

#[test]
fn what_is_omitted_is_in_the_intervals_and_not_in_the_sums() {
    let Some(iperf3) = Stock::find() else { return };
    let ours = iperf3.server(&["-u", "-b", "1M", "-t", SECONDS, "-O", SECONDS, "-l", "1000"]);
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
        let output = our_client(&server.port, &[&["-J"], options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let client: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(closes(&client), 2);
        server.wait_until_free();
    }
    let text = server.end();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let reports: Vec<Value> = lines.filter(|line| line["error"].is_null()).collect();
    assert_eq!(reports.iter().map(closes).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    let server = Server::ours(&[]);
    let mut first = connect(&server.port, b'a');
    assert_eq!(first_byte(&mut first), Some(PARAM_EXCHANGE));
    assert_eq!(first_byte(&mut connect(&server.port, b'k')), Some(ACCESS_DENIED));
    let second = our_client(&server.port, &[]);
    assert_eq!(second.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&second.stderr).contains("busy with another test"));
    // The first one vanishes, and the next is served.
    drop(first);
    server.wait_until_free();
}

#[test]
fn a_client_that_vanishes_in_the_middle_does_not_keep_the_server() {
    let Some(iperf3) = Stock::find() else { return };
    let server = Server::ours(&[]);
    let mut command = iperf3.command(&server.port, &["-t", "60", "-R", "--forceflush", "-i", "0.1"]);
    let mut client = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("bits/sec")), "data flow");
    client.kill().unwrap();
    client.wait().unwrap();
    server.wait_until_free();
    let text = server.end();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(first["error"].is_string() && first["intervals"].is_array(), "{first}");
}

#[test]
fn a_hello_from_another_host_is_not_answered() {
    let server = Server::ours(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    let mut control = connect(&server.port, b'a');
    assert_eq!(first_byte(&mut control), Some(PARAM_EXCHANGE));
    control.write_all(&framed(r#"{"udp":true,"time":1,"parallel":1,"len":1000}"#)).unwrap();
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
    let too_long = [&cookie(b'a')[..], b"\xff\xff\xff\xff"].concat();
    for garbage in [&b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n"[..], &[0xff; 64], &too_long] {
        let mut stranger = TcpStream::connect(format!("127.0.0.1:{}", server.port)).unwrap();
        stranger.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        // It is closed, or reset if it had sent more than was read.
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == PARAM_EXCHANGE && answer[1] == 0xfe, "{answer:?}");
        server.wait_until_free();
    }
}

#[test]
fn what_is_not_supported_is_refused_on_both_sides() {
    let Some(iperf3) = Stock::find() else { return };
    let server = Server::ours(&[]);
    let said = iperf3.refused(&server, &["-t", SECONDS, "--get-server-output"]);
    assert!(said.contains("not implemented"), "{said}");
}

#[test]
fn a_server_that_is_gone_or_is_none_is_an_error_with_a_way_out() {
    let said = |port: &str| {
        let output = our_client(port, &["-n", "1K", "-J"]);
        assert_eq!(output.status.code(), Some(2));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(json["error"].as_str().unwrap().lines().next().unwrap()), "{json}");
        said
    };
    let nobody = said(&support::ports::free().to_string());
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
    let Some(iperf3) = Stock::find() else { return };
    let server = Server::ours(&[]);
    let _taken = UdpSocket::bind(format!("127.0.0.1:{}", server.port)).unwrap();
    let said = iperf3.refused(&server, &["-u", "-t", SECONDS]);
    assert!(said.contains("Address already in use"), "{said}");
}

#[test]
fn every_datagram_that_iperf3_loses_is_named_by_the_doctor() {
    let Some(_) = Stock::find() else { return };
    // Client and server share a processor, which the server gets when the client rests: of what is sent at once the server's
    // buffer holds a small part, and the rest is lost. All that is sent is little: the watcher has room for all it loses,
    // however late it looks.
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let mut idle = on(cpu);
    idle.args(["chrt", "--idle", "0", "iperf3"]);
    let server = Server::of(idle);
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
