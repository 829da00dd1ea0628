//! The memory image: a control block, then the records.
//!
//! Everything is a little-endian 64-bit word, so that the image can lie in shared memory unchanged.
//!
//! ```text
//! word   control block                            written by
//!    0   magic "TCRING" and layout version        creation
//!    1   capacity of the records in bytes, 2^n    creation
//!  2-7   0                                        creation
//!    8   intent: the writer may be touching everything before this position
//!    9   head: every record before this position is whole
//!   10   resume: where a late or lapped reader begins, always the start of a record
//!   11   closed: 1 when no record follows head
//! 12-15  0
//!   16…  records, at (position mod capacity)
//!
//! word   record
//!    0   payload bytes (bits 0-31), kind (bits 32-47), 0 (bits 48-63)
//!    1   first running total, before this record
//!    2   second running total, before this record
//!    3…  payload, the last word filled up with zeros
//! ```
//!
//! A position counts bytes since the ring was made; it never wraps (at 100 GB/s, not for five years). A
//! record may go round the end of the memory between any two of its words: no padding, no special case.

const _: () =
    assert!(cfg!(target_endian = "little"), "the image is little-endian and so must the machine be");

/// Size of the unit of all access.
pub(crate) const WORD_BYTES: usize = 8;

/// `TCRING` and the layout version 1, as they lie in memory.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TCRING\x01\x00");

/// Smallest capacity: two records of one payload word each.
pub(crate) const MIN_CAPACITY_BYTES: usize = 64;

/// A lapped reader begins at least an eighth of the capacity ahead of the writer, so that it is not lapped
/// at once again while it copies its first record.
pub(crate) const HEAD_ROOM_SHARE: u64 = 8;

/// Words of the control block; two cache lines, so that what is constant does not share one with what moves.
pub(crate) mod control {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const CAPACITY: usize = 1;
    pub(crate) const INTENT: usize = 8;
    pub(crate) const HEAD: usize = 9;
    pub(crate) const RESUME: usize = 10;
    pub(crate) const CLOSED: usize = 11;
    pub(crate) const WORDS: usize = 16;
}

/// What stands before every payload.
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

    /// Returns how far the next record is from this one.
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
}
