//! A sending UDP socket that reports for every datagram whether and why it was refused.
//!
//! With `IP_RECVERR` a send fails with `ENOBUFS` when the queue discipline (or a local backlog)
//! drops the datagram; without it the drop is silent. `sendmmsg`, however, does not report the
//! reason if the datagram is not the first of its call: it returns a short count, although the
//! datagram after that count *was* tried and refused. Skipping it would leave its reason open
//! between queue discipline, firewall and full socket, so it is tried once more, as the first of
//! the next call. The consequences, which are tested:
//!
//! - the datagrams reported as refused are exactly those not sent, each with the kernel's own
//!   reason;
//! - the queue discipline's `dropped` counter counts attempts: it exceeds the refusals by at most
//!   [`SendSocket::retried`], and by exactly that while nothing else refuses;
//! - a socket gains batches by a run of accepted datagrams and loses them with a refusal, so that
//!   through a whole overload there is at most one such attempt, and none if it begins in overload.
//!
//! A *train* is a sequence of datagrams of one size that pass the kernel as one (`UDP_SEGMENT`) and
//! are refused together, each of them for the reported reason; a queue discipline counts them as
//! one drop. Only a socket that has gained batches sends trains, and a device that cannot segment
//! them ends their use immediately: the datagrams then are sent one by one. One case remains
//! unreported: a queue discipline that segments trains itself (tbf, cake) accepts the train if it
//! accepts one datagram of it, and silently drops the others. This happens once per overload, with
//! the train that begins it; senders through such a queue discipline
//! ([`cuts_trains`](crate::Qdisc::cuts_trains)) do without trains
//! ([`send_singly`](SendSocket::send_singly)).
//!
//! Measured with a tbf and a pfifo that are too small, 400 datagrams: sent singly 388 refused, 388
//! dropped; in batches of 16 with the second attempt, 387 refused, 390 dropped, 3 retried; each
//! time the datagrams missing at the receiver were exactly those refused.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use rustix::io::Errno;
use rustix::net::sockopt::set_ip_multicast_if_with_ifindex;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, send, sendmmsg, sendto};
use socket2::{Domain, Protocol, Socket, Type};

use crate::host::interface::Interface;
use crate::socket::buffer::{Buffer, Direction};
use crate::socket::error_queue::{self, PathError};
use crate::socket::open::{BIND, CONFIGURE, CREATE, OpenError, Step};
use crate::socket::receive::ReceiveSocket;
use crate::socket::techniques::{MAX_SEGMENTS, MAX_TRAIN_BYTES, SendTechniques, has};

/// Maximum number of datagrams that one system call sends.
///
/// Source: measured, 32 per call take 5–20 % less than single calls; larger batches gain nothing.
const BATCH_DATAGRAMS: usize = 32;

/// Number of consecutive datagrams that must be accepted before a socket sends in batches.
///
/// Large compared with the queue of any queue discipline that drops (1,000 packets by default), so
/// that a full queue that accepts one from time to time does not gain them.
const TRUSTED_AFTER: u32 = 1_024;

/// Maximum number of attempts for one datagram when the error may be that of an earlier one. Each
/// attempt clears the one pending error; a third only fails if new errors arrive at the rate of
/// sending.
const ATTEMPTS: u32 = 3;

/// Delivery of multicast datagrams to members on this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loopback {
    /// They are delivered to them too.
    On,
    /// They are not delivered to them.
    Off,
}

/// Destination and settings of a sending socket.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Destination, which determines the IP version, and whether the multicast settings apply.
    pub destination: SocketAddr,
    /// Interface by which multicast leaves this host; without it the kernel follows its routes.
    ///
    /// IPv6 needs a route all the same, which every interface but `lo` has by default; there it
    /// takes `sudo ip -6 route add local ff15::/16 dev lo table local`.
    pub interface: Option<Interface>,
    /// Maximum number of routers multicast may pass, plus one; 1 stays in the local network.
    pub ttl: u8,
    /// Delivery of multicast to members on this host.
    pub loopback: Loopback,
    /// Send buffer to request, in bytes.
    pub buffer_bytes: usize,
    /// Kernel features that may be used to save work.
    pub techniques: SendTechniques,
}

/// Result of sending one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Passed to the network.
    Sent,
    /// Not sent.
    Refused(Refusal),
}

/// Reason why a datagram was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The socket's send buffer is full (`EAGAIN`).
    #[error("the send buffer is full (EAGAIN)")]
    SocketFull,
    /// The queue discipline dropped it, or the backlog of a local receiver did (`ENOBUFS`).
    #[error("dropped by the queue discipline (ENOBUFS)")]
    QueueDiscipline,
    /// Firewall, route, neighbour or address refused it with this error number.
    #[error("refused by the IP layer ({})", nix::errno::Errno::from_raw(*.0))]
    Ip(i32),
    /// It is larger than a datagram, or than the path, may be (`EMSGSIZE`).
    #[error("too large (EMSGSIZE)")]
    TooLarge,
    /// The remote host keeps answering that the port is closed (`ECONNREFUSED`), about earlier
    /// datagrams.
    #[error("the destination port is closed (ECONNREFUSED)")]
    Peer,
}

/// A sending UDP socket that never blocks.
pub struct SendSocket {
    socket: Socket,
    local: SocketAddr,
    buffer: Buffer,
    techniques: SendTechniques,
    /// Destination it is connected to.
    connected: Option<SocketAddr>,
    /// Size of the segments into which the kernel divides larger data; zero if it does not.
    segment_bytes: usize,
    /// Error that ended the use of trains, until it was reported.
    trains_ended: Option<Errno>,
    outcomes: Vec<Outcome>,
    accepted_in_a_row: u32,
    stops_when_full: bool,
    retried: u64,
    met_path_errors: bool,
}

impl SendSocket {
    /// Opens the socket on a port of the kernel's choice.
    ///
    /// # Errors
    /// [`OpenError`] with the step that failed and the remedy.
    pub fn open(options: &SendOptions) -> Result<Self, OpenError> {
        let to = options.destination;
        let socket =
            Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP)).step(CREATE, to)?;
        configure(&socket, options).step(CONFIGURE, to)?;
        let buffer = Buffer::request(&socket, Direction::Send, options.buffer_bytes).step(CONFIGURE, to)?;
        let any = match to {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        socket.bind(&any.into()).step(BIND, any)?;
        let local = socket.local_addr().step(BIND, any)?.as_socket().unwrap_or(any);
        Self::of(socket, local, buffer, options.techniques)
    }

    fn of(
        socket: Socket,
        local: SocketAddr,
        buffer: Buffer,
        mut techniques: SendTechniques,
    ) -> Result<Self, OpenError> {
        techniques.gso &= has(setsockopt(&socket, sockopt::UdpGsoSegment, &0)).step(CONFIGURE, local)?;
        Ok(Self {
            socket,
            local,
            buffer,
            techniques,
            connected: None,
            segment_bytes: 0,
            trains_ended: None,
            outcomes: Vec::new(),
            accepted_in_a_row: 0,
            stops_when_full: false,
            retried: 0,
            met_path_errors: false,
        })
    }

    /// Opens a socket at the port of a receiving socket, so that answers arrive there.
    ///
    /// # Errors
    /// [`OpenError`] with the step that failed and the remedy.
    pub fn beside(
        receiver: &ReceiveSocket,
        techniques: SendTechniques,
        buffer_bytes: usize,
    ) -> Result<Self, OpenError> {
        let local = receiver.local_address();
        let socket = Socket::from(receiver.as_fd().try_clone_to_owned().step(CREATE, local)?);
        let buffer = Buffer::request(&socket, Direction::Send, buffer_bytes).step(CONFIGURE, local)?;
        Self::of(socket, local, buffer, techniques)
    }

    /// Looks the route to `destination` up once, if [`SendTechniques::connect`] is on; the socket
    /// can still send to others.
    ///
    /// # Errors
    /// [`OpenError`] if there is no route at this moment.
    pub fn connect(&mut self, destination: SocketAddr) -> Result<(), OpenError> {
        if self.techniques.connect {
            self.socket.connect(&destination.into()).step(CONFIGURE, destination)?;
            self.connected = Some(destination);
        }
        Ok(())
    }

    /// Sends unicast by this interface only, with this TTL.
    ///
    /// `host` is named in errors. Addresses of this host are reached only by the interface that has
    /// them.
    ///
    /// # Errors
    /// [`OpenError`] if the kernel does not allow it: before Linux 5.7 the interface takes `CAP_NET_RAW`.
    pub fn pin_unicast(
        &self,
        host: SocketAddr,
        interface: Option<&Interface>,
        ttl: Option<u8>,
    ) -> Result<(), OpenError> {
        if let Some(interface) = interface {
            self.socket.bind_device(Some(interface.name.as_bytes())).step(CONFIGURE, host)?;
        }
        match (ttl, host) {
            (Some(ttl), SocketAddr::V4(_)) => self.socket.set_ttl_v4(u32::from(ttl)).step(CONFIGURE, host),
            (Some(ttl), SocketAddr::V6(_)) => {
                self.socket.set_unicast_hops_v6(u32::from(ttl)).step(CONFIGURE, host)
            }
            (None, _) => Ok(()),
        }
    }

    /// From now on does not try the datagrams after one that found the send buffer full: all of
    /// them are refused for that reason, so that a sender that repeats them later keeps the order.
    pub const fn stop_when_full(&mut self) {
        self.stops_when_full = true;
    }

    /// From now on sends no trains: datagrams are sent one by one.
    pub fn send_singly(&mut self) {
        self.techniques.gso = false;
        self.cut_by(0);
    }

    /// Sends `datagrams` to `destination`; returns the result of each, in their order.
    ///
    /// Cost: one system call per 32 datagrams while nothing is refused, one per datagram otherwise; no
    /// allocation once the largest batch was seen.
    pub fn send_batch(&mut self, datagrams: &[&[u8]], destination: SocketAddr) -> &[Outcome] {
        self.outcomes.clear();
        self.send_each(datagrams, destination);
        &self.outcomes
    }

    /// Sends the datagrams in `train`, which are contiguous and have `segment_bytes` bytes each,
    /// only the last may have fewer; returns the result of each, in their order.
    ///
    /// Cost: one system call per 64 datagrams or 64 KiB, whichever is less, while nothing is refused; otherwise as
    /// [`send_batch`](Self::send_batch).
    ///
    /// # Panics
    /// If `segment_bytes` is zero.
    pub fn send_train(&mut self, train: &[u8], segment_bytes: usize, destination: SocketAddr) -> &[Outcome] {
        self.outcomes.clear();
        let in_one_piece = (MAX_TRAIN_BYTES / segment_bytes).clamp(1, MAX_SEGMENTS);
        for piece in train.chunks(in_one_piece * segment_bytes) {
            if self.stops_when_full && self.outcomes.last() == Some(&Outcome::Refused(Refusal::SocketFull)) {
                self.refuse(piece.len().div_ceil(segment_bytes), Errno::AGAIN);
                continue;
            }
            let is_train = piece.len() > segment_bytes && self.techniques.gso && self.is_trusted();
            if !(is_train && self.send_piece(piece, segment_bytes, destination)) {
                let mut datagrams = [&[][..]; MAX_SEGMENTS];
                let count =
                    piece.chunks(segment_bytes).zip(&mut datagrams).map(|(it, slot)| *slot = it).count();
                self.send_each(&datagrams[..count], destination);
            }
        }
        &self.outcomes
    }

    /// Sends a train as one; `false` if it cannot be sent so and nothing of it was.
    fn send_piece(&mut self, piece: &[u8], segment_bytes: usize, destination: SocketAddr) -> bool {
        if !self.cut_by(segment_bytes) {
            return false;
        }
        let count = piece.len().div_ceil(segment_bytes);
        let mut attempts = 0;
        loop {
            match self.send_one(piece, destination) {
                Ok(()) => self.accept(count),
                // The device cannot segment, or the path MTU has decreased: sending one by one
                // shows whether the train or its datagrams are refused.
                Err(errno) if speaks_of_trains(errno) => {
                    self.end_trains(errno);
                    return false;
                }
                Err(errno) if may_be_an_earlier_ones(errno) && attempts + 1 < ATTEMPTS => {
                    self.met_path_errors = true;
                    attempts += 1;
                    continue;
                }
                Err(errno) => self.refuse(count, errno),
            }
            return true;
        }
    }

    fn send_each(&mut self, datagrams: &[&[u8]], destination: SocketAddr) {
        let largest = datagrams.iter().map(|datagram| datagram.len()).max().unwrap_or(0);
        if self.segment_bytes > 0 && largest > self.segment_bytes {
            self.cut_by(0);
        }
        let end = self.outcomes.len() + datagrams.len();
        let mut attempts = 0;
        while self.outcomes.len() < end {
            let rest = &datagrams[datagrams.len() - (end - self.outcomes.len())..];
            let in_batches = attempts == 0 && self.techniques.batches && self.is_trusted();
            let tried = &rest[..if in_batches { rest.len().min(BATCH_DATAGRAMS) } else { 1 }];
            match self.send_some(tried, destination) {
                Ok(sent) => {
                    self.accept(sent);
                    attempts = 0;
                    if sent < tried.len() {
                        // The next one was refused for a reason that the kernel did not report, see
                        // the module's documentation.
                        self.accepted_in_a_row = 0;
                        self.retried += 1;
                        attempts = 1;
                    }
                }
                // While segmentation is set, the kernel refuses datagrams that do not fit into the
                // path's packets.
                Err(errno) if self.segment_bytes > 0 && speaks_of_trains(errno) => self.end_trains(errno),
                Err(errno) if may_be_an_earlier_ones(errno) && attempts + 1 < ATTEMPTS => {
                    self.met_path_errors = true;
                    attempts += 1;
                }
                Err(errno) => {
                    let is_over = self.stops_when_full && errno == Errno::AGAIN;
                    self.refuse(if is_over { end - self.outcomes.len() } else { 1 }, errno);
                    attempts = 0;
                }
            }
        }
    }

    /// Appends the errors that ICMP and the local stack reported about earlier datagrams to `into`,
    /// oldest first.
    ///
    /// A poller reports the socket as failed until its error queue is empty.
    ///
    /// # Errors
    /// The kernel's error; an empty queue is not an error.
    pub fn drain_error_queue(&self, into: &mut Vec<PathError>) -> io::Result<()> {
        error_queue::drain(&self.socket, into)
    }

    /// Returns whether a datagram got the error of an earlier one since the last call: then the
    /// error queue is not empty.
    pub const fn met_path_errors(&mut self) -> bool {
        std::mem::replace(&mut self.met_path_errors, false)
    }

    /// Returns the error that ended the use of trains, once: from then on datagrams are sent one by
    /// one.
    pub fn take_end_of_trains(&mut self) -> Option<io::Error> {
        self.trains_ended.take().map(io::Error::from)
    }

    /// Returns the features in use at this moment.
    #[must_use]
    pub const fn techniques(&self) -> SendTechniques {
        self.techniques
    }

    /// Returns how often a datagram was tried again because its refusal within a batch had no reason.
    #[must_use]
    pub const fn retried(&self) -> u64 {
        self.retried
    }

    /// Returns the address it sends from; the port is the kernel's choice.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns whether the source address of datagrams belongs to no interface of this host any
    /// more: then none is sent. Only a socket that is [connected](Self::connect) has a fixed source
    /// address.
    #[must_use]
    pub fn has_lost_its_source(&self) -> bool {
        let source = self.socket.local_addr().ok().and_then(|address| address.as_socket());
        let Some(source) = source.filter(|source| !source.ip().is_unspecified()) else { return false };
        // If the interfaces cannot be listed, the address is not known to be gone.
        let Ok(interfaces) = Interface::all() else { return false };
        !interfaces.iter().any(|interface| interface.addresses.contains(&source.ip()))
    }

    /// Returns the buffer that the kernel granted.
    #[must_use]
    pub const fn granted_buffer(&self) -> Buffer {
        self.buffer
    }

    /// Sends without waiting; fails only for the first datagram.
    fn send_some(&self, datagrams: &[&[u8]], destination: SocketAddr) -> rustix::io::Result<usize> {
        if let [single] = datagrams {
            return self.send_one(single, destination).map(|()| 1);
        }
        let to = SocketAddrAny::from(destination);
        let slices: [_; BATCH_DATAGRAMS] =
            std::array::from_fn(|index| [IoSlice::new(datagrams.get(index).copied().unwrap_or_default())]);
        let mut controls: [_; BATCH_DATAGRAMS] = std::array::from_fn(|_| SendAncillaryBuffer::default());
        let mut controls = controls.iter_mut();
        let mut messages: [_; BATCH_DATAGRAMS] = std::array::from_fn(|index| {
            let control = controls.next().expect("as many as messages");
            if self.connected == Some(destination) {
                MMsgHdr::new(&slices[index], control)
            } else {
                MMsgHdr::new_with_addr(&to, &slices[index], control)
            }
        });
        sendmmsg(&self.socket, &mut messages[..datagrams.len()], SendFlags::DONTWAIT)
    }

    fn send_one(&self, bytes: &[u8], destination: SocketAddr) -> rustix::io::Result<()> {
        if self.connected == Some(destination) {
            send(&self.socket, bytes, SendFlags::DONTWAIT).map(|_| ())
        } else {
            sendto(&self.socket, bytes, SendFlags::DONTWAIT, &SocketAddrAny::from(destination)).map(|_| ())
        }
    }

    /// Returns whether enough consecutive datagrams were accepted to send several at once.
    const fn is_trusted(&self) -> bool {
        self.accepted_in_a_row >= TRUSTED_AFTER
    }

    /// Sets the size of the segments into which the kernel divides larger data, zero for none;
    /// returns whether it does.
    fn cut_by(&mut self, segment_bytes: usize) -> bool {
        if self.segment_bytes == segment_bytes {
            return true;
        }
        let size = i32::try_from(segment_bytes).unwrap_or(i32::MAX);
        let set = setsockopt(&self.socket, sockopt::UdpGsoSegment, &size);
        if let Err(errno) = set {
            self.end_trains(Errno::from_raw_os_error(errno as i32));
            return false;
        }
        self.segment_bytes = segment_bytes;
        true
    }

    fn end_trains(&mut self, why: Errno) {
        self.trains_ended = Some(why);
        self.techniques.gso = false;
        // While segmentation is set, the kernel refuses to fragment datagrams that are larger than
        // the path MTU. There is no other way to reset it; if that fails, the next datagrams are
        // refused.
        let _ = setsockopt(&self.socket, sockopt::UdpGsoSegment, &0);
        self.segment_bytes = 0;
    }

    fn refuse(&mut self, count: usize, errno: Errno) {
        // A full buffer has its own error code, and hides no other's reason.
        if !(self.stops_when_full && errno == Errno::AGAIN) {
            self.accepted_in_a_row = 0;
        }
        let refused = Outcome::Refused(Refusal::from_errno(errno));
        self.outcomes.extend(std::iter::repeat_n(refused, count));
    }

    fn accept(&mut self, sent: usize) {
        self.outcomes.extend(std::iter::repeat_n(Outcome::Sent, sent));
        let sent = u32::try_from(sent).expect("a batch is small");
        self.accepted_in_a_row = self.accepted_in_a_row.saturating_add(sent);
    }
}

impl AsFd for SendSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Refusal {
    /// Returns what to do about it, where that does not depend on the sender.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::Ip(libc::EPERM) => {
                "see the firewall's rules for output: nft list ruleset, iptables -S OUTPUT"
            }
            Self::Ip(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
                "no route leads there: add one (ip route add), or name an interface (iface= of the bus)"
            }
            Self::Ip(libc::ENETDOWN) => "the interface is down: ip link set dev NAME up",
            Self::Ip(_) => "see the route to the destination: ip route get ADDRESS",
            Self::TooLarge => {
                "send smaller datagrams: mtu= of the bus, or the route's MTU (ip route get ADDRESS)"
            }
            Self::SocketFull | Self::QueueDiscipline | Self::Peer => return None,
        })
    }

    fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::SocketFull,
            Errno::NOBUFS => Self::QueueDiscipline,
            Errno::MSGSIZE => Self::TooLarge,
            Errno::CONNREFUSED => Self::Peer,
            other => Self::Ip(other.raw_os_error()),
        }
    }
}

/// Returns whether an error may concern the train and not its datagrams: the device cannot segment,
/// or the path MTU is smaller than they are.
fn speaks_of_trains(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::INVAL | Errno::MSGSIZE | Errno::OPNOTSUPP)
}

/// Returns whether an error may be that of an ICMP message about an earlier datagram: then this one
/// was not tried.
///
/// Errors of a full socket, a full queue and a firewall always concern the current datagram; those
/// are also the ones whose counters a second attempt would affect.
fn may_be_an_earlier_ones(errno: Errno) -> bool {
    !matches!(errno, Errno::AGAIN | Errno::NOBUFS | Errno::PERM)
}

fn configure(socket: &Socket, options: &SendOptions) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (interface, ttl) = (options.interface.as_ref(), u32::from(options.ttl));
    let loopback = options.loopback == Loopback::On;
    // Of multicast also where the destination is one host: announcements go to the bus's group from the same socket.
    match options.destination {
        SocketAddr::V4(to) => {
            setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
            socket.set_multicast_ttl_v4(ttl)?;
            socket.set_multicast_loop_v4(loopback)?;
            if let Some(interface) = interface {
                // The address becomes the source; without it the kernel would use that of the
                // route's interface.
                let source = interface.v4().unwrap_or(Ipv4Addr::UNSPECIFIED);
                set_ip_multicast_if_with_ifindex(socket, to.ip(), &source, interface.index)?;
            }
        }
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
            socket.set_multicast_hops_v6(ttl)?;
            socket.set_multicast_loop_v6(loopback)?;
            if let Some(interface) = interface {
                socket.set_multicast_if_v6(interface.index)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_ip_layer_has_the_name_of_its_error_and_a_remedy() {
        let unreachable = Refusal::from_errno(Errno::NETUNREACH);
        assert_eq!(unreachable.to_string(), "refused by the IP layer (ENETUNREACH: Network is unreachable)");
        assert!(unreachable.remedy().is_some_and(|remedy| remedy.contains("ip route add")));
        let forbidden = Refusal::from_errno(Errno::PERM);
        assert!(forbidden.to_string().contains("EPERM"), "{forbidden}");
        assert!(forbidden.remedy().is_some_and(|remedy| remedy.contains("nft list ruleset")));
    }

    #[test]
    fn announcements_of_a_stream_to_one_host_leave_by_the_interface_that_was_asked_for() {
        let lo = Interface::find("lo").unwrap();
        let options = SendOptions {
            destination: "127.0.0.1:7400".parse().unwrap(),
            interface: Some(lo),
            ttl: 7,
            loopback: Loopback::On,
            buffer_bytes: 4_096,
            techniques: SendTechniques::default(),
        };
        let SendSocket { socket, .. } = SendSocket::open(&options).unwrap();
        assert_eq!(
            (socket.multicast_if_v4().unwrap(), socket.multicast_ttl_v4().unwrap()),
            (Ipv4Addr::LOCALHOST, 7)
        );
    }

    #[test]
    fn unicast_takes_the_interface_and_the_reach_that_were_asked_for() {
        for host in ["192.0.2.1:7400", "[2001:db8::1]:7400"] {
            let destination: SocketAddr = host.parse().unwrap();
            let options = SendOptions {
                destination,
                interface: None,
                ttl: 1,
                loopback: Loopback::On,
                buffer_bytes: 4_096,
                techniques: SendTechniques::default(),
            };
            let Ok(sender) = SendSocket::open(&options) else {
                println!("SKIPPED: this host does not speak the protocol of {host}");
                continue;
            };
            let hops = || match destination {
                SocketAddr::V4(_) => sender.socket.ttl_v4().unwrap(),
                SocketAddr::V6(_) => sender.socket.unicast_hops_v6().unwrap(),
            };
            let system = hops();
            sender.pin_unicast(destination, None, None).unwrap();
            assert_eq!((hops(), sender.socket.device().unwrap()), (system, None), "nothing was asked for");
            let lo = Interface::find("lo").unwrap();
            sender.pin_unicast(destination, Some(&lo), Some(7)).unwrap();
            assert_eq!((hops(), sender.socket.device().unwrap()), (7, Some(b"lo".to_vec())));
        }
    }
}
