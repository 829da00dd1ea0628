//! Notifications of the kernel that an interface or an address of this network namespace has
//! changed (`rtnetlink(7)`).
//!
//! They are used only as a sign that something changed; [`Interface`](crate::Interface) has the new
//! state when it is looked up again. So a notification lost to a full socket buffer does no harm,
//! because the overflow counts as a change.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// Notification groups of interfaces, and of addresses of both versions of IP (`RTMGRP_LINK`,
/// `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV6_IFADDR`).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// Maximum number of notifications taken in one call, so that a host whose interfaces change
/// continuously does not block its reader.
const MAX_NOTICES: usize = 256;

/// A socket that becomes readable when an interface or an address changes, in the namespace in which it was opened.
#[derive(Debug)]
pub struct LinkEvents(OwnedFd);

impl LinkEvents {
    /// Starts to receive notifications.
    ///
    /// # Errors
    /// If the kernel has no descriptor left, or no such socket.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(socket))
    }

    /// Takes pending notifications; returns whether there were any. Cost: a system call if there
    /// are none.
    #[must_use]
    pub fn take(&self) -> bool {
        // A notification may be longer; its content is not read.
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
