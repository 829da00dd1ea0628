//! Wakes an agent that sleeps in its poller, at the cost of one load while it is awake.

use std::sync::Arc;

use ring::sync::{AtomicU64, Ordering, fence};
use sys::Wakeup;
use units::Instant;

/// Wakes an agent's thread that sleeps in its poller.
#[derive(Clone)]
pub(crate) struct AgentWaker {
    inner: Arc<Inner>,
}

struct Inner {
    /// 0 while the agent is awake, else its next deadline, in nanoseconds.
    asleep: AtomicU64,
    wakeup: Wakeup,
}

impl AgentWaker {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { inner: Arc::new(Inner { asleep: AtomicU64::new(0), wakeup: Wakeup::new()? }) })
    }

    /// Wakes the agent if it sleeps. Must be called after its input was written.
    pub(crate) fn wake(&self) {
        if self.sleeps_until().is_some() {
            self.wake_sleeper();
        }
    }

    /// Wakes an agent that was found asleep.
    pub(crate) fn wake_sleeper(&self) {
        self.inner.wakeup.wake();
    }

    /// Returns the deadline of a sleeping agent. Must be called after its input was written: an
    /// agent that is awake finds it.
    pub(crate) fn sleeps_until(&self) -> Option<Instant> {
        // This side writes, then checks for a sleeper; the agent marks itself asleep, then checks
        // for input. With a sequentially consistent fence on both sides at least one of the two
        // sees the other.
        fence(Ordering::SeqCst);
        let until = self.inner.asleep.load(Ordering::Relaxed);
        (until != 0).then(|| Instant::from_nanos(until))
    }

    /// Marks the agent as about to sleep: it must check for work once more before it does.
    pub(crate) fn falling_asleep(&self, until: Instant) {
        self.inner.asleep.store(until.as_nanos().max(1), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Marks the agent as awake; `by_waker` if its poller reported the waker.
    ///
    /// A wake-up at this very moment ends the next sleep.
    pub(crate) fn awake(&self, by_waker: bool) {
        self.inner.asleep.store(0, Ordering::Relaxed);
        if by_waker {
            self.inner.wakeup.clear();
        }
    }

    pub(crate) fn wakeup(&self) -> &Wakeup {
        &self.inner.wakeup
    }
}
