//! Nonces that readers ask to be repeated, as proof that the publisher receives at the source address of its
//! datagrams.
//!
//! The answer is the next tally, sent to the stream's destinations: a forged address receives no answer of its own.
//!
//! Source: `docs/protocol/stream.md`, "Believed sources".

use wire::{MAX_NONCES, Nonce};

/// The nonces of one publisher.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// Nonces for the next tally; when there is no room for more, others have to ask again.
    asked: Vec<Nonce>,
    /// Nonces in the tally that is being sent.
    told: Vec<Nonce>,
}

impl Echoes {
    /// Records a nonce; returns whether it is new.
    pub(super) fn asked(&mut self, nonce: Nonce) -> bool {
        let is_new = self.asked.len() < MAX_NONCES && !self.asked.contains(&nonce);
        if is_new {
            self.asked.push(nonce);
        }
        is_new
    }

    /// Moves the nonces to the tally that begins, which has room for so many; others wait for the next.
    pub(super) fn begin_tally(&mut self, most: usize) {
        let later = self.asked.split_off(self.asked.len().min(most));
        self.told = core::mem::replace(&mut self.asked, later);
    }

    /// Returns whether nonces wait for the next tally.
    pub(super) const fn waits(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Adds nonces that were asked meanwhile to the final tally, which is sent once more. Without new ones, it stays as
    /// it was; those of earlier copies, which readers may have lost, are repeated, and the oldest give way.
    pub(super) fn begin_repeated_tally(&mut self, most: usize) {
        self.asked.retain(|nonce| !self.told.contains(nonce));
        self.told.append(&mut self.asked);
        self.told.drain(..self.told.len().saturating_sub(most));
    }

    /// Returns the nonces that the tally repeats.
    pub(super) fn told(&self) -> &[Nonce] {
        &self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonces(numbers: core::ops::Range<usize>) -> Vec<Nonce> {
        numbers.map(|number| Nonce::new(number as u64)).collect()
    }

    #[test]
    fn a_tally_repeats_what_was_asked_since_the_one_before() {
        let mut echoes = Echoes::default();
        assert!(echoes.asked(Nonce::new(0)) && !echoes.asked(Nonce::new(0)));
        echoes.begin_tally(MAX_NONCES);
        assert!(echoes.asked(Nonce::new(1)));
        echoes.begin_tally(MAX_NONCES);
        assert_eq!(echoes.told(), nonces(1..2));
    }

    #[test]
    fn a_repeated_tally_keeps_the_nonces_of_its_earlier_copies() {
        let mut echoes = Echoes::default();
        nonces(0..2).into_iter().for_each(|nonce| assert!(echoes.asked(nonce)));
        echoes.begin_tally(MAX_NONCES);
        echoes.begin_repeated_tally(MAX_NONCES);
        assert_eq!(echoes.told(), nonces(0..2), "nothing was asked");
        // The second reader has lost its answer, and asks again beside a third.
        nonces(1..3).into_iter().for_each(|nonce| assert!(echoes.asked(nonce)));
        echoes.begin_repeated_tally(MAX_NONCES);
        assert_eq!(echoes.told(), nonces(0..3));
        nonces(3..3 + MAX_NONCES - 1).into_iter().for_each(|nonce| assert!(echoes.asked(nonce)));
        echoes.begin_repeated_tally(MAX_NONCES);
        assert_eq!(echoes.told(), nonces(2..2 + MAX_NONCES), "the oldest give way");
    }
}
