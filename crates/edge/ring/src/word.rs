//! A word at which threads and processes sleep until somebody wakes them: the kernel's futex, behind a seam.
//!
//! loom has no futex: built with it, a lock and a condition stand in, which sleep and wake by the same rule —
//! nobody falls asleep at a word that has changed.

use std::time::Duration;

use crate::sync::AtomicU32;

#[cfg(not(loom))]
use crate::shared::MappedWord;

/// A word that sleepers compare and wakers change.
pub(crate) enum Word {
    Own(OwnWord),
    /// In shared memory: the file keeps it.
    #[cfg(not(loom))]
    Mapped(MappedWord),
}

#[derive(Default)]
pub(crate) struct OwnWord {
    value: AtomicU32,
    #[cfg(loom)]
    bed: model::Bed,
}

impl Word {
    pub(crate) fn own() -> Self {
        Self::Own(OwnWord::default())
    }

    pub(crate) fn value(&self) -> &AtomicU32 {
        match self {
            Self::Own(own) => &own.value,
            #[cfg(not(loom))]
            Self::Mapped(mapped) => mapped.value(),
        }
    }
}

/// Sleeps until one of the words is woken or has not the value beside it, or `timeout` has passed.
pub(crate) fn sleep(words: &[(&Word, u32)], timeout: Option<Duration>) {
    #[cfg(not(loom))]
    kernel::sleep(words, timeout);
    #[cfg(loom)]
    model::sleep(words, timeout);
}

/// Wakes everybody who sleeps at a word.
pub(crate) fn wake(word: &Word) {
    #[cfg(not(loom))]
    kernel::wake(word);
    #[cfg(loom)]
    model::wake(word);
}

#[cfg(not(loom))]
mod kernel {
    use std::sync::Once;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::thread::ClockId;
    use rustix::thread::futex::{self, Flags, Wait, WaitFlags, WaitPtr, WaitvFlags};
    use rustix::time::{Timespec, clock_gettime};

    use super::Word;

    /// The most words that the kernel lets a thread sleep at (`FUTEX_WAITV_MAX`).
    const MAX_WORDS: usize = 128;

    /// How long a thread sleeps that cannot sleep at all its words.
    const LOOK_AGAIN: Duration = Duration::from_millis(1);

    static WARNED: Once = Once::new();

    pub(super) fn sleep(words: &[(&Word, u32)], timeout: Option<Duration>) {
        match *words {
            [] => std::thread::sleep(timeout.unwrap_or(LOOK_AGAIN)),
            [(word, seen)] => {
                let timeout = timeout.map(timespec);
                // Woken, changed, interrupted, too late: whoever slept looks again in any case. Not private: the
                // waker may be another process.
                let _ = futex::wait(word.value(), Flags::empty(), seen, timeout.as_ref());
            }
            _ => sleep_at_several(words, timeout),
        }
    }

    fn sleep_at_several(words: &[(&Word, u32)], timeout: Option<Duration>) {
        let waits: Vec<Wait> = words
            .iter()
            .map(|(word, seen)| {
                let mut wait = Wait::new();
                wait.val = u64::from(*seen);
                wait.uaddr = WaitPtr::new(word.value().as_ptr().cast());
                wait.flags = WaitFlags::SIZE_U32;
                wait
            })
            .collect();
        if waits.len() <= MAX_WORDS {
            let deadline = timeout.map(deadline);
            match futex::waitv(&waits, WaitvFlags::empty(), deadline.as_ref(), ClockId::Monotonic) {
                Err(Errno::NOSYS) => {}
                // As above: whatever it was, whoever slept looks again.
                Ok(_) | Err(_) => return,
            }
        }
        WARNED.call_once(|| {
            tracing::warn!(
                "waiting for {} rings at once is beyond this kernel: they are looked at every {LOOK_AGAIN:?}\n\
                 use Linux 5.16 or later, and at most {MAX_WORDS} rings in one reader",
                waits.len()
            );
        });
        std::thread::sleep(timeout.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN));
    }

    pub(super) fn wake(word: &Word) {
        // Nothing to do about an error: a sleeper looks again by itself before long.
        let _ = futex::wake(word.value(), Flags::empty(), i32::MAX.cast_unsigned());
    }

    fn deadline(timeout: Duration) -> Timespec {
        let now = clock_gettime(ClockId::Monotonic);
        now.checked_add(timespec(timeout)).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
    }

    fn timespec(duration: Duration) -> Timespec {
        Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
    }
}

#[cfg(loom)]
mod model {
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use super::Word;
    use crate::sync::Ordering;

    #[derive(Default)]
    pub(super) struct Bed {
        door: Mutex<()>,
        condvar: Condvar,
    }

    /// Only one word and no time: enough for the models.
    pub(super) fn sleep(words: &[(&Word, u32)], _timeout: Option<Duration>) {
        let [(Word::Own(own), seen)] = *words else { panic!("the models sleep at one word") };
        let guard = own.bed.door.lock().expect("nothing panics under this lock");
        if own.value.load(Ordering::Relaxed) == seen {
            drop(own.bed.condvar.wait(guard));
        }
    }

    pub(super) fn wake(word: &Word) {
        let Word::Own(own) = word;
        let _guard = own.bed.door.lock().expect("nothing panics under this lock");
        own.bed.condvar.notify_all();
    }
}
