//! The data of a test, on either side: its streams, their intervals, and what they come to at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sys::{TcpInfo, clock};
use units::Instant;

use super::cpu::{Cpu, CpuPercent};
use super::goal::Goal;
use super::parameters::{End, Flow, Place, Protocol, Test};
use super::results::{Results, StreamResults};
use super::stream::{AfterEnd, Counts, Socket, Stream, client_sends};

/// How long receivers wait at most for what is still on the way once the sender has stopped.
const MOST_DRAIN: Duration = Duration::from_secs(5);
/// How long a client waits at most, once it has stopped, until the server's kernel has acknowledged everything.
const MOST_FLUSH: Duration = Duration::from_secs(2);
/// How long after that a server's program has to take it out of its kernel's buffer before it is told that the test is
/// over: iperf3 does not look at its streams any more then.
const READER_GRACE: Duration = Duration::from_millis(50);
/// How long a client may take for its results before it is sent another block.
const BETWEEN_NUDGES: Duration = Duration::from_millis(200);
/// The pause between two looks while waiting for either.
const LOOK: Duration = Duration::from_millis(1);

/// Which side of a test this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Asks for the test.
    Client,
    /// Serves it.
    Server,
}

/// What a stream did in an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamInterval {
    /// Its number.
    pub id: u32,
    /// Its descriptor on this side.
    pub socket: i32,
    /// Which way it flows.
    pub flow: Flow,
    /// Whether this side sends.
    pub sends: bool,
    /// Bytes sent or received.
    pub bytes: u64,
    /// Datagrams sent; of a receiver those that came or are missing.
    pub packets: u64,
    /// Datagrams that became missing, less those that came late after all.
    pub missing: i64,
    /// Datagrams that came out of order.
    pub out_of_order: u64,
    /// Smoothed difference of transit times. Units: seconds.
    pub jitter_s: f64,
    /// Segments that the kernel sent again; of a sender over TCP.
    pub retransmits: u64,
    /// The connection at the end of the interval; of a sender over TCP.
    pub tcp: Option<TcpInfo>,
}

/// What all streams did from one moment to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// Since the test, or its omitted part, began. Units: seconds.
    pub start_s: f64,
    /// Units: seconds.
    pub end_s: f64,
    /// Whether it is left out of the figures.
    pub is_omitted: bool,
    /// What is sent over.
    pub protocol: Protocol,
    /// The streams.
    pub streams: Vec<StreamInterval>,
}

/// What a stream came to on this side.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    /// The highest number sent or seen, counted from the very beginning.
    pub(super) highest_of_all: u64,
    pub(super) seconds: f64,
    pub(super) retransmits: Option<u64>,
    pub(super) dropped_by_socket: Option<u64>,
    pub(super) most_window_bytes: u64,
    pub(super) least_rtt_us: u32,
    pub(super) most_rtt_us: u32,
    pub(super) mean_rtt_us: u32,
}

/// What is known of a stream at some moment.
#[derive(Clone, Copy, Default)]
struct Look {
    counts: Counts,
    tcp: Option<TcpInfo>,
    drops: Option<u64>,
}

/// What the round trips and windows of a sender were like.
#[derive(Clone, Copy, Default)]
struct Connection {
    looks: u64,
    rtt_sum_us: u64,
    least_rtt_us: u32,
    most_rtt_us: u32,
    most_window_bytes: u64,
}

/// The streams of a test and what they did.
pub(super) struct Traffic {
    pub(super) test: Test,
    pub(super) role: Role,
    pub(super) streams: Vec<Stream>,
    pub(super) intervals: Vec<Interval>,
    pub(super) goal: Arc<Goal>,
    every: Duration,
    /// When data began to flow, or the omitted part ended.
    began: Instant,
    omits: bool,
    ended: Option<Instant>,
    nudged: Option<Instant>,
    cpu: Cpu,
    /// Where the figures begin: zero, or what was counted when the omitted part ended.
    base: Vec<Look>,
    /// What was known at the last interval.
    last: Vec<Look>,
    last_at: Instant,
    connections: Vec<Connection>,
    /// The most that was known to have come through.
    arrived_bytes: u64,
}

impl Traffic {
    /// Takes sockets that are connected, in the order of [`Test::places`].
    pub(super) fn new(test: Test, role: Role, sockets: Vec<Socket>, every: Duration) -> io::Result<Self> {
        let end_bytes = if role == Role::Client { test.end_bytes() } else { None };
        let goal = Arc::new(Goal::new(end_bytes, test.block_bytes)?);
        let streams = test.places().into_iter().zip(sockets);
        let streams = streams
            .map(|(place, socket)| Stream::new(place, client_sends(place) == (role == Role::Client), socket))
            .collect::<io::Result<Vec<_>>>()?;
        let now = clock::monotonic();
        let nothing = vec![Look::default(); streams.len()];
        Ok(Self {
            omits: !test.omit.is_zero(),
            connections: vec![Connection::default(); streams.len()],
            test,
            role,
            streams,
            intervals: Vec::new(),
            goal,
            every,
            began: now,
            ended: None,
            nudged: None,
            cpu: Cpu::look(),
            base: nothing.clone(),
            last: nothing,
            last_at: now,
            arrived_bytes: 0,
        })
    }

    /// Says so where the kernel gave smaller buffers than were asked for.
    pub(super) fn clamped(&self) -> Option<String> {
        let asked = self.test.window_bytes? as u64;
        let (send, receive) = self.streams.first()?.buffers();
        // Linux doubles what is asked for, to have room for its own overhead.
        let given = send.min(receive) / 2;
        (given < asked).then(|| {
            format!("the kernel gives buffers of {given} bytes, not of {asked}\nraise its limits: sudo sysctl net.core.rmem_max={asked} net.core.wmem_max={asked}")
        })
    }

    /// Lets data flow.
    pub(super) fn start(&mut self) -> Result<(), (u32, io::Error)> {
        let now = clock::monotonic();
        (self.began, self.last_at, self.cpu) = (now, now, Cpu::look());
        let after_end = match self.role {
            Role::Client => AfterEnd::Leave,
            Role::Server => AfterEnd::SendWhenNudged,
        };
        for stream in &mut self.streams {
            stream.start(&self.test, &self.goal, now, after_end).map_err(|error| (stream.place.id, error))?;
        }
        Ok(())
    }

    /// Returns the next moment at which there is something to do: an interval, the end of omission, or of the test.
    pub(super) fn next_look(&self) -> Instant {
        let next = self.last_at + self.every;
        let omission = self.omits.then(|| self.began + self.test.omit);
        let end = self.end_by_time();
        [omission, end].into_iter().flatten().fold(next, Instant::min)
    }

    fn end_by_time(&self) -> Option<Instant> {
        match self.test.end {
            End::Time(time) if !self.omits && !time.is_zero() && self.role == Role::Client => {
                Some(self.began + time)
            }
            End::Time(_) | End::Bytes(_) | End::Blocks(_) => None,
        }
    }

    /// Closes an interval where one is over.
    pub(super) fn look(&mut self, now: Instant) -> Option<Interval> {
        let omission_over = self.omits && now >= self.began + self.test.omit;
        if now < self.last_at + self.every && !omission_over {
            return None;
        }
        let interval = self.close_interval(now);
        if omission_over {
            self.base.clone_from(&self.last);
            self.connections.fill(Connection::default());
            (self.omits, self.began, self.cpu) = (false, now, Cpu::look());
        }
        Some(interval)
    }

    fn close_interval(&mut self, now: Instant) -> Interval {
        let looks: Vec<Look> = self.streams.iter().map(look_at).collect();
        let streams = self.streams.iter().zip(self.last.iter().zip(&looks));
        let interval = Interval {
            start_s: self.last_at.since(self.began).as_secs_f64(),
            end_s: now.since(self.began).as_secs_f64(),
            is_omitted: self.omits,
            protocol: self.test.protocol,
            streams: streams.map(|(stream, (before, after))| difference(stream, before, after)).collect(),
        };
        for (connection, look) in self.connections.iter_mut().zip(&looks) {
            look.tcp.iter().for_each(|tcp| connection.add(tcp));
        }
        (self.last, self.last_at) = (looks, now);
        self.intervals.push(interval.clone());
        interval
    }

    /// Tells whether more data came through since the last time this was asked: what was only sent may go nowhere. Where
    /// nothing but datagrams is sent nobody knows; there the kernel asks over the control connection whether the other
    /// end is still there (`sockets::watch_control`).
    pub(super) fn has_moved(&mut self) -> bool {
        let known: Vec<u64> = self.streams.iter().filter_map(Stream::arrived_bytes).collect();
        let bytes: u64 = known.iter().sum();
        let has_more = bytes > self.arrived_bytes;
        self.arrived_bytes = self.arrived_bytes.max(bytes);
        known.is_empty() || has_more
    }

    /// Tells whether a client's test has come to its end.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        if self.end_by_time().is_some_and(|end| now >= end) || self.goal.is_received() {
            return true;
        }
        let mut senders = self.streams.iter().filter(|stream| stream.sends).peekable();
        self.test.end_bytes().is_some() && senders.peek().is_some() && senders.all(Stream::is_finished)
    }

    /// Returns a stream that failed, with the reason.
    pub(super) fn take_failure(&self) -> Option<(u32, io::Error)> {
        self.streams.iter().find_map(|stream| stream.take_failure().map(|error| (stream.place.id, error)))
    }

    /// Ends sending, with the blocks that were begun; the time of the senders ends now.
    pub(super) fn halt(&mut self) {
        self.ended.get_or_insert_with(clock::monotonic);
        self.streams.iter().filter(|stream| stream.sends).for_each(Stream::finish_block);
    }

    /// Sends one block more in each stream where the client still does not tell its results.
    ///
    /// Source: observed with iperf 3.12 under load: once its test is over a client may read again from a stream that it has
    /// emptied, and hears nothing before that read ends
    /// (`a_client_that_reads_once_more_than_there_is_gets_another_block`).
    pub(super) fn nudge(&mut self, now: Instant) {
        if self.nudged.or(self.ended).is_some_and(|last| now.since(last) >= BETWEEN_NUDGES) {
            self.nudged = Some(now);
            self.streams.iter().filter(|stream| stream.sends).for_each(Stream::nudge);
        }
    }

    /// Waits until what a client sent has reached the server's program, as far as can be known from here.
    pub(super) fn flush(&self) {
        let sends = || self.streams.iter().filter(|stream| stream.sends);
        let limit = clock::monotonic() + MOST_FLUSH;
        let is_acknowledged = |stream: &Stream| stream.tcp().is_none_or(|tcp| tcp.is_acknowledged());
        let on_the_way = || sends().any(|stream| !stream.is_finished() || !is_acknowledged(stream));
        while on_the_way() && clock::monotonic() < limit {
            clock::sleep_until(clock::monotonic() + LOOK);
        }
        if sends().next().is_some() {
            clock::sleep_until(clock::monotonic() + READER_GRACE);
        }
    }

    /// Receives what is still on the way, of which the peer may have said how much it is, and closes the last interval.
    pub(super) fn drain(&mut self, told: Option<&Results>) {
        self.halt();
        // The peer has said its results, or asked for ours: it does not wait for the rest of a block any more.
        self.streams.iter().filter(|stream| stream.sends).for_each(Stream::tell_to_stop);
        for stream in self.streams.iter().filter(|stream| !stream.sends) {
            stream.finish(told.and_then(|told| self.expected(told, stream.place)));
        }
        let limit = clock::monotonic() + MOST_DRAIN;
        while !self.streams.iter().all(Stream::is_finished) && clock::monotonic() < limit {
            clock::sleep_until(clock::monotonic() + LOOK);
        }
        self.stop();
        let arrivals = self.streams.iter().filter_map(|stream| stream.counts().last_arrival);
        let end = arrivals.chain(self.ended).max().unwrap_or_else(clock::monotonic);
        self.close_interval(end);
    }

    /// Ends every thread: all are told before the first is waited for.
    fn stop(&mut self) {
        self.streams.iter().for_each(Stream::tell_to_stop);
        self.streams.iter_mut().for_each(Stream::stop);
    }

    /// Returns what a sender says it sent; nothing where it left out a part of which we do not know the end.
    fn expected(&self, told: &Results, place: Place) -> Option<u64> {
        let stream = told.stream(place.id).filter(|_| self.test.omit.is_zero())?;
        Some(match self.test.protocol {
            Protocol::Tcp => stream.bytes,
            Protocol::Udp => stream.packets,
        })
    }

    pub(super) fn cpu(&self) -> CpuPercent {
        self.cpu.since()
    }

    /// Returns what each stream came to, in the order of the streams.
    pub(super) fn totals(&self) -> Vec<Totals> {
        let ended = self.ended.unwrap_or(self.last_at);
        let streams = self.streams.iter().zip(&self.connections).zip(self.base.iter().zip(&self.last));
        streams
            .map(|((stream, connection), (base, last))| {
                let until = if stream.sends { ended } else { self.last_at };
                Totals {
                    counts: last.counts.since(&base.counts),
                    highest_of_all: last.counts.highest,
                    seconds: until.since(self.began).as_secs_f64(),
                    retransmits: last.tcp.map(|tcp| u64::from(retransmits(base.tcp.as_ref(), &tcp))),
                    dropped_by_socket: last.drops.map(|drops| drops.saturating_sub(base.drops.unwrap_or(0))),
                    most_window_bytes: connection.most_window_bytes,
                    least_rtt_us: connection.least_rtt_us,
                    most_rtt_us: connection.most_rtt_us,
                    mean_rtt_us: u32::try_from(connection.rtt_sum_us / connection.looks.max(1)).unwrap_or(0),
                }
            })
            .collect()
    }

    /// Returns what this side tells the other; datagrams that a sender says it sent after the last that came are told as
    /// missing too, so that its report closes.
    pub(super) fn results(&self, told: Option<&Results>) -> Results {
        let cpu = self.cpu();
        let sends = self.streams.iter().any(|stream| stream.sends);
        let sends_tcp = sends && self.test.protocol == Protocol::Tcp;
        let streams = self.streams.iter().zip(self.totals());
        Results {
            cpu_util_total: cpu.total,
            cpu_util_user: cpu.user,
            cpu_util_system: cpu.system,
            sender_has_retransmits: sends.then_some(u64::from(sends_tcp)),
            congestion_used: self.streams.first().and_then(Stream::congestion),
            server_output_text: None,
            streams: streams
                .map(|(stream, totals)| {
                    let expected = told.and_then(|told| self.expected(told, stream.place));
                    stream_results(&self.test, stream, &totals, expected)
                })
                .collect(),
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns what is told of a stream. `expected` is what its sender says it sent, where that can be compared.
fn stream_results(test: &Test, stream: &Stream, totals: &Totals, expected: Option<u64>) -> StreamResults {
    let counts = &totals.counts;
    let (mut packets, mut errors) = (totals.highest_of_all, counts.missing);
    if test.protocol == Protocol::Udp
        && let Some(sent) = expected.filter(|_| !stream.sends)
    {
        errors += sent.saturating_sub(packets);
        packets = packets.max(sent);
    }
    StreamResults {
        id: u64::from(stream.place.id),
        bytes: counts.bytes,
        retransmits: totals.retransmits.filter(|_| stream.sends),
        jitter: counts.jitter_s,
        errors,
        // iperf3 takes off what it left out itself.
        packets,
        start_time: 0.0,
        end_time: totals.seconds,
    }
}

fn look_at(stream: &Stream) -> Look {
    let tcp = stream.sends.then(|| stream.tcp()).flatten();
    Look { counts: stream.counts(), tcp, drops: stream.dropped_by_socket() }
}

fn retransmits(before: Option<&TcpInfo>, after: &TcpInfo) -> u32 {
    after.retransmitted_segments.wrapping_sub(before.map_or(0, |tcp| tcp.retransmitted_segments))
}

fn difference(stream: &Stream, before: &Look, after: &Look) -> StreamInterval {
    let counts = after.counts.since(&before.counts);
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    StreamInterval {
        id: stream.place.id,
        socket: stream.descriptor(),
        flow: stream.place.flow,
        sends: stream.sends,
        bytes: counts.bytes,
        packets: if stream.sends { counts.packets } else { counts.highest },
        missing: signed(after.counts.missing) - signed(before.counts.missing),
        out_of_order: counts.out_of_order,
        jitter_s: counts.jitter_s,
        retransmits: after.tcp.map_or(0, |tcp| u64::from(retransmits(before.tcp.as_ref(), &tcp))),
        tcp: after.tcp,
    }
}

impl Counts {
    /// Returns what was counted since an earlier look. What was missing then and came later makes none of it negative.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes - earlier.bytes,
            packets: self.packets - earlier.packets,
            highest: self.highest - earlier.highest,
            missing: self.missing.saturating_sub(earlier.missing),
            out_of_order: self.out_of_order - earlier.out_of_order,
            duplicates: self.duplicates - earlier.duplicates,
            foreign: self.foreign - earlier.foreign,
            jitter_s: self.jitter_s,
            last_arrival: self.last_arrival,
        }
    }
}

impl Connection {
    fn add(&mut self, tcp: &TcpInfo) {
        let least = if self.looks == 0 { tcp.rtt_us } else { self.least_rtt_us.min(tcp.rtt_us) };
        let window = u64::from(tcp.congestion_window_segments) * u64::from(tcp.send_mss_bytes);
        self.looks += 1;
        self.rtt_sum_us += u64::from(tcp.rtt_us);
        self.least_rtt_us = least;
        self.most_rtt_us = self.most_rtt_us.max(tcp.rtt_us);
        self.most_window_bytes = self.most_window_bytes.max(window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::parameters::Direction;
    use crate::iperf3::parameters::tests::plain;
    use std::net::UdpSocket;

    /// Two sockets that are connected with each other.
    fn pair() -> (UdpSocket, UdpSocket) {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        (one, other)
    }

    #[test]
    fn what_is_only_sent_is_no_progress_and_what_comes_is() {
        let test = Test {
            protocol: Protocol::Udp,
            direction: Direction::Both,
            block_bytes: 100,
            rate_bits_per_s: Some(1_000_000),
            ..plain()
        };
        let ((receiving, from), (sending, _to)) = (pair(), pair());
        let sockets = vec![Socket::Udp(receiving), Socket::Udp(sending)];
        let mut traffic = Traffic::new(test, Role::Server, sockets, Duration::from_secs(1)).unwrap();
        traffic.start().unwrap();
        while traffic.streams[1].counts().packets < 3 {
            std::thread::yield_now();
        }
        assert!(!traffic.has_moved());
        let mut datagram = [0; 100];
        super::super::datagram::Header { sent: Duration::ZERO, number: 1 }.write(false, &mut datagram);
        from.send(&datagram).unwrap();
        while traffic.streams[0].counts().packets < 1 {
            std::thread::yield_now();
        }
        assert!(traffic.has_moved());
        assert!(!traffic.has_moved());
        // The account of the stream that came: what was sent was received.
        let counts = traffic.streams[0].counts();
        assert_eq!((counts.packets, counts.highest, counts.missing), (1, 1, 0));
    }
}
