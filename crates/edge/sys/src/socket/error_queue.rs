//! Errors that earlier datagrams met: ICMP errors and local ones, from `MSG_ERRQUEUE`.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg};
use socket2::Socket;

/// Maximum number of errors taken by one call, so that a flood of ICMP does not block the sender.
const ERRORS_PER_CALL: usize = 64;

/// Origin of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// This host.
    Local,
    /// Another host, by ICMP.
    Icmp,
    /// Another host, by ICMPv6.
    Icmp6,
    /// An origin that this version does not know.
    Unknown(u8),
}

/// Number of bytes kept of a datagram: the header of any protocol of this program. Hosts return 576
/// bytes of the packet (RFC 1812 §4.3.2.3), old ones only 8 after its IP header.
const RETURNED_BYTES: usize = 256;

/// An error that an earlier datagram met along its path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathError {
    /// The system's error number, such as `ECONNREFUSED`.
    pub errno: i32,
    /// Origin of the report.
    pub origin: Origin,
    /// ICMP type.
    pub icmp_type: u8,
    /// ICMP code.
    pub icmp_code: u8,
    /// Further information, depending on the error: the path's MTU for `EMSGSIZE`.
    pub info: u32,
    /// Destination of the datagram.
    pub destination: Option<SocketAddr>,
    /// Address of the host that reported it.
    pub offender: Option<IpAddr>,
    /// The returned beginning of the datagram.
    returned: Vec<u8>,
}

impl PathError {
    /// Returns the beginning of the datagram, as much as was returned.
    #[must_use]
    pub fn returned(&self) -> &[u8] {
        &self.returned
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a datagram")?;
        if let Some(destination) = self.destination {
            write!(formatter, " to {destination}")?;
        }
        write!(formatter, " could not be delivered: {}", io::Error::from_raw_os_error(self.errno))?;
        match self.offender {
            Some(offender) => write!(formatter, ", reported by {offender}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn drain(socket: &Socket, into: &mut Vec<PathError>) -> io::Result<()> {
    let mut control = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    for _ in 0..ERRORS_PER_CALL {
        let mut returned = [0; RETURNED_BYTES];
        let mut slices = [IoSliceMut::new(&mut returned)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message =
            match recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags) {
                Err(Errno::EAGAIN) => break,
                message => message?,
            };
        let (destination, size) = (message.address.as_ref().and_then(socket_address), message.bytes);
        let error = message.cmsgs()?.find_map(|control| path_error(control, destination));
        if let Some(mut error) = error {
            error.returned.extend_from_slice(&returned[..size]);
            into.push(error);
        }
    }
    Ok(())
}

fn path_error(control: ControlMessageOwned, destination: Option<SocketAddr>) -> Option<PathError> {
    let (error, offender) = match control {
        ControlMessageOwned::Ipv4RecvErr(error, by) => {
            let by = by.filter(|by| i32::from(by.sin_family) == libc::AF_INET);
            (error, by.map(|by| IpAddr::V4(SockaddrIn::from(by).ip())))
        }
        ControlMessageOwned::Ipv6RecvErr(error, by) => {
            let by = by.filter(|by| i32::from(by.sin6_family) == libc::AF_INET6);
            (error, by.map(|by| IpAddr::V6(SockaddrIn6::from(by).ip())))
        }
        _ => return None,
    };
    Some(PathError {
        errno: i32::try_from(error.ee_errno).unwrap_or(i32::MAX),
        origin: match error.ee_origin {
            libc::SO_EE_ORIGIN_LOCAL => Origin::Local,
            libc::SO_EE_ORIGIN_ICMP => Origin::Icmp,
            libc::SO_EE_ORIGIN_ICMP6 => Origin::Icmp6,
            other => Origin::Unknown(other),
        },
        icmp_type: error.ee_type,
        icmp_code: error.ee_code,
        info: error.ee_info,
        destination,
        offender,
        returned: Vec::new(),
    })
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|address| SocketAddr::from((address.ip(), address.port())));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddr::from((address.ip(), address.port()))))
}
