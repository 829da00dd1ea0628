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

    /// Moves the nonces to the tally that begins.
    pub(super) fn begin_tally(&mut self) {
        self.told = core::mem::take(&mut self.asked);
    }

    /// Moves nonces that were asked meanwhile to the final tally, which is sent once more. Without any, it stays as it
    /// was.
    pub(super) fn begin_repeated_tally(&mut self) {
        if !self.asked.is_empty() {
            self.begin_tally();
        }
    }

    /// Returns the nonces that the tally repeats.
    pub(super) fn told(&self) -> &[Nonce] {
        &self.told
    }
}
