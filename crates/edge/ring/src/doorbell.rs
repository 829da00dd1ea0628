//! Doorbells wake readers that wait, at almost no cost while none does.
//!
//! A doorbell has two words. A reader that is about to sleep *arms* it; a writer that has written
//! disarms it if it is armed, increments the count, and wakes every reader that sleeps at the
//! count. The first word is a flag and not a number of sleepers, because a reader killed in its
//! sleep would leave the number too high for ever.

use std::time::{Duration, Instant};

use crate::sync::{Ordering, fence};
use crate::word::{Word, sleep, wake};

/// Maximum sleep at a doorbell that other processes arm too: one of them could disarm it.
const MAX_SHARED_SLEEP: Duration = Duration::from_millis(100);

/// Maximum sleep at a doorbell that this process may not arm.
const UNARMED_SLEEP: Duration = Duration::from_millis(1);

/// Number of calls of `look` by a spinning reader between two reads of the clock.
const SPINS_PER_CLOCK: u32 = 256;

/// Behaviour of a waiting reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Idle {
    /// Looks again immediately: the shortest delay, and a whole processor.
    Spin,
    /// Yields to other threads between two looks.
    Yield,
    /// Sleeps until the doorbell rings.
    #[default]
    Sleep,
}

/// Wakes readers that sleep; its writers ring it, and one doorbell may serve any number of rings.
///
/// Ringing is apart from writing, so that a writer rings once per batch.
///
/// Cost: a ring without sleepers is one fence and one load.
pub struct Doorbell {
    /// Not 0 while a reader sleeps or is about to; `None` where this process may not write it.
    armed: Option<Word>,
    /// Number of times that the doorbell was rung while a reader waited.
    rung: Word,
    max_sleep: Duration,
}

impl Default for Doorbell {
    fn default() -> Self {
        Self { armed: Some(Word::own()), rung: Word::own(), max_sleep: Duration::MAX }
    }
}

impl Doorbell {
    /// Creates a doorbell for the threads of this process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a doorbell from words shared with other processes.
    #[cfg(not(loom))]
    pub(crate) const fn shared(armed: Option<Word>, rung: Word) -> Self {
        let max_sleep = if armed.is_some() { MAX_SHARED_SLEEP } else { UNARMED_SLEEP };
        Self { armed, rung, max_sleep }
    }

    /// Wakes all waiting readers. Must be called after writing.
    pub fn ring(&self) {
        let Some(armed) = &self.armed else { return };
        // The writer writes, then checks for sleepers; a sleeper arms the doorbell, then checks for
        // records.
        // With a sequentially consistent fence on both sides at least one of the two sees the other.
        fence(Ordering::SeqCst);
        if armed.value().load(Ordering::Relaxed) != 0 {
            armed.value().store(0, Ordering::Relaxed);
            // Release: a sleeper that sees the new count sees the doorbell disarmed, and arms it
            // again.
            self.rung.value().fetch_add(1, Ordering::Release);
            wake(&self.rung);
        }
    }

    /// Calls `look` until it returns a value, sleeping in between until the doorbell rings.
    ///
    /// Returns `None` if `timeout` has passed and `look` still returned nothing; it is called at
    /// least once, and once after the timeout. A doorbell rung during `look` is never missed.
    pub fn wait_until<T>(&self, timeout: Duration, look: impl FnMut() -> Option<T>) -> Option<T> {
        wait_any(&[self], Idle::Sleep, timeout, look)
    }

    /// Marks this thread as about to sleep; returns the count to sleep at.
    fn arm(&self) -> u32 {
        let Some(armed) = &self.armed else { return self.rung.value().load(Ordering::Acquire) };
        loop {
            armed.value().store(1, Ordering::Relaxed);
            // The other half of the pair in `ring`.
            fence(Ordering::SeqCst);
            // Acquire pairs with the release in `ring`.
            let rung = self.rung.value().load(Ordering::Acquire);
            // A ring in between disarmed the doorbell: a reader that slept at the new count would
            // not be woken.
            if armed.value().load(Ordering::Relaxed) != 0 {
                return rung;
            }
        }
    }
}

/// Calls `look` until it returns a value, waiting in between, as `idle` says, until one of the
/// doorbells rings.
///
/// Returns `None` if `timeout` has passed and `look` still returned nothing; it is called at least
/// once, and once after the timeout.
pub fn wait_any<T>(
    doorbells: &[&Doorbell],
    idle: Idle,
    timeout: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    if let Some(found) = look() {
        return Some(found);
    }
    // A deadline that cannot be represented means none.
    let deadline = Instant::now().checked_add(timeout);
    let mut looks = 0_u32;
    loop {
        let words = match idle {
            Idle::Sleep => doorbells.iter().map(|doorbell| (&doorbell.rung, doorbell.arm())).collect(),
            Idle::Spin | Idle::Yield => Vec::new(),
        };
        if let Some(found) = look() {
            return Some(found);
        }
        looks = looks.wrapping_add(1);
        match idle {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => std::thread::yield_now(),
            Idle::Sleep => {}
        }
        if idle == Idle::Spin && !looks.is_multiple_of(SPINS_PER_CLOCK) {
            continue;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return look();
        }
        if idle == Idle::Sleep {
            let longest = doorbells.iter().map(|doorbell| doorbell.max_sleep).min().unwrap_or(UNARMED_SLEEP);
            let left = left.unwrap_or(Duration::MAX).min(longest);
            sleep(&words, (left < Duration::MAX).then_some(left));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use support::WATCHDOG;

    use super::*;

    fn is_armed(doorbell: &Doorbell) -> bool {
        doorbell.armed.as_ref().expect("a doorbell of this process").value().load(Ordering::Relaxed) != 0
    }

    #[test]
    fn what_is_there_is_returned_without_sleeping() {
        assert_eq!(Doorbell::new().wait_until(Duration::ZERO, || Some(7)), Some(7));
    }

    #[test]
    fn time_passes_when_nobody_rings() {
        for idle in [Idle::Spin, Idle::Yield, Idle::Sleep] {
            let mut looks = 0;
            let found = wait_any(&[&Doorbell::new()], idle, Duration::from_millis(2), || {
                looks += 1;
                None::<()>
            });
            assert_eq!(found, None);
            assert!(looks >= 2);
        }
    }

    #[test]
    fn a_sleeper_is_woken_and_a_doorbell_for_another_ring_does_not_end_the_wait() {
        let (doorbell, ready) = (Doorbell::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let sleeper =
                scope.spawn(|| doorbell.wait_until(WATCHDOG, || ready.load(Ordering::Relaxed).then_some(())));
            while !is_armed(&doorbell) {
                std::thread::yield_now();
            }
            doorbell.ring();
            ready.store(true, Ordering::Relaxed);
            doorbell.ring();
            assert_eq!(sleeper.join().unwrap(), Some(()));
        });
    }

    #[test]
    fn a_sleeper_at_several_doorbells_is_woken_by_any() {
        for rung in 0..3 {
            let (doorbells, ready) = ([0; 3].map(|_| Doorbell::new()), AtomicBool::new(false));
            let all: Vec<_> = doorbells.iter().collect();
            let look = || ready.load(Ordering::Relaxed).then_some(());
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| wait_any(&all, Idle::Sleep, WATCHDOG, look));
                while !doorbells.iter().all(is_armed) {
                    std::thread::yield_now();
                }
                ready.store(true, Ordering::Relaxed);
                doorbells[rung].ring();
                assert_eq!(sleeper.join().unwrap(), Some(()));
            });
        }
    }

    #[test]
    fn a_sleeper_that_is_gone_costs_one_wake_up_and_no_more() {
        let doorbell = Doorbell::new();
        // Armed without sleeping, like a reader that was killed in between.
        doorbell.arm();
        doorbell.ring();
        assert!(!is_armed(&doorbell));
        doorbell.ring();
        assert_eq!(doorbell.rung.value().load(Ordering::Relaxed), 1);
    }

    #[test]
    fn endless_time_outs_are_allowed() {
        let (doorbell, ready) = (Doorbell::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let found =
                    doorbell.wait_until(Duration::MAX, || ready.load(Ordering::Relaxed).then_some(()));
                assert_eq!(found, Some(()));
            });
            ready.store(true, Ordering::Relaxed);
            doorbell.ring();
        });
    }
}
