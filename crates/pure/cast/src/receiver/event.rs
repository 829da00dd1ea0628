//! Outputs of the receiver: datagrams to send, and the events of its streams.

use core::net::SocketAddr;
use core::ops::Range;
use std::sync::Arc;

use ledger::{Account, Gap};
use sample::Dtype;
use units::{Epoch, Instant, StreamId, WallTime};
use wire::{Clock, Data, DataOrigin, Description, Origin, UpstreamHop};

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
        deadline: Option<Instant>,
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
        /// Origin of a relayed stream: the epoch is then that of its last hop.
        origin: Option<Origin>,
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
    /// The publisher's signed statement about its samples, as it was sent: whoever has the laboratory's public key can
    /// check it. Repetitions in a row are left out.
    Statement {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// Encoding of a `proof::Statement`, if it is one; at most [`wire::MAX_TALLY_STATEMENT_BYTES`].
        bytes: Vec<u8>,
    },
    /// The hops before a relayed stream's own, with their losses since the origin epoch began; whenever they change.
    Upstream {
        /// The stream.
        stream: StreamId,
        /// The relay's epoch.
        epoch: Epoch,
        /// From hop 0 on, which begins at the stream's publisher.
        hops: Vec<UpstreamHop>,
    },
    /// A tally arrived although no samples did: everything below this position was handed over, as a block or a gap.
    Horizon {
        /// The stream.
        stream: StreamId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// Position of the next element.
        position: u64,
        /// Time of the poll that returns it: everything that had arrived by then was handed over.
        at: Instant,
        /// True if the publisher had nothing more when it sent the tally.
        is_idle: bool,
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
    /// When the origin published the first element, by its age on arrival; `None` of a stream that is not relayed, and
    /// of unknown age.
    pub born: Option<Instant>,
    /// The elements, little-endian.
    pub payload: P,
}

impl<'a> Block<&'a [u8]> {
    /// Returns the block of a datagram that has arrived now.
    pub(super) fn of(data: &Data<'a>, now: Instant) -> Self {
        let Data { t0, clock, payload, .. } = *data;
        let born = data.origin.and_then(DataOrigin::age).map(|age| now - age);
        Self { epoch: data.head.epoch, position: data.head.position(), t0, clock, born, payload }
    }
}

impl<P> Block<P> {
    /// Returns the block with its elements in another memory.
    pub(super) fn with<Q>(self, payload: Q) -> Block<Q> {
        let Self { epoch, position, t0, clock, born, .. } = self;
        Block { epoch, position, t0, clock, born, payload }
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
    pub(super) bytes: &'a [u8],
    /// Distance between the starts of two pieces.
    pub(super) segment_bytes: usize,
    /// Size of the header before each piece.
    pub(super) header_bytes: usize,
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
