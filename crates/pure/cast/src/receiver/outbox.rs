//! Queue of the receiver's outputs until they are polled.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::VecDeque;

use sample::Dtype;
use units::{Instant, StreamId};
use wire::{Report, Request};

use super::event::{Block, Event, Output, Payload};
use super::run::Run;

/// Outputs in order, with the payloads they borrow.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    items: VecDeque<Item>,
    payloads: Vec<u8>,
    /// Streams whose horizon is to be told at the next poll, each once.
    owed: Vec<StreamId>,
}

#[derive(Debug)]
enum Item {
    Block(Elements, Block<Place>),
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
pub(super) type Elements = (StreamId, Dtype);

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
    pub(super) fn block(&mut self, elements: Elements, block: Block<&[u8]>) {
        if self.items.is_empty() {
            self.payloads.clear();
        }
        let start = self.payloads.len();
        self.payloads.extend_from_slice(block.payload);
        self.items.push_back(Item::Block(elements, block.with(Place::Kept(start..self.payloads.len()))));
    }

    /// Adds a block whose payload stays in the current train until [`leave_train`](Self::leave_train).
    pub(super) fn run(&mut self, now: Instant, elements: Elements, run: &Run<'_>) {
        let (bytes, segment_bytes, header_bytes) = (run.place(), run.segment_bytes(), run.header_bytes());
        let payload = Place::InTrain { bytes, segment_bytes, header_bytes };
        self.items.push_back(Item::Block(elements, Block::of(&run.first, now).with(payload)));
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

    /// Notes that the horizon of a stream is to be told once nothing is unread or in flight.
    pub(super) fn owe_horizon(&mut self, stream: StreamId) {
        self.owed.push(stream);
    }

    /// Takes the streams whose horizons are to be told.
    pub(super) fn take_owed(&mut self) -> Vec<StreamId> {
        core::mem::take(&mut self.owed)
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
    use units::{Epoch, WallTime};
    use wire::Clock;

    use super::*;

    const ORIGIN: Elements = (StreamId(1), Dtype::U8);
    const BLOCK: Block<&[u8]> = Block {
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        position: 0,
        t0: WallTime::from_nanos(0),
        clock: Clock::System,
        born: None,
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
