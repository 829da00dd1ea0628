//! A reader that takes trains keeps the account of one that takes the same datagrams one by one.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use core::time::Duration;

use cast::receive::{self, ReaderIdentity};
use cast::send::{self, Beginning, Pacing, SenderConfig, Sending};
use cast::{Receiver, Sender};
use ledger::{LedgerConfig, Stage};
use sample::{Channel, Dtype, Schema};
use units::{Epoch, Instant, Random, ReaderId, SampleRate, WallTime};
use wire::{Clock, Description};

fn sender(rate: SampleRate, now: Instant) -> Sender {
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
        datagram_bytes: 548,
        linger: Duration::ZERO,
        clock: Clock::System,
        destinations: 1,
        pacing: Pacing::Unlimited { train: 16 },
        sending: Sending::Always,
        beginning: Beginning::Now,
        predecessor: None,
        security: None,
        relayed: None,
        deadline: None,
    };
    Sender::new(config, 1, now).unwrap()
}

/// A reader, and the data delivered to it: positions, each with the first byte of its element.
struct Reader {
    machine: Receiver,
    handed: Vec<(u64, u8)>,
}

fn note(handed: &mut Vec<(u64, u8)>, output: receive::Output<'_>) {
    if let receive::Output::Event(receive::Event::Block { dtype, block, .. }) = output {
        let (positions, payload) = (block.positions(dtype), block.payload);
        let bytes = payload.pieces().collect::<Vec<_>>().concat();
        assert_eq!(
            (bytes.len(), bytes.len() as u64),
            (payload.size_bytes(), (positions.end - positions.start) * 4)
        );
        handed.extend(positions.zip(bytes.into_iter().step_by(4)));
    }
}

impl Reader {
    fn new() -> Self {
        let id = ReaderIdentity { id: ReaderId(1), name: "reader".to_owned(), receive_buffer_bytes: 0 };
        Self { machine: Receiver::new(id, LedgerConfig::default(), 1), handed: Vec::new() }
    }

    fn take(&mut self, now: Instant, input: receive::Input<'_>) {
        self.machine.handle(now, input);
        self.poll(now);
    }

    /// Takes a train, and this many of its outputs in place; the rest is left behind, and must still be returned.
    fn take_train(&mut self, now: Instant, train: receive::Train<'_>, in_place: usize) {
        let mut buffer = [0; 2_048];
        let mut outputs = self.machine.take_train(now, train);
        for _ in 0..in_place {
            let Some(output) = outputs.next(&mut buffer) else { break };
            note(&mut self.handed, output);
        }
        drop(outputs);
        self.poll(now);
    }

    fn poll(&mut self, now: Instant) {
        let mut buffer = [0; 2_048];
        loop {
            match self.machine.poll(now, &mut buffer) {
                receive::Output::Idle { .. } => break,
                output => note(&mut self.handed, output),
            }
        }
        self.machine.check().unwrap();
    }

    fn accounts(&self) -> String {
        let views = self.machine.accounts();
        views.map(|view| format!("{:?} {:?}\n", view.account, view.reclassified)).collect()
    }
}

fn both_keep_one_account(seed: u64) {
    let mut random = Random::new(seed);
    let (rate, from) = (SampleRate::hz(1_000_000).unwrap(), ([10, 0, 0, 1], 7_400).into());
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut sender = sender(rate, now);
    let (mut trains, mut singles) = (Reader::new(), Reader::new());
    let (mut next_index, mut drops) = (0, 0_u32);
    let mut buffer = vec![0; sender.train_bytes()];
    for _ in 0..60 {
        now += Duration::from_millis(1 + random.below(4));
        let size_bytes = 4 * (1 + random.below(1_500) as usize);
        let bytes: Vec<u8> = (0..size_bytes).map(|at| ((next_index + at as u64 / 4) % 251) as u8).collect();
        let t0 = rate.time_of(next_index, 0, WallTime::from_nanos(0));
        sender.handle(now, send::Input::Samples { first_index: next_index, t0, bytes: &bytes });
        next_index += bytes.len() as u64 / 4;
        while let send::Output::Transmit { segment_bytes, size_bytes, .. } = sender.poll(now, &mut buffer) {
            let train = &buffer[..size_bytes];
            // The description has to arrive, or there is no account.
            if next_index > 3_000 && random.chance(0.2) {
                // The socket drops more than this stream's datagrams, or the network loses one without any counter.
                let by_socket = random.chance(0.5);
                drops += if by_socket { train.chunks(segment_bytes).len() as u32 + 5 } else { 0 };
                continue;
            }
            // Losses of another stream of the socket explain no later losses of this one.
            drops += if random.chance(0.2) { 5 } else { 0 };
            let stamp = (drops > 0).then_some(drops);
            let train =
                receive::Train { bytes: train, segment_bytes, from, drops: stamp, is_authentic: false };
            trains.take_train(now, train, random.below(3) as usize);
            for bytes in train.bytes.chunks(segment_bytes) {
                singles.take(now, receive::Input::Datagram { bytes, from, drops: stamp });
            }
            assert_eq!(trains.accounts(), singles.accounts(), "seed {seed}");
        }
    }
    assert!(drops > 0, "seed {seed} lost nothing");
    now += Duration::from_secs(3);
    trains.take(now, receive::Input::Advance);
    singles.take(now, receive::Input::Advance);
    assert_eq!(trains.accounts(), singles.accounts(), "seed {seed}, settled");
    assert_eq!(trains.handed, singles.handed, "seed {seed}");
    assert!(trains.handed.is_sorted_by_key(|(position, _)| *position) && !trains.handed.is_empty());
    let as_sent = |(position, byte): &(u64, u8)| u64::from(*byte) == position % 251;
    assert!(trains.handed.iter().all(as_sent), "seed {seed}");
}

#[test]
fn trains_and_single_datagrams_keep_one_account() {
    (0..40).for_each(both_keep_one_account);
}

/// Adds an unassigned extension behind the header of a data datagram.
fn with_extension(bytes: &[u8], value: &[u8]) -> Vec<u8> {
    let padded = (4 + value.len()).next_multiple_of(8);
    let mut longer = bytes[..80].to_vec();
    longer.extend([200, 0, u8::try_from(value.len()).unwrap(), 0]);
    longer.extend_from_slice(value);
    longer.resize(80 + padded, 0);
    longer[6..8].copy_from_slice(&u16::try_from(80 + padded).unwrap().to_le_bytes());
    longer[8..12].fill(0);
    let crc = crc_fast::crc32_iscsi(&longer);
    longer[8..12].copy_from_slice(&crc.to_le_bytes());
    longer.extend_from_slice(&bytes[80..]);
    longer
}

#[test]
fn trains_of_a_later_version_cost_no_sample() {
    let (rate, from) = (SampleRate::hz(1_000_000).unwrap(), ([10, 0, 0, 1], 7_400).into());
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut sender = sender(rate, now);
    let mut reader = Reader::new();
    let mut buffer = vec![0; sender.train_bytes()];
    let mut next_index = 0;
    for round in 0..50_u8 {
        now += Duration::from_millis(1);
        let bytes: Vec<u8> = (0..1_170 * 4).map(|at| ((next_index + at / 4) % 251) as u8).collect();
        let t0 = rate.time_of(next_index, 0, WallTime::from_nanos(0));
        sender.handle(now, send::Input::Samples { first_index: next_index, t0, bytes: &bytes });
        next_index += 1_170;
        while let send::Output::Transmit { segment_bytes, size_bytes, .. } = sender.poll(now, &mut buffer) {
            let datagrams = buffer[..size_bytes].chunks(segment_bytes);
            let is_data = buffer[3] == wire::Kind::Data.code();
            // A whole train with extensions, or one in which every second datagram has them, with the same size or
            // not.
            let longer = datagrams.enumerate().map(|(index, bytes)| match round % 3 {
                _ if !is_data => bytes.to_vec(),
                0 => with_extension(bytes, &[7; 12]),
                1 if index % 2 == 0 => with_extension(bytes, &[7; 4]),
                _ => bytes.to_vec(),
            });
            let longer: Vec<_> = longer.collect();
            let is_even = longer.iter().all(|bytes| bytes.len() == longer[0].len());
            let train = longer.concat();
            let segment_bytes = if is_even { longer[0].len() } else { usize::MAX };
            if is_even {
                let train =
                    receive::Train { bytes: &train, segment_bytes, from, drops: None, is_authentic: false };
                reader.take_train(now, train, 2);
            } else {
                for bytes in &longer {
                    let train = receive::Train {
                        bytes,
                        segment_bytes: bytes.len(),
                        from,
                        drops: None,
                        is_authentic: false,
                    };
                    reader.take_train(now, train, 2);
                }
            }
        }
    }
    sender.handle(now, send::Input::Finish);
    while let send::Output::Transmit { segment_bytes, size_bytes, .. } = sender.poll(now, &mut buffer) {
        let train = receive::Train {
            bytes: &buffer[..size_bytes],
            segment_bytes,
            from,
            drops: None,
            is_authentic: false,
        };
        reader.take_train(now, train, 2);
    }
    let as_sent: Vec<_> = (0..next_index).map(|position| (position, (position % 251) as u8)).collect();
    assert_eq!(reader.handed, as_sent);
    let account = reader.machine.accounts().next().unwrap().account;
    assert_eq!((account.elements.delivered, account.elements.lost.total()), (next_index, 0));
    assert_eq!(reader.machine.stats().unused().iter().map(|(_, count)| count).sum::<u64>(), 0);
}

#[test]
fn two_bursts_dropped_within_a_batch_and_a_single_datagram_between_them_are_explained() {
    let (rate, from) = (SampleRate::hz(1_000_000).unwrap(), ([10, 0, 0, 1], 7_400).into());
    let now = Instant::from_nanos(1_000_000_000);
    let mut sender = sender(rate, now);
    let mut buffer = vec![0; sender.train_bytes()];
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    // Datagrams of 117 samples: each burst is longer than 65,536 samples.
    for block in 0..3_000 / 16 {
        let (first_index, t0) =
            (block * 16 * 117, rate.time_of(block * 16 * 117, 0, WallTime::from_nanos(0)));
        sender.handle(now, send::Input::Samples { first_index, t0, bytes: &[0; 16 * 117 * 4] });
        while let send::Output::Transmit { segment_bytes, size_bytes, .. } = sender.poll(now, &mut buffer) {
            datagrams.extend(buffer[..size_bytes].chunks(segment_bytes).map(<[u8]>::to_vec));
        }
    }
    let mut reader = Reader::new();
    let mut drops = 0;
    for (index, bytes) in datagrams.iter().enumerate() {
        if (500..2_100).contains(&index) && index != 1_300 {
            drops += 1;
        } else {
            reader.take_train(
                now,
                receive::Train { bytes, segment_bytes: 548, from, drops: Some(drops), is_authentic: false },
                1,
            );
        }
    }
    reader.take(now + Duration::from_secs(3), receive::Input::Advance);
    let view = reader.machine.accounts().next().unwrap();
    let elements = &view.account.elements;
    assert_eq!((elements.lost[Stage::ReceiverSocketBuffer], elements.unexplained), (1_599 * 117, 0));
}
