//! A file's memory in this process, as atomic words.
#![expect(unsafe_code, reason = "mapping a file is a promise about memory that only its holder can keep")]

mod fault;

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::{io, slice};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::layout::WORD_BYTES;
use crate::sync::{AtomicU32, AtomicU64};

/// Page size of a ring's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// The system's default.
    #[default]
    Usual,
    /// Huge pages, if the system has them.
    Huge,
}

/// Access that a process has to a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rights {
    Read,
    ReadWrite,
}

/// A mapped file, until it is dropped.
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    len_bytes: usize,
    _watch: fault::Watch,
}

// SAFETY: the mapping is plain shared memory of atomic words and belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len_bytes` of a file, populating every page immediately.
    ///
    /// The file may be changed and truncated by other processes at any time: words are atomics, and
    /// truncated parts read as zeros from then on.
    pub(crate) fn of(file: impl AsFd, len_bytes: usize, rights: Rights) -> io::Result<Self> {
        let protection = match rights {
            Rights::Read => ProtFlags::READ,
            Rights::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let start = unsafe { mm::mmap(ptr::null_mut(), len_bytes, protection, flags, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, len_bytes, _watch: fault::Watch::over(start.as_ptr() as usize, len_bytes) })
    }

    /// Requests pages of a kind; if the system lacks them, the mapping stays as it is.
    pub(crate) fn ask_for(&self, pages: Pages) {
        if pages == Pages::Huge {
            // SAFETY: advice about a mapping of this process does not change its content.
            let advised =
                unsafe { mm::madvise(self.start.as_ptr().cast(), self.len_bytes, Advice::LinuxHugepage) };
            if let Err(error) = advised {
                tracing::debug!("no huge pages: {error}");
            }
        }
    }

    /// Returns the memory as words. Those of a read-only mapping must not be stored to: the
    /// processor forbids it. Loads of up to eight bytes are allowed there (`std::sync::atomic`,
    /// "Atomic accesses to read-only memory").
    pub(crate) const fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page and has `len_bytes` bytes; every bit pattern is a
        // valid word; the memory stays mapped while `self` exists, which the slice cannot outlive.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len_bytes / WORD_BYTES) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self._watch.end();
        // SAFETY: this type owns the mapping, and no borrow of it can exist when its owner is
        // dropped.
        let unmapped = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len_bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be given back");
    }
}

/// The low half of a word in a mapping, at which threads of several processes sleep.
pub(crate) struct MappedWord {
    mapping: Arc<Mapping>,
    word: usize,
}

impl MappedWord {
    /// # Panics
    /// If the mapping has no such word.
    pub(crate) fn new(mapping: Arc<Mapping>, word: usize) -> Self {
        assert!(word < mapping.words().len(), "a control word lies in every image");
        Self { mapping, word }
    }

    pub(crate) fn value(&self) -> &AtomicU32 {
        let word: *const AtomicU64 = &raw const self.mapping.words()[self.word];
        // SAFETY: the first four bytes of a word of a living mapping, aligned as a word is. No code
        // accesses the word as a whole, so that accesses of different sizes never mix.
        unsafe { &*word.cast::<AtomicU32>() }
    }
}
