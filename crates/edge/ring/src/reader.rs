//! Readers: each with its own cursor, none known to the writer.

use crate::layout::{Header, WORD_BYTES, control};
use crate::memory::Memory;
use crate::sync::{Arc, AtomicU64, Ordering, fence};
use crate::writer::Guard;

/// How often one call looks for a record that is still whole after being lapped. Each failure means that
/// the writer went an eighth of the ring meanwhile; then the caller may as well look again later.
const RESUME_ATTEMPTS: usize = 8;

/// The reading end of a ring, from which readers are made.
#[derive(Clone)]
pub struct Ring {
    memory: Arc<Memory>,
}

/// One reader's cursor.
pub struct Reader {
    memory: Arc<Memory>,
    cursor: u64,
    guard: Option<Arc<AtomicU64>>,
}

/// What a call of [`Reader::read`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// The next record; its payload is in the caller's buffer.
    Record {
        /// The writer's word for what the payload is.
        kind: u16,
        /// The writer's running totals before this record.
        totals: [u64; 2],
    },
    /// Nothing new.
    Empty,
    /// The writer overwrote what this reader would have read next. The next call reads the record at which
    /// it goes on: the oldest one that leaves some head-room before the writer.
    Lapped {
        /// The writer's running totals before the record at which reading goes on.
        totals: [u64; 2],
    },
    /// Everything was read and nothing more will come.
    Closed,
}

impl Ring {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory }
    }

    /// Makes a reader that gets what is written from now on.
    #[must_use]
    pub fn reader_at_head(&self) -> Reader {
        self.reader_at(self.memory.control(control::HEAD).load(Ordering::Acquire))
    }

    /// Makes a reader that begins with the oldest record that leaves some head-room before the writer.
    #[must_use]
    pub fn reader_at_oldest(&self) -> Reader {
        self.reader_at(self.memory.control(control::RESUME).load(Ordering::Acquire))
    }

    /// Makes a reader at the oldest record whose progress the writer can ask for.
    ///
    /// The ring still overwrites: only a writer that asks [`would_overwrite`](crate::Writer::would_overwrite)
    /// before it writes spares this reader. Dropping the reader releases the guard.
    #[must_use]
    pub fn guarded_reader(&self) -> (Reader, Guard) {
        let mut reader = self.reader_at_oldest();
        let position = Arc::new(AtomicU64::new(reader.cursor));
        reader.guard = Some(Arc::clone(&position));
        (reader, Guard { position })
    }

    /// Returns how many bytes of records, headers included, the ring holds.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.memory.capacity_bytes()
    }

    fn reader_at(&self, cursor: u64) -> Reader {
        Reader { memory: Arc::clone(&self.memory), cursor, guard: None }
    }
}

impl Reader {
    /// Copies the next record's payload into `into`, if there is one.
    ///
    /// `into` is the reader's own: after `Record` it holds exactly the payload, otherwise nothing that
    /// means anything. Keeping the same buffer spares allocations.
    pub fn read(&mut self, into: &mut Vec<u8>) -> Read {
        // In this order: closed is set after the final head, so a head read after it is the final one.
        let closed = self.memory.control(control::CLOSED).load(Ordering::Acquire) != 0;
        if self.lag_bytes() == 0 {
            return if closed { Read::Closed } else { Read::Empty };
        }
        let Some(header) = self.copy_record(into) else { return self.resume() };
        self.move_to(self.cursor + header.record_bytes());
        Read::Record { kind: header.kind, totals: header.totals }
    }

    /// Returns how far this reader is behind the writer, headers included.
    ///
    /// More than the capacity means that it was lapped and will learn so with its next read.
    #[must_use]
    pub fn lag_bytes(&self) -> u64 {
        // Acquire pairs with the writer's release: every record before the head is there.
        self.memory.control(control::HEAD).load(Ordering::Acquire) - self.cursor
    }

    /// Returns where this reader is.
    ///
    /// Units: bytes since the ring was made, headers included.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.cursor
    }

    /// Copies the record at the cursor; `None` if it was overwritten before the copy was finished.
    fn copy_record(&self, into: &mut Vec<u8>) -> Option<Header> {
        let header = self.header_at(self.cursor)?;
        let payload_bytes = header.payload_bytes as usize;
        // Not cleared before: only what grows is filled with zeros.
        into.resize(payload_bytes.next_multiple_of(WORD_BYTES), 0);
        self.memory.load(self.cursor + Header::BYTES as u64, into);
        into.truncate(payload_bytes);
        self.still_whole(self.cursor).then_some(header)
    }

    fn header_at(&self, position: u64) -> Option<Header> {
        let header = self.memory.load_header(position);
        self.still_whole(position).then_some(header)
    }

    /// Tells whether what was copied from `position` on, before this call, was not being overwritten.
    fn still_whole(&self, position: u64) -> bool {
        // Pairs with the release fence of `Writer::claim`, for which see there.
        fence(Ordering::Acquire);
        let intent = self.memory.control(control::INTENT).load(Ordering::Acquire);
        intent <= position + self.memory.capacity_bytes()
    }

    /// Moves a lapped reader to a record that is whole.
    fn resume(&mut self) -> Read {
        for _ in 0..RESUME_ATTEMPTS {
            let position = self.memory.control(control::RESUME).load(Ordering::Acquire);
            if position >= self.memory.control(control::HEAD).load(Ordering::Acquire) {
                // Large records: the only one worth resuming at is still being written. The cursor stays
                // behind, so that the next call finds out again.
                break;
            }
            if let Some(header) = self.header_at(position) {
                self.move_to(position);
                return Read::Lapped { totals: header.totals };
            }
        }
        Read::Empty
    }

    fn move_to(&mut self, position: u64) {
        self.cursor = position;
        if let Some(guard) = &self.guard {
            // Release: what lies before was copied before the writer may overwrite it.
            guard.store(position, Ordering::Release);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(guard) = &self.guard {
            guard.store(u64::MAX, Ordering::Release);
        }
    }
}
