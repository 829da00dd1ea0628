//! MTU of the path to an address, as far as this host knows it.

use std::io;
use std::net::SocketAddr;

use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
use socket2::{Domain, Protocol, Socket, Type};

use crate::host::interface::Interface;

/// Returns the size of the headers of IP and UDP around a datagram's payload.
#[must_use]
pub const fn header_bytes(to: &SocketAddr) -> usize {
    match to {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}

/// Returns the largest packet, IP header included, that is sent to `to` unfragmented, by
/// `interface` if one is given.
///
/// It is the MTU of the interface, or what routers have reported since; nothing is sent. A narrower
/// link that has not been reported yet is not known.
///
/// # Errors
/// The kernel's error; above all if there is no route.
pub fn path_mtu(to: SocketAddr, interface: Option<&Interface>) -> io::Result<usize> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    // This host itself is reached only by its own interface.
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
