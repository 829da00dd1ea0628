//! The kernel's word that an interface or an address of this network namespace has changed (`rtnetlink(7)`).
//!
//! It says only that something changed: what, [`Interface`](crate::Interface) tells when it is looked up again. So a
//! notice that found the socket's buffer full loses nothing, as long as it is taken for a change.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// Interfaces, and addresses of both versions of IP (`RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR`).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// Notices that are taken in one go, so that a host whose interfaces change without end does not keep its reader.
const MAX_NOTICES: usize = 256;

/// A socket that becomes readable when an interface or an address changes, in the namespace in which it was opened.
#[derive(Debug)]
pub struct LinkEvents(OwnedFd);

impl LinkEvents {
    /// Begins to listen.
    ///
    /// # Errors
    /// If the kernel has no descriptor left, or no such socket.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(socket))
    }

    /// Takes what was told; tells whether anything was. Cost: a system call where nothing was.
    #[must_use]
    pub fn take(&self) -> bool {
        // A notice may be longer: what it says is not read.
        let mut notice = [0_u8; 64];
        for taken in 0..MAX_NOTICES {
            match recv(&self.0, &mut notice[..], RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(_) => return taken > 0,
            }
        }
        true
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
