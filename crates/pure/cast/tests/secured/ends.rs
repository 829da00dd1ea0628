//! The two ends of a secured stream, driven millisecond by millisecond: a scene decides what arrives, when and in what order.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use cast::receive::{self, Event, ReaderIdentity};
use cast::secure::{Gate, GateEvent};
use cast::send::{Input, Output, SenderConfig};
use cast::{Receiver, Sender};
use keys::Membership;
use ledger::{Account, LedgerConfig};
use units::{Epoch, Instant, ReaderId, WallTime};
use wire::{Announcement, Datagram};

use crate::group_level::at;
use crate::laboratory::wall;
use crate::nodes::{BLOCK_SAMPLES, take};

/// Address of the publisher.
pub(crate) fn publisher() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7_400))
}

/// A publisher that sends a block of samples when it is told to.
pub(crate) struct Source {
    pub(crate) sender: Sender,
    next_index: u64,
}

/// What a receiver behind a gate got.
pub(crate) struct Listener {
    pub(crate) gate: Gate,
    receiver: Receiver,
    /// Delivered and missing elements, each with its epoch, in the order of the stream.
    pub(crate) delivered: Vec<(Epoch, Range<u64>)>,
    pub(crate) gaps: Vec<String>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) told: Vec<GateEvent>,
}

impl Source {
    pub(crate) fn new(config: SenderConfig, now: Instant) -> Self {
        Self { sender: Sender::new(config, 1, now).unwrap(), next_index: 0 }
    }

    /// Ends the epoch without a final tally, and begins another.
    pub(crate) fn restart(&mut self, mut config: SenderConfig, now: Instant) {
        config.predecessor = Some(self.sender.as_predecessor());
        *self = Self::new(config, now);
    }

    /// Takes a block of samples, which are their own indices.
    pub(crate) fn measure(&mut self, now: Instant) {
        let first_index = self.next_index;
        let samples = first_index..first_index + BLOCK_SAMPLES;
        let bytes: Vec<u8> = samples.flat_map(|index| u32::try_from(index).unwrap().to_le_bytes()).collect();
        let t0 = WallTime::from_nanos(i64::try_from(now.as_nanos()).unwrap());
        self.sender.handle(now, Input::Samples { first_index, t0, bytes: &bytes });
        self.next_index += BLOCK_SAMPLES;
    }

    /// Takes what a reader sent, in clear.
    pub(crate) fn hears(&mut self, now: Instant, bytes: &[u8]) {
        match Datagram::decode(bytes).unwrap() {
            Datagram::Request(request) => self.sender.handle(now, Input::Request(&request)),
            Datagram::Report(report) => {
                let (from, size_bytes) = (publisher().ip(), bytes.len());
                self.sender.handle(now, Input::Report { report: &report, from, size_bytes });
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns what it sends in a millisecond, each datagram with its destinations.
    pub(crate) fn sends(&mut self, millis: u64) -> Vec<(Range<usize>, Vec<u8>)> {
        let (mut now, mut sent, mut buffer) = (at(millis), Vec::new(), vec![0; self.sender.train_bytes()]);
        loop {
            match self.sender.poll(now, &mut buffer) {
                Output::Transmit { destinations, segment_bytes, size_bytes, .. } => {
                    let datagrams = buffer[..size_bytes].chunks(segment_bytes);
                    sent.extend(datagrams.map(|bytes| (destinations.clone(), bytes.to_vec())));
                }
                Output::Event(_) => {}
                Output::Idle { deadline: Some(deadline) } if deadline < at(millis + 1) => {
                    now = deadline.max(now);
                    self.sender.handle(now, Input::Advance);
                }
                Output::Idle { .. } => return sent,
            }
        }
    }
}

impl Listener {
    pub(crate) fn new(membership: &Arc<Membership>, now: Instant) -> Self {
        let identity = ReaderIdentity { id: ReaderId(7), name: "reader".to_owned(), receive_buffer_bytes: 0 };
        Self {
            gate: Gate::new(Arc::clone(membership), now, wall(now), 0x6e6f_6e63_6573),
            receiver: Receiver::new(identity, LedgerConfig::default(), 7),
            delivered: Vec::new(),
            gaps: Vec::new(),
            accounts: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Takes datagrams of one size that came together.
    pub(crate) fn hears(&mut self, now: Instant, train: &[u8], segment_bytes: usize, from: SocketAddr) {
        let Self { gate, receiver, .. } = self;
        gate.pass(now, &mut train.to_vec(), segment_bytes.max(1), from, &mut |passed| {
            take(receiver, now, passed);
        });
        self.receiver.check().unwrap();
    }

    /// Takes an announcement, opened.
    pub(crate) fn hears_announcement(&mut self, now: Instant, announcement: &Announcement) {
        self.receiver.handle(now, receive::Input::Announced { announcement, from: publisher() });
    }

    /// Returns what it sends at `now`, in clear.
    pub(crate) fn sends(&mut self, now: Instant) -> VecDeque<Vec<u8>> {
        let Self { gate, receiver, .. } = self;
        gate.advance(now, &mut |passed| take(receiver, now, passed));
        self.told.extend(core::iter::from_fn(|| gate.next_event()));
        receiver.handle(now, receive::Input::Advance);
        let (mut sent, mut buffer) = (VecDeque::new(), [0; 2_048]);
        loop {
            match self.receiver.poll(now, &mut buffer) {
                receive::Output::Transmit { size_bytes, .. } => sent.push_back(buffer[..size_bytes].to_vec()),
                receive::Output::Event(Event::Block { block, dtype, .. }) => {
                    let (positions, mut expected) = (block.positions(dtype), block.position);
                    for element in block.payload.pieces().flat_map(|piece| piece.chunks_exact(4)) {
                        assert_eq!(u64::from(u32::from_le_bytes(element.try_into().unwrap())), expected);
                        expected += 1;
                    }
                    match self.delivered.last_mut() {
                        Some((epoch, last)) if (*epoch, last.end) == (block.epoch, positions.start) => {
                            last.end = positions.end;
                        }
                        _ => self.delivered.push((block.epoch, positions)),
                    }
                }
                receive::Output::Event(Event::Gap { epoch, gap, .. } | Event::Settled { epoch, gap, .. }) => {
                    self.gaps.push(format!("{epoch:?} {gap:?}"));
                }
                receive::Output::Event(Event::Ended { account, .. }) => self.accounts.push(account),
                receive::Output::Event(_) => {}
                receive::Output::Idle { .. } => {
                    self.receiver.check().unwrap();
                    return sent;
                }
            }
        }
    }

    /// Returns the counters of the receiver behind the gate.
    pub(crate) fn stats(&self) -> receive::ReceiverStats {
        self.receiver.stats()
    }

    /// Returns the number of elements that were delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.iter().map(|(_, positions)| positions.end - positions.start).sum()
    }
}
