//! A port at which peers may begin connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::udt::{EndpointStats, SocketConfig, SocketId, SocketType};
use engine::{ReliablePort, WaitError};

use super::{Address, Connection, Error, Options};

/// A port at which peers may begin connections; dropping it refuses new ones, and those accepted go on.
pub struct Listener {
    port: Arc<ReliablePort>,
    socket: SocketId,
}

impl Listener {
    /// Listens for streams at an address with its options.
    ///
    /// # Errors
    /// If the address cannot be used here, or somebody else has it.
    pub fn bind(address: &Address) -> Result<Self, Error> {
        Self::bind_to(address.resolve()?, &address.options(SocketType::Stream)?)
    }

    /// Listens at an address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// If the address cannot be used here, or somebody else has it.
    pub fn bind_to(address: SocketAddr, options: &Options) -> Result<Self, Error> {
        let port = Arc::new(options.open(address)?);
        let config: SocketConfig = options.socket.clone();
        // The port is new: nobody listens at it yet.
        let socket = port.listen(config, options.backlog).ok_or(WaitError::TimedOut)?;
        Ok(Self { port, socket })
    }

    /// Waits for the next client; for ever where no time is given.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if none came in time; others if the port failed.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Connection, WaitError> {
        let socket = self.port.accept(timeout)?;
        Ok(Connection::of(Arc::clone(&self.port), socket))
    }

    /// Returns what was counted at its port beyond its connections, such as clients that were refused or said nothing
    /// after their handshake.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.port.endpoint_stats()
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
