//! Who drives the agent: its own thread, or the reader that would only wait for it.
//!
//! A reader that sleeps until the agent's thread has received something is woken behind it: two threads wake up, one after
//! the other, for one datagram. And what one thread writes into a ring for another to read is in no cache any more when that
//! gets round to it. The only reader of a process can spare itself both. While it waits it has the *watch*: it does in its
//! own thread what the agent's would do, which keeps out of the way, and relieves it when it is away for longer than the
//! receive buffers allow (leader and followers, after Schmidt et al., *Pattern-Oriented Software Architecture* 2).

use std::ops::ControlFlow;
use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use ring::sync::{AtomicU64, Ordering, fence};
use sys::clock;
use units::Instant;

use super::agent::Agent;
use crate::waker::AgentWaker;

/// How long a reader may be away at most before the agent's thread does its work.
const MAX_RELIEF: Duration = Duration::from_millis(1);
/// The shortest such time: to look round more often would keep a processor busy, since setting a timer takes one or two
/// microseconds, and on some virtual machines more than twenty.
const MIN_RELIEF: Duration = Duration::from_micros(100);
/// For so many times that the agent's thread rests at most before it looks again whether the reader is still there: a reader
/// that mostly waits is not looked after a thousand times a second.
const RESTS: u32 = 4;
/// It is called when it rests for longer than so many times: not for every fluctuation of a rate.
const MAX_RESTS: u32 = RESTS + 1;
/// While a reader has waited for so long the agent's thread need not look round until it is called.
const LONG_WATCH: Duration = Duration::from_millis(100);

/// Who has the watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// The agent's thread.
    ByItsThread,
    /// A reader, since then.
    ByReader(Instant),
    /// A reader, who went away then.
    Left(Instant),
}

/// An agent, and who drives it.
pub(super) struct Watch {
    /// `None` once the agent has ended.
    agent: Mutex<Option<Agent>>,
    /// Wakes whoever sleeps in the agent's poller.
    waker: AgentWaker,
    /// A [`Taken`].
    taken: AtomicU64,
    /// How long a reader may be away, in nanoseconds; 0 where its receive buffers allow no absence.
    relief: AtomicU64,
    /// Where the agent's thread rests while a reader has the watch.
    rest: Mutex<()>,
    called: Condvar,
    /// For how long it rests, in nanoseconds.
    rests_for: AtomicU64,
    /// How many readers the agent has in this process.
    readers: AtomicUsize,
    /// Whether readers may have the watch at all.
    is_shared: bool,
}

impl Watch {
    pub(super) fn new(agent: Agent, waker: AgentWaker, is_shared: bool) -> Self {
        Self {
            agent: Mutex::new(Some(agent)),
            waker,
            taken: AtomicU64::new(Taken::ByItsThread.encode()),
            relief: AtomicU64::new(nanos(MAX_RELIEF)),
            rest: Mutex::new(()),
            called: Condvar::new(),
            rests_for: AtomicU64::new(0),
            readers: AtomicUsize::new(0),
            is_shared,
        }
    }

    /// What the agent's thread does: drives the agent while no reader does, until it is stopped.
    pub(super) fn keep(&self) {
        let _end = EndOfWatch(self);
        let is_wanted = || self.taken() != Taken::ByItsThread;
        loop {
            self.wait_for_relief();
            // Poisoned: whoever had it panicked, and nobody knows what state it is in.
            let Ok(mut place) = self.agent.lock() else { return };
            let Some(agent) = place.as_mut() else { return };
            while !is_wanted() {
                match agent.turn_unless_stopped() {
                    ControlFlow::Break(()) => return,
                    ControlFlow::Continue(Some(deadline)) => agent.sleep(deadline, is_wanted),
                    // On the same processor a reader keeps up that way, and on another it does not matter.
                    ControlFlow::Continue(None) => std::thread::yield_now(),
                }
            }
        }
    }

    /// Has the watch until `look` finds something or `deadline` has come; `None` at the deadline, or if the agent has ended.
    pub(super) fn stand<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut standing = Standing::begin(self);
        // One that has ended, or was left by a panic, is its thread's business.
        let mut place = self.agent.lock().ok()?;
        let agent = place.as_mut()?;
        // The agent's thread may have been at work until now.
        let mut found = look();
        while found.is_none() {
            // Everything has been read. By another look the reader passes over what was rewound, before more comes. One that
            // came meanwhile would count that as unread.
            if self.has_one_reader() && agent.rewind_rings() {
                found = look();
            }
            let next = agent.turn();
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
        standing.relief = relief_within(agent.spare_time());
        found
    }

    /// Lets the agent follow a command at once that came while a reader is away and its thread rests.
    pub(super) fn serve(&self) {
        if matches!(self.taken(), Taken::Left(_))
            && let Ok(mut place) = self.agent.try_lock()
            && let Some(agent) = place.as_mut()
        {
            agent.turn();
        }
    }

    /// Tells whether a reader may have the watch: the only one, at an agent whose thread is like any other, unless nobody may
    /// be away from it and the thread is at work.
    pub(super) fn may_be_taken(&self) -> bool {
        let is_at_work = || self.taken() == Taken::ByItsThread && self.waker.sleeps_until().is_none();
        let may_leave = || !self.relief().is_zero();
        self.is_shared && self.has_one_reader() && (may_leave() || !is_at_work())
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

    fn taken(&self) -> Taken {
        // Relaxed: it only says who is to lock the agent; the lock carries the rest.
        Taken::decode(self.taken.load(Ordering::Relaxed))
    }

    fn relief(&self) -> Duration {
        Duration::from_nanos(self.relief.load(Ordering::Relaxed))
    }

    /// Keeps the agent's thread out of the way of a reader that has the watch, or left it a moment ago.
    fn wait_for_relief(&self) {
        loop {
            let (now, taken, relief) = (clock::monotonic(), self.taken(), self.relief());
            match taken {
                Taken::ByItsThread => return,
                Taken::ByReader(since) if now.since(since) >= LONG_WATCH => {
                    self.rest(crate::MAX_SLEEP, taken)
                }
                Taken::ByReader(_) => self.rest(RESTS * relief.max(MIN_RELIEF), taken),
                Taken::Left(when) if now.since(when) < relief => self.rest(RESTS * relief, taken),
                Taken::Left(_) => {
                    // A reader that was only kept from running goes first.
                    std::thread::yield_now();
                    let (left, own) = (taken.encode(), Taken::ByItsThread.encode());
                    // Fails if the reader came back: then it goes on.
                    let _ = self.taken.compare_exchange(left, own, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
    }

    /// Sleeps for so long, or until the agent's thread is called, if things are as they were `seen`.
    fn rest(&self, time: Duration, seen: Taken) {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        self.rests_for.store(nanos(time), Ordering::Relaxed);
        // Here how long, then who has the watch; where a standing ends it is the other way round, so that one of the two sees
        // the other.
        fence(Ordering::SeqCst);
        if self.taken() == seen {
            let _ = self.called.wait_timeout(rest, time);
        }
        self.rests_for.store(0, Ordering::Relaxed);
    }

    /// Wakes the agent's thread while it keeps out of the way.
    fn call(&self) {
        // Whoever rests has looked for the last time who has the watch, and waits; or has yet to look.
        drop(self.rest.lock().unwrap_or_else(PoisonError::into_inner));
        self.called.notify_one();
    }
}

/// A reader's watch, from its wish to have it until it goes away, however that happens.
struct Standing<'w> {
    watch: &'w Watch,
    /// How long the reader may be away then; `None` if the agent's thread is to go on at once.
    relief: Option<Duration>,
}

impl<'w> Standing<'w> {
    fn begin(watch: &'w Watch) -> Self {
        watch.taken.store(Taken::ByReader(clock::monotonic()).encode(), Ordering::Relaxed);
        // If the agent's thread has it and sleeps. Otherwise it looks once more before it does.
        watch.waker.wake();
        // Unless there turns out to be something to do for a reader.
        Self { watch, relief: None }
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let Self { watch, relief } = *self;
        let left = relief.map_or(Taken::ByItsThread, |_| Taken::Left(clock::monotonic()));
        watch.relief.store(relief.map_or(0, nanos), Ordering::Relaxed);
        watch.taken.store(left.encode(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let longest_rest = relief.map_or(0, |relief| nanos(MAX_RESTS * relief));
        if watch.rests_for.load(Ordering::Relaxed) > longest_rest {
            watch.call();
        }
    }
}

/// Returns how long a reader may be away when nobody may be for longer than `spare`: the agent's thread rests first, before it
/// sees that it is. `None` where that is not worth it.
fn relief_within(spare: Duration) -> Option<Duration> {
    let relief = (spare / (MAX_RESTS + 1)).min(MAX_RELIEF);
    (relief >= MIN_RELIEF).then_some(relief)
}

/// Returns a short time in nanoseconds.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The end of the agent with its thread, also by a panic: its readers get what there is, and who asks gets no answer.
struct EndOfWatch<'w>(&'w Watch);

impl Drop for EndOfWatch<'_> {
    fn drop(&mut self) {
        let mut place = self.0.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = place.take();
        drop(place);
        match agent {
            Some(agent) if !std::thread::panicking() => agent.end(),
            // It may panic again; dropped, its rings close too.
            other => drop(other),
        }
    }
}

impl Taken {
    /// Packs it into one word: a moment in the upper 62 bits, 146 years of nanoseconds.
    const fn encode(self) -> u64 {
        match self {
            Self::ByItsThread => 0,
            Self::ByReader(since) => since.as_nanos() << 2 | 1,
            Self::Left(when) => when.as_nanos() << 2 | 2,
        }
    }

    const fn decode(word: u64) -> Self {
        let when = Instant::from_nanos(word >> 2);
        match word & 3 {
            0 => Self::ByItsThread,
            1 => Self::ByReader(when),
            _ => Self::Left(when),
        }
    }
}

#[cfg(test)]
mod tests;
