//! Report of a test: the object that `-J` prints, with iperf3's names, so that programs that read iperf3's output
//! read ours; as text, lines with the counts of both sides.
//!
//! Beyond iperf3: each of `end.streams` has an `account`, and a server reports its client's counts where
//! iperf3's own server writes 0. `lost_packets` includes those sent after the last that arrived, which iperf3
//! leaves out.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;
use serde_with::skip_serializing_none;
use units::WallTime;

use super::account::Account;
use super::conversation::COOKIE_BYTES;
use super::cpu::CpuPercent;
use super::figures::{Figures, Interval};
use super::parameters::{Direction, Flow, Protocol, Test};
use super::results::{Results, StreamResults};
use super::session::{Session, Side};
use super::stream::Stream;
use super::traffic::{Role, Totals, Traffic};
use crate::control::program_version;
use crate::report::Endpoint;

/// Results of a test.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    start: Start,
    intervals: Vec<Interval>,
    end: End,
    title: Option<String>,
    extra_data: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Start {
    connected: Vec<Connected>,
    #[serde(flatten)]
    program: Program,
    timestamp: Timestamp,
    connecting_to: Option<Endpoint>,
    accepted_connection: Option<Endpoint>,
    cookie: String,
    tcp_mss_default: Option<u32>,
    target_bitrate: u64,
    sock_bufsize: usize,
    /// Buffers that the kernel gave the first stream.
    sndbuf_actual: u64,
    rcvbuf_actual: u64,
    test_start: TestStart,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct Connected {
    socket: i32,
    local_host: String,
    local_port: u16,
    remote_host: String,
    remote_port: u16,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct Program {
    version: String,
    system_info: String,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct Timestamp {
    time: String,
    timesecs: i64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct TestStart {
    protocol: Protocol,
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

#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize)]
struct End {
    streams: Vec<StreamEnd>,
    #[serde(flatten)]
    sums: Sums,
    cpu_utilization_percent: Processor,
    sender_tcp_congestion: Option<String>,
    receiver_tcp_congestion: Option<String>,
}

/// A stream, seen from both sides.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize)]
struct StreamEnd {
    /// Figures of both sides, whatever the protocol.
    #[serde(skip)]
    sent: Figures,
    #[serde(skip)]
    received: Figures,
    sender: Option<Figures>,
    receiver: Option<Figures>,
    udp: Option<Figures>,
    account: Account,
}

/// Sums over the streams of a direction: the client's own has the plain names, where there are two.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Sums {
    sum: Option<Figures>,
    sum_sent: Figures,
    sum_received: Figures,
    sum_bidir_reverse: Option<Figures>,
    sum_sent_bidir_reverse: Option<Figures>,
    sum_received_bidir_reverse: Option<Figures>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct Processor {
    host_total: f64,
    host_user: f64,
    host_system: f64,
    remote_total: f64,
    remote_user: f64,
    remote_system: f64,
}

impl Report {
    /// Combines both sides.
    pub(super) fn new<S: Side>(session: &Session<S>, traffic: &mut Traffic, told: &Results) -> Self {
        let streams = traffic.streams.iter().zip(traffic.totals()).map(|(stream, totals)| {
            let peer = told.stream(stream.place.id).cloned().unwrap_or_default();
            StreamEnd::of(&traffic.test, stream.figures(), &totals, &peer)
        });
        Self {
            end: End::of(streams.collect(), traffic, told),
            start: Start::of(session, traffic),
            title: traffic.test.title.clone(),
            extra_data: traffic.test.extra_data.clone(),
            intervals: std::mem::take(&mut traffic.intervals),
        }
    }

    /// Returns the report as JSON of iperf3's shape.
    ///
    /// # Panics
    /// Never: numbers and texts are valid JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts become JSON")
    }

    /// Returns whether every account that can be checked closes.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.end.streams.iter().all(|stream| stream.account.is_in_order())
    }
}

impl Start {
    fn of<S: Side>(session: &Session<S>, traffic: &Traffic) -> Self {
        let test = &traffic.test;
        let peer = canonical(session.control.peer);
        let peer = |role: Role| {
            (S::ROLE == role).then(|| Endpoint { host: peer.ip().to_string(), port: peer.port() })
        };
        let buffers = traffic.streams.first().map(Stream::buffers).unwrap_or_default();
        Self {
            connected: traffic.streams.iter().map(Connected::of).collect(),
            program: Program::this(),
            timestamp: Timestamp::of(session.began),
            connecting_to: peer(Role::Client),
            accepted_connection: peer(Role::Server),
            cookie: String::from_utf8_lossy(&session.control.cookie[..COOKIE_BYTES - 1]).into_owned(),
            tcp_mss_default: session.control_mss.filter(|_| test.protocol == Protocol::Tcp),
            target_bitrate: test.rate_bits_per_s.unwrap_or(0),
            sock_bufsize: test.window_bytes.unwrap_or(0),
            sndbuf_actual: buffers.0,
            rcvbuf_actual: buffers.1,
            test_start: TestStart::of(test),
        }
    }
}

impl Connected {
    fn of(stream: &Stream) -> Self {
        let (local, remote) = (canonical(stream.local), canonical(stream.remote));
        Self {
            socket: stream.descriptor(),
            local_host: local.ip().to_string(),
            local_port: local.port(),
            remote_host: remote.ip().to_string(),
            remote_port: remote.port(),
        }
    }
}

impl Program {
    fn this() -> Self {
        let host = crate::Host::look();
        let version = format!("tallycast {}", program_version());
        Self { version, system_info: format!("{} {}", host.kernel, host.machine) }
    }
}

impl Timestamp {
    /// Formats a time as iperf3 does: `Sun, 22 Nov 2026 12:46:21 GMT`.
    ///
    /// Source: RFC 9110 section 5.6.7, `IMF-fixdate`.
    fn of(time: WallTime) -> Self {
        let timesecs = time.as_nanos().div_euclid(1_000_000_000);
        let utc = jiff::Timestamp::from_second(timesecs).expect("the clock is within the calendar");
        Self { time: utc.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(), timesecs }
    }
}

impl TestStart {
    fn of(test: &Test) -> Self {
        let (duration, bytes, blocks) = test.end.numbers();
        Self {
            protocol: test.protocol,
            num_streams: test.parallel,
            blksize: test.block_bytes,
            omit: test.omit.as_secs(),
            duration,
            bytes,
            blocks,
            reverse: u8::from(test.direction == Direction::Reverse),
            bidir: u8::from(test.direction == Direction::Both),
            tos: test.type_of_service,
            target_bitrate: test.rate_bits_per_s.unwrap_or(0),
        }
    }
}

impl End {
    fn of(streams: Vec<StreamEnd>, traffic: &Traffic, told: &Results) -> Self {
        let first = traffic.streams.first();
        let own = first.and_then(Stream::congestion);
        let peers = told.congestion_used.clone().filter(|_| traffic.test.protocol == Protocol::Tcp);
        let sends = first.is_some_and(|stream| stream.sends);
        let (sender_tcp_congestion, receiver_tcp_congestion) =
            if sends { (own, peers) } else { (peers, own) };
        let CpuPercent { total: host_total, user: host_user, system: host_system } = traffic.cpu();
        Self {
            sums: Sums::of(&streams),
            streams,
            cpu_utilization_percent: Processor {
                host_total,
                host_user,
                host_system,
                remote_total: told.cpu_util_total,
                remote_user: told.cpu_util_user,
                remote_system: told.cpu_util_system,
            },
            sender_tcp_congestion,
            receiver_tcp_congestion,
        }
    }
}

impl StreamEnd {
    /// Combines the totals of this side with the results of the other.
    fn of(test: &Test, stream: Figures, ours: &Totals, peer: &StreamResults) -> Self {
        let sends = stream.sender;
        let account = Account::of(test, sends, ours, peer);
        let own = stream.carrying(ours.counts.bytes, (0.0, ours.seconds));
        let other = stream.carrying(peer.bytes, (0.0, peer.end_time - peer.start_time));
        let (sent, received) = if sends { (own, other) } else { (other, own) };
        match test.protocol {
            Protocol::Tcp => {
                let retransmits = if sends { ours.retransmits } else { peer.retransmits };
                let sent = ours.connection.figures(Figures { retransmits, ..sent });
                Self { sent, received, sender: Some(sent), receiver: Some(received), udp: None, account }
            }
            Protocol::Udp => {
                let lost = i64::try_from(account.lost()).unwrap_or(i64::MAX);
                let jitter_ms = if sends { peer.jitter } else { ours.counts.jitter_s } * 1e3;
                let udp = sent.losing(lost, account.sent, jitter_ms);
                Self {
                    sent: Figures { sender: true, ..sent.losing(0, account.sent, 0.0) },
                    received: Figures { sender: false, ..received.losing(lost, account.sent, jitter_ms) },
                    sender: None,
                    receiver: None,
                    udp: Some(Figures { out_of_order: Some(ours.counts.out_of_order), ..udp }),
                    account,
                }
            }
        }
    }
}

impl Sums {
    fn of(streams: &[StreamEnd]) -> Self {
        let (sum_sent, sum_sent_bidir_reverse) = Figures::sums(streams.iter().map(|it| &it.sent));
        let (sum_received, sum_received_bidir_reverse) = Figures::sums(streams.iter().map(|it| &it.received));
        let (sum, sum_bidir_reverse) = Figures::sums(streams.iter().filter_map(|it| it.udp.as_ref()));
        let plain = |sum: Figures| Figures { out_of_order: None, ..sum };
        Self {
            sum: sum.packets.map(|_| plain(sum)),
            sum_sent,
            sum_received,
            sum_bidir_reverse: sum_bidir_reverse.map(plain),
            sum_sent_bidir_reverse,
            sum_received_bidir_reverse,
        }
    }
}

/// Output of an incomplete test: as in iperf3 the same object, with a reason.
#[derive(Serialize)]
struct Failure<'a> {
    start: Program,
    intervals: &'a [Interval],
    end: serde_json::Map<String, serde_json::Value>,
    error: &'a str,
}

/// Returns the results of a test that broke off, with the reason, as JSON of iperf3's shape.
///
/// # Panics
/// Never: numbers and texts are valid JSON.
#[must_use]
pub fn failure_to_json(intervals: &[Interval], error: &str) -> String {
    let failure = Failure { start: Program::this(), intervals, end: serde_json::Map::new(), error };
    serde_json::to_string(&failure).expect("numbers and texts become JSON")
}

/// Returns an IPv4 address that came through an IPv6 socket in its IPv4 form.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stream in &self.end.streams {
            write!(formatter, "{stream}")?;
        }
        if self.start.test_start.num_streams > 1 {
            self.write_sums(formatter)?;
        }
        let Processor { host_total, host_system, remote_total, .. } = self.end.cpu_utilization_percent;
        write!(
            formatter,
            "processor: {host_total:.1} % here ({host_system:.1} % in the kernel), {remote_total:.1} % there"
        )
    }
}

impl Report {
    fn write_sums(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sums = &self.end.sums;
        let both_ways = sums.sum_sent_bidir_reverse.zip(sums.sum_received_bidir_reverse);
        let unit = match self.start.test_start.protocol {
            Protocol::Tcp => "B unread at the end",
            Protocol::Udp => "datagrams lost",
        };
        for (sent, received) in std::iter::once((sums.sum_sent, sums.sum_received)).chain(both_ways) {
            let flow = sent.place.flow;
            let (sender, receiver) = ends(flow);
            let streams = self.end.streams.iter().filter(|stream| stream.sent.place.flow == flow);
            let lost: u64 = streams.map(|stream| stream.account.lost()).sum();
            let (sent, received) = (sent.rate(), received.rate());
            writeln!(formatter, "[SUM]                   {sent} sent by the {sender}")?;
            writeln!(
                formatter,
                "[SUM]                   {received} received by the {receiver}, {lost} {unit}"
            )?;
        }
        Ok(())
    }
}

/// A line for each side, and the account.
impl fmt::Display for StreamEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, received, account, .. } = self;
        let (sender, receiver) = ends(sent.place.flow);
        let again = sent.retransmits.map_or(String::new(), |segments| format!(", {segments} segments again"));
        let lost = match self.udp {
            None => format!("{} B unread at the end", account.after_last),
            Some(_) => received.loss(),
        };
        writeln!(formatter, "{sent} sent by the {sender}{again}")?;
        writeln!(formatter, "{received} received by the {receiver}, {lost}")?;
        writeln!(formatter, "[{:3}] {account}", sent.place.id)
    }
}

/// Returns the names of sender and receiver.
const fn ends(flow: Flow) -> (&'static str, &'static str) {
    match flow {
        Flow::ToServer => ("client", "server"),
        Flow::ToClient => ("server", "client"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::parameters::Place;
    use crate::iperf3::stream::Counts;
    use crate::iperf3::traffic::Connection;
    use proptest::prelude::*;

    fn line(id: u32, flow: Flow, sender: bool) -> Figures {
        Figures { place: Place { id, flow }, socket: Some(5), sender, ..Figures::default() }
    }

    /// Returns the report of a client's test in both directions, with the same counts for every stream.
    fn report(protocol: Protocol) -> Report {
        let test =
            Test { protocol, direction: Direction::Both, parallel: 2, block_bytes: 100, ..Test::default() };
        let counts =
            Counts { bytes: 800, packets: 8, highest: 10, missing: 2, out_of_order: 1, ..Counts::default() };
        let retransmits = (protocol == Protocol::Tcp).then_some(3);
        let connection =
            Connection { looks: 2, rtt_sum_us: 50, least_rtt_us: 20, most_rtt_us: 30, most_window_bytes: 7 };
        let ours = Totals { counts, seconds: 2.0, retransmits, connection, ..Totals::default() };
        let peer = StreamResults {
            bytes: 900,
            packets: 11,
            jitter: 0.001,
            end_time: 1.5,
            errors: 2,
            ..StreamResults::default()
        };
        let lines = [
            line(1, Flow::ToServer, true),
            line(3, Flow::ToServer, true),
            line(4, Flow::ToClient, false),
            line(5, Flow::ToClient, false),
        ];
        let streams: Vec<_> = lines.iter().map(|line| StreamEnd::of(&test, *line, &ours, &peer)).collect();
        let interval = lines.map(|line| {
            let line = Figures { omitted: Some(true), ..line.carrying(800, (1.0, 2.0)) };
            if protocol == Protocol::Udp { line.losing(-1, 8, 0.25) } else { line }
        });
        Report {
            start: Start {
                connected: Vec::new(),
                program: Program { version: "tallycast".to_owned(), system_info: "Linux".to_owned() },
                timestamp: Timestamp::of(WallTime::from_nanos(0)),
                connecting_to: Some(Endpoint { host: "192.0.2.1".to_owned(), port: 5_201 }),
                accepted_connection: None,
                cookie: "cookie".to_owned(),
                tcp_mss_default: None,
                target_bitrate: 0,
                sock_bufsize: 0,
                sndbuf_actual: 1,
                rcvbuf_actual: 2,
                test_start: TestStart::of(&test),
            },
            intervals: vec![Interval::of(interval.to_vec())],
            end: End {
                sums: Sums::of(&streams),
                streams,
                cpu_utilization_percent: Processor {
                    host_total: 3.0,
                    host_user: 1.0,
                    host_system: 2.0,
                    remote_total: 6.0,
                    remote_user: 4.0,
                    remote_system: 2.0,
                },
                sender_tcp_congestion: None,
                receiver_tcp_congestion: Some("cubic".to_owned()),
            },
            title: None,
            extra_data: Some("more".to_owned()),
        }
    }

    #[test]
    fn both_protocols_are_told_in_text_and_json() {
        for (name, protocol) in [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)] {
            let report = report(protocol);
            let json = serde_json::to_string_pretty(&report).unwrap();
            insta::assert_snapshot!(name, format!("{}\n{report}\n{json}", report.intervals[0]));
        }
    }

    #[test]
    fn a_test_that_broke_off_tells_its_intervals_and_why() {
        let streams = vec![line(1, Flow::ToClient, false).carrying(1_000, (0.0, 1.0))];
        let json = failure_to_json(&[Interval::of(streams)], "the peer left\nlook at what it says");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["intervals"][0]["sum"]["bytes"], 1_000);
        assert_eq!(value["error"], "the peer left\nlook at what it says");
        assert!(value["start"].is_object() && value["end"].is_object());
    }

    #[test]
    fn moments_are_written_as_iperf3_does() {
        for (seconds, words) in [
            (1_795_351_581, "Sun, 22 Nov 2026 12:46:21 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        ] {
            assert_eq!(Timestamp::of(WallTime::from_nanos(seconds * 1_000_000_000)).time, words);
        }
    }

    proptest! {
        #[test]
        fn no_rate_is_negative_whatever_a_peer_tells(end_time in any::<f64>(), sends in any::<bool>()) {
            let (ours, peer) = (Totals::default(), StreamResults { bytes: 9, end_time, ..StreamResults::default() });
            let end = StreamEnd::of(&Test::default(), line(1, Flow::ToServer, sends), &ours, &peer);
            prop_assert!(end.sent.bits_per_second >= 0.0 && end.received.bits_per_second >= 0.0);
        }
    }
}
