//! Room for a batch of received datagrams, filled again and again.
//!
//! With `UDP_GRO` a slot may hold a *train*: datagrams of one size and one sender that the kernel took through
//! its layers in one piece. They are told apart again by [`Received::datagrams`].

use std::net::SocketAddr;

use units::WallTime;

use crate::control::{self, Evidence};
use crate::raw::Slot;

/// How many datagrams one system call receives at most.
///
/// Source: measured, 64 per call take 785–945 ns a datagram, single calls 900–1,100 ns; more gain nothing.
pub const BATCH_DATAGRAMS: usize = 64;

/// Room for a datagram in the largest common jumbo frame (MTU 9,000), rounded up.
pub const DEFAULT_SLOT_BYTES: usize = 9_216;

/// Room for the largest datagram, and for the largest train.
pub const TRAIN_SLOT_BYTES: usize = 1 << 16;

/// What one call receives at most: it is read again at once, and should still lie in a processor's own cache.
const BATCH_BYTES: usize = 512 * 1024;
/// The fewest slots that are offered to the kernel, however large its trains are.
const MIN_SLOTS: usize = 4;

/// Memory for one batch, owned by whoever receives; it serves any number of sockets in turn.
///
/// Cost: about 0.6 MB with the default slots; nothing is allocated after it was made.
pub struct ReceiveBatch {
    pub(crate) memory: Box<[u8]>,
    pub(crate) slot_bytes: usize,
    pub(crate) slots: Box<[Slot]>,
    /// How many slots the last call offered.
    pub(crate) offered: usize,
    pub(crate) received: usize,
}

/// What arrived in one piece, a datagram or a train of them, and what the kernel said about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// What arrived; only the beginning if `truncated`.
    pub bytes: &'a [u8],
    /// The size of every datagram in `bytes` but the last, which may be shorter; not zero.
    pub segment_bytes: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// When the kernel received it.
    pub kernel_time: Option<WallTime>,
    /// How many datagrams this socket had dropped when this one was queued (`SO_RXQ_OVFL`), wrapping; a train
    /// counts once. `None` as long as it is zero: then the kernel says nothing.
    pub drops: Option<u32>,
    /// Whether the datagram was larger than the slot; the rest is lost.
    pub truncated: bool,
}

impl<'a> Received<'a> {
    /// Returns the datagrams, in the order in which they were sent. An empty datagram is one too.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty = self.bytes.is_empty().then_some(self.bytes);
        empty.into_iter().chain(self.bytes.chunks(self.segment_bytes))
    }
}

impl ReceiveBatch {
    /// Makes room for [`BATCH_DATAGRAMS`] of [`DEFAULT_SLOT_BYTES`] each.
    #[must_use]
    pub fn new() -> Self {
        Self::with_slot_bytes(DEFAULT_SLOT_BYTES)
    }

    /// Makes room for trains, and for every datagram there can be.
    #[must_use]
    pub fn for_trains() -> Self {
        Self::with_slot_bytes(TRAIN_SLOT_BYTES)
    }

    /// Makes room for datagrams of up to `slot_bytes`.
    #[must_use]
    pub fn with_slot_bytes(slot_bytes: usize) -> Self {
        let slot_bytes = slot_bytes.clamp(1, TRAIN_SLOT_BYTES);
        Self {
            memory: vec![0; BATCH_DATAGRAMS * slot_bytes].into_boxed_slice(),
            slot_bytes,
            slots: vec![Slot::EMPTY; BATCH_DATAGRAMS].into_boxed_slice(),
            offered: 0,
            received: 0,
        }
    }

    /// Tells whether the last call filled all that it offered: then there may be more.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.offered > 0 && self.received == self.offered
    }

    /// Returns how many slots to offer: so few that the cache holds what a call brings if it fills them with what came
    /// last, or with the largest trains as long as nothing has come.
    ///
    /// More than last time are offered only when those were filled: the first trains after small datagrams shall not fill
    /// memory that nobody has touched yet.
    pub(crate) fn next_offer(&self) -> usize {
        let fitting = |largest: usize| (BATCH_BYTES / largest.max(1)).clamp(MIN_SLOTS, BATCH_DATAGRAMS);
        if self.offered == 0 {
            return fitting(self.slot_bytes);
        }
        let largest = self.slots[..self.received].iter().map(|slot| slot.len).max().unwrap_or(0);
        let most = if self.is_full() { 2 * self.offered } else { self.offered };
        fitting(largest).min(most)
    }

    /// Returns what the last call of [`receive_batch`](crate::ReceiveSocket::receive_batch) received, in
    /// the order of its arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Received<'_>> {
        let filled = &self.slots[..self.received];
        filled.iter().zip(self.memory.chunks_exact(self.slot_bytes)).map(|(slot, memory)| {
            let Evidence { kernel_time, drops, segment_bytes } =
                control::read_control(&slot.control[..slot.control_len]);
            let from = control::read_address(&slot.name).expect("UDP sockets name the sender of a datagram");
            let bytes = &memory[..slot.len];
            let segment_bytes = segment_bytes.unwrap_or(bytes.len()).max(1);
            Received { bytes, segment_bytes, from, kernel_time, drops, truncated: slot.truncated }
        })
    }
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self::new()
    }
}
