//! One epoch of a stream as one subscriber reads it: its account, and when its gaps were.

use std::collections::VecDeque;

use ledger::{AccountState, Gap, Hop, NetworkRows};
use units::{Epoch, SampleRate, WallTime};

/// The most places that are remembered at which times went on otherwise than by the rate: each block of a jittering clock is one,
/// and a gap settles within two seconds.
const MAX_ANCHORS: usize = 4_096;
/// Times that differ by so much go on by the rate. Units: nanoseconds.
const ROUNDING_NS: u64 = 1_000;

/// What a block's time says of those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// No time was known before.
    First,
    /// It follows by the rate.
    GoOn,
    /// It does not follow by the rate: the publisher was held up, or its clock was set.
    Changed,
}

/// One epoch as a subscriber reads it.
pub(crate) struct ReaderEpoch {
    /// Which of this reader's accounts of the epoch it is, from 1 on.
    pub(crate) join: u32,
    /// This reader's account of the stream before it.
    pub(crate) follows: Option<(Epoch, u32)>,
    pub(crate) hop: Hop,
    pub(crate) datagrams: Option<NetworkRows>,
    /// Samples' indices and times, from which other times are computed: of the first sample, and of each from which on times do
    /// not follow those before by the rate. None before the first block.
    anchors: VecDeque<(u64, WallTime)>,
    /// The ring overtook this reader since the last record of this epoch.
    pub(crate) lapped: bool,
    pub(crate) ended: bool,
    /// Where this reader was absent before this account, until a time is known to tell it with.
    pub(crate) absence: Option<Gap>,
    /// The place in the ring below which its end was written, if it was not overwritten.
    pub(crate) end_by: Option<u64>,
}

impl ReaderEpoch {
    pub(crate) const fn new(hop: Hop) -> Self {
        Self {
            join: 1,
            follows: None,
            hop,
            datagrams: None,
            anchors: VecDeque::new(),
            lapped: false,
            ended: false,
            absence: None,
            end_by: None,
        }
    }

    /// Begins the next account of the same epoch, for which the same times hold.
    pub(crate) fn succeeded_by(&self, hop: Hop) -> Self {
        Self { join: self.join.saturating_add(1), anchors: self.anchors.clone(), ..Self::new(hop) }
    }

    /// Learns when a sample was taken; tells what that says of times.
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

    /// Returns when a sample was or will be taken, by the block that it is in or behind; `None` before the first block.
    pub(crate) fn time_of(&self, index: u64, rate: SampleRate) -> Option<WallTime> {
        let within = self.anchors.iter().rfind(|(anchor, _)| *anchor <= index);
        within.or(self.anchors.front()).map(|&(anchor, time)| rate.time_of(index, anchor, time))
    }

    /// Ends the account.
    pub(crate) fn end(&mut self, state: AccountState) {
        self.hop.end(state);
        self.ended = true;
    }

    /// Takes what the bridge knows of gaps; returns what is news of this reader's own.
    pub(crate) fn learn(&mut self, gaps: &[Gap]) -> Vec<Gap> {
        gaps.iter().filter_map(|gap| self.hop.settled(gap).cloned()).collect()
    }
}
