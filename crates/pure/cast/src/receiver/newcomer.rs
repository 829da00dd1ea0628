//! A new epoch received before its descriptor, held for a moment while the end of its predecessor is unknown.
//!
//! The descriptor may say how far the predecessor came (extension `predecessor`), and the losses of the predecessor
//! are reported first. A publisher begins with its descriptor, so the wait occurs only where that was lost.
//!
//! Source: `docs/protocol/stream.md`, "Previous epoch".

use core::net::SocketAddr;
use core::time::Duration;

use units::{Epoch, Instant};

use super::challengers::{MAX_HELD, MAX_HELD_BYTES};

/// Time for which a new epoch is held for its descriptor, which is sent once a second without a request.
const MAX_WAIT: Duration = Duration::from_millis(1_200);

/// A datagram of an epoch without a descriptor.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) epoch: Epoch,
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// Datagrams of a new epoch received before its descriptor.
#[derive(Debug, Default)]
pub(super) struct Newcomer {
    datagrams: Vec<Waiting>,
    size_bytes: usize,
    until: Option<Instant>,
    /// The oldest waiting epoch.
    oldest: Option<Epoch>,
}

impl Newcomer {
    /// Holds a datagram; returns whether there is room for more. Without room, all held datagrams are admitted.
    pub(super) fn hold(&mut self, now: Instant, epoch: Epoch, from: SocketAddr, bytes: &[u8]) -> bool {
        self.until.get_or_insert(now + MAX_WAIT);
        self.oldest = Some(self.oldest.map_or(epoch, |oldest| oldest.min(epoch)));
        self.datagrams.push(Waiting { epoch, from, bytes: bytes.to_vec() });
        self.size_bytes += bytes.len();
        self.datagrams.len() < MAX_HELD && self.size_bytes < MAX_HELD_BYTES
    }

    /// Returns the end of the wait, `None` if nothing waits.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns the oldest waiting epoch.
    pub(super) const fn oldest(&self) -> Option<Epoch> {
        self.oldest
    }

    /// Takes the held datagrams, in the order of arrival.
    pub(super) fn take(&mut self) -> Vec<Waiting> {
        core::mem::take(self).datagrams
    }
}
