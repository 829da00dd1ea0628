//! Memory of this process alone, as atomic words: zeros that cost nothing before they are touched.
//!
//! A large ring from the allocator would be written to once before anything lies in it, page by page; the agent that makes one
//! for a stream that comes in at full rate would lose what comes meanwhile.
#![expect(unsafe_code, reason = "mapping memory is a promise that only its holder can keep")]

use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::layout::WORD_BYTES;
use crate::sync::AtomicU64;

/// From here on memory is mapped; below, the allocator is as good. The smallest rings of streams are mapped: of thousands that
/// are announced and silent, each then takes the few pages that were written to.
const MIN_BYTES: usize = 1 << 17;

/// From here on the beginning is there at once: rings of slow streams fill slowly.
const MIN_READY_BYTES: usize = 2 << 20;
/// So much of it is there from the beginning, in one call to the kernel instead of one for each page: a ring that goes back to
/// its beginning seldom leaves that, and a stream that begins at full rate fills its reader's receive buffer in 3 ms, of
/// which the pages took one.
const READY_BYTES: usize = 1 << 20;

/// Mapped memory, until it is dropped.
pub(crate) struct Anonymous {
    start: NonNull<AtomicU64>,
    len: usize,
}

impl Anonymous {
    /// Maps so many words; `None` for few words, or where there is no memory.
    ///
    /// Huge pages are not asked for: a host whose memory is in pieces makes room for one while the writer waits, which cost an
    /// agent milliseconds each and its socket what came meanwhile. Source: measured.
    pub(crate) fn map(len: usize) -> Option<Self> {
        let len_bytes = len.checked_mul(WORD_BYTES).filter(|bytes| *bytes >= MIN_BYTES)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of anybody.
        let start =
            unsafe { mm::mmap_anonymous(ptr::null_mut(), len_bytes, protection, MapFlags::PRIVATE) }.ok()?;
        if len_bytes >= MIN_READY_BYTES {
            // SAFETY: the beginning of what was just mapped. Kernels before 5.14 cannot: then each page is there when touched.
            let _ = unsafe { mm::madvise(start, READY_BYTES, Advice::LinuxPopulateWrite) };
        }
        Some(Self { start: NonNull::new(start.cast())?, len })
    }

    pub(crate) const fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page and has so many words; every bit pattern is a word; it stays as long as `self`
        // exists, which the slice cannot outlive.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody can hold a part of it when its owner is dropped.
        let unmapped = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len * WORD_BYTES) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be given back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn large_memory_is_zero_and_as_long_as_asked_and_little_is_not_mapped() {
        let len = MIN_BYTES / WORD_BYTES;
        assert!(Anonymous::map(len - 1).is_none());
        let memory = Anonymous::map(len + 1).expect("128 KiB");
        assert_eq!(memory.words().len(), len + 1);
        assert!(memory.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        memory.words()[len].store(7, Ordering::Relaxed);
        assert_eq!(memory.words()[len].load(Ordering::Relaxed), 7);
    }
}
