//! The far end's account of a stream: the outcome of every position on the link.

use core::ops::Range;

use ledger::{AccountState, EvidenceSource, Gap, Hop, HopCounts, HopShare, Outcome, Stage, StageCounts};
use units::RangeSet;
use wire::UpstreamHop;

use super::resequencer::Place;
use crate::Cause;
use crate::frame::Totals;

/// Maximum number of ranges whose cause may still be corrected.
const MAX_ASSUMED: usize = 4_096;

/// Account of a stream at the far end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FarTotals {
    /// First position of the account.
    pub first: u64,
    /// One behind the last position whose outcome is known.
    pub next: u64,
    /// Published elements.
    pub delivered: u64,
    /// Missing elements, by hop and outcome, the link among them.
    pub hops: HopCounts,
    /// Elements that the link lost, by cause in the order of [`Cause::ALL`].
    pub causes: [u64; 4],
}

/// The account of a stream.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    hop: Hop,
    /// Number of the link among the hops.
    link: u8,
    first: u64,
    /// Where the near end's counts begin: its place here, and what was delivered before.
    start: Place,
    start_delivered: u64,
    missing: u64,
    causes: [u64; 4],
    /// Positions that this end gave up before the near end reported the cause.
    assumed: RangeSet,
    assumed_cause: Cause,
}

impl Counters {
    /// Opens the account at a position; `None` if an account cannot begin there.
    pub(super) fn open(per_sample: u32, link: u8, position: u64) -> Option<Self> {
        Some(Self {
            hop: Hop::try_join(per_sample, [0, 0], position).ok()?,
            link,
            first: position,
            start: Place { position, missing: 0 },
            start_delivered: 0,
            missing: 0,
            causes: [0; 4],
            assumed: RangeSet::new(),
            assumed_cause: Cause::Repair,
        })
    }

    /// Returns the next position, and the elements missing before it.
    pub(super) const fn next(&self) -> Place {
        Place { position: self.hop.next_position(), missing: self.missing }
    }

    /// Returns the elements missing before a place, of which the near end counts so many.
    pub(super) const fn missing_before(&self, counted: u64) -> u64 {
        counted.saturating_add(self.start.missing)
    }

    /// Lets the near end's counts begin anew here.
    pub(super) fn restart(&mut self) {
        self.start = self.next();
        self.start_delivered = self.hop.rows().delivered;
    }

    pub(super) fn delivered(&mut self, positions: Range<u64>) {
        self.hop.delivered(positions);
    }

    /// Counts elements that were missing before the link; returns them as they are published.
    pub(super) fn missing(&mut self, positions: Range<u64>, shares: HopCounts) -> (Range<u64>, HopCounts) {
        self.missing += positions.end - positions.start;
        let gap = self.hop.gap(inherited(positions, shares));
        told(gap, self.link)
    }

    /// Counts the elements up to a place that did not come; returns them as they are published, `None` if there are
    /// none.
    pub(super) fn lost_until(&mut self, end: Place, cause: Cause) -> Option<(Range<u64>, HopCounts)> {
        let sent = end.position - self.first - end.missing;
        let gap = self.hop.lapped_as([sent, end.missing], Stage::Deadline, EvidenceSource::GivenUp(cause))?;
        self.missing = end.missing;
        self.causes[cause as usize] += gap.lost[Stage::Deadline];
        Some(told(gap, self.link))
    }

    /// Notes that the cause of a loss was assumed.
    pub(super) fn assume(&mut self, positions: Range<u64>, cause: Cause) {
        if cause != self.assumed_cause || self.assumed.range_count() >= MAX_ASSUMED {
            self.assumed = RangeSet::new();
            self.assumed_cause = cause;
        }
        self.assumed.insert(positions);
    }

    /// Takes the cause that the near end reports, for losses that were counted before.
    pub(super) fn corrected(&mut self, positions: &Range<u64>, cause: Cause) {
        let corrected = self.assumed.remove(positions.clone());
        let corrected = corrected.min(self.causes[self.assumed_cause as usize]);
        self.causes[self.assumed_cause as usize] -= corrected;
        self.causes[cause as usize] += corrected;
    }

    /// Learns of missing elements, or other outcomes of them; returns the published range that has changed.
    pub(super) fn settled(
        &mut self,
        positions: Range<u64>,
        shares: HopCounts,
    ) -> Option<(Range<u64>, HopCounts)> {
        let gap = self.hop.settled(&inherited(positions, shares))?;
        Some(told(gap, self.link))
    }

    /// Ends the account.
    pub(super) fn end(&mut self) {
        self.hop.end(AccountState::Closed);
    }

    /// Returns the totals for the near end, without the count of controls.
    pub(super) fn reported(&self) -> Totals {
        let Place { position, missing } = self.next();
        let delivered = self.hop.rows().delivered - self.start_delivered;
        let missing = missing - self.start.missing;
        let given_up = position - self.start.position - delivered - missing;
        Totals { position, delivered, missing, given_up, controls: 0 }
    }

    pub(super) fn totals(&self) -> FarTotals {
        let rows = self.hop.rows();
        FarTotals {
            first: self.first,
            next: self.hop.next_position(),
            delivered: rows.delivered,
            hops: self.hops(),
            causes: self.causes,
        }
    }

    /// Returns the losses of each hop up to the link, whose stations these are.
    pub(super) fn upstream(&self, stations: &[String]) -> Vec<UpstreamHop> {
        let hops = self.hops();
        let of_hop = |(hop, station): (u8, &String)| {
            let rows = hops.rows(hop);
            UpstreamHop { station: station.clone(), lost: rows.lost, unexplained: rows.unexplained }
        };
        (0..).zip(stations).map(of_hop).collect()
    }

    /// Returns the missing elements by hop and outcome.
    fn hops(&self) -> HopCounts {
        let rows = self.hop.rows();
        let shares = Shares { lost: rows.lost, unexplained: rows.unexplained, unsettled: rows.unsettled };
        shares.by_hop(&self.hop.inherited(), self.link)
    }
}

/// Missing elements as the account of the link has them.
struct Shares {
    lost: StageCounts,
    unexplained: u64,
    unsettled: u64,
}

impl Shares {
    /// Returns them by hop. Those without a stage are known only by their number: they were missing before the link.
    fn by_hop(&self, inherited: &HopCounts, link: u8) -> HopCounts {
        let mut hops = inherited.clone();
        let source = self.lost[Stage::Source].saturating_sub(inherited.total());
        let before = link.saturating_sub(1);
        let shares = [
            (0, Outcome::Lost(Stage::Source), source),
            (link, Outcome::Lost(Stage::Deadline), self.lost[Stage::Deadline]),
            (before, Outcome::Unexplained, self.unexplained),
            (before, Outcome::Unsettled, self.unsettled),
        ];
        for (hop, outcome, count) in shares {
            if count > 0 {
                hops.add(HopShare { hop, outcome, count });
            }
        }
        hops
    }
}

/// Returns a gap of elements that were missing before the link.
fn inherited(positions: Range<u64>, shares: HopCounts) -> Gap {
    let missing = positions.end - positions.start;
    Gap {
        unexplained: 0,
        lost: StageCounts::of(Stage::Source, missing),
        inherited: shares,
        ..Gap::unexplained(positions)
    }
}

/// Returns a gap of the link as it is published.
fn told(gap: &Gap, link: u8) -> (Range<u64>, HopCounts) {
    let shares = Shares { lost: gap.lost, unexplained: gap.unexplained, unsettled: gap.unsettled };
    (gap.positions.clone(), shares.by_hop(&gap.inherited, link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(hop: u8, outcome: Outcome, count: u64) -> HopCounts {
        [HopShare { hop, outcome, count }].into_iter().collect()
    }

    #[test]
    fn a_jump_is_divided_into_what_was_missing_and_what_the_link_lost() {
        let mut counters = Counters::open(1, 1, 100).unwrap();
        counters.delivered(100..110);
        let (positions, told) =
            counters.lost_until(Place { position: 130, missing: 5 }, Cause::Repair).unwrap();
        assert_eq!(positions, 110..130);
        assert_eq!(told.rows(1).lost[Stage::Deadline], 15);
        assert_eq!(told.rows(0).unsettled, 5, "nobody has told of them");
        let (positions, told) =
            counters.settled(112..117, shares(0, Outcome::Lost(Stage::Network), 5)).unwrap();
        assert_eq!((positions, told.total()), (110..130, 20));
        assert_eq!(told.rows(0).lost[Stage::Network], 5);
        let totals = counters.totals();
        assert_eq!(totals.next - totals.first, totals.delivered + totals.hops.total());
        let reported = counters.reported();
        assert_eq!((reported.delivered, reported.missing, reported.given_up), (10, 5, 15));
    }

    #[test]
    fn the_near_ends_word_corrects_the_cause() {
        let mut counters = Counters::open(1, 1, 0).unwrap();
        counters.lost_until(Place { position: 10, missing: 0 }, Cause::Repair);
        counters.assume(0..10, Cause::Repair);
        counters.corrected(&(4..20), Cause::Bandwidth);
        assert_eq!(counters.totals().causes, [0, 6, 4, 0]);
    }

    #[test]
    fn hops_are_told_with_their_stations() {
        let mut counters = Counters::open(1, 1, 0).unwrap();
        counters.missing(0..4, shares(0, Outcome::Lost(Stage::ReaderLag), 4));
        counters.lost_until(Place { position: 6, missing: 4 }, Cause::LinkDown);
        let upstream = counters.upstream(&["daq".to_owned(), "gate".to_owned()]);
        assert_eq!((upstream[0].lost[Stage::ReaderLag], upstream[1].lost[Stage::Deadline]), (4, 2));
        assert_eq!(upstream[1].station, "gate");
    }
}
