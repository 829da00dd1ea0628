//! Connection setup.

use core::net::IpAddr;

use super::{Malformed, Sequence, SocketId, word};

/// The version of the protocol.
pub const VERSION: u32 = 4;

/// Parameters exchanged before data are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handshake {
    /// Version of the protocol, 4; libudt's answers to late rendezvous handshakes have 0.
    pub version: u32,
    /// Type of the socket; `None` for an invalid code, as in those answers.
    pub socket_type: Option<SocketType>,
    /// Number of the first packet.
    pub first_sequence: Sequence,
    /// Maximum packet size, with IP, UDP and UDT headers. Units: bytes.
    pub packet_bytes: u32,
    /// Maximum number of packets in flight until the first acknowledgement.
    pub window_packets: u32,
    /// Request or answer.
    pub request: Request,
    /// Socket of the sender; a challenge repeats the asking socket.
    pub socket: SocketId,
    /// Value that a client must repeat to prove its address to the listener.
    pub cookie: u32,
    /// Address of the receiver as seen by the sender, encoded by [`address_words`]; informative only.
    pub address: [u8; 16],
}

/// Type of a socket's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketType {
    /// Bytes.
    Stream = 1,
    /// Messages.
    Datagram = 2,
}

/// Request or answer of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// First handshake of a client, and the listener's challenge.
    Connect,
    /// Second handshake of a client with the cookie, the listener's answer to it, and the second step of a
    /// rendezvous.
    Conclude,
    /// First step of a rendezvous.
    Rendezvous,
    /// Answer to a handshake of a rendezvous that is already concluded.
    RendezvousDone,
    /// The listener refuses the client.
    Reject,
}

impl Handshake {
    /// Size of a handshake's body, in bytes.
    pub const BYTES: usize = 48;

    pub(super) fn read(body: &[u8]) -> Result<Self, Malformed> {
        if body.len() < Self::BYTES {
            return Err(Malformed::TooShort(body.len()));
        }
        let mut address = [0; 16];
        address.copy_from_slice(&body[32..Self::BYTES]);
        Ok(Self {
            version: word(body, 0),
            socket_type: SocketType::from_code(word(body, 1)),
            first_sequence: Sequence::from_word(word(body, 2)),
            packet_bytes: word(body, 3),
            window_packets: word(body, 4),
            request: Request::from_code(word(body, 5)).ok_or(Malformed::Handshake("request"))?,
            socket: SocketId(word(body, 6)),
            cookie: word(body, 7),
            address,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let words = [
            self.version,
            self.socket_type.map_or(0, |kind| kind as u32),
            self.first_sequence.word(),
            self.packet_bytes,
            self.window_packets,
            self.request.code(),
            self.socket.0,
            self.cookie,
        ];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        out.extend_from_slice(&self.address);
    }
}

impl SocketType {
    const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Stream),
            2 => Some(Self::Datagram),
            _ => None,
        }
    }
}

impl Request {
    const ALL: [Self; 5] =
        [Self::Connect, Self::Conclude, Self::Rendezvous, Self::RendezvousDone, Self::Reject];

    fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|request| request.code() == code)
    }

    const fn code(self) -> u32 {
        let signed: i32 = match self {
            Self::Connect => 1,
            Self::Conclude => -1,
            Self::Rendezvous => 0,
            Self::RendezvousDone => -2,
            Self::Reject => 1002,
        };
        signed.cast_unsigned()
    }
}

/// Returns an address in the encoding of handshakes: the octets of each word reversed, as by libudt on little-endian
/// hosts.
#[must_use]
pub fn address_words(address: IpAddr) -> [u8; 16] {
    let mut words = [0; 16];
    match address {
        IpAddr::V4(address) => words[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => words = address.octets(),
    }
    words.chunks_mut(4).for_each(<[u8]>::reverse);
    words
}
