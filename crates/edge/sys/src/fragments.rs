//! Whether datagrams larger than the path may be cut into fragments on their way.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

/// Forbids fragments: what is larger than the path's MTU is refused (`EMSGSIZE`) instead of cut, and routers may not
/// cut it either.
///
/// # Errors
/// What the kernel says.
pub fn forbid(socket: impl AsFd, destination: SocketAddr) -> io::Result<()> {
    match destination {
        SocketAddr::V4(_) => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)?,
        SocketAddr::V6(_) => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)?,
    }
    Ok(())
}
