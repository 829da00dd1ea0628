//! The path as a UDP relay: no privilege, any number of hosts, and a separate path for each client.
//!
//! A client writes to the relay as it would to the target, and the target sees each client at a port of its own. Each client's
//! datagrams pass two links of the same kind, one per direction. Client `n`, counted from 0 in the order of their first
//! datagrams, meets the same random decisions as node `n` of the virtual network behind such a cable with the same seed.

mod client;
mod train;
mod work;

use std::io;
use std::net::SocketAddr;

use sim::Link;
use sys::{Buffer, OpenError, ReceiveOptions, ReceiveSocket, ReceiveTechniques, SendTechniques};

use crate::conditions::{Conditions, ConditionsError};
use crate::driver::{Manner, Trains};
use crate::report::{Report, Watch};
use work::Work;

/// Default maximum number of simultaneous clients: each has a socket.
pub const USUAL_CLIENTS: usize = 64;
/// Requested socket buffer size: a stall of 50 ms at 1 Gbit/s, with the kernel's overhead.
const BUFFER_BYTES: usize = 16 << 20;

/// The address a relay listens on, its target, and the conditions of the path.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Address that clients send to.
    pub listen: SocketAddr,
    /// Address that datagrams are forwarded to.
    pub target: SocketAddr,
    /// Conditions towards the target.
    pub forward: Conditions,
    /// Conditions towards the client.
    pub reverse: Conditions,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Maximum number of simultaneous clients.
    pub most_clients: usize,
    /// Settings of the driver.
    pub manner: Manner,
}

/// Reason why a relay cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The conditions are invalid.
    #[error(transparent)]
    Conditions(#[from] ConditionsError),
    /// The socket for clients cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The addresses are of different IP versions.
    #[error("{listen} and {target} differ in IP version\ngive both addresses in the same version")]
    Versions {
        /// Address that clients send to.
        listen: SocketAddr,
        /// Address of the target.
        target: SocketAddr,
    },
    /// The target is the relay itself.
    #[error(
        "{0} is both the relay's own address and its target\ngive the address of the server as the target"
    )]
    Itself(SocketAddr),
    /// The maximum number of clients is zero.
    #[error("the maximum number of clients is 0\nallow at least one")]
    NoClients,
}

/// A relay that listens, and forwards datagrams while it [runs](Self::run).
pub struct Relay {
    near: ReceiveSocket,
    options: RelayOptions,
}

impl Relay {
    /// Opens the relay's address; datagrams that arrive from now on wait in its socket.
    ///
    /// # Errors
    /// [`RelayError`] says what to do about it.
    pub fn open(options: RelayOptions) -> Result<Self, RelayError> {
        let (listen, target) = (options.listen, options.target);
        options.links()?;
        if listen.is_ipv4() != target.is_ipv4() {
            return Err(RelayError::Versions { listen, target });
        }
        if listen == target {
            return Err(RelayError::Itself(listen));
        }
        if options.most_clients == 0 {
            return Err(RelayError::NoClients);
        }
        let near = ReceiveSocket::open(&options.receive(listen))?;
        // A missing route to the target shows now, and not with the first client.
        client::towards(&options)?;
        Ok(Self { near, options })
    }

    /// Returns the address that clients send to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.near.local_address()
    }

    /// Returns the buffer size that the kernel granted.
    #[must_use]
    pub const fn granted_buffer(&self) -> Buffer {
        self.near.granted_buffer()
    }

    /// Relays until the watch stops it.
    ///
    /// # Errors
    /// If the requested priority is not permitted, or the kernel fails a socket or a wait.
    pub fn run(self, watch: &Watch) -> io::Result<Report> {
        Work::begin(self.near, self.options)?.run(watch)
    }
}

impl RelayOptions {
    /// Creates options from the required settings.
    #[must_use]
    pub fn new(listen: SocketAddr, target: SocketAddr, conditions: Conditions, seed: u64) -> Self {
        let (forward, reverse) = (conditions.clone(), conditions);
        let (most_clients, manner) = (USUAL_CLIENTS, Manner::default());
        Self { listen, target, forward, reverse, seed, most_clients, manner }
    }

    fn links(&self) -> Result<[Link; 2], ConditionsError> {
        Ok([self.forward.link()?, self.reverse.link()?])
    }

    fn receive(&self, address: SocketAddr) -> ReceiveOptions {
        let techniques = match self.manner.trains {
            Trains::Taken => ReceiveTechniques::default(),
            Trains::Split => ReceiveTechniques { gro: false, batches: true },
        };
        ReceiveOptions { techniques, ..ReceiveOptions::at(address, BUFFER_BYTES) }
    }

    const fn send(&self) -> SendTechniques {
        match self.manner.trains {
            Trains::Taken => SendTechniques { gso: true, batches: true, connect: true },
            Trains::Split => SendTechniques { gso: false, batches: false, connect: true },
        }
    }
}
