//! Where the two sides of a pair stand: both on this host's loopback, or in two namespaces joined by a veth pair.

use std::net::UdpSocket;
use std::process::Command;

use anyhow::{Context, Result};

/// The name of the interface in each of the two namespaces.
const VETH: &str = "veth0";

/// A network between a source and a reader; dropping it removes what was made for it.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) interface: &'static str,
    pub(crate) port: u16,
    namespaces: Option<[Namespace; 2]>,
}

/// Which side of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Source,
    Reader,
}

/// A named network namespace; dropping it deletes it and the interfaces in it.
struct Namespace(String);

impl Place {
    pub(crate) fn loopback() -> Result<Self> {
        Ok(Self { name: "loopback", interface: "lo", port: free_port()?, namespaces: None })
    }

    /// Makes two namespaces and the pair between them; the reason if that is not permitted here.
    pub(crate) fn veth() -> Result<Result<Self, String>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Err("network namespaces need root".to_owned()));
        }
        let port = free_port()?;
        Ok(namespaces().map(|namespaces| Self {
            name: "veth",
            interface: VETH,
            port,
            namespaces: Some(namespaces),
        }))
    }

    /// Returns a command that starts this program again on one side.
    pub(crate) fn command(&self, side: Side) -> Result<Command> {
        let program = std::env::current_exe().context("this program does not know where it lies")?;
        let Some(namespaces) = &self.namespaces else { return Ok(Command::new(program)) };
        let Namespace(name) = &namespaces[usize::from(side == Side::Reader)];
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name]).arg(program);
        Ok(command)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(reason) = ip(&["netns", "delete", &self.0]) {
            eprintln!("a namespace is left over: {reason}");
        }
    }
}

fn namespaces() -> Result<[Namespace; 2], String> {
    let make = |side: &str| {
        let name = format!("tallycast-bench-{}-{side}", std::process::id());
        ip(&["netns", "add", &name]).map(|()| Namespace(name))
    };
    let (a, b) = (make("a")?, make("b")?);
    ip(&["-n", &a.0, "link", "add", VETH, "type", "veth", "peer", "name", VETH, "netns", &b.0])?;
    for (Namespace(name), address) in [(&a, "10.84.0.1/24"), (&b, "10.84.0.2/24")] {
        ip(&["-n", name, "address", "add", address, "dev", VETH])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        ip(&["-n", name, "link", "set", VETH, "up"])?;
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
