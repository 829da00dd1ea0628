//! Cancellation: a request to end that any thread can make once, and any number of threads can check or wait for.
//!
//! A thread that also waits for sockets adds the [`Cancellation`] to its [`Poller`](crate::Poller) and so needs no
//! time slice for checking it. Asynchronous code has the means of its runtime instead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

/// A request to end, shared by its clones. As a descriptor it is readable from the request on.
#[derive(Clone, Debug)]
pub struct Cancellation {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// True from the request on; it spares [`Cancellation::is_cancelled`] a system call.
    is_cancelled: AtomicBool,
    /// Written once and never read, so that it wakes every thread that waits for it.
    event: OwnedFd,
}

impl Cancellation {
    /// Creates a token that is not cancelled.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { shared: Arc::new(Shared { is_cancelled: AtomicBool::new(false), event }) })
    }

    /// Requests the end, for good; further calls have no effect.
    pub fn cancel(&self) {
        // AcqRel pairs with the load below: a thread that sees the request sees what preceded it.
        if !self.shared.is_cancelled.swap(true, Ordering::AcqRel) {
            // Fails only when the counter is full, and it is written once.
            let _ = rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes());
        }
    }

    /// Returns whether the end is requested. Cost: one atomic load.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled.load(Ordering::Acquire)
    }

    /// Waits for the request, at most this long; returns whether it was made.
    ///
    /// # Panics
    /// If the kernel cannot wait for one open descriptor.
    pub fn wait(&self, at_most: Duration) -> bool {
        // A time beyond the clock's range never comes.
        let until = Instant::now().checked_add(at_most);
        while !self.is_cancelled() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec::try_from(left).expect("it was added to the clock"));
            match poll(&mut [PollFd::new(&self.shared.event, PollFlags::IN)], left.as_ref()) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("an open descriptor can be waited for: {error}"),
            }
        }
        self.is_cancelled()
    }
}

impl AsFd for Cancellation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use support::WATCHDOG;

    use super::*;
    use crate::{Interest, Poller, clock};

    #[test]
    fn cancelling_wakes_every_thread_that_waits() {
        let cancellation = Cancellation::new().unwrap();
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| cancellation.wait(WATCHDOG))).collect();
            cancellation.clone().cancel();
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        });
    }

    #[test]
    fn a_poller_wakes_and_the_descriptor_stays_readable() {
        let cancellation = Cancellation::new().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&cancellation, 7, Interest::Read).unwrap();
        assert!(poller.wait(Some(clock::monotonic())).unwrap().is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| cancellation.cancel());
            for _ in 0..3 {
                let [ready] = poller.wait(None).unwrap() else { panic!() };
                assert!(ready.token == 7 && ready.readable && !ready.failed);
            }
        });
    }

    #[test]
    fn a_wait_after_the_request_ends_at_once() {
        let cancellation = Cancellation::new().unwrap();
        cancellation.cancel();
        cancellation.cancel();
        assert!(cancellation.wait(WATCHDOG) && cancellation.wait(Duration::ZERO));
    }

    #[test]
    fn a_wait_without_a_request_lasts_as_long_as_asked() {
        let cancellation = Cancellation::new().unwrap();
        for at_most in [Duration::ZERO, Duration::from_millis(3)] {
            let began = Instant::now();
            assert!(!cancellation.wait(at_most));
            assert!(began.elapsed() >= at_most);
        }
    }

    #[test]
    fn a_wait_without_limit_ends_with_the_request() {
        let cancellation = Cancellation::new().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| cancellation.wait(Duration::MAX));
            cancellation.cancel();
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn clones_share_the_request_and_others_do_not() {
        let (one, other) = (Cancellation::new().unwrap(), Cancellation::new().unwrap());
        let clone = one.clone();
        assert!(!clone.is_cancelled());
        one.cancel();
        assert!(clone.is_cancelled() && !other.is_cancelled());
    }
}
