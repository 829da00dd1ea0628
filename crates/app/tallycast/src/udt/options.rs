//! Settings of a connection.

use std::net::SocketAddr;

use ::udt::{SocketConfig, SocketType};
use engine::{PortOptions, ReliablePort};

use super::keys::Purpose;
use super::{Error, Keys};

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings that the two ends negotiate, and those of this end.
    pub socket: SocketConfig,
    /// The kernel's buffer for packets that wait to be read. Units: bytes.
    pub receive_buffer_bytes: usize,
    /// The kernel's buffer for packets that wait to be sent. Units: bytes.
    pub send_buffer_bytes: usize,
    /// True if the kernel handles trains of packets as one (GSO, GRO).
    pub offloads: bool,
    /// Number of clients that may wait to be accepted before others are refused; of a listener.
    pub backlog: usize,
    /// Keys with which all datagrams are secured; none for those of UDT's library, in the clear.
    pub keys: Option<Keys>,
}

impl Options {
    /// Returns the defaults for a stream of bytes.
    #[must_use]
    pub fn stream() -> Self {
        Self::new(SocketType::Stream)
    }

    /// Returns the defaults for messages.
    #[must_use]
    pub fn messages() -> Self {
        Self::new(SocketType::Datagram)
    }

    fn new(kind: SocketType) -> Self {
        Self {
            socket: SocketConfig::new(kind),
            receive_buffer_bytes: 8 << 20,
            send_buffer_bytes: 1 << 20,
            offloads: true,
            backlog: 64,
            keys: None,
        }
    }

    /// Opens a port that connects to one peer, for who drives it alone.
    ///
    /// # Errors
    /// If the keys name no peer, or the address cannot be used here.
    #[doc(hidden)]
    pub fn open_to_connect(&self, local: SocketAddr) -> Result<ReliablePort, Error> {
        self.open(local, Purpose::Connect)
    }

    /// Opens a port at which peers may connect, for who drives it alone.
    ///
    /// # Errors
    /// If the keys list no peer, or the address cannot be used here.
    #[doc(hidden)]
    pub fn open_to_listen(&self, local: SocketAddr) -> Result<ReliablePort, Error> {
        self.open(local, Purpose::Listen)
    }

    /// Opens a port with random seed and secret.
    pub(super) fn open(&self, address: SocketAddr, purpose: Purpose) -> Result<ReliablePort, Error> {
        let keys = self.keys.as_ref().map(|keys| keys.of_port(purpose)).transpose()?;
        let (seed, low, high) = (crate::node::random(), crate::node::random(), crate::node::random());
        let secret = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        let (receive_buffer_bytes, send_buffer_bytes) = (self.receive_buffer_bytes, self.send_buffer_bytes);
        let options = PortOptions {
            address,
            receive_buffer_bytes,
            send_buffer_bytes,
            offloads: self.offloads,
            seed,
            secret,
            keys,
        };
        Ok(ReliablePort::open(&options)?)
    }
}
