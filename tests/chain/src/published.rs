//! Publication of a stream by a far relay, with a ledger of its own: the truth for readers' accounts.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use ledger::{HopCounts, HopShare, Outcome, Stage};
use relay::{FarTotals, Publish};
use units::{Epoch, Instant, RangeSet};
use wire::{Origin, UpstreamHop};

use crate::diary::Diary;
use crate::feed::{Feed, Shape, value};

/// Publication of one stream.
#[derive(Debug)]
pub struct Published {
    /// Epoch of its sender on the bus.
    pub epoch: Epoch,
    /// Epoch of the stream's publisher, and hop of the bus.
    pub origin: Origin,
    /// First position.
    pub first: u64,
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
    got: RangeSet,
    /// True once anything of it is on the bus: its sender waits until that of the epoch before is done.
    pub is_on_bus: bool,
    /// True once the stream has ended.
    pub has_ended: bool,
    /// Ages of what was published.
    pub ages: Vec<Duration>,
    /// When it was published.
    pub times: Vec<Instant>,
}

impl Published {
    pub(crate) fn new(epoch: Epoch, origin: Origin, first: u64, deadline: Duration, shape: Shape) -> Self {
        Self {
            epoch,
            origin,
            first,
            next: first,
            deadline,
            shape,
            delivered: 0,
            gaps: BTreeMap::new(),
            hops: HopCounts::default(),
            upstream: Vec::new(),
            got: RangeSet::new(),
            is_on_bus: false,
            has_ended: false,
            ages: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Takes another deadline: what waits to be published was judged by either.
    pub(crate) fn allow(&mut self, deadline: Duration) {
        self.deadline = self.deadline.max(deadline);
    }

    /// Returns the stream's name.
    pub(crate) fn name(&self) -> &str {
        &self.shape.name
    }

    /// Returns one behind the last position that was published.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
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
                self.got.insert(positions);
            }
            Publish::Inherited { positions, shares, .. } => {
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
                self.gaps.values_mut().for_each(|(_, shares)| shares.give_up());
            }
        }
    }

    /// Checks the law, and the far end's account.
    pub(crate) fn check(&self, totals: &FarTotals) {
        assert_eq!(self.next - self.first, self.delivered + self.hops.total(), "the law behind the link");
        let accounted = (totals.first, totals.next, totals.delivered, &totals.hops);
        assert_eq!(accounted, (self.first, self.next, self.delivered, &self.hops), "the far end's account");
    }

    /// Returns how many of these positions were published with their elements.
    #[must_use]
    pub fn delivered_in(&self, positions: &Range<u64>) -> u64 {
        self.got.count_in(positions.clone())
    }

    /// Returns what is missing of these positions; `None` if they divide a gap of several outcomes.
    #[must_use]
    pub fn hops_in(&self, positions: &Range<u64>) -> Option<HopCounts> {
        let mut hops = HopCounts::default();
        for (range, shares) in self.gaps.values() {
            let (start, end) = (range.start.max(positions.start), range.end.min(positions.end));
            if start >= end {
                continue;
            }
            if end - start == range.end - range.start {
                hops.add_all(shares);
                continue;
            }
            let mut outcomes = shares.shares();
            let HopShare { hop, outcome, .. } = outcomes.next().expect("a gap is missing");
            if outcomes.next().is_some() {
                return None;
            }
            hops.add(HopShare { hop, outcome, count: end - start });
        }
        Some(hops)
    }

    /// Compares with the diary of the reader of the bus before the link. Returns the elements that the link lost.
    ///
    /// # Panics
    /// If they differ.
    pub fn verify(&self, diary: &Diary) -> u64 {
        let link = self.origin.hop.get() - 1;
        if let Some(end) = diary.end.filter(|_| self.has_ended) {
            if self.first >= end {
                // Its first whole sample would have come behind the last.
                assert_eq!((self.delivered, self.hops.total()), (0, 0));
                return 0;
            }
            let is_whole = self.next == end || (diary.may_be_cut && self.next < end);
            assert!(is_whole, "up to its last position: {} of {end}", self.next);
        }
        for positions in self.got.iter() {
            assert_eq!(diary.missing.count_in(positions.clone()), 0, "{positions:?} were not all read");
        }
        for (positions, shares) in self.gaps.values() {
            self.verify_gap(diary, link, positions, shares);
        }
        let (offered, lost) = (self.next - self.first, self.hops.rows(link));
        assert_eq!(lost.total(), lost.lost[Stage::Deadline], "the link loses by the deadline only");
        assert_eq!(offered, self.delivered + self.hops.total(), "the law over the chain");
        lost.total()
    }

    /// Compares a gap with the diary, element for element.
    fn verify_gap(&self, diary: &Diary, link: u8, positions: &Range<u64>, shares: &HopCounts) {
        let count = positions.end - positions.start;
        let outcome = Outcome::Lost(Stage::ReaderLag);
        let lag: HopCounts = [HopShare { hop: link - 1, outcome, count }].into_iter().collect();
        if diary.starts.contains(&positions.end) && *shares == lag {
            // Elements that the near relay did not read while it was restarted.
            return;
        }
        let before: u64 = (0..link).map(|hop| shares.rows(hop).total()).sum();
        let missing = diary.missing_in(positions);
        assert_eq!(before, missing, "missing before the link at {positions:?}: {shares:?} of {diary:?}");
        assert_eq!(shares.rows(link).total(), count - before, "lost by the link at {positions:?}");
    }
}
