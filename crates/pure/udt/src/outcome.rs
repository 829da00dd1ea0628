//! What a socket tells its owner.

use crate::SocketId;

/// A packet size that nearly every way carries: the least that IPv6 has (RFC 8200 §5).
pub const SAFE_PACKET_BYTES: u32 = 1_280;

/// News of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The connection that was asked for stands.
    Connected,
    /// A listener has a new connection, whose peer has shown that it heard the answer to its handshake.
    Accepted {
        /// Its socket.
        socket: SocketId,
    },
    /// There is something to receive where there was nothing.
    Readable,
    /// There is room again after something found none.
    Writable,
    /// A message was given up because its time was over.
    Expired {
        /// The message's number on the wire.
        message: u32,
    },
    /// The peer's application failed; libudt knows only 4000, a file that could not be written.
    PeerError {
        /// Why.
        code: u32,
    },
    /// The path has a PMTU black hole: full packets no longer arrive, and small ones do. The owner may allow fragmentation
    /// on the way; if nothing helps the connection ends.
    PmtuBlackHole {
        /// The size of a full packet, headers included. Units: bytes.
        packet_bytes: u32,
    },
    /// The connection is over. What arrived before can still be received.
    Closed(CloseReason),
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// It was closed here.
    #[error("closed here")]
    Local,
    /// It was closed here, and the time to linger was over before the peer had acknowledged everything.
    #[error("closed here before all queued data reached the peer")]
    Unsent,
    /// The peer closed it.
    #[error("the peer closed the connection")]
    ByPeer,
    /// Nothing was heard of the peer for too long.
    #[error("the peer has been silent for too long")]
    Silent,
    /// The path has a PMTU black hole: full packets no longer arrive, and small ones do.
    #[error(
        "packets of {packet_bytes} bytes no longer arrive, smaller ones do: the path has a PMTU black hole\n\
         connect again with smaller packets (mtu={SAFE_PACKET_BYTES} passes nearly everywhere)"
    )]
    PmtuBlackHole {
        /// The size of a full packet, headers included. Units: bytes.
        packet_bytes: u32,
    },
    /// The peer began anew from the same port with other numbers: it does not know this connection any more.
    #[error("the peer restarted and does not know this connection any more")]
    Replaced,
    /// There was no answer to the first handshakes.
    #[error("no answer from the peer")]
    NoAnswer,
    /// The peer does not want this connection: it expects another type of socket, or has too many.
    #[error(
        "the peer refused the connection: it expects another type of socket, or has too many connections"
    )]
    Refused,
}

/// Why nothing is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// There is no such connection, or it is closed.
    #[error("the connection is closed")]
    Closed,
    /// The connection does not stand yet.
    #[error("the connection is not established yet")]
    NotConnected,
    /// Streams carry no messages, and message sockets no streams.
    #[error("this socket is of the other type: a stream takes `send`, a message socket `send_message`")]
    WrongType,
    /// The message is longer than the whole send buffer.
    #[error("the message is longer than the send buffer")]
    TooLong,
}
