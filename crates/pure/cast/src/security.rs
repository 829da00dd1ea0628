//! The border between secured datagrams and the machines, which know plain ones only.
//!
//! [`Gate`] opens the datagrams of streams in front of a receiver. [`ControlSealer`] and [`ControlOpener`] secure and
//! open datagrams without a number: reports, requests and announcements. Nothing that is not authentic and new gets
//! past; it is counted by [reason](UnauthenticCounts), outside the law of the accounts.
//!
//! Source: `docs/protocol/security.md`.

mod control;
mod epoch_keys;
mod gate;
mod held;
mod joining;
mod rivalry;
mod window;

use serde::Serialize;
use units::{Instant, WallTime};

pub use control::{ControlOpener, ControlSealer};
pub use gate::{Gate, GateEvent, GateStats, Passed};

/// Field `destination` of a secured tally, with which its key varies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TallyFor {
    /// Index of the destination.
    pub(crate) index: u16,
    /// Number of final tallies before this one that told the destination less; 0 in all other tallies.
    pub(crate) revision: u16,
}

impl TallyFor {
    /// Maximum number of destinations of a secured stream; the rest of the field is for the revision.
    pub(crate) const MAX_DESTINATIONS: u16 = 4_096;

    /// Returns the tallies for the destination with this index.
    ///
    /// # Panics
    /// If there are more than 4,096 destinations.
    pub(crate) fn destination(index: usize, revision: u16) -> Self {
        let index = u16::try_from(index).ok().filter(|index| *index < Self::MAX_DESTINATIONS);
        Self { index: index.expect("a stream has few destinations"), revision }
    }

    pub(crate) const fn from_code(code: u16) -> Self {
        Self { index: code % Self::MAX_DESTINATIONS, revision: code / Self::MAX_DESTINATIONS }
    }

    pub(crate) const fn code(self) -> u16 {
        self.index + self.revision * Self::MAX_DESTINATIONS
    }
}

/// UTC as a machine knows it: by one moment, which its driver renews.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Utc {
    pub(crate) at: Instant,
    pub(crate) wall: WallTime,
}

impl Utc {
    /// Returns UTC at `now`.
    pub(crate) fn at(self, now: Instant) -> WallTime {
        self.wall.offset(i64::try_from(now.since(self.at).as_nanos()).unwrap_or(i64::MAX))
    }
}

/// Reason why a datagram is not taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Unauthentic {
    /// Secured with a secret that this member does not have.
    #[error("no key")]
    NoKey,
    /// Made without the secret, or changed on the way.
    #[error("bad tag")]
    BadTag,
    /// Received before, of an epoch that is over, or recorded earlier.
    #[error("replayed")]
    Replayed,
    /// Of an epoch that no station of the laboratory began now.
    #[error("wrong sender")]
    WrongSender,
    /// Not secured.
    #[error("clear")]
    Clear,
}

/// Counts of datagrams that were not taken, by reason. Units: datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct UnauthenticCounts {
    /// Secured with a secret that this member does not have.
    pub no_key: u64,
    /// Made without the secret, or changed on the way.
    pub bad_tag: u64,
    /// Received before, of an epoch that is over, or recorded earlier.
    pub replayed: u64,
    /// Of an epoch that no station of the laboratory began now.
    pub wrong_sender: u64,
    /// Not secured.
    pub clear: u64,
}

impl UnauthenticCounts {
    /// Counts datagrams.
    pub const fn count(&mut self, reason: Unauthentic, datagrams: u64) {
        *match reason {
            Unauthentic::NoKey => &mut self.no_key,
            Unauthentic::BadTag => &mut self.bad_tag,
            Unauthentic::Replayed => &mut self.replayed,
            Unauthentic::WrongSender => &mut self.wrong_sender,
            Unauthentic::Clear => &mut self.clear,
        } += datagrams;
    }

    /// Returns the count of one reason.
    #[must_use]
    pub const fn of(&self, reason: Unauthentic) -> u64 {
        match reason {
            Unauthentic::NoKey => self.no_key,
            Unauthentic::BadTag => self.bad_tag,
            Unauthentic::Replayed => self.replayed,
            Unauthentic::WrongSender => self.wrong_sender,
            Unauthentic::Clear => self.clear,
        }
    }

    /// Returns the counts by reason, under the names that all outputs share.
    #[must_use]
    pub const fn by_reason(&self) -> [(&'static str, u64); 5] {
        [
            ("no_key", self.no_key),
            ("bad_tag", self.bad_tag),
            ("replayed", self.replayed),
            ("wrong_sender", self.wrong_sender),
            ("clear", self.clear),
        ]
    }

    /// Returns the sum of all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_reason().iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Returns whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the higher of two counts for each reason.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            no_key: self.no_key.max(other.no_key),
            bad_tag: self.bad_tag.max(other.bad_tag),
            replayed: self.replayed.max(other.replayed),
            wrong_sender: self.wrong_sender.max(other.wrong_sender),
            clear: self.clear.max(other.clear),
        }
    }

    /// Returns the sums of two counts.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            no_key: self.no_key.saturating_add(other.no_key),
            bad_tag: self.bad_tag.saturating_add(other.bad_tag),
            replayed: self.replayed.saturating_add(other.replayed),
            wrong_sender: self.wrong_sender.saturating_add(other.wrong_sender),
            clear: self.clear.saturating_add(other.clear),
        }
    }
}
