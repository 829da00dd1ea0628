//! A TUN device: an interface whose packets a program reads and writes.
//!
//! Each packet is preceded by a `virtio` header ([`VNET_HEADER_BYTES`]), by which both sides leave
//! work undone: checksums that need not be computed between two ends of one host, and trains of UDP
//! datagrams that pass as one (USO).

use std::fs::{self, OpenOptions};
use std::io::{self, IoSlice};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

use crate::raw::{self, Setting};

/// Size of the header before each packet: `struct virtio_net_hdr` (`linux/virtio_net.h`), its
/// numbers in native byte order.
pub const VNET_HEADER_BYTES: usize = 10;

const DEVICE: &str = "/dev/net/tun";

/// Settings of a TUN device.
#[derive(Clone, Debug)]
pub struct TunOptions {
    /// The interface's name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Length of its network prefix, in bits.
    pub prefix_bits: u8,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// Number of packets that wait to be read before more are dropped.
    pub queue_packets: u32,
    /// True if UDP trains may pass as one, where the kernel supports that (Linux 6.2).
    pub trains: bool,
}

/// Reason why a TUN device cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The kernel has no TUN driver.
    #[error("there is no {DEVICE}\nload it with: sudo modprobe tun")]
    Missing,
    /// Creating it requires root.
    #[error(
        "this user may not create interface {name}\nrun it as root, or with the capability CAP_NET_ADMIN"
    )]
    NotPermitted {
        /// Name of the interface.
        name: String,
    },
    /// An interface of that name exists already.
    #[error("there is an interface {name} already\nchoose another name, or end the program that has it")]
    Exists {
        /// Name of the interface.
        name: String,
    },
    /// Any other error.
    #[error("interface {name} cannot {step}")]
    System {
        /// Name of the interface.
        name: String,
        /// The step that failed.
        step: &'static str,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
}

/// A TUN device, which is removed when this is dropped. Reads and writes never wait.
pub struct Tun {
    file: OwnedFd,
    name: String,
    takes_trains: bool,
}

impl Tun {
    /// Creates a device in the network namespace of this thread, with an address, up, and without
    /// IPv6, which would send packets of its own.
    ///
    /// # Errors
    /// [`TunError`] with the step that failed and the remedy.
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
        // A kernel without IPv6 has nothing to disable.
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

    /// Returns whether UDP trains pass as one, both ways.
    #[must_use]
    pub const fn takes_trains(&self) -> bool {
        self.takes_trains
    }

    /// Reads a packet with its header; returns its size, 0 if none waits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match rustix::io::read(&self.file, into) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(other) => Err(other.into()),
        }
    }

    /// Writes a packet, header first, from several parts.
    ///
    /// # Errors
    /// The kernel's error; then nothing of the packet was written.
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        Ok(rustix::io::writev(&self.file, pieces).map(|_| ())?)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Offloads that readers support (`linux/if_tun.h`): unfinished checksums, …
const CHECKSUMS: u32 = libc::TUN_F_CSUM;
/// … and UDP trains, over IPv4 and IPv6: the kernel takes both or neither.
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
