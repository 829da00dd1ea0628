//! The numbers of an epoch that were received: each is taken once.
//!
//! A datagram's number is checked after its tag, so that only the publisher moves the window.

use keys::ReplayWindow;

/// Numbers below the highest that are told apart; older ones are refused. Reordering spans far fewer datagrams, and
/// the window of an epoch takes 2 KiB.
pub(super) const WINDOW: u64 = 16_384;

/// Words of its ring.
const WORDS: usize = 257;

/// A window over the numbers of one epoch, from its floor on.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Lowest number that is taken.
    floor: u64,
    taken: Box<ReplayWindow<WINDOW, WORDS>>,
}

impl Window {
    /// Creates a window that takes numbers from `floor` on.
    pub(super) fn new(floor: u64) -> Self {
        Self { floor, taken: Box::default() }
    }

    /// Takes numbers from `floor` on only.
    pub(super) const fn begin_at(&mut self, floor: u64) {
        self.floor = floor;
    }

    /// Takes a number; returns whether it is new.
    pub(super) fn take(&mut self, number: u64) -> bool {
        let is_new = number >= self.floor && self.taken.admits(number);
        if is_new {
            self.taken.note(number);
        }
        is_new
    }

    /// Returns one more than the highest number taken.
    pub(super) const fn next(&self) -> u64 {
        self.taken.next()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_number_of_the_window_is_taken_and_the_one_before_it_refused() {
        let mut window = Window::new(0);
        assert!(window.take(WINDOW + 10));
        assert!(window.take(11) && !window.take(11));
        assert!(!window.take(10));
    }

    #[test]
    fn numbers_from_before_the_floor_are_refused() {
        let mut window = Window::new(100);
        assert!(!window.take(99) && window.take(100) && window.take(101) && !window.take(100));
    }

    proptest! {
        #[test]
        fn every_number_is_taken_once(steps in proptest::collection::vec((0_u64..40_000, 0_u64..3), 1..200)) {
            let (mut window, mut seen, mut base) = (Window::new(0), BTreeSet::new(), 0);
            for (back, jump) in steps {
                base += jump * 9_000;
                let number = (base + 40_000).saturating_sub(back);
                let is_in = number + WINDOW >= seen.last().map_or(0, |last| last + 1);
                prop_assert_eq!(window.take(number), is_in && seen.insert(number), "{}", number);
            }
        }
    }
}
