//! Outputs of the receiver, in order, until they are polled.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use ledger::{Account, Gap};
use sample::Dtype;
use units::{Epoch, StreamId, WallTime};
use wire::{Clock, Description, Report, Request};

use super::run::Run;

/// An output of the receiver.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "taken one at a time and never stored")]
pub enum Output<'a> {
    /// Send the bytes at the start of the buffer.
    Transmit {
        /// Destination address.
        to: SocketAddr,
        /// Size of the datagram.
        size_bytes: usize,
    },
    /// Event of a stream, in the order of the stream.
    Event(Event<'a>),
    /// Nothing to do before the deadline, if there is one.
    Idle {
        /// Latest time of the next call.
        deadline: Option<units::Instant>,
    },
}

/// Event of a stream.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "taken one at a time; those that are stored are boxed")]
pub enum Event<'a> {
    /// An account was opened: the following events belong to this epoch.
    Began {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// Name, schema, station.
        description: Arc<Description>,
        /// Index of the first sample since joining.
        first_index: u64,
    },
    /// Elements of the stream; every element from the first on is in exactly one block or gap.
    Block {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The elements' positions.
        positions: Range<u64>,
        /// Time of the sample that holds the first element.
        t0: WallTime,
        /// Clock of `t0`.
        clock: Clock,
        /// Type of the elements.
        dtype: Dtype,
        /// Elements, little-endian.
        payload: Payload<'a>,
    },
    /// Elements that are missing at this position of the stream.
    Gap {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The gap in its current state.
        gap: Gap,
    },
    /// The stages of a gap reported before have changed.
    Settled {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The gap in its current state.
        gap: Gap,
    },
    /// The account was closed, cut, or left unconfirmed with nothing pending.
    Ended {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The account in its current state.
        account: Account,
    },
    /// Datagrams in the name of an epoch arrive from an address that is not believed for it. Reported once, until the
    /// epoch moves.
    Imposter {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The believed address.
        believed: SocketAddr,
        /// Source address of the other datagrams.
        imposter: SocketAddr,
    },
    /// Datagrams of an unknown version of the protocol arrive. Reported once per receiver.
    UnknownVersion {
        /// The version.
        version: u8,
        /// Their source address.
        from: SocketAddr,
    },
    /// A replaced epoch continues: two publishers share one name.
    TwoPublishers {
        /// The stream.
        stream: StreamId,
        /// The current epoch.
        winner: Epoch,
        /// The epoch that should have ended.
        other: Epoch,
    },
}

/// The elements of a block in place: contiguous, or after the header of each datagram of a train.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    /// Distance between the starts of two pieces.
    segment_bytes: usize,
    /// Size of the header before each piece.
    header_bytes: usize,
}

impl<'a> Payload<'a> {
    /// Returns contiguous elements as one piece.
    #[must_use]
    pub const fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, segment_bytes: usize::MAX, header_bytes: 0 }
    }

    /// Returns the pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let header_bytes = self.header_bytes;
        self.bytes.chunks(self.segment_bytes).map(move |segment| &segment[header_bytes..])
    }

    /// Returns the total size of all pieces.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.bytes.len() - self.bytes.len().div_ceil(self.segment_bytes) * self.header_bytes
    }
}

/// Outputs in order, with the payloads they borrow.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    items: VecDeque<Item>,
    payloads: Vec<u8>,
}

#[derive(Debug)]
enum Item {
    Block(BlockItem, Place),
    Event(Box<Event<'static>>),
    Report(SocketAddr, Box<Report>),
    Request(SocketAddr, Request),
}

/// Location of a block's payload.
#[derive(Clone, Debug)]
enum Place {
    /// Range of the kept payloads.
    Kept(Range<usize>),
    /// Range of the current train; the elements follow the header of each of its datagrams.
    InTrain { bytes: Range<usize>, segment_bytes: usize, header_bytes: usize },
}

/// A block without its payload.
#[derive(Clone, Debug)]
pub(super) struct BlockItem {
    pub(super) stream: StreamId,
    pub(super) epoch: Epoch,
    pub(super) positions: Range<u64>,
    pub(super) t0: WallTime,
    pub(super) clock: Clock,
    pub(super) dtype: Dtype,
}

impl Place {
    fn payload<'a>(&self, train: &'a [u8], kept: &'a [u8]) -> Payload<'a> {
        match self {
            Self::Kept(bytes) => Payload::whole(&kept[bytes.clone()]),
            Self::InTrain { bytes, segment_bytes, header_bytes } => Payload {
                bytes: &train[bytes.clone()],
                segment_bytes: *segment_bytes,
                header_bytes: *header_bytes,
            },
        }
    }
}

impl Outbox {
    /// Adds a block and keeps its payload.
    pub(super) fn block(&mut self, block: BlockItem, payload: &[u8]) {
        if self.items.is_empty() {
            self.payloads.clear();
        }
        let start = self.payloads.len();
        self.payloads.extend_from_slice(payload);
        self.items.push_back(Item::Block(block, Place::Kept(start..self.payloads.len())));
    }

    /// Adds a block whose payload stays in the current train until [`leave_train`](Self::leave_train).
    pub(super) fn run(&mut self, block: BlockItem, run: &Run<'_>) {
        let (bytes, segment_bytes, header_bytes) = (run.place(), run.segment_bytes(), run.header_bytes());
        self.items.push_back(Item::Block(block, Place::InTrain { bytes, segment_bytes, header_bytes }));
    }

    /// Copies payloads that are still in a train.
    pub(super) fn leave_train(&mut self, train: &[u8]) {
        if self.items.is_empty() {
            // The usual case: all outputs were taken.
            self.payloads.clear();
            return;
        }
        if !self.items.iter().any(|item| matches!(item, Item::Block(_, Place::Kept(_)))) {
            self.payloads.clear();
        }
        for item in &mut self.items {
            if let Item::Block(_, place @ Place::InTrain { .. }) = item {
                let start = self.payloads.len();
                for piece in place.payload(train, &[]).pieces() {
                    self.payloads.extend_from_slice(piece);
                }
                *place = Place::Kept(start..self.payloads.len());
            }
        }
    }

    pub(super) fn event(&mut self, event: Event<'static>) {
        self.items.push_back(Item::Event(Box::new(event)));
    }

    /// Sends a report to a publisher, unless it takes no reports (port 0).
    pub(super) fn report(&mut self, to: SocketAddr, report: Report) {
        if to.port() != 0 {
            self.items.push_back(Item::Report(to, Box::new(report)));
        }
    }

    /// Sends a request to a publisher, unless it takes no requests (port 0).
    pub(super) fn request(&mut self, to: SocketAddr, request: Request) {
        if to.port() != 0 {
            self.items.push_back(Item::Request(to, request));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns whether the next output is an event.
    pub(super) fn has_news(&self) -> bool {
        matches!(self.items.front(), Some(Item::Block(..) | Item::Event(_)))
    }

    /// Takes the oldest output; a datagram is written to the start of `buffer`. Payloads may be in `train`.
    pub(super) fn take<'a>(&'a mut self, buffer: &mut [u8], train: &'a [u8]) -> Option<Output<'a>> {
        let transmit = |to, encoded: Result<usize, wire::BufferTooSmall>| {
            // The caller chose a buffer too small for a report, which is therefore not sent.
            encoded.ok().map(|size_bytes| Output::Transmit { to, size_bytes })
        };
        while let Some(item) = self.items.pop_front() {
            let output = match item {
                Item::Event(event) => Some(Output::Event(*event)),
                Item::Report(to, report) => transmit(to, report.encode(buffer)),
                Item::Request(to, request) => transmit(to, request.encode(buffer)),
                Item::Block(block, place) => {
                    let BlockItem { stream, epoch, positions, t0, clock, dtype } = block;
                    let payload = place.payload(train, &self.payloads);
                    return Some(Output::Event(Event::Block {
                        stream,
                        epoch,
                        positions,
                        t0,
                        clock,
                        dtype,
                        payload,
                    }));
                }
            };
            if output.is_some() {
                return output;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: BlockItem = BlockItem {
        stream: StreamId(1),
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        positions: 0..1,
        t0: WallTime::from_nanos(0),
        clock: Clock::System,
        dtype: Dtype::U8,
    };

    /// A gap followed by the block that waited for it, as after every loss.
    #[test]
    fn what_was_taken_leaves_no_memory_behind() {
        let mut out = Outbox::default();
        for _ in 0..1_000 {
            out.event(Event::TwoPublishers { stream: StreamId(1), winner: BLOCK.epoch, other: BLOCK.epoch });
            out.block(BLOCK, &[7; 1_000]);
            while out.take(&mut [0; 2_000], &[]).is_some() {}
            out.leave_train(&[]);
        }
        assert!(out.payloads.capacity() < 10_000, "{} bytes", out.payloads.capacity());
    }
}
