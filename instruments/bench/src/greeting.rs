//! The greeting of a data connection: the token of its run, and its number in the run.
//!
//! The token is sent to the client alone, over the control connection; connections without it are refused.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use sys::{Interest, Poller, TcpAcceptor, TcpConnection, TcpError, clock};
use units::Instant;

pub(crate) const GREETING_BYTES: usize = 16;
const MAGIC: u32 = 0x7463_7031;

/// The poller's only descriptor.
const SOCKET: u64 = 0;

/// Maximum time a connection may take to greet. Longer than a lost greeting takes to be sent again, and short
/// enough that a silent connection does not use up the time of the others.
pub(crate) const GREETING_PATIENCE: Duration = Duration::from_secs(1);

/// Returns a new token: the standard library seeds every `RandomState` from the system.
pub(crate) fn token() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the greeting of a connection.
pub(crate) fn greeting(token: u64, number: u32) -> [u8; GREETING_BYTES] {
    let words = (u128::from(MAGIC) << 96) | (u128::from(token) << 32) | u128::from(number);
    words.to_be_bytes()
}

/// Accepts a pending connection: with its number if it is of the run, `Stranger` otherwise.
pub(crate) fn accept<E: From<TcpError> + From<io::Error>>(
    acceptor: &TcpAcceptor,
    peer: IpAddr,
    token: u64,
) -> Result<Option<Accepted>, E> {
    let Some(connection) = acceptor.accept()? else { return Ok(None) };
    if connection.peer_address().ip().to_canonical() != peer.to_canonical() {
        return Ok(Some(Accepted::Stranger));
    }
    let number = read(&connection, token, clock::monotonic() + GREETING_PATIENCE)?;
    Ok(Some(number.map_or(Accepted::Stranger, |number| Accepted::OfRun(number, connection))))
}

/// A connection that was accepted.
pub(crate) enum Accepted {
    /// A connection of the run, with its number.
    OfRun(u32, TcpConnection),
    /// A connection from another host, or without the token; it was closed.
    Stranger,
}

/// Reads the number of a connection; `None` if it is not of this run.
fn read(connection: &TcpConnection, token: u64, deadline: Instant) -> io::Result<Option<u32>> {
    let mut said = [0; GREETING_BYTES];
    let mut read = 0;
    let mut poller = Poller::new()?;
    poller.add(connection, SOCKET, Interest::Read)?;
    while read < GREETING_BYTES {
        match connection.receive(&mut said[read..]) {
            Ok(Some(0)) | Err(_) => return Ok(None),
            Ok(Some(count)) => read += count,
            Ok(None) if clock::monotonic() >= deadline => return Ok(None),
            Ok(None) => drop(poller.wait(Some(deadline))?),
        }
    }
    let number = u32::from_be_bytes(*said.last_chunk().expect("a greeting ends with four bytes of number"));
    Ok((said == greeting(token, number)).then_some(number))
}
