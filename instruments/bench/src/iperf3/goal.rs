//! State shared by all streams of a test that ends after bytes or blocks: the number left, and the waker for
//! its end.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use sys::Wakeup;

/// State shared by all streams of a test: the amount left to send, and the waker for its end.
pub(super) struct Goal {
    /// Blocks not taken by a sender yet; `u64::MAX` where the peer or the time ends the test.
    blocks_left: AtomicU64,
    /// Bytes received over all streams.
    received_bytes: AtomicU64,
    /// Number of bytes, sent or received, that ends the test.
    end_bytes: Option<u64>,
    pub(super) wakeup: Wakeup,
}

impl Goal {
    pub(super) fn new(end_bytes: Option<u64>, block_bytes: usize) -> io::Result<Self> {
        let blocks = end_bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(block_bytes as u64));
        Ok(Self {
            blocks_left: AtomicU64::new(blocks),
            received_bytes: AtomicU64::new(0),
            end_bytes,
            wakeup: Wakeup::new()?,
        })
    }

    /// Takes one block to send; returns false if none is left.
    pub(super) fn take_block(&self) -> bool {
        if self.end_bytes.is_none() {
            return true;
        }
        // Relaxed: an independent count, which orders nothing else.
        self.blocks_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    pub(super) fn count_received(&self, bytes: u64) {
        let Some(end) = self.end_bytes else { return };
        // Relaxed: as above; the wake-up itself orders what follows.
        let before = self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < end && before + bytes >= end {
            self.wakeup.wake();
        }
    }

    /// Returns whether enough was received to end the test.
    pub(super) fn is_received(&self) -> bool {
        self.end_bytes.is_some_and(|end| self.received_bytes.load(Ordering::Relaxed) >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_blocks_are_given_out_as_it_takes() {
        for (bytes, blocks) in [(1, 1), (100, 1), (101, 2), (1_000, 10)] {
            let goal = Goal::new(Some(bytes), 100).unwrap();
            assert_eq!((0..100).filter(|_| goal.take_block()).count(), blocks, "{bytes} bytes");
        }
        let endless = Goal::new(None, 100).unwrap();
        assert!((0..1_000).all(|_| endless.take_block()));
    }

    #[test]
    fn enough_is_received_with_the_last_byte() {
        let goal = Goal::new(Some(100), 10).unwrap();
        for (bytes, enough) in [(99, false), (1, true), (50, true)] {
            goal.count_received(bytes);
            assert_eq!(goal.is_received(), enough);
        }
    }
}
