//! News of elsewhere for one thread, wherever it waits.

use std::time::Duration;

use ring::Doorbell;
use ring::sync::{AtomicU32, Ordering};

/// Word for one thread that something has happened: of a port, of a request to end.
///
/// The thread waits for it alone, or at its [doorbell](Self::doorbell) together with those of rings.
#[derive(Default)]
pub struct News {
    doorbell: Doorbell,
    /// 1 from a word until it is taken.
    is_fresh: AtomicU32,
}

impl News {
    /// Tells that something has happened. Must be called after that can be seen.
    pub fn tell(&self) {
        // Release pairs with the acquire in `take`: whoever takes the word sees what it is about.
        self.is_fresh.store(1, Ordering::Release);
        self.doorbell.ring();
    }

    /// Returns whether something has happened since the last call.
    pub fn take(&self) -> bool {
        self.is_fresh.load(Ordering::Relaxed) != 0 && self.is_fresh.swap(0, Ordering::Acquire) != 0
    }

    /// Returns whether something has happened, and leaves it to be taken.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.is_fresh.load(Ordering::Acquire) != 0
    }

    /// Waits until something has happened since it was last taken, at most this long; returns whether it has.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.doorbell.wait_until(timeout, || self.take().then_some(())).is_some()
    }

    /// Returns the doorbell that rings with each word, for who waits at others, too.
    #[must_use]
    pub const fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}
