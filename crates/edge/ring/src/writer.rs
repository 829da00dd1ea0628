//! The one writer, and the guard by which it can spare one reader if it wants to.

use crate::layout::{HEAD_ROOM_SHARE, Header, control, record_bytes};
use crate::memory::Memory;
use crate::sync::{Arc, AtomicU64, Ordering, fence};

/// The one writer of a ring. Dropping it closes the ring; readers still get all that is in it.
pub struct Writer {
    memory: Arc<Memory>,
    /// The writer's own copies of the control words: nobody else changes them.
    head: u64,
    resume: u64,
}

/// Says that a record is larger than half the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a record of {payload_bytes} bytes does not fit, the ring takes at most {limit_bytes}\n\
     make the ring larger (at least twice the largest record) or write smaller blocks"
)]
pub struct RecordTooLarge {
    /// What was to be written.
    pub payload_bytes: usize,
    /// The largest payload of this ring.
    pub limit_bytes: usize,
}

/// How far one reader has come, for a writer that would rather wait or refuse than overwrite.
///
/// See [`Ring::guarded_reader`](crate::Ring::guarded_reader). It holds nobody up when its reader is gone.
pub struct Guard {
    pub(crate) position: Arc<AtomicU64>,
}

impl Writer {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, head: 0, resume: 0 }
    }

    /// Writes one record, `parts` one behind the other, over whatever is oldest; returns its position.
    ///
    /// `totals` are the caller's running totals *before* this record: a reader that was lapped compares
    /// those of the record at which it resumes with what it knew.
    ///
    /// Cost: one copy; no allocation, no system call, no work that depends on readers.
    ///
    /// # Errors
    /// [`RecordTooLarge`] above [`max_payload_bytes`](Self::max_payload_bytes); nothing was written.
    pub fn write(&mut self, kind: u16, totals: [u64; 2], parts: &[&[u8]]) -> Result<u64, RecordTooLarge> {
        let payload_bytes = parts.iter().map(|part| part.len()).sum();
        let limit_bytes = self.max_payload_bytes();
        let too_large = RecordTooLarge { payload_bytes, limit_bytes };
        if payload_bytes > limit_bytes {
            return Err(too_large);
        }
        let header =
            Header { payload_bytes: u32::try_from(payload_bytes).map_err(|_| too_large)?, kind, totals };
        let start = self.head;
        self.claim(start + header.record_bytes());
        self.memory.store_header(start, header);
        self.memory.store_parts(start + Header::BYTES as u64, parts);
        self.head = start + header.record_bytes();
        // Release: a reader that sees the new head sees the record.
        self.memory.control(control::HEAD).store(self.head, Ordering::Release);
        Ok(start)
    }

    /// Tells whether a record of `payload_bytes` would overwrite what the guarded reader has not read.
    #[must_use]
    pub fn would_overwrite(&self, guard: &Guard, payload_bytes: usize) -> bool {
        // Acquire pairs with the reader's release: its copy was finished before we may overwrite.
        let safe_until = guard.position.load(Ordering::Acquire).saturating_add(self.memory.capacity_bytes());
        self.head + record_bytes(payload_bytes) > safe_until
    }

    /// Returns the position one behind the newest record.
    ///
    /// Units: bytes since the ring was made, headers included.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Returns the largest payload of one record.
    #[must_use]
    pub fn max_payload_bytes(&self) -> usize {
        self.memory.max_payload_bytes()
    }

    /// Closes the ring: readers get what is in it, then `Closed`. The same as dropping the writer.
    pub fn close(self) {}

    /// Announces that everything up to `end` less the capacity is about to be overwritten.
    fn claim(&mut self, end: u64) {
        let keep_from = (end + self.memory.capacity_bytes() / HEAD_ROOM_SHARE)
            .saturating_sub(self.memory.capacity_bytes());
        // Amortised one step per record: each record is stepped over once.
        while self.resume < keep_from.min(self.head) {
            self.resume += self.memory.load_header(self.resume).record_bytes();
        }
        // Release: a reader that begins there sees a head that is not before it.
        self.memory.control(control::RESUME).store(self.resume, Ordering::Release);
        // Release: a reader that learns from the intent that it was lapped sees a place to resume.
        self.memory.control(control::INTENT).store(end, Ordering::Release);
        // Pairs with the acquire fence behind a reader's copy: whoever saw one word of what is written
        // below also sees the intent above, and throws its copy away.
        fence(Ordering::Release);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Release: whoever sees this sees the final head.
        self.memory.control(control::CLOSED).store(1, Ordering::Release);
    }
}
