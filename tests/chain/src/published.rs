//! A reader of the far bus, with a ledger of its own.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use ledger::{HopCounts, Stage};
use relay::{FarTotals, Publish};
use units::{Epoch, Instant};
use wire::UpstreamHop;

use crate::feed::{ElementOutcome, Feed, Shape, value};

/// A reader of one stream.
#[derive(Debug)]
pub struct Reader {
    /// Epoch of the stream's publisher.
    pub origin: Epoch,
    first: u64,
    next: u64,
    deadline: Duration,
    shape: Shape,
    /// Number of elements that were published.
    pub delivered: u64,
    /// What is missing, by its first position.
    gaps: BTreeMap<u64, (Range<u64>, HopCounts)>,
    /// Missing elements, by hop and outcome.
    pub hops: HopCounts,
    upstream: Vec<UpstreamHop>,
    got: Vec<Range<u64>>,
    /// True once the stream has ended.
    pub has_ended: bool,
    /// Ages of what was published.
    pub ages: Vec<Duration>,
    /// When it was published.
    pub times: Vec<Instant>,
}

impl Reader {
    pub(crate) fn new(origin: Epoch, first: u64, deadline: Duration, shape: Shape) -> Self {
        Self {
            origin,
            first,
            next: first,
            deadline,
            shape,
            delivered: 0,
            gaps: BTreeMap::new(),
            hops: HopCounts::default(),
            upstream: Vec::new(),
            got: Vec::new(),
            has_ended: false,
            ages: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Takes what is published; positions ascend without a hole between them.
    pub(crate) fn take(&mut self, now: Instant, publish: Publish) {
        assert!(!self.has_ended, "nothing comes after the end: {publish:?}");
        match publish {
            Publish::Begin { .. } => panic!("a stream begins once"),
            Publish::Elements { positions, t0, clock, bytes, age } => {
                assert_eq!(positions.start, self.next, "each position once, ascending");
                assert!(positions.clone().map(value).eq(bytes), "the values of {positions:?}");
                let index = positions.start / u64::from(self.shape.elements);
                assert_eq!(
                    (t0, clock),
                    (self.shape.time_of(index), Feed::clock()),
                    "the time of {positions:?}"
                );
                assert!(age <= self.deadline, "{positions:?} is {age:?} old");
                self.ages.push(age);
                self.times.push(now);
                self.delivered += positions.end - positions.start;
                self.next = positions.end;
                self.got.push(positions);
            }
            Publish::Inherited { positions, shares } => {
                assert_eq!(positions.start, self.next, "each position once, ascending");
                assert_eq!(shares.total(), positions.end - positions.start, "{positions:?}: {shares:?}");
                self.next = positions.end;
                self.hops.add_all(&shares);
                self.gaps.insert(positions.start, (positions, shares));
            }
            Publish::Settled { positions, shares } => {
                let (known, before) = self.gaps.get_mut(&positions.start).expect("a gap of before");
                assert_eq!((&positions, shares.total()), (&*known, before.total()), "the same elements");
                self.hops.subtract_all(before);
                self.hops.add_all(&shares);
                *before = shares;
            }
            Publish::Statement(_) => {}
            Publish::Upstream(hops) => {
                let grows = |(now, before): (&UpstreamHop, &UpstreamHop)| {
                    Stage::ALL.iter().all(|&stage| now.lost[stage] >= before.lost[stage])
                };
                assert!(hops.iter().zip(&self.upstream).all(grows), "{:?} became {hops:?}", self.upstream);
                self.upstream = hops;
            }
            Publish::End => {
                self.has_ended = true;
                self.hops.give_up();
            }
        }
    }

    /// Checks the law, and the far end's account.
    pub(crate) fn check(&self, totals: &FarTotals) {
        assert_eq!(self.next - self.first, self.delivered + self.hops.total(), "the law at the reader");
        let accounted = (totals.first, totals.next, totals.delivered, &totals.hops);
        assert_eq!(accounted, (self.first, self.next, self.delivered, &self.hops), "the far end's account");
    }

    /// Compares the ledger of an ended stream with the diary of the feed. Returns the elements that the link lost.
    ///
    /// # Panics
    /// If they differ.
    pub fn verify(&self, feed: &Feed, extra_lag: bool) -> u64 {
        assert!(self.has_ended, "the stream has ended");
        if self.first >= feed.end() {
            // Its first whole sample would have come behind the last.
            assert_eq!((self.delivered, self.hops.total()), (0, 0));
            return 0;
        }
        assert_eq!(self.next, feed.end(), "up to its last position");
        for positions in &self.got {
            let is_read = |position: u64| {
                feed.outcomes[usize::try_from(position).expect("few")] == ElementOutcome::Read
            };
            assert!(positions.clone().all(is_read), "{positions:?} were not read");
        }
        let begin = usize::try_from(self.first).expect("few");
        let missing =
            feed.outcomes[begin..].iter().filter(|outcome| **outcome == ElementOutcome::Missing).count()
                as u64;
        let (before, lag) = (self.hops.rows(0), self.hops.rows(0).lost[Stage::ReaderLag]);
        assert!(lag == 0 || extra_lag, "only a relay that started again lags");
        if lag == 0 {
            assert_eq!(before.total(), missing, "missing before the link");
        } else {
            assert!((missing.saturating_sub(lag)..=missing + lag).contains(&before.total()));
        }
        let link = self.hops.rows(1);
        assert_eq!(link.total(), link.lost[Stage::Deadline], "the link loses by the deadline only");
        let offered = feed.end() - self.first;
        assert_eq!(offered, self.delivered + before.total() + link.total(), "the law over the chain");
        link.total()
    }
}
