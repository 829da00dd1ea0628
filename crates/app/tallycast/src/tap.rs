//! Reading streams record by record: for whoever passes them on rather than uses them.
//!
//! A [`Subscriber`](crate::Subscriber) delivers whole samples. A [`Tap`] delivers what the ring has, as it lies there:
//! pieces of large samples, gaps at their positions, their settlements, statements, accounts. It counts like any reader:
//! records that the ring overwrote before they were read are a gap of stage `reader_lag`.

use std::sync::Arc;
use std::time::Duration;

use engine::News;
use ledger::{AccountState, Gap};
use sample::{StreamName, StreamPattern};
use units::{Epoch, StreamId, WallTime};
use wire::{Clock, Description, Origin, UpstreamHop};

use crate::event::StreamAccount;
use crate::subscriber::Subscriber;

/// A reader of the records of every stream that matches its patterns, including those that begin later.
///
/// One tap reads any number of streams of any sample size.
pub struct Tap {
    subscriber: Subscriber,
}

/// One record of a stream; those of one stream come in its order.
#[derive(Clone, PartialEq, Debug)]
pub struct Tapped {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's epoch, or that of the relay that published it here.
    pub epoch: Epoch,
    /// Content of the record.
    pub record: TapRecord,
}

/// Content of a record.
#[derive(Clone, PartialEq, Debug)]
pub enum TapRecord {
    /// An account was opened: later records of the epoch belong to it.
    Began(TapBeginning),
    /// Elements of the stream: whole samples, or a piece of one.
    Elements(Elements),
    /// Elements that are missing at this position: they follow what came before, in the account, unless the gap's
    /// [kind](ledger::GapKind) is outside accounts.
    Gap(Gap),
    /// Update of a gap told before.
    Settled(Gap),
    /// The hops before a relayed stream's own, with their losses since the origin epoch began.
    Upstream(Vec<UpstreamHop>),
    /// The publisher's signed statement, as it was sent; nothing of it is checked.
    Statement(Vec<u8>),
    /// The account was ended; updates of its gaps may still come.
    Ended(AccountState),
}

/// Beginning of an account.
#[derive(Clone, PartialEq, Debug)]
pub struct TapBeginning {
    /// Name, schema, station, and all that this version does not know.
    pub description: Arc<Description>,
    /// Origin of the samples, of a relayed stream.
    pub origin: Option<Origin>,
    /// Number of the reader's account of this epoch that begins here, from 1.
    pub join: u32,
    /// Position of the first element since joining, the first of a sample.
    pub first_position: u64,
}

/// Elements of a stream as their record has them.
#[derive(Clone, PartialEq, Debug)]
pub struct Elements {
    /// Position of the first.
    pub position: u64,
    /// Time at which the sample that holds the first was taken; of the samples behind it the rate gives the times.
    pub t0: WallTime,
    /// Clock of that time.
    pub clock: Clock,
    /// When the origin published them, by their age on arrival; `None` of a stream that is not relayed, and of unknown
    /// age.
    pub born: Option<units::Instant>,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
    /// Time since this reader, which had read everything, noticed a new record: about the longest that this one can
    /// have been in the ring.
    pub residence: Duration,
}

impl Tap {
    pub(crate) const fn new(subscriber: Subscriber) -> Self {
        Self { subscriber }
    }

    /// Returns the next record, `None` if none has arrived within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Tapped> {
        self.subscriber.next_record(patience, None)
    }

    /// Returns the next record, `None` if none has arrived within `patience` or before there are `news`, which it takes.
    #[doc(hidden)]
    pub fn next_or_news(&mut self, patience: Duration, news: &News) -> Option<Tapped> {
        self.subscriber.next_record(patience, Some(news))
    }

    /// Reads more streams.
    pub fn add_pattern(&mut self, pattern: StreamPattern) {
        self.subscriber.add_pattern(pattern);
    }

    /// Leaves the streams that no other pattern selects; their accounts are cut.
    pub fn remove_pattern(&mut self, pattern: &StreamPattern) {
        self.subscriber.remove_pattern(pattern);
    }

    /// States a deadline for a stream to publishers, beside the one that the tap was opened with, or no other one any more.
    /// The tap delivers records of any age.
    #[doc(hidden)]
    pub fn state_deadline(&mut self, stream: &StreamName, deadline: Option<Duration>) {
        self.subscriber.state_deadline(stream, deadline);
    }

    /// Returns the current accounts of all open epochs, with the counters of their sockets.
    #[must_use]
    pub fn accounts(&self) -> Vec<StreamAccount> {
        self.subscriber.accounts()
    }

    /// Leaves all streams and delivers the remaining records; returns every account: the ended ones, with the last
    /// updates of their gaps, and those cut now.
    #[must_use]
    pub fn close_into(self, take: impl FnMut(Tapped)) -> Vec<StreamAccount> {
        self.subscriber.close_records_into(take)
    }
}
