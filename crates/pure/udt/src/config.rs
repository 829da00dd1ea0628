//! What a socket is made with.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use congestion::{Factory, named};
use wire::udt::{OVERHEAD_BYTES, SocketType};

/// What a socket is made with; the defaults are those of UDT's users.
#[derive(Clone, Debug)]
pub struct SocketConfig {
    /// A stream of bytes, or messages.
    pub socket_type: SocketType,
    /// The largest packet with IP, UDP and UDT headers; the two ends agree on the smaller one. Units: bytes.
    ///
    /// UDT counts headers as IPv4's also over IPv6. So that no packet is larger than said here, 20 less are announced
    /// to a peer over IPv6.
    pub packet_bytes: u32,
    /// How much waits for its acknowledgement at most. Units: packets.
    pub send_buffer_packets: u32,
    /// How much waits for the application, or for what is missing before it. Units: packets.
    pub receive_buffer_packets: u32,
    /// Decides how fast it sends.
    pub congestion: Arc<dyn Factory>,
    /// Never faster than this, with all headers. Units: bytes per second.
    pub max_bytes_per_s: Option<u64>,
    /// Most packets handed to the kernel at once, where the control allows it.
    pub max_train_packets: u32,
    /// What a late wake-up may be paid back with: most time's worth of packets directly behind each other.
    pub max_burst: Duration,
    /// How long to try to find the peer.
    pub connect_timeout: Duration,
    /// How long a closed socket goes on sending what was queued.
    pub linger: Duration,
    /// How a peer that is silent is given up.
    pub silence: Silence,
    /// The number of the first packet, instead of one by chance: for tests of what wraps.
    pub first_sequence: Option<u32>,
}

/// How a peer that is silent is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silence {
    /// After so many unanswered attempts …
    pub attempts: u32,
    /// … each further apart by at least this …
    pub least_step: Duration,
    /// … and only if the last one waited so long.
    pub last_step: Duration,
}

/// The smallest packet that can be agreed on: headers and a little.
pub(crate) const MIN_PACKET_BYTES: u32 = 76;
/// The largest: what UDP carries over IPv4, with the headers that are counted.
pub(crate) const MAX_PACKET_BYTES: u32 = 65_535;

impl SocketConfig {
    /// Returns the defaults for a socket of that type, with UDT's own congestion control.
    #[must_use]
    pub fn new(socket_type: SocketType) -> Self {
        Self::with(socket_type, Arc::from(named("udt", "").expect("the control of that name is built in")))
    }

    /// Returns the defaults for a socket of that type, with a control of one's choice.
    #[must_use]
    pub fn with(socket_type: SocketType, congestion: Arc<dyn Factory>) -> Self {
        Self {
            socket_type,
            packet_bytes: 1_500,
            send_buffer_packets: 8_192,
            receive_buffer_packets: 8_192,
            congestion,
            max_bytes_per_s: None,
            max_train_packets: 44,
            max_burst: Duration::from_millis(1),
            connect_timeout: Duration::from_secs(3),
            linger: Duration::from_secs(180),
            silence: Silence::UDT,
            first_sequence: None,
        }
    }
}

impl Silence {
    /// As libudt has it: 46 s until a dead peer is given up.
    pub const UDT: Self =
        Self { attempts: 16, least_step: Duration::from_millis(300), last_step: Duration::from_secs(5) };
}

impl fmt::Display for SocketConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.socket_type == SocketType::Stream { "stream" } else { "messages" };
        write!(formatter, "{kind}, packets of {} bytes", self.packet_bytes)
    }
}

/// What an IPv6 header is longer than the IPv4 header that UDT counts.
const IPV6_EXTRA_BYTES: u32 = 20;

/// Returns the packet size that is announced to a peer: the one that holds, in UDT's counting.
pub(crate) fn announced_bytes(packet_bytes: u32, peer: IpAddr) -> u32 {
    // A mapped address stands for IPv4 packets.
    let extra = if peer.to_canonical().is_ipv6() { IPV6_EXTRA_BYTES } else { 0 };
    packet_bytes.min(MAX_PACKET_BYTES).saturating_sub(extra).max(MIN_PACKET_BYTES)
}

/// Returns the bytes of payload in a full packet.
pub(crate) fn payload_bytes(packet_bytes: u32) -> usize {
    (packet_bytes as usize).saturating_sub(OVERHEAD_BYTES)
}
