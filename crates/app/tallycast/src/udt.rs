//! Reliable connections over UDP, in blocking form: UDT 4 on the wire, any congestion control inside.
//!
//! The functions of UDT's library have counterparts here: a [`Listener`] listens and accepts, a
//! [`Connection`] connects (or meets a peer that connects at the same time), sends and receives a stream of
//! bytes or messages, and closes. Peers may be programs of that library: see `docs/protocol/udt.md`.
//!
//! ```
//! use tallycast::udt::{Address, Connection, Listener};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::bind(&"udt://127.0.0.1:0".parse()?)?;
//! let address = Address::at(listener.local_address()).with("cc", "reno");
//! # std::thread::scope(|scope| {
//! scope.spawn(move || {
//!     let connection = Connection::connect(&address)?;
//!     connection.send_all(b"samples")?;
//!     connection.close()?; // waits until the peer has acknowledged everything
//! #   Ok::<(), tallycast::udt::Error>(())
//! });
//! let connection = listener.accept(None)?;
//! let mut samples = Vec::new();
//! assert_eq!(connection.receive_into(&mut samples, u64::MAX)?, 7);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Files have an offset, as in `sendfile` and `recvfile`; both ends know how many bytes are to be
//! transferred:
//!
//! ```
//! # use std::io::Write;
//! # use tallycast::udt::{Connection, Listener, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = Listener::bind_to("127.0.0.1:0".parse()?, &Options::stream())?;
//! # let sending = Connection::connect_to(listener.local_address(), &Options::stream())?;
//! # let receiving = listener.accept(None)?;
//! let mut file = tempfile::tempfile()?;
//! file.write_all(b"0123456789")?;
//! assert_eq!(sending.send_file(&file, 4, 100)?, 6);
//!
//! let copy = tempfile::tempfile()?;
//! assert_eq!(receiving.receive_file(&copy, 4, 6)?, 6);
//! # assert_eq!(copy.metadata()?.len(), 10);
//! # Ok(())
//! # }
//! ```
//!
//! | UDT | here |
//! |---|---|
//! | `socket(…, SOCK_STREAM or SOCK_DGRAM, …)`, `setsockopt` | [`Options::stream`], [`Options::messages`], and their fields |
//! | `bind`, `listen`, `accept` | [`Listener::bind`], [`Listener::accept`]; [`Connection::connect_from`] where a client binds |
//! | `connect`, rendezvous | [`Connection::connect_to`], [`Connection::rendezvous`] |
//! | `send`, `recv` | [`Connection::send`], [`Connection::receive`], or [`Write`](std::io::Write) and [`Read`](std::io::Read) |
//! | `sendmsg` with time and order, `recvmsg` | [`Connection::send_message`] with a [`Lifetime`], [`Connection::receive_message`] |
//! | `sendfile`, `recvfile` | [`Connection::send_file`], [`Connection::receive_file`]; of what is no file [`send_from`](Connection::send_from), [`receive_into`](Connection::receive_into) |
//! | `perfmon`, and its difference to the last look | [`Connection::stats`], [`Stats::since`] |
//! | `getsockstate`, `getpeername`, `getsockname` | [`Connection::closed`], [`Connection::peer_address`], [`Connection::local_address`] |
//! | `UDT_SNDSYN`, `UDT_RCVSYN`, `UDT_SNDTIMEO`, `UDT_RCVTIMEO` | [`Connection::set_send_timeout`], [`Connection::set_receive_timeout`]; of zero: what cannot be done at once is not waited for |
//! | `UDT_MSS`, `UDT_FC` and `UDT_RCVBUF`, `UDT_SNDBUF`, `UDT_LINGER`, `UDT_MAXBW`, `UDT_CC` | `packet_bytes`, `receive_buffer_packets`, `send_buffer_packets`, `linger`, `max_bytes_per_s`, `congestion` of [`SocketConfig`] |
//! | `UDP_RCVBUF`, `UDP_SNDBUF` | `receive_buffer_bytes`, `send_buffer_bytes` of [`Options`] |
//! | `UDT_SNDDATA` | `queued_bytes` of [`Stats`] |
//! | error of the peer (7000) | [`WaitError::Peer`]; [`Connection::fail`] reports it |
//! | `epoll`, `select` | threads: one may send while another receives |
//! | `close` | [`Connection::close`], or dropping it |
//!
//! [`Stats`] has the values of `perfmon`, with the unit in the name:
//!
//! | `perfmon` | here |
//! |---|---|
//! | `msTimeStamp`, `usSndDuration` | `age`, `busy` |
//! | `pktSent`, `pktRecv`, `pktRetrans` | `sent_packets`, `received_packets` and `duplicate_packets`, `retransmitted_packets` |
//! | `pktSndLoss`, `pktRcvLoss` | `lost_packets`, `missing_packets` |
//! | `pktSentACK`, `pktRecvACK`, `pktSentNAK`, `pktRecvNAK` | `sent_acks`, `received_acks` (light ones, too), `sent_naks`, `received_naks` |
//! | `mbpsSendRate`, `mbpsRecvRate` | `sent_bytes`, `received_bytes` by `age`, of a difference; every packet with its own size |
//! | `usPktSndPeriod` | `spacing_ps` |
//! | `pktFlowWindow`, `pktCongestionWindow`, `pktFlightSize` | `peer_window_packets`, `window_packets`, `in_flight_packets` |
//! | `msRTT`, `mbpsBandwidth` | `round_trip`, `capacity_packets_per_s` |
//! | `byteAvailSndBuf`, `byteAvailRcvBuf` | `send_room_packets`, `receive_room_packets` |

mod address;
mod connection;
mod keys;
mod listener;
mod options;

use std::io;

pub use self::keys::Keys;
/// The contract of congestion controls, and those that are built in.
pub use ::congestion;
pub use ::keys::{PublicKey, Secret, Suite};
pub use ::udt::{
    CloseReason, EndpointStats, FirstSize, Repair, SAFE_PACKET_BYTES, SendError, Silence, SocketConfig,
    SocketType, Source, Stats,
};
pub use address::{Address, AddressError};
pub use connection::{Connection, Lifetime};
pub use engine::{PortError, WaitError};
pub use listener::Listener;
/// Counters of the sessions of a secured port.
pub use noise::SessionStats;
pub use options::Options;

/// Reason why an operation on a reliable connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not valid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The socket cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The connection does not exist, has ended, or the call timed out.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The peer does not answer, or refuses the connection.
    #[error("udt://{peer}: {reason}")]
    Connect {
        /// Address of the peer.
        peer: std::net::SocketAddr,
        /// Reason of the failure.
        reason: WaitError,
    },
    /// The peer to connect to is not known by its key.
    #[error(
        "a secured connection needs the key of the one peer that it connects to, and {listed} are listed\nlist that one only, or name it in the address: peer=KEY"
    )]
    WhichPeer {
        /// Number of listed keys.
        listed: usize,
    },
    /// The peer to connect to is not listed.
    #[error("the peer that the address names is not listed\nlist its key, too")]
    UnlistedPeer,
    /// A listener that would accept nobody.
    #[error("a secured listener accepts listed peers only, and none is listed\nlist the key of each peer")]
    NoPeers,
    /// The system gives no random bits.
    #[error("no random bits for keys: {0}")]
    Random(#[source] io::Error),
    /// The source cannot be read, or the target cannot be written.
    #[error(transparent)]
    File(#[from] io::Error),
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::File(error) => return error,
            Error::Random(error) => return error,
            Error::Address(_) | Error::WhichPeer { .. } | Error::UnlistedPeer | Error::NoPeers => {
                io::ErrorKind::InvalidInput
            }
            Error::Port(_) => io::ErrorKind::AddrNotAvailable,
            Error::Wait(reason) | Error::Connect { reason, .. } => kind_of(reason),
        };
        Self::new(kind, error)
    }
}

/// Returns the standard library's kind of error for the end of a connection.
fn kind_of(reason: WaitError) -> io::ErrorKind {
    match reason {
        WaitError::Closed(CloseReason::Local | CloseReason::Unsent) => io::ErrorKind::NotConnected,
        WaitError::Closed(CloseReason::ByPeer) => io::ErrorKind::BrokenPipe,
        WaitError::Closed(
            CloseReason::Silent | CloseReason::Replaced | CloseReason::PmtuBlackHole { .. },
        )
        | WaitError::Peer(_) => io::ErrorKind::ConnectionAborted,
        WaitError::Closed(CloseReason::NoAnswer) => io::ErrorKind::HostUnreachable,
        WaitError::Closed(CloseReason::Refused) => io::ErrorKind::ConnectionRefused,
        WaitError::Send(SendError::TooLong | SendError::WrongType) => io::ErrorKind::InvalidInput,
        WaitError::Send(_) => io::ErrorKind::NotConnected,
        WaitError::Port(kind) => kind,
        WaitError::TimedOut => io::ErrorKind::TimedOut,
    }
}

#[cfg(test)]
mod tests;
