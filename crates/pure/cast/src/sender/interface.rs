//! What a sender is made for, what it is told, and what it wants done.

use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;

use ledger::Stage;
use units::{Epoch, Instant, WallTime};
use wire::{Clock, Description, Predecessor, Report, Request};

use super::{Beginning, Pacing, Sending};

/// What a sender is made for.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Name, schema, station and where reports go.
    pub description: Description,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// The most bytes in one data datagram.
    pub datagram_bytes: usize,
    /// How long small blocks wait for company; zero: not at all.
    pub linger: Duration,
    /// The clock that times are read from.
    pub clock: Clock,
    /// How many destinations every datagram goes to.
    pub destinations: usize,
    /// How datagrams are spread over time.
    pub pacing: Pacing,
    /// Whether data go out while nobody listens.
    pub sending: Sending,
    /// When the first samples leave.
    pub beginning: Beginning,
    /// The epoch before this one, and how far it came, if the publisher remembers it.
    pub predecessor: Option<Predecessor>,
}

/// What a sender is told.
#[derive(Debug)]
pub enum Input<'a> {
    /// Whole samples, little-endian; indices never go back.
    Samples {
        /// Index of the first.
        first_index: u64,
        /// When it was taken.
        t0: WallTime,
        /// Shape: `[samples, elements per sample]`.
        bytes: &'a [u8],
    },
    /// Samples at the end of a buffer, which the machine may keep: then it leaves another one in its place, of which the
    /// content means nothing.
    SamplesIn {
        /// Index of the first.
        first_index: u64,
        /// When it was taken.
        t0: WallTime,
        /// Shape from `start` on: `[samples, elements per sample]`.
        buffer: &'a mut Vec<u8>,
        /// Where the samples begin.
        start: usize,
    },
    /// Samples that will never come: a hole of the source, or what the ring took back.
    Skipped {
        /// Index of the first.
        first_index: u64,
        /// How many.
        samples: u64,
        /// `Source`, `PublisherQueue` or `PublisherPaused`.
        stage: Stage,
    },
    /// Where this publisher's datagrams may come from; its descriptors list them.
    Addresses(&'a [IpAddr]),
    /// How many bytes wait in the ring behind this machine.
    Backlog(usize),
    /// A datagram that a destination's socket or network did not take.
    Refused {
        /// Which destination.
        destination: usize,
        /// The datagram's number.
        number: u64,
        /// `SenderSocket`, `SenderIp`, `SenderQdisc` or `SenderNic`.
        stage: Stage,
        /// The datagram's size if it did not leave; zero if the network answered that it cannot get there.
        size_bytes: usize,
    },
    /// A reader's report.
    Report {
        /// What it says.
        report: &'a Report,
        /// The address that it came from.
        from: IpAddr,
        /// The size of its datagram.
        size_bytes: usize,
    },
    /// A reader asks for the description or the data, or for the beginning of the epoch.
    Request(&'a Request),
    /// Whether somebody sees what the kernel drops on this host, and tells of it ([`Input::Refused`]).
    Watched(bool),
    /// From now on withhold data datagrams with this probability.
    Inject(f64),
    /// No more samples come: flush, send the final tally, end.
    Finish,
    /// Nothing but the passing of time.
    Advance,
}

/// What a sender wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send the bytes at the start of the buffer: one datagram, or a train of them.
    Transmit {
        /// To which destinations: what is the same for all is written once.
        destinations: Range<usize>,
        /// The numbers of the datagrams, in the order in which they lie in the buffer.
        numbers: Range<u64>,
        /// The size of each datagram but the last, which may be shorter.
        segment_bytes: usize,
        /// The size of all of them.
        size_bytes: usize,
    },
    /// Something the publisher should know.
    Event(SenderEvent),
    /// Nothing to do before the deadline, if there is one.
    Idle {
        /// When to come back at the latest.
        deadline: Option<Instant>,
    },
}

/// Something the publisher should know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SenderEvent {
    /// A reader hears another epoch of this stream that goes on: two publishers share one name.
    TwoPublishers {
        /// The other epoch.
        other: Epoch,
    },
    /// The final tally has been sent: the epoch is over.
    Finished,
}
