//! What a subscriber is told.

use std::sync::Arc;
use std::time::Duration;

use engine::PortStatus;
use ledger::{Account, Gap, Reclassified, SampleRows};
use sample::{Block, Schema, StreamName};
use units::{Epoch, StreamId, WallTime};

use crate::host_view::Reach;

/// News of a stream, in the order of the stream.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an account ends once an epoch; events are moved, not kept in bulk"
)]
pub enum Event {
    /// An account was opened: what follows belongs to this epoch of this stream.
    Began(Arc<StreamInfo>),
    /// Samples.
    Block(Block),
    /// Elements that are missing at this place.
    Gap(StreamGap),
    /// News of a gap told before: its stages changed, or the block behind it corrected its end.
    Settled(StreamGap),
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
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// What the samples mean.
    pub schema: Arc<Schema>,
    /// Which station publishes it.
    pub station: String,
    /// Index of the first sample since joining.
    pub first_index: u64,
    /// Which of the reader's accounts of this epoch begins here, from 1 on.
    pub join: u32,
}

/// A gap, and when it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamGap {
    /// The stream's name.
    pub stream: Arc<StreamName>,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Which of the reader's accounts of the epoch it belongs to; a gap outside accounts, the account behind it.
    pub join: u32,
    /// Elements of one sample, to convert the gap's positions.
    pub elements_per_sample: u32,
    /// What is missing, where it was lost, and how that is known.
    pub gap: Gap,
    /// When the first missing sample was taken.
    pub t0: WallTime,
    /// When the first sample behind the gap was taken; extrapolated at the sample rate until that sample arrives.
    pub t1: WallTime,
}

/// A reader's account of one epoch of one stream.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamAccount {
    /// The stream's name.
    pub stream: Arc<StreamName>,
    /// Its identity on the wire.
    pub id: StreamId,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Which of the reader's accounts of the epoch it is, from 1 on: an epoch that falls silent and comes back, or
    /// comes another way, has several.
    pub join: u32,
    /// Epoch and `join` of this reader's account of the stream before it.
    pub follows: Option<(Epoch, u32)>,
    /// The reader.
    pub reader: String,
    /// How the data came.
    pub reach: Reach,
    /// The balance.
    pub account: Account,
    /// The samples by what came of them; `None` where nobody counted them.
    pub samples: Option<SampleRows>,
    /// Moves of settled datagrams from class to class.
    pub reclassified: Vec<Reclassified>,
    /// Gaps that had to settle before their time for evidence was over, because too many waited.
    pub settled_early: u64,
    /// The socket where the data came in, with all that it received.
    pub port: Option<PortStatus>,
    /// How long ago the publisher was last heard.
    pub age: Option<Duration>,
}

impl StreamGap {
    /// Returns the index of the first sample of which an element is missing.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.gap.positions.start / u64::from(self.elements_per_sample)
    }

    /// Returns how many samples miss an element.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.gap.positions.end.div_ceil(u64::from(self.elements_per_sample)) - self.first_index()
    }
}
