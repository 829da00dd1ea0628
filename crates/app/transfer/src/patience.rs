//! Time limit for a connection that carries nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time limit of a connection, and a measure of its progress.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Time without progress after which the connection counts as broken.
    pub at_most: Duration,
    /// Returns a number that changes whenever the connection has carried something, in either direction. Without it
    /// only received frames count, so a slow path behind a large buffer would seem to make no progress.
    pub carried: &'a (dyn Fn() -> u64 + Sync),
}

/// Time of the last progress, as reported by the code that moves data.
pub(crate) struct Pulse<'a> {
    patience: Option<Patience<'a>>,
    last: Mutex<Beat>,
}

struct Beat {
    at: Instant,
    carried: u64,
}

impl<'a> Pulse<'a> {
    /// Starts to measure; without a time limit it never expires.
    pub(crate) fn new(patience: Option<Patience<'a>>) -> Self {
        Self { patience, last: Mutex::new(Beat { at: Instant::now(), carried: 0 }) }
    }

    /// Records that something was received, or that this end is at work and keeps the other waiting.
    pub(crate) fn beat(&self) {
        if self.patience.is_some() {
            self.last().at = Instant::now();
        }
    }

    /// Returns the time limit if it has expired.
    pub(crate) fn over(&self) -> Option<Duration> {
        let patience = self.patience?;
        let carried = (patience.carried)();
        let mut last = self.last();
        if carried != last.carried {
            *last = Beat { at: Instant::now(), carried };
        }
        (last.at.elapsed() >= patience.at_most).then_some(patience.at_most)
    }

    fn last(&self) -> MutexGuard<'_, Beat> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
