//! How large a packet the way to an address takes, as far as this host knows.

use std::io;
use std::net::SocketAddr;

use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
use socket2::{Domain, Protocol, Socket, Type};

use crate::interface::Interface;

/// Bytes of the headers of IP and UDP around a datagram's payload.
#[must_use]
pub const fn header_bytes(to: &SocketAddr) -> usize {
    match to {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}

/// Returns the largest packet, IP header included, that leaves for `to` in one piece, by `interface` where one is given.
///
/// It is the MTU of the interface, or what routers have answered since; nothing is sent. A narrower place further on that
/// has not answered yet is not known.
///
/// # Errors
/// What the kernel says; above all if there is no way there.
pub fn path_mtu(to: SocketAddr, interface: Option<&Interface>) -> io::Result<usize> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    // This host itself is reached by no interface but its own.
    if let Some(interface) = interface.filter(|_| !to.ip().is_loopback()) {
        match to {
            SocketAddr::V6(_) if to.ip().is_multicast() => socket.set_multicast_if_v6(interface.index)?,
            _ => socket.bind_device(Some(interface.name.as_bytes()))?,
        }
    }
    socket.connect(&to.into())?;
    let mtu = match to {
        SocketAddr::V4(_) => ip_mtu(&socket),
        SocketAddr::V6(_) => ipv6_mtu(&socket),
    }?;
    usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}
