//! Reliable connections over UDP, in blocking form: UDT 4 on the wire, any congestion control inside.
//!
//! Who knows UDT's library finds its functions here: a [`Listener`] listens and accepts, a [`Connection`] connects
//! (or meets a peer that connects at the same time), sends and receives a stream of bytes or messages, and closes.
//! Peers may be programs of that library: see `docs/protocol/udt.md`.
//!
//! ```no_run
//! use std::io::Write;
//! use tallycast::udt::{Address, Connection};
//!
//! let address: Address = "udt://archive.example.org:7400?cc=reno".parse()?;
//! let connection = Connection::connect(&address)?;
//! (&connection).write_all(b"samples")?;
//! connection.close()?; // waits until the peer has acknowledged everything
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | UDT | here |
//! |---|---|
//! | `socket`, `setsockopt` | [`Options`] |
//! | `bind`, `listen`, `accept` | [`Listener::bind`], [`Listener::accept`] |
//! | `connect`, rendezvous | [`Connection::connect_to`], [`Connection::rendezvous`] |
//! | `send`, `recv` | [`Connection::send`], [`Connection::receive`], or [`Write`](std::io::Write) and [`Read`](std::io::Read) |
//! | `sendmsg`, `recvmsg` | [`Connection::send_message`], [`Connection::receive_message`] |
//! | `sendfile`, `recvfile` | [`Connection::send_from`], [`Connection::receive_into`] |
//! | `perfmon` | [`Connection::stats`] |
//! | `UDT_SNDTIMEO`, `UDT_RCVTIMEO` | [`Connection::set_send_timeout`], [`Connection::set_receive_timeout`] |
//! | `close` | [`Connection::close`], or dropping it |

mod address;
mod connection;
mod listener;
mod options;

use std::io;

/// The contract of congestion controls, and those that are built in.
pub use ::congestion;
pub use ::udt::{CloseReason, SAFE_PACKET_BYTES, SendError, Silence, SocketConfig, SocketType, Stats};
pub use address::{Address, AddressError};
pub use connection::{Connection, Lifetime};
pub use engine::{PortError, WaitError};
pub use listener::Listener;
pub use options::Options;

/// Why something reliable was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// There is no socket for it.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The connection is not there, or not any more, or nothing came in time.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// Nobody answers at an address, or does not want us.
    #[error("udt://{peer}: {reason}")]
    Connect {
        /// Where.
        peer: std::net::SocketAddr,
        /// Why not.
        reason: WaitError,
    },
    /// What was to be sent could not be read, or what was received not be written.
    #[error(transparent)]
    File(#[from] io::Error),
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::File(error) => return error,
            Error::Address(_) => io::ErrorKind::InvalidInput,
            Error::Port(_) => io::ErrorKind::AddrNotAvailable,
            Error::Wait(reason) | Error::Connect { reason, .. } => kind_of(reason),
        };
        Self::new(kind, error)
    }
}

/// What the standard library calls the end of a connection.
fn kind_of(reason: WaitError) -> io::ErrorKind {
    match reason {
        WaitError::Closed(CloseReason::Local | CloseReason::Unsent) => io::ErrorKind::NotConnected,
        WaitError::Closed(CloseReason::ByPeer) => io::ErrorKind::BrokenPipe,
        WaitError::Closed(CloseReason::Silent | CloseReason::TooNarrow { .. }) | WaitError::Peer(_) => {
            io::ErrorKind::ConnectionAborted
        }
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
