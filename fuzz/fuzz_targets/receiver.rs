//! Any datagrams at any times at a receiver: the law holds after each, and nothing panics.
//!
//! The input is a row of steps. A fuzzer cannot guess checksums, so most steps name the fields of a whole
//! datagram; one kind of step is bytes as they are.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;

use cast::Receiver;
use cast::receive::{Input, Output, ReaderIdentity};
use ledger::{BookConfig, Stage};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use sample::{Channel, Dtype, Schema};
use units::{Epoch, Instant, ReaderId, SampleRate, WallTime};
use wire::{
    Clock, DATAGRAM_BYTES_IPV4, Data, DatagramTotals, Description, DescriptorParts, Numbered, SampleTotals,
    Skipped, Tally, Totals, Withheld,
};

/// Elements of one sample: some datagrams then hold pieces.
const PER_SAMPLE: u32 = 4;

#[derive(Debug, Arbitrary)]
struct Head {
    epoch: u8,
    number: Near,
    position: Near,
}

/// Small numbers, where things meet, or any.
#[derive(Debug, Arbitrary)]
enum Near {
    Small(u8),
    Any(u64),
}

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Bytes(&'a [u8]),
    Data { head: Head, elements: u8 },
    Tally { head: Head, last: bool, total: u64, named: (u8, u8), next_ms: u16 },
    Describe { head: Head },
    Drops { stamped: Option<u32>, now: u32 },
    Pass { millis: u16 },
    Leave,
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    let identity = ReaderIdentity { id: ReaderId(1), name: "reader".to_owned(), receive_buffer_bytes: 0 };
    let mut receiver = Receiver::new(identity, BookConfig::default(), 1);
    let mut now = Instant::ORIGIN;
    let mut stamp = None;
    let mut buffer = vec![0; DATAGRAM_BYTES_IPV4];
    for step in steps.iter().take(1_000) {
        match step {
            Step::Drops { stamped, now: counter } => {
                stamp = *stamped;
                receiver.handle(now, Input::SocketDrops(*counter));
            }
            Step::Pass { millis } => {
                now += Duration::from_millis(u64::from(*millis));
                receiver.handle(now, Input::Advance);
            }
            Step::Leave => receiver.handle(now, Input::LeaveAll),
            Step::Bytes(_) | Step::Data { .. } | Step::Tally { .. } | Step::Describe { .. } => {
                let Some(bytes) = datagram(step, &mut buffer) else { continue };
                let from = SocketAddr::from(([10, 0, 0, 66], 7400));
                receiver.handle(now, Input::Datagram { bytes, from, drops: stamp });
            }
        }
        let mut out = vec![0; DATAGRAM_BYTES_IPV4];
        while !matches!(receiver.poll(now, &mut out), Output::Idle { .. }) {}
        assert_eq!(receiver.check(), Ok(()), "the law after {step:?}");
    }
    receiver.handle(now, Input::LeaveAll);
});

/// Builds the datagram of a step; nothing if its fields make none.
fn datagram<'a>(step: &'a Step<'_>, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let size = match step {
        Step::Bytes(bytes) => return Some(bytes),
        Step::Data { head, elements } => {
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
            Data { head, t0, clock, dtype, element_count, payload: &payload }.encode(buffer).ok()?
        }
        Step::Tally { head, last, total, named, next_ms } => {
            tally(head.numbered()?, *last, *total, *named, *next_ms).encode(buffer).ok()?
        }
        Step::Describe { head } => {
            let parts =
                DescriptorParts::new(&description(), DATAGRAM_BYTES_IPV4).expect("a small description");
            parts.part(0, head.numbered()?).expect("one part").encode(buffer).ok()?
        }
        Step::Drops { .. } | Step::Pass { .. } | Step::Leave => return None,
    };
    Some(&buffer[..size])
}

fn tally(head: Numbered, last: bool, total: u64, named: (u8, u8), next_ms: u16) -> Tally {
    let range = u64::from(named.0)..u64::from(named.0) + u64::from(named.1) + 1;
    let withheld = Withheld { numbers: range.clone(), stage: Stage::SenderQdisc };
    let skipped = Skipped { positions: range.clone(), stage: Stage::Source };
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
            epoch: Epoch { start_ns: u64::from(self.epoch), life: 1 },
            number: 0,
            first_index: 0,
            element_offset: 0,
            elements_per_sample: PER_SAMPLE,
        };
        let number = self.number.value();
        (number < u64::MAX).then(|| head.at(number, self.position.value()))
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
