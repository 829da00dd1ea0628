//! The region that the writer may overwrite: claimed ahead in strides, with the position where a
//! lapped reader resumes.
//!
//! This is only the writer's own bookkeeping: which record begins first in each of the last
//! strides, so that neither a claim nor the resume position requires reading old records.

use crate::layout::{HEAD_ROOM_SHARE, STRIDES, WORD_BYTES};

/// Number of strides whose first record is remembered: those of one ring.
const REMEMBERED: usize = STRIDES as usize;

/// Position up to which the writer may write, and the one at which readers may begin.
pub(crate) struct Claim {
    capacity_bytes: u64,
    stride_bytes: u64,
    /// Everything before this may be written to; a multiple of the stride.
    claimed: u64,
    /// Position of the first record of each stride, at or behind the stride's start.
    first: [u64; REMEMBERED],
    /// The first stride whose first record is not known yet.
    next_stride: u64,
}

/// Update that readers must see before the writer continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    /// Position before which the writer may be overwriting.
    pub(crate) intent: u64,
    /// Position at which a late or lapped reader begins.
    pub(crate) resume: u64,
}

impl Claim {
    pub(crate) const fn new(capacity_bytes: u64) -> Self {
        let share = capacity_bytes / STRIDES;
        let stride_bytes = if share < WORD_BYTES as u64 { WORD_BYTES as u64 } else { share };
        Self { capacity_bytes, stride_bytes, claimed: 0, first: [0; REMEMBERED], next_stride: 0 }
    }

    /// Notes a record from `start` to `end`; returns the update that readers must see first, if
    /// any.
    pub(crate) fn record(&mut self, start: u64, end: u64) -> Option<Announcement> {
        // Once per stride, or once for each stride that a large record spans.
        while self.next_stride * self.stride_bytes <= start {
            self.first[(self.next_stride % STRIDES) as usize] = start;
            self.next_stride += 1;
        }
        if end <= self.claimed {
            return None;
        }
        self.claimed = end.next_multiple_of(self.stride_bytes);
        Some(Announcement { intent: self.claimed, resume: self.resume() })
    }

    /// Returns the position at or behind which a reader's unread bytes must begin so that a record
    /// that ends at `end` does not overwrite them.
    pub(crate) fn overwrites_before(&self, end: u64) -> u64 {
        self.claimed.max(end.next_multiple_of(self.stride_bytes)).saturating_sub(self.capacity_bytes)
    }

    /// Returns how many bytes a reader may have unread directly after a claim.
    pub(crate) const fn spared_bytes(&self) -> u64 {
        self.capacity_bytes - self.stride_bytes
    }

    /// Returns the first record that leaves an eighth of the ring as distance to the claimed
    /// region.
    fn resume(&self) -> u64 {
        let keep_from =
            (self.claimed + self.capacity_bytes / HEAD_ROOM_SHARE).saturating_sub(self.capacity_bytes);
        // A record is at most half the ring, so `keep_from` is never behind the start of the newest
        // one; and it is less than one ring of strides back: its stride is remembered.
        let stride = keep_from / self.stride_bytes;
        debug_assert!(stride < self.next_stride && self.next_stride - stride <= STRIDES);
        self.first[(stride % STRIDES) as usize]
    }
}
