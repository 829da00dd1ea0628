//! A port at which peers may establish connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::keys::PublicKey;
use ::udt::{EndpointStats, SocketConfig, SocketId, SocketType};
use engine::{ReliablePort, WaitError};
use noise::SessionStats;

use super::keys::Purpose;
use super::{Address, Connection, Error, Options};

/// A port at which peers may establish connections; dropping it refuses new ones, and accepted ones continue.
pub struct Listener {
    port: Arc<ReliablePort>,
    socket: SocketId,
}

impl Listener {
    /// Listens for streams at an address with its options.
    ///
    /// # Errors
    /// If the address cannot be used here, or another program has it.
    pub fn bind(address: &Address) -> Result<Self, Error> {
        Self::bind_to(address.resolve()?, &address.options(SocketType::Stream)?)
    }

    /// Listens at an address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// If the address cannot be used here, or another program has it.
    pub fn bind_to(address: SocketAddr, options: &Options) -> Result<Self, Error> {
        let port = Arc::new(options.open(address, Purpose::Listen)?);
        let config: SocketConfig = options.socket.clone();
        // The port is new, so it has no listener yet.
        let socket = port.listen(config, options.backlog).ok_or(WaitError::TimedOut)?;
        Ok(Self { port, socket })
    }

    /// Waits for the next client; `None` waits without limit.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if none arrived in time; others if the port failed.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Connection, WaitError> {
        let socket = self.port.accept(timeout)?;
        Ok(Connection::of(Arc::clone(&self.port), socket))
    }

    /// Returns the counters of its port that belong to no connection, such as clients that were refused or
    /// sent nothing after their handshake.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.port.endpoint_stats()
    }

    /// Returns the counters of its sessions, such as of peers that are not listed; none if it is in the clear.
    #[must_use]
    pub fn session_stats(&self) -> Option<SessionStats> {
        self.port.session_stats()
    }

    /// Replaces the list of peers of a secured listener: who is no longer in it is not heard from now on, and its
    /// connections end by its silence, or as their holder hangs up.
    pub fn relist(&self, peers: &BTreeSet<PublicKey>) {
        self.port.relist(peers);
    }

    /// Returns the address it listens at, with the port that the kernel chose.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.port.local_address()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.port.close(self.socket);
    }
}
