//! One epoch of a stream as one subscriber reads it: its account, and when its gaps were.

use ledger::{AccountState, Gap, Leg, NetworkRows};
use units::{Epoch, SampleRate, WallTime};

/// One epoch as a subscriber reads it.
pub(crate) struct Life {
    /// Which of this reader's accounts of the epoch it is, from 1 on.
    pub(crate) join: u32,
    /// This reader's account of the stream before it.
    pub(crate) follows: Option<(Epoch, u32)>,
    pub(crate) leg: Leg,
    pub(crate) datagrams: Option<NetworkRows>,
    /// A sample's index and time, from which other times are computed; none before the first block.
    anchor: Option<(u64, WallTime)>,
    /// The ring overtook this reader since the last record of this epoch.
    pub(crate) lapped: bool,
    pub(crate) ended: bool,
    /// Where this reader was absent before this account, until a time is known to tell it with.
    pub(crate) absence: Option<Gap>,
    /// The place in the ring below which its end was written, if it was not overwritten.
    pub(crate) end_by: Option<u64>,
}

impl Life {
    pub(crate) const fn new(leg: Leg) -> Self {
        Self {
            join: 1,
            follows: None,
            leg,
            datagrams: None,
            anchor: None,
            lapped: false,
            ended: false,
            absence: None,
            end_by: None,
        }
    }

    /// Begins the next account of the same epoch, for which the same times hold.
    pub(crate) fn succeeded_by(&self, leg: Leg) -> Self {
        Self { join: self.join.saturating_add(1), anchor: self.anchor, ..Self::new(leg) }
    }

    /// Learns when a sample was taken; tells whether no time was known before.
    pub(crate) const fn is_at(&mut self, index: u64, time: WallTime) -> bool {
        self.anchor.replace((index, time)).is_none()
    }

    /// Returns when a sample was or will be taken, `None` before the first block.
    pub(crate) fn time_of(&self, index: u64, rate: SampleRate) -> Option<WallTime> {
        self.anchor.map(|(anchor, time)| rate.time_of(index, anchor, time))
    }

    /// Ends the account.
    pub(crate) fn end(&mut self, state: AccountState) {
        self.leg.end(state);
        self.ended = true;
    }

    /// Takes what the bridge knows of gaps; returns what is news of this reader's own.
    pub(crate) fn learn(&mut self, gaps: &[Gap]) -> Vec<Gap> {
        gaps.iter().filter_map(|gap| self.leg.settled(gap).cloned()).collect()
    }
}
