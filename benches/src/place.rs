//! Where the two sides of a pair stand: both on this host's loopback, or in two namespaces joined by a veth pair.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use anyhow::{Context, Result};

/// The name of the interface in each of the two namespaces.
const VETH: &str = "veth0";
/// The addresses of the two.
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 1);
const READER: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 2);

/// The MTU of an Ethernet, and of a pair that is not told otherwise.
pub const ETHERNET_MTU: u16 = 1_500;

/// A network between a source and a reader; dropping it removes what was made for it.
pub struct Place {
    /// As cases name it.
    pub name: &'static str,
    /// The interface on either side.
    pub interface: &'static str,
    /// A port that nobody uses.
    pub port: u16,
    /// The source's address.
    pub source: Ipv4Addr,
    /// The reader's address.
    pub reader: Ipv4Addr,
    namespaces: Option<[Namespace; 2]>,
}

/// Which side of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Where data come from.
    Source,
    /// Where they go to.
    Reader,
}

/// A named network namespace; dropping it deletes it and the interfaces in it.
struct Namespace(String);

impl Place {
    /// Takes this host's loopback.
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

    /// Makes two namespaces and the pair between them; the reason if that is not permitted here.
    ///
    /// # Errors
    /// If no port is free.
    pub fn veth(name: &'static str, mtu: u16) -> Result<Result<Self, String>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Err("network namespaces need root".to_owned()));
        }
        let port = free_port()?;
        Ok(namespaces(name, mtu).map(|namespaces| Self {
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
    /// If this program does not know where it lies.
    pub fn command(&self, side: Side) -> Result<Command> {
        let program = std::env::current_exe().context("this program does not know where it lies")?;
        Ok(self.command_of(side, program))
    }

    /// Returns a command that starts a program on one side.
    #[must_use]
    pub fn command_of(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let Some(namespaces) = &self.namespaces else { return Command::new(program) };
        let Namespace(name) = &namespaces[usize::from(side == Side::Reader)];
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(reason) = ip(&["netns", "delete", &self.0]) {
            eprintln!("a namespace is left over: {reason}");
        }
    }
}

fn namespaces(place: &str, mtu: u16) -> Result<[Namespace; 2], String> {
    let make = |side: &str| {
        let name = format!("tallycast-bench-{}-{place}-{side}", std::process::id());
        ip(&["netns", "add", &name]).map(|()| Namespace(name))
    };
    let (a, b) = (make("a")?, make("b")?);
    ip(&["-n", &a.0, "link", "add", VETH, "type", "veth", "peer", "name", VETH, "netns", &b.0])?;
    for (Namespace(name), address) in [(&a, SOURCE), (&b, READER)] {
        ip(&["-n", name, "address", "add", &format!("{address}/24"), "dev", VETH])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        ip(&["-n", name, "link", "set", VETH, "mtu", &mtu.to_string(), "up"])?;
    }
    Ok([a, b])
}

/// Returns a port that nobody used a moment ago.
fn free_port() -> Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let shown = format!("ip {}", arguments.join(" "));
    let output =
        Command::new("ip").args(arguments).output().map_err(|error| format!("`{shown}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{shown}`: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
