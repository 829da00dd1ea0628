//! Memory for a batch of received datagrams, reused for every call.
//!
//! With `UDP_GRO` a slot may hold a *train*: datagrams of one size and one sender that the kernel
//! passed through its layers as one. [`Received::datagrams`] separates them again.

use std::net::SocketAddr;

use units::WallTime;

use crate::raw::{BATCH_DATAGRAMS, Slot};
use crate::socket::control::{self, Evidence};

/// Size of a slot that holds a datagram in the largest common jumbo frame (MTU 9,000), rounded up.
pub const DEFAULT_SLOT_BYTES: usize = 9_216;

/// Size of a slot that holds the largest datagram, and the largest train.
pub const TRAIN_SLOT_BYTES: usize = 1 << 16;

/// Maximum size of the data received by one call: they are read immediately, and should still be in
/// a processor's own cache.
const BATCH_BYTES: usize = 512 * 1024;
/// Minimum number of slots offered to the kernel, however large its trains are.
const MIN_SLOTS: usize = 4;

/// Memory for one batch, owned by the receiver; it serves any number of sockets in turn.
///
/// Cost: about 0.6 MB with the default slots; nothing is allocated after its creation.
pub struct ReceiveBatch {
    pub(crate) memory: Box<[u8]>,
    pub(crate) slot_bytes: usize,
    pub(crate) slots: Box<[Slot]>,
    /// Number of slots that the last call offered.
    pub(crate) offered: usize,
    pub(crate) received: usize,
}

/// A received datagram or train, with what the kernel reported about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// Received bytes; only the beginning if `truncated`.
    pub bytes: &'a [u8],
    /// The size of every datagram in `bytes` but the last, which may be shorter; not zero.
    pub segment_bytes: usize,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Time at which the kernel received it.
    pub kernel_time: Option<WallTime>,
    /// Number of datagrams that this socket had dropped when this one was queued (`SO_RXQ_OVFL`),
    /// wrapping; a train counts once. `None` while it is zero: then the kernel reports nothing.
    pub drops: Option<u32>,
    /// True if the datagram was larger than the slot; the rest is lost.
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
    /// Allocates [`BATCH_DATAGRAMS`] slots of [`DEFAULT_SLOT_BYTES`] each.
    #[must_use]
    pub fn new() -> Self {
        Self::with_slot_bytes(DEFAULT_SLOT_BYTES)
    }

    /// Allocates slots for trains, and for datagrams of any size.
    #[must_use]
    pub fn for_trains() -> Self {
        Self::with_slot_bytes(TRAIN_SLOT_BYTES)
    }

    /// Allocates slots for datagrams of up to `slot_bytes`.
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

    /// Returns whether the last call filled all slots that it offered: then there may be more.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.offered > 0 && self.received == self.offered
    }

    /// Returns how many slots to offer: few enough that the cache holds the data of a call with
    /// slots filled as by the last one, or with the largest trains if there was none.
    ///
    /// More than last time are offered only when those were filled: the first trains after small
    /// datagrams must not fill memory that was never touched.
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
        let memory = self.memory.chunks_exact(self.slot_bytes);
        filled.iter().zip(memory).map(|(slot, memory)| received(slot, &memory[..slot.len]))
    }

    /// Returns the same, and lends the bytes for changes in place: `bytes` of [`Received`] is empty, and the bytes
    /// come with it.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (Received<'static>, &mut [u8])> {
        let filled = &self.slots[..self.received];
        let memory = self.memory.chunks_exact_mut(self.slot_bytes);
        filled.iter().zip(memory).map(|(slot, memory)| {
            let bytes = &mut memory[..slot.len];
            let Received { segment_bytes, from, kernel_time, drops, truncated, .. } = received(slot, bytes);
            (Received { bytes: &[], segment_bytes, from, kernel_time, drops, truncated }, bytes)
        })
    }
}

/// Reads what the kernel reported about the content of a slot.
fn received<'a>(slot: &Slot, bytes: &'a [u8]) -> Received<'a> {
    let Evidence { kernel_time, drops, segment_bytes } =
        control::read_control(&slot.control[..slot.control_len]);
    let from = control::read_address(&slot.name).expect("UDP sockets name the sender of a datagram");
    let segment_bytes = segment_bytes.unwrap_or(bytes.len()).max(1);
    Received { bytes, segment_bytes, from, kernel_time, drops, truncated: slot.truncated }
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self::new()
    }
}
