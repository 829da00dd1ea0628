//! Datagrams that claim to be of a secured stream and are not: an alarm beside its account, never a loss in it.
//!
//! Beside it, epochs that began without an answer of their publishers: only clocks tell them from recordings.
//!
//! Who forges a datagram chooses the number that it claims, so nothing of it may touch an account. This is the one place
//! of the reasons' names, in JSON and metrics. The receiver's counts come in by
//! [`History::unauthentic_is`](crate::history::History::unauthentic_is).

use tallycast::UnauthenticCounts;

/// What one receiver of a secured stream doubts or refuses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Doubts {
    pub(crate) unauthentic: UnauthenticCounts,
    /// Epochs that began although their publishers did not answer.
    pub(crate) unconfirmed_epochs: u64,
}

/// The counts over all receivers of a stream, which follow each other: they never fall.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct UnauthenticTotals {
    before: Doubts,
    newest: Doubts,
}

impl Doubts {
    /// Returns the higher of two counts of each kind.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            unauthentic: self.unauthentic.max(other.unauthentic),
            unconfirmed_epochs: self.unconfirmed_epochs.max(other.unconfirmed_epochs),
        }
    }

    const fn plus(&self, other: &Self) -> Self {
        Self {
            unauthentic: self.unauthentic.plus(&other.unauthentic),
            unconfirmed_epochs: self.unconfirmed_epochs.saturating_add(other.unconfirmed_epochs),
        }
    }
}

impl UnauthenticTotals {
    /// Takes a receiver's counts since it joined; one that falls is another receiver's.
    pub(crate) fn take(&mut self, counts: Doubts) {
        if counts.max(self.newest) != counts {
            self.before = self.before.plus(&self.newest);
        }
        self.newest = counts;
    }

    pub(crate) const fn sum(&self) -> Doubts {
        self.before.plus(&self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_over_receivers_and_never_wrap() {
        let mut totals = UnauthenticTotals::default();
        assert_eq!(totals.sum(), Doubts::default());
        for (count, sum) in [(3, 3), (5, 5), (5, 5), (2, 7), (u64::MAX, u64::MAX), (1, u64::MAX)] {
            let unauthentic = UnauthenticCounts { bad_tag: count, ..UnauthenticCounts::default() };
            totals.take(Doubts { unauthentic, unconfirmed_epochs: count });
            assert_eq!((totals.sum().unauthentic.bad_tag, totals.sum().unconfirmed_epochs), (sum, sum));
        }
    }

    #[test]
    fn the_reasons_have_the_names_of_the_fields() {
        let counts = UnauthenticCounts { no_key: 1, bad_tag: 2, replayed: 3, wrong_sender: 4, clear: 5 };
        let named: serde_json::Map<String, serde_json::Value> =
            counts.by_reason().into_iter().map(|(reason, count)| (reason.to_owned(), count.into())).collect();
        assert_eq!(counts.total(), 15);
        assert_eq!(serde_json::to_value(counts).unwrap(), serde_json::Value::Object(named));
    }
}
