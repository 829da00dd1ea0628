//! The path as a UDP relay: no privilege, any number of hosts, and each client has a path of its own.
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

/// Clients at once unless it is said otherwise: each has a socket.
pub const USUAL_CLIENTS: usize = 64;
/// What socket buffers are asked for: a stall of 50 ms at 1 Gbit/s, with the kernel's overhead.
const BUFFER_BYTES: usize = 16 << 20;

/// The address a relay listens on, its target, and the conditions of the path.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Where clients write to.
    pub listen: SocketAddr,
    /// Where what they write goes.
    pub target: SocketAddr,
    /// The path to the target.
    pub forward: Conditions,
    /// The path to the client.
    pub reverse: Conditions,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How many clients there may be at once.
    pub most_clients: usize,
    /// How a driver works.
    pub manner: Manner,
}

/// Why a relay cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The path cannot be so.
    #[error(transparent)]
    Conditions(#[from] ConditionsError),
    /// The socket for clients.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One speaks IPv4 and the other IPv6.
    #[error("{listen} and {target} are of two IP versions\ngive both addresses in the same version")]
    Versions {
        /// Where clients write to.
        listen: SocketAddr,
        /// Where what they write goes.
        target: SocketAddr,
    },
    /// It would relay to itself.
    #[error(
        "{0} is where the relay listens and where it relays to\ngive the address of the server as the target"
    )]
    Itself(SocketAddr),
    /// Nobody could use it.
    #[error("a relay needs room for a client\nallow at least one")]
    NoClients,
}

/// A relay that listens, and relays as soon as it [runs](Self::run).
pub struct Relay {
    near: ReceiveSocket,
    options: RelayOptions,
}

impl Relay {
    /// Opens the relay's address; what comes from now on waits there.
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
        // Whether there is a way to the target shows now, and not with the first client.
        client::towards(&options)?;
        Ok(Self { near, options })
    }

    /// Returns where clients shall write to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.near.local_address()
    }

    /// Returns what the kernel made of the buffer that was asked for.
    #[must_use]
    pub const fn granted_buffer(&self) -> Buffer {
        self.near.granted_buffer()
    }

    /// Relays until the watch stops it.
    ///
    /// # Errors
    /// If the wanted priority is not allowed, or the kernel fails a socket or a wait.
    pub fn run(self, watch: &Watch) -> io::Result<Report> {
        Work::begin(self.near, self.options)?.run(watch)
    }
}

impl RelayOptions {
    /// Makes options of what has to be said.
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
