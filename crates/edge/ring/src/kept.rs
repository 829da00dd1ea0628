//! A record that is left where it lies, for those who look at it without a copy and ask afterwards whether it was still there.

use crate::layout::{Header, WORD_BYTES};
use crate::memory::Memory;
use crate::reader::intent_behind_a_copy;
use crate::sync::Arc;

/// The payload of a record in the memory of its ring, which may be overwritten at any moment.
///
/// Whoever reads at [`address`](Self::address) races with the writer, beyond what Rust defines: no slice may be made of it here.
/// It is for other languages' arrays, whose users ask [`still_valid`](Self::still_valid) when they are done.
#[derive(Clone)]
pub struct Kept {
    memory: Arc<Memory>,
    position: u64,
    payload_bytes: usize,
}

impl Kept {
    /// Keeps a record, unless its payload goes round the end of the memory.
    pub(crate) fn of(memory: &Arc<Memory>, position: u64, header: Header) -> Option<Self> {
        let payload_bytes = header.payload_bytes as usize;
        let kept = Self { memory: Arc::clone(memory), position, payload_bytes };
        kept.words().map(|_| kept.clone())
    }

    /// Returns how many bytes the payload has.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns where the payload begins, at a word. The memory stays mapped as long as this is kept.
    #[must_use]
    pub fn address(&self) -> *const u8 {
        self.words().expect("checked when it was kept").cast()
    }

    /// Tells whether everything that was read there before is the record that the writer wrote.
    #[must_use]
    pub fn still_valid(&self) -> bool {
        let intent = intent_behind_a_copy(&self.memory);
        let end = self.position + Header::BYTES as u64 + self.payload_bytes as u64;
        // An intent before the record's end is that of memory which was taken away under this reader.
        intent <= self.position.saturating_add(self.memory.capacity_bytes()) && intent >= end
    }

    /// Returns the first of the payload's words, if they lie in one piece.
    fn words(&self) -> Option<*const crate::sync::AtomicU64> {
        let count = self.payload_bytes.div_ceil(WORD_BYTES);
        self.memory.run(self.position + Header::BYTES as u64, count).one_piece().map(<[_]>::as_ptr)
    }
}
