//! Any datagrams at any times at a receiver: the law holds after each, and nothing panics.
//!
//! The input is a sequence of steps. A fuzzer cannot guess checksums, so most steps give the fields of a valid
//! datagram; one kind of step is raw bytes. Nor can it guess nonces: publishers at several addresses receive the
//! receiver's requests, and may repeat their nonces.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use cast::Receiver;
use cast::receive::{Input, Output, ReaderIdentity, WaitsSince};
use ledger::{DropNotice, KernelName, LedgerConfig, Stage};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use sample::{Channel, Dtype, Schema, Selection};
use units::{Epoch, Instant, ReaderId, SampleRate, WallTime};
use wire::{
    Announcement, Clock, DATAGRAM_BYTES_IPV4, Data, Datagram, DatagramTotals, Description,
    DescriptorExtensions, DescriptorParts, Nonce, Numbered, Predecessor, Request, SampleTotals, Skipped,
    Tally, Totals, Withheld,
};

/// Elements per sample: some datagrams then hold pieces.
const PER_SAMPLE: u32 = 4;

/// Maximum number of nonces that publishers remember.
const MAX_ASKED: usize = 16;

#[derive(Debug, Arbitrary)]
struct Head {
    /// Sending publisher: one of a few.
    from: u8,
    epoch: u8,
    number: Near,
    position: Near,
}

/// An epoch's claim about its predecessor.
#[derive(Debug, Arbitrary)]
struct Before {
    epoch: u8,
    next_number: Near,
    next_index: Near,
    is_final: bool,
}

/// A small number, so that values coincide, or any number.
#[derive(Debug, Arbitrary)]
enum Near {
    Small(u8),
    Any(u64),
}

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Bytes(&'a [u8]),
    Data { head: Head, elements: u8 },
    Tally { head: Head, last: bool, total: u64, named: (u8, u8), next_ms: u16, answers: bool },
    Describe { head: Head, before: Option<Before>, addresses: [u8; 2] },
    Announce { from: u8, epoch: u8 },
    Dropped { numbers: (u8, u8), network: bool },
    Drops { stamped: Option<u32>, now: u32 },
    Waits { since_ms: Option<u16> },
    DropReporter { within_ms: Option<u16> },
    Select { all: bool },
    Elsewhere { elsewhere: bool },
    Pass { millis: u16 },
    Leave,
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    let identity = ReaderIdentity { id: ReaderId(1), name: "reader".to_owned(), receive_buffer_bytes: 0 };
    let mut receiver = Receiver::new(identity, LedgerConfig::default(), 1);
    let mut now = Instant::ORIGIN;
    let mut stamp = None;
    let mut asked = VecDeque::new();
    let mut buffer = vec![0; DATAGRAM_BYTES_IPV4];
    let mut out = vec![0; DATAGRAM_BYTES_IPV4];
    let stream = wire::stream_id(&description().name, &description().schema);
    for step in steps.iter().take(1_000) {
        match step {
            Step::Announce { from, epoch } => {
                let (announcement, from) = (announcement(*epoch), address(*from));
                receiver.handle(now, Input::Announced { announcement: &announcement, from });
            }
            Step::Dropped { numbers, network } => {
                receiver.handle(now, Input::Dropped(&dropped(*numbers, *network)))
            }
            Step::Drops { stamped, now: counter } => {
                stamp = *stamped;
                receiver.handle(now, Input::SocketDrops(*counter));
            }
            Step::Waits { since_ms } => {
                let since = |ms: u16| {
                    let since = now.min(Instant::ORIGIN + Duration::from_millis(u64::from(ms)));
                    WaitsSince { since, wall: WallTime::from_nanos(0) }
                };
                receiver.handle(now, Input::Waits(since_ms.map(since)));
            }
            Step::DropReporter { within_ms } => {
                let within = within_ms.map(|ms| Duration::from_millis(u64::from(ms)));
                receiver.handle(now, Input::DropReporter(within));
            }
            Step::Select { all } => {
                let selection = if *all { Selection::all() } else { Selection::none() };
                receiver.handle(now, Input::Select(&selection));
            }
            Step::Elsewhere { elsewhere } => receiver.handle(now, Input::Elsewhere(stream, *elsewhere)),
            Step::Pass { millis } => {
                now += Duration::from_millis(u64::from(*millis));
                receiver.handle(now, Input::Advance);
            }
            Step::Leave => receiver.handle(now, Input::LeaveAll),
            Step::Bytes(_) | Step::Data { .. } | Step::Tally { .. } | Step::Describe { .. } => {
                let Some((bytes, from)) = datagram(step, &asked, &mut buffer) else { continue };
                receiver.handle(now, Input::Datagram { bytes, from, drops: stamp });
            }
        }
        loop {
            match receiver.poll(now, &mut out) {
                Output::Idle { deadline } => {
                    assert!(deadline.is_none_or(|deadline| deadline > now), "a deadline that has passed");
                    break;
                }
                Output::Transmit { to, size_bytes } => hear(to, &out[..size_bytes], &mut asked),
                Output::Event(_) => {}
            }
        }
        assert_eq!(receiver.check(), Ok(()), "the law after {step:?}");
    }
    receiver.handle(now, Input::LeaveAll);
});

/// Receives the receiver's request to a publisher.
fn hear(to: SocketAddr, bytes: &[u8], asked: &mut VecDeque<(SocketAddr, Nonce)>) {
    let datagram = Datagram::decode(bytes).expect("a receiver sends what can be read");
    if let Datagram::Request(Request { nonce: Some(nonce), .. }) = datagram {
        asked.push_front((to, nonce));
        asked.truncate(MAX_ASKED);
    }
}

/// Returns the address of a publisher.
fn address(publisher: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 64 + publisher % 6], 7_400))
}

fn epoch(start: u8) -> Epoch {
    Epoch { start_ns: u64::from(start), incarnation: 1 }
}

fn dropped(numbers: (u8, u8), network: bool) -> DropNotice {
    let description = description();
    let first = u64::from(numbers.0);
    DropNotice {
        stream: wire::stream_id(&description.name, &description.schema),
        incarnation: 1,
        numbers: first..first + u64::from(numbers.1) + 1,
        stage: if network { Stage::Network } else { Stage::ReceiverSocketBuffer },
        reason: KernelName::new("SOCKET_RCVBUFF"),
        destination: address(0),
        socket: None,
    }
}

fn announcement(start: u8) -> Announcement {
    let Description { name, schema, report_port, station, .. } = description();
    Announcement {
        stream: wire::stream_id(&name, &schema),
        epoch: epoch(start),
        name,
        group: SocketAddr::from(([239, 84, 0, 1], 7_400)),
        report_port,
        dtype: schema.dtype,
        rate: schema.rate,
        channels: 1,
        elements_per_sample: PER_SAMPLE,
        station,
        period: Duration::from_secs(1),
    }
}

/// Builds the datagram of a step with its source address; `None` if its fields make none.
fn datagram<'a>(
    step: &'a Step<'_>,
    asked: &VecDeque<(SocketAddr, Nonce)>,
    buffer: &'a mut [u8],
) -> Option<(&'a [u8], SocketAddr)> {
    let (size, from) = match step {
        Step::Bytes(bytes) => return Some((bytes, address(0))),
        Step::Data { head, elements } => {
            let from = address(head.from);
            let head = head.numbered()?;
            let whole = head.element_offset == 0 && u32::from(*elements) % PER_SAMPLE == 0;
            let piece = head.element_offset + u32::from(*elements) <= PER_SAMPLE;
            let end = head.position().checked_add(u64::from(*elements));
            if *elements == 0 || !(whole || piece) || end.is_none() {
                return None;
            }
            let payload = vec![7; usize::from(*elements)];
            let (t0, clock, dtype) = (WallTime::from_nanos(0), Clock::System, Dtype::U8);
            let element_count = u32::from(*elements);
            let data = Data { head, t0, clock, dtype, element_count, origin: None, payload: &payload };
            (data.encode(buffer).ok()?, from)
        }
        Step::Tally { head, last, total, named, next_ms, answers } => {
            let from = address(head.from);
            let of_it = asked.iter().filter(|(to, _)| *answers && to.ip() == from.ip());
            let nonces = of_it.map(|(_, nonce)| *nonce).take(wire::MAX_NONCES).collect();
            let tally = tally(head.numbered()?, *last, *total, *named, *next_ms);
            (Tally { nonces, ..tally }.encode(buffer).ok()?, from)
        }
        Step::Describe { head, before, addresses } => {
            let (from, head) = (address(head.from), head.numbered()?);
            let before = before.as_ref().map(Before::predecessor).filter(|it| it.epoch < head.epoch);
            let listed: Vec<_> =
                addresses.iter().filter(|it| **it > 127).map(|it| address(*it).ip()).collect();
            let extensions = DescriptorExtensions {
                predecessor: before,
                addresses: &listed,
                ..DescriptorExtensions::default()
            };
            let parts = DescriptorParts::with_extensions(&description(), &extensions, DATAGRAM_BYTES_IPV4);
            let parts = parts.expect("a small description");
            (parts.part(0, head).expect("one part").encode(buffer).ok()?, from)
        }
        Step::Announce { .. }
        | Step::Dropped { .. }
        | Step::Drops { .. }
        | Step::Waits { .. }
        | Step::DropReporter { .. }
        | Step::Select { .. }
        | Step::Elsewhere { .. }
        | Step::Pass { .. }
        | Step::Leave => return None,
    };
    Some((&buffer[..size], from))
}

fn tally(head: Numbered, last: bool, total: u64, named: (u8, u8), next_ms: u16) -> Tally {
    let range = u64::from(named.0)..u64::from(named.0) + u64::from(named.1) + 1;
    let withheld = Withheld { numbers: range.clone(), stage: Stage::SenderQdisc };
    let skipped = Skipped { positions: range.clone(), stage: Stage::Source, inherited: None };
    let datagrams = DatagramTotals { injected: total, sender_qdisc: total, ..DatagramTotals::default() };
    let samples = SampleTotals { source: total, ..SampleTotals::default() };
    Tally {
        last,
        paused: total.is_multiple_of(2),
        watched: total.is_multiple_of(3),
        next_tally: Duration::from_millis(u64::from(next_ms)),
        readers: 1,
        report_interval: Duration::from_secs(1),
        totals: Totals { samples, datagrams },
        withheld: if range.end <= head.number { vec![withheld] } else { Vec::new() },
        skipped: if range.end <= head.position() { vec![skipped] } else { Vec::new() },
        nonces: Vec::new(),
        statement: vec![named.0; usize::from(next_ms) % (wire::MAX_TALLY_STATEMENT_BYTES + 1)],
        origin: None,
        upstream: Vec::new(),
        head,
    }
}

fn description() -> Description {
    let channels = vec![Channel::new("value", "V").with_shape([PER_SAMPLE])];
    let rate = SampleRate::hz(1_000).expect("a rate");
    Description {
        name: "lab/probe".parse().expect("a name"),
        schema: Schema::new(Dtype::U8, rate, channels).expect("a schema"),
        report_port: 7400,
        station: String::new(),
        unknown: sample::UnknownEntries::new(),
    }
}

impl Head {
    fn numbered(&self) -> Option<Numbered> {
        let description = description();
        let head = Numbered {
            stream: wire::stream_id(&description.name, &description.schema),
            epoch: epoch(self.epoch),
            number: 0,
            first_index: 0,
            element_offset: 0,
            elements_per_sample: PER_SAMPLE,
        };
        let number = self.number.value();
        (number < u64::MAX).then(|| head.at(number, self.position.value()))
    }
}

impl Before {
    fn predecessor(&self) -> Predecessor {
        Predecessor {
            epoch: epoch(self.epoch),
            next_number: self.next_number.value().min(u64::MAX - 1),
            // Positions beyond 64 bits are not sent.
            next_index: self.next_index.value().min(u64::MAX / u64::from(2 * PER_SAMPLE)),
            element_offset: 0,
            is_final: self.is_final,
        }
    }
}

impl Near {
    fn value(&self) -> u64 {
        match self {
            Self::Small(value) => u64::from(*value),
            Self::Any(value) => *value,
        }
    }
}
