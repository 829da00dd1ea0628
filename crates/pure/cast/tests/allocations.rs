//! No allocation for a datagram that is sent, received, and delivered in order.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use core::num::NonZeroU8;
use core::time::Duration;

use cast::receive::{self, ReaderIdentity};
use cast::send::{self, Beginning, Pacing, Relayed, SenderConfig, Sending};
use cast::{Receiver, Sender};
use ledger::LedgerConfig;
use sample::{Channel, Dtype, Schema};
use units::{Epoch, Instant, ReaderId, SampleRate, WallTime};
use wire::{Clock, Description, Origin};

/// A publisher and a reader without a network between them.
struct Line {
    sender: Sender,
    receiver: Receiver,
    now: Instant,
    next_index: u64,
    rate: SampleRate,
    is_relayed: bool,
    train: Vec<u8>,
    buffer: Vec<u8>,
    datagrams: u64,
    delivered: u64,
}

impl Line {
    fn new(datagram_bytes: usize, relayed: Option<Relayed>) -> Self {
        let rate = SampleRate::hz(1_000_000).unwrap();
        let schema = Schema::new(Dtype::F4, rate, vec![Channel::new("a", "V")]).unwrap();
        let name = "line/a".parse().unwrap();
        let config = SenderConfig {
            description: Description {
                name,
                schema,
                report_port: 0,
                station: "host".to_owned(),
                unknown: sample::UnknownEntries::new(),
            },
            epoch: Epoch { start_ns: 1, incarnation: 1 },
            datagram_bytes,
            linger: Duration::ZERO,
            clock: Clock::System,
            destinations: 1,
            pacing: Pacing::default(),
            sending: Sending::Always,
            beginning: Beginning::Now,
            predecessor: None,
            security: None,
            relayed,
            deadline: None,
        };
        let now = Instant::from_nanos(1_000_000_000);
        let sender = Sender::new(config, 1, now).unwrap();
        let reader = ReaderIdentity { id: ReaderId(1), name: "reader".to_owned(), receive_buffer_bytes: 0 };
        Self {
            train: vec![0; sender.train_bytes()],
            sender,
            receiver: Receiver::new(reader, LedgerConfig::default(), 1),
            now,
            next_index: 0,
            rate,
            is_relayed: relayed.is_some(),
            buffer: vec![0; 2_048],
            datagrams: 0,
            delivered: 0,
        }
    }

    /// Publishes this many blocks, one per millisecond, and reads them; none of the datagrams is a tally or a
    /// description.
    fn run(&mut self, blocks: u32, block: &[u8]) {
        for _ in 0..blocks {
            self.now += Duration::from_micros(10);
            let t0 = self.rate.time_of(self.next_index, 0, WallTime::from_nanos(0));
            let first_index = self.next_index;
            let input = if self.is_relayed {
                let times = send::ElementTimes { t0, clock: Clock::System, born: Some(self.now) };
                send::Input::Elements { position: first_index, times, bytes: block }
            } else {
                send::Input::Samples { first_index, t0, bytes: block }
            };
            self.sender.handle(self.now, input);
            self.next_index += (block.len() / 4) as u64;
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        loop {
            match self.sender.poll(self.now, &mut self.train) {
                send::Output::Transmit { numbers, segment_bytes, size_bytes, .. } => {
                    self.datagrams += numbers.end - numbers.start;
                    let (bytes, from) = (&self.train[..size_bytes], ([10, 0, 0, 1], 7_400).into());
                    let train =
                        receive::Train { bytes, segment_bytes, from, drops: None, is_authentic: false };
                    let mut outputs = self.receiver.take_train(self.now, train);
                    while let Some(output) = outputs.next(&mut self.buffer) {
                        if let receive::Output::Event(receive::Event::Block { dtype, block, .. }) = output {
                            let positions = block.positions(dtype);
                            self.delivered += positions.end - positions.start;
                        }
                    }
                }
                send::Output::Event(_) => {}
                send::Output::Idle { deadline: Some(deadline) }
                    if deadline < self.now + Duration::from_millis(1) =>
                {
                    self.now = deadline;
                }
                send::Output::Idle { .. } => return,
            }
        }
    }
}

#[test]
fn the_steady_path_allocates_nothing() {
    let origin = Origin { epoch: Epoch { start_ns: 9, incarnation: 9 }, hop: NonZeroU8::MIN };
    let relayed = Some(Relayed { origin, first_position: 0 });
    for (datagram_bytes, block_bytes, relayed) in [
        (1_472, 65_536, None),
        (1_472, 4_000, None),
        (548, 4_000, None),
        (100, 2_000, None),
        (1_472, 65_536, relayed),
        (1_472, 1_300, relayed),
        (124, 2_000, relayed),
    ] {
        let mut line = Line::new(datagram_bytes, relayed);
        let block = vec![7; block_bytes];
        // Everything that is kept for reuse exists once the first description and tallies have been sent.
        line.run(400, &block);
        let (before, delivered) = (line.datagrams, line.delivered);
        // Short enough that no tally and no description is due: they are rare, and consist of lists.
        let counted = allocation_counter::measure(|| line.run(16, &block));
        let datagrams = line.datagrams - before;
        assert!(datagrams >= 16 && line.delivered > delivered, "{datagrams} datagrams");
        assert_eq!(counted.count_total, 0, "for {datagrams} datagrams of {datagram_bytes} bytes");
        line.receiver.check().unwrap();
    }
}
