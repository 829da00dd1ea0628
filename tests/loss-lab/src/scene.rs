//! Two hosts on a lan, and the commands that change the path between them.

use std::net::{SocketAddr, UdpSocket};

use anyhow::{Context, bail};
use e2e::{Host, Lan};
use socket2::{Domain, Protocol, Socket, Type};

use crate::classes::Class;
use crate::watch::Watches;

/// Port of the planted losses; the next port is for the markers that show that everything has passed.
pub(crate) const PORT: u16 = 7_400;

/// A version of IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    V4,
    V6,
}

/// A sender and a reader, each on its own host.
pub(crate) struct Scene {
    pub(crate) version: Version,
    lan: Lan,
}

impl Scene {
    pub(crate) fn new(version: Version) -> anyhow::Result<Self> {
        let lan = Lan::new(&["sender", "reader"])?;
        let scene = Self { version, lan };
        // Neighbours are resolved before anything is measured.
        let marker = scene.reader_socket(PORT + 1)?;
        let writer = scene.sender_socket()?;
        crate::traffic::settle(&writer, &marker, scene.to(PORT + 1))?;
        Ok(scene)
    }

    pub(crate) fn sender(&self) -> &Host {
        &self.lan.hosts()[0]
    }

    pub(crate) fn reader(&self) -> &Host {
        &self.lan.hosts()[1]
    }

    /// Returns the reader's address.
    pub(crate) fn to(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.reader().ip(self.version == Version::V6), port)
    }

    /// Opens a socket on the sender, whose own buffer never blocks: queues after it may overflow.
    pub(crate) fn sender_socket(&self) -> anyhow::Result<UdpSocket> {
        let here = SocketAddr::new(self.sender().ip(self.version == Version::V6), 0);
        let socket = self.within(self.sender(), || self.bound(here))?;
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::SndBufForce, &(32 << 20))?;
        Ok(socket)
    }

    /// Opens a socket on the reader.
    pub(crate) fn reader_socket(&self, port: u16) -> anyhow::Result<UdpSocket> {
        self.within(self.reader(), || self.bound(self.to(port)))
    }

    fn bound(&self, address: SocketAddr) -> anyhow::Result<UdpSocket> {
        let socket = self.raw_socket(Type::DGRAM, Protocol::UDP)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into()).with_context(|| format!("cannot bind {address}"))?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }

    fn raw_socket(&self, kind: Type, protocol: Protocol) -> anyhow::Result<Socket> {
        let domain = if self.version == Version::V4 { Domain::IPV4 } else { Domain::IPV6 };
        Ok(Socket::new(domain, kind, Some(protocol))?)
    }

    /// Opens a socket on the sender that sends whole IP packets.
    pub(crate) fn packet_socket(&self) -> anyhow::Result<Socket> {
        self.within(self.sender(), || {
            // IPPROTO_RAW: the packet begins with its IP header.
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
            Ok(socket)
        })
    }

    /// Runs a function on a thread in a host's namespace.
    pub(crate) fn within<T: Send>(
        &self,
        host: &Host,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        host.inside(work)
    }

    /// Runs commands of a shell on the sender.
    pub(crate) fn on_sender(&self, script: &str) -> anyhow::Result<()> {
        shell(self.sender().command("sh"), script)
    }

    /// Runs commands of a shell on the reader.
    pub(crate) fn on_reader(&self, script: &str) -> anyhow::Result<()> {
        shell(self.reader().command("sh"), script)
    }

    /// Runs commands of a shell on the bridge between the two.
    pub(crate) fn on_bridge(&self, script: &str) -> anyhow::Result<()> {
        shell(self.reader().bridge_command("sh"), script)
    }

    /// Starts the doctor on both hosts; counters of the whole machine are used from the reader's host only, if at
    /// all.
    pub(crate) fn watch(&self, class: &Class, nobody: bool, checkpoints: bool) -> anyhow::Result<Watches> {
        let hosts = [self.reader(), self.sender()];
        Watches::begin(&hosts[..if class.is_of_whole_host { 1 } else { 2 }], class, nobody, checkpoints)
    }
}

fn shell(mut command: std::process::Command, script: &str) -> anyhow::Result<()> {
    let output = command.args(["-ec", script]).output().with_context(|| script.to_owned())?;
    if !output.status.success() {
        bail!("`{script}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
