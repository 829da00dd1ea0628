//! How two ends find together.

use core::net::IpAddr;

use super::{Malformed, Sequence, SocketId, word};

/// The version of the protocol.
pub const VERSION: u32 = 4;

/// What both ends tell each other before data flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handshake {
    /// The protocol's version, 4; libudt's answers to late rendezvous handshakes have 0.
    pub version: u32,
    /// What the socket carries; none where the code makes no sense, as in those answers.
    pub socket_type: Option<SocketType>,
    /// The number of the first packet.
    pub first_sequence: Sequence,
    /// The largest packet, with IP, UDP and UDT headers. Units: bytes.
    pub packet_bytes: u32,
    /// How many packets may be in flight until the first acknowledgement.
    pub window_packets: u32,
    /// What is asked or answered.
    pub request: Request,
    /// The socket of whoever sent this; a challenge repeats the asking socket.
    pub socket: SocketId,
    /// What a listener wants to see again before it believes the sender's address.
    pub cookie: u32,
    /// The address of the receiver of this as its sender sees it, as [`address_words`] has it; nothing depends on it.
    pub address: [u8; 16],
}

/// What a socket carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketType {
    /// Bytes.
    Stream = 1,
    /// Messages.
    Datagram = 2,
}

/// What a handshake asks or answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// A client's first, and the listener's challenge to it.
    Connect,
    /// A client's second with the cookie, the listener's answer to it, and the second step of a rendezvous.
    Conclude,
    /// The first step of a rendezvous.
    Rendezvous,
    /// The answer to a handshake of a rendezvous that is concluded already.
    RendezvousDone,
    /// The listener does not want the client.
    Reject,
}

impl Handshake {
    /// The size of a handshake's body, in bytes.
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

/// Returns an address as handshakes have it: the octets of each word in reverse, as libudt on any usual host does.
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
