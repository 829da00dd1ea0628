//! Readers: each with its own cursor, unknown to the writer.
//!
//! A reader trusts no data that it reads: sizes and positions are checked before they are used, so
//! that a faulty writer costs it the ring and nothing else.

use crate::guard::Guard;
use crate::layout::{Header, PADDING, WORD_BYTES, control};
use crate::memory::Memory;
use crate::sync::{Arc, AtomicU64, Ordering, fence};
use crate::view::View;

/// Maximum number of attempts of one call to find a complete record after being lapped, or a page
/// that is not being written. Each failure means that the writer advanced meanwhile; then the
/// caller may as well try again.
const ATTEMPTS: usize = 8;

/// Maximum number of consecutive padding records by a correct writer: each takes at most half of
/// the ring, and together they take less than all of it.
const MAX_PADDING: usize = 2;

/// The reading end of a ring, from which readers are created.
#[derive(Clone)]
pub struct Ring {
    memory: Arc<Memory>,
}

/// One reader's cursor.
pub struct Reader {
    memory: Arc<Memory>,
    cursor: u64,
    /// The head as last read: records before it are read without reading it again.
    head: u64,
    guard: Option<Arc<AtomicU64>>,
}

/// Result of a call of [`Reader::read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// The next record; its payload is in the caller's buffer.
    Record {
        /// Kind of the payload, as the writer defines it.
        kind: u16,
        /// The writer's running totals before this record.
        totals: [u64; 2],
    },
    /// There is no new record.
    Empty,
    /// The writer overwrote the next record of this reader. The next call reads the record at which
    /// reading resumes: the oldest one that leaves some head-room to the writer.
    Lapped {
        /// The writer's running totals before the record at which reading resumes.
        totals: [u64; 2],
    },
    /// All records were read and no more will follow.
    Closed,
    /// The memory contains data that no writer of this version writes: it was truncated or damaged.
    /// Nothing more can be read from this ring.
    Broken,
}

/// State of the memory at a cursor.
pub(crate) enum Found {
    Whole(Header),
    Overwritten,
    Nonsense,
}

impl Ring {
    pub(crate) const fn new(memory: Arc<Memory>) -> Self {
        Self { memory }
    }

    /// Creates a reader of the records written from now on.
    #[must_use]
    pub fn reader_at_head(&self) -> Reader {
        self.reader_at(self.memory.control(control::HEAD).load(Ordering::Acquire))
    }

    /// Creates a reader that begins with the oldest record that leaves some head-room to the
    /// writer.
    #[must_use]
    pub fn reader_at_oldest(&self) -> Reader {
        self.reader_at(self.memory.control(control::RESUME).load(Ordering::Acquire))
    }

    /// Creates a reader at the oldest record, whose progress the writer can check.
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

    /// Returns the capacity in bytes of records, headers included.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.memory.capacity_bytes()
    }

    /// Returns whether the writer has closed the ring: no more records will be written.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.memory.control(control::CLOSED).load(Ordering::Acquire) != 0
    }

    /// Returns the count of the writer's [`Pulse`](crate::Pulse): while it rises, the writer's process runs. 0 if the
    /// writer does not count.
    #[must_use]
    pub fn pulse(&self) -> u64 {
        self.memory.control(control::PULSE).load(Ordering::Relaxed)
    }

    /// Copies the ledger page into `into`; false if it is being written, or was when its writer
    /// died.
    pub fn page(&self, into: &mut Vec<u8>) -> bool {
        (0..ATTEMPTS).any(|_| self.try_page(into))
    }

    fn try_page(&self, into: &mut Vec<u8>) -> bool {
        let (sequence, page) = (self.memory.control(control::PAGE_SEQUENCE), &self.memory.parts().page);
        // Acquire pairs with the release that ended the writing of the page.
        let before = sequence.load(Ordering::Acquire);
        let size_bytes = self.memory.control(control::PAGE_LEN).load(Ordering::Relaxed);
        let size_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        if !before.is_multiple_of(2) || size_bytes > page.len() * WORD_BYTES {
            return false;
        }
        self.memory.load_part(page, into, size_bytes);
        // Pairs with the release fence of `set_page`.
        fence(Ordering::Acquire);
        sequence.load(Ordering::Relaxed) == before
    }

    fn reader_at(&self, cursor: u64) -> Reader {
        // Only a faulty writer has other positions; the first read reports it.
        Reader { memory: Arc::clone(&self.memory), cursor, head: cursor, guard: None }
    }
}

impl Reader {
    /// Copies the next record's payload into `into`, if there is one.
    ///
    /// `into` is the reader's own: after `Record` it holds exactly the payload, otherwise its
    /// content is undefined. Keeping the same buffer saves allocations.
    pub fn read(&mut self, into: &mut Vec<u8>) -> Read {
        self.read_by(|view| view.copy_to(into))
    }

    /// Copies the next record's payload, in words, to the start of memory that `room_for` returns
    /// for its size in bytes; the last word is padded with zeros. Otherwise like
    /// [`read`](Self::read).
    pub fn read_words<'m>(&mut self, room_for: impl FnOnce(usize) -> &'m mut Vec<u64>) -> Read {
        self.read_by(|view| view.copy_to_words(room_for(view.payload_bytes())))
    }

    /// Advances past the next record if `copy` was in time.
    #[inline]
    fn read_by(&mut self, copy: impl FnOnce(&View<'_>) -> bool) -> Read {
        match self.look() {
            Ok(view) if copy(&view) => {
                let (kind, totals, next) = (view.kind(), view.totals(), view.next());
                self.move_to(next);
                Read::Record { kind, totals }
            }
            Ok(_) => self.resume(),
            Err(other) => other,
        }
    }

    /// Views the next record in place, for callers that need no copy of their own.
    ///
    /// Data from a view are only valid if it is [still valid](View::still_valid) afterwards.
    /// Continue with [`skip`](Self::skip).
    ///
    /// # Errors
    /// The result that [`read`](Self::read) would have returned instead of a record.
    #[inline]
    pub fn look(&mut self) -> Result<View<'_>, Read> {
        for _ in 0..=MAX_PADDING {
            if self.head <= self.cursor
                && let Some(nothing) = self.look_for_more()
            {
                return Err(nothing);
            }
            match self.find() {
                Found::Whole(Header { kind: PADDING, .. }) => self.skip(),
                Found::Whole(header) => return Ok(View::new(&self.memory, self.cursor, header)),
                Found::Overwritten => return Err(self.resume()),
                Found::Nonsense => return Err(Read::Broken),
            }
        }
        Err(Read::Broken)
    }

    /// Passes over padding; returns whether there is something to read, which may be only that this
    /// reader was lapped.
    pub fn has_more(&mut self) -> bool {
        for _ in 0..=MAX_PADDING {
            self.head = self.memory.control(control::HEAD).load(Ordering::Acquire);
            if self.head <= self.cursor {
                return false;
            }
            let Found::Whole(Header { kind: PADDING, .. }) = self.find() else { return true };
            self.skip();
        }
        true
    }

    /// Advances past the next record, if it is complete.
    pub fn skip(&mut self) {
        if self.head > self.cursor
            && let Found::Whole(header) = self.find()
        {
            self.move_to(self.cursor + header.record_bytes());
        }
    }

    /// Returns how far this reader is behind the writer, headers included.
    ///
    /// More than the capacity means that it was lapped, which its next read reports.
    #[must_use]
    pub fn lag_bytes(&self) -> u64 {
        // Acquire pairs with the writer's release: every record before the head is complete. A head
        // that moved back is that of a broken ring, which has nothing to read.
        self.memory.control(control::HEAD).load(Ordering::Acquire).saturating_sub(self.cursor)
    }

    /// Returns the capacity in bytes of records, headers included.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.memory.capacity_bytes()
    }

    /// Returns the position of this reader.
    ///
    /// Units: bytes since the ring was created, headers included.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.cursor
    }

    /// Reads the writer's head; returns the result if there is no record.
    fn look_for_more(&mut self) -> Option<Read> {
        // In this order: `closed` is set after the final head, so a head read after it is the final
        // one.
        let closed = self.memory.control(control::CLOSED).load(Ordering::Acquire) != 0;
        // Acquire pairs with the writer's release: every record before the head is complete.
        self.head = self.memory.control(control::HEAD).load(Ordering::Acquire);
        match self.head.cmp(&self.cursor) {
            std::cmp::Ordering::Greater => None,
            std::cmp::Ordering::Less => Some(Read::Broken),
            std::cmp::Ordering::Equal if closed => Some(Read::Closed),
            std::cmp::Ordering::Equal => Some(Read::Empty),
        }
    }

    /// Reads and checks the header at the cursor.
    #[inline]
    fn find(&self) -> Found {
        let header = self.memory.run(self.cursor, Header::WORDS).load_header();
        let intent = self.memory.intent_behind_a_copy();
        if intent > self.cursor.saturating_add(self.memory.capacity_bytes()) {
            return Found::Overwritten;
        }
        let end = self.cursor.checked_add(header.record_bytes());
        let possible = header.payload_bytes as usize <= self.memory.max_payload_bytes()
            && self.cursor.is_multiple_of(WORD_BYTES as u64)
            && end.is_some_and(|end| end <= self.head.min(intent));
        if possible { Found::Whole(header) } else { Found::Nonsense }
    }

    /// Moves a lapped reader to a record that is complete.
    fn resume(&mut self) -> Read {
        let lapped_at = self.cursor;
        for _ in 0..ATTEMPTS {
            let position = self.memory.control(control::RESUME).load(Ordering::Acquire);
            self.head = self.memory.control(control::HEAD).load(Ordering::Acquire);
            if position <= lapped_at {
                // A correct writer moves the resume position before it overwrites.
                return Read::Broken;
            }
            if position >= self.head {
                // Large records: the only one to resume at is still being written. The cursor stays
                // behind, so that the next call checks again.
                break;
            }
            self.cursor = position;
            match self.find() {
                Found::Whole(header) => {
                    self.move_to(position);
                    return Read::Lapped { totals: header.totals };
                }
                Found::Overwritten => self.cursor = lapped_at,
                Found::Nonsense => return Read::Broken,
            }
        }
        Read::Empty
    }

    fn move_to(&mut self, position: u64) {
        self.cursor = position;
        if let Some(guard) = &self.guard {
            // Release: everything before this position was copied before the writer may overwrite
            // it.
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
