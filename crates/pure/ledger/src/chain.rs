//! Losses before a relay: elements missing already when they arrived at its hop, by hop and stage.
//!
//! A relayed stream passes several hops: hop 0 from its publisher to the first relay, hop 1 to the next, and so on. An
//! element lost on an earlier hop was never offered on a later one; there its stage is `source`, and its hop and stage
//! are told beside it.
//!
//! Source: `docs/protocol/account.md`, "Relayed streams".

use crate::{Stage, StageCounts};

/// Outcome of an element that did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// Lost at a stage.
    Lost(Stage),
    /// Lost without evidence in time.
    Unexplained,
    /// Waiting for evidence.
    Unsettled,
}

/// Number of missing elements with one outcome on one hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopShare {
    /// The hop; 0 begins at the stream's publisher.
    pub hop: u8,
    /// Their outcome.
    pub outcome: Outcome,
    /// Number of elements; not zero.
    pub count: u64,
}

/// Missing elements of one hop.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HopRows {
    /// Elements lost, by stage.
    pub lost: StageCounts,
    /// Lost elements without evidence in time.
    pub unexplained: u64,
    /// Elements that wait for evidence.
    pub unsettled: u64,
}

/// Missing elements hop by hop, from the stream's publisher on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HopCounts {
    hops: Vec<HopRows>,
}

impl HopRows {
    /// Returns the number of missing elements.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lost.total() + self.unexplained + self.unsettled
    }

    /// Returns the count of an outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Lost(stage) => self.lost[stage],
            Outcome::Unexplained => self.unexplained,
            Outcome::Unsettled => self.unsettled,
        }
    }

    const fn place(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Lost(stage) => self.lost.place(stage),
            Outcome::Unexplained => &mut self.unexplained,
            Outcome::Unsettled => &mut self.unsettled,
        }
    }

    /// Returns the outcomes with a count.
    fn nonzero(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        let lost = self.lost.nonzero().map(|(stage, count)| (Outcome::Lost(stage), count));
        let rest = [(Outcome::Unexplained, self.unexplained), (Outcome::Unsettled, self.unsettled)];
        lost.chain(rest.into_iter().filter(|(_, count)| *count > 0))
    }
}

impl HopCounts {
    /// Returns whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// Returns the number of missing elements of all hops.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.hops.iter().map(HopRows::total).sum()
    }

    /// Returns the rows of a hop, zeros if it is not known.
    #[must_use]
    pub fn rows(&self, hop: u8) -> HopRows {
        self.hops.get(usize::from(hop)).copied().unwrap_or_default()
    }

    /// Returns the rows of all hops up to the last with a count, from hop 0 on.
    #[must_use]
    pub fn hops(&self) -> &[HopRows] {
        &self.hops
    }

    /// Returns the shares, by hop and outcome.
    pub fn shares(&self) -> impl Iterator<Item = HopShare> + '_ {
        (0..=u8::MAX).zip(&self.hops).flat_map(|(hop, rows)| {
            rows.nonzero().map(move |(outcome, count)| HopShare { hop, outcome, count })
        })
    }

    /// Adds a share.
    pub fn add(&mut self, share: HopShare) {
        let hop = usize::from(share.hop);
        if self.hops.len() <= hop {
            self.hops.resize(hop + 1, HopRows::default());
        }
        *self.hops[hop].place(share.outcome) += share.count;
    }

    /// Takes a share away.
    ///
    /// # Panics
    /// If it holds less than is taken away, which is a defect of this program.
    pub fn subtract(&mut self, share: HopShare) {
        let hop = usize::from(share.hop);
        let place = self.hops.get_mut(hop).map(|rows| rows.place(share.outcome));
        let count = place.as_ref().and_then(|count| count.checked_sub(share.count));
        *place.expect("only what was counted is taken away") =
            count.expect("only what was counted is taken away");
        while self.hops.last().is_some_and(|rows| rows.total() == 0) {
            self.hops.pop();
        }
    }

    /// Ends the wait for evidence: unsettled elements become unexplained.
    pub fn give_up(&mut self) {
        for rows in &mut self.hops {
            rows.unexplained += core::mem::take(&mut rows.unsettled);
        }
    }
}

impl FromIterator<HopShare> for HopCounts {
    fn from_iter<I: IntoIterator<Item = HopShare>>(shares: I) -> Self {
        let mut counts = Self::default();
        shares.into_iter().for_each(|share| counts.add(share));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Outcome = Outcome::Lost(Stage::Network);

    fn share(hop: u8, outcome: Outcome, count: u64) -> HopShare {
        HopShare { hop, outcome, count }
    }

    #[test]
    fn shares_are_counted_by_hop_and_outcome() {
        let shares = [share(0, NETWORK, 3), share(2, Outcome::Unsettled, 2), share(2, NETWORK, 1)];
        let mut counts: HopCounts = shares.into_iter().collect();
        assert_eq!(counts.total(), 6);
        assert_eq!(counts.rows(2).count(Outcome::Unsettled), 2);
        assert_eq!(counts.rows(9), HopRows::default());
        assert_eq!(counts.shares().collect::<Vec<_>>(), [shares[0], shares[2], shares[1]]);
        counts.subtract(shares[1]);
        counts.subtract(shares[2]);
        assert_eq!(counts.hops().len(), 1, "hops without a count are forgotten");
        counts.add(share(1, Outcome::Unsettled, 4));
        counts.give_up();
        assert_eq!(counts.rows(1).unexplained, 4);
        assert_eq!(counts.total(), 7);
    }

    #[test]
    #[should_panic(expected = "only what was counted is taken away")]
    fn a_share_that_was_not_counted_cannot_be_taken_away() {
        HopCounts::default().subtract(share(0, NETWORK, 1));
    }
}
