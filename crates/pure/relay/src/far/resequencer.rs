//! Positions behind the next one, as far as they are known: samples, and elements that do not come.

use core::ops::Range;
use std::collections::BTreeMap;

use ledger::HopCounts;
use units::{Instant, WallTime};
use wire::Clock;

use super::FarFault;
use crate::Cause;

/// Rounding of a birth: clock and age are cut to whole microseconds, each at another instant for each message.
const ROUNDING_US: u32 = 2;
/// Maximum number of entries: this and the bound on bytes limit the memory that a faulty near end can cost.
const MAX_ENTRIES: usize = 65_536;

/// A range of positions, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub(super) positions: Range<u64>,
    /// Elements that were missing before the link and before the range.
    pub(super) missing_before: u64,
    /// Birth of the newest samples in it, or before it if it has none.
    pub(super) born: Instant,
    /// The same by the near end's clock on this connection; `None` if the range came on another connection.
    pub(super) born_us: Option<u32>,
    pub(super) outcome: KnownOutcome,
}

/// Outcome of a range of positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum KnownOutcome {
    Samples { t0: WallTime, clock: Clock, bytes: Vec<u8> },
    Missing(HopCounts),
    GivenUp(Cause),
}

/// Ranges behind the next position, by their start; they do not overlap, and their counts of missing elements fit to
/// each other.
#[derive(Clone, Default, Debug)]
pub(super) struct Resequencer {
    ranges: BTreeMap<u64, Known>,
    bytes: usize,
}

/// A place in the stream: position, and elements missing before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) position: u64,
    pub(super) missing: u64,
}

impl Known {
    const fn start(&self) -> Place {
        Place { position: self.positions.start, missing: self.missing_before }
    }

    /// Returns the place behind it.
    pub(super) const fn end(&self) -> Place {
        let Range { start, end } = self.positions;
        let missing = match self.outcome {
            KnownOutcome::Missing(_) => self.missing_before.saturating_add(end - start),
            KnownOutcome::Samples { .. } | KnownOutcome::GivenUp(_) => self.missing_before,
        };
        Place { position: end, missing }
    }

    const fn size_bytes(&self) -> usize {
        match &self.outcome {
            KnownOutcome::Samples { bytes, .. } => bytes.len(),
            KnownOutcome::Missing(_) | KnownOutcome::GivenUp(_) => 0,
        }
    }

    const fn has_samples(&self) -> bool {
        matches!(self.outcome, KnownOutcome::Samples { .. })
    }
}

impl Place {
    /// Returns whether the other place can lie behind this one.
    pub(super) const fn leads_to(self, other: Self) -> bool {
        other.position >= self.position
            && other.missing >= self.missing
            && other.missing - self.missing <= other.position - self.position
    }
}

impl Resequencer {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn first(&self) -> Option<&Known> {
        self.ranges.first_key_value().map(|(_, known)| known)
    }

    pub(super) fn pop_first(&mut self) -> Option<Known> {
        let (_, known) = self.ranges.pop_first()?;
        self.bytes -= known.size_bytes();
        Some(known)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Another connection follows, whose clock has another zero.
    pub(super) fn forget_clock(&mut self) {
        self.ranges.values_mut().for_each(|known| known.born_us = None);
    }

    /// Changes the outcome of a missing range that is not published yet; returns whether it is here.
    pub(super) fn settle(&mut self, positions: &Range<u64>, shares: &HopCounts) -> bool {
        match self.ranges.get_mut(&positions.start) {
            Some(Known { positions: known, outcome: KnownOutcome::Missing(all), .. })
                if known == positions =>
            {
                all.clone_from(shares);
                true
            }
            _ => false,
        }
    }

    /// Adds a range behind `next`. Of a range that does not come, only the positions are added that are not known yet.
    ///
    /// `released_us` is the birth of the samples published last, as far as they came on this connection.
    pub(super) fn add(
        &mut self,
        next: Place,
        released_us: Option<u32>,
        known: Known,
    ) -> Result<(), FarFault> {
        match known.outcome {
            KnownOutcome::GivenUp(_) => {
                for positions in self.unknown_of(next.position, &known.positions) {
                    self.insert(next, released_us, Known { positions, ..known.clone() })?;
                }
                Ok(())
            }
            KnownOutcome::Samples { .. } | KnownOutcome::Missing(_) => self.insert(next, released_us, known),
        }
    }

    /// Returns the parts of a range of which nothing is known.
    fn unknown_of(&self, next: u64, positions: &Range<u64>) -> Vec<Range<u64>> {
        let mut start = positions.start.max(next);
        let mut parts = Vec::new();
        let before = self.ranges.range(..start).next_back();
        let behind = self.ranges.range(start..).take_while(|(there, _)| **there < positions.end);
        for known in before.into_iter().chain(behind).map(|(_, known)| &known.positions) {
            if start < known.start {
                parts.push(start..known.start);
            }
            start = start.max(known.end);
        }
        if start < positions.end {
            parts.push(start..positions.end);
        }
        parts
    }

    fn insert(&mut self, next: Place, released_us: Option<u32>, known: Known) -> Result<(), FarFault> {
        let Range { start, end } = known.positions;
        let contradiction = Err(FarFault::Contradiction { start, end });
        let before = self.ranges.range(..start).next_back().map(|(_, before)| before);
        let behind = self.ranges.range(start..).next().map(|(_, behind)| behind);
        let fits = before.map_or(next, Known::end).leads_to(known.start())
            && behind.is_none_or(|behind| known.end().leads_to(behind.start()));
        if start >= end || !fits || self.ranges.len() >= MAX_ENTRIES {
            return contradiction;
        }
        if known.has_samples() {
            // Checked only if both came on this connection: clocks of other connections have another zero.
            let before_us = before.filter(|before| before.has_samples()).and_then(|before| before.born_us);
            let behind_us = behind.filter(|behind| behind.has_samples()).and_then(|behind| behind.born_us);
            let goes_back = |earlier: Option<u32>, later: Option<u32>| {
                let goes_back = |(earlier, later): (u32, u32)| {
                    later.wrapping_add(ROUNDING_US).wrapping_sub(earlier) > u32::MAX / 2
                };
                earlier.zip(later).is_some_and(goes_back)
            };
            if goes_back(before_us.or(released_us), known.born_us) || goes_back(known.born_us, behind_us) {
                return Err(FarFault::Age(start));
            }
        }
        self.bytes += known.size_bytes();
        self.ranges.insert(start, known);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Place = Place { position: 10, missing: 2 };

    fn known(positions: Range<u64>, missing_before: u64, outcome: KnownOutcome) -> Known {
        Known { positions, missing_before, born: Instant::ORIGIN, born_us: Some(5), outcome }
    }

    fn samples(positions: Range<u64>, missing_before: u64) -> Known {
        let bytes = positions.clone().map(|_| 0).collect();
        let outcome = KnownOutcome::Samples { t0: WallTime::from_nanos(0), clock: Clock::System, bytes };
        known(positions, missing_before, outcome)
    }

    #[test]
    fn what_is_given_up_fills_only_what_is_unknown() {
        let mut all = Resequencer::default();
        all.add(NEXT, None, samples(14..16, 2)).unwrap();
        all.add(NEXT, None, samples(18..20, 2)).unwrap();
        all.add(NEXT, None, known(8..19, 2, KnownOutcome::GivenUp(Cause::Repair))).unwrap();
        let order: Vec<_> = core::iter::from_fn(|| all.pop_first()).map(|known| known.positions).collect();
        assert_eq!(order, [10..14, 14..16, 16..18, 18..20]);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn ranges_that_overlap_or_count_otherwise_are_refused() {
        let mut all = Resequencer::default();
        all.add(NEXT, None, samples(14..18, 4)).unwrap();
        let refused = |all: &mut Resequencer, start, end, missing| {
            let outcome = all.add(NEXT, None, samples(start..end, missing));
            assert_eq!(outcome, Err(FarFault::Contradiction { start, end }), "{missing} missing");
        };
        refused(&mut all, 16, 20, 4);
        refused(&mut all, 12, 15, 4);
        refused(&mut all, 9, 11, 2);
        refused(&mut all, 12, 13, 1);
        refused(&mut all, 12, 13, 5);
        refused(&mut all, 20, 22, 7);
        refused(&mut all, 20, 22, 3);
        all.add(NEXT, None, samples(20..22, 6)).unwrap();
        all.add(NEXT, None, samples(12..13, 4)).unwrap();
        assert_eq!(all.bytes(), 7);
    }

    #[test]
    fn births_of_another_connection_are_not_compared() {
        let mut all = Resequencer::default();
        let born = |born_us, known: Known| Known { born_us: Some(born_us), ..known };
        all.add(NEXT, None, born(1_000_000, samples(14..15, 2))).unwrap();
        assert_eq!(all.add(NEXT, None, born(7, samples(16..17, 2))), Err(FarFault::Age(16)));
        all.forget_clock();
        all.add(NEXT, None, born(7, samples(16..17, 2))).unwrap();
    }

    #[test]
    fn samples_that_are_older_than_those_before_them_are_refused() {
        let mut all = Resequencer::default();
        let born = |born_us, known: Known| Known { born_us: Some(born_us), ..known };
        assert_eq!(all.add(NEXT, Some(8), samples(12..13, 2)), Err(FarFault::Age(12)));
        all.add(NEXT, Some(7), samples(12..13, 2)).unwrap();
        assert_eq!(all.add(NEXT, None, born(2, samples(14..15, 2))), Err(FarFault::Age(14)));
        assert_eq!(all.add(NEXT, None, born(8, samples(11..12, 2))), Err(FarFault::Age(11)));
        all.add(NEXT, None, born(7, samples(11..12, 2))).unwrap();
        all.add(NEXT, None, born(3, samples(14..15, 2))).unwrap();
    }
}
