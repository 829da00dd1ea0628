//! What happens when a mapped file is cut short by somebody: zeros instead of the end of this process.
//!
//! Touching a page that a mapped file no longer has raises `SIGBUS`, which ends a process. Whoever may write a
//! ring's file may cut it short, and a reader must survive that. So the first mapping installs a handler:
//! a fault inside a ring's mapping replaces that mapping by empty memory, whose zeros no reader takes for a
//! record; any other fault goes where it went before. Compositors treat their clients' buffers alike.
#![expect(unsafe_code, reason = "signal handlers and the memory map are the kernel's")]

use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::libc;

/// How many mappings are watched at once; further ones are as vulnerable as any mapped file.
const MAX_WATCHED: usize = 4096;
/// A place that is being filled in: no mapping begins there.
const RESERVED: usize = 1;

static WATCHED: [Range; MAX_WATCHED] = [const { Range::empty() }; MAX_WATCHED];
/// What was to happen before; `None` if the handler could not be installed.
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

/// Catches the faults of a mapping until it is taken out again.
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
            // Release: a handler that finds the start finds the length.
            range.start.store(start, Ordering::Release);
        }
        Self { place }
    }

    /// Stops catching faults; to be called before the mapping is given back.
    pub(super) fn end(&mut self) {
        if let Some(range) = self.place.take() {
            range.start.store(0, Ordering::Release);
        }
    }
}

fn install() -> Option<libc::sigaction> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
    // SAFETY: all-zero bytes are a valid `sigaction`; the handler has the signature that SA_SIGINFO asks for and
    // calls only what may be called in a handler.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = (mem::zeroed(), mem::zeroed());
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        (libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) == 0).then_some(before)
    }
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid `siginfo_t` of a fault to a handler installed with SA_SIGINFO.
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

/// Puts empty memory in a mapping's place.
fn replace(range: &Range) -> bool {
    let (start, len_bytes) = (range.start.load(Ordering::Relaxed), range.len_bytes.load(Ordering::Relaxed));
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the range is a mapping of ours that still exists, since it is being touched; `mmap` is a bare system call, and
    // the thread that was interrupted finds its `errno` as it was.
    unsafe {
        let errno = *libc::__errno_location();
        let mapped = libc::mmap(ptr::without_provenance_mut(start), len_bytes, protection, flags, -1, 0);
        *libc::__errno_location() = errno;
        mapped != libc::MAP_FAILED
    }
}

/// Does what was to happen before this handler was there.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().and_then(Option::as_ref);
    // SAFETY: the action is the one that the kernel gave us; a handler is called as its flags say it wants to be.
    // The system's own action is put back: the fault happens again on return, and is the system's then.
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
