//! A TUN device: an interface whose packets a program reads and writes.
//!
//! Before each packet lies a header of `virtio` ([`VNET_HEADER_BYTES`]), by which both sides leave work undone: checksums that
//! need not be computed between two ends of one host, and trains of UDP datagrams that pass in one piece (USO).

use std::fs::{self, OpenOptions};
use std::io::{self, IoSlice};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

use crate::raw::{self, Setting};

/// What lies before each packet: `struct virtio_net_hdr` (`linux/virtio_net.h`), its numbers as this machine writes them.
pub const VNET_HEADER_BYTES: usize = 10;

const DEVICE: &str = "/dev/net/tun";

/// What to make.
#[derive(Clone, Debug)]
pub struct TunOptions {
    /// The interface's name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// How many bits of it the network shares.
    pub prefix_bits: u8,
    /// The largest packet.
    pub mtu: u32,
    /// How many packets wait to be read before more are dropped.
    pub queue_packets: u32,
    /// Whether trains of UDP may pass in one piece, where the kernel has that (Linux 6.2).
    pub trains: bool,
}

/// Says why a TUN device cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The kernel has none.
    #[error("there is no {DEVICE}\nload it with: sudo modprobe tun")]
    Missing,
    /// It takes root.
    #[error("interface {name} may not be made\nrun it as root, or with the capability CAP_NET_ADMIN")]
    NotPermitted {
        /// As asked for.
        name: String,
    },
    /// There is one of that name already.
    #[error("there is an interface {name} already\nchoose another name, or end the program that has it")]
    Exists {
        /// As asked for.
        name: String,
    },
    /// Anything else.
    #[error("interface {name} cannot {step}")]
    System {
        /// As asked for.
        name: String,
        /// What was asked of the kernel.
        step: &'static str,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// A TUN device, which is gone when this is dropped. Reads and writes never wait.
pub struct Tun {
    file: OwnedFd,
    name: String,
    takes_trains: bool,
}

impl Tun {
    /// Makes a device in the network namespace of this thread, with an address, up, and without IPv6, which would speak by itself.
    ///
    /// # Errors
    /// [`TunError`] says which step failed and the way out.
    pub fn open(options: &TunOptions) -> Result<Self, TunError> {
        let name = &options.name;
        let fails = |step| move |source: io::Error| TunError::of(name, step, source);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(DEVICE)
            .map_err(fails(OPEN))?;
        raw::make_tun(file.as_fd(), name).map_err(fails(MAKE))?;
        let takes_trains = options.trains && raw::set_tun_offloads(file.as_fd(), CHECKSUMS | TRAINS).is_ok();
        if !takes_trains {
            raw::set_tun_offloads(file.as_fd(), CHECKSUMS).map_err(fails("leave checksums undone"))?;
        }
        // A kernel without IPv6 has nothing to switch off.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        let bits = u32::from(options.prefix_bits.min(32));
        let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0));
        let steps = [
            (Setting::QueuePackets(options.queue_packets), "have such a queue"),
            (Setting::Mtu(options.mtu), "have such an MTU"),
            (Setting::Address(options.address), "have such an address"),
            (Setting::Mask(mask), "have such a prefix"),
            (Setting::Up, "be brought up"),
        ];
        for (setting, step) in steps {
            raw::set_interface(name, setting).map_err(fails(step))?;
        }
        Ok(Self { file: file.into(), name: name.clone(), takes_trains })
    }

    /// Returns the interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells whether trains of UDP pass in one piece, both ways.
    #[must_use]
    pub const fn takes_trains(&self) -> bool {
        self.takes_trains
    }

    /// Reads a packet with its header; returns its size, 0 if none waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match rustix::io::read(&self.file, into) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(other) => Err(other.into()),
        }
    }

    /// Writes a packet, header first, that lies in pieces.
    ///
    /// # Errors
    /// What the kernel says: nothing of the packet went in then.
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        Ok(rustix::io::writev(&self.file, pieces).map(|_| ())?)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What readers understand (`linux/if_tun.h`): sums that are not finished, …
const CHECKSUMS: u32 = libc::TUN_F_CSUM;
/// … and trains of UDP, over IPv4 and IPv6: the kernel takes both or neither.
const TRAINS: u32 = libc::TUN_F_USO4 | libc::TUN_F_USO6;

const OPEN: &str = "be opened";
const MAKE: &str = "be made";

impl TunError {
    fn of(name: &str, step: &'static str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { name },
            io::ErrorKind::NotFound if step == OPEN => Self::Missing,
            _ if step == OPEN && source.raw_os_error() == Some(libc::ENODEV) => Self::Missing,
            io::ErrorKind::ResourceBusy if step == MAKE => Self::Exists { name },
            _ => Self::System { name, step, source },
        }
    }
}
