//! Forks: a count of those that led to this process, and a child that runs a function.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;

/// Number of forks that led to this process, since the first call of [`forks`].
static FORKS: AtomicU64 = AtomicU64::new(0);
static COUNTING: Once = Once::new();

/// Returns the number of forks that led to this process since they are counted, which begins with the first call.
pub(crate) fn forks() -> u64 {
    COUNTING.call_once(|| {
        // SAFETY: `forked` stays as long as the program runs; it changes an atomic and calls nothing.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        assert_eq!(failed, 0, "memory for one entry");
    });
    counted()
}

/// Returns the same number once they are counted.
pub(crate) fn counted() -> u64 {
    // Relaxed: it changes where a process has one thread.
    FORKS.load(Ordering::Relaxed)
}

unsafe extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Runs a function in a forked child, which then ends with what it returned, without destructors of the parent.
pub(crate) fn child(act: impl FnOnce() -> u8) -> io::Result<libc::pid_t> {
    // SAFETY: the child runs Rust code of one thread; memory that other threads changed may be locked, not broken.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(u8::MAX);
            // SAFETY: it ends the process, and returns to nothing.
            unsafe { libc::_exit(i32::from(code)) }
        }
        pid => Ok(pid),
    }
}
