//! The observer of tests and its notices.

use std::net::SocketAddr;

use sys::Cancellation;

use super::error::ProtocolError;
use super::figures::Interval;
use super::report::Report;

/// Observer of running tests.
pub trait Watch {
    /// Receives a notice.
    fn notice(&mut self, notice: Notice<'_>);

    /// Returns the request to end.
    fn cancellation(&self) -> &Cancellation;
}

/// A notice for the observer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The server listens at this address.
    Listening(SocketAddr),
    /// A client's test begins.
    Accepted(SocketAddr),
    /// A client was refused.
    Refused {
        /// Address of the client.
        peer: SocketAddr,
        /// The reason.
        reason: &'static str,
    },
    /// A data stream is open.
    Connected {
        /// Number of the stream.
        id: u32,
        /// Address of this end.
        local: SocketAddr,
        /// Address of the other end.
        remote: SocketAddr,
    },
    /// A setting could not be applied as requested.
    Warning(String),
    /// An interval is over.
    Interval(&'a Interval),
    /// A test is over.
    Ended(&'a Report),
    /// A test broke off; the server continues.
    Failed {
        /// Address of the peer.
        peer: SocketAddr,
        /// The reason.
        error: &'a ProtocolError,
    },
}
