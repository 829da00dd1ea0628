//! Numbers that were received: each counts once, in any order, within a window below the highest.

/// Bits of a word.
const WORD_BITS: u64 = u64::BITS as u64;

/// A window over numbers or counters of at most `u64::MAX - 1`, as a ring of bits that is cleared ahead of the highest.
///
/// It tells apart the `WINDOW` numbers up to the highest; older ones are refused. It has `WORDS` words: at least one more
/// than the window fills.
///
/// Source: RFC 6479 §2.
#[derive(Clone, Debug)]
pub struct ReplayWindow<const WINDOW: u64, const WORDS: usize> {
    /// One more than the highest number received.
    next: u64,
    words: [u64; WORDS],
}

impl<const WINDOW: u64, const WORDS: usize> Default for ReplayWindow<WINDOW, WORDS> {
    fn default() -> Self {
        const { assert!(WORDS as u64 * WORD_BITS >= WINDOW + WORD_BITS, "the window and one word that is filled") };
        Self { next: 0, words: [0; WORDS] }
    }
}

impl<const WINDOW: u64, const WORDS: usize> ReplayWindow<WINDOW, WORDS> {
    /// Returns one more than the highest number received.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether a number may be new.
    #[must_use]
    pub const fn admits(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        self.next - number <= WINDOW && self.words[Self::word_of(number)] & bit_of(number) == 0
    }

    /// Notes the number of an authentic datagram.
    pub fn note(&mut self, number: u64) {
        if number >= self.next {
            // Words between the highest and this number belong to numbers of an earlier turn of the ring.
            let first = if self.next == 0 { 0 } else { (self.next - 1) / WORD_BITS + 1 };
            let last = number / WORD_BITS;
            for word in first.max(last.saturating_sub(WORDS as u64 - 1))..=last {
                self.words[Self::index_of(word)] = 0;
            }
            self.next = number + 1;
        }
        self.words[Self::word_of(number)] |= bit_of(number);
    }

    const fn word_of(number: u64) -> usize {
        Self::index_of(number / WORD_BITS)
    }

    #[expect(clippy::cast_possible_truncation, reason = "below the number of words")]
    const fn index_of(word: u64) -> usize {
        (word % WORDS as u64) as usize
    }
}

const fn bit_of(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 2_048;
    type Window = ReplayWindow<WINDOW, 64>;

    #[test]
    fn the_oldest_counter_of_the_window_is_admitted_and_the_one_before_is_not() {
        let mut window = Window::default();
        window.note(10_000);
        let oldest = 10_001 - WINDOW;
        assert!(window.admits(oldest) && !window.admits(oldest - 1));
        window.note(oldest);
        assert!(!window.admits(oldest) && !window.admits(10_000));
        assert!(window.admits(10_001) && window.admits(u64::MAX - 1));
    }

    #[test]
    fn a_leap_forgets_what_is_behind_the_window() {
        let mut window = Window::default();
        (0..5_000).for_each(|counter| window.note(counter));
        window.note(1 << 40);
        assert!(window.admits((1 << 40) - 1) && window.admits((1 << 40) - (WINDOW - 1)));
        assert!(!window.admits((1 << 40) - WINDOW) && !window.admits(4_999));
    }

    proptest! {
        #[test]
        fn it_admits_what_a_list_of_all_counters_admits(
            steps in prop::collection::vec(prop_oneof![8 => 0_u64..70, 1 => 0_u64..5_000], 1..400),
            back in prop::collection::vec(0_u64..4_300, 400),
        ) {
            let (mut window, mut seen, mut newest) = (Window::default(), BTreeSet::new(), 0_u64);
            for (step, back) in steps.iter().zip(&back) {
                newest += step;
                for counter in [newest, newest.saturating_sub(*back)] {
                    let largest = seen.last().copied();
                    let is_recent = largest.is_none_or(|largest: u64| counter + WINDOW > largest);
                    let expected = is_recent && !seen.contains(&counter);
                    prop_assert_eq!(window.admits(counter), expected, "{}", counter);
                    if expected {
                        window.note(counter);
                        seen.insert(counter);
                    }
                }
            }
        }
    }
}
