//! The near end's account of a stream: the elements offered to the link, and their outcomes by the far end's totals.

use core::ops::Range;
use std::collections::VecDeque;

use super::Fault;
use crate::Cause;
use crate::frame::Totals;

/// Maximum number of missing ranges that the far end's totals have not reached; with more, totals are not checked.
const MAX_RANGES: usize = 65_536;

/// Account of a stream on the link, as the near end has it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NearAccount {
    /// First position of the account.
    pub first: u64,
    /// One behind the last position that the driver has passed in.
    pub next: u64,
    /// Elements that were missing before the link.
    pub missing: u64,
    /// Elements that the far end has published.
    pub delivered: u64,
    /// Elements that the link has lost, by the far end's totals.
    pub given_up: u64,
    /// Elements that wait here or are in flight.
    pub in_flight: u64,
    /// Elements that this end gave up, by cause in the order of [`Cause::ALL`]; some may have arrived all the same.
    pub causes: [u64; 4],
}

/// The account of a stream.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    /// First position on the link, and the elements that were missing before it.
    base: u64,
    base_missing: u64,
    next: u64,
    /// Elements that were missing, since the driver began.
    missing: u64,
    /// Position from which on the missing ranges are known, and the elements missing before it.
    known_from: u64,
    known_missing: u64,
    /// Missing ranges, each with the elements missing before it.
    ranges: VecDeque<(Range<u64>, u64)>,
    reported: Totals,
    causes: [u64; 4],
}

impl Counters {
    pub(super) const fn new(first_position: u64) -> Self {
        Self {
            base: first_position,
            base_missing: 0,
            next: first_position,
            missing: 0,
            known_from: first_position,
            known_missing: 0,
            ranges: VecDeque::new(),
            reported: Totals { position: first_position, delivered: 0, missing: 0, given_up: 0, controls: 0 },
            causes: [0; 4],
        }
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the elements missing so far.
    pub(super) const fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns a count of missing elements as the far end counts them.
    pub(super) const fn on_link(&self, missing: u64) -> u64 {
        missing.saturating_sub(self.base_missing)
    }

    /// Returns the least position at which the account can begin anew.
    pub(super) const fn known_from(&self) -> u64 {
        self.known_from
    }

    /// Returns whether the far end has reported an outcome for every element.
    pub(super) const fn is_complete(&self) -> bool {
        self.reported.position >= self.next
    }

    pub(super) const fn offer(&mut self, positions: &Range<u64>) {
        self.next = positions.end;
    }

    pub(super) fn miss(&mut self, positions: &Range<u64>) {
        match self.ranges.back_mut() {
            Some((last, _)) if last.end == positions.start => last.end = positions.end,
            _ => self.ranges.push_back((positions.clone(), self.missing)),
        }
        self.missing += positions.end - positions.start;
        self.next = positions.end;
        if self.ranges.len() > MAX_RANGES {
            let (range, before) = self.ranges.pop_front().expect("more than one");
            self.known_from = range.end;
            self.known_missing = before + (range.end - range.start);
        }
    }

    pub(super) fn gave_up(&mut self, positions: &Range<u64>, cause: Cause) {
        self.causes[cause as usize] += positions.end - positions.start;
    }

    /// Begins anew at a position not below [`Counters::known_from`].
    pub(super) fn begin_at(&mut self, base: u64) {
        self.next = self.next.max(base);
        self.base = base;
        self.base_missing = self.missing_below(base);
        self.reported = Totals { position: base, ..Totals::default() };
        self.causes = [0; 4];
        self.forget_below(base);
    }

    /// Checks the position that the far end reports.
    pub(super) const fn check_position(&self, position: u64) -> Result<(), Fault> {
        if position > self.next || position < self.base { Err(Fault::NotSent(position)) } else { Ok(()) }
    }

    /// Takes the far end's totals; returns false if newer ones are known.
    pub(super) fn report(&mut self, totals: Totals) -> Result<bool, Fault> {
        let Totals { position, delivered, missing, given_up, .. } = totals;
        if position < self.reported.position {
            return Ok(false);
        }
        self.check_position(position)?;
        let sum = [delivered, missing, given_up].into_iter().try_fold(0_u64, u64::checked_add);
        let is_known = position >= self.known_from;
        let expected = self.on_link(self.missing_below(position));
        if sum != Some(position - self.base) || (is_known && missing != expected) {
            return Err(Fault::Totals(position));
        }
        self.reported = totals;
        self.forget_below(position);
        Ok(true)
    }

    pub(super) const fn account(&self) -> NearAccount {
        let missing = self.on_link(self.missing);
        let Totals { delivered, given_up, missing: reported, .. } = self.reported;
        let in_flight = (self.next - self.reported.position) - (missing - reported);
        let (first, next, causes) = (self.base, self.next, self.causes);
        NearAccount { first, next, missing, delivered, given_up, in_flight, causes }
    }

    /// Returns the elements missing below a position.
    fn missing_below(&self, position: u64) -> u64 {
        let place = self.ranges.partition_point(|(range, _)| range.start < position);
        match place.checked_sub(1).map(|last| &self.ranges[last]) {
            Some((range, before)) => before + position.min(range.end) - range.start,
            None => self.known_missing,
        }
    }

    fn forget_below(&mut self, position: u64) {
        if position < self.known_from {
            return;
        }
        (self.known_missing, self.known_from) = (self.missing_below(position), position);
        while self.ranges.front().is_some_and(|(range, _)| range.end <= position) {
            self.ranges.pop_front();
        }
        if let Some((range, before)) = self.ranges.front_mut()
            && range.start < position
        {
            *before += position - range.start;
            range.start = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(position: u64, delivered: u64, missing: u64, given_up: u64) -> Totals {
        Totals { position, delivered, missing, given_up, controls: 0 }
    }

    #[test]
    fn what_was_sent_is_delivered_given_up_or_in_flight() {
        let mut counters = Counters::new(100);
        counters.offer(&(100..150));
        counters.miss(&(150..160));
        counters.offer(&(160..200));
        assert_eq!(counters.report(totals(155, 48, 5, 2)), Ok(true));
        let account = counters.account();
        assert_eq!(
            (account.missing, account.delivered, account.given_up, account.in_flight),
            (10, 48, 2, 40)
        );
        assert_eq!(counters.report(totals(155, 47, 5, 3)), Ok(true), "what came late may change between");
        assert_eq!(counters.report(totals(120, 20, 0, 0)), Ok(false), "it was overtaken by a newer one");
        assert_eq!(counters.report(totals(200, 88, 10, 2)), Ok(true));
        assert!(counters.is_complete());
    }

    #[test]
    fn totals_that_do_not_add_up_are_refused() {
        let mut counters = Counters::new(0);
        counters.offer(&(0..50));
        counters.miss(&(50..60));
        assert_eq!(counters.report(totals(61, 51, 10, 0)), Err(Fault::NotSent(61)));
        assert_eq!(counters.report(totals(60, 50, 9, 0)), Err(Fault::Totals(60)), "one is not told of");
        assert_eq!(
            counters.report(totals(60, 51, 9, 0)),
            Err(Fault::Totals(60)),
            "one more than was offered"
        );
        assert_eq!(counters.report(totals(60, u64::MAX, 10, 0)), Err(Fault::Totals(60)));
        assert_eq!(counters.report(totals(60, 50, 10, 0)), Ok(true));
    }

    #[test]
    fn a_account_that_begins_anew_counts_from_there() {
        let mut counters = Counters::new(0);
        counters.miss(&(0..10));
        counters.offer(&(10..20));
        counters.miss(&(20..30));
        counters.begin_at(25);
        assert_eq!(counters.on_link(counters.missing()), 5);
        assert_eq!(counters.check_position(24), Err(Fault::NotSent(24)));
        assert_eq!(counters.report(totals(30, 0, 5, 0)), Ok(true));
    }
}
