//! Handler for mapped files that are truncated by another process: reads give zeros instead of
//! ending this process.
//!
//! Touching a page that a mapped file no longer has raises `SIGBUS`, which ends a process. A
//! process that may write a ring's file may truncate it, and a reader must survive that. So the
//! first mapping installs a handler: a fault inside a ring's mapping replaces that mapping by empty
//! memory, whose zeros no reader takes for a record; any other fault is passed on to the previous
//! handler. Compositors handle their clients' buffers in the same way.
#![expect(unsafe_code, reason = "signal handlers and the memory map are the kernel's")]

use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::libc;

/// Maximum number of mappings that are protected; further ones are as vulnerable as any mapped
/// file.
const MAX_WATCHED: usize = 4096;
/// Marks an entry that is being filled in: no mapping begins at this address.
const RESERVED: usize = 1;

static WATCHED: [Range; MAX_WATCHED] = [const { Range::empty() }; MAX_WATCHED];
/// The previous signal action; `None` if the handler could not be installed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

struct Range {
    start: AtomicUsize,
    len_bytes: AtomicUsize,
}

impl Range {
    const fn empty() -> Self {
        Self { start: AtomicUsize::new(0), len_bytes: AtomicUsize::new(0) }
    }
}

/// Catches the faults of a mapping until it is unregistered.
pub(super) struct Watch {
    place: Option<&'static Range>,
}

impl Watch {
    pub(super) fn over(start: usize, len_bytes: usize) -> Self {
        BEFORE.get_or_init(install);
        let free = |range: &&Range| {
            range.start.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let place = WATCHED.iter().find(free);
        if let Some(range) = place {
            range.len_bytes.store(len_bytes, Ordering::Relaxed);
            // Release: a handler that sees the start sees the length.
            range.start.store(start, Ordering::Release);
        }
        Self { place }
    }

    /// Stops catching faults; must be called before the mapping is unmapped.
    pub(super) fn end(&mut self) {
        if let Some(range) = self.place.take() {
            range.start.store(0, Ordering::Release);
        }
    }
}

fn install() -> Option<libc::sigaction> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
    // SAFETY: all-zero bytes are a valid `sigaction`; the handler has the signature that SA_SIGINFO
    // requires and calls only functions that are allowed in a signal handler.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = (mem::zeroed(), mem::zeroed());
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        (libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) == 0).then_some(before)
    }
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` of a fault to a handler installed with
    // SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    let inside = |range: &&Range| {
        let start = range.start.load(Ordering::Acquire);
        start > RESERVED && address.wrapping_sub(start) < range.len_bytes.load(Ordering::Relaxed)
    };
    if WATCHED.iter().find(inside).is_some_and(replace) {
        return;
    }
    pass_on(signal, info, context);
}

/// Replaces a mapping by empty memory.
fn replace(range: &Range) -> bool {
    let (start, len_bytes) = (range.start.load(Ordering::Relaxed), range.len_bytes.load(Ordering::Relaxed));
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the range is a registered mapping that still exists, since it is being touched;
    // `mmap` is a bare system call, and the interrupted thread finds its `errno` unchanged.
    unsafe {
        let errno = *libc::__errno_location();
        let mapped = libc::mmap(ptr::without_provenance_mut(start), len_bytes, protection, flags, -1, 0);
        *libc::__errno_location() = errno;
        mapped != libc::MAP_FAILED
    }
}

/// Executes the action that was installed before this handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().and_then(Option::as_ref);
    // SAFETY: the action is the one that the kernel returned; a handler is called as its flags
    // require. The default action is restored: the fault happens again on return, and the system
    // handles it.
    unsafe {
        match before {
            Some(before) if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN => {
                if before.sa_flags & libc::SA_SIGINFO == 0 {
                    let handler: extern "C" fn(libc::c_int) = mem::transmute(before.sa_sigaction);
                    handler(signal);
                } else {
                    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        mem::transmute(before.sa_sigaction);
                    handler(signal, info, context);
                }
            }
            _ => {
                let mut default: libc::sigaction = mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
    }
}
