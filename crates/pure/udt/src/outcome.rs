//! Events of a socket for its owner.

use crate::SocketId;

/// Packet size that nearly every path carries: the minimum MTU of IPv6 (RFC 8200 §5).
pub const SAFE_PACKET_BYTES: u32 = 1_280;

/// Event of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The requested connection is established.
    Connected,
    /// A listener has a new connection, whose peer has confirmed the answer to its handshake.
    Accepted {
        /// Socket of the new connection.
        socket: SocketId,
    },
    /// Data became available to receive.
    Readable,
    /// Room became available after a call found none.
    Writable,
    /// A message was given up after its deadline. With [`Repair::Timely`](crate::Repair::Timely) it may have arrived
    /// all the same if it was sent: what was sent and not answered in time is given up, too.
    Expired {
        /// The tag of its [terms](crate::Terms).
        tag: u64,
        /// True if all of it had been sent at least once.
        was_sent: bool,
    },
    /// Nothing has come from the peer for long although packets wait for an answer. Until [`LinkUp`](Self::LinkUp)
    /// one message after another tries the path, the newest that the owner has. Only with
    /// [`Repair::Timely`](crate::Repair::Timely).
    LinkDown,
    /// A packet has come from the peer again.
    LinkUp,
    /// The peer's application failed; libudt knows only 4000, a file that could not be written.
    PeerError {
        /// The error code.
        code: u32,
    },
    /// The path has a PMTU black hole: full packets no longer arrive, and small ones do. The owner may allow
    /// fragmentation along the path; if nothing helps the connection ends.
    PmtuBlackHole {
        /// Size of a full packet, headers included. Units: bytes.
        packet_bytes: u32,
    },
    /// The connection has ended. Data received before can still be read.
    Closed(CloseReason),
}

/// Reason of a connection's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// Closed locally.
    #[error("closed locally")]
    Local,
    /// Closed locally, and the linger time passed before the peer had acknowledged everything.
    #[error("closed locally before all queued data reached the peer")]
    Unsent,
    /// Closed by the peer.
    #[error("the peer closed the connection")]
    ByPeer,
    /// Silence of the peer for too long.
    #[error("the peer has been silent for too long")]
    Silent,
    /// The path has a PMTU black hole: full packets no longer arrive, and small ones do.
    #[error(
        "packets of {packet_bytes} bytes no longer arrive, smaller ones do: the path has a PMTU black hole\n\
         connect again with smaller packets (mtu={SAFE_PACKET_BYTES} passes nearly everywhere)"
    )]
    PmtuBlackHole {
        /// Size of a full packet, headers included. Units: bytes.
        packet_bytes: u32,
    },
    /// The peer restarted at the same port with other numbers, and no longer knows this connection.
    #[error("the peer restarted and no longer knows this connection")]
    Replaced,
    /// No answer to the first handshakes.
    #[error("no answer from the peer")]
    NoAnswer,
    /// The peer refuses this connection: it expects another type of socket, or has too many.
    #[error(
        "the peer refused the connection: it expects another type of socket, or has too many connections"
    )]
    Refused,
}

/// Reason why data are not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The connection does not exist, or is closed.
    #[error("the connection is closed")]
    Closed,
    /// The connection is not established yet.
    #[error("the connection is not established yet")]
    NotConnected,
    /// Streams carry no messages, and message sockets no streams.
    #[error("wrong socket type: a stream takes `send`, a message socket `send_message`")]
    WrongType,
    /// The message is longer than the whole send buffer.
    #[error("the message is longer than the send buffer")]
    TooLong,
}
