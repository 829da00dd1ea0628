//! A stream from a publisher to subscribers, through the library's public API only.
//!
//! A datagram of 1,472 bytes has a header of 80 bytes and 348 elements of `f4`. The elements are counted: they are
//! reported as the equivalent number of full datagrams. Publisher and subscribers are processes that live as long
//! as their case; every run is a separate stream, and its account must close.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use peers::place::{Place, Side};
use peers::process::{Process, end_with_leader, next_line, tell};
use peers::{Whose, cpu_seconds};
use serde::{Deserialize, Serialize};
use tallycast::{AccountState, Bus, Dtype, Event, Node, OnFull, Pacing, Publisher, StreamAccount};

use crate::contest::{Contestant, Pace, Run};
use crate::limit::{Addressing, BUFFER_BYTES};
use crate::standing::Standing;

/// Size of a data datagram's header (`docs/protocol/stream.md`). Units: bytes.
const HEADER_BYTES: usize = 80;
/// Size of the IP and UDP headers. Units: bytes.
const AROUND_BYTES: usize = 28;
const ELEMENT_BYTES: usize = 4;
/// Size of a block: many datagrams of any size. Units: bytes.
const BLOCK_BYTES: usize = 64 << 10;
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
    datagram_bytes: usize,
    source: Process,
    readers: Vec<Process>,
}

/// Settings by which the two sides find each other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Meeting {
    bus: String,
    /// Destination of the data; `None` for the group of the bus.
    address: Option<SocketAddr>,
    datagram_bytes: usize,
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
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
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
}

impl Stream {
    /// Starts publisher and subscribers.
    pub(crate) fn start(place: &Place, addressing: Addressing, datagram_bytes: usize) -> Result<Self> {
        let mtu = datagram_bytes + AROUND_BYTES;
        let (port, interface) = (place.port, place.interface);
        let meeting = Meeting {
            bus: format!(
                "udp://239.84.0.0:{port}?iface={interface}&mtu={mtu}&rcvbuf={BUFFER_BYTES}&train={TRAIN}"
            ),
            address: (addressing == Addressing::Unicast)
                .then(|| (place.reader, place.port.wrapping_add(3)).into()),
            datagram_bytes,
        };
        let start = |side, role, standing: Standing| {
            let mut command = place.command(side)?;
            command.args(["--role", role, &standing.to_string(), &serde_json::to_string(&meeting)?]);
            Process::start(command)
        };
        let reader = |index| {
            let mut reader = start(Side::Reader, "stream-reader", Standing::Reader { index })?;
            reader.hear::<()>("ready")?;
            Ok(reader)
        };
        let readers = (0..addressing.readers()).map(reader).collect::<Result<_>>()?;
        Ok(Self { datagram_bytes, source: start(Side::Source, "stream-source", Standing::Source)?, readers })
    }
}

impl Contestant for Stream {
    fn system(&self) -> &'static str {
        "tallycast"
    }

    fn run(&mut self, pace: Pace) -> Result<Run> {
        let Pace { datagrams_per_second, seconds } = pace;
        self.source.say(&Order { datagrams_per_second, seconds })?;
        self.readers.iter_mut().try_for_each(|reader| reader.hear::<()>("began"))?;
        self.source.say(&"go")?;
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
        let per_datagram = elements_per_datagram(self.datagram_bytes) as u64;
        Ok(Run {
            datagram_bytes: self.datagram_bytes,
            // A partly filled datagram counts as one, so that its loss counts as one, too.
            sent: sent.elements.div_ceil(per_datagram),
            received: least.div_ceil(per_datagram),
            seconds: received.iter().map(|received| received.seconds).fold(f64::MIN_POSITIVE, f64::max),
            source_cpu_s: Some(sent.cpu_s),
            reader_cpu_s: received.iter().map(|received| received.cpu_s).max_by(f64::total_cmp),
            receive_buffer_bytes: None,
            unexplained: received
                .iter()
                .map(|received| received.unexplained)
                .sum::<u64>()
                .div_ceil(per_datagram),
        })
    }
}

const fn elements_per_datagram(datagram_bytes: usize) -> usize {
    (datagram_bytes - HEADER_BYTES) / ELEMENT_BYTES
}

/// Publishes one stream after the other, as ordered.
pub(crate) fn source(meeting: &str) -> Result<()> {
    let meeting: Meeting = serde_json::from_str(meeting)?;
    let node = Node::open(meeting.bus.parse::<Bus>()?)?;
    let mut run = 0;
    while let Some(order) = next_line()? {
        let order: Order = serde_json::from_str(&order)?;
        run += 1;
        let mut publisher = meeting.publisher(&node, run, &order)?;
        next_line()?.context("the measurement was aborted")?;
        let cpu = cpu_seconds(Whose::Process);
        meeting.publish(&mut publisher, &order)?;
        let elements = publisher.close().samples.offered;
        tell("sent", &Sent { elements, cpu_s: cpu_seconds(Whose::Process) - cpu })?;
    }
    Ok(())
}

impl Meeting {
    fn publisher(&self, node: &Node, run: u32, order: &Order) -> Result<Publisher> {
        let mut stream = node.publisher(format!("bench/run{run}")).dtype(Dtype::F4);
        stream = stream.rate(self.elements_per_second(order)).on_full(OnFull::Block).queue_bytes(QUEUE_BYTES);
        if order.datagrams_per_second.is_none() {
            stream = stream.pacing(Pacing::Unlimited { train: TRAIN });
        }
        if let Some(address) = self.address {
            stream = stream.to(address);
        }
        Ok(stream.open()?)
    }

    fn publish(&self, publisher: &mut Publisher, order: &Order) -> Result<()> {
        let duration = Duration::from_secs_f64(order.seconds);
        let began = Instant::now();
        let block = vec![1.0_f32; BLOCK_BYTES / ELEMENT_BYTES];
        while began.elapsed() < duration {
            match order.datagrams_per_second {
                Some(_) => publisher.send_when_due(&block)?,
                None => publisher.send(&block)?,
            }
        }
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    fn elements_per_second(&self, order: &Order) -> u32 {
        let datagrams_per_second = order.datagrams_per_second.unwrap_or(FAR_TOO_MANY);
        (datagrams_per_second * elements_per_datagram(self.datagram_bytes) as f64) as u32
    }
}

/// Reads one stream after the other and reports the counts of each.
pub(crate) fn reader(meeting: &str) -> Result<()> {
    let meeting: Meeting = serde_json::from_str(meeting)?;
    let node = Node::builder().bus(meeting.bus.parse::<Bus>()?).settle(SETTLE).build()?;
    let mut subscriber = node.subscriber("bench/*").reader("bench");
    if let Some(address) = meeting.address {
        subscriber = subscriber.from(address);
    }
    let mut subscriber = subscriber.open()?;
    end_with_leader();
    tell("ready", &())?;
    let (mut cpu, mut first, mut last) = (0.0, None, Instant::now());
    while let Some(event) = subscriber.next(PATIENCE) {
        match event {
            Event::Began(_) => {
                (cpu, first) = (cpu_seconds(Whose::Process), None);
                tell("began", &())?;
            }
            Event::Block(_) => {
                last = Instant::now();
                first.get_or_insert(last);
            }
            Event::Ended(account) => {
                let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
                tell("ended", &received(&account, seconds, cpu_seconds(Whose::Process) - cpu)?)?;
            }
            Event::Gap(_) | Event::Settled(_) => {}
        }
    }
    Ok(())
}

fn received(account: &StreamAccount, seconds: f64, cpu_s: f64) -> Result<Received> {
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
    })
}
