//! Messages cut into datagrams and reassembled.
//!
//! ```text
//!  0      4      8          16       20       24
//!  ├ magic┼ run  ┼ exchange ┼ offset ┼ message┤ bytes of the message …
//! ```
//!
//! Big endian. `offset` is the position of the bytes in the message, `message` its length.

/// Length of a piece's header.
pub const PIECE_HEADER_BYTES: usize = 24;

/// Maximum length of a message, which fits the header and memory.
pub const LARGEST_MESSAGE_BYTES: u64 = 1 << 30;

/// First word of every piece, which tells it from foreign traffic.
const MAGIC: u32 = 0x7461_7070;

/// Header of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Run, so that a straggler of the previous run is not counted.
    pub run: u32,
    /// Exchange of the run, from 0.
    pub exchange: u64,
    /// Offset of the piece's bytes in the message.
    pub offset: u32,
    /// Length of the message.
    pub message_bytes: u32,
}

/// Returns offset and length of a message's pieces, each of at most `piece_bytes` bytes.
///
/// # Panics
/// If `piece_bytes` is zero.
pub fn pieces(message_bytes: u32, piece_bytes: u32) -> impl ExactSizeIterator<Item = (u32, u32)> {
    assert!(piece_bytes > 0, "a piece holds something");
    // An empty message is one piece, too.
    let count = message_bytes.div_ceil(piece_bytes).max(1);
    (0..count).map(move |index| {
        let offset = index * piece_bytes;
        (offset, piece_bytes.min(message_bytes - offset))
    })
}

impl Piece {
    /// Writes the header at the beginning of a datagram.
    ///
    /// # Panics
    /// If the datagram is too short for it.
    pub fn write(&self, datagram: &mut [u8]) {
        let place = datagram.first_chunk_mut::<PIECE_HEADER_BYTES>().expect("a piece begins with its head");
        place[..4].copy_from_slice(&MAGIC.to_be_bytes());
        place[4..8].copy_from_slice(&self.run.to_be_bytes());
        place[8..16].copy_from_slice(&self.exchange.to_be_bytes());
        place[16..20].copy_from_slice(&self.offset.to_be_bytes());
        place[20..].copy_from_slice(&self.message_bytes.to_be_bytes());
    }

    /// Reads the header of a datagram and the number of message bytes after it; `None` if it is not a piece.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<(Self, u32)> {
        let place = datagram.first_chunk::<PIECE_HEADER_BYTES>()?;
        let word = |at: usize| u32::from_be_bytes([place[at], place[at + 1], place[at + 2], place[at + 3]]);
        let exchange = (u64::from(word(8)) << 32) | u64::from(word(12));
        let head = Self { run: word(4), exchange, offset: word(16), message_bytes: word(20) };
        let length = u32::try_from(datagram.len() - PIECE_HEADER_BYTES).ok()?;
        let ends_inside = u64::from(head.offset) + u64::from(length) <= u64::from(head.message_bytes);
        (word(0) == MAGIC && ends_inside).then_some((head, length))
    }
}

/// Outcome of a datagram at an [`Assembly`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// A piece of a message that is not complete yet.
    Piece,
    /// The last piece of this exchange's message.
    Whole {
        /// Exchange of the message.
        exchange: u64,
        /// Length of the message.
        message_bytes: u32,
    },
    /// Nothing new: a piece of an earlier exchange, a duplicate, or not of this run.
    Nothing,
}

/// Reassembles the newest message. An earlier incomplete one is given up: only one message is in flight at a time.
#[derive(Clone, Debug)]
pub struct Assembly {
    run: u32,
    piece_bytes: u32,
    largest_bytes: u32,
    /// The exchange being reassembled; earlier ones are over.
    exchange: u64,
    message_bytes: u32,
    /// One bit for each piece that arrived.
    came: Vec<u64>,
    missing: u32,
    /// Pieces of exchanges that were over.
    late: u64,
    /// Duplicate pieces.
    duplicates: u64,
}

impl Assembly {
    /// Creates an assembly for messages of at most `largest_bytes` in pieces of `piece_bytes`.
    ///
    /// # Panics
    /// If `piece_bytes` is zero.
    #[must_use]
    pub fn new(run: u32, piece_bytes: u32, largest_bytes: u32) -> Self {
        assert!(piece_bytes > 0, "a piece holds something");
        Self {
            run,
            piece_bytes,
            largest_bytes,
            exchange: 0,
            message_bytes: 0,
            came: Vec::new(),
            missing: 0,
            late: 0,
            duplicates: 0,
        }
    }

    /// Accepts a datagram.
    pub fn accept(&mut self, datagram: &[u8]) -> Came {
        let Some((head, length)) = Piece::read(datagram) else { return Came::Nothing };
        if head.run != self.run || !self.is_cut_as_agreed(&head, length) {
            return Came::Nothing;
        }
        // Exchanges are counted from 1 here: 0 means that nothing has arrived.
        let exchange = head.exchange.saturating_add(1);
        if exchange < self.exchange {
            self.late += 1;
            return Came::Nothing;
        }
        if exchange > self.exchange {
            self.begin(exchange, head.message_bytes);
        }
        if head.message_bytes != self.message_bytes {
            return Came::Nothing;
        }
        self.mark(head)
    }

    /// Returns the number of pieces of exchanges that were over.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of duplicate pieces.
    #[must_use]
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    fn is_cut_as_agreed(&self, head: &Piece, length: u32) -> bool {
        let rest = head.message_bytes - head.offset;
        head.message_bytes <= self.largest_bytes
            && head.offset.is_multiple_of(self.piece_bytes)
            && length == rest.min(self.piece_bytes)
    }

    fn begin(&mut self, exchange: u64, message_bytes: u32) {
        self.exchange = exchange;
        self.message_bytes = message_bytes;
        let count = pieces(message_bytes, self.piece_bytes).len();
        self.came.clear();
        self.came.resize(count.div_ceil(64), 0);
        self.missing = u32::try_from(count).expect("a message has fewer pieces than bytes");
    }

    fn mark(&mut self, head: Piece) -> Came {
        let index = (head.offset / self.piece_bytes) as usize;
        let Some(word) = self.came.get_mut(index / 64) else { return Came::Nothing };
        let bit = 1 << (index % 64);
        if *word & bit != 0 {
            self.duplicates += 1;
            return Came::Nothing;
        }
        *word |= bit;
        self.missing -= 1;
        if self.missing > 0 {
            return Came::Piece;
        }
        Came::Whole { exchange: head.exchange, message_bytes: head.message_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: u32 = 7;

    fn datagrams(exchange: u64, message_bytes: u32, piece_bytes: u32) -> Vec<Vec<u8>> {
        let cut = pieces(message_bytes, piece_bytes);
        cut.map(|(offset, length)| {
            let mut datagram = vec![0; PIECE_HEADER_BYTES + length as usize];
            Piece { run: RUN, exchange, offset, message_bytes }.write(&mut datagram);
            datagram
        })
        .collect()
    }

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let mut datagram = [0xaa; PIECE_HEADER_BYTES + 1];
        Piece { run: 1, exchange: 2, offset: 3, message_bytes: 4 }.write(&mut datagram);
        let golden =
            [b't', b'a', b'p', b'p', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0xaa];
        assert_eq!(datagram, golden);
        assert_eq!(
            Piece::read(&datagram),
            Some((Piece { run: 1, exchange: 2, offset: 3, message_bytes: 4 }, 1))
        );
    }

    #[test]
    fn what_is_cut_short_or_reaches_beyond_its_message_is_no_piece() {
        let whole = datagrams(0, 5, 5).remove(0);
        for len in 0..PIECE_HEADER_BYTES {
            assert_eq!(Piece::read(&whole[..len]), None);
        }
        let too_long = [&whole[..], &[0]].concat();
        assert_eq!(Piece::read(&too_long), None);
        let mut assembly = Assembly::new(RUN, 5, 5);
        assert_eq!(assembly.accept(&whole[..whole.len() - 1]), Came::Nothing, "a piece without its end");
        assert_eq!(assembly.accept(&datagrams(0, 6, 6)[0]), Came::Nothing, "larger than any that was agreed");
        assert_eq!(Assembly::new(RUN + 1, 5, 5).accept(&whole), Came::Nothing, "of another run");
        assert_eq!(assembly.accept(&whole), Came::Whole { exchange: 0, message_bytes: 5 });
    }

    #[test]
    fn a_message_of_nothing_and_one_of_one_byte_are_one_piece() {
        assert_eq!(pieces(0, 10).collect::<Vec<_>>(), [(0, 0)]);
        assert_eq!(pieces(1, 10).collect::<Vec<_>>(), [(0, 1)]);
        assert_eq!(pieces(20, 10).collect::<Vec<_>>(), [(0, 10), (10, 10)]);
        assert_eq!(pieces(21, 10).collect::<Vec<_>>(), [(0, 10), (10, 10), (20, 1)]);
    }

    #[test]
    fn a_straggler_of_an_exchange_that_was_given_up_is_late_and_completes_nothing() {
        let mut assembly = Assembly::new(RUN, 10, 100);
        let (first, second) = (datagrams(3, 20, 10), datagrams(4, 20, 10));
        assert_eq!(assembly.accept(&first[0]), Came::Piece);
        assert_eq!(assembly.accept(&second[1]), Came::Piece);
        assert_eq!(assembly.accept(&first[1]), Came::Nothing);
        assert_eq!(assembly.accept(&second[0]), Came::Whole { exchange: 4, message_bytes: 20 });
        assert_eq!(assembly.accept(&second[0]), Came::Nothing);
        assert_eq!((assembly.late(), assembly.duplicates()), (1, 1));
    }

    proptest! {
        #[test]
        fn pieces_cover_a_message_without_gap_or_overlap(message in 0_u32..100_000, piece in 1_u32..5_000) {
            let mut end = 0;
            for (offset, length) in pieces(message, piece) {
                prop_assert_eq!(offset, end);
                prop_assert!(length <= piece);
                end = offset + length;
            }
            prop_assert_eq!(end, message);
        }

        #[test]
        fn a_message_is_whole_with_its_last_piece_in_whatever_order_they_come(
            message in 0_u32..3_000,
            piece in 1_u32..200,
            seed in any::<u64>(),
        ) {
            let mut random = units::Random::new(seed);
            let mut all = datagrams(9, message, piece);
            let again = all[0].clone();
            for place in (1..all.len()).rev() {
                all.swap(place, usize::try_from(random.below(place as u64 + 1)).unwrap());
            }
            let mut assembly = Assembly::new(RUN, piece, 3_000);
            let last = all.pop().unwrap();
            for datagram in &all {
                prop_assert_eq!(assembly.accept(datagram), Came::Piece);
            }
            prop_assert_eq!(assembly.accept(&last), Came::Whole { exchange: 9, message_bytes: message });
            prop_assert_eq!(assembly.accept(&again), Came::Nothing);
            prop_assert_eq!(assembly.duplicates(), 1);
        }

        #[test]
        fn noise_is_never_a_message_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut assembly = Assembly::new(RUN, 10, 100);
            let mut with_magic = bytes.clone();
            if let Some(head) = with_magic.first_chunk_mut() {
                *head = MAGIC.to_be_bytes();
            }
            if let Some(run) = with_magic.get_mut(4..8) {
                run.copy_from_slice(&RUN.to_be_bytes());
            }
            assembly.accept(&bytes);
            assembly.accept(&with_magic);
            prop_assert!(assembly.came.len() <= 1);
        }
    }
}
