//! Work of the stream machines and of the ring, for an instruction counter: a given number of datagrams of a case,
//! independent of chance, clocks and other processes.
//!
//! `counts CASE COUNT` runs a case; `cargo xtask counts` runs it under valgrind with two counts, takes the
//! difference, and compares it with `instruments/peers/counts.toml`. Without arguments it lists its cases.

mod secured;

use std::process::ExitCode;
use std::time::Duration;

use cast::receive::{self, ReaderIdentity};
use cast::secure::{Gate, Passed};
use cast::send::{self, Beginning, DEFAULT_TRAIN, Pacing, SenderConfig, SenderSecurity, Sending};
use cast::{Receiver, Sender};
use keys::Suite;
use ledger::LedgerConfig;
use sample::{Channel, Dtype, Schema};
use units::{Epoch, Instant, ReaderId, SampleRate, WallTime};
use wire::{Clock, Description};

/// Size of a datagram that fills an Ethernet frame, the maximum of the streams here. Units: bytes.
const FRAME_BYTES: usize = wire::DATAGRAM_BYTES_IPV4;
/// Samples per second; the work does not depend on it.
const RATE_HZ: u32 = 1_000_000;
/// Time at which a stream begins.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// Time between two blocks.
const STEP: Duration = Duration::from_micros(10);
/// Source address of datagrams at the receiver.
const SOURCE: ([u8; 4], u16) = ([10, 84, 0, 1], 7_400);
/// Size of the ring for records: it fits a core's cache, and wraps several times. Units: bytes.
const RING_BYTES: usize = 1 << 20;

/// A kind of work.
struct Case {
    name: &'static str,
    /// Work for `count` datagrams.
    work: fn(count: usize),
}

const CASES: &[Case] = &[
    Case { name: "send/100B", work: |count| send_only(SMALL, None, count) },
    Case { name: "send/1472B", work: |count| send_only(FULL, None, count) },
    Case { name: "send/alone", work: |count| send_only(ALONE, None, count) },
    Case { name: "send/1472B/aes", work: |count| send_only(FULL, Some(Suite::Aes256Gcm), count) },
    Case { name: "send+receive/100B", work: |count| send_and_receive(SMALL, None, count) },
    Case { name: "send+receive/1472B", work: |count| send_and_receive(FULL, None, count) },
    Case { name: "send+receive/alone", work: |count| send_and_receive(ALONE, None, count) },
    Case {
        name: "send+receive/1472B/aes",
        work: |count| send_and_receive(FULL, Some(Suite::Aes256Gcm), count),
    },
    Case { name: "seal/1472B/aes", work: |count| secured::seal(Suite::Aes256Gcm, count) },
    Case { name: "seal+open/1472B/aes", work: |count| secured::seal_and_open(Suite::Aes256Gcm, count) },
    Case { name: "record/64B", work: |count| record(64, count) },
    Case { name: "record/1392B", work: |count| record(FRAME_BYTES - wire::DATA_HEADER_BYTES, count) },
];

/// Blocks that a publisher sends.
#[derive(Clone, Copy)]
struct Blocks {
    /// Size of each datagram. Units: bytes.
    datagram_bytes: usize,
    /// Datagrams per block.
    datagrams: usize,
}

/// Blocks that make a train of small datagrams.
const SMALL: Blocks = Blocks { datagram_bytes: 100, datagrams: DEFAULT_TRAIN };
/// Blocks that make a train of full datagrams.
const FULL: Blocks = Blocks { datagram_bytes: FRAME_BYTES, datagrams: DEFAULT_TRAIN };
/// Small blocks that are sent without linger.
const ALONE: Blocks = Blocks { datagram_bytes: 100, datagrams: 1 };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = &arguments[..] else {
        CASES.iter().for_each(|case| println!("{}", case.name));
        return ExitCode::SUCCESS;
    };
    let case = CASES.iter().find(|case| case.name == name);
    let (Some(case), Ok(count)) = (case, count.parse()) else {
        eprintln!(
            "`{name} {count}` is not a case and a count of datagrams\nrun it without arguments to list the cases"
        );
        return ExitCode::from(2);
    };
    (case.work)(count);
    ExitCode::SUCCESS
}

/// A sender, and its blocks.
struct Source {
    sender: Sender,
    now: Instant,
    block: Vec<u8>,
    block_samples: u64,
    next_index: u64,
    rate: SampleRate,
    buffer: Vec<u8>,
}

impl Source {
    fn new(blocks: Blocks, security: Option<SenderSecurity>) -> Self {
        let rate = SampleRate::hz(RATE_HZ).expect("not zero");
        let schema = Schema::new(Dtype::F4, rate, vec![Channel::new("value", "V")]).expect("a whole schema");
        let config = SenderConfig {
            description: Description {
                name: "bench/counts".parse().expect("a name"),
                schema,
                // Without a port for requests, a reader joins at the description.
                report_port: 0,
                station: "bench".to_owned(),
                unknown: sample::UnknownEntries::new(),
            },
            epoch: Epoch { start_ns: 1, incarnation: 1 },
            datagram_bytes: blocks.datagram_bytes,
            linger: Duration::ZERO,
            clock: Clock::System,
            destinations: 1,
            pacing: Pacing::Unlimited { train: DEFAULT_TRAIN },
            sending: Sending::Always,
            beginning: Beginning::Now,
            predecessor: None,
            security,
            relayed: None,
            deadline: None,
        };
        let secured_bytes = config.security.as_ref().map_or(0, |_| wire::SECURED_DATA_BYTES);
        let head_bytes = wire::DATA_HEADER_BYTES + secured_bytes;
        let payload_bytes = (blocks.datagram_bytes - head_bytes) * blocks.datagrams;
        let sender = Sender::new(config, 1, BEGIN).expect("a description that fits");
        Self {
            buffer: vec![0; sender.train_bytes()],
            sender,
            now: BEGIN,
            block: vec![7; payload_bytes],
            block_samples: (payload_bytes / Dtype::F4.size_bytes()) as u64,
            next_index: 0,
            rate,
        }
    }

    /// Sends one block and passes every due train to `take`, with the size of its datagrams.
    fn send_block(&mut self, take: impl FnMut(Instant, &[u8], usize)) {
        self.now += STEP;
        let t0 = self.rate.time_of(self.next_index, 0, WallTime::from_nanos(0));
        let input = send::Input::Samples { first_index: self.next_index, t0, bytes: &self.block };
        self.sender.handle(self.now, input);
        self.next_index += self.block_samples;
        self.drain(take);
    }

    fn drain(&mut self, mut take: impl FnMut(Instant, &[u8], usize)) {
        loop {
            match self.sender.poll(self.now, &mut self.buffer) {
                send::Output::Transmit { size_bytes, segment_bytes, .. } => {
                    take(self.now, &self.buffer[..size_bytes], segment_bytes);
                }
                send::Output::Event(_) => {}
                send::Output::Idle { .. } => return,
            }
        }
    }

    /// Sends `count` datagrams.
    fn send(&mut self, blocks: Blocks, count: usize, mut take: impl FnMut(Instant, &[u8], usize)) {
        // The description goes first, so that a receiver accepts everything from the first sample on.
        self.drain(&mut take);
        for _ in 0..count.div_ceil(blocks.datagrams) {
            self.send_block(&mut take);
        }
    }
}

fn send_only(blocks: Blocks, suite: Option<Suite>, count: usize) {
    let security = suite.map(|suite| secured::security(&secured::membership(suite)));
    let mut source = Source::new(blocks, security);
    let mut of_size = 0;
    source.send(blocks, count, |_, train, segment_bytes| {
        let datagrams = std::hint::black_box(train).len() / segment_bytes;
        of_size += if segment_bytes == blocks.datagram_bytes { datagrams } else { 0 };
    });
    assert!(of_size >= count, "{of_size} datagrams of {} bytes left, not {count}", blocks.datagram_bytes);
    assert_eq!(source.sender.totals().samples.numbered, source.next_index, "the account closes");
}

fn send_and_receive(blocks: Blocks, suite: Option<Suite>, count: usize) {
    let membership = suite.map(secured::membership);
    let mut source = Source::new(blocks, membership.as_ref().map(secured::security));
    let mut gate = membership.map(|membership| Gate::new(membership, BEGIN, secured::WALL, 1));
    let reader = ReaderIdentity { id: ReaderId(1), name: "counts".to_owned(), receive_buffer_bytes: 8 << 20 };
    let mut receiver = Receiver::new(reader, LedgerConfig::default(), 1);
    let (mut buffer, mut received) = (vec![0; FRAME_BYTES], Vec::new());
    let mut delivered = 0;
    source.send(blocks, count, |now, bytes, segment_bytes| {
        let mut take = |bytes: &[u8], segment_bytes, is_authentic| {
            let train =
                receive::Train { bytes, segment_bytes, from: SOURCE.into(), drops: Some(0), is_authentic };
            let mut outputs = receiver.take_train(now, train);
            while let Some(output) = outputs.next(&mut buffer) {
                if let receive::Output::Event(receive::Event::Block { dtype, block, .. }) = output {
                    let positions = block.positions(dtype);
                    delivered += positions.end - positions.start;
                }
            }
        };
        let Some(gate) = &mut gate else { return take(bytes, segment_bytes, false) };
        // A copy, as from the kernel: opening changes the bytes.
        received.clear();
        received.extend_from_slice(bytes);
        gate.pass(now, &mut received, segment_bytes, SOURCE.into(), &mut |passed| {
            if let Passed::Train { bytes, segment_bytes, .. } = passed {
                take(bytes, segment_bytes, true);
            }
        });
    });
    receiver.check().expect("the account balances");
    assert_eq!(delivered, source.next_index, "the account closes: everything sent was delivered");
}

/// Writes records without readers.
fn record(payload_bytes: usize, count: usize) {
    let (mut writer, _ring) = ring::ring(RING_BYTES);
    let payload = vec![7_u8; payload_bytes];
    for _ in 0..count {
        writer.write(1, [0, 0], &[&payload]).expect("a small record fits");
    }
}
