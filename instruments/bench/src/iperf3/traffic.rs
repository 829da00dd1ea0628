//! The data of a test, on either side: its streams, their intervals, and their totals at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;
use sys::{TcpInfo, clock};
use units::Instant;

use super::cpu::{Cpu, CpuPercent};
use super::figures::{Figures, Interval};
use super::goal::Goal;
use super::parameters::{End, Flow, Place, Protocol, Test};
use super::results::{Results, StreamResults};
use super::stream::{AfterEnd, Counts, Stream};

/// Maximum time receivers wait for data in flight once the sender has stopped.
const MOST_DRAIN: Duration = Duration::from_secs(5);
/// Maximum time a client waits, once it has stopped, until the server's kernel has acknowledged everything.
const MOST_FLUSH: Duration = Duration::from_secs(2);
/// Time after that in which a server's program can read its kernel's buffer before the end of the test is sent:
/// iperf3 does not read its streams any more then.
const READER_GRACE: Duration = Duration::from_millis(50);
/// Time a client may take for its results before it is sent another block.
const BETWEEN_NUDGES: Duration = Duration::from_millis(200);
/// Interval of checks while waiting for data in flight or for acknowledgements, which the kernel reports only on
/// request (`TCP_INFO`).
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Side of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// The side that requests the test.
    Client,
    /// The side that serves it.
    Server,
}

/// Totals of a stream on this side.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    /// The highest number sent or seen, counted from the very beginning.
    pub(super) highest_of_all: u64,
    pub(super) seconds: f64,
    pub(super) retransmits: Option<u64>,
    pub(super) dropped_by_socket: Option<u64>,
    pub(super) connection: Connection,
}

/// State of a stream at some moment.
#[derive(Clone, Copy, Default)]
struct Look {
    counts: Counts,
    tcp: Option<TcpInfo>,
    drops: Option<u64>,
}

/// Round trips and windows of a sender over TCP, as far as this side knows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Connection {
    pub(super) looks: u64,
    pub(super) rtt_sum_us: u64,
    pub(super) least_rtt_us: u32,
    pub(super) most_rtt_us: u32,
    pub(super) most_window_bytes: u64,
}

/// The streams of a test and their counts.
pub(super) struct Traffic {
    pub(super) test: Test,
    role: Role,
    pub(super) streams: Vec<Stream>,
    pub(super) intervals: Vec<Interval>,
    pub(super) goal: Arc<Goal>,
    every: Duration,
    /// Start of the data, or end of the omitted part.
    began: Instant,
    omits: bool,
    ended: Option<Instant>,
    nudged: Option<Instant>,
    cpu: Cpu,
    /// Base of the figures: zero, or the counts at the end of the omitted part.
    base: Vec<Look>,
    /// State at the end of the last interval.
    last: Vec<Look>,
    last_at: Instant,
    connections: Vec<Connection>,
    /// Maximum of the bytes known to have arrived.
    arrived_bytes: u64,
}

impl Traffic {
    /// Takes connected sockets, in the order of [`Test::places`].
    pub(super) fn new(test: Test, role: Role, sockets: Vec<Socket>, every: Duration) -> io::Result<Self> {
        let end_bytes = if role == Role::Client { test.end_bytes() } else { None };
        let goal = Arc::new(Goal::new(end_bytes, test.block_bytes)?);
        let sender = |flow: Flow| if flow == Flow::ToServer { Role::Client } else { Role::Server };
        let streams = test.places().into_iter().zip(sockets);
        let streams = streams
            .map(|(place, socket)| Stream::new(place, sender(place.flow) == role, test.protocol, socket))
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

    /// Returns a warning if the kernel gave smaller buffers than requested.
    pub(super) fn clamped(&self) -> Option<String> {
        let asked = self.test.window_bytes? as u64;
        let (send, receive) = self.streams.first()?.buffers();
        // Linux doubles the requested size, to have room for its own overhead.
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

    /// Returns the next time at which there is something to do: an interval, the end of omission, or of the
    /// test.
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

    /// Closes an interval that is over.
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
        let between = (self.last_at.since(self.began).as_secs_f64(), now.since(self.began).as_secs_f64());
        let figures = streams.map(|(stream, (before, after))| {
            let figures = difference(stream, before, after, between);
            Figures { omitted: Some(self.omits), ..figures }
        });
        let interval = Interval::of(figures.collect());
        for (connection, look) in self.connections.iter_mut().zip(&looks) {
            look.tcp.iter().for_each(|tcp| connection.add(tcp));
        }
        (self.last, self.last_at) = (looks, now);
        self.intervals.push(interval.clone());
        interval
    }

    /// Returns whether more data has arrived since the last call: data that was only sent may be lost. The
    /// arrival is unknown where only datagrams are sent; there the kernel probes the control connection
    /// (`sockets::watch_control`).
    pub(super) fn has_moved(&mut self) -> bool {
        let known: Vec<u64> = self.streams.iter().filter_map(Stream::arrived_bytes).collect();
        let bytes: u64 = known.iter().sum();
        let has_more = bytes > self.arrived_bytes;
        self.arrived_bytes = self.arrived_bytes.max(bytes);
        known.is_empty() || has_more
    }

    /// Returns whether a client's test has reached its end.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        if self.role == Role::Server {
            return false;
        }
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

    /// Ends sending, with the blocks that were begun; the senders' time ends now.
    pub(super) fn halt(&mut self) {
        self.ended.get_or_insert_with(clock::monotonic);
        self.streams.iter().filter(|stream| stream.sends).for_each(Stream::finish_block);
    }

    /// Sends one block more in each stream while the client does not send its results.
    ///
    /// Source: observed with iperf 3.12 under load: once its test is over a client may read again from a stream
    /// that it has emptied, and receives nothing else before that read ends
    /// (`a_client_that_reads_once_more_than_there_is_gets_another_block`).
    pub(super) fn nudge(&mut self, now: Instant) {
        if self.nudged.or(self.ended).is_some_and(|last| now.since(last) >= BETWEEN_NUDGES) {
            self.nudged = Some(now);
            self.streams.iter().filter(|stream| stream.sends).for_each(Stream::nudge);
        }
    }

    /// Waits until the sent data has reached the server's program, as far as can be known from here.
    pub(super) fn flush(&self) {
        let sends = || self.streams.iter().filter(|stream| stream.sends);
        let limit = clock::monotonic() + MOST_FLUSH;
        let is_acknowledged = |stream: &Stream| stream.tcp().is_none_or(|tcp| tcp.is_acknowledged());
        let on_the_way = || sends().any(|stream| !stream.is_finished() || !is_acknowledged(stream));
        while on_the_way() && clock::monotonic() < limit {
            clock::sleep_until(clock::monotonic() + POLL_INTERVAL);
        }
        if sends().next().is_some() {
            clock::sleep_until(clock::monotonic() + READER_GRACE);
        }
    }

    /// Receives the data in flight, given the peer's results if known, and closes the last interval.
    pub(super) fn drain(&mut self, told: Option<&Results>) {
        self.halt();
        // The peer has sent its results, or requested ours: it does not wait for the rest of a block any more.
        self.streams.iter().filter(|stream| stream.sends).for_each(Stream::tell_to_stop);
        for stream in self.streams.iter().filter(|stream| !stream.sends) {
            stream.finish(told.and_then(|told| self.expected(told, stream.place)));
        }
        let limit = clock::monotonic() + MOST_DRAIN;
        while !self.streams.iter().all(Stream::is_finished) && clock::monotonic() < limit {
            clock::sleep_until(clock::monotonic() + POLL_INTERVAL);
        }
        self.stop();
        let arrivals = self.streams.iter().filter_map(|stream| stream.counts().last_arrival);
        let end = arrivals.chain(self.ended).max().unwrap_or_else(clock::monotonic);
        self.close_interval(end);
    }

    /// Ends every thread: all are notified before the first is waited for.
    fn stop(&mut self) {
        self.streams.iter().for_each(Stream::tell_to_stop);
        self.streams.iter_mut().for_each(Stream::stop);
    }

    /// Returns the amount sent according to the sender; `None` if it omitted a part whose end is unknown here.
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

    /// Returns the totals of each stream, in the order of the streams.
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
                    connection: *connection,
                }
            })
            .collect()
    }

    /// Returns the results of this side for the other; datagrams that the sender reports to have sent after the
    /// last that arrived are counted as missing too, so that its report closes.
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

/// Returns the results of a stream. `expected` is the amount sent according to its sender, where that can be
/// compared.
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
        // iperf3 subtracts its omitted part itself.
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

/// Returns the figures of a stream between two looks at it.
fn difference(stream: &Stream, before: &Look, after: &Look, between: (f64, f64)) -> Figures {
    let counts = after.counts.since(&before.counts);
    let figures = stream.figures().carrying(counts.bytes, between);
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    match (stream.protocol, stream.sends) {
        (Protocol::Tcp, true) => {
            let again = after.tcp.map_or(0, |tcp| retransmits(before.tcp.as_ref(), &tcp));
            Figures {
                retransmits: Some(again.into()),
                snd_cwnd: after.tcp.map(|tcp| tcp.congestion_window_bytes()),
                rtt: after.tcp.map(|tcp| tcp.rtt_us),
                rttvar: after.tcp.map(|tcp| tcp.rtt_variance_us),
                pmtu: after.tcp.map(|tcp| tcp.path_mtu_bytes),
                ..figures
            }
        }
        (Protocol::Tcp, false) => figures,
        (Protocol::Udp, true) => Figures { packets: Some(counts.packets), ..figures },
        (Protocol::Udp, false) => {
            let lost = signed(after.counts.missing) - signed(before.counts.missing);
            let figures = figures.losing(lost, counts.highest, counts.jitter_s * 1e3);
            Figures { out_of_order: Some(counts.out_of_order), ..figures }
        }
    }
}

impl Counts {
    /// Returns the counts since an earlier state. Datagrams that were missing then and arrived later make none
    /// of it negative.
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
        self.looks += 1;
        self.rtt_sum_us += u64::from(tcp.rtt_us);
        self.least_rtt_us = least;
        self.most_rtt_us = self.most_rtt_us.max(tcp.rtt_us);
        self.most_window_bytes = self.most_window_bytes.max(tcp.congestion_window_bytes());
    }

    /// Adds round trips and window to the figures of a sender; of a receiver there are none.
    pub(super) fn figures(&self, figures: Figures) -> Figures {
        let known = |value: u32| Some(value).filter(|_| figures.sender);
        Figures {
            max_snd_cwnd: Some(self.most_window_bytes).filter(|_| figures.sender),
            max_rtt: known(self.most_rtt_us),
            min_rtt: known(self.least_rtt_us),
            mean_rtt: known(u32::try_from(self.rtt_sum_us / self.looks.max(1)).unwrap_or(0)),
            ..figures
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::parameters::Direction;
    use std::net::UdpSocket;

    /// Two sockets that are connected to each other.
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
            ..Test::default()
        };
        let ((receiving, from), (sending, _to)) = (pair(), pair());
        let sockets = vec![receiving.into(), sending.into()];
        let mut traffic = Traffic::new(test, Role::Server, sockets, Duration::from_secs(1)).unwrap();
        traffic.start().unwrap();
        while traffic.streams[1].counts().packets < 3 {
            std::thread::yield_now();
        }
        assert!(!traffic.has_moved());
        let mut datagram = [0; 100];
        super::super::datagram::Header { sent: Instant::ORIGIN, number: 1 }.write(false, &mut datagram);
        from.send(&datagram).unwrap();
        while traffic.streams[0].counts().packets < 1 {
            std::thread::yield_now();
        }
        assert!(traffic.has_moved());
        assert!(!traffic.has_moved());
        // The account of the received stream: as much was received as sent.
        let counts = traffic.streams[0].counts();
        assert_eq!((counts.packets, counts.highest, counts.missing), (1, 1, 0));
    }
}
