//! What the writer may write over: claimed ahead in strides, with the place where a lapped reader goes on.
//!
//! Only the writer's own bookkeeping: which record begins first in each of the last strides, so that neither
//! a claim nor the place to resume needs a look at old records.

use crate::layout::{HEAD_ROOM_SHARE, STRIDES, WORD_BYTES};

/// The strides whose first record is remembered: one ring's worth.
const REMEMBERED: usize = STRIDES as usize;

/// How far the writer may write, and where its readers may begin.
pub(crate) struct Claim {
    capacity_bytes: u64,
    stride_bytes: u64,
    /// Everything before this may be written to; a multiple of the stride.
    claimed: u64,
    /// Where the first record of each stride begins, at or behind the stride's start.
    first: [u64; REMEMBERED],
    /// The first stride of which that is not known yet.
    next_stride: u64,
}

/// What readers have to be told before the writer goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    /// The writer may be touching everything before this position.
    pub(crate) intent: u64,
    /// Where a late or lapped reader begins.
    pub(crate) resume: u64,
}

impl Claim {
    pub(crate) const fn new(capacity_bytes: u64) -> Self {
        let share = capacity_bytes / STRIDES;
        let stride_bytes = if share < WORD_BYTES as u64 { WORD_BYTES as u64 } else { share };
        Self { capacity_bytes, stride_bytes, claimed: 0, first: [0; REMEMBERED], next_stride: 0 }
    }

    /// Takes note of a record from `start` to `end`; returns what readers must be told first, if anything.
    pub(crate) fn record(&mut self, start: u64, end: u64) -> Option<Announcement> {
        // Once a stride, or once for each stride that a large record spans.
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

    /// Returns up to where a reader's unread bytes must begin so that a record that ends at `end` spares them.
    pub(crate) fn overwrites_before(&self, end: u64) -> u64 {
        self.claimed.max(end.next_multiple_of(self.stride_bytes)).saturating_sub(self.capacity_bytes)
    }

    /// Returns how much of the ring a reader may have unread when a claim has just been made.
    pub(crate) const fn spared_bytes(&self) -> u64 {
        self.capacity_bytes - self.stride_bytes
    }

    /// Returns the first record that leaves an eighth of the ring before what is claimed.
    fn resume(&self) -> u64 {
        let keep_from =
            (self.claimed + self.capacity_bytes / HEAD_ROOM_SHARE).saturating_sub(self.capacity_bytes);
        // A record is at most half the ring, so `keep_from` is never behind the start of the newest one; and it
        // is less than a ring's worth of strides back: its stride is remembered.
        let stride = keep_from / self.stride_bytes;
        debug_assert!(stride < self.next_stride && self.next_stride - stride <= STRIDES);
        self.first[(stride % STRIDES) as usize]
    }
}
