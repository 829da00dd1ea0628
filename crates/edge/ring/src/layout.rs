//! The memory image: a control block, the label, the ledger page, then the records.
//!
//! All values are little-endian 64-bit words, so that heap and shared memory hold the same image.
//! It is drawn in `docs/reference/formats/ring.md`; a test compares that page with the constants here.
//!
//! A position counts bytes since the ring was created; it never wraps (at 100 GB/s, not for five
//! years). A record may wrap round the end of the memory between any two of its words: no padding,
//! no special case.

use std::mem::{offset_of, size_of};

const _: () =
    assert!(cfg!(target_endian = "little"), "the image is little-endian and so must the machine be");

/// Size of the unit of all access.
pub(crate) const WORD_BYTES: usize = 8;

/// The layout's version, the seventh byte of the magic.
pub(crate) const VERSION: u8 = 2;

/// `TCRING` and the layout's version, in memory order.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TCRING\x02\x00");

/// Smallest capacity: two records of one payload word each.
pub(crate) const MIN_CAPACITY_BYTES: usize = 64;

/// Divisor of the capacity for the head-room: a lapped reader begins at least an eighth of the
/// capacity ahead of the claimed region, so that it is not lapped again while it copies its first
/// record.
pub(crate) const HEAD_ROOM_SHARE: u64 = 8;

/// Number of strides per ring. The writer claims memory in strides of a sixteenth of the capacity:
/// overwriting is announced once per stride instead of once per record, and a reader that keeps up
/// finds the announcement in its own cache.
pub(crate) const STRIDES: u64 = 16;

/// Kind of a record without content: readers pass over it.
pub(crate) const PADDING: u16 = u16::MAX;

/// Size of two cache lines: processors fetch the neighbour of a line too.
const LINES_BYTES: usize = 128;

/// The control block; constants, words written per record, and words written per stride do not
/// share cache lines.
#[repr(C)]
pub(crate) struct Control {
    /// `TCRING`, the version, zero: written last when the ring is created.
    magic: u64,
    /// Size of the records, a power of two.
    capacity_bytes: u64,
    /// Offset of the records, in bytes from the start of the image.
    records_offset: u64,
    /// Size of the label after the control block.
    label_bytes: u64,
    /// Capacity of the ledger page.
    page_bytes: u64,
    /// Process id of the writer in the writer's own namespace.
    writer_pid: u64,
    /// Time at which the ring was created, nanoseconds UTC.
    created_ns: u64,
    reserved: [u64; 9],
    /// Position before which every record is complete.
    head: u64,
    /// 1 when no record follows the head.
    closed: u64,
    reserved_after_head: [u64; 14],
    /// Position before which the writer may be overwriting.
    intent: u64,
    /// Position at which a late or lapped reader begins, always the start of a record.
    resume: u64,
    reserved_after_intent: [u64; 14],
    /// Number of times that the doorbell was rung for waiting readers; they sleep at the low 32
    /// bits.
    rung: u64,
    /// Counts changes of the ledger page, odd while it is being written.
    page_sequence: u64,
    /// Number of bytes in the ledger page now.
    page_len: u64,
    /// Rises about once a second while the writer's process runs; 0 by writers that do not count.
    pulse: u64,
    reserved_after_rung: [u64; 12],
}

/// Indices of the control block's words.
pub(crate) mod control {
    use super::{Control, WORD_BYTES, offset_of, size_of};

    pub(crate) const MAGIC: usize = offset_of!(Control, magic) / WORD_BYTES;
    pub(crate) const CAPACITY: usize = offset_of!(Control, capacity_bytes) / WORD_BYTES;
    pub(crate) const RECORDS_OFFSET: usize = offset_of!(Control, records_offset) / WORD_BYTES;
    pub(crate) const LABEL_BYTES: usize = offset_of!(Control, label_bytes) / WORD_BYTES;
    pub(crate) const PAGE_BYTES: usize = offset_of!(Control, page_bytes) / WORD_BYTES;
    pub(crate) const WRITER_PID: usize = offset_of!(Control, writer_pid) / WORD_BYTES;
    pub(crate) const CREATED_NS: usize = offset_of!(Control, created_ns) / WORD_BYTES;
    pub(crate) const HEAD: usize = offset_of!(Control, head) / WORD_BYTES;
    pub(crate) const CLOSED: usize = offset_of!(Control, closed) / WORD_BYTES;
    pub(crate) const INTENT: usize = offset_of!(Control, intent) / WORD_BYTES;
    pub(crate) const RESUME: usize = offset_of!(Control, resume) / WORD_BYTES;
    pub(crate) const RUNG: usize = offset_of!(Control, rung) / WORD_BYTES;
    pub(crate) const PAGE_SEQUENCE: usize = offset_of!(Control, page_sequence) / WORD_BYTES;
    pub(crate) const PAGE_LEN: usize = offset_of!(Control, page_len) / WORD_BYTES;
    pub(crate) const PULSE: usize = offset_of!(Control, pulse) / WORD_BYTES;
    pub(crate) const WORDS: usize = size_of::<Control>() / WORD_BYTES;
}

const _: () = {
    assert!(control::MAGIC == 0 && control::CAPACITY == 1 && control::RECORDS_OFFSET == 2);
    assert!(control::LABEL_BYTES == 3 && control::PAGE_BYTES == 4);
    assert!(control::WRITER_PID == 5 && control::CREATED_NS == 6);
    assert!(offset_of!(Control, head) == LINES_BYTES && control::CLOSED == control::HEAD + 1);
    assert!(offset_of!(Control, intent) == 2 * LINES_BYTES && control::RESUME == control::INTENT + 1);
    assert!(offset_of!(Control, rung) == 3 * LINES_BYTES);
    assert!(control::PAGE_SEQUENCE == control::RUNG + 1 && control::PAGE_LEN == control::RUNG + 2);
    assert!(control::PULSE == control::RUNG + 3);
    assert!(size_of::<Control>() == 4 * LINES_BYTES);
};

/// Header before every payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) payload_bytes: u32,
    pub(crate) kind: u16,
    pub(crate) totals: [u64; 2],
}

impl Header {
    pub(crate) const WORDS: usize = 3;
    pub(crate) const BYTES: usize = Self::WORDS * WORD_BYTES;

    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let first = u64::from(self.payload_bytes) | u64::from(self.kind) << 32;
        [first, self.totals[0], self.totals[1]]
    }

    pub(crate) fn from_words([first, totals @ ..]: [u64; Self::WORDS]) -> Self {
        let [a, b, c, d, kind_low, kind_high, ..] = first.to_le_bytes();
        Self {
            payload_bytes: u32::from_le_bytes([a, b, c, d]),
            kind: u16::from_le_bytes([kind_low, kind_high]),
            totals,
        }
    }

    /// Returns the size of the record in words, header included.
    pub(crate) const fn record_words(self) -> usize {
        Self::WORDS + (self.payload_bytes as usize).div_ceil(WORD_BYTES)
    }

    /// Returns the distance from this record to the next one.
    pub(crate) fn record_bytes(self) -> u64 {
        record_bytes(self.payload_bytes as usize)
    }
}

/// Returns the size of a record with its header, in whole words.
pub(crate) fn record_bytes(payload_bytes: usize) -> u64 {
    (Header::BYTES + payload_bytes.next_multiple_of(WORD_BYTES)) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_its_words() {
        let header = Header { payload_bytes: 0xdead_beef, kind: 0xa55a, totals: [u64::MAX, 3] };
        assert_eq!(Header::from_words(header.to_words()), header);
        assert_eq!(header.to_words()[0], 0x0000_a55a_dead_beef);
    }

    #[test]
    fn records_are_whole_words() {
        assert_eq!(record_bytes(0), 24);
        assert_eq!(record_bytes(1), 32);
        assert_eq!(record_bytes(8), 32);
        assert_eq!(record_bytes(9), 40);
    }

    #[test]
    fn the_page_in_the_documents_draws_this_layout() {
        let page = include_str!("../../../../docs/reference/formats/ring.md");
        let words = [
            ("magic", control::MAGIC),
            ("capacity_bytes", control::CAPACITY),
            ("records_offset", control::RECORDS_OFFSET),
            ("label_bytes", control::LABEL_BYTES),
            ("page_bytes", control::PAGE_BYTES),
            ("writer_pid", control::WRITER_PID),
            ("created_ns", control::CREATED_NS),
            ("head", control::HEAD),
            ("closed", control::CLOSED),
            ("intent", control::INTENT),
            ("resume", control::RESUME),
            ("rung", control::RUNG),
            ("page_sequence", control::PAGE_SEQUENCE),
            ("page_len", control::PAGE_LEN),
            ("pulse", control::PULSE),
        ];
        for (name, word) in words {
            let row = format!("| {} | `{name}` |", word * WORD_BYTES);
            assert!(page.contains(&row), "docs/reference/formats/ring.md lacks the row {row}");
        }
        let is_row =
            |line: &&str| line.strip_prefix("| ").is_some_and(|row| row.starts_with(char::is_numeric));
        assert_eq!(
            page.lines().filter(is_row).count(),
            words.len(),
            "docs/reference/formats/ring.md has other rows too"
        );
        assert!(page.contains(&format!("Version {VERSION}.")));
        assert_eq!(MAGIC.to_le_bytes()[6], VERSION);
    }
}
