//! Reports of missing packets: at once on detection, and repeatedly while they stay missing.
//!
//! libudt reports each gap once, and waits for the sender's timer when the report or the packet sent again is lost.
//! Repetition is legal in its protocol, and its senders accept it.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::{Instant, RangeSet};
use wire::udt::{LossListWriter, Sequence};

use crate::Repair;

/// Minimum interval between two reports of a gap.
const LEAST_INTERVAL: Duration = Duration::from_millis(20);
/// Number of reported gaps below which closed ones are not removed.
const FEW_REPORTED: usize = 1_024;
/// Maximum factor by which the interval of a gap's reports grows.
const MOST_STEPS: u32 = 8;

/// Minimum interval of reports to a sender of live messages.
const LEAST_LIVE_INTERVAL: Duration = Duration::from_millis(1);

/// Schedules loss reports.
#[derive(Debug)]
pub(crate) struct Gaps {
    least_interval: Duration,
    most_steps: u32,
    fresh: Vec<Range<u64>>,
    /// Number of reported gaps at which closed ones are removed: a peer that claims a round trip of an hour would
    /// fill the memory with them.
    prunes_at: usize,
    /// Reported gaps, in the order of their next check.
    reported: VecDeque<Reported>,
}

#[derive(Clone, Debug)]
struct Reported {
    range: Range<u64>,
    again_at: Instant,
    times: u32,
}

impl Gaps {
    pub(crate) fn new(repair: Repair) -> Self {
        let (least_interval, most_steps) = match repair {
            Repair::Patient => (LEAST_INTERVAL, MOST_STEPS),
            Repair::Timely => (LEAST_LIVE_INTERVAL, 1),
        };
        Self {
            least_interval,
            most_steps,
            fresh: Vec::new(),
            prunes_at: FEW_REPORTED,
            reported: VecDeque::new(),
        }
    }

    /// Records a new gap.
    pub(crate) fn open(&mut self, range: Range<u64>) {
        self.fresh.push(range);
    }

    /// Returns the time of the next call.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.reported.front().map(|it| it.again_at)
    }

    /// Fills a report with missing packets that are due; returns whether it has any.
    ///
    /// Gaps that do not fit stay due.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        patience: Duration,
        missing: &RangeSet,
        report: &mut LossListWriter,
    ) -> bool {
        if self.reported.len() >= self.prunes_at {
            self.reported.retain(|it| missing.intersection(it.range.clone()).next().is_some());
            self.prunes_at = (self.reported.len() * 2).max(FEW_REPORTED);
        }
        let fresh = core::mem::take(&mut self.fresh);
        let mut fresh = fresh.into_iter().map(|range| Reported { range, again_at: now, times: 0 });
        while let Some(due) = fresh.next().or_else(|| self.take_due(now)) {
            if !self.report(now, patience, missing, due, report) {
                break;
            }
        }
        self.fresh.extend(fresh.map(|left| left.range));
        !report.is_empty()
    }

    /// Returns whether a report is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.fresh.is_empty() || self.deadline().is_some_and(|at| at <= now)
    }

    fn take_due(&mut self, now: Instant) -> Option<Reported> {
        if self.deadline()? <= now { self.reported.pop_front() } else { None }
    }

    /// Reports the packets of a gap that are still missing; returns `false` if not all of them fit.
    fn report(
        &mut self,
        now: Instant,
        patience: Duration,
        missing: &RangeSet,
        gap: Reported,
        report: &mut LossListWriter,
    ) -> bool {
        let times = (gap.times + 1).min(self.most_steps);
        let again_at = now + patience.max(self.least_interval) * times;
        for range in missing.intersection(gap.range.clone()) {
            if !report.push(Sequence::of(range.start), Sequence::of(range.end - 1)) {
                self.fresh.push(range.start..gap.range.end);
                return false;
            }
            self.insert(Reported { range, again_at, times });
        }
        true
    }

    /// Inserts in the order of time; nearly always the newest is the latest.
    fn insert(&mut self, reported: Reported) {
        let at = self.reported.partition_point(|it| it.again_at <= reported.again_at);
        self.reported.insert(at, reported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn reported(gaps: &mut Gaps, now: Instant, missing: &RangeSet) -> Vec<u32> {
        let mut report = LossListWriter::new(1_500);
        gaps.poll(now, PATIENCE, missing, &mut report);
        report.words().to_vec()
    }

    #[test]
    fn a_gap_is_reported_at_once_and_again_as_far_as_it_is_still_missing() {
        let (mut gaps, mut missing) = (Gaps::new(Repair::Patient), RangeSet::new());
        missing.insert(10..20);
        gaps.open(10..20);
        assert_eq!(reported(&mut gaps, at(0), &missing), [0x8000_000a, 19]);
        assert_eq!(reported(&mut gaps, at(49), &missing), []);
        missing.remove(12..19);
        assert_eq!(gaps.deadline(), Some(at(50)));
        assert_eq!(reported(&mut gaps, at(50), &missing), [0x8000_000a, 11, 19]);
        assert_eq!(gaps.deadline(), Some(at(150)));
        missing.remove(10..20);
        assert_eq!(reported(&mut gaps, at(150), &missing), []);
        assert_eq!(gaps.deadline(), None);
    }

    #[test]
    fn a_sender_of_live_messages_hears_of_a_gap_each_round_trip() {
        let (mut gaps, mut missing) = (Gaps::new(Repair::Timely), RangeSet::new());
        missing.insert(10..11);
        gaps.open(10..11);
        for round in 0..20 {
            let mut report = LossListWriter::new(1_500);
            let now = at(5 * round);
            assert!(gaps.poll(now, Duration::from_millis(5), &missing, &mut report), "{round}");
            assert_eq!(gaps.deadline(), Some(at(5 * (round + 1))), "neither growing nor 20 ms at least");
        }
    }

    #[test]
    fn gaps_that_are_closed_are_not_kept_however_long_the_round_trip_is() {
        let (mut gaps, mut missing) = (Gaps::new(Repair::Patient), RangeSet::new());
        let mut report = LossListWriter::new(1_500);
        for number in 0..100_000 {
            missing.insert(2 * number..2 * number + 1);
            gaps.open(2 * number..2 * number + 1);
            gaps.poll(at(0), Duration::from_secs(3_600), &missing, &mut report);
            missing.remove(0..2 * number);
            report = LossListWriter::new(1_500);
        }
        assert!(gaps.reported.len() <= FEW_REPORTED, "{} are kept", gaps.reported.len());
    }

    #[test]
    fn what_finds_no_room_is_reported_next() {
        let (mut gaps, mut missing) = (Gaps::new(Repair::Patient), RangeSet::new());
        for start in [10, 20, 30] {
            missing.insert(start..start + 1);
            gaps.open(start..start + 1);
        }
        let mut small = LossListWriter::new(wire::udt::OVERHEAD_BYTES + 8);
        assert!(gaps.poll(at(0), PATIENCE, &missing, &mut small));
        assert_eq!(small.words(), [10, 20]);
        assert!(gaps.is_due(at(0)));
        assert_eq!(reported(&mut gaps, at(0), &missing), [30]);
        assert!(!gaps.is_due(at(1)));
    }
}
