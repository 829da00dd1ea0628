//! Events of a subscriber.

use std::sync::Arc;
use std::time::Duration;

use cast::secure::UnauthenticCounts;
use engine::PortStatus;
use ledger::{Account, Gap, Reclassified, SampleRows};
use sample::{Block, Schema, StreamName};
use units::{Epoch, Instant, StreamId, WallTime};
use wire::{Origin, UpstreamHop};

use crate::host_view::Reach;

/// Event of a stream, in the order of the stream.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an account ends once an epoch; events are moved, not kept in bulk"
)]
pub enum Event {
    /// An account was opened: later events belong to this epoch of this stream.
    Began(Arc<StreamInfo>),
    /// Samples of the stream.
    Block(Block),
    /// Elements that are missing at this position.
    Gap(StreamGap),
    /// Update of a gap reported before: its stages changed, or the block after it corrected its end.
    Settled(StreamGap),
    /// The publisher's signed statement about its samples, as it was sent: an archive keeps it, and whoever has the
    /// laboratory's public key can check it.
    Statement(StreamStatement),
    /// An account was ended.
    Ended(StreamAccount),
}

/// A stream as a subscriber joined it.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamInfo {
    /// Its name.
    pub name: Arc<StreamName>,
    /// Its identity on the wire.
    pub id: StreamId,
    /// The publisher's epoch, or that of the relay that published it here.
    pub epoch: Epoch,
    /// Origin of the samples, of a relayed stream: the epoch that identifies them on every hop.
    pub origin: Option<Origin>,
    /// Schema of the samples.
    pub schema: Arc<Schema>,
    /// Station that publishes it.
    pub station: String,
    /// Index of the first sample since joining.
    pub first_index: u64,
    /// Number of the reader's account of this epoch that begins here, from 1.
    pub join: u32,
}

/// A publisher's signed statement about its samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamStatement {
    /// The stream's name.
    pub stream: Arc<StreamName>,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// The statement as it was sent; nothing of it is checked.
    pub bytes: Vec<u8>,
}

/// How far a stream is known at a time, although no samples arrive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamHorizon {
    /// The stream's name.
    pub stream: Arc<StreamName>,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Origin of the samples, of a relayed stream: its relay may have had nothing because its link was interrupted.
    pub origin: Option<Origin>,
    /// Index of the next sample: all before it were delivered or are missing.
    pub next_index: u64,
    /// Moment at which everything that had arrived was read, by the host's monotonic clock.
    pub at: Instant,
    /// True if the publisher had nothing more.
    pub is_idle: bool,
}

/// A gap, and its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamGap {
    /// The stream's name.
    pub stream: Arc<StreamName>,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Number of the reader's account of the epoch to which it belongs; for a gap outside accounts, that of
    /// the account behind it.
    pub join: u32,
    /// Number of elements of one sample, to convert the gap's positions.
    pub elements_per_sample: u32,
    /// The missing elements, the stages of their loss, and the evidence.
    pub gap: Gap,
    /// Time at which the first missing sample was taken.
    pub t0: WallTime,
    /// Time at which the first sample behind the gap was taken; extrapolated at the sample rate until that
    /// sample arrives.
    pub t1: WallTime,
}

/// A reader's account of one epoch of one stream.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamAccount {
    /// The stream's name.
    pub stream: Arc<StreamName>,
    /// Its identity on the wire.
    pub id: StreamId,
    /// The publisher's epoch, or that of the relay that published it here.
    pub epoch: Epoch,
    /// Origin of the samples, of a relayed stream.
    pub origin: Option<Origin>,
    /// The hops before this one with their losses since the origin epoch began, as last told; empty where nothing was.
    pub upstream: Vec<UpstreamHop>,
    /// Number of the reader's account of the epoch, from 1: an epoch that falls silent and returns, or
    /// changes its reach, has several.
    pub join: u32,
    /// Epoch and `join` of this reader's previous account of the stream.
    pub follows: Option<(Epoch, u32)>,
    /// The reader.
    pub reader: String,
    /// Reach of the data.
    pub reach: Reach,
    /// The balance.
    pub account: Account,
    /// The samples by their outcome; `None` where they were not counted.
    pub samples: Option<SampleRows>,
    /// Moves of settled datagrams from stage to stage.
    pub reclassified: Vec<Reclassified>,
    /// Number of gaps that had to settle before their time for evidence was over, because too many waited.
    pub settled_early: u64,
    /// The receiving socket, with all that it received.
    pub port: Option<PortStatus>,
    /// Time since the last datagram of the publisher.
    pub age: Option<Duration>,
    /// Datagrams in the stream's name that were not taken, of a secured stream; they are no part of the balance.
    pub unauthentic: UnauthenticCounts,
    /// Epochs of a secured stream that this reader joined although their publishers did not answer: only clocks tell
    /// them from recordings.
    pub unconfirmed_epochs: u64,
}

impl StreamGap {
    /// Returns the index of the first sample with a missing element.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.gap.positions.start / u64::from(self.elements_per_sample)
    }

    /// Returns the number of samples with a missing element.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.gap.positions.end.div_ceil(u64::from(self.elements_per_sample)) - self.first_index()
    }
}
