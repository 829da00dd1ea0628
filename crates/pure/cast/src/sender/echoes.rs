//! What readers ask to be repeated, so that they can tell that a publisher is where its datagrams come from.
//!
//! The answer is the next tally, to where the stream goes anyway: an address that somebody made up gets none of its own.
//!
//! Source: `docs/protocol/stream.md`, "Believed sources".

use wire::{MAX_NONCES, Nonce};

/// The nonces of one publisher.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// For the next tally; while there is no room for more, others have to ask again.
    asked: Vec<Nonce>,
    /// In the tally that leaves.
    told: Vec<Nonce>,
}

impl Echoes {
    /// Notes a nonce; tells whether it is new.
    pub(super) fn asked(&mut self, nonce: Nonce) -> bool {
        let is_new = self.asked.len() < MAX_NONCES && !self.asked.contains(&nonce);
        if is_new {
            self.asked.push(nonce);
        }
        is_new
    }

    /// Notes that a tally begins.
    pub(super) fn begin_tally(&mut self) {
        self.told = core::mem::take(&mut self.asked);
    }

    /// Returns what the tally that leaves repeats.
    pub(super) fn told(&self) -> &[Nonce] {
        &self.told
    }
}
