//! Packets of UDT version 4, in the wire format of libudt 4.11.
//!
//! Everything is big-endian and in the payload of one UDP datagram: a header of 16 bytes, whose first bit
//! distinguishes [data](Data) from [control](Control), and a body. Sequence numbers have 31 bits and count packets;
//! [`Sequence::near`] extends them to 64 bits.
//!
//! Start with [`Packet::read`]. Where draft-gg-udt-03 and libudt differ, the library is followed; the differences are
//! in `docs/protocol/udt.md`.
//!
//! ```
//! use wire::udt::{Body, Control, Packet, SocketId};
//!
//! let mut bytes = Vec::new();
//! Control { timestamp_us: 0, destination: SocketId(7), body: Body::AckOfAck { number: 3 } }.write(&mut bytes);
//! let Ok(Packet::Control(control)) = Packet::read(&bytes) else { unreachable!() };
//! assert_eq!(control.body, Body::AckOfAck { number: 3 });
//! ```

mod control;
mod data;
mod handshake;
mod loss_list;
mod sequence;

pub use control::{Ack, Body, Control, Progress, Words};
pub use data::{Data, Message, MessageNumber, Piece};
pub use handshake::{Handshake, Request, SocketType, VERSION, address_words};
pub use loss_list::{LossList, LossListWriter};
pub use sequence::{Sequence, SocketId};

/// Size of the header, in bytes.
pub const HEADER_BYTES: usize = 16;
/// Part of a packet's size taken by IPv4, UDP and UDT headers; libudt deducts it for IPv6, too.
pub const OVERHEAD_BYTES: usize = 28 + HEADER_BYTES;

/// Interval of probe pairs: a packet whose number is a multiple of it and the next one leave together, and measure
/// the path's capacity.
pub const PROBE_INTERVAL: u64 = 16;

/// A packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// Application data.
    Data(Data<'a>),
    /// A control message between the two ends.
    Control(Control<'a>),
}

/// Reason why bytes are not a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Shorter than the header or the body of its type.
    #[error("truncated after {0} bytes")]
    TooShort(usize),
    /// A handshake with an unknown value.
    #[error("invalid field `{0}` of the handshake")]
    Handshake(&'static str),
    /// A loss list with a range that does not begin before its end.
    #[error("malformed loss list")]
    LossList,
}

impl<'a> Packet<'a> {
    /// Reads the payload of a datagram.
    ///
    /// # Errors
    /// If it is too short, its type is unknown, or its body is invalid. Bodies longer than needed are usual: libudt
    /// pads empty bodies with four bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::TooShort(bytes.len()))?;
        if header[0] & 0x80 == 0 {
            Ok(Self::Data(Data::read(header, rest)))
        } else {
            Control::read(header, rest).map(Self::Control)
        }
    }

    /// Returns the destination socket of a datagram that has a header.
    #[must_use]
    pub fn destination(bytes: &[u8]) -> Option<SocketId> {
        let word = bytes.get(12..HEADER_BYTES)?;
        Some(SocketId(u32::from_be_bytes(word.try_into().ok()?)))
    }
}

/// Returns a 32-bit word of a header or body; words beyond its end are zero.
fn word(bytes: &[u8], index: usize) -> u32 {
    let at = bytes.get(index * 4..index * 4 + 4);
    at.and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod golden;
