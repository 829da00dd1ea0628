//! Inline driving: the agent is driven by its own thread, or by the reader that would otherwise
//! only wait for it.
//!
//! A reader that sleeps until the agent's thread has received a datagram costs a second wake-up:
//! two threads wake one after the other for one datagram. Records that one thread writes for
//! another have also left the cache by the time the reader runs. The only reader of a process
//! avoids both. While it waits it drives the agent *inline*: it runs the duty cycles in its own
//! thread, and the agent's thread rests. The agent is handed over to that thread when the reader is
//! away for longer than the receive buffers allow (leader and followers, after Schmidt et al.,
//! *Pattern-Oriented Software Architecture* 2).

use std::ops::ControlFlow;
use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use ring::sync::{AtomicU64, Ordering, fence};
use sys::clock;
use units::Instant;

use super::agent::Agent;
use crate::waker::AgentWaker;

/// Maximum time that a reader may be away before the agent is handed over to its own thread.
const MAX_HANDOVER_DELAY: Duration = Duration::from_millis(1);
/// Minimum of that time. Shorter ones would keep a processor busy, since setting a timer takes one
/// or two microseconds, and on some virtual machines more than twenty.
const MIN_HANDOVER_DELAY: Duration = Duration::from_micros(100);
/// Maximum number of hand-over delays for which the agent's thread rests before it checks again
/// whether the reader is still there, so that a reader that mostly waits is not checked a thousand
/// times a second.
const RESTS: u32 = 4;
/// Number of hand-over delays of rest above which the thread is called, so that not every
/// fluctuation of a rate calls it.
const MAX_RESTS: u32 = RESTS + 1;
/// Duration of inline driving after which the agent's thread rests until it is called.
const LONG_INLINE_DRIVE: Duration = Duration::from_millis(100);

/// The thread that drives the agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DrivenBy {
    /// The agent's thread.
    OwnThread,
    /// A reader, which began at this instant.
    Reader(Instant),
    /// A reader, which left at this instant.
    ReaderAway(Instant),
}

/// An agent that its own thread shares with the only reader of a process.
pub(super) struct SharedAgent {
    /// `None` once the agent has ended.
    agent: Mutex<Option<Agent>>,
    /// Wakes the thread that sleeps in the agent's poller.
    waker: AgentWaker,
    /// An encoded [`DrivenBy`].
    driven_by: AtomicU64,
    /// Maximum absence of a reader before the hand-over, in nanoseconds; 0 where its receive
    /// buffers allow none.
    handover_delay: AtomicU64,
    /// Held by the agent's thread while it rests because a reader drives the agent.
    rest: Mutex<()>,
    called: Condvar,
    /// Duration of that rest, in nanoseconds.
    rests_for: AtomicU64,
    /// Number of the agent's readers in this process.
    readers: AtomicUsize,
    /// True if readers may drive the agent inline at all.
    allows_inline: bool,
}

impl SharedAgent {
    pub(super) fn new(agent: Agent, waker: AgentWaker, allows_inline: bool) -> Self {
        Self {
            agent: Mutex::new(Some(agent)),
            waker,
            driven_by: AtomicU64::new(DrivenBy::OwnThread.encode()),
            handover_delay: AtomicU64::new(nanos(MAX_HANDOVER_DELAY)),
            rest: Mutex::new(()),
            called: Condvar::new(),
            rests_for: AtomicU64::new(0),
            readers: AtomicUsize::new(0),
            allows_inline,
        }
    }

    /// Runs the agent's thread: drives the agent while no reader does, until it is stopped.
    pub(super) fn run(&self) {
        let _end = EndOfThread(self);
        let is_handed_over = || self.driven_by() != DrivenBy::OwnThread;
        loop {
            self.wait_for_handover();
            // Poisoned: the thread that held it panicked, and its state is unknown.
            let Ok(mut guard) = self.agent.lock() else { return };
            let Some(agent) = guard.as_mut() else { return };
            while !is_handed_over() {
                match agent.duty_cycle_unless_stopped() {
                    ControlFlow::Break(()) => return,
                    ControlFlow::Continue(Some(deadline)) => agent.sleep(deadline, is_handed_over),
                    // On the same processor this lets a reader keep up, and on another it has no
                    // effect.
                    ControlFlow::Continue(None) => std::thread::yield_now(),
                }
            }
        }
    }

    /// Drives the agent until `look` returns a value or `deadline` has come; `None` at the
    /// deadline, or if the agent has ended.
    pub(super) fn drive_until<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut inline_drive = InlineDrive::begin(self);
        // An agent that has ended, or was left by a panic, is handled by its own thread.
        let mut guard = self.agent.lock().ok()?;
        let agent = guard.as_mut()?;
        // The agent's thread may have been at work until now.
        let mut found = look();
        while found.is_none() {
            // Everything has been read. Calling `look` again lets the reader pass over the rewound
            // part before more arrives. A reader that was added meanwhile would count that part as
            // unread.
            if self.has_one_reader() && agent.rewind_rings() {
                found = look();
            }
            let next = agent.duty_cycle();
            found = found.or_else(&mut look);
            if agent.is_stopping() {
                return found;
            }
            if found.is_some() || deadline.is_some_and(|deadline| deadline <= clock::monotonic()) {
                break;
            }
            if let Some(next) = next {
                agent.sleep(deadline.map_or(next, |deadline| deadline.min(next)), || false);
            }
        }
        inline_drive.handover_delay = handover_delay_within(agent.spare_time());
        found
    }

    /// Lets the agent follow a command immediately that was queued while a reader is away and its
    /// thread rests.
    pub(super) fn serve_commands(&self) {
        if matches!(self.driven_by(), DrivenBy::ReaderAway(_))
            && let Ok(mut guard) = self.agent.try_lock()
            && let Some(agent) = guard.as_mut()
        {
            agent.duty_cycle();
        }
    }

    /// Returns whether a reader may drive the agent: only a sole reader, only if the agent's thread
    /// has default tuning, and not while no absence is allowed and the thread is at work.
    pub(super) fn may_be_driven_inline(&self) -> bool {
        let is_at_work = || self.driven_by() == DrivenBy::OwnThread && self.waker.sleeps_until().is_none();
        let may_leave = || !self.handover_delay().is_zero();
        self.allows_inline && self.has_one_reader() && (may_leave() || !is_at_work())
    }

    fn has_one_reader(&self) -> bool {
        self.readers.load(Ordering::Relaxed) == 1
    }

    pub(super) fn reader_came(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reader_went(&self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    fn driven_by(&self) -> DrivenBy {
        // Relaxed: it only says which thread is to lock the agent; the lock orders everything else.
        DrivenBy::decode(self.driven_by.load(Ordering::Relaxed))
    }

    fn handover_delay(&self) -> Duration {
        Duration::from_nanos(self.handover_delay.load(Ordering::Relaxed))
    }

    /// Lets the agent's thread wait while a reader drives the agent, or left a moment ago.
    fn wait_for_handover(&self) {
        loop {
            let (now, driven_by, handover_delay) =
                (clock::monotonic(), self.driven_by(), self.handover_delay());
            match driven_by {
                DrivenBy::OwnThread => return,
                DrivenBy::Reader(since) if now.since(since) >= LONG_INLINE_DRIVE => {
                    self.rest(crate::MAX_SLEEP, driven_by)
                }
                DrivenBy::Reader(_) => self.rest(RESTS * handover_delay.max(MIN_HANDOVER_DELAY), driven_by),
                DrivenBy::ReaderAway(when) if now.since(when) < handover_delay => {
                    self.rest(RESTS * handover_delay, driven_by)
                }
                DrivenBy::ReaderAway(_) => {
                    // A reader that was merely preempted runs first.
                    std::thread::yield_now();
                    let (left, own) = (driven_by.encode(), DrivenBy::OwnThread.encode());
                    // Fails if the reader has returned: then the reader continues to drive.
                    let _ = self.driven_by.compare_exchange(left, own, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
    }

    /// Sleeps for `time`, or until the agent's thread is called, if the state is still as `seen`.
    fn rest(&self, time: Duration, seen: DrivenBy) {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        self.rests_for.store(nanos(time), Ordering::Relaxed);
        // Here the duration is written before the driver is read; where inline driving ends the
        // order is reversed, so that one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.driven_by() == seen {
            let _ = self.called.wait_timeout(rest, time);
        }
        self.rests_for.store(0, Ordering::Relaxed);
    }

    /// Wakes the agent's thread while it rests.
    fn call(&self) {
        // The resting thread has read the driver for the last time and waits, or has yet to read
        // it.
        drop(self.rest.lock().unwrap_or_else(PoisonError::into_inner));
        self.called.notify_one();
    }
}

/// A span of inline driving, from the reader's request until the reader leaves, also by a panic.
struct InlineDrive<'w> {
    shared: &'w SharedAgent,
    /// Maximum absence of the reader afterwards; `None` hands the agent over to its thread
    /// immediately.
    handover_delay: Option<Duration>,
}

impl<'w> InlineDrive<'w> {
    fn begin(shared: &'w SharedAgent) -> Self {
        shared.driven_by.store(DrivenBy::Reader(clock::monotonic()).encode(), Ordering::Relaxed);
        // If the agent's thread holds it and sleeps; otherwise the thread checks once more before
        // it sleeps.
        shared.waker.wake();
        // Replaced once a reader has driven the agent.
        Self { shared, handover_delay: None }
    }
}

impl Drop for InlineDrive<'_> {
    fn drop(&mut self) {
        let Self { shared, handover_delay } = *self;
        let left = handover_delay.map_or(DrivenBy::OwnThread, |_| DrivenBy::ReaderAway(clock::monotonic()));
        shared.handover_delay.store(handover_delay.map_or(0, nanos), Ordering::Relaxed);
        shared.driven_by.store(left.encode(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let longest_rest = handover_delay.map_or(0, |handover_delay| nanos(MAX_RESTS * handover_delay));
        if shared.rests_for.load(Ordering::Relaxed) > longest_rest {
            shared.call();
        }
    }
}

/// Returns the hand-over delay if the sockets may stay unread for `spare`: the agent's thread rests
/// first, before it sees that the reader is away. `None` where inline driving is not worthwhile.
fn handover_delay_within(spare: Duration) -> Option<Duration> {
    let handover_delay = (spare / (MAX_RESTS + 1)).min(MAX_HANDOVER_DELAY);
    (handover_delay >= MIN_HANDOVER_DELAY).then_some(handover_delay)
}

/// Converts a short time to nanoseconds.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Ends the agent with its thread, also by a panic: readers get the remaining data, and waiting
/// callers get no answer.
struct EndOfThread<'w>(&'w SharedAgent);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        let mut guard = self.0.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = guard.take();
        drop(guard);
        match agent {
            Some(agent) if !std::thread::panicking() => agent.end(),
            // Ending may panic again; when the agent is dropped, its rings close too.
            other => drop(other),
        }
    }
}

impl DrivenBy {
    /// Packs the state into one word: an instant in the upper 62 bits, 146 years of nanoseconds.
    const fn encode(self) -> u64 {
        match self {
            Self::OwnThread => 0,
            Self::Reader(since) => since.as_nanos() << 2 | 1,
            Self::ReaderAway(when) => when.as_nanos() << 2 | 2,
        }
    }

    const fn decode(word: u64) -> Self {
        let when = Instant::from_nanos(word >> 2);
        match word & 3 {
            0 => Self::OwnThread,
            1 => Self::Reader(when),
            _ => Self::ReaderAway(when),
        }
    }
}

#[cfg(test)]
mod tests;
