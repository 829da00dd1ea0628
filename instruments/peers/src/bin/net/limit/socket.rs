//! The bare sockets: bound, connected, joined, with the buffers and offloads of a case.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use rustix::net::sockopt::{set_ip_add_membership, set_ip_multicast_if, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, bind, socket};

use super::{BUFFER_BYTES, Calls, Line};

/// Opens a source's socket, connected to its destination.
pub(super) fn sending(line: &Line) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
    if line.destination.ip().is_multicast() {
        set_ip_multicast_if(&socket, &line.source)?;
    }
    socket.connect(line.destination)?;
    match setsockopt(&socket, sockopt::SndBufForce, &BUFFER_BYTES) {
        Err(Errno::EPERM) => setsockopt(&socket, sockopt::SndBuf, &BUFFER_BYTES)?,
        forced => forced?,
    }
    if matches!(line.calls, Calls::Trains(_)) {
        let datagram_bytes = i32::try_from(line.datagram_bytes)?;
        setsockopt(&socket, sockopt::UdpGsoSegment, &datagram_bytes)
            .context("the kernel does not support UDP_SEGMENT\nuse Linux 4.18 or later")?;
    }
    Ok(socket)
}

/// Opens a reader's socket; returns it with the granted buffer size. Units: bytes, as the kernel counts them.
pub(super) fn receiving(line: &Line) -> Result<(UdpSocket, usize)> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &line.destination)?;
    if line.destination.ip().is_multicast() {
        set_ip_add_membership(&socket, line.destination.ip(), &line.reader)?;
    }
    match setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES) {
        Err(Errno::EPERM) => setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES)?,
        forced => forced?,
    }
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    if matches!(line.calls, Calls::Trains(_)) {
        setsockopt(&socket, sockopt::UdpGroSegment, &true)
            .context("the kernel does not support UDP_GRO\nuse Linux 5.0 or later")?;
    }
    let granted_bytes = getsockopt(&socket, sockopt::RcvBuf)?;
    Ok((socket.into(), granted_bytes))
}
