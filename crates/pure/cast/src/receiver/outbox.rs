//! What the receiver has to say, in order, until it is polled.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use ledger::{Account, Gap};
use sample::Dtype;
use units::{Epoch, StreamId, WallTime};
use wire::{Clock, Description, Report, Request};

use super::run::Run;

/// What a receiver wants done.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "taken one at a time and never stored")]
pub enum Output<'a> {
    /// Send the bytes at the start of the buffer.
    Transmit {
        /// To whom.
        to: SocketAddr,
        /// The datagram's size.
        size_bytes: usize,
    },
    /// News of a stream, in the order of the stream.
    Event(Event<'a>),
    /// Nothing to do before the deadline, if there is one.
    Idle {
        /// When to come back at the latest.
        deadline: Option<units::Instant>,
    },
}

/// News of a stream.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "taken one at a time; those that are stored are boxed")]
pub enum Event<'a> {
    /// An account was opened: what follows belongs to this epoch.
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
        /// When the sample that holds the first element was taken.
        t0: WallTime,
        /// The clock that `t0` was read from.
        clock: Clock,
        /// The type of every element.
        dtype: Dtype,
        /// The elements, little-endian.
        payload: Payload<'a>,
    },
    /// Elements that are missing at this place of the stream.
    Gap {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The gap as it stands now.
        gap: Gap,
    },
    /// News of a gap told before: its stages changed.
    Settled {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The gap as it stands now.
        gap: Gap,
    },
    /// The account was closed, cut, or left unconfirmed with nothing pending.
    Ended {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The account as it stands now.
        account: Account,
    },
    /// Datagrams in the name of an epoch come from an address that the epoch is not believed from. Reported once, until the
    /// epoch moves.
    Imposter {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// Where it is.
        believed: SocketAddr,
        /// Where the others come from.
        imposter: SocketAddr,
    },
    /// Somebody sends in a version of the protocol that this one does not know: told once for each receiver.
    UnknownVersion {
        /// The version.
        version: u8,
        /// Who sends it.
        from: SocketAddr,
    },
    /// A replaced epoch goes on numbering: two publishers share one name.
    TwoPublishers {
        /// The stream.
        stream: StreamId,
        /// The current epoch.
        winner: Epoch,
        /// The one that should have ended.
        other: Epoch,
    },
}

/// The elements of a block where they lie: in one piece, or behind the header of each datagram of a train.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    /// How far one piece begins behind the one before.
    segment_bytes: usize,
    /// What stands before each piece.
    header_bytes: usize,
}

impl<'a> Payload<'a> {
    /// Returns elements that lie one behind the other.
    #[must_use]
    pub const fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, segment_bytes: usize::MAX, header_bytes: 0 }
    }

    /// Returns the pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let header_bytes = self.header_bytes;
        self.bytes.chunks(self.segment_bytes).map(move |segment| &segment[header_bytes..])
    }

    /// Returns how many bytes all pieces have.
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

/// Where the payload of a block lies.
#[derive(Clone, Debug)]
enum Place {
    /// Among the payloads that are kept.
    Kept(Range<usize>),
    /// In the train that is being taken, behind the header of each of its datagrams.
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
    /// Hands over a block.
    pub(super) fn block(&mut self, block: BlockItem, payload: &[u8]) {
        if self.items.is_empty() {
            self.payloads.clear();
        }
        let start = self.payloads.len();
        self.payloads.extend_from_slice(payload);
        self.items.push_back(Item::Block(block, Place::Kept(start..self.payloads.len())));
    }

    /// Hands over a block that lies in the train that is being taken: until that has been [left](Self::leave_train).
    pub(super) fn run(&mut self, block: BlockItem, run: &Run<'_>) {
        let (bytes, segment_bytes, header_bytes) = (run.place(), run.segment_bytes(), run.header_bytes());
        self.items.push_back(Item::Block(block, Place::InTrain { bytes, segment_bytes, header_bytes }));
    }

    /// Keeps what still lies in a train.
    pub(super) fn leave_train(&mut self, train: &[u8]) {
        if self.items.is_empty() {
            // As ever: all outputs were taken.
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

    /// Reports to a publisher, unless it wants no reports (port 0).
    pub(super) fn report(&mut self, to: SocketAddr, report: Report) {
        if to.port() != 0 {
            self.items.push_back(Item::Report(to, Box::new(report)));
        }
    }

    /// Asks a publisher, unless it wants no requests (port 0).
    pub(super) fn request(&mut self, to: SocketAddr, request: Request) {
        if to.port() != 0 {
            self.items.push_back(Item::Request(to, request));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Tells whether the next output is an event.
    pub(super) fn has_news(&self) -> bool {
        matches!(self.items.front(), Some(Item::Block(..) | Item::Event(_)))
    }

    /// Takes the oldest output; a datagram is written to the start of `buffer`. Blocks may lie in `train`.
    pub(super) fn take<'a>(&'a mut self, buffer: &mut [u8], train: &'a [u8]) -> Option<Output<'a>> {
        let transmit = |to, encoded: Result<usize, wire::BufferTooSmall>| {
            // A buffer that is too small for a report is the caller's choice of datagram size: leave it out.
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

    /// A gap first, then what waited for it: as after every loss.
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
