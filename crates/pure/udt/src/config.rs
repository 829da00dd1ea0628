//! Configuration of a socket.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use congestion::{Factory, named};
use wire::udt::{OVERHEAD_BYTES, SocketType};

/// Configuration of a socket; the defaults are those of UDT's users.
#[derive(Clone, Debug)]
pub struct SocketConfig {
    /// Type of the socket: a stream of bytes, or messages.
    pub socket_type: SocketType,
    /// Maximum packet size with IP, UDP and UDT headers; the two ends agree on the smaller one. Units: bytes.
    ///
    /// UDT counts headers as IPv4's also over IPv6. So that no packet exceeds this size, 20 bytes less are announced
    /// to a peer over IPv6.
    pub packet_bytes: u32,
    /// Bytes that a layer below adds to each packet, as encryption does; they count among the `packet_bytes`.
    pub enclosing_bytes: u32,
    /// Size of the first packets: smaller ones towards the Internet, until a probe shows that the path carries more.
    pub first_size: FirstSize,
    /// Size of the send buffer, which holds packets until their acknowledgement. Units: packets.
    pub send_buffer_packets: u32,
    /// Size of the receive buffer, which holds packets for the application, or for missing ones before them. Units:
    /// packets.
    pub receive_buffer_packets: u32,
    /// Factory of the congestion control.
    pub congestion: Arc<dyn Factory>,
    /// Maximum rate, with all headers. Units: bytes per second.
    pub max_bytes_per_s: Option<u64>,
    /// Maximum number of packets handed to the kernel at once, if the control allows it.
    pub max_train_packets: u32,
    /// Maximum time whose packets are sent back to back after a late wake-up.
    pub max_burst: Duration,
    /// Time after which a connection attempt fails.
    pub connect_timeout: Duration,
    /// Time for which a closed socket keeps sending queued data.
    pub linger: Duration,
    /// Timeout of a silent peer.
    pub silence: Silence,
    /// Repair of lost packets.
    pub repair: Repair,
    /// Number of the first packet, instead of a random one: for tests of wrap-around.
    pub first_sequence: Option<u32>,
    /// Number of the first message, instead of 1: for tests of wrap-around.
    pub first_message: Option<u32>,
}

/// Repair of lost packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repair {
    /// For files and peers of libudt: everything arrives, however long that takes.
    #[default]
    Patient,
    /// For live messages, whose deadlines hold: lost packets are reported each round trip and repaired at once, and
    /// what cannot arrive in time is not sent again. Both ends must be of this implementation and have it.
    ///
    /// The receive buffer must hold the packets of a deadline and two round trips.
    Timely,
}

/// Size of a connection's first packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FirstSize {
    /// Within a site as [`Agreed`](Self::Agreed), towards the Internet as [`Probed`](Self::Probed).
    #[default]
    ByPeer,
    /// The agreed size: the caller knows the path.
    Agreed,
    /// 576 bytes over IPv4, 1,280 over IPv6, until a probe of a larger size is answered.
    ///
    /// Source: RFC 791 §3.1, RFC 1122 §3.3.3, RFC 8200 §5; RFC 8899 for the probes.
    Probed,
}

/// Timeout of a silent peer. All three conditions must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silence {
    /// Number of unanswered attempts.
    pub attempts: u32,
    /// Minimum increase of the interval between attempts.
    pub least_step: Duration,
    /// Minimum wait after the last attempt.
    pub last_step: Duration,
}

/// Minimum packet size that can be agreed on: headers and a little payload.
pub(crate) const MIN_PACKET_BYTES: u32 = 76;
/// Maximum packet size: what UDP carries over IPv4, with the headers that are counted.
pub(crate) const MAX_PACKET_BYTES: u32 = 65_535;

impl SocketConfig {
    /// Returns the defaults for a socket of this type, with UDT's own congestion control.
    #[must_use]
    pub fn new(socket_type: SocketType) -> Self {
        Self::with(socket_type, Arc::from(named("udt", "").expect("the control of that name is built in")))
    }

    /// Returns the defaults for a socket of this type, with the given congestion control.
    #[must_use]
    pub fn with(socket_type: SocketType, congestion: Arc<dyn Factory>) -> Self {
        Self {
            socket_type,
            packet_bytes: 1_500,
            enclosing_bytes: 0,
            first_size: FirstSize::ByPeer,
            send_buffer_packets: 8_192,
            receive_buffer_packets: 8_192,
            congestion,
            max_bytes_per_s: None,
            max_train_packets: 44,
            max_burst: Duration::from_millis(1),
            connect_timeout: Duration::from_secs(3),
            linger: Duration::from_secs(180),
            silence: Silence::UDT,
            repair: Repair::Patient,
            first_sequence: None,
            first_message: None,
        }
    }
}

impl Silence {
    /// Timeout of libudt: 46 s until a dead peer is given up.
    pub const UDT: Self =
        Self { attempts: 16, least_step: Duration::from_millis(300), last_step: Duration::from_secs(5) };
}

impl fmt::Display for SocketConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.socket_type == SocketType::Stream { "stream" } else { "messages" };
        write!(formatter, "{kind}, packets of {} bytes", self.packet_bytes)
    }
}

/// Difference between the IPv6 header and the IPv4 header that UDT counts.
pub(crate) const IPV6_EXTRA_BYTES: u32 = 20;

/// Returns the packet size to announce to a peer, in UDT's counting.
pub(crate) fn announced_bytes(config: &SocketConfig, peer: IpAddr) -> u32 {
    // Packets to a mapped address are IPv4 packets.
    let extra = if peer.to_canonical().is_ipv6() { IPV6_EXTRA_BYTES } else { 0 } + config.enclosing_bytes;
    config.packet_bytes.min(MAX_PACKET_BYTES).saturating_sub(extra).max(MIN_PACKET_BYTES)
}

/// Returns the bytes of payload in a full packet.
pub(crate) fn payload_bytes(packet_bytes: u32) -> usize {
    (packet_bytes as usize).saturating_sub(OVERHEAD_BYTES)
}
