//! A new life that is heard before its descriptor: held for a moment where the end of the life before is not known.
//!
//! The descriptor may tell how far the life before came (extension `predecessor`), and what was lost of it comes first.
//! A publisher begins with its descriptor; only where that was lost is there something to wait for.
//!
//! Source: `docs/protocol/stream.md`, "The life before".

use core::net::SocketAddr;
use core::time::Duration;

use units::{Epoch, Instant};

use super::challengers::{MAX_HELD, MAX_HELD_BYTES};

/// How long a new life waits for its descriptor, which comes once a second if nobody asks.
const MAX_WAIT: Duration = Duration::from_millis(1_200);
/// What a new life sent before its descriptor came.
#[derive(Debug, Default)]
pub(super) struct Newcomer {
    datagrams: Vec<(SocketAddr, Vec<u8>)>,
    size_bytes: usize,
    until: Option<Instant>,
    /// The oldest and the newest epoch that wait.
    epochs: Option<(Epoch, Epoch)>,
}

impl Newcomer {
    /// Holds a datagram; tells whether there is room for more: where there is not, all of them are let in.
    pub(super) fn hold(&mut self, now: Instant, epoch: Epoch, from: SocketAddr, bytes: &[u8]) -> bool {
        self.until.get_or_insert(now + MAX_WAIT);
        let (oldest, newest) = self.epochs.unwrap_or((epoch, epoch));
        self.epochs = Some((oldest.min(epoch), newest.max(epoch)));
        self.datagrams.push((from, bytes.to_vec()));
        self.size_bytes += bytes.len();
        self.datagrams.len() < MAX_HELD && self.size_bytes < MAX_HELD_BYTES
    }

    /// Returns until when it waits, if it does.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns the oldest epoch that waits, if one does.
    pub(super) fn oldest(&self) -> Option<Epoch> {
        self.epochs.map(|(oldest, _)| oldest)
    }

    /// Returns the newest epoch that waits, if one does.
    pub(super) fn newest(&self) -> Option<Epoch> {
        self.epochs.map(|(_, newest)| newest)
    }

    /// Takes what was held, in the order in which it came.
    pub(super) fn take(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        core::mem::take(self).datagrams
    }
}
