//! Memory of this process alone, as atomic words: zeros that take no pages before they are touched.
//!
//! The allocator would clear a large ring page by page before its first record; an agent that
//! creates one for a stream at full rate would lose the datagrams that arrive meanwhile.
#![expect(unsafe_code, reason = "mapping memory is a promise that only its holder can keep")]

use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::layout::WORD_BYTES;
use crate::sync::AtomicU64;

/// Size from which memory is mapped; below it the allocator is as good. The smallest rings of
/// streams are mapped: each of thousands of announced, silent streams then takes only the few pages
/// that were written to.
const MIN_BYTES: usize = 1 << 17;

/// Size from which the beginning is populated in advance: rings of slow streams fill slowly.
const MIN_READY_BYTES: usize = 2 << 20;
/// Size of the beginning that is populated in one call to the kernel instead of one fault per page.
/// A ring that is rewound seldom leaves it, and a stream that begins at full rate fills its
/// reader's receive buffer in 3 ms, of which the page faults took one.
const READY_BYTES: usize = 1 << 20;

/// Mapped memory, until it is dropped.
pub(crate) struct Anonymous {
    start: NonNull<AtomicU64>,
    len: usize,
}

impl Anonymous {
    /// Maps `len` words; `None` for few words, or if there is no memory.
    ///
    /// Huge pages are not requested: on a host with fragmented memory the kernel compacts while the
    /// writer waits, which cost an agent milliseconds each, and its socket the datagrams that
    /// arrived meanwhile. Source: measured.
    pub(crate) fn map(len: usize) -> Option<Self> {
        let len_bytes = len.checked_mul(WORD_BYTES).filter(|bytes| *bytes >= MIN_BYTES)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let start =
            unsafe { mm::mmap_anonymous(ptr::null_mut(), len_bytes, protection, MapFlags::PRIVATE) }.ok()?;
        if len_bytes >= MIN_READY_BYTES {
            // SAFETY: the range is the beginning of the new mapping. Kernels before 5.14 do not
            // support it: then pages are populated when touched.
            let _ = unsafe { mm::madvise(start, READY_BYTES, Advice::LinuxPopulateWrite) };
        }
        Some(Self { start: NonNull::new(start.cast())?, len })
    }

    pub(crate) const fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page and has `len` words; every bit pattern is a valid
        // word; it exists while `self` does, which the slice cannot outlive.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: this type owns the mapping, and no borrow of it can exist when its owner is
        // dropped.
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
