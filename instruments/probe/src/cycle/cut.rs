//! Division of a cycle's array into pieces, and the content of each.
//!
//! ```text
//! bytes   a piece, little-endian
//!   0-3   run: pieces of another run are not counted
//!   4-7   cycle, from 0
//!  8-11   first element of the piece
//! 12-15   number of elements that follow
//!   16…   the elements, four bytes each
//! ```
//!
//! The elements follow from cycle and index, so that the reader detects a torn, mixed-up or damaged piece by its
//! content and not only by its size. This is a test signal between two processes of one bench, not a protocol.

/// Size of a piece's header.
pub const HEADER_BYTES: usize = 16;

const ELEMENT_BYTES: usize = 4;

/// Odd multipliers that spread a difference of one over all bits (the fractions of the golden ratio and of √2, in
/// 32 bits).
const CYCLE_FACTOR: u32 = 0x9e37_79b1;
const ELEMENT_FACTOR: u32 = 0x6a09_e667;

/// Array of a run and the pieces it is cut into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    run: u32,
    elements: u32,
    elements_per_piece: u32,
}

/// Reason why an array cannot be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    /// The array has no elements.
    #[error("the array has no elements\ngive at least one")]
    Empty,
    /// The unit has no room for an element.
    #[error(
        "a unit of {unit_bytes} bytes has no room for an element after its {HEADER_BYTES} bytes of header\nuse at least 20 bytes"
    )]
    UnitTooSmall {
        /// Requested size of a unit.
        unit_bytes: usize,
    },
}

/// Cycle and index of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Cycle, from 0.
    pub cycle: u32,
    /// Index of the piece within its cycle, from 0.
    pub piece: u32,
}

/// Result of reading bytes that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// A piece as it was sent.
    Right(Place),
    /// A piece with a valid place, but other elements or another size than were sent.
    Wrong(Place),
    /// Not a piece of this run.
    Foreign,
}

impl Cut {
    /// Cuts an array of `elements` elements into pieces of at most `unit_bytes`, header included.
    ///
    /// # Errors
    /// [`CutError`] if there is no element to send, or no room for one.
    pub fn new(run: u32, elements: u32, unit_bytes: usize) -> Result<Self, CutError> {
        let room = unit_bytes.saturating_sub(HEADER_BYTES) / ELEMENT_BYTES;
        let elements_per_piece = u32::try_from(room).unwrap_or(u32::MAX).min(elements);
        match (elements, elements_per_piece) {
            (0, _) => Err(CutError::Empty),
            (_, 0) => Err(CutError::UnitTooSmall { unit_bytes }),
            _ => Ok(Self { run, elements, elements_per_piece }),
        }
    }

    /// Returns the number of pieces per cycle.
    #[must_use]
    pub const fn pieces(&self) -> u32 {
        self.elements.div_ceil(self.elements_per_piece)
    }

    /// Returns the size of the largest piece, header included. Units: bytes.
    #[must_use]
    pub const fn largest_piece_bytes(&self) -> usize {
        HEADER_BYTES + self.elements_per_piece as usize * ELEMENT_BYTES
    }

    /// Returns the size of all pieces of a cycle, headers included. Units: bytes.
    #[must_use]
    pub const fn cycle_bytes(&self) -> usize {
        self.pieces() as usize * HEADER_BYTES + self.elements as usize * ELEMENT_BYTES
    }

    /// Writes all pieces of a cycle into `into`, one after the other; returns them.
    ///
    /// Cost: one pass over the memory; allocates only if `into` was smaller.
    pub fn write<'a>(
        &self,
        cycle: u32,
        into: &'a mut Vec<u8>,
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        into.resize(self.cycle_bytes(), 0);
        let (piece_bytes, this) = (self.largest_piece_bytes(), *self);
        for (piece, bytes) in (0..).zip(into.chunks_mut(piece_bytes)) {
            this.write_piece(Place { cycle, piece }, bytes);
        }
        into.chunks(piece_bytes)
    }

    /// Reads an arrival and compares it with what was sent.
    #[must_use]
    pub fn read(&self, bytes: &[u8]) -> Content {
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Content::Foreign;
        };
        let [run, cycle, first, count] = words(*header);
        if run != self.run || first >= self.elements || !first.is_multiple_of(self.elements_per_piece) {
            return Content::Foreign;
        }
        let place = Place { cycle, piece: first / self.elements_per_piece };
        if count != self.count(first) || payload.len() != count as usize * ELEMENT_BYTES {
            return Content::Wrong(place);
        }
        // No early exit: a loop without branches is faster when everything is right.
        let (chunks, _) = payload.as_chunks::<ELEMENT_BYTES>();
        let difference = (first..).zip(chunks).fold(0, |difference, (index, chunk)| {
            difference | (u32::from_le_bytes(*chunk) ^ element(cycle, index))
        });
        if difference == 0 { Content::Right(place) } else { Content::Wrong(place) }
    }

    fn write_piece(&self, place: Place, bytes: &mut [u8]) {
        let first = place.piece * self.elements_per_piece;
        let (header, payload) = bytes.split_at_mut(HEADER_BYTES);
        let values = [self.run, place.cycle, first, self.count(first)];
        for (word, value) in header.as_chunks_mut::<ELEMENT_BYTES>().0.iter_mut().zip(values) {
            *word = value.to_le_bytes();
        }
        for (index, word) in (first..).zip(payload.as_chunks_mut::<ELEMENT_BYTES>().0) {
            *word = element(place.cycle, index).to_le_bytes();
        }
    }

    /// Returns the number of elements in the piece that begins at `first`.
    const fn count(&self, first: u32) -> u32 {
        let left = self.elements - first;
        if left < self.elements_per_piece { left } else { self.elements_per_piece }
    }
}

/// Returns the element at an index of the array in a cycle.
const fn element(cycle: u32, index: u32) -> u32 {
    cycle.wrapping_mul(CYCLE_FACTOR) ^ index.wrapping_mul(ELEMENT_FACTOR)
}

fn words(header: [u8; HEADER_BYTES]) -> [u32; 4] {
    let (chunks, _) = header.as_chunks::<ELEMENT_BYTES>();
    core::array::from_fn(|index| u32::from_le_bytes(chunks[index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(cut: &Cut, cycle: u32) -> Vec<Vec<u8>> {
        cut.write(cycle, &mut Vec::new()).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn an_array_that_fits_is_one_piece_and_one_element_more_makes_two() {
        let cut = |elements| Cut::new(1, elements, 65_507).unwrap();
        assert_eq!((cut(16_372).pieces(), cut(16_373).pieces()), (1, 2));
        let sizes: Vec<_> = pieces(&cut(16_373), 0).iter().map(Vec::len).collect();
        assert_eq!(sizes, [65_504, 20]);
    }

    #[test]
    fn the_smallest_unit_holds_one_element() {
        assert_eq!(Cut::new(1, 3, 20).unwrap().pieces(), 3);
        assert_eq!(Cut::new(1, 3, 19), Err(CutError::UnitTooSmall { unit_bytes: 19 }));
        assert_eq!(Cut::new(1, 0, 65_507), Err(CutError::Empty));
    }

    #[test]
    fn a_piece_is_what_the_picture_shows() {
        let cut = Cut::new(7, 3, 24).unwrap();
        let last = &pieces(&cut, 2)[1];
        assert_eq!(last[..16], [7, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(last[16..], element(2, 2).to_le_bytes());
    }

    #[test]
    fn every_damaged_bit_and_every_cut_is_found() {
        let cut = Cut::new(7, 5, 65_507).unwrap();
        let piece = &pieces(&cut, 3)[0];
        let right = Content::Right(Place { cycle: 3, piece: 0 });
        assert_eq!(cut.read(piece), right);
        for bit in 0..piece.len() * 8 {
            let mut damaged = piece.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(cut.read(&damaged), right, "bit {bit}");
        }
        for len in 0..piece.len() {
            assert!(!matches!(cut.read(&piece[..len]), Content::Right(_)), "{len} bytes");
        }
    }

    #[test]
    fn the_second_half_of_another_cycle_is_found() {
        let cut = Cut::new(7, 100, 65_507).unwrap();
        let (mut torn, newer) = (pieces(&cut, 3).remove(0), pieces(&cut, 4).remove(0));
        torn[200..].copy_from_slice(&newer[200..]);
        assert_eq!(cut.read(&torn), Content::Wrong(Place { cycle: 3, piece: 0 }));
    }

    #[test]
    fn another_run_is_foreign() {
        let (ours, theirs) = (Cut::new(7, 5, 100).unwrap(), Cut::new(8, 5, 100).unwrap());
        assert_eq!(ours.read(&pieces(&theirs, 0)[0]), Content::Foreign);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_covers_the_array(
            elements in 1_u32..5_000,
            unit_bytes in 20_usize..3_000,
            cycle in any::<u32>(),
        ) {
            let cut = Cut::new(1, elements, unit_bytes).unwrap();
            let written = pieces(&cut, cycle);
            prop_assert_eq!(written.len(), cut.pieces() as usize);
            prop_assert!(written.iter().all(|piece| piece.len() <= unit_bytes));
            let sent: usize = written.iter().map(|piece| (piece.len() - HEADER_BYTES) / 4).sum();
            prop_assert_eq!(sent, elements as usize);
            for (index, piece) in (0..).zip(&written) {
                prop_assert_eq!(cut.read(piece), Content::Right(Place { cycle, piece: index }));
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Cut::new(1, 50, 60).unwrap().read(&bytes);
        }
    }
}
