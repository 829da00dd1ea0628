//! Storage of payloads: all of them permanently, or each until it is no longer needed.

use units::Instant;

use crate::log::Sent;
use crate::{Address, NodeId};

/// The payloads, each with its record.
pub(crate) enum Store {
    All {
        sent: Vec<Head>,
        /// Payloads, contiguous.
        bytes: Vec<u8>,
    },
    Passing {
        slots: Vec<Slot>,
        free: Vec<u32>,
    },
}

pub(crate) struct Head {
    at: Instant,
    from: NodeId,
    to: Address,
    /// Offset of the payload; it ends at the next one's.
    start: usize,
}

/// A datagram in flight, with the number of holds on it.
pub(crate) struct Slot {
    ordinal: u64,
    at: Instant,
    from: NodeId,
    to: Address,
    bytes: Vec<u8>,
    holders: u32,
}

impl Store {
    pub(crate) const fn all() -> Self {
        Self::All { sent: Vec::new(), bytes: Vec::new() }
    }

    pub(crate) const fn passing() -> Self {
        Self::Passing { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) const fn keeps_all(&self) -> bool {
        matches!(self, Self::All { .. })
    }

    /// Adds a datagram with one hold, and returns its key.
    pub(crate) fn put(&mut self, new: &Sent<'_>) -> u32 {
        let Sent { ordinal, at, from, to, .. } = *new;
        match self {
            Self::All { sent, bytes } => {
                sent.push(Head { at, from, to, start: bytes.len() });
                bytes.extend_from_slice(new.bytes);
                u32::try_from(sent.len() - 1).expect("fewer than 2^32 datagrams fit into memory")
            }
            Self::Passing { slots, free } => {
                let key = free.pop().unwrap_or_else(|| {
                    slots.push(Slot { ordinal, at, from, to, bytes: Vec::new(), holders: 0 });
                    u32::try_from(slots.len() - 1).expect("fewer than 2^32 datagrams fit into memory")
                });
                let slot = &mut slots[key as usize];
                let mut bytes = core::mem::take(&mut slot.bytes);
                bytes.clear();
                bytes.extend_from_slice(new.bytes);
                *slot = Slot { ordinal, at, from, to, bytes, holders: 1 };
                key
            }
        }
    }

    pub(crate) fn hold(&mut self, key: u32) {
        if let Self::Passing { slots, .. } = self {
            slots[key as usize].holders += 1;
        }
    }

    pub(crate) fn release(&mut self, key: u32) {
        if let Self::Passing { slots, free } = self {
            let slot = &mut slots[key as usize];
            slot.holders -= 1;
            if slot.holders == 0 {
                free.push(key);
            }
        }
    }

    pub(crate) fn sent(&self, key: u32) -> Sent<'_> {
        let index = key as usize;
        match self {
            Self::All { sent, bytes } => {
                let Head { at, from, to, start } = sent[index];
                let end = sent.get(index + 1).map_or(bytes.len(), |next| next.start);
                Sent { ordinal: key.into(), at, from, to, bytes: &bytes[start..end] }
            }
            Self::Passing { slots, .. } => {
                let Slot { ordinal, at, from, to, ref bytes, .. } = slots[index];
                Sent { ordinal, at, from, to, bytes }
            }
        }
    }
}
