//! Events of a control.

use core::ops::Range;
use core::time::Duration;

use units::Instant;

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Acked {
    /// First packet that has not arrived: every packet before this number has.
    pub to: u64,
    /// Number of packets that this acknowledgement covers and no earlier one did.
    pub newly: u32,
    /// Form of the acknowledgement.
    pub kind: AckKind,
    /// Round trip of the newest packet it newly covers, if that one was sent only once and no loss report showed its
    /// arrival before.
    ///
    /// Includes the delay of the acknowledgement at the peer, at most its interval.
    pub round_trip: Option<Duration>,
    /// True if the first packet sent after the last round's end is acknowledged: a round trip is over.
    pub ends_round: bool,
    /// Delivery rate sample, for controls with a model of the path.
    pub rate: Option<RateSample>,
}

/// The form of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckKind {
    /// Only a number, sent early because many packets arrived.
    Light,
    /// With round trip and window.
    Window,
    /// With arrival rate and capacity, too: at most one in the acknowledging interval.
    Full,
}

/// A sample of the delivery rate.
///
/// Source: draft-cheng-iccrg-delivery-rate-estimation, in packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateSample {
    /// Packets delivered during the sample, as far as that is certain.
    pub delivered: u64,
    /// Duration of the sample: the longer of sending and acknowledging them.
    pub interval: Duration,
    /// Number of packets known to be delivered when the sample's packet was sent.
    pub prior_delivered: u64,
    /// Number of packets known to be delivered now.
    pub total_delivered: u64,
    /// Packets reported lost since the sample's packet was sent.
    pub lost: u64,
    /// Packets in flight just after the sample's packet was sent.
    pub in_flight_at_send: u32,
    /// True if the application had too little to send when the sample's packet left.
    pub is_application_limited: bool,
}

/// Packets that count as lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lost<'a> {
    /// Their numbers, ascending, none of them acknowledged.
    pub ranges: &'a [Range<u64>],
    /// Number of them that were not known to be lost before.
    pub newly: u32,
    /// True if one of them was sent after the last loss that began an epoch was reported: at most once in a round
    /// trip.
    pub begins_epoch: bool,
    /// Origin of the report.
    pub source: LossSource,
    /// Round trip of the packet behind the hole that showed it to the peer; no acknowledgement covers that packet.
    pub round_trip: Option<Duration>,
    /// Delivery rate sample from the arrivals shown with it, for controls with a model of the path.
    pub rate: Option<RateSample>,
}

/// Origin of a loss report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSource {
    /// The peer.
    Report,
    /// The transport: the tail of the flight stays unanswered.
    Timeout,
}

/// Packets that were handed to the network together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Number of the first packet.
    pub first: u64,
    /// Number of packets, with consecutive numbers.
    pub packets: u32,
    /// True if they had been sent before.
    pub is_retransmission: bool,
}

/// A new size of full packets: a probe of the path was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resized {
    /// Size until now, IP and UDP headers included. Units: bytes.
    pub before_bytes: u32,
    /// Size from now on, that of the environment. Units: bytes.
    pub after_bytes: u32,
}

impl Resized {
    /// Returns the factor that keeps the bytes of a number of packets.
    #[must_use]
    pub fn factor(&self) -> f64 {
        f64::from(self.before_bytes.max(1)) / f64::from(self.after_bytes.max(1))
    }
}

/// Packets that arrived together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Number of packets, duplicates included.
    pub packets: u32,
    /// Size of these packets, IP and UDP headers included. Units: bytes.
    pub bytes: u64,
    /// Number of packets newly found missing.
    pub newly_missing: u32,
    /// Time when the kernel received the last of them.
    pub arrived: Instant,
}

/// A message from one end's control to the other's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Extended type, chosen by the control.
    pub kind: u16,
    /// Content in words of 32 bits: at most one packet.
    pub body: Vec<u32>,
}
