//! Waking readers that wait, at next to no cost while nobody does.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence};

/// A bell that writers ring and readers sleep at; one bell may serve any number of rings.
///
/// Ringing is apart from writing, so that a writer rings once per batch.
///
/// Cost: a ring without sleepers is one fence and one load.
#[derive(Default)]
pub struct Doorbell {
    /// How many are asleep or about to be.
    waiting: AtomicU64,
    /// How often the bell was rung while somebody waited.
    rung: Mutex<u64>,
    bell: Condvar,
}

impl Doorbell {
    /// Makes a bell.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes everybody who waits. To be called after writing.
    pub fn ring(&self) {
        // The writer wrote, then looks for sleepers; a sleeper registers, then looks for what was written.
        // With a sequentially consistent fence on both sides at least one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            *self.lock() += 1;
            self.bell.notify_all();
        }
    }

    /// Calls `look` until it returns something, sleeping in between until the bell rings.
    ///
    /// Returns `None` when `timeout` has passed and `look` still found nothing; it is called at least once,
    /// and once after the time is over. A bell rung during `look` is never missed.
    pub fn wait_until<T>(&self, timeout: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if let Some(found) = look() {
            return Some(found);
        }
        // Too far away to be written down is the same as never.
        let deadline = Instant::now().checked_add(timeout);
        let registered = Registered::at(self);
        loop {
            let seen = *registered.0.lock();
            if let Some(found) = look() {
                return Some(found);
            }
            if !self.sleep(seen, deadline) {
                return look();
            }
        }
    }

    /// Sleeps until rung again after `seen`; false if `deadline` came first.
    fn sleep(&self, seen: u64, deadline: Option<Instant>) -> bool {
        let mut rung = self.lock();
        while *rung == seen {
            let Some(deadline) = deadline else {
                rung = self.bell.wait(rung).expect("nothing panics under this lock");
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (rung, _) = self.bell.wait_timeout(rung, left).expect("nothing panics under this lock");
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.rung.lock().expect("nothing panics under this lock")
    }
}

/// One who waits; deregisters also when `look` panics.
struct Registered<'a>(&'a Doorbell);

impl<'a> Registered<'a> {
    fn at(bell: &'a Doorbell) -> Self {
        bell.waiting.fetch_add(1, Ordering::Relaxed);
        // The other half of the pair in `ring`.
        fence(Ordering::SeqCst);
        Self(bell)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Long enough that a test which reaches it has failed.
    const WATCHDOG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_there_is_returned_without_sleeping() {
        assert_eq!(Doorbell::new().wait_until(Duration::ZERO, || Some(7)), Some(7));
    }

    #[test]
    fn time_passes_when_nobody_rings() {
        let mut looks = 0;
        let found = Doorbell::new().wait_until(Duration::from_millis(2), || {
            looks += 1;
            None::<()>
        });
        assert_eq!(found, None);
        assert!(looks >= 2);
    }

    #[test]
    fn a_sleeper_is_woken_and_a_bell_for_another_ring_does_not_end_the_wait() {
        let (bell, ready) = (Doorbell::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let sleeper =
                scope.spawn(|| bell.wait_until(WATCHDOG, || ready.load(Ordering::Relaxed).then_some(())));
            while bell.waiting.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            bell.ring();
            ready.store(true, Ordering::Relaxed);
            bell.ring();
            assert_eq!(sleeper.join().unwrap(), Some(()));
        });
        assert_eq!(bell.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn endless_time_outs_are_allowed() {
        let (bell, ready) = (Doorbell::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let found = bell.wait_until(Duration::MAX, || ready.load(Ordering::Relaxed).then_some(()));
                assert_eq!(found, Some(()));
            });
            ready.store(true, Ordering::Relaxed);
            bell.ring();
        });
    }
}
