//! The one writer.

use crate::claim::Claim;
use crate::guard::Guard;
use crate::layout::{Header, PADDING, control, record_bytes};
use crate::memory::Memory;
#[cfg(not(loom))]
use crate::owned_file::OwnedFile;
use crate::pulse::Pulse;
use crate::reader::Ring;
use crate::sync::{Arc, Ordering, fence};

/// The one writer of a ring. Dropping it closes the ring; readers still get all that is in it.
pub struct Writer {
    memory: Arc<Memory>,
    /// Position one behind the newest record, published or not; only the writer changes it.
    head: u64,
    claim: Claim,
    page_sequence: u64,
    /// The file of a ring in shared memory, which is removed with its writer.
    #[cfg(not(loom))]
    file: Option<OwnedFile>,
}

/// Error of a record that is larger than half the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a record of {payload_bytes} bytes does not fit: the ring takes at most {limit_bytes} bytes\n\
     make the ring larger (at least twice the largest record) or write smaller blocks"
)]
pub struct RecordTooLarge {
    /// Size of the payload.
    pub payload_bytes: usize,
    /// The largest payload of this ring.
    pub limit_bytes: usize,
}

/// Error of contents that are larger than the ledger page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{size_bytes} bytes do not fit into the ring's ledger page of {limit_bytes} bytes")]
pub struct PageTooLarge {
    /// Size of the contents.
    pub size_bytes: usize,
    /// Capacity of the page.
    pub limit_bytes: usize,
}

impl Writer {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        let claim = Claim::new(memory.capacity_bytes());
        Self {
            memory,
            head: 0,
            claim,
            page_sequence: 0,
            #[cfg(not(loom))]
            file: None,
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn of_file(memory: Arc<Memory>, file: OwnedFile) -> Self {
        let mut writer = Self::new(memory);
        writer.file = Some(file);
        writer
    }

    /// Returns the ring's reading end.
    #[must_use]
    pub fn reading_end(&self) -> Ring {
        Ring::new(Arc::clone(&self.memory))
    }

    /// Returns the capacity of the ledger page in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.memory.parts().page.len() * crate::layout::WORD_BYTES
    }

    /// Returns the ring's pulse, for a thread of this process that shows readers that it runs.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse::new(Arc::clone(&self.memory))
    }

    /// Writes one record, `parts` in sequence, over the oldest records; returns its position.
    ///
    /// `totals` are the caller's running totals *before* this record: a lapped reader compares
    /// those of the record at which it resumes with the last ones it read.
    ///
    /// Cost: one copy; no allocation, no system call, no work that depends on readers.
    ///
    /// # Errors
    /// [`RecordTooLarge`] above [`max_payload_bytes`](Self::max_payload_bytes); nothing was written.
    ///
    /// # Panics
    /// If `kind` is 65,535, which is reserved for padding.
    pub fn write(&mut self, kind: u16, totals: [u64; 2], parts: &[&[u8]]) -> Result<u64, RecordTooLarge> {
        let position = self.stage(kind, totals, parts)?;
        self.publish();
        Ok(position)
    }

    /// Writes one record, as [`write`](Self::write) does, from an iterator of parts.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn write_pieces<'p>(
        &mut self,
        kind: u16,
        totals: [u64; 2],
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> Result<u64, RecordTooLarge> {
        let position = self.stage_pieces(kind, totals, pieces)?;
        self.publish();
        Ok(position)
    }

    /// Writes one record that no reader sees before [`publish`](Self::publish); otherwise like
    /// [`write`](Self::write). Small records that are published in batches cost less.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn stage(&mut self, kind: u16, totals: [u64; 2], parts: &[&[u8]]) -> Result<u64, RecordTooLarge> {
        self.stage_pieces(kind, totals, parts.iter().copied())
    }

    fn stage_pieces<'p>(
        &mut self,
        kind: u16,
        totals: [u64; 2],
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> Result<u64, RecordTooLarge> {
        assert_ne!(kind, PADDING, "a record says something");
        let payload_bytes = pieces.clone().map(<[u8]>::len).sum();
        let limit_bytes = self.max_payload_bytes();
        let too_large = RecordTooLarge { payload_bytes, limit_bytes };
        if payload_bytes > limit_bytes {
            return Err(too_large);
        }
        let header =
            Header { payload_bytes: u32::try_from(payload_bytes).map_err(|_| too_large)?, kind, totals };
        let start = self.head;
        self.claim_until(start + header.record_bytes());
        let record = self.memory.run(start, header.record_words());
        let (header_words, payload_words) = record.split_at(Header::WORDS);
        header_words.store_header(header);
        payload_words.store_parts(pieces);
        self.head = start + header.record_bytes();
        Ok(start)
    }

    /// Rewinds to the beginning of the memory if the writer is more than `behind_bytes` into it;
    /// returns whether it did.
    ///
    /// The memory up to its end then becomes padding, which readers pass over and which counts as
    /// unread until they do. For a writer whose readers have read everything, and pass over the
    /// padding before it continues: the memory that both touch stays so small that it fits into a
    /// processor's own cache, however large the ring is.
    pub fn rewind(&mut self, behind_bytes: u64, totals: [u64; 2]) -> bool {
        let capacity_bytes = self.memory.capacity_bytes();
        let into = self.head % capacity_bytes;
        // Padding that is too large for a header's size field would need more records than readers
        // accept.
        if into <= behind_bytes || capacity_bytes / 2 > u64::from(u32::MAX) {
            return false;
        }
        let (end, largest) = (self.head - into + capacity_bytes, self.memory.max_payload_bytes() as u64);
        // A rest that is smaller than a header is left to the next record.
        while let Some(rest) = (end - self.head).checked_sub(Header::BYTES as u64) {
            let payload_bytes = u32::try_from(rest.min(largest)).expect("a payload's size has 32 bits");
            let header = Header { payload_bytes, kind: PADDING, totals };
            self.claim_until(self.head + header.record_bytes());
            self.memory.run(self.head, Header::WORDS).store_header(header);
            self.head += header.record_bytes();
        }
        self.publish();
        true
    }

    /// Makes every record staged so far visible to readers.
    pub fn publish(&mut self) {
        // Release: a reader that sees the new head sees the records.
        self.memory.control(control::HEAD).store(self.head, Ordering::Release);
    }

    /// Wakes sleeping readers of a ring in shared memory; must be called after writing, once per
    /// batch.
    ///
    /// A ring on the heap has no doorbell of its own.
    #[cfg(not(loom))]
    pub fn ring_doorbell(&self) {
        if let Some(file) = &self.file {
            file.doorbell().ring();
        }
    }

    /// Returns whether a record of `payload_bytes` would overwrite records that the guarded reader
    /// has not read.
    #[must_use]
    pub fn would_overwrite(&self, guard: &Guard, payload_bytes: usize) -> bool {
        // Acquire pairs with the reader's release: its copy was finished before the writer may
        // overwrite.
        let unread_from = guard.position.load(Ordering::Acquire);
        self.claim.overwrites_before(self.head + record_bytes(payload_bytes)) > unread_from
    }

    /// Returns the position one behind the newest record.
    ///
    /// Units: bytes since the ring was created, headers included.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Returns the largest payload of one record.
    #[must_use]
    pub fn max_payload_bytes(&self) -> usize {
        self.memory.max_payload_bytes()
    }

    /// Returns how many bytes of records, headers included, a reader may have unread without losing
    /// any: the capacity less the region that the writer claims ahead.
    #[must_use]
    pub const fn spared_bytes(&self) -> u64 {
        self.claim.spared_bytes()
    }

    /// Writes the ledger page, which readers may read at any time, replacing its contents.
    ///
    /// # Errors
    /// [`PageTooLarge`]; the page stays as it was. A ring on the heap has no page.
    pub fn set_page(&mut self, bytes: &[u8]) -> Result<(), PageTooLarge> {
        let (page, size_bytes, limit_bytes) =
            (self.memory.parts().page.clone(), bytes.len(), self.page_bytes());
        if size_bytes > limit_bytes {
            return Err(PageTooLarge { size_bytes, limit_bytes });
        }
        let sequence = self.memory.control(control::PAGE_SEQUENCE);
        // Odd: being written. The fence keeps the words below after it: a reader that copies one of
        // them finds, after its own fence, that the sequence has moved.
        sequence.store(self.page_sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.memory.control(control::PAGE_LEN).store(size_bytes as u64, Ordering::Relaxed);
        self.memory.store_part(&page, bytes);
        self.page_sequence += 2;
        // Release: a reader that sees this value sees the page.
        sequence.store(self.page_sequence, Ordering::Release);
        Ok(())
    }

    /// Closes the ring: readers get its remaining records, then `Closed`. Equivalent to dropping
    /// the writer.
    pub fn close(self) {}

    /// Announces, if not done yet, that everything up to `end` less the capacity is about to be
    /// overwritten.
    fn claim_until(&mut self, end: u64) {
        let Some(announcement) = self.claim.record(self.head, end) else { return };
        // Release: a reader that begins there sees a head that is not before it.
        self.memory.control(control::RESUME).store(announcement.resume, Ordering::Release);
        // Release: a reader that learns from the intent that it was lapped sees a resume position.
        self.memory.control(control::INTENT).store(announcement.intent, Ordering::Release);
        // Pairs with the acquire fence after a reader's copy: a reader that saw one word of what is
        // written below, by this record or the next ones, also sees the intent above, and discards
        // its copy.
        fence(Ordering::Release);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.publish();
        // Release: a reader that sees this value sees the final head.
        self.memory.control(control::CLOSED).store(1, Ordering::Release);
        #[cfg(not(loom))]
        self.ring_doorbell();
    }
}
