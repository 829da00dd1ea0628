//! A set of numbers kept as disjoint ranges, because losses come in runs.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeMap;

/// A set of `u64` kept as sorted, disjoint, non-touching half-open ranges.
///
/// Cost: all operations are logarithmic in the number of ranges, plus the ranges they touch.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start of each range, mapped to its end.
    ranges: BTreeMap<u64, u64>,
    len: u64,
}

impl RangeSet {
    /// Makes the empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: BTreeMap::new(), len: 0 }
    }

    /// Returns the number of elements in the set.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of separate ranges.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the ranges in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the first range.
    #[must_use]
    pub fn first(&self) -> Option<Range<u64>> {
        self.iter().next()
    }

    /// Returns whether `number` is in the set.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// Adds a range; returns the number of new elements.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.len;
        let Range { mut start, mut end } = range;
        // Merge every range that overlaps or touches into one.
        while let Some((&other_start, &other_end)) = self.ranges.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.ranges.remove(&other_start);
            self.len -= other_end - other_start;
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.ranges.insert(start, end);
        self.len += end - start;
        self.len - before
    }

    /// Removes a range; returns the number of elements removed.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.len;
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.ranges.remove(&start);
            self.len -= end - start;
            if start < range.start {
                self.ranges.insert(start, range.start);
                self.len += range.start - start;
            }
            if end > range.end {
                self.ranges.insert(range.end, end);
                self.len += end - range.end;
            }
        }
        before - self.len
    }

    /// Removes ranges.
    pub fn remove_all(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        for range in ranges {
            self.remove(range);
        }
    }

    /// Returns the parts of `range` that are in the set, in ascending order.
    pub fn intersection(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self
            .ranges
            .range(..=range.start)
            .next_back()
            .filter(|(_, end)| **end > range.start)
            .map_or(range.start, |(&start, _)| start);
        self.ranges
            .range(first..range.end.max(first))
            .map(move |(&start, &end)| start.max(range.start)..end.min(range.end))
            .filter(|part| !part.is_empty())
    }

    /// Returns the number of elements of `range` in the set.
    #[must_use]
    pub fn count_in(&self, range: Range<u64>) -> u64 {
        self.intersection(range).map(|part| part.end - part.start).sum()
    }
}

impl Extend<Range<u64>> for RangeSet {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

impl fmt::Debug for RangeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use std::collections::BTreeSet;

    #[test]
    fn touching_ranges_become_one() {
        let mut set: RangeSet = [0..3, 5..8].into_iter().collect();
        assert_eq!(set.insert(3..5), 2);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0..8]);
    }

    #[test]
    fn several_ranges_are_removed_at_once() {
        let mut set: RangeSet = [0..10].into_iter().collect();
        set.remove_all([2..3, 5..20]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0..2, 3..5]);
    }

    #[test]
    fn removing_the_middle_leaves_both_ends() {
        let mut set: RangeSet = core::iter::once(0..10).collect();
        assert_eq!(set.remove(3..6), 3);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0..3, 6..10]);
        assert_eq!(set.len(), 7);
    }

    #[test]
    fn every_operation_agrees_with_a_plain_set() {
        let mut random = Random::new(11);
        let mut set = RangeSet::new();
        let mut plain = BTreeSet::new();
        for _ in 0..5_000 {
            let start = random.below(120);
            let range = start..start + random.below(12);
            if random.chance(0.5) {
                let added = range.clone().filter(|number| plain.insert(*number)).count() as u64;
                assert_eq!(set.insert(range.clone()), added);
            } else {
                let removed = range.clone().filter(|number| plain.remove(number)).count() as u64;
                assert_eq!(set.remove(range.clone()), removed);
            }
            assert_eq!(set.len(), plain.len() as u64);
            assert!((0..140).all(|number| set.contains(number) == plain.contains(&number)));
            let counted = plain.range(range.clone()).count() as u64;
            assert_eq!(set.count_in(range), counted);
            assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.end < b.start));
        }
    }
}
