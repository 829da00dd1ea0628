//! Identities that travel: streams, epochs, readers.

use core::fmt;

/// A stream's identity on the wire: a hash of its name and of its schema's digest.
///
/// Source: `docs/protocol/stream.md`, section "Identity".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// One run of a publisher: a restart begins a new epoch.
///
/// The order is that of rule 1 of `docs/protocol/account.md`: the higher start wins; the random incarnation distinguishes equal starts, so
/// that two publishers that began in the same nanosecond still have an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// Start of this epoch. Units: nanoseconds since 1970 UTC.
    pub start_ns: u64,
    /// A random number drawn at the start.
    pub incarnation: u64,
}

impl Epoch {
    /// Returns the epoch that replaces `heard`, for a publisher that starts at `start_ns` with `incarnation`.
    ///
    /// A publisher that remembers or receives a higher start takes that start + 1 (rule 1), so that a clock step back
    /// does not make a new epoch look old.
    #[must_use]
    pub fn succeeding(heard: Option<Self>, start_ns: u64, incarnation: u64) -> Self {
        let earliest = heard.map_or(0, |epoch| epoch.start_ns.saturating_add(1));
        Self { start_ns: start_ns.max(earliest), incarnation }
    }
}

/// One reader's identity in reports, drawn at random when it joins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{:016x}", self.start_ns, self.incarnation)
    }
}

impl fmt::Display for ReaderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

macro_rules! debug_as_display {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!(stringify!($name), "({})"), self)
            }
        }
    )*};
}

debug_as_display!(StreamId, Epoch, ReaderId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_epoch_wins_even_when_the_clock_went_back() {
        let old = Epoch { start_ns: 1_000, incarnation: u64::MAX };
        let new = Epoch::succeeding(Some(old), 400, 1);
        assert_eq!(new.start_ns, 1_001);
        assert!(new > old);
    }
}
