//! Bounded pool of reusable buffers for datagrams in flight.

/// Maximum number of bytes in flight: a second at 8 Gbit/s.
///
/// Beyond it the emulator drops datagrams that the model would have kept and counts them, and the run is invalid.
pub(crate) const MOST_HELD_BYTES: usize = 1 << 30;

/// Size of the smallest buffer; each further class is twice as large.
const LEAST_BYTES: usize = 256;
/// Number of size classes: up to 128 KiB, more than any packet.
const CLASSES: usize = 10;

/// A copy of a datagram in flight.
pub(crate) struct Parcel {
    memory: Box<[u8]>,
    len: usize,
}

/// Pool that parcels are taken from and returned to.
pub(crate) struct Store {
    /// Unused buffers, by size class.
    free: [Vec<Box<[u8]>>; CLASSES],
    held_bytes: usize,
    most_bytes: usize,
}

impl Parcel {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Store {
    /// Creates a store that holds at most `most_bytes`.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { free: Default::default(), held_bytes: 0, most_bytes }
    }

    /// Copies pieces into one parcel; `None` if there is no room for it.
    pub(crate) fn keep(&mut self, pieces: &[&[u8]]) -> Option<Parcel> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let class = class_of(len);
        let bytes = LEAST_BYTES << class;
        if class >= CLASSES || self.held_bytes + bytes > self.most_bytes {
            return None;
        }
        self.held_bytes += bytes;
        let mut memory = self.free[class].pop().unwrap_or_else(|| vec![0; bytes].into_boxed_slice());
        let mut at = 0;
        for piece in pieces {
            memory[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Some(Parcel { memory, len })
    }

    /// Returns a parcel's buffer to the pool.
    pub(crate) fn take_back(&mut self, parcel: Parcel) {
        self.held_bytes -= parcel.memory.len();
        self.free[class_of(parcel.memory.len())].push(parcel.memory);
    }
}

const fn class_of(len: usize) -> usize {
    len.div_ceil(LEAST_BYTES).next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_holds_its_pieces_one_behind_the_other() {
        let mut store = Store::new(MOST_HELD_BYTES);
        for len in [0, 1, 255, 256, 257, 1_500, 65_575] {
            let whole: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let (head, rest) = whole.split_at(len / 3);
            let parcel = store.keep(&[head, rest]).unwrap();
            assert_eq!(parcel.bytes(), whole);
            store.take_back(parcel);
        }
        assert_eq!(store.held_bytes, 0);
    }

    #[test]
    fn what_is_beyond_the_bound_is_not_kept_and_memory_is_used_again() {
        let mut store = Store::new(1_024);
        let full = store.keep(&[&[1; 1_000]]).unwrap();
        assert!(store.keep(&[&[]]).is_none());
        let address = full.bytes().as_ptr();
        store.take_back(full);
        assert_eq!(store.keep(&[&[2; 600]]).unwrap().bytes().as_ptr(), address);
        assert!(store.keep(&[&[3; 600]]).is_none());
        assert!(Store::new(usize::MAX).keep(&[&vec![0; (LEAST_BYTES << CLASSES) + 1]]).is_none());
    }
}
