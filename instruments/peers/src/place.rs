//! Location of the two sides of a pair: both on this host's loopback, or in two namespaces joined by a veth pair.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use anyhow::{Context, Result};
use sys::Namespace;

/// Name of the interface in each of the two namespaces.
const VETH: &str = "veth0";
/// Addresses of the two sides.
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 1);
const READER: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 2);

/// MTU of Ethernet, and the default of a pair. Units: bytes.
pub const ETHERNET_MTU: u16 = 1_500;

/// A network between a source and a reader; dropping it removes its namespaces.
pub struct Place {
    /// Name in case names.
    pub name: &'static str,
    /// Interface on either side.
    pub interface: &'static str,
    /// Unused port.
    pub port: u16,
    /// Source's address.
    pub source: Ipv4Addr,
    /// Reader's address.
    pub reader: Ipv4Addr,
    namespaces: Option<[Namespace; 2]>,
}

/// Side of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Sending side.
    Source,
    /// Receiving side.
    Reader,
}

impl Place {
    /// Returns this host's loopback.
    ///
    /// # Errors
    /// If no port is free.
    pub fn loopback() -> Result<Self> {
        let address = Ipv4Addr::LOCALHOST;
        Ok(Self {
            name: "loopback",
            interface: "lo",
            port: free_port()?,
            source: address,
            reader: address,
            namespaces: None,
        })
    }

    /// Creates two namespaces and the pair between them; returns the reason if this is not permitted here.
    ///
    /// # Errors
    /// If no port is free.
    pub fn veth(name: &'static str, mtu: u16) -> Result<Result<Self, String>> {
        let port = free_port()?;
        let pair = Namespace::pair([name; 2], VETH, [SOURCE, READER], Some(mtu.into()));
        Ok(pair.map_err(|reason| reason.to_string()).map(|namespaces| Self {
            name,
            interface: VETH,
            port,
            source: SOURCE,
            reader: READER,
            namespaces: Some(namespaces),
        }))
    }

    /// Returns a command that starts this program again on one side.
    ///
    /// # Errors
    /// If this program's own path is unknown.
    pub fn command(&self, side: Side) -> Result<Command> {
        let program = std::env::current_exe().context("cannot find this program's own path")?;
        Ok(self.command_of(side, program))
    }

    /// Returns a command that starts a program on one side.
    #[must_use]
    pub fn command_of(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let Some(namespaces) = &self.namespaces else { return Command::new(program) };
        namespaces[usize::from(side == Side::Reader)].command(program)
    }
}

/// Returns a port that was unused a moment ago.
fn free_port() -> Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}
