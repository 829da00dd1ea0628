//! A report as JSON, with iperf3's names, so that programs that read iperf3's output read ours.
//!
//! Beyond iperf3: each of `end.streams` has an `account`, and a server reports its client's counts where
//! iperf3's own server writes 0. `lost_packets` includes those sent after the last that arrived, which iperf3
//! leaves out.

use serde::Serialize;

use super::parameters::{Direction, End as TestEnd, Flow, Protocol};
use super::report::{Report, Side, StreamReport, Sum, Verdict};
use super::table::percent;
use super::traffic::{Interval, Role, StreamInterval};

#[derive(Serialize)]
struct Whole<'a> {
    start: Start<'a>,
    intervals: Vec<JsonInterval>,
    end: End<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_data: Option<&'a str>,
}

#[derive(Serialize)]
struct Start<'a> {
    connected: Vec<Connected>,
    version: String,
    system_info: String,
    timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    connecting_to: Option<Address>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_connection: Option<Address>,
    cookie: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_mss_default: Option<u32>,
    target_bitrate: u64,
    sock_bufsize: usize,
    sndbuf_actual: u64,
    rcvbuf_actual: u64,
    test_start: TestStart,
}

#[derive(Serialize)]
struct Connected {
    socket: i32,
    local_host: String,
    local_port: u16,
    remote_host: String,
    remote_port: u16,
}

#[derive(Serialize)]
struct Timestamp {
    time: String,
    timesecs: i64,
}

#[derive(Serialize)]
struct Address {
    host: String,
    port: u16,
}

#[derive(Serialize)]
struct TestStart {
    protocol: &'static str,
    num_streams: u32,
    blksize: usize,
    omit: u64,
    duration: u64,
    bytes: u64,
    blocks: u64,
    reverse: u8,
    /// Not in iperf 3.12, which does not report it.
    bidir: u8,
    tos: u32,
    target_bitrate: u64,
}

#[derive(Serialize)]
struct JsonInterval {
    streams: Vec<Line>,
    sum: Line,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_bidir_reverse: Option<Line>,
}

#[derive(Serialize)]
struct End<'a> {
    streams: Vec<EndStream<'a>>,
    #[serde(flatten)]
    sums: Sums,
    cpu_utilization_percent: Processor,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_tcp_congestion: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver_tcp_congestion: Option<&'a str>,
}

#[derive(Serialize, Default)]
struct Sums {
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<Line>,
    sum_sent: Line,
    sum_received: Line,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_bidir_reverse: Option<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_sent_bidir_reverse: Option<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_received_bidir_reverse: Option<Line>,
}

#[derive(Serialize)]
struct EndStream<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver: Option<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp: Option<Line>,
    account: JsonAccount<'a>,
}

/// Account of the data sent.
#[derive(Serialize)]
struct JsonAccount<'a> {
    unit: &'static str,
    sent: u64,
    received: u64,
    missing: u64,
    after_last: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_by_receiver_socket_buffer: Option<u64>,
    duplicates: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Processor {
    host_total: f64,
    host_user: f64,
    host_system: f64,
    remote_total: f64,
    remote_user: f64,
    remote_system: f64,
}

/// Fields of a stream or a sum, in an interval or at the end: always a subset of these.
#[derive(Serialize, Default, Clone)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<i32>,
    start: f64,
    end: f64,
    seconds: f64,
    bytes: u64,
    bits_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmits: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snd_cwnd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rttvar: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pmtu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_snd_cwnd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rtt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_rtt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_packets: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_order: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<bool>,
    sender: bool,
}

impl Report {
    /// Returns the report as JSON of iperf3's shape.
    ///
    /// # Panics
    /// Never: numbers and texts are valid JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let whole = Whole {
            start: start(self),
            intervals: self.intervals.iter().map(json_interval).collect(),
            end: end(self),
            title: self.test.title.as_deref(),
            extra_data: self.test.extra_data.as_deref(),
        };
        serde_json::to_string(&whole).expect("numbers and texts become JSON")
    }
}

/// Output of an incomplete test: as in iperf3 the same object, with a reason.
#[derive(Serialize)]
struct Failure<'a> {
    start: FailureStart,
    intervals: Vec<JsonInterval>,
    end: serde_json::Map<String, serde_json::Value>,
    error: &'a str,
}

#[derive(Serialize)]
struct FailureStart {
    version: String,
    system_info: String,
}

/// Returns the results of a test that broke off, with the reason, as JSON of iperf3's shape.
///
/// # Panics
/// Never: numbers and texts are valid JSON.
#[must_use]
pub fn failure_to_json(intervals: &[Interval], error: &str) -> String {
    let failure = Failure {
        start: FailureStart { version: version(), system_info: system_info() },
        intervals: intervals.iter().map(json_interval).collect(),
        end: serde_json::Map::new(),
        error,
    };
    serde_json::to_string(&failure).expect("numbers and texts become JSON")
}

fn version() -> String {
    format!("tallycast {}", env!("CARGO_PKG_VERSION"))
}

fn start(report: &Report) -> Start<'_> {
    let test = &report.test;
    let peer = || Some(Address { host: report.peer.ip().to_string(), port: report.peer.port() });
    let (duration, bytes, blocks) = match test.end {
        TestEnd::Time(time) => (time.as_secs(), 0, 0),
        TestEnd::Bytes(bytes) => (0, bytes, 0),
        TestEnd::Blocks(blocks) => (0, 0, blocks),
    };
    let target_bitrate = test.rate_bits_per_s.unwrap_or(0);
    let connected = report.streams.iter().map(|stream| Connected {
        socket: stream.socket,
        local_host: stream.local.ip().to_string(),
        local_port: stream.local.port(),
        remote_host: stream.remote.ip().to_string(),
        remote_port: stream.remote.port(),
    });
    let timesecs = report.began.as_nanos().div_euclid(1_000_000_000);
    Start {
        connected: connected.collect(),
        version: version(),
        system_info: system_info(),
        timestamp: Timestamp { time: in_words(timesecs), timesecs },
        connecting_to: peer().filter(|_| report.role == Role::Client),
        accepted_connection: peer().filter(|_| report.role == Role::Server),
        cookie: &report.cookie,
        tcp_mss_default: report.control_mss.filter(|_| test.protocol == Protocol::Tcp),
        target_bitrate,
        sock_bufsize: test.window_bytes.unwrap_or(0),
        sndbuf_actual: report.buffers.0,
        rcvbuf_actual: report.buffers.1,
        test_start: TestStart {
            protocol: match test.protocol {
                Protocol::Tcp => "TCP",
                Protocol::Udp => "UDP",
            },
            num_streams: test.parallel,
            blksize: test.block_bytes,
            omit: test.omit.as_secs(),
            duration,
            bytes,
            blocks,
            reverse: u8::from(test.direction == Direction::Reverse),
            bidir: u8::from(test.direction == Direction::Both),
            tos: test.type_of_service,
            target_bitrate,
        },
    }
}

fn system_info() -> String {
    let host = crate::Host::look();
    format!("{} {}", host.kernel, host.machine)
}

/// Formats a time as iperf3 does: `Sun, 22 Nov 2026 12:46:21 GMT`.
///
/// Source: RFC 9110 section 5.6.7, `IMF-fixdate`.
fn in_words(timesecs: i64) -> String {
    let utc = jiff::Timestamp::from_second(timesecs).expect("the clock is within the calendar");
    utc.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Returns the direction whose sums have plain names: the client's own, where there are two.
fn first_flow(report: &Report) -> Flow {
    report.flows().next().unwrap_or(Flow::ToServer)
}

fn json_interval(interval: &Interval) -> JsonInterval {
    let has = |flow: &Flow| interval.streams.iter().any(|stream| stream.flow == *flow);
    let flows = || [Flow::ToServer, Flow::ToClient].into_iter().filter(has);
    let line =
        |stream: &StreamInterval| interval_line(interval, std::slice::from_ref(&stream), Some(stream.socket));
    let sum = |flow: Flow| {
        let streams: Vec<&StreamInterval> =
            interval.streams.iter().filter(|stream| stream.flow == flow).collect();
        interval_line(interval, &streams, None)
    };
    JsonInterval {
        streams: interval.streams.iter().map(line).collect(),
        sum: sum(flows().next().unwrap_or(Flow::ToServer)),
        sum_bidir_reverse: flows().nth(1).map(sum),
    }
}

/// Returns the line of one stream, or of several together.
fn interval_line(interval: &Interval, streams: &[&StreamInterval], socket: Option<i32>) -> Line {
    let Some(first) = streams.first() else { return Line::default() };
    let side = Side {
        bytes: streams.iter().map(|stream| stream.bytes).sum(),
        packets: streams.iter().map(|stream| stream.packets).sum(),
        seconds: interval.end_s - interval.start_s,
    };
    let (is_udp, sends) = (interval.protocol == Protocol::Udp, first.sends);
    let missing: i64 = streams.iter().map(|stream| stream.missing).sum();
    let jitter_s = streams.iter().map(|stream| stream.jitter_s).sum::<f64>() / streams.len() as f64;
    let one = first.tcp.filter(|_| socket.is_some());
    let counts_losses = is_udp && !sends;
    Line {
        socket,
        start: interval.start_s,
        end: interval.end_s,
        omitted: Some(interval.is_omitted),
        retransmits: (!is_udp && sends).then(|| streams.iter().map(|stream| stream.retransmits).sum()),
        snd_cwnd: one.map(|tcp| u64::from(tcp.congestion_window_segments) * u64::from(tcp.send_mss_bytes)),
        rtt: one.map(|tcp| tcp.rtt_us),
        rttvar: one.map(|tcp| tcp.rtt_variance_us),
        pmtu: one.map(|tcp| tcp.path_mtu_bytes),
        jitter_ms: counts_losses.then_some(jitter_s * 1e3),
        lost_packets: counts_losses.then_some(missing),
        packets: is_udp.then_some(side.packets),
        lost_percent: counts_losses.then(|| percent(missing as f64, side.packets)),
        out_of_order: counts_losses.then(|| streams.iter().map(|stream| stream.out_of_order).sum()),
        ..plain_line(&side, sends)
    }
}

/// Returns a line with amount and rate.
fn plain_line(side: &Side, sends: bool) -> Line {
    Line {
        end: side.seconds,
        seconds: side.seconds,
        bytes: side.bytes,
        bits_per_second: side.rate(),
        sender: sends,
        ..Line::default()
    }
}

fn end(report: &Report) -> End<'_> {
    let is_tcp = report.test.protocol == Protocol::Tcp;
    let own = report.congestion.as_deref().filter(|_| is_tcp);
    let peers = report.peer_congestion.as_deref().filter(|_| is_tcp);
    let sends = report.sum(first_flow(report)).sends;
    let (sender, receiver) = if sends { (own, peers) } else { (peers, own) };
    End {
        streams: report.streams.iter().map(|stream| end_stream(report, stream)).collect(),
        sums: sums(report),
        cpu_utilization_percent: Processor {
            host_total: report.cpu.total,
            host_user: report.cpu.user,
            host_system: report.cpu.system,
            remote_total: report.peer_cpu.total,
            remote_user: report.peer_cpu.user,
            remote_system: report.peer_cpu.system,
        },
        sender_tcp_congestion: sender,
        receiver_tcp_congestion: receiver,
    }
}

fn sums(report: &Report) -> Sums {
    let first = report.sum(first_flow(report));
    let second = report.flows().nth(1).map(|flow| report.sum(flow));
    let is_udp = report.test.protocol == Protocol::Udp;
    Sums {
        sum: is_udp.then(|| sum_udp(&first)),
        sum_sent: sum_sent(is_udp, &first),
        sum_received: sum_received(is_udp, &first),
        sum_bidir_reverse: second.as_ref().filter(|_| is_udp).map(sum_udp),
        sum_sent_bidir_reverse: second.as_ref().map(|sum| sum_sent(is_udp, sum)),
        sum_received_bidir_reverse: second.as_ref().map(|sum| sum_received(is_udp, sum)),
    }
}

fn sum_sent(is_udp: bool, sum: &Sum) -> Line {
    let plain = plain_line(&sum.sent, sum.sends);
    if is_udp {
        Line { sender: true, ..with_losses(plain, 0.0, 0, sum.sent.packets) }
    } else {
        Line { retransmits: sum.retransmits, ..plain }
    }
}

fn sum_received(is_udp: bool, sum: &Sum) -> Line {
    let plain = plain_line(&sum.received, sum.sends);
    if is_udp {
        Line { sender: false, ..with_losses(plain, sum.jitter_s, sum.lost, sum.sent.packets) }
    } else {
        plain
    }
}

fn sum_udp(sum: &Sum) -> Line {
    with_losses(plain_line(&sum.sent, sum.sends), sum.jitter_s, sum.lost, sum.sent.packets)
}

fn with_losses(line: Line, jitter_s: f64, lost: u64, packets: u64) -> Line {
    Line {
        jitter_ms: Some(jitter_s * 1e3),
        lost_packets: Some(i64::try_from(lost).unwrap_or(i64::MAX)),
        packets: Some(packets),
        lost_percent: Some(percent(lost as f64, packets)),
        ..line
    }
}

fn end_stream<'a>(report: &Report, stream: &'a StreamReport) -> EndStream<'a> {
    let sent = Line { socket: Some(stream.socket), ..plain_line(&stream.sender, stream.sends) };
    let account = json_account(report.test.protocol, stream);
    match report.test.protocol {
        Protocol::Tcp => {
            let known = |value: u32| Some(value).filter(|_| stream.sends);
            let sender = Line {
                retransmits: stream.retransmits,
                max_snd_cwnd: Some(stream.connection.most_window_bytes).filter(|_| stream.sends),
                max_rtt: known(stream.connection.most_rtt_us),
                min_rtt: known(stream.connection.least_rtt_us),
                mean_rtt: known(stream.connection.mean_rtt_us),
                ..sent
            };
            let receiver = Line { socket: Some(stream.socket), ..plain_line(&stream.receiver, stream.sends) };
            EndStream { sender: Some(sender), receiver: Some(receiver), udp: None, account }
        }
        Protocol::Udp => {
            let lost = stream.account.missing + stream.account.after_last;
            let line = with_losses(sent, stream.jitter_s, lost, stream.account.sent);
            let udp = Line { out_of_order: Some(stream.out_of_order), ..line };
            EndStream { sender: None, receiver: None, udp: Some(udp), account }
        }
    }
}

fn json_account(protocol: Protocol, stream: &StreamReport) -> JsonAccount<'_> {
    let account = &stream.account;
    let (state, reason) = match &account.verdict {
        Verdict::Closed => ("closed", None),
        Verdict::Unknown(reason) => ("unknown", Some(*reason)),
        Verdict::Unbalanced(how) => ("unbalanced", Some(how.as_str())),
    };
    JsonAccount {
        unit: match protocol {
            Protocol::Tcp => "bytes",
            Protocol::Udp => "datagrams",
        },
        sent: account.sent,
        received: account.received,
        missing: account.missing,
        after_last: account.after_last,
        dropped_by_receiver_socket_buffer: account.dropped_by_socket,
        duplicates: stream.duplicates,
        state,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_broke_off_tells_its_intervals_and_why() {
        let stream = StreamInterval {
            id: 1,
            socket: 5,
            flow: Flow::ToClient,
            sends: false,
            bytes: 1_000,
            packets: 10,
            missing: 0,
            out_of_order: 0,
            jitter_s: 0.0,
            retransmits: 0,
            tcp: None,
        };
        let (protocol, streams) = (Protocol::Udp, vec![stream]);
        let interval = Interval { start_s: 0.0, end_s: 1.0, is_omitted: false, protocol, streams };
        let json = failure_to_json(&[interval], "the peer left\nlook at what it says");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["intervals"][0]["sum"]["bytes"], 1_000);
        assert_eq!(value["error"], "the peer left\nlook at what it says");
        assert!(value["start"].is_object() && value["end"].is_object());
    }

    #[test]
    fn moments_are_written_as_iperf3_does() {
        assert_eq!(in_words(1_795_351_581), "Sun, 22 Nov 2026 12:46:21 GMT");
        assert_eq!(in_words(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(in_words(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(in_words(-1), "Wed, 31 Dec 1969 23:59:59 GMT");
    }
}
