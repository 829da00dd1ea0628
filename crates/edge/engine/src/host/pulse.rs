//! The beats of this process's rings: one thread counts in each of them once a second, so that readers of this host can tell
//! a publisher that pauses from one whose process is stopped.
//!
//! A thread of its own, because a publisher within one host has no agent. It ends with the last ring.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::Pulse;
use sys::Home;

/// Interval between the beats of a publisher's ring.
pub const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Size of the thread's stack: it calls nothing deep.
const STACK_BYTES: usize = 1 << 17;

/// The rings of this process.
static HERE: Mutex<Option<Beating>> = Mutex::new(None);

/// Rings whose beats one process counts. A forked child has its own.
#[derive(Clone)]
struct Beating {
    home: Home,
    rings: Arc<Mutex<Rings>>,
}

#[derive(Default)]
struct Rings {
    pulses: BTreeMap<u64, Pulse>,
    /// Number of the next ring.
    next: u64,
    has_thread: bool,
}

/// Keeps a ring beating; dropping it ends that.
pub(crate) struct Beat {
    home: Home,
    rings: Arc<Mutex<Rings>>,
    number: u64,
}

impl Beating {
    /// Returns those of this process.
    fn here() -> Self {
        // Held for a moment only: a fork meanwhile would leave it held in the child for ever.
        let mut here = lock(&HERE);
        here.take_if(|beating| !beating.home.is_here());
        here.get_or_insert_with(|| Self { home: Home::here(), rings: Arc::default() }).clone()
    }
}

impl Beat {
    /// Begins to count in a ring.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(crate) fn begin(pulse: Pulse) -> std::io::Result<Self> {
        let Beating { home, rings } = Beating::here();
        let mut held = lock(&rings);
        if !held.has_thread {
            let thread = std::thread::Builder::new().name("tallycast-pulse".into()).stack_size(STACK_BYTES);
            let its = Arc::clone(&rings);
            thread.spawn(move || {
                while beat_all(&its) {
                    std::thread::sleep(BEAT_INTERVAL);
                }
            })?;
            held.has_thread = true;
        }
        // Readers know from the first count on that there will be others.
        pulse.beat();
        let number = held.next;
        held.next += 1;
        held.pulses.insert(number, pulse);
        drop(held);
        Ok(Self { home, rings, number })
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        // In a forked child the lock may be held for ever, by the parent's thread.
        if self.home.is_here() {
            lock(&self.rings).pulses.remove(&self.number);
        }
    }
}

/// Counts once in each ring; returns false, and that the thread ends, if there is none.
fn beat_all(rings: &Mutex<Rings>) -> bool {
    let mut rings = lock(rings);
    rings.pulses.values().for_each(Pulse::beat);
    rings.has_thread = !rings.pulses.is_empty();
    rings.has_thread
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counts and their owners: a panic leaves no partial change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::Ring;
    use support::wait_until;

    fn beating() -> (Ring, Beat) {
        let (writer, ring) = ring::ring(64);
        (ring, Beat::begin(writer.pulse()).unwrap())
    }

    #[test]
    fn every_ring_beats_until_it_ends() {
        let [(first, one), (second, _other)] = [beating(), beating()];
        for ring in [&first, &second] {
            assert!(ring.pulse() > 0, "the first count tells that there will be others");
            wait_until("beats", || (ring.pulse() > 2).then_some(()));
        }
        drop(one);
        let (at, of_other) = (first.pulse(), second.pulse());
        wait_until("beats of the other", || (second.pulse() > of_other + 1).then_some(()));
        assert_eq!(first.pulse(), at);
    }

    #[test]
    fn all_rings_have_one_thread() {
        let _rings = [beating(), beating(), beating()];
        let name_of = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
        };
        let count = || {
            let names = std::fs::read_dir("/proc/self/task").unwrap().filter_map(name_of);
            names.filter(|name| name.trim_end() == "tallycast-pulse").count()
        };
        // One that ended with rings of another test may still be there.
        wait_until("one thread", || (count() == 1).then_some(()));
    }

    #[test]
    fn a_thread_ends_with_the_last_ring() {
        let rings = Mutex::new(Rings { has_thread: true, ..Rings::default() });
        let (writer, ring) = ring::ring(64);
        lock(&rings).pulses.insert(0, writer.pulse());
        assert!(beat_all(&rings) && lock(&rings).has_thread);
        lock(&rings).pulses.clear();
        assert!(!beat_all(&rings) && !lock(&rings).has_thread, "the next ring begins another");
        assert_eq!(ring.pulse(), 1);
    }

    #[test]
    fn a_forked_child_counts_in_its_own_rings_and_leaves_those_of_its_parent() {
        let (parents, beat) = beating();
        let child = sys::ForkedChild::run(move || {
            drop(beat);
            let (own, _beat) = beating();
            // The watchdog is the parent's.
            while own.pulse() < 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            0
        });
        assert_eq!(child.unwrap().wait(Duration::from_secs(60)).unwrap(), Some(0));
        assert!(parents.pulse() > 0);
    }
}
