//! The limit: the same datagrams through bare sockets, without this project's code in between.
//!
//! One process sends, one or more read, each on a processor of its own. Every datagram carries its number, and
//! nothing else is done with it: the overhead of a stream is the ratio of the two. Start at [`Limit`], which
//! controls the sides; they are in `source` and `reader`, the datagrams in `train`.

mod latency;
mod reader;
mod socket;
mod source;
mod train;

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result, ensure};
use peers::Standing;
use peers::place::{Place, Side};
use peers::process::Process;
use serde::{Deserialize, Serialize};

use crate::FRAME_BYTES;
use crate::contest::{Contestant, Pace, Run};

pub(crate) use latency::{Ping, Waiting, ping, pong};
pub(crate) use reader::reader;
pub(crate) use source::source;

/// Buffer size requested on both sides, by every system with such an option: the default of a stream. Units: bytes.
pub(crate) const BUFFER_BYTES: usize = 4 << 20;
/// The group of multicast cases.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 85, 0, 1);

/// System calls that carry the datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Calls {
    /// One datagram per call.
    Plain,
    /// Many datagrams per call: `sendmmsg` and `recvmmsg`.
    Batched,
    /// Trains of this many datagrams, which cross the stack as one: `UDP_SEGMENT` and `UDP_GRO`, also in batches.
    Trains(usize),
}

/// Addressing of the datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Addressing {
    Unicast,
    Multicast { readers: usize },
}

/// Settings that both sides share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) source: Ipv4Addr,
    pub(crate) reader: Ipv4Addr,
    /// Destination of the datagrams: the reader's address or the group's.
    pub(crate) destination: SocketAddrV4,
    pub(crate) datagram_bytes: usize,
    pub(crate) calls: Calls,
    /// True if the datagrams carry the time at which they were sent.
    is_stamped: bool,
}

/// Task of a source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    line: Line,
    datagrams_per_second: Option<f64>,
    /// The way to wait until a datagram is due.
    waiting: Waiting,
    seconds: f64,
}

/// Final report of a source.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Sent {
    datagrams: u64,
    seconds: f64,
    cpu_s: f64,
}

/// Final report of a reader. Units: datagrams, except for the socket's drops.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Received {
    datagrams: u64,
    /// Numbers that were skipped; modulo their range if numbers are narrow.
    missing: u64,
    /// Late or duplicate datagrams.
    out_of_turn: u64,
    /// The socket's own drop count for a full buffer. Units: messages, which are trains if trains are used.
    dropped_messages: u64,
    seconds: f64,
    cpu_s: f64,
    /// Delays of stamped datagrams.
    delays_us: Vec<f64>,
}

/// The bare sockets of one case.
pub(crate) struct Limit<'a> {
    system: &'static str,
    place: &'a Place,
    line: Line,
    readers: usize,
    waiting: Waiting,
}

impl Line {
    pub(crate) fn new(place: &Place, addressing: Addressing, datagram_bytes: usize, calls: Calls) -> Self {
        let (source, reader) = (place.source, place.reader);
        let address = if addressing == Addressing::Unicast { reader } else { GROUP };
        let destination = SocketAddrV4::new(address, place.port);
        Self { source, reader, destination, datagram_bytes, calls, is_stamped: false }
    }

    /// Returns the number of datagrams that cross the stack as one message.
    const fn datagrams_per_message(&self) -> usize {
        match self.calls {
            Calls::Plain | Calls::Batched => 1,
            Calls::Trains(datagrams) => datagrams,
        }
    }

    const fn message_bytes(&self) -> usize {
        self.datagram_bytes * self.datagrams_per_message()
    }
}

impl Addressing {
    pub(crate) const fn readers(self) -> usize {
        match self {
            Self::Unicast => 1,
            Self::Multicast { readers } => readers,
        }
    }
}

impl<'a> Limit<'a> {
    /// Returns sockets that do nothing else, each side on its processor.
    pub(crate) fn new(place: &'a Place, addressing: Addressing, datagram_bytes: usize, calls: Calls) -> Self {
        let line = Line::new(place, addressing, datagram_bytes, calls);
        Self { system: "limit", place, line, readers: addressing.readers(), waiting: Waiting::Spinning }
    }

    /// Returns sockets that wait as a stream does, on any processor; datagrams smaller than a frame are alone, and
    /// stamped.
    pub(crate) fn plain(place: &'a Place, datagram_bytes: usize) -> Self {
        let is_stamped = datagram_bytes < FRAME_BYTES;
        let calls = if is_stamped { Calls::Plain } else { Calls::Batched };
        let it = Self::new(place, Addressing::Multicast { readers: 1 }, datagram_bytes, calls);
        let line = Line { is_stamped, ..it.line };
        Self { system: "plain", line, waiting: Waiting::Blocking, ..it }
    }

    fn start(
        &self,
        side: Side,
        role: &'static str,
        standing: Standing,
        order: &impl Serialize,
    ) -> Result<Process> {
        let standing = if self.waiting == Waiting::Spinning { standing } else { Standing::Anywhere };
        self.place.start(side, role, standing, order)
    }
}

impl Contestant for Limit<'_> {
    fn system(&self) -> &'static str {
        self.system
    }

    fn run(&mut self, pace: Pace) -> Result<Run> {
        let start = |index| {
            let mut reader =
                self.start(Side::Reader, "limit-reader", Standing::Reader { index }, &self.line)?;
            let granted_bytes: usize = reader.hear("ready")?;
            Ok((reader, granted_bytes))
        };
        let mut readers = (0..self.readers).map(start).collect::<Result<Vec<_>>>()?;
        let order = Order {
            line: self.line.clone(),
            datagrams_per_second: pace.datagrams_per_second,
            waiting: self.waiting,
            seconds: pace.seconds,
        };
        let mut source = self.start(Side::Source, "limit-source", Standing::Source, &order)?;
        let sent: Sent = source.hear("sent")?;
        let hear = |(reader, _): &mut (Process, usize)| reader.hear("received");
        let received = readers.iter_mut().map(hear).collect::<Result<Vec<Received>>>()?;
        for received in &received {
            self.check(&sent, received)?;
        }
        let least = received.iter().map(|received| received.datagrams).min().context("a reader")?;
        let slowest = received.iter().map(|received| received.seconds).fold(sent.seconds, f64::max);
        Ok(Run {
            datagram_bytes: self.line.datagram_bytes,
            sent: sent.datagrams,
            received: least,
            seconds: slowest,
            source_cpu_s: sent.cpu_s,
            reader_cpu_s: received.iter().map(|received| received.cpu_s).fold(0.0, f64::max),
            receive_buffer_bytes: readers.first().map(|(_, granted_bytes)| *granted_bytes),
            unexplained: 0,
            delays_us: received.into_iter().flat_map(|received| received.delays_us).collect(),
        })
    }
}

impl Limit<'_> {
    /// Closes the account: sent = received + dropped by the socket + unexplained, where nothing may be unexplained.
    ///
    /// Each term is counted independently: the source counts departures, the reader counts arrivals and skipped
    /// numbers, the kernel counts drops at the full buffer.
    fn check(&self, sent: &Sent, received: &Received) -> Result<()> {
        let dropped = received.dropped_messages * self.line.datagrams_per_message() as u64;
        let range = train::number_range(self.line.datagram_bytes);
        let passed_over = range.map_or(dropped, |range| dropped % range);
        // A late datagram was passed over before. A source that is not pinned may overtake itself.
        let missing = received.missing.saturating_sub(received.out_of_turn);
        let explained = sent.datagrams == received.datagrams + dropped
            && range.map_or(missing, |range| missing % range) == passed_over
            && (received.out_of_turn == 0 || self.waiting == Waiting::Blocking);
        ensure!(
            explained,
            "the account does not close: {} datagrams sent, {} received, {dropped} dropped by the socket, \
             {} numbers missing, {} out of turn",
            sent.datagrams,
            received.datagrams,
            received.missing,
            received.out_of_turn
        );
        Ok(())
    }
}
