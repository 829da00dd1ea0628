//! Setting that allows or forbids fragmenting datagrams larger than the path MTU.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

/// Forbids fragments: datagrams larger than the path MTU are refused (`EMSGSIZE`) instead of
/// fragmented, and routers must not fragment them either.
///
/// # Errors
/// The kernel's error.
pub fn forbid(socket: impl AsFd, destination: SocketAddr) -> io::Result<()> {
    match destination {
        SocketAddr::V4(_) => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)?,
        SocketAddr::V6(_) => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)?,
    }
    Ok(())
}

/// Allows fragments, also along the path: routers may fragment packets that are too large for their
/// next link, and this host no longer expects ICMP messages about them. It helps with routers that
/// silently drop packets that are too large, over IPv4; IPv6 routers never fragment.
///
/// # Errors
/// The kernel's error.
pub fn allow(socket: impl AsFd, destination: SocketAddr) -> io::Result<()> {
    match destination {
        SocketAddr::V4(_) => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT)?,
        SocketAddr::V6(_) => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{ip_mtu_discover, ipv6_mtu_discover};

    use super::*;

    #[test]
    fn fragments_are_forbidden_and_allowed() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = std::net::UdpSocket::bind(address) else {
                println!("SKIPPED: this host has no {address}");
                continue;
            };
            let to = socket.local_addr().expect("it is bound");
            for may_be_cut in [false, true] {
                if may_be_cut { allow(&socket, to) } else { forbid(&socket, to) }
                    .expect("a socket of our own");
                let is_cut = match to {
                    SocketAddr::V4(_) => {
                        ip_mtu_discover(&socket).expect("IPv4") == Ipv4PathMtuDiscovery::DONT
                    }
                    SocketAddr::V6(_) => {
                        ipv6_mtu_discover(&socket).expect("IPv6") == Ipv6PathMtuDiscovery::DONT
                    }
                };
                assert_eq!(is_cut, may_be_cut, "{to}");
            }
        }
    }
}
