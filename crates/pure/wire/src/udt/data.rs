//! Data packets.

use super::{HEADER_BYTES, Sequence, SocketId, word};

/// A data packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// The packet's number.
    pub sequence: Sequence,
    /// Position in its message; stream sockets fill it in and never read it.
    pub message: Message,
    /// Time of sending since its socket was opened; 32 bits that wrap. Units: microseconds.
    pub timestamp_us: u32,
    /// The destination socket.
    pub destination: SocketId,
    /// Application data.
    pub payload: &'a [u8],
}

/// A packet's position in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Position of the packet in the message.
    pub piece: Piece,
    /// True if the message must not be delivered before earlier ones.
    pub is_ordered: bool,
    /// The message's number.
    pub number: MessageNumber,
}

/// Position of a packet in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// In the middle.
    Middle = 0b00,
    /// The last packet.
    Last = 0b01,
    /// The first of several packets.
    First = 0b10,
    /// The only packet.
    Only = 0b11,
}

/// Number of a message: 29 bits, from 1 to the highest but one, and then 1 again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageNumber(u32);

impl<'a> Data<'a> {
    pub(super) fn read(header: &[u8; HEADER_BYTES], payload: &'a [u8]) -> Self {
        Self {
            sequence: Sequence::from_word(word(header, 0)),
            message: Message::from_word(word(header, 1)),
            timestamp_us: word(header, 2),
            destination: SocketId(word(header, 3)),
            payload,
        }
    }

    /// Writes the header in front of a payload already in place.
    pub fn write_header(
        header: &mut [u8; HEADER_BYTES],
        sequence: Sequence,
        message: Message,
        timestamp_us: u32,
        destination: SocketId,
    ) {
        header[0..4].copy_from_slice(&sequence.word().to_be_bytes());
        header[4..8].copy_from_slice(&message.word().to_be_bytes());
        header[8..12].copy_from_slice(&timestamp_us.to_be_bytes());
        header[12..16].copy_from_slice(&destination.0.to_be_bytes());
    }
}

impl Message {
    const ORDERED: u32 = 1 << 29;

    const fn from_word(word: u32) -> Self {
        let piece = match word >> 30 {
            0b00 => Piece::Middle,
            0b01 => Piece::Last,
            0b10 => Piece::First,
            _ => Piece::Only,
        };
        Self { piece, is_ordered: word & Self::ORDERED != 0, number: MessageNumber::from_word(word) }
    }

    const fn word(self) -> u32 {
        let ordered = if self.is_ordered { Self::ORDERED } else { 0 };
        (self.piece as u32) << 30 | ordered | self.number.word()
    }
}

impl Piece {
    /// Returns the position of packet `index` of `count`.
    #[must_use]
    pub const fn of(index: usize, count: usize) -> Self {
        match (index == 0, index + 1 == count) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Returns whether a message begins here.
    #[must_use]
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Returns whether a message ends here.
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

impl MessageNumber {
    /// The number of a connection's first message.
    pub const FIRST: Self = Self(1);
    const MASK: u32 = 0x1fff_ffff;

    /// Returns the number in a word, ignoring its upper three bits.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word & Self::MASK)
    }

    /// Returns the word on the wire, its upper three bits zero.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Returns the next message's number; as in libudt, 0 and the highest are never used.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 + 1 >= Self::MASK { Self::FIRST } else { Self(self.0 + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_numbers_leave_out_the_first_and_the_last() {
        assert_eq!(MessageNumber(0x1fff_fffd).next(), MessageNumber(0x1fff_fffe));
        assert_eq!(MessageNumber(0x1fff_fffe).next(), MessageNumber::FIRST);
    }

    #[test]
    fn pieces_are_told_by_their_place() {
        let pieces = |count| (0..count).map(|index| Piece::of(index, count)).collect::<Vec<_>>();
        assert_eq!(pieces(1), [Piece::Only]);
        assert_eq!(pieces(3), [Piece::First, Piece::Middle, Piece::Last]);
    }
}
