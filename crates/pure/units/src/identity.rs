//! Identities that travel: streams, epochs, readers.

use core::fmt;
use core::str::FromStr;

use crate::serde_as_text;

/// A stream's identity on the wire: a hash of its name and of its schema's digest.
///
/// Source: `docs/protocol/stream.md`, section "Identity".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// One run of a publisher: a restart begins a new epoch.
///
/// The order is that of rule 1 of `docs/protocol/account.md`: the higher start wins; the random incarnation
/// distinguishes equal starts, so that two publishers that began in the same nanosecond still have an order.
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

/// Error for text that is not an epoch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not an epoch: a start in nanoseconds, `-`, and an incarnation in hexadecimal digits")]
pub struct NotAnEpoch(pub String);

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

impl FromStr for Epoch {
    type Err = NotAnEpoch;

    /// Parses an epoch in its displayed form.
    fn from_str(text: &str) -> Result<Self, NotAnEpoch> {
        let parse = |(start, incarnation): (&str, &str)| {
            let (start, incarnation) = (start.parse(), u64::from_str_radix(incarnation, 16));
            Some(Self { start_ns: start.ok()?, incarnation: incarnation.ok()? })
        };
        text.split_once('-').and_then(parse).ok_or_else(|| NotAnEpoch(text.to_owned()))
    }
}

serde_as_text!(Epoch);

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

    #[test]
    fn an_epoch_is_parsed_as_it_is_displayed() {
        let epoch = Epoch { start_ns: u64::MAX, incarnation: 0xab };
        assert_eq!(epoch.to_string().parse(), Ok(epoch));
        for text in ["", "7", "-1", "1-", "1-g", "1-2-3"] {
            assert_eq!(text.parse::<Epoch>(), Err(NotAnEpoch(text.to_owned())));
        }
    }
}
