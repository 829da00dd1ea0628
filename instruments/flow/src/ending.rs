//! The end of a flow, as its receivers learn of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sys::{Cancellation, clock};
use units::Instant;

/// The end of a flow for its receivers: all was sent, with the sender's counts, or the results are no longer needed.
/// As a descriptor it is readable once one of the two was announced.
#[derive(Debug)]
pub struct Ending<S> {
    announced: Mutex<Announced<S>>,
    signal: Cancellation,
}

#[derive(Debug)]
struct Announced<S> {
    sent: Option<(S, Instant)>,
    is_given_up: bool,
}

/// Progress of a flow, for its receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<S> {
    /// More may be sent.
    Ongoing,
    /// All was sent, as was known from this time on.
    Sent(S, Instant),
    /// The results are no longer needed.
    GivenUp,
}

impl<S: Clone> Ending<S> {
    /// Creates the ending of a flow that goes on.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let announced = Mutex::new(Announced { sent: None, is_given_up: false });
        Ok(Self { announced, signal: Cancellation::new()? })
    }

    /// Announces that all was sent.
    pub fn announce_sent(&self, sent: S) {
        // A repeated announcement does not prolong the wait.
        self.announced().sent.get_or_insert((sent, clock::monotonic()));
        self.signal.cancel();
    }

    /// Announces that the results are no longer needed.
    pub fn give_up(&self) {
        self.announced().is_given_up = true;
        self.signal.cancel();
    }

    /// Returns the progress of the flow. Cost: one atomic load while it goes on.
    pub fn progress(&self) -> Progress<S> {
        if !self.signal.is_cancelled() {
            return Progress::Ongoing;
        }
        let announced = self.announced();
        match &announced.sent {
            Some((sent, at)) if !announced.is_given_up => Progress::Sent(sent.clone(), *at),
            _ => Progress::GivenUp,
        }
    }

    fn announced(&self) -> MutexGuard<'_, Announced<S>> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> AsFd for Ending<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}

/// Time limits of a receiver once all was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Time without data after which missing data count as lost: longer than any queue along the path holds a
    /// datagram at rates worth measuring.
    pub quiet: Duration,
    /// Maximum time, even if other senders use the same port.
    pub longest: Duration,
}

impl Tail {
    /// Returns the time at which a receiver with its last data at `last` can expect no more, after it was told at
    /// `sent` that all was sent.
    pub fn ends_at(self, sent: Instant, last: Option<Instant>) -> Instant {
        (last.map_or(sent, |last| last.max(sent)) + self.quiet).min(sent + self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: Tail = Tail { quiet: Duration::from_millis(200), longest: Duration::from_secs(5) };

    #[test]
    fn a_tail_ends_after_a_quiet_time_and_has_a_bound() {
        let sent = Instant::from_nanos(7_000_000_000);
        let before = sent - Duration::from_secs(1);
        assert_eq!(TAIL.ends_at(sent, None), sent + TAIL.quiet);
        assert_eq!(TAIL.ends_at(sent, Some(before)), sent + TAIL.quiet);
        let last = sent + TAIL.quiet / 2;
        assert_eq!(TAIL.ends_at(sent, Some(last)), last + TAIL.quiet);
        let end = sent + TAIL.longest;
        assert_eq!(TAIL.ends_at(sent, Some(end)), end, "another sender never stops");
    }

    #[test]
    fn a_flow_that_was_given_up_has_no_end_with_counts() {
        let ending = Ending::new().unwrap();
        assert_eq!(ending.progress(), Progress::Ongoing);
        let before = clock::monotonic();
        ending.announce_sent(7);
        assert!(matches!(ending.progress(), Progress::Sent(7, at) if at >= before));
        ending.give_up();
        assert_eq!(ending.progress(), Progress::GivenUp);
        let ending = Ending::<u32>::new().unwrap();
        ending.give_up();
        assert_eq!(ending.progress(), Progress::GivenUp);
    }
}
