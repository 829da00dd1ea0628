//! Readers: each with its own cursor, none known to the writer.
//!
//! A reader trusts nothing that it reads: sizes and positions are checked before they are used, so that a
//! writer gone mad costs it the ring and nothing else.

use crate::layout::{Header, PADDING, WORD_BYTES, control};
use crate::memory::Memory;
use crate::sync::{Arc, AtomicU64, Ordering, fence};
use crate::view::View;
use crate::writer::Guard;

/// How often one call looks for a record that is still whole after being lapped, or for a page that is not
/// being written. Each failure means that the writer went on meanwhile; then the caller may as well look again.
const ATTEMPTS: usize = 8;

/// How many records of padding an honest writer puts one behind the other: each takes half of the ring at most, and
/// together they take less than all of it.
const MAX_PADDING: usize = 2;

/// The reading end of a ring, from which readers are made.
#[derive(Clone)]
pub struct Ring {
    memory: Arc<Memory>,
}

/// One reader's cursor.
pub struct Reader {
    memory: Arc<Memory>,
    cursor: u64,
    /// The head as last seen: what lies before it is read without another look.
    head: u64,
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
    /// The memory holds what no writer of this version writes: it was cut short or scribbled over. Nothing more
    /// can be read from this ring.
    Broken,
}

/// What lies at a cursor.
pub(crate) enum Found {
    Whole(Header),
    Overwritten,
    Nonsense,
}

impl Ring {
    pub(crate) const fn new(memory: Arc<Memory>) -> Self {
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

    /// Tells whether the writer has closed the ring: nothing more will be written.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.memory.control(control::CLOSED).load(Ordering::Acquire) != 0
    }

    /// Copies what the ledger page holds into `into`; false if it is being written, or was when its writer died.
    pub fn page(&self, into: &mut Vec<u8>) -> bool {
        (0..ATTEMPTS).any(|_| self.try_page(into))
    }

    fn try_page(&self, into: &mut Vec<u8>) -> bool {
        let (sequence, page) = (self.memory.control(control::PAGE_SEQUENCE), &self.memory.parts().page);
        // Acquire pairs with the release that ended the page's writing.
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
        // Only a writer gone mad has other positions; the first read says so.
        Reader { memory: Arc::clone(&self.memory), cursor, head: cursor, guard: None }
    }
}

impl Reader {
    /// Copies the next record's payload into `into`, if there is one.
    ///
    /// `into` is the reader's own: after `Record` it holds exactly the payload, otherwise nothing that
    /// means anything. Keeping the same buffer spares allocations.
    pub fn read(&mut self, into: &mut Vec<u8>) -> Read {
        self.read_by(|view| view.copy_to(into))
    }

    /// Copies the next record's payload into memory that `room_for` gives for so many bytes, to its start, in words, the last
    /// filled up with zeros. Otherwise like [`read`](Self::read).
    pub fn read_words<'m>(&mut self, room_for: impl FnOnce(usize) -> &'m mut Vec<u64>) -> Read {
        self.read_by(|view| view.copy_to_words(room_for(view.payload_bytes())))
    }

    /// Goes on behind the next record if `copy` was in time.
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

    /// Looks at the next record where it lies, for those who need no copy of their own.
    ///
    /// What a view gives means something only if it is [still valid](View::still_valid) afterwards. Go on with
    /// [`skip`](Self::skip).
    ///
    /// # Errors
    /// What [`read`](Self::read) would have returned instead of a record.
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

    /// Passes over padding; tells whether there is something to read, if only the news that this reader was lapped.
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

    /// Goes on behind the next record, if it is whole.
    pub fn skip(&mut self) {
        if self.head > self.cursor
            && let Found::Whole(header) = self.find()
        {
            self.move_to(self.cursor + header.record_bytes());
        }
    }

    /// Returns how far this reader is behind the writer, headers included.
    ///
    /// More than the capacity means that it was lapped and will learn so with its next read.
    #[must_use]
    pub fn lag_bytes(&self) -> u64 {
        // Acquire pairs with the writer's release: every record before the head is there. A head that went back
        // is a broken ring's, where there is nothing to read.
        self.memory.control(control::HEAD).load(Ordering::Acquire).saturating_sub(self.cursor)
    }

    /// Returns how many bytes of records, headers included, the ring holds.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.memory.capacity_bytes()
    }

    /// Returns where this reader is.
    ///
    /// Units: bytes since the ring was made, headers included.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.cursor
    }

    /// Asks the writer for its head; returns what there is instead of records.
    fn look_for_more(&mut self) -> Option<Read> {
        // In this order: closed is set after the final head, so a head read after it is the final one.
        let closed = self.memory.control(control::CLOSED).load(Ordering::Acquire) != 0;
        // Acquire pairs with the writer's release: every record before the head is there.
        self.head = self.memory.control(control::HEAD).load(Ordering::Acquire);
        match self.head.cmp(&self.cursor) {
            std::cmp::Ordering::Greater => None,
            std::cmp::Ordering::Less => Some(Read::Broken),
            std::cmp::Ordering::Equal if closed => Some(Read::Closed),
            std::cmp::Ordering::Equal => Some(Read::Empty),
        }
    }

    /// Reads the header at the cursor, and judges it.
    #[inline]
    fn find(&self) -> Found {
        let header = self.memory.run(self.cursor, Header::WORDS).load_header();
        let intent = intent_behind_a_copy(&self.memory);
        if intent > self.cursor.saturating_add(self.memory.capacity_bytes()) {
            return Found::Overwritten;
        }
        let end = self.cursor.checked_add(header.record_bytes());
        let possible = header.payload_bytes as usize <= self.memory.max_payload_bytes()
            && self.cursor.is_multiple_of(WORD_BYTES as u64)
            && end.is_some_and(|end| end <= self.head.min(intent));
        if possible { Found::Whole(header) } else { Found::Nonsense }
    }

    /// Moves a lapped reader to a record that is whole.
    fn resume(&mut self) -> Read {
        let lapped_at = self.cursor;
        for _ in 0..ATTEMPTS {
            let position = self.memory.control(control::RESUME).load(Ordering::Acquire);
            self.head = self.memory.control(control::HEAD).load(Ordering::Acquire);
            if position <= lapped_at {
                // An honest writer moves the place to resume before it overwrites.
                return Read::Broken;
            }
            if position >= self.head {
                // Large records: the only one worth resuming at is still being written. The cursor stays
                // behind, so that the next call finds out again.
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
            // Release: what lies before was copied before the writer may overwrite it.
            guard.store(position, Ordering::Release);
        }
    }
}

/// Returns the writer's intent at a moment behind everything that was copied before this call.
pub(crate) fn intent_behind_a_copy(memory: &Memory) -> u64 {
    // Pairs with the release fence of the writer's claim, for which see there.
    fence(Ordering::Acquire);
    memory.control(control::INTENT).load(Ordering::Acquire)
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(guard) = &self.guard {
            guard.store(u64::MAX, Ordering::Release);
        }
    }
}
