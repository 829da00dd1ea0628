//! Waking an agent that sleeps in its poller, at the cost of one load while it is awake.

use std::sync::Arc;

use ring::sync::{AtomicU64, Ordering, fence};
use sys::Wakeup;

/// A bell at an agent's door.
#[derive(Clone)]
pub(crate) struct AgentBell {
    inner: Arc<Inner>,
}

struct Inner {
    asleep: AtomicU64,
    wakeup: Wakeup,
}

impl AgentBell {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { inner: Arc::new(Inner { asleep: AtomicU64::new(0), wakeup: Wakeup::new()? }) })
    }

    /// Wakes the agent if it sleeps. To be called after what it shall find was written.
    pub(crate) fn ring(&self) {
        // Written, then looked for a sleeper; the agent says that it sleeps, then looks for what was written.
        // With a sequentially consistent fence on both sides at least one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.inner.asleep.load(Ordering::Relaxed) != 0 {
            self.inner.wakeup.wake();
        }
    }

    /// The agent is about to sleep: it must look for work once more before it does.
    pub(crate) fn falling_asleep(&self) {
        self.inner.asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The agent is awake.
    pub(crate) fn awake(&self) {
        self.inner.asleep.store(0, Ordering::Relaxed);
        self.inner.wakeup.clear();
    }

    pub(crate) fn wakeup(&self) -> &Wakeup {
        &self.inner.wakeup
    }
}
