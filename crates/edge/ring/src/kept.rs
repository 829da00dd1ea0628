//! A record that stays in the ring's memory, for callers that read it without a copy and check
//! afterwards whether it was overwritten.

use crate::layout::{Header, WORD_BYTES};
use crate::memory::Memory;
use crate::sync::Arc;

/// The payload of a record in the memory of its ring, which may be overwritten at any moment.
///
/// Reading at [`address`](Self::address) races with the writer, beyond what Rust defines: no slice
/// may be made of it in Rust. It is for arrays of other languages, whose users call
/// [`still_valid`](Self::still_valid) when they are done.
#[derive(Clone)]
pub struct Kept {
    memory: Arc<Memory>,
    position: u64,
    payload_bytes: usize,
}

impl Kept {
    /// Keeps a record, unless its payload wraps round the end of the memory.
    pub(crate) fn of(memory: &Arc<Memory>, position: u64, header: Header) -> Option<Self> {
        let payload_bytes = header.payload_bytes as usize;
        let kept = Self { memory: Arc::clone(memory), position, payload_bytes };
        kept.words().map(|_| kept.clone())
    }

    /// Returns the size of the payload.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the address of the payload, aligned to a word. The memory stays mapped while this
    /// exists.
    #[must_use]
    pub fn address(&self) -> *const u8 {
        self.words().expect("checked when it was kept").cast()
    }

    /// Returns whether all data read before this call are the record as the writer wrote it.
    #[must_use]
    pub fn still_valid(&self) -> bool {
        let intent = self.memory.intent_behind_a_copy();
        let end = self.position + Header::BYTES as u64 + self.payload_bytes as u64;
        // An intent before the record's end comes from memory that was truncated under this reader.
        intent <= self.position.saturating_add(self.memory.capacity_bytes()) && intent >= end
    }

    /// Returns the address of the payload's first word, if the payload is contiguous.
    fn words(&self) -> Option<*const crate::sync::AtomicU64> {
        let count = self.payload_bytes.div_ceil(WORD_BYTES);
        self.memory.run(self.position + Header::BYTES as u64, count).one_piece().map(<[_]>::as_ptr)
    }
}
