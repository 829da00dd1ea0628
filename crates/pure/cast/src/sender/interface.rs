//! Configuration, inputs and outputs of a sender.

use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

use keys::Membership;
use ledger::{Cause, HopCounts, Stage};
use units::{Epoch, Instant, WallTime};
use wire::{Clock, Deadline, Description, Predecessor, Report, Request, UpstreamHop};

use super::{Beginning, ElementTimes, Pacing, Relayed, SenderSecurity, Sending};

/// Configuration of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Name, schema, station and where reports go.
    pub description: Description,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Maximum size of a data datagram; with `security` at least [`wire::SECURED_DATA_BYTES`] more than
    /// [`wire::MIN_DATA_BYTES`], with `relayed` [`wire::ORIGIN_BYTES`] more.
    pub datagram_bytes: usize,
    /// Maximum time that small blocks wait for more samples; zero: they do not wait.
    pub linger: Duration,
    /// Clock of the samples' times.
    pub clock: Clock,
    /// Number of destinations of every datagram.
    pub destinations: usize,
    /// Spreading of datagrams over time.
    pub pacing: Pacing,
    /// Condition under which data are sent.
    pub sending: Sending,
    /// Start of sending the first samples.
    pub beginning: Beginning,
    /// Identity and end of the previous epoch, if the publisher remembers it.
    pub predecessor: Option<Predecessor>,
    /// Keys of a secured stream; `None`: the stream is clear.
    pub security: Option<SenderSecurity>,
    /// Origin and beginning of a relayed stream; `None`: the sender is the stream's publisher.
    pub relayed: Option<Relayed>,
    /// Time for which samples are of use, for descriptors.
    pub deadline: Option<Deadline>,
}

/// An input of a sender.
#[derive(Debug)]
pub enum Input<'a> {
    /// Whole samples, little-endian; indices never go back.
    Samples {
        /// Index of the first sample.
        first_index: u64,
        /// Time of the first sample.
        t0: WallTime,
        /// Shape: `[samples, elements per sample]`.
        bytes: &'a [u8],
    },
    /// Samples at the end of a buffer. The machine may keep the buffer and leave another one with meaningless
    /// content.
    SamplesIn {
        /// Index of the first sample.
        first_index: u64,
        /// Time of the first sample.
        t0: WallTime,
        /// Shape from `start` on: `[samples, elements per sample]`.
        buffer: &'a mut Vec<u8>,
        /// Offset of the samples.
        start: usize,
    },
    /// Samples that will never come: a hole of the source, or samples overwritten in the ring.
    Skipped {
        /// Index of the first sample.
        first_index: u64,
        /// Number of samples.
        samples: u64,
        /// `Source`, `PublisherQueue` or `PublisherPaused`.
        stage: Stage,
    },
    /// Elements of a relayed stream, little-endian, at the positions of its publisher: position = index × elements per
    /// sample + element. Blocks may begin and end inside a sample.
    Elements {
        /// Position of the first element: [`next_position`](super::Sender::next_position).
        position: u64,
        /// Their times.
        times: ElementTimes,
        /// Shape: `[elements]`.
        bytes: &'a [u8],
    },
    /// Elements of a relayed stream that were lost between the relay and its sender.
    SkippedElements {
        /// The positions, from [`next_position`](super::Sender::next_position) on.
        positions: Range<u64>,
        /// `PublisherQueue` or `PublisherPaused`.
        stage: Stage,
    },
    /// Elements of a relayed stream that were missing when they arrived: on this hop they are lost in stage `source`.
    Inherited {
        /// The positions, from [`next_position`](super::Sender::next_position) on.
        positions: Range<u64>,
        /// Their outcomes on the hops before, as many as there are positions, in the order of these.
        shares: &'a HopCounts,
        /// Why the link before gave up those that it lost at stage `deadline`, if that is known.
        cause: Option<Cause>,
    },
    /// New outcomes of elements that were [`Inherited`](Self::Inherited): tallies list them again.
    Settled {
        /// The positions.
        positions: Range<u64>,
        /// Their outcomes, as above.
        shares: &'a HopCounts,
    },
    /// Losses on each of the hops before, from hop 0 on, of all elements passed in so far, since the origin epoch began:
    /// told in every tally from then on.
    Upstream(Vec<UpstreamHop>),
    /// A signed statement of digests about the samples so far, of at most [`wire::MAX_TALLY_STATEMENT_BYTES`]: it is
    /// sent in the next tally that has room for it. The last one is also in the final tally.
    Statement(&'a [u8]),
    /// Possible source addresses of this publisher's datagrams, for its descriptors.
    Addresses(&'a [IpAddr]),
    /// Number of bytes waiting in the ring.
    Backlog(usize),
    /// A datagram that a destination's socket or network did not take.
    Refused {
        /// Index of the destination.
        destination: usize,
        /// The datagram's number.
        number: u64,
        /// `SenderSocket`, `SenderIp`, `SenderQdisc` or `SenderNic`.
        stage: Stage,
        /// Size of a datagram that did not leave; zero if the network reported the destination unreachable.
        size_bytes: usize,
    },
    /// A reader's report.
    Report {
        /// The report.
        report: &'a Report,
        /// Source address.
        from: IpAddr,
        /// Size of its datagram.
        size_bytes: usize,
    },
    /// A reader asks for the description or the data, or for the beginning of the epoch.
    Request(&'a Request),
    /// Other secrets or another certificate, of a secured stream only; repeated to correct the sender's UTC.
    Membership {
        /// The present membership.
        membership: &'a Arc<Membership>,
        /// UTC now.
        wall: WallTime,
    },
    /// True if a reporter sees kernel drops on this host and passes them on ([`Input::Refused`]).
    Watched(bool),
    /// Withholds data datagrams with this probability from now on.
    Inject(f64),
    /// No more samples come: flush, send the final tally, end.
    Finish,
    /// Time has passed.
    Advance,
}

/// An output of a sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send the bytes at the start of the buffer: one datagram, or a train of them.
    Transmit {
        /// Indices of the destinations: a datagram that is the same for all is written once.
        destinations: Range<usize>,
        /// Numbers of the datagrams, in the order of the buffer.
        numbers: Range<u64>,
        /// Size of each datagram; the last may be shorter.
        segment_bytes: usize,
        /// Size of all datagrams.
        size_bytes: usize,
    },
    /// Event for the publisher.
    Event(SenderEvent),
    /// Nothing to do before the deadline, if there is one.
    Idle {
        /// Latest time of the next call.
        deadline: Option<Instant>,
    },
}

/// Event for the publisher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SenderEvent {
    /// A reader receives another epoch of this stream that continues: two publishers share one name.
    TwoPublishers {
        /// The other epoch.
        other: Epoch,
    },
    /// The final tally has been sent: the epoch is over.
    Finished,
}
