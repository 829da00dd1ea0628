//! Location of a measurement between two ends: with a server on another host, or with a server started here, over the
//! loopback interface or between two network namespaces.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bench::control::{ControlKeys, ServerAt};
use bench::{Cable, EmulatedLink, LinkSettings, LocalServer, Namespaces, Stay};
use clap::Args;
use tallycast::udt::Keys;

use super::server::{DEFAULT_PORT, this_program};
use crate::verbs::reliable::keys::KeyArguments;

/// Location of the other end.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct OtherEnd {
    /// Connect to the server on this host [default: both ends on this host]
    #[arg(short, long, value_name = "HOST")]
    client: Option<String>,
    /// Create two network namespaces with a cable between them and measure from one to the other (root only)
    #[arg(long, conflicts_with_all = ["client", "bind"])]
    netns: bool,
    /// MTU of that cable [default: 1500]
    #[arg(long, value_name = "BYTES", requires = "netns", value_parser = clap::value_parser!(u32).range(1_280..=65_535))]
    mtu: Option<u32>,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub(super) port: u16,
    /// Local address to bind to
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub(super) bind: Option<IpAddr>,
    #[command(flatten)]
    pub(super) keys: KeyArguments,
}

impl OtherEnd {
    /// Returns whether both ends are on this host by default.
    pub(super) const fn is_this_host(&self) -> bool {
        self.client.is_none() && self.bind.is_none() && !self.netns
    }

    /// Returns whether the server is started here, possibly in a namespace.
    pub(super) const fn is_here(&self) -> bool {
        self.client.is_none()
    }

    /// Returns the requested MTU.
    pub(super) const fn mtu(&self) -> Option<u32> {
        self.mtu
    }

    /// Returns whether two namespaces were requested.
    pub(super) const fn is_netns(&self) -> bool {
        self.netns
    }
}

/// Location of a measurement. Dropping it removes the parts made for it, the last one first.
pub(super) struct Scene {
    server: SocketAddr,
    keys: Option<ControlKeys>,
    _stay: Option<Stay>,
    _own_server: Option<LocalServer>,
    link: Option<EmulatedLink>,
    namespaces: Option<Namespaces>,
}

impl Scene {
    /// Finds the given server, or makes one.
    pub(super) fn set(end: &OtherEnd) -> anyhow::Result<Self> {
        if end.client.is_none() && end.keys.is_some() {
            bail!("both ends are on this host, which needs no key\nadd -c HOST, or omit --key");
        }
        match &end.client {
            Some(host) => Self::with_server_at(host, end),
            None if end.netns => Self::in_namespaces(Cable { mtu_bytes: end.mtu }),
            None => Self::on_loopback(),
        }
    }

    fn with_server_at(host: &str, end: &OtherEnd) -> anyhow::Result<Self> {
        let server = resolve(host, end.port, end.bind)?;
        let (keys, station) = (end.keys.calling()?, end.keys.station()?);
        let keys = keys.map(|keys| control_keys(&keys, station));
        Ok(Self { server, keys, _stay: None, _own_server: None, link: None, namespaces: None })
    }

    fn on_loopback() -> anyhow::Result<Self> {
        let own = LocalServer::start(&this_program("server-worker")?, Ipv4Addr::LOCALHOST.into())?;
        let server = own.address();
        Ok(Self { server, keys: None, _stay: None, _own_server: Some(own), link: None, namespaces: None })
    }

    /// Creates two namespaces with a cable.
    pub(super) fn in_namespaces(cable: Cable) -> anyhow::Result<Self> {
        let namespaces = Namespaces::make(cable)?;
        let own = namespaces.start_server(&this_program("server-worker")?)?;
        let stay = namespaces.enter()?;
        let server = own.address();
        let (stay, own, namespaces) = (Some(stay), Some(own), Some(namespaces));
        Ok(Self { server, keys: None, _stay: stay, _own_server: own, link: None, namespaces })
    }

    /// Creates two namespaces with an emulated link.
    pub(super) fn over_emulated_link(settings: &LinkSettings) -> anyhow::Result<Self> {
        let namespaces = Namespaces::make(Cable::default())?;
        let link = namespaces.emulate(settings)?;
        let own = namespaces.start_server_over(&link, &this_program("server-worker")?)?;
        let stay = namespaces.enter()?;
        let server = own.address();
        let (stay, own, namespaces) = (Some(stay), Some(own), Some(namespaces));
        Ok(Self { server, keys: None, _stay: stay, _own_server: own, link: Some(link), namespaces })
    }

    /// Ends the measurement; returns why an emulated link made it unreliable, if it did.
    pub(super) fn end(mut self) -> Vec<String> {
        self.link.take().map_or_else(Vec::new, EmulatedLink::end)
    }

    /// Puts a delay into the cable between two namespaces.
    pub(super) fn delay(&self, each_way: Duration) -> anyhow::Result<()> {
        self.namespaces.as_ref().map_or(Ok(()), |namespaces| Ok(namespaces.delay(each_way)?))
    }

    /// Returns the address of the server, and the keys for it.
    pub(super) const fn server(&self) -> ServerAt<'_> {
        ServerAt { address: self.server, keys: self.keys.as_ref() }
    }
}

/// Returns the keys of a control connection, and the file of the station that they belong to.
pub(super) fn control_keys(keys: &Keys, station: Option<&Path>) -> ControlKeys {
    let station = station.map(Path::to_owned);
    ControlKeys { key: keys.key.clone(), peers: keys.peers.clone(), station }
}

/// Finds the address of a server; of several the first of the version of IP that this end is bound to.
fn resolve(host: &str, port: u16, from: Option<IpAddr>) -> anyhow::Result<SocketAddr> {
    let found = (host, port).to_socket_addrs().with_context(|| {
        format!("unknown host `{host}`\nwrite an address such as 192.0.2.7, or a name that resolves")
    })?;
    let mut fitting = found.filter(|address| from.is_none_or(|from| from.is_ipv4() == address.is_ipv4()));
    match fitting.next() {
        Some(address) => Ok(address),
        None => {
            bail!("`{host}` has no address of the IP version of -B\nbind to an address of the other version")
        }
    }
}
