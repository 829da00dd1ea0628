//! Window of the counters that were received: each counts once, in any order, within the newest 2,048.

/// Number of counters behind the newest one that may still arrive.
pub(crate) const WINDOW: u64 = 2_048;
/// Words of the ring: the window, and one word that is being filled. A power of two, so that it wraps with the counter.
const WORDS: usize = 64;

/// Counters received, as a ring of bits that is cleared ahead of the newest.
///
/// Source: RFC 6479 §2.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// One more than the largest counter received.
    next: u64,
    words: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { next: 0, words: [0; WORDS] }
    }
}

impl ReplayWindow {
    /// Returns whether a datagram with this counter may be new.
    pub(crate) const fn admits(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        self.next - counter <= WINDOW && self.words[word_of(counter)] & bit_of(counter) == 0
    }

    /// Notes an authentic datagram's counter.
    pub(crate) fn note(&mut self, counter: u64) {
        if counter >= self.next {
            // Words between the newest and this counter belong to counters of an earlier turn of the ring.
            let first = if self.next == 0 { 0 } else { (self.next - 1) / 64 + 1 };
            let last = counter / 64;
            for word in first.max(last.saturating_sub(WORDS as u64 - 1))..=last {
                self.words[index_of(word)] = 0;
            }
            self.next = counter + 1;
        }
        self.words[word_of(counter)] |= bit_of(counter);
    }
}

const fn bit_of(counter: u64) -> u64 {
    1 << (counter % 64)
}

const fn word_of(counter: u64) -> usize {
    index_of(counter / 64)
}

#[expect(clippy::cast_possible_truncation, reason = "below the number of words")]
const fn index_of(word: u64) -> usize {
    (word % WORDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_counter_of_the_window_is_admitted_and_the_one_before_is_not() {
        let mut window = ReplayWindow::default();
        window.note(10_000);
        let oldest = 10_001 - WINDOW;
        assert!(window.admits(oldest) && !window.admits(oldest - 1));
        window.note(oldest);
        assert!(!window.admits(oldest) && !window.admits(10_000));
        assert!(window.admits(10_001) && window.admits(u64::MAX - 1));
    }

    #[test]
    fn a_leap_forgets_what_is_behind_the_window() {
        let mut window = ReplayWindow::default();
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
            let (mut window, mut seen, mut newest) = (ReplayWindow::default(), BTreeSet::new(), 0_u64);
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
