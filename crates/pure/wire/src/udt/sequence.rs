//! Numbers that wrap on the wire, and their extension to 64 bits.

/// The sequence number of a packet: 31 bits, counting packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sequence(u32);

/// A socket of a UDP port; 0 asks for a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u32);

impl Sequence {
    /// Number of sequence numbers.
    pub const COUNT: u64 = 1 << 31;

    /// Returns the sequence number of a packet with a 64-bit number.
    #[must_use]
    pub const fn of(number: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the upper bits are what the wire does not carry"
        )]
        Self((number as u32) & 0x7fff_ffff)
    }

    /// Returns the sequence number in a word, ignoring its first bit.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word & 0x7fff_ffff)
    }

    /// Returns the word on the wire, its first bit zero.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Returns the number nearest to `reference` with this sequence number; `None` if it would be negative.
    ///
    /// This cannot happen to a machine that counts from [`COUNT`](Self::COUNT) on.
    #[must_use]
    pub const fn near(self, reference: u64) -> Option<u64> {
        // Distance from the reference, as a signed number of 31 bits.
        let distance = (self.0.wrapping_sub(Self::of(reference).0) << 1).cast_signed() >> 1;
        reference.checked_add_signed(distance as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_number_is_found_on_both_sides_of_the_wrap() {
        let start = Sequence::COUNT + 0x7fff_fff0;
        for offset in [0, 1, 15, 16, 17, 100_000, (1 << 30) - 1] {
            assert_eq!(Sequence::of(start + offset).near(start), Some(start + offset));
            assert_eq!(Sequence::of(start - offset).near(start), Some(start - offset));
        }
        assert_eq!(Sequence::of(start + (1 << 30)).near(start), Some(start - (1 << 30)));
        assert_eq!(Sequence::of(0x7fff_ffff).near(3), None);
    }
}
