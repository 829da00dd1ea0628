//! A stream from a publisher to subscribers, through the library's public API only.
//!
//! A datagram of 1,472 bytes has a header of 80 bytes and 348 elements of `f4`. The elements are counted: they are
//! reported as the equivalent number of full datagrams. Publisher and subscribers are processes that live as long
//! as their case; every run is a separate stream, and its account must close.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use peers::place::{Place, Side};
use peers::process::{Process, end_with_leader, next, tell, wait_for_go};
use peers::{Standing, Whose, cpu_seconds};
use serde::{Deserialize, Serialize};
use tallycast::{AccountState, Bus, Dtype, Event, Node, OnFull, Pacing, Publisher, StreamAccount};

use crate::contest::{Contestant, Pace, Run};
use crate::limit::{Addressing, BUFFER_BYTES};

/// Size of the IP and UDP headers. Units: bytes.
const AROUND_BYTES: usize = 28;
/// Size of a datagram with one time stamp. Units: bytes.
pub(crate) const STAMP_BYTES: usize = wire::DATA_HEADER_BYTES + 8;
const ELEMENT_BYTES: usize = 4;
/// Size of a block: many datagrams of any size. Units: bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks per second of a paced stream with default options.
const BLOCKS_HZ: u32 = 1_000;
/// Longest train, as for the limit.
const TRAIN: usize = 64;
/// Size of the queue between publisher and network: it fits the second-level cache with the rest. Units: bytes.
const QUEUE_BYTES: usize = 1 << 20;
/// Rate for runs at full speed: more than any processor can do. Units: datagrams per second.
const FAR_TOO_MANY: f64 = 40e6;
/// Time that losses wait for evidence: shorter than the default, so that a search ends in time. On one host the
/// evidence arrives within milliseconds.
const SETTLE: Duration = Duration::from_millis(500);
/// Maximum time without a publication between two runs.
const PATIENCE: Duration = Duration::from_secs(600);

/// Publisher and subscribers of the library.
pub(crate) struct Stream {
    system: &'static str,
    elements_per_datagram: usize,
    datagram_bytes: usize,
    source: Process,
    readers: Vec<Process>,
}

/// Content of a stream, and its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Content {
    /// Samples in the longest trains, from a queue that fits the cache, as fast as possible if no rate is given.
    Trains,
    /// Samples with the default options.
    Samples,
    /// The send time, at the rate of the run; small blocks wait `linger_ms` for others.
    Stamps { linger_ms: u64 },
}

/// Settings by which the two sides find each other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Meeting {
    bus: String,
    /// Destination of the data; `None` for the group of the bus.
    address: Option<SocketAddr>,
    elements_per_datagram: usize,
    content: Content,
}

/// Keys of a stream, and its name in rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secured<'a> {
    pub(crate) system: &'static str,
    /// The station's file of keys.
    pub(crate) keys: &'a Path,
    /// True if the publisher signs statements about its samples.
    pub(crate) is_signed: bool,
    /// Distance of its ports from those of the other contestants: they do not hear each other.
    pub(crate) ports_above: u16,
}

/// Task of a source.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Order {
    datagrams_per_second: Option<f64>,
    seconds: f64,
}

/// Final report of a source.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Sent {
    elements: u64,
    cpu_s: f64,
}

/// Final report of a reader.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Received {
    elements: u64,
    /// True if the publisher's last tally did not arrive.
    is_unconfirmed: bool,
    /// Elements missing without a known reason.
    unexplained: u64,
    /// Elements from the first to the last of the publisher.
    span: u64,
    seconds: f64,
    cpu_s: f64,
    delays_us: Vec<f64>,
}

impl Stream {
    /// Starts publisher and subscribers; with trains, each on its processor.
    pub(crate) fn start(
        place: &Place,
        addressing: Addressing,
        datagram_bytes: usize,
        content: Content,
    ) -> Result<Self> {
        Self::start_with(place, addressing, datagram_bytes, content, None)
    }

    /// Starts publisher and subscribers that encrypt, as [`start`](Self::start) does.
    pub(crate) fn start_secured(
        place: &Place,
        addressing: Addressing,
        datagram_bytes: usize,
        secured: Secured<'_>,
    ) -> Result<Self> {
        Self::start_with(place, addressing, datagram_bytes, Content::Trains, Some(secured))
    }

    fn start_with(
        place: &Place,
        addressing: Addressing,
        datagram_bytes: usize,
        content: Content,
        secured: Option<Secured<'_>>,
    ) -> Result<Self> {
        let (above, interface) = (secured.map_or(0, |it| it.ports_above), place.interface);
        let port = place.port.wrapping_add(above);
        let secured_bytes = secured.map_or(0, |_| wire::SECURED_DATA_BYTES);
        let elements_per_datagram = elements_per_datagram(datagram_bytes - secured_bytes);
        let mut bus = format!("udp://239.84.0.0:{port}?iface={interface}&rcvbuf={BUFFER_BYTES}");
        if content == Content::Trains {
            bus += &format!("&mtu={}&train={TRAIN}", datagram_bytes + AROUND_BYTES);
        }
        if let Some(Secured { keys, is_signed, .. }) = secured {
            let proof = if is_signed { "on" } else { "off" };
            bus += &format!("&keys={}&proof={proof}", keys.display());
        }
        let meeting = Meeting {
            bus,
            address: (addressing == Addressing::Unicast).then(|| (place.reader, port.wrapping_add(3)).into()),
            elements_per_datagram,
            content,
        };
        let start = |side, role, standing| {
            let standing = if content == Content::Trains { standing } else { Standing::Anywhere };
            place.start(side, role, standing, &meeting)
        };
        let reader = |index| {
            let mut reader = start(Side::Reader, "stream-reader", Standing::Reader { index })?;
            reader.hear::<()>("ready")?;
            Ok(reader)
        };
        let readers = (0..addressing.readers()).map(reader).collect::<Result<_>>()?;
        let source = start(Side::Source, "stream-source", Standing::Source)?;
        let system = secured.map_or("tallycast", |it| it.system);
        Ok(Self { system, elements_per_datagram, datagram_bytes, source, readers })
    }
}

impl Contestant for Stream {
    fn system(&self) -> &'static str {
        self.system
    }

    fn run(&mut self, pace: Pace) -> Result<Run> {
        let Pace { datagrams_per_second, seconds } = pace;
        self.source.say(&Order { datagrams_per_second, seconds })?;
        self.readers.iter_mut().try_for_each(|reader| reader.hear::<()>("began"))?;
        self.source.go()?;
        let sent: Sent = self.source.hear("sent")?;
        let hear = |reader: &mut Process| reader.hear("ended");
        let received = self.readers.iter_mut().map(hear).collect::<Result<Vec<Received>>>()?;
        for reader in &received {
            // If the last tally was lost too, a reader cannot know of the losses before it.
            ensure!(
                reader.span == sent.elements || reader.is_unconfirmed && reader.span < sent.elements,
                "the account does not close: {} elements sent, {} accounted for by a reader",
                sent.elements,
                reader.span
            );
        }
        let least = received.iter().map(|received| received.elements).min().context("a reader")?;
        let per_datagram = self.elements_per_datagram as u64;
        Ok(Run {
            datagram_bytes: self.datagram_bytes,
            // A partly filled datagram counts as one, so that its loss counts as one, too.
            sent: sent.elements.div_ceil(per_datagram),
            received: least.div_ceil(per_datagram),
            seconds: received.iter().map(|received| received.seconds).fold(f64::MIN_POSITIVE, f64::max),
            source_cpu_s: sent.cpu_s,
            reader_cpu_s: received.iter().map(|received| received.cpu_s).fold(0.0, f64::max),
            receive_buffer_bytes: None,
            unexplained: received
                .iter()
                .map(|received| received.unexplained)
                .sum::<u64>()
                .div_ceil(per_datagram),
            delays_us: received.into_iter().flat_map(|received| received.delays_us).collect(),
        })
    }
}

pub(crate) const fn elements_per_datagram(datagram_bytes: usize) -> usize {
    (datagram_bytes - wire::DATA_HEADER_BYTES) / ELEMENT_BYTES
}

/// Publishes one stream after the other, as ordered.
pub(crate) fn source(meeting: Meeting) -> Result<()> {
    let node = Node::open(meeting.bus.parse::<Bus>()?)?;
    let mut run = 0;
    while let Some(order) = next::<Order>()? {
        run += 1;
        let mut publisher = meeting.publisher(&node, run, &order)?;
        wait_for_go()?;
        let cpu = cpu_seconds(Whose::Process);
        meeting.publish(&mut publisher, &order)?;
        let elements = publisher.close().samples.offered;
        tell("sent", &Sent { elements, cpu_s: cpu_seconds(Whose::Process) - cpu })?;
    }
    Ok(())
}

impl Meeting {
    /// Returns the part of the streams' names that no other contestant of a case has: all are on one bus.
    fn folder(&self) -> String {
        match self.content {
            Content::Stamps { linger_ms } => format!("bench/linger-{linger_ms}ms"),
            Content::Trains | Content::Samples => "bench/samples".to_owned(),
        }
    }

    fn publisher(&self, node: &Node, run: u32, order: &Order) -> Result<Publisher> {
        let name = format!("{}/run{run}", self.folder());
        let mut stream = node.publisher(name).on_full(OnFull::Block);
        stream = match self.content {
            Content::Stamps { linger_ms } => {
                stream.dtype(Dtype::U64).linger(Duration::from_millis(linger_ms))
            }
            Content::Trains | Content::Samples => stream.dtype(Dtype::F4),
        };
        stream = stream.rate(self.elements_per_second(order));
        if self.content == Content::Trains {
            stream = stream.queue_bytes(QUEUE_BYTES);
            if order.datagrams_per_second.is_none() {
                stream = stream.pacing(Pacing::Unlimited { train: TRAIN });
            }
        }
        if let Some(address) = self.address {
            stream = stream.to(address);
        }
        Ok(stream.open()?)
    }

    fn publish(&self, publisher: &mut Publisher, order: &Order) -> Result<()> {
        let duration = Duration::from_secs_f64(order.seconds);
        let began = Instant::now();
        if let (Content::Stamps { .. }, Some(stamps_per_second)) = (self.content, order.datagrams_per_second)
        {
            let mut due = sys::clock::monotonic();
            while began.elapsed() < duration {
                due += Duration::from_secs_f64(1.0 / stamps_per_second);
                sys::clock::sleep_until(due);
                publisher.send(&[sys::clock::monotonic().as_nanos()])?;
            }
            return Ok(());
        }
        let elements = match (self.content, order.datagrams_per_second) {
            (Content::Samples, Some(_)) => (self.elements_per_second(order) / BLOCKS_HZ).max(1) as usize,
            _ => BLOCK_BYTES / ELEMENT_BYTES,
        };
        let block = vec![1.0_f32; elements];
        while began.elapsed() < duration {
            match order.datagrams_per_second {
                Some(_) => publisher.send_when_due(&block)?,
                None => publisher.send(&block)?,
            }
        }
        Ok(())
    }

    fn elements_per_second(&self, order: &Order) -> u32 {
        let datagrams_per_second = order.datagrams_per_second.unwrap_or(FAR_TOO_MANY);
        let elements_per_datagram = match self.content {
            Content::Stamps { .. } => 1,
            Content::Trains | Content::Samples => self.elements_per_datagram,
        };
        (datagrams_per_second * elements_per_datagram as f64) as u32
    }
}

/// Reads one stream after the other and reports the counts of each.
pub(crate) fn reader(meeting: Meeting) -> Result<()> {
    let node = Node::builder().bus(meeting.bus.parse::<Bus>()?).settle(SETTLE).build()?;
    let mut subscriber = node.subscriber(format!("{}/*", meeting.folder())).reader("bench");
    if let Some(address) = meeting.address {
        subscriber = subscriber.from(address);
    }
    let mut subscriber = subscriber.open()?;
    end_with_leader();
    tell("ready", &())?;
    let (mut cpu, mut first, mut last, mut delays_us) = (0.0, None, Instant::now(), Vec::new());
    while let Some(event) = subscriber.next(PATIENCE) {
        match event {
            Event::Began(_) => {
                (cpu, first) = (cpu_seconds(Whose::Process), None);
                tell("began", &())?;
            }
            Event::Block(block) => {
                last = Instant::now();
                first.get_or_insert(last);
                if block.schema.dtype == Dtype::U64 {
                    let now = sys::clock::monotonic().as_nanos();
                    let delay = |sent: &u64| now.saturating_sub(*sent) as f64 / 1e3;
                    delays_us.extend(block.elements::<u64>()?.iter().map(delay));
                }
            }
            Event::Ended(account) => {
                let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
                let cpu_s = cpu_seconds(Whose::Process) - cpu;
                tell("ended", &received(&account, seconds, cpu_s, std::mem::take(&mut delays_us))?)?;
            }
            Event::Gap(_) | Event::Settled(_) | Event::Statement(_) => {}
        }
    }
    Ok(())
}

fn received(account: &StreamAccount, seconds: f64, cpu_s: f64, delays_us: Vec<f64>) -> Result<Received> {
    let balance = &account.account;
    balance.check().with_context(|| format!("the account of `{}` does not balance", account.stream))?;
    let elements = &balance.elements;
    Ok(Received {
        elements: elements.delivered,
        is_unconfirmed: balance.state == AccountState::Unconfirmed,
        unexplained: elements.unexplained,
        span: elements.next - elements.first,
        seconds,
        cpu_s,
        delays_us,
    })
}
