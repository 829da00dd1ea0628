//! The publisher's signed statements on their way into tallies.
//!
//! To the machine a statement is opaque. Each is in up to three tallies, or in fewer if the next one waits; what is
//! lost nevertheless is bridged by the chain of the next statement (`docs/protocol/proof.md`).

use std::collections::VecDeque;

use serde::Serialize;

/// Maximum number of statements that wait for tallies: one a mebibyte. Of more, the oldest are left to the chain.
const MAX_WAITING: usize = 64;
/// Number of tallies in which a statement is repeated while no other waits.
const REPEATS: u32 = 2;

/// Counters of a publisher's signed statements. Units: statements.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct StatementStats {
    /// Given to the sender.
    pub taken: u64,
    /// Left out of all tallies because the datagrams of the path are too small for them.
    pub too_large: u64,
    /// Left out because too many waited.
    pub displaced: u64,
}

/// The statements of one epoch that are not sent yet, and the one in the present tally.
#[derive(Debug, Default)]
pub(super) struct Stating {
    waiting: VecDeque<Vec<u8>>,
    told: Vec<u8>,
    /// True if the present tally has it.
    is_told: bool,
    repeats: u32,
    stats: StatementStats,
}

impl Stating {
    pub(super) fn add(&mut self, statement: &[u8]) {
        if statement.is_empty() {
            return;
        }
        self.stats.taken += 1;
        if statement.len() > wire::MAX_TALLY_STATEMENT_BYTES {
            self.stats.too_large += 1;
            return;
        }
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
            self.stats.displaced += 1;
        }
        self.waiting.push_back(statement.to_vec());
    }

    /// Chooses the statement of the next tally, in which it has this room; `largest` is the room in a tally without
    /// ranges. A final tally repeats the last statement.
    pub(super) fn begin_tally(&mut self, room: usize, largest: usize, is_final: bool) {
        // A path that carries only small datagrams has no room for statements.
        while self.waiting.front().is_some_and(|first| first.len() > largest) {
            self.waiting.pop_front();
            self.stats.too_large += 1;
        }
        match self.waiting.front() {
            Some(first) if first.len() <= room => {
                self.told = self.waiting.pop_front().unwrap_or_default();
                self.repeats = REPEATS;
                self.is_told = true;
            }
            // Ranges that no tally had yet come first.
            Some(_) => self.is_told = false,
            None => {
                self.is_told = (is_final || self.repeats > 0) && self.told.len() <= room;
                self.repeats = self.repeats.saturating_sub(1);
            }
        }
    }

    /// Begins a tally without a statement, which changes nothing for the next.
    pub(super) const fn pass_over_tally(&mut self) {
        self.is_told = false;
    }

    /// Returns the size of the statement that is due for the next tally, 0 without one.
    pub(super) fn next_bytes(&self) -> usize {
        let repeated = if self.repeats > 0 { self.told.len() } else { 0 };
        self.waiting.front().map_or(repeated, Vec::len)
    }

    /// Returns the statement of the present tally; empty: none.
    pub(super) fn told(&self) -> &[u8] {
        if self.is_told { &self.told } else { &[] }
    }

    pub(super) const fn stats(&self) -> StatementStats {
        self.stats
    }

    /// Returns whether a statement waits for a tally.
    pub(super) fn is_due(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether the final tally, in which a statement has this room, can tell everything that is left.
    pub(super) fn fits_one_tally(&self, room: usize) -> bool {
        match self.waiting.len() {
            0 => true,
            1 => self.waiting[0].len() <= room,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = wire::MAX_TALLY_STATEMENT_BYTES;

    #[test]
    fn a_statement_is_in_three_tallies_unless_another_waits() {
        let mut stating = Stating::default();
        let tallies = |stating: &mut Stating, count: usize| {
            let mut told = Vec::new();
            for _ in 0..count {
                stating.begin_tally(ROOM, ROOM, false);
                told.push(stating.told().first().copied().unwrap_or(0));
            }
            told
        };
        stating.add(&[1; 100]);
        assert_eq!(tallies(&mut stating, 5), [1, 1, 1, 0, 0]);
        (2..5).for_each(|byte| stating.add(&[byte; 100]));
        assert_eq!(tallies(&mut stating, 6), [2, 3, 4, 4, 4, 0]);
        stating.begin_tally(ROOM, ROOM, true);
        assert_eq!(stating.told(), [4; 100], "the final tally repeats the last");
    }

    #[test]
    fn ranges_come_first_and_a_statement_waits_for_room() {
        let mut stating = Stating::default();
        stating.add(&[1; 100]);
        stating.begin_tally(99, ROOM, false);
        assert_eq!(stating.told(), []);
        assert!(stating.is_due() && !stating.fits_one_tally(99) && stating.fits_one_tally(100));
        stating.begin_tally(100, ROOM, false);
        assert_eq!(stating.told(), [1; 100]);
        assert!(!stating.is_due());
    }

    #[test]
    fn what_never_fits_is_given_up_and_of_too_many_the_oldest() {
        let mut stating = Stating::default();
        stating.add(&[1; 100]);
        stating.begin_tally(99, 99, false);
        assert!(!stating.is_due(), "nothing waits for ever");
        assert_eq!(stating.stats(), StatementStats { taken: 1, too_large: 1, displaced: 0 });
        stating.add(&[1; ROOM]);
        stating.add(&[1; ROOM + 1]);
        stating.add(&[]);
        assert_eq!(stating.waiting.len(), 1);
        (0..=MAX_WAITING).for_each(|number| stating.add(&[number as u8; 10]));
        assert_eq!((stating.waiting.len(), stating.waiting[0][0]), (MAX_WAITING, 1));
        let taken = MAX_WAITING as u64 + 4;
        assert_eq!(stating.stats(), StatementStats { taken, too_large: 2, displaced: 2 });
    }
}
