//! Losses before a relay: elements missing already when they arrived at its hop, by hop and stage.
//!
//! A relayed stream passes several hops: hop 0 from its publisher to the first relay, hop 1 to the next, and so on. An
//! element lost on an earlier hop was never offered on a later one; there its stage is `source`, and its hop and stage
//! are told beside it.
//!
//! Source: `docs/protocol/account.md`, "Relayed streams".

use serde::{Deserialize, Serialize};

use crate::{Stage, StageCounts};

/// Maximum number of hops before one: two for each of four relays. Hops of a gap from another process are bounded by
/// it.
pub const MAX_HOPS: usize = 8;

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
///
/// In JSON a list of objects, one for each hop up to the last with a count.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<HopRecord>", try_from = "Vec<HopRecord>")]
pub struct HopCounts {
    hops: Vec<HopRows>,
}

/// A hop's rows in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct HopRecord {
    hop: u8,
    #[serde(default)]
    lost: StageCounts,
    #[serde(default)]
    unexplained: u64,
    #[serde(default)]
    unsettled: u64,
}

/// Hops that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHops {
    /// There cannot be so many.
    #[error("hop {0} is beyond the {MAX_HOPS} hops before a relay")]
    Beyond(u8),
    /// They are not in order.
    #[error("hop {0} is told more than once, or behind a later one")]
    Order(u8),
    /// Their counts do not fit.
    #[error("the counts of all hops together exceed 64 bits")]
    Sum,
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
    pub(crate) fn nonzero(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
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
        self.forget_zeros();
    }

    fn forget_zeros(&mut self) {
        while self.hops.last().is_some_and(|rows| rows.total() == 0) {
            self.hops.pop();
        }
    }

    /// Takes as much of a share away as there is.
    pub(crate) fn take(&mut self, share: HopShare) -> u64 {
        let count = self.rows(share.hop).count(share.outcome).min(share.count);
        if count > 0 {
            self.subtract(HopShare { count, ..share });
        }
        count
    }

    /// Settles unsettled elements as a share says: those of its hop first, then those of the last hops.
    pub(crate) fn settle(&mut self, share: HopShare) {
        let hops = (0..=u8::MAX).zip(&self.hops).map(|(hop, _)| hop);
        let order: Vec<u8> = core::iter::once(share.hop).chain(hops.rev()).collect();
        let mut left = share.count;
        for hop in order {
            left -= self.take(HopShare { hop, outcome: Outcome::Unsettled, count: left });
        }
        if share.count > left {
            self.add(HopShare { count: share.count - left, ..share });
        }
    }

    /// Adds all shares of another set.
    pub fn add_all(&mut self, other: &Self) {
        other.shares().for_each(|share| self.add(share));
    }

    /// Takes all shares of another set away.
    ///
    /// # Panics
    /// As [`HopCounts::subtract`].
    pub fn subtract_all(&mut self, other: &Self) {
        other.shares().for_each(|share| self.subtract(share));
    }

    /// Returns these counts for an account or gap that lost `source` elements at stage `source`, the number that the
    /// law demands: those of which no hop is told were lost at the source itself, on hop 0. Empty if no hop is told of
    /// any: the stream was not relayed.
    #[must_use]
    pub fn completed(&self, source: u64) -> Self {
        let mut counts = self.clone();
        let count = source.saturating_sub(self.total());
        if count > 0 && !self.is_empty() {
            counts.add(HopShare { hop: 0, outcome: Outcome::Lost(Stage::Source), count });
        }
        counts
    }

    /// Returns the number of elements that wait for evidence.
    #[must_use]
    pub fn unsettled(&self) -> u64 {
        self.hops.iter().map(|rows| rows.unsettled).sum()
    }

    /// Returns the number of lost elements without evidence in time.
    #[must_use]
    pub fn unexplained(&self) -> u64 {
        self.hops.iter().map(|rows| rows.unexplained).sum()
    }

    /// Checks counts from another process: there are none, or at most [`MAX_HOPS`] hops of together `source` elements.
    ///
    /// # Errors
    /// The number of elements counted, `u128::MAX` for too many hops.
    pub(crate) fn check(&self, source: u64) -> Result<(), u128> {
        if self.hops.len() > MAX_HOPS {
            return Err(u128::MAX);
        }
        let counted: u128 = self.shares().map(|share| u128::from(share.count)).sum();
        if counted == 0 || counted == u128::from(source) { Ok(()) } else { Err(counted) }
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

impl From<HopCounts> for Vec<HopRecord> {
    fn from(counts: HopCounts) -> Self {
        let record =
            |(hop, HopRows { lost, unexplained, unsettled })| HopRecord { hop, lost, unexplained, unsettled };
        (0..=u8::MAX).zip(counts.hops).map(record).collect()
    }
}

impl TryFrom<Vec<HopRecord>> for HopCounts {
    type Error = InvalidHops;

    fn try_from(records: Vec<HopRecord>) -> Result<Self, InvalidHops> {
        let (mut counts, mut sum) = (Self::default(), 0_u64);
        for HopRecord { hop, lost, unexplained, unsettled } in records {
            let rows = HopRows { lost, unexplained, unsettled };
            if usize::from(hop) >= MAX_HOPS {
                return Err(InvalidHops::Beyond(hop));
            }
            if usize::from(hop) < counts.hops.len() {
                return Err(InvalidHops::Order(hop));
            }
            for (_, count) in rows.nonzero() {
                sum = sum.checked_add(count).ok_or(InvalidHops::Sum)?;
            }
            counts.hops.resize(usize::from(hop), HopRows::default());
            counts.hops.push(rows);
        }
        counts.forget_zeros();
        Ok(counts)
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
    fn sets_are_added_and_taken_away_as_a_whole() {
        let one: HopCounts = [share(0, NETWORK, 3), share(1, Outcome::Unexplained, 2)].into_iter().collect();
        let mut sum = one.clone();
        sum.add_all(&one);
        assert_eq!((sum.total(), sum.unexplained(), sum.unsettled()), (10, 4, 0));
        sum.subtract_all(&one);
        assert_eq!(sum, one);
    }

    #[test]
    fn what_no_hop_is_told_of_was_lost_at_the_source() {
        let told: HopCounts = [share(1, NETWORK, 3)].into_iter().collect();
        assert_eq!(told.completed(3), told);
        assert_eq!(told.completed(5).rows(0).lost[Stage::Source], 2);
        assert!(HopCounts::default().completed(5).is_empty(), "the stream was not relayed");
    }

    #[test]
    fn hops_read_back_from_their_records_and_what_cannot_be_is_refused() {
        let shares =
            [share(0, NETWORK, 3), share(2, Outcome::Unsettled, 2), share(2, Outcome::Unexplained, 9)];
        let counts: HopCounts = shares.into_iter().collect();
        let records = Vec::<HopRecord>::from(counts.clone());
        assert_eq!(records.iter().map(|record| record.hop).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(HopCounts::try_from(records), Ok(counts));
        let record =
            |hop, unexplained| HopRecord { hop, lost: StageCounts::default(), unexplained, unsettled: 0 };
        assert!(HopCounts::try_from(vec![record(7, 0)]).unwrap().hops().is_empty());
        let read = |records| HopCounts::try_from(records).map(|counts| counts.total());
        assert_eq!(read(vec![record(2, 1), record(7, 1)]), Ok(2));
        assert_eq!(read(vec![record(8, 1)]), Err(InvalidHops::Beyond(8)));
        assert_eq!(read(vec![record(2, 1), record(2, 1)]), Err(InvalidHops::Order(2)));
        assert_eq!(read(vec![record(2, 1), record(0, 1)]), Err(InvalidHops::Order(0)));
        assert_eq!(read(vec![record(0, u64::MAX), record(1, 0)]), Ok(u64::MAX));
        assert_eq!(read(vec![record(0, u64::MAX), record(1, 1)]), Err(InvalidHops::Sum));
    }

    #[test]
    #[should_panic(expected = "only what was counted is taken away")]
    fn a_share_that_was_not_counted_cannot_be_taken_away() {
        HopCounts::default().subtract(share(0, NETWORK, 1));
    }
}
