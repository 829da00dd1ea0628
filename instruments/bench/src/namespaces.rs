//! Two network namespaces with a cable between them: they stand for two hosts where there is no second machine.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sys::Namespace;
pub use sys::{NamespaceError, Stay};

use crate::child::Program;
use crate::emulated_link::{EmulatedLink, EmulatedLinkError, LinkSettings};
use crate::local_server::{LocalServer, LocalServerError};

const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 84, 7, 1);
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 84, 7, 2);

/// The end of the cable in either namespace.
const INTERFACE: &str = "bench0";

/// Settings of the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cable {
    /// MTU of the cable; by default the system's, 1,500.
    pub mtu_bytes: Option<u32>,
}

/// Two namespaces. Dropping them removes them.
#[derive(Debug)]
pub struct Namespaces {
    server: Namespace,
    client: Namespace,
}

impl Namespaces {
    /// Creates both, with a cable between them, and removes the leftovers of killed benches.
    ///
    /// # Errors
    /// [`NamespaceError`]; everything created until then is removed.
    pub fn make(cable: Cable) -> Result<Self, NamespaceError> {
        let (labels, addresses) = (["bench-server", "bench-client"], [SERVER_ADDRESS, CLIENT_ADDRESS]);
        let [server, client] = Namespace::pair(labels, INTERFACE, addresses, cable.mtu_bytes)?;
        Ok(Self { server, client })
    }

    /// Adds a delay to the cable, the same in each direction.
    ///
    /// # Errors
    /// [`NamespaceError`], above all where this kernel has no `netem`; there is no delay then.
    pub fn delay(&self, each_way: Duration) -> Result<(), NamespaceError> {
        // Room for the packets in flight at 10 Gbit/s in packets of 1,500 bytes, several times over.
        let netem = format!("root netem delay {}us limit 100000", each_way.as_micros());
        [&self.server, &self.client]
            .into_iter()
            .try_for_each(|end| end.run(&format!("tc qdisc add dev {INTERFACE} {netem}")).map(drop))
    }

    /// Lays an emulated link beside the cable: it exists until it is dropped.
    ///
    /// # Errors
    /// [`EmulatedLinkError`] if a device or the emulator's thread cannot be made.
    pub fn emulate(&self, settings: &LinkSettings) -> Result<EmulatedLink, EmulatedLinkError> {
        EmulatedLink::open([self.server.name(), self.client.name()], settings)
    }

    /// Starts a server in one of them, at its end of the cable.
    ///
    /// # Errors
    /// As for [`LocalServer::start`].
    pub fn start_server(&self, program: &Program) -> Result<LocalServer, LocalServerError> {
        self.start_server_at(program, SERVER_ADDRESS)
    }

    /// Starts a server in one of them, at its end of the emulated link.
    ///
    /// # Errors
    /// As for [`LocalServer::start`].
    pub fn start_server_over(
        &self,
        _link: &EmulatedLink,
        program: &Program,
    ) -> Result<LocalServer, LocalServerError> {
        self.start_server_at(program, EmulatedLink::SERVER_ADDRESS)
    }

    fn start_server_at(&self, program: &Program, address: Ipv4Addr) -> Result<LocalServer, LocalServerError> {
        let mut command = self.server.command(&program.path);
        command.args(&program.arguments);
        LocalServer::start_by(command, program, address.into())
    }

    /// Moves this thread, and those that it starts, into the other one.
    ///
    /// # Errors
    /// [`NamespaceError`] if it cannot be entered.
    pub fn enter(&self) -> Result<Stay, NamespaceError> {
        self.client.enter()
    }

    /// Returns the client's address.
    #[must_use]
    pub const fn client_address(&self) -> IpAddr {
        IpAddr::V4(CLIENT_ADDRESS)
    }
}
