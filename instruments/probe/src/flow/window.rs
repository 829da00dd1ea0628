//! Numbers of a flow that have been seen: exact for the newest, counted for older ones.

/// Maximum distance behind the newest number at which a datagram can be told from one seen before.
///
/// 2¹⁷ numbers take 16 KiB; at a million datagrams per second they cover an eighth of a second of reordering.
pub const WINDOW_NUMBERS: u64 = 1 << 17;
const WORDS: u64 = WINDOW_NUMBERS / WORD_NUMBERS;
const WORD_NUMBERS: u64 = 64;

/// Result of marking a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Not seen before.
    First,
    /// Seen before.
    Again,
    /// Before the window: whether it was seen is no longer known.
    Unknown,
}

/// Numbers seen, in bounded memory.
#[derive(Clone, Debug)]
pub struct SeenNumbers {
    /// Ring of bits: number `n` is in word `n / 64 % WORDS`.
    words: Box<[u64]>,
    /// First number of the window, a multiple of 64.
    first: u64,
    /// Numbers before the window that were never seen.
    unseen_before: u64,
}

impl Default for SeenNumbers {
    fn default() -> Self {
        let words = usize::try_from(WORDS).expect("a small constant");
        Self { words: vec![0; words].into_boxed_slice(), first: 0, unseen_before: 0 }
    }
}

impl SeenNumbers {
    /// Marks a number as seen.
    pub fn mark(&mut self, number: u64) -> Seen {
        if number < self.first {
            return Seen::Unknown;
        }
        self.move_up_to(number);
        let (word, bit) = (&mut self.words[index(number)], 1 << (number % WORD_NUMBERS));
        let seen = if *word & bit == 0 { Seen::First } else { Seen::Again };
        *word |= bit;
        seen
    }

    /// Returns how many numbers below `end` were not seen.
    ///
    /// Cost: at most one pass over the window.
    #[must_use]
    pub fn unseen_below(&self, end: u64) -> u64 {
        let window_end = self.first + WINDOW_NUMBERS;
        let beyond = end.saturating_sub(window_end);
        let end = end.clamp(self.first, window_end);
        let whole = (self.first..end - end % WORD_NUMBERS).step_by(WORD_NUMBERS as usize);
        let in_whole: u64 = whole.map(|number| u64::from(self.words[index(number)].count_zeros())).sum();
        let rest = end % WORD_NUMBERS;
        let in_rest = if rest == 0 {
            0
        } else {
            rest - u64::from((self.words[index(end)] & ((1 << rest) - 1)).count_ones())
        };
        self.unseen_before + in_whole + in_rest + beyond
    }

    /// Moves the window so that it holds `number`, and counts what it leaves behind unseen.
    fn move_up_to(&mut self, number: u64) {
        let word_first = number - number % WORD_NUMBERS;
        let first = (word_first + WORD_NUMBERS).saturating_sub(WINDOW_NUMBERS);
        if first <= self.first {
            return;
        }
        let cleared_to = first.min(self.first + WINDOW_NUMBERS);
        for number in (self.first..cleared_to).step_by(WORD_NUMBERS as usize) {
            let word = &mut self.words[index(number)];
            self.unseen_before += u64::from(word.count_zeros());
            *word = 0;
        }
        self.unseen_before += first - cleared_to;
        self.first = first;
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number / WORD_NUMBERS % WORDS).expect("smaller than the number of words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_and_the_last_number_of_the_window_are_known() {
        let mut seen = SeenNumbers::default();
        assert_eq!(seen.mark(WINDOW_NUMBERS - 1), Seen::First);
        assert_eq!((seen.mark(0), seen.mark(0)), (Seen::First, Seen::Again));
        assert_eq!(seen.mark(WINDOW_NUMBERS), Seen::First);
        assert_eq!((seen.mark(1), seen.mark(63), seen.mark(64)), (Seen::Unknown, Seen::Unknown, Seen::First));
    }

    proptest! {
        #[test]
        fn the_window_agrees_with_a_plain_set(
            steps in prop::collection::vec((0_u64..200_000, 0_u64..3_000), 1..60),
            beyond in 0_u64..300_000,
        ) {
            let (mut seen, mut plain, mut newest) = (SeenNumbers::default(), BTreeSet::new(), 0_u64);
            for (forward, back) in steps {
                let number = (newest + forward).saturating_sub(back * 50);
                newest = newest.max(number);
                match seen.mark(number) {
                    Seen::First => prop_assert!(plain.insert(number)),
                    Seen::Again => prop_assert!(plain.contains(&number)),
                    Seen::Unknown => prop_assert!(number + WINDOW_NUMBERS <= newest + WORD_NUMBERS),
                }
                prop_assert_eq!(seen.unseen_below(newest + 1), newest + 1 - plain.len() as u64);
            }
            let end = newest + 1 + beyond;
            prop_assert_eq!(seen.unseen_below(end), end - plain.len() as u64);
        }
    }
}
