//! The bitmap in which a receiver reports missing packets.
//!
//! Words: the round, which the control counts; the first packet of the map, as the high word and the low one; the number of packets in the map;
//! then a bit for each of them, from the lowest bit of the first word on: 1 if it is missing.

use core::ops::Range;

use crate::Incoming;

/// Words of a packet that are not bits: the headers' 44 bytes, and the four words before the bits.
pub(crate) const OVERHEAD_WORDS: u32 = 15;
const HEAD_WORDS: usize = 4;
const WORD_BITS: u64 = 32;
/// Maximum number of packets in a map; a receiver's buffer is rarely larger, and the next round covers the rest.
const MOST_PACKETS: u64 = 1 << 20;

/// Missing packets within a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Map {
    pub(crate) round: u32,
    first: u64,
    packets: u64,
    bits: Vec<u32>,
}

impl Map {
    /// Creates maps of the missing packets before `end`, each of at most `words` words of bits: at least one map,
    /// which may be empty.
    pub(crate) fn of(incoming: &Incoming<'_>, round: u32, end: u64, words: usize) -> Vec<Self> {
        let begin = incoming.next.min(end);
        let end = end.min(begin + MOST_PACKETS);
        let step = (words.max(1) as u64) * WORD_BITS;
        let firsts = (begin..end.max(begin + 1)).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        firsts.map(|first| Self::of_range(incoming, round, first..end.min(first + step))).collect()
    }

    fn of_range(incoming: &Incoming<'_>, round: u32, range: Range<u64>) -> Self {
        let packets = range.end.saturating_sub(range.start);
        let words = usize::try_from(packets.div_ceil(WORD_BITS)).unwrap_or(0);
        let mut map = Self { round, first: range.start, packets, bits: vec![0; words] };
        let behind = range.start.max(incoming.received_end)..range.end;
        for missing in incoming.missing.intersection(range).chain(Some(behind)) {
            missing.for_each(|number| map.set(number));
        }
        map
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = self.place(number);
        self.bits[word] |= bit;
    }

    fn place(&self, number: u64) -> (usize, u32) {
        let at = number - self.first;
        (usize::try_from(at / WORD_BITS).unwrap_or(usize::MAX), 1 << (at % WORD_BITS))
    }

    /// Reads a map; `None` if the body is invalid.
    pub(crate) fn read(body: &[u32]) -> Option<Self> {
        let (&[round, high, low, packets], bits) = body.split_first_chunk::<HEAD_WORDS>()?;
        let (first, packets) = (number(high, low), u64::from(packets));
        let is_whole =
            packets.div_ceil(WORD_BITS) <= bits.len() as u64 && first.checked_add(packets).is_some();
        is_whole.then(|| Self { round, first, packets, bits: bits.to_vec() })
    }

    pub(crate) fn body(&self) -> Vec<u32> {
        let [high, low] = words(self.first);
        let packets = u32::try_from(self.packets).unwrap_or(u32::MAX);
        [self.round, high, low, packets].into_iter().chain(self.bits.iter().copied()).collect()
    }

    /// Returns one more than the last packet of the map.
    pub(crate) const fn end(&self) -> u64 {
        self.first + self.packets
    }

    /// Returns the missing packets within `within`.
    pub(crate) fn missing(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let end = within.end.min(self.end());
        let mut at = within.start.max(self.first);
        core::iter::from_fn(move || {
            let start = (at..end).find(|number| self.is_missing(*number))?;
            at = (start..end).find(|number| !self.is_missing(*number)).unwrap_or(end);
            Some(start..at)
        })
    }

    fn is_missing(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        self.bits[word] & bit != 0
    }
}

/// Splits a number into its high word and low one.
#[expect(clippy::cast_possible_truncation, reason = "the low word is what is left of it")]
pub(crate) const fn words(number: u64) -> [u32; 2] {
    [(number >> 32) as u32, number as u32]
}

/// Joins two words to a number.
pub(crate) const fn number(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// Returns a count as a float.
#[expect(clippy::cast_precision_loss, reason = "questions are few")]
pub(crate) const fn count(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use units::RangeSet;

    use super::*;

    fn read(map: &Map) -> Vec<Range<u64>> {
        let read = Map::read(&map.body()).unwrap();
        assert_eq!(read, *map);
        read.missing(0..u64::MAX).collect()
    }

    #[test]
    fn what_is_missing_and_what_never_came_is_in_the_map() {
        let missing: RangeSet =
            [(1 << 40)..(1 << 40) + 3, (1 << 40) + 31..(1 << 40) + 33].into_iter().collect();
        let incoming = Incoming { next: 1 << 40, received_end: (1 << 40) + 40, missing: &missing };
        let maps = Map::of(&incoming, 7, (1 << 40) + 50, 100);
        assert_eq!(maps.len(), 1);
        let at = |from: u64, to: u64| (1 << 40) + from..(1 << 40) + to;
        assert_eq!(read(&maps[0]), [at(0, 3), at(31, 33), at(40, 50)]);
        assert_eq!(maps[0].end(), (1 << 40) + 50);
    }

    #[test]
    fn a_long_block_takes_several_maps_and_a_whole_one_an_empty_one() {
        let missing: RangeSet = [100..1_000].into_iter().collect();
        let incoming = Incoming { next: 100, received_end: 1_000, missing: &missing };
        let maps = Map::of(&incoming, 1, 1_000, 10);
        assert_eq!(
            maps.iter().map(|map| (map.first, map.end())).collect::<Vec<_>>(),
            [(100, 420), (420, 740), (740, 1_000)]
        );
        let all: Vec<_> = maps.iter().flat_map(read).collect();
        assert_eq!(all, [100..420, 420..740, 740..1_000]);
        let nothing = RangeSet::new();
        let incoming = Incoming { next: 1_000, received_end: 1_000, missing: &nothing };
        for end in [900, 1_000] {
            let maps = Map::of(&incoming, 1, end, 10);
            assert_eq!((maps.len(), maps[0].end(), read(&maps[0])), (1, end, vec![]));
        }
    }

    #[test]
    fn nonsense_is_no_map() {
        for body in [&[][..], &[1, 0, 5], &[1, 0, 5, 33, 0], &[1, u32::MAX, u32::MAX, 1, 1]] {
            assert_eq!(Map::read(body), None, "{body:?}");
        }
    }
}
