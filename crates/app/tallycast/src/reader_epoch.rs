//! One epoch of a stream as one subscriber reads it: its account, and the times of its gaps.

use std::collections::VecDeque;

use ledger::{AccountState, Gap, Hop, NetworkRows};
use units::{Epoch, SampleRate, WallTime};
use wire::{Origin, UpstreamHop};

/// Maximum number of remembered anchors, at which times deviated from the rate: each block of a jittering
/// clock is one, and a gap settles within two seconds.
const MAX_ANCHORS: usize = 4_096;
/// Deviation up to which times follow the rate. Units: nanoseconds.
const ROUNDING_NS: u64 = 1_000;

/// Relation of a block's time to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// No time was known before.
    First,
    /// It follows the rate.
    GoOn,
    /// It does not follow the rate: the publisher was delayed, or its clock was set.
    Changed,
}

/// One epoch as a subscriber reads it.
pub(crate) struct ReaderEpoch {
    /// Number of this reader's account of the epoch, from 1.
    pub(crate) join: u32,
    /// This reader's previous account of the stream.
    pub(crate) follows: Option<(Epoch, u32)>,
    /// Origin of the samples, of a relayed stream.
    pub(crate) origin: Option<Origin>,
    /// The hops before this one, as last told.
    pub(crate) upstream: Vec<UpstreamHop>,
    pub(crate) hop: Hop,
    pub(crate) datagrams: Option<NetworkRows>,
    /// Indices and times of samples, from which other times are computed: those of the first sample, and of
    /// each from which on times do not follow the previous ones by the rate. Empty before the first block.
    anchors: VecDeque<(u64, WallTime)>,
    /// True if this reader was lapped since the last record of this epoch.
    pub(crate) lapped: bool,
    pub(crate) ended: bool,
    /// Absence of this reader before this account, until a time for it is known.
    pub(crate) absence: Option<Gap>,
    /// Position in the ring below which its end was written, if it was not overwritten.
    pub(crate) end_by: Option<u64>,
}

impl ReaderEpoch {
    pub(crate) const fn new(hop: Hop) -> Self {
        Self {
            join: 1,
            follows: None,
            origin: None,
            upstream: Vec::new(),
            hop,
            datagrams: None,
            anchors: VecDeque::new(),
            lapped: false,
            ended: false,
            absence: None,
            end_by: None,
        }
    }

    /// Returns the same epoch, whose samples have this origin.
    pub(crate) fn of(self, origin: Option<Origin>) -> Self {
        Self { origin, ..self }
    }

    /// Begins the next account of the same epoch, with the same anchors.
    pub(crate) fn succeeded_by(&self, hop: Hop) -> Self {
        Self {
            join: self.join.saturating_add(1),
            origin: self.origin,
            upstream: self.upstream.clone(),
            anchors: self.anchors.clone(),
            ..Self::new(hop)
        }
    }

    /// Notes the time of a sample; returns its relation to earlier times.
    pub(crate) fn is_at(&mut self, index: u64, time: WallTime, rate: SampleRate) -> Times {
        let times = match self.time_of(index, rate) {
            None => Times::First,
            Some(by_rate) if time.nanos_since(by_rate).unsigned_abs() <= ROUNDING_NS => return Times::GoOn,
            Some(_) => Times::Changed,
        };
        if self.anchors.len() == MAX_ANCHORS {
            self.anchors.pop_front();
        }
        self.anchors.push_back((index, time));
        times
    }

    /// Returns the time of a sample, by the block that contains or precedes it; `None` before the first
    /// block.
    pub(crate) fn time_of(&self, index: u64, rate: SampleRate) -> Option<WallTime> {
        let within = self.anchors.iter().rfind(|(anchor, _)| *anchor <= index);
        within.or(self.anchors.front()).map(|&(anchor, time)| rate.time_of(index, anchor, time))
    }

    /// Ends the account.
    pub(crate) fn end(&mut self, state: AccountState) {
        self.hop.end(state);
        self.ended = true;
    }

    /// Takes the bridge's gaps; returns updates of this reader's own gaps.
    pub(crate) fn learn(&mut self, gaps: &[Gap]) -> Vec<Gap> {
        gaps.iter().filter_map(|gap| self.hop.settled(gap).cloned()).collect()
    }
}
