//! A receiving UDP socket: unicast, or exactly one multicast group.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{
    set_ip_add_membership_with_ifindex, set_ip_drop_membership_with_ifindex, set_ipv6_add_membership,
    set_ipv6_drop_membership,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::host::interface::{Interface, needs_link};
use crate::raw::{self, MemInfo};
use crate::socket::batch::ReceiveBatch;
use crate::socket::buffer::{Buffer, Direction};
use crate::socket::open::{BIND, CONFIGURE, CREATE, JOIN, OpenError, Step};
use crate::socket::techniques::ReceiveTechniques;

/// Address, buffer and settings of a receiving socket.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// Group and port, or an address of this host and port; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Interface at which the group is joined; without it the kernel follows its routes, often with
    /// surprising results.
    pub interface: Option<Interface>,
    /// Receive buffer to request, in bytes.
    pub buffer_bytes: usize,
    /// Kernel features that may be used to save work.
    pub techniques: ReceiveTechniques,
    /// True if several sockets, of this user, share an address of this host (`SO_REUSEPORT`): the
    /// kernel assigns each sender to one of them. Groups are shared in any case, and there each
    /// socket gets every datagram.
    pub shared: bool,
    /// Time for which a read polls the network card's queue before it returns empty
    /// (`SO_BUSY_POLL`).
    pub busy_poll: Option<Duration>,
}

impl ReceiveOptions {
    /// Returns options to receive at `address`, by the route's interface, with all features that
    /// save work.
    #[must_use]
    pub fn at(address: SocketAddr, buffer_bytes: usize) -> Self {
        let techniques = ReceiveTechniques::default();
        Self { address, interface: None, buffer_bytes, techniques, shared: false, busy_poll: None }
    }
}

/// A receiving UDP socket that never blocks.
///
/// It is bound to the group itself and ignores groups that other sockets joined, so that its drop
/// counter covers this group alone.
pub struct ReceiveSocket {
    socket: Socket,
    address: SocketAddr,
    interface_index: u32,
    buffer: Buffer,
    techniques: ReceiveTechniques,
}

impl ReceiveSocket {
    /// Opens the socket and joins the group, if it is one.
    ///
    /// # Errors
    /// [`OpenError`] with the step that failed and the remedy.
    pub fn open(options: &ReceiveOptions) -> Result<Self, OpenError> {
        let address = options.address;
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
            .step(CREATE, address)?;
        configure(&socket, options).step(CONFIGURE, address)?;
        let techniques = options.techniques.granted(&socket).step(CONFIGURE, address)?;
        let buffer =
            Buffer::request(&socket, Direction::Receive, options.buffer_bytes).step(CONFIGURE, address)?;
        socket.bind(&at_link(address, options.interface.as_ref()).into()).step(BIND, address)?;
        let bound = socket.local_addr().step(BIND, address)?.as_socket().unwrap_or(address);
        let interface_index = options.interface.as_ref().map_or(0, |interface| interface.index);
        let socket = Self { socket, address: bound, interface_index, buffer, techniques };
        if address.ip().is_multicast() {
            socket.join().step(JOIN, address)?;
        }
        Ok(socket)
    }

    /// Receives waiting datagrams, at most a batch; returns how many entries (datagrams, or trains)
    /// `batch` now contains, 0 if none.
    ///
    /// A [full](ReceiveBatch::is_full) batch means that there may be more. Cost: one system call, no allocation.
    ///
    /// # Errors
    /// The kernel's error; an empty queue is not an error.
    pub fn receive_batch(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        let offer = if self.techniques.batches { batch.next_offer() } else { 1 };
        batch.received = 0;
        let ReceiveBatch { memory, slot_bytes, slots, offered, received } = batch;
        *offered = offer;
        *received = match raw::receive_many(self.as_fd(), memory, *slot_bytes, &mut slots[..offer]) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            outcome => outcome?,
        };
        Ok(*received)
    }

    /// Returns the queue, the buffer and the exact number of drops at this moment.
    ///
    /// # Errors
    /// On kernels before 4.12, which do not count drops here.
    pub fn meminfo(&self) -> io::Result<MemInfo> {
        raw::mem_info(self.as_fd())
    }

    /// Leaves the group: queued datagrams can still be received, none are added.
    ///
    /// # Errors
    /// If the socket is not a member any more.
    pub fn leave(&self) -> io::Result<()> {
        match self.address.ip() {
            IpAddr::V4(group) => {
                set_ip_drop_membership_with_ifindex(
                    self,
                    &group,
                    &Ipv4Addr::UNSPECIFIED,
                    self.interface_index,
                )?;
            }
            IpAddr::V6(group) => set_ipv6_drop_membership(self, &group, self.interface_index)?,
        }
        Ok(())
    }

    /// Joins the group again after [`leave`](Self::leave).
    ///
    /// # Errors
    /// If the socket is a member already, or there is no interface for the group.
    pub fn join(&self) -> io::Result<()> {
        match self.address.ip() {
            IpAddr::V4(group) => {
                set_ip_add_membership_with_ifindex(
                    self,
                    &group,
                    &Ipv4Addr::UNSPECIFIED,
                    self.interface_index,
                )?;
            }
            IpAddr::V6(group) => set_ipv6_add_membership(self, &group, self.interface_index)?,
        }
        Ok(())
    }

    /// Joins the group again at an interface that has returned under another number: the membership
    /// ended with the old one.
    ///
    /// # Errors
    /// If the group cannot be joined there.
    pub fn rejoin(&mut self, interface: &Interface) -> io::Result<()> {
        // The kernel may have ended the membership already; one that still exists would count
        // towards the maximum.
        drop(self.leave());
        self.interface_index = interface.index;
        if needs_link(self.address.ip()) {
            self.socket.bind_device_by_index_v6(std::num::NonZeroU32::new(interface.index))?;
        }
        self.join()
    }

    /// Returns the address it is bound to, with the port that the kernel chose.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number by which the kernel distinguishes it from all others (`SO_COOKIE`);
    /// `None` if the kernel does not report it.
    #[must_use]
    pub fn cookie(&self) -> Option<u64> {
        rustix::net::sockopt::socket_cookie(self).ok()
    }

    /// Returns the features in use: those requested, as far as this kernel supports them.
    #[must_use]
    pub const fn techniques(&self) -> ReceiveTechniques {
        self.techniques
    }

    /// Returns the buffer that the kernel granted.
    #[must_use]
    pub const fn granted_buffer(&self) -> Buffer {
        self.buffer
    }
}

impl AsFd for ReceiveSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns an address with the scope of its interface, where it takes one.
fn at_link(address: SocketAddr, interface: Option<&Interface>) -> SocketAddr {
    match (address, interface) {
        (SocketAddr::V6(mut group), Some(interface)) if needs_link(address.ip()) && group.scope_id() == 0 => {
            group.set_scope_id(interface.index);
            group.into()
        }
        _ => address,
    }
}

fn configure(socket: &Socket, options: &ReceiveOptions) -> io::Result<()> {
    let address = options.address;
    socket.set_nonblocking(true)?;
    if options.shared && !address.ip().is_multicast() {
        socket.set_reuse_port(true)?;
    }
    if address.ip().is_multicast() {
        // Allows several readers of one group on one host. Not for unicast: there the last socket
        // to bind would silently take everything from the others.
        socket.set_reuse_address(true)?;
    }
    match address {
        SocketAddr::V4(_) => socket.set_multicast_all_v4(false)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_multicast_all_v6(false)?;
        }
    }
    if let Some(time) = options.busy_poll {
        socket.set_busy_poll(u32::try_from(time.as_micros()).unwrap_or(u32::MAX))?;
    }
    setsockopt(socket, sockopt::RxqOvfl, &1)?;
    setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(())
}
