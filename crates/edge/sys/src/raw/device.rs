//! Creation of TUN devices and configuration of interfaces: `ioctl`s that no safe crate offers.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

use super::interface_request;

/// Setting of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Setting {
    /// Its address.
    Address(Ipv4Addr),
    /// Its network mask.
    Mask(Ipv4Addr),
    /// Its MTU, in bytes.
    Mtu(u32),
    /// Length of its queue, in packets.
    QueuePackets(u32),
    /// State up.
    Up,
}

/// Creates a TUN device of a name for a file of `/dev/net/tun`: IP packets, each preceded by a
/// `virtio` header.
pub(crate) fn make_tun(file: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let (_, mut request) = interface_request(name)?;
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
    // The flags have sixteen bits, of which the highest may be set.
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF takes an `ifreq` with a name that ends in zero, and writes the name it chose into it.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })
}

/// Sets the offloads that a TUN device's reader and writer supports, as bits `TUN_F_…`.
pub(crate) fn set_tun_offloads(file: BorrowedFd<'_>, offloads: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument as a number, not as a pointer.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) })
}

/// Changes an interface of this thread's network namespace.
pub(crate) fn set_interface(name: &str, setting: Setting) -> io::Result<()> {
    let (socket, mut request) = interface_request(name)?;
    let number = |value: u32| libc::c_int::try_from(value).map_err(|_| io::ErrorKind::InvalidInput);
    let command = match setting {
        Setting::Address(address) => {
            request.ifr_ifru.ifru_addr = socket_address(address);
            libc::SIOCSIFADDR
        }
        Setting::Mask(mask) => {
            request.ifr_ifru.ifru_netmask = socket_address(mask);
            libc::SIOCSIFNETMASK
        }
        Setting::Mtu(bytes) => {
            request.ifr_ifru.ifru_mtu = number(bytes)?;
            libc::SIOCSIFMTU
        }
        Setting::QueuePackets(packets) => {
            // The kernel's `ifr_qlen` has the offset of all numbers of this union.
            request.ifr_ifru.ifru_metric = number(packets)?;
            libc::SIOCSIFTXQLEN
        }
        Setting::Up => {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
            libc::SIOCSIFFLAGS
        }
    };
    // SAFETY: each of these takes an `ifreq` with a name that ends in zero and the part of the union that was just set.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), command as _, &raw mut request) })
}

/// Returns an address as a `sockaddr`.
fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // `struct sockaddr_in`: the port, which is zero, then the address.
    let mut data = [0; 14];
    for (place, octet) in data[2..6].iter_mut().zip(address.octets()) {
        *place = octet as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn checked(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
