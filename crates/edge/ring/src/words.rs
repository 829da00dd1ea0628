//! The memory that writer and readers share, as words; on the heap of this process or in a file.
#![expect(unsafe_code, reason = "one slice over either kind of memory, which its owner keeps where it is")]

use std::ops::Deref;

#[cfg(not(loom))]
use std::sync::Arc;

use crate::sync::AtomicU64;

#[cfg(not(any(loom, miri)))]
use crate::anonymous::Anonymous;
#[cfg(not(loom))]
use crate::mapping::Mapping;

/// A run of words, in either kind of memory.
pub(crate) struct Words {
    start: *const AtomicU64,
    len: usize,
    _owner: Owner,
}

/// Owner that keeps the words in place.
#[expect(dead_code, reason = "held for what it keeps alive")]
enum Owner {
    Heap(Box<[AtomicU64]>),
    #[cfg(not(loom))]
    Mapped(Arc<Mapping>),
    #[cfg(not(any(loom, miri)))]
    Anonymous(Anonymous),
}

// SAFETY: the words are atomics, which may be shared, and stay in place while their owner exists,
// which moves with them and is never accessed.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Returns words of this process alone, all zero.
    pub(crate) fn on_heap(len: usize) -> Self {
        #[cfg(not(any(loom, miri)))]
        if let Some(memory) = Anonymous::map(len) {
            let start = memory.words().as_ptr();
            return Self { start, len, _owner: Owner::Anonymous(memory) };
        }
        let words: Box<[AtomicU64]> = (0..len).map(|_| AtomicU64::new(0)).collect();
        Self { start: words.as_ptr(), len, _owner: Owner::Heap(words) }
    }

    #[cfg(not(loom))]
    pub(crate) fn mapped(mapping: Arc<Mapping>) -> Self {
        let words = mapping.words();
        Self { start: words.as_ptr(), len: words.len(), _owner: Owner::Mapped(mapping) }
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `start` and `len` are those of a slice that the owner holds, unmoved, while
        // `self` exists: the contents of a box and a mapping stay in place when their handle moves.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
