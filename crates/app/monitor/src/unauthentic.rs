//! Datagrams that claim to be of a secured stream and are not: an alarm beside its account, never a loss in it.
//!
//! Who forges a datagram chooses the number that it claims, so nothing of it may touch an account. This is the one place
//! of the reasons' names, in JSON and metrics. The receiver's counts come in by
//! [`History::unauthentic_is`](crate::history::History::unauthentic_is).

use serde::Serialize;

/// Datagrams of one stream that were dropped because they were not authentic, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Unauthentic {
    /// Encrypted with a key that this reader does not have.
    pub no_key: u64,
    /// Changed on the way, or made by somebody without the key.
    pub bad_tag: u64,
    /// Authentic, but received before, or of an epoch that has ended.
    pub replayed: u64,
    /// Made by a member that is not the stream's publisher.
    pub wrong_sender: u64,
    /// In clear, where the reader has keys.
    pub clear: u64,
}

/// The counts over all receivers of a stream, which follow each other: they never fall.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct UnauthenticTotals {
    before: Unauthentic,
    newest: Unauthentic,
}

impl Unauthentic {
    /// Returns the counts with the names of their reasons.
    #[must_use]
    pub const fn by_reason(&self) -> [(&'static str, u64); 5] {
        let Self { no_key, bad_tag, replayed, wrong_sender, clear } = *self;
        [
            ("no_key", no_key),
            ("bad_tag", bad_tag),
            ("replayed", replayed),
            ("wrong_sender", wrong_sender),
            ("clear", clear),
        ]
    }

    /// Returns whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_reason().iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    const fn plus(&self, other: &Self) -> Self {
        Self {
            no_key: self.no_key.saturating_add(other.no_key),
            bad_tag: self.bad_tag.saturating_add(other.bad_tag),
            replayed: self.replayed.saturating_add(other.replayed),
            wrong_sender: self.wrong_sender.saturating_add(other.wrong_sender),
            clear: self.clear.saturating_add(other.clear),
        }
    }
}

impl UnauthenticTotals {
    /// Takes a receiver's counts since it joined; one that falls is another receiver's.
    pub(crate) fn take(&mut self, counts: Unauthentic) {
        let falls = self
            .newest
            .by_reason()
            .iter()
            .zip(counts.by_reason())
            .any(|((_, before), (_, now))| now < *before);
        if falls {
            self.before = self.before.plus(&self.newest);
        }
        self.newest = counts;
    }

    pub(crate) const fn sum(&self) -> Unauthentic {
        self.before.plus(&self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_over_receivers_and_never_wrap() {
        let mut totals = UnauthenticTotals::default();
        assert!(totals.sum().is_empty());
        for (bad_tag, sum) in [(3, 3), (5, 5), (5, 5), (2, 7), (u64::MAX, u64::MAX), (1, u64::MAX)] {
            totals.take(Unauthentic { bad_tag, ..Unauthentic::default() });
            assert_eq!(totals.sum().bad_tag, sum);
        }
    }

    #[test]
    fn the_reasons_have_the_names_of_the_fields() {
        let counts = Unauthentic { no_key: 1, bad_tag: 2, replayed: 3, wrong_sender: 4, clear: 5 };
        let named: serde_json::Map<String, serde_json::Value> =
            counts.by_reason().into_iter().map(|(reason, count)| (reason.to_owned(), count.into())).collect();
        assert_eq!(counts.total(), 15);
        assert_eq!(serde_json::to_value(counts).unwrap(), serde_json::Value::Object(named));
    }
}
