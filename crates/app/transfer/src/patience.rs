//! How long an end goes on when nothing gets through.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait while nothing gets through.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// After so long without anything the connection counts as broken.
    pub at_most: Duration,
    /// Returns a number that changes whenever the connection has carried something, in either direction. Without it only
    /// what is heard counts, so a long way behind a large buffer would look as if nothing moved.
    pub carried: &'a (dyn Fn() -> u64 + Sync),
}

/// When something last got through, by the word of whoever moves it.
pub(crate) struct Pulse<'a> {
    patience: Option<Patience<'a>>,
    last: Mutex<Beat>,
}

struct Beat {
    at: Instant,
    carried: u64,
}

impl<'a> Pulse<'a> {
    /// Begins to measure; without patience it never runs out.
    pub(crate) fn new(patience: Option<Patience<'a>>) -> Self {
        Self { patience, last: Mutex::new(Beat { at: Instant::now(), carried: 0 }) }
    }

    /// Takes note that something was heard, or that this end is at work and keeps the other waiting.
    pub(crate) fn beat(&self) {
        if self.patience.is_some() {
            self.last().at = Instant::now();
        }
    }

    /// Returns the patience that has run out, if it has.
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
