//! A word at which threads and processes sleep until they are woken: the kernel's futex, behind an
//! interface.
//!
//! loom has no futex: under loom a lock and a condition variable replace it, with the same rule — a
//! thread does not fall asleep at a word that has changed.

use std::time::Duration;

use crate::sync::AtomicU32;

#[cfg(not(loom))]
use crate::mapping::MappedWord;

/// A word that sleepers compare and wakers change.
pub(crate) enum Word {
    Own(OwnWord),
    /// A word in shared memory, kept by the file.
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

/// Sleeps until one of the words is woken or differs from its given value, or `timeout` has passed.
pub(crate) fn sleep(words: &[(&Word, u32)], timeout: Option<Duration>) {
    #[cfg(not(loom))]
    kernel::sleep(words, timeout);
    #[cfg(loom)]
    model::sleep(words, timeout);
}

/// Wakes all threads that sleep at a word.
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

    /// Maximum number of words at which the kernel lets a thread sleep (`FUTEX_WAITV_MAX`).
    const MAX_WORDS: usize = 128;

    /// Sleep of a thread that cannot wait at all its words.
    const POLL_INTERVAL: Duration = Duration::from_millis(1);

    static WARNED: Once = Once::new();

    pub(super) fn sleep(words: &[(&Word, u32)], timeout: Option<Duration>) {
        match *words {
            [] => std::thread::sleep(timeout.unwrap_or(POLL_INTERVAL)),
            [(word, seen)] => {
                let timeout = timeout.map(timespec);
                // Woken, changed, interrupted or timed out: the caller checks again in any case.
                // Not private: the waker may be another process.
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
                // As above: the caller checks again in any case.
                Ok(_) | Err(_) => return,
            }
        }
        WARNED.call_once(|| warn_of_polling(waits.len()));
        std::thread::sleep(timeout.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL));
    }

    /// Says that rings are polled, and why: their number, or else the kernel (or a filter of system calls).
    fn warn_of_polling(rings: usize) {
        if rings > MAX_WORDS {
            tracing::warn!(
                "the kernel waits for {MAX_WORDS} rings at once: the {rings} of this reader are polled every {POLL_INTERVAL:?}\n\
                 divide them among readers of at most {MAX_WORDS} streams, or accept the CPU time"
            );
        } else {
            tracing::warn!(
                "futex_waitv is not available, so {rings} rings are polled every {POLL_INTERVAL:?}\n\
                 allow the system call in the container's filter (seccomp); kernels before Linux 5.16 lack it"
            );
        }
    }

    pub(super) fn wake(word: &Word) {
        // An error needs no handling: a sleeper soon checks again without being woken.
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

    /// Supports one word and no timeout, which the models need.
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
