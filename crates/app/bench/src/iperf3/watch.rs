//! What is told to whoever looks on.

use std::net::SocketAddr;

use super::error::ProtocolError;
use super::report::Report;
use super::traffic::Interval;

/// Whoever looks on while tests run.
pub trait Watch {
    /// Is told what happens.
    fn notice(&mut self, notice: Notice<'_>);

    /// Tells whether it is to end. Asked about ten times a second.
    fn is_wanted_to_end(&self) -> bool;
}

/// What happens.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The server waits here for clients.
    Listening(SocketAddr),
    /// A client's test begins.
    Accepted(SocketAddr),
    /// A client was sent away.
    Refused {
        /// Who.
        peer: SocketAddr,
        /// Why.
        reason: &'static str,
    },
    /// A data stream is there.
    Connected {
        /// Its number.
        id: u32,
        /// This end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// Something is not as it was asked for.
    Warning(String),
    /// An interval is over.
    Interval(&'a Interval),
    /// A test is over.
    Ended(&'a Report),
    /// A test broke off; the server goes on.
    Failed {
        /// Who.
        peer: SocketAddr,
        /// Why.
        error: &'a ProtocolError,
    },
}
