//! A record in place: borrowed from memory that may be overwritten at any moment.
//!
//! A view gives no slice: a slice of memory that another process may write is undefined behaviour.
//! Its methods copy or fold word by word, and return whether that was in time.

use zerocopy::IntoBytes;

use crate::kept::Kept;
use crate::layout::{Header, WORD_BYTES};
use crate::memory::Memory;
use crate::run::Run;
use crate::sync::{Arc, AtomicU64, Ordering};

/// One record, borrowed.
pub struct View<'a> {
    memory: &'a Arc<Memory>,
    position: u64,
    header: Header,
}

impl<'a> View<'a> {
    pub(crate) const fn new(memory: &'a Arc<Memory>, position: u64, header: Header) -> Self {
        Self { memory, position, header }
    }

    /// Returns the kind of the payload, as the writer defines it.
    #[must_use]
    pub const fn kind(&self) -> u16 {
        self.header.kind
    }

    /// Returns the writer's running totals before this record.
    #[must_use]
    pub const fn totals(&self) -> [u64; 2] {
        self.header.totals
    }

    /// Returns the size of the payload.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.header.payload_bytes as usize
    }

    /// Copies the payload; false if it was overwritten before the copy was finished, whose content
    /// is then undefined.
    ///
    /// Cost: `into` grows once; bytes that it held are not cleared first.
    #[inline]
    pub fn copy_to(&self, into: &mut Vec<u8>) -> bool {
        let payload_bytes = self.payload_bytes();
        // Not cleared before: only added bytes are filled with zeros.
        into.resize(payload_bytes.next_multiple_of(WORD_BYTES), 0);
        self.payload().load(into);
        into.truncate(payload_bytes);
        self.still_valid()
    }

    /// Copies the payload to the start of `into`, in words, the last padded with zeros; false if it
    /// was overwritten before the copy was finished, whose content is then undefined.
    ///
    /// For callers that read numbers in place, which a byte buffer may not align. Cost: `into`
    /// grows once, and never shrinks: words after the payload are undefined.
    #[inline]
    pub fn copy_to_words(&self, into: &mut Vec<u64>) -> bool {
        let count = self.payload_bytes().div_ceil(WORD_BYTES);
        if into.len() < count {
            into.resize(count, 0);
        }
        self.payload().load(into[..count].as_mut_bytes());
        self.still_valid()
    }

    /// Folds over the payload in words of eight little-endian bytes, the last padded with zeros;
    /// `None` if it was overwritten meanwhile.
    ///
    /// `step` may get words that were never written in this combination, and must accept any value.
    pub fn fold<T>(&self, start: T, mut step: impl FnMut(T, [u8; WORD_BYTES]) -> T) -> Option<T> {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_le_bytes();
        let folded = self.payload().words().fold(start, |so_far, word| step(so_far, load(word)));
        self.still_valid().then_some(folded)
    }

    /// Copies the beginning of the payload, whole words; false if it was overwritten meanwhile, or is shorter.
    #[must_use]
    pub fn copy_start(&self, into: &mut [u8]) -> bool {
        if into.len() > self.payload_bytes() || !into.len().is_multiple_of(WORD_BYTES) {
            return false;
        }
        self.payload().split_at(into.len() / WORD_BYTES).0.load(into);
        self.still_valid()
    }

    /// Keeps the record in place, to be read later; `None` where it wraps round the end of the
    /// memory.
    #[must_use]
    pub fn keep(&self) -> Option<Kept> {
        Kept::of(self.memory, self.position, self.header)
    }

    /// Returns whether all data taken from this view before are the record as the writer wrote it.
    #[must_use]
    pub fn still_valid(&self) -> bool {
        let intent = self.memory.intent_behind_a_copy();
        // An intent before the record's end comes from memory that was truncated under this reader.
        intent <= self.position.saturating_add(self.memory.capacity_bytes()) && intent >= self.next()
    }

    /// Returns the position of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.position + self.header.record_bytes()
    }

    fn payload(&self) -> Run<'a> {
        let count = self.payload_bytes().div_ceil(WORD_BYTES);
        self.memory.run(self.position + Header::BYTES as u64, count)
    }
}
