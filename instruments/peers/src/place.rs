//! Location of the two sides of a pair: both on this host's loopback, or in two namespaces joined by a veth pair.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use anyhow::Result;
use serde::Serialize;
use sys::Namespace;

use crate::process::{Process, this_program};
use crate::{Bench, Standing};

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

    /// Creates two namespaces and the pair between them; `None`, and a note, if this is not permitted here.
    ///
    /// # Errors
    /// If no port is free.
    pub fn veth(bench: &Bench, name: &'static str, mtu: u16) -> Result<Option<Self>> {
        let port = free_port()?;
        let pair = Namespace::pair([name; 2], VETH, [SOURCE, READER], Some(mtu.into()));
        let pair = pair.inspect_err(|reason| bench.note(&format!("{name}: not measured: {reason}")));
        Ok(pair.ok().map(|namespaces| Self {
            name,
            interface: VETH,
            port,
            source: SOURCE,
            reader: READER,
            namespaces: Some(namespaces),
        }))
    }

    /// Starts this program again in a role on one side.
    ///
    /// # Errors
    /// If this program cannot be started.
    pub fn start(
        &self,
        side: Side,
        role: &'static str,
        standing: Standing,
        order: &impl Serialize,
    ) -> Result<Process> {
        Process::start_by(self.command(side, this_program()?), role, standing, order)
    }

    /// Returns a command that starts a program on one side.
    #[must_use]
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let Some(namespaces) = &self.namespaces else { return Command::new(program) };
        namespaces[usize::from(side == Side::Reader)].command(program)
    }
}

/// Returns a port that was unused a moment ago.
fn free_port() -> Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}
