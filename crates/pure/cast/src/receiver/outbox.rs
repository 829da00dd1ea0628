//! Outputs of the receiver, in order, until they are polled.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use ledger::{Account, Gap};
use sample::Dtype;
use units::{Epoch, StreamId, WallTime};
use wire::{Clock, Data, Description, Report, Request};

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
        /// Type of the elements.
        dtype: Dtype,
        /// The elements.
        block: Block<Payload<'a>>,
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

/// Consecutive elements of an epoch; `P` is their memory: in the datagrams that brought them, kept, or in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block<P> {
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Position of the first element.
    pub position: u64,
    /// Time at which the sample that holds the first element was taken.
    pub t0: WallTime,
    /// Clock of `t0`.
    pub clock: Clock,
    /// The elements, little-endian.
    pub payload: P,
}

impl<P> Block<P> {
    /// Returns the block with its elements in another memory.
    pub(super) fn with<Q>(self, payload: Q) -> Block<Q> {
        let Self { epoch, position, t0, clock, .. } = self;
        Block { epoch, position, t0, clock, payload }
    }
}

impl Block<Payload<'_>> {
    /// Returns the positions of the elements, which have this type.
    #[must_use]
    pub const fn positions(&self, dtype: Dtype) -> Range<u64> {
        let elements = self.payload.size_bytes() / dtype.size_bytes();
        self.position..self.position.saturating_add(elements as u64)
    }
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
    Block(Origin, Block<Place>),
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

/// The stream of a block, and the type of its elements.
pub(super) type Origin = (StreamId, Dtype);

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

/// Returns the block of a datagram.
pub(super) const fn block_of<'a>(data: &Data<'a>) -> Block<&'a [u8]> {
    let Data { t0, clock, payload, .. } = *data;
    Block { epoch: data.head.epoch, position: data.head.position(), t0, clock, payload }
}

impl Outbox {
    /// Adds a block and keeps its payload.
    pub(super) fn block(&mut self, origin: Origin, block: Block<&[u8]>) {
        if self.items.is_empty() {
            self.payloads.clear();
        }
        let start = self.payloads.len();
        self.payloads.extend_from_slice(block.payload);
        self.items.push_back(Item::Block(origin, block.with(Place::Kept(start..self.payloads.len()))));
    }

    /// Adds a block whose payload stays in the current train until [`leave_train`](Self::leave_train).
    pub(super) fn run(&mut self, origin: Origin, run: &Run<'_>) {
        let (bytes, segment_bytes, header_bytes) = (run.place(), run.segment_bytes(), run.header_bytes());
        let payload = Place::InTrain { bytes, segment_bytes, header_bytes };
        self.items.push_back(Item::Block(origin, block_of(&run.first).with(payload)));
    }

    /// Copies payloads that are still in a train.
    pub(super) fn leave_train(&mut self, train: &[u8]) {
        if self.items.is_empty() {
            // The usual case: all outputs were taken.
            self.payloads.clear();
            return;
        }
        if !self
            .items
            .iter()
            .any(|item| matches!(item, Item::Block(_, Block { payload: Place::Kept(_), .. })))
        {
            self.payloads.clear();
        }
        for item in &mut self.items {
            if let Item::Block(_, Block { payload: place @ Place::InTrain { .. }, .. }) = item {
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
                Item::Block((stream, dtype), block) => {
                    let payload = block.payload.payload(train, &self.payloads);
                    return Some(Output::Event(Event::Block { stream, dtype, block: block.with(payload) }));
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

    const ORIGIN: Origin = (StreamId(1), Dtype::U8);
    const BLOCK: Block<&[u8]> = Block {
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        position: 0,
        t0: WallTime::from_nanos(0),
        clock: Clock::System,
        payload: &[7; 1_000],
    };

    /// A gap followed by the block that waited for it, as after every loss.
    #[test]
    fn what_was_taken_leaves_no_memory_behind() {
        let mut out = Outbox::default();
        for _ in 0..1_000 {
            out.event(Event::TwoPublishers { stream: StreamId(1), winner: BLOCK.epoch, other: BLOCK.epoch });
            out.block(ORIGIN, BLOCK);
            while out.take(&mut [0; 2_000], &[]).is_some() {}
            out.leave_train(&[]);
        }
        assert!(out.payloads.capacity() < 10_000, "{} bytes", out.payloads.capacity());
    }
}
