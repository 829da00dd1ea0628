//! What a control is told.

use core::ops::Range;
use core::time::Duration;

use units::Instant;

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Acked {
    /// Every packet before this number has arrived.
    pub to: u64,
    /// How many packets this one covers that none before it did.
    pub newly: u32,
    /// Which form it had.
    pub kind: AckKind,
    /// Round-trip time of the newest packet that it newly covers, if that packet was sent only once and no loss report
    /// named it before.
    ///
    /// Contains the time for which the peer withheld the acknowledgement, at most its interval.
    pub round_trip: Option<Duration>,
    /// The first packet that was sent after the last round's end is acknowledged: a round trip is over.
    pub ends_round: bool,
    /// What was delivered between two sendings, for controls with a model of the way.
    pub rate: Option<RateSample>,
}

/// The form of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckKind {
    /// Only a number, sent early because many packets came.
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
    /// Packets that were delivered while the sample was taken, as far as that is certain.
    pub delivered: u64,
    /// How long that took: the longer of sending and acknowledging them.
    pub interval: Duration,
    /// How many were known to be delivered when the sample's packet was sent.
    pub prior_delivered: u64,
    /// How many are known to be delivered now.
    pub total_delivered: u64,
    /// Packets reported lost since the sample's packet was sent.
    pub lost: u64,
    /// Packets in flight just after the sample's packet was sent.
    pub in_flight_at_send: u32,
    /// The application had had too little to send when the sample's packet left.
    pub is_application_limited: bool,
}

/// Packets taken for lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lost<'a> {
    /// Their numbers, ascending, none of them acknowledged.
    pub ranges: &'a [Range<u64>],
    /// How many of them were not known to be lost before.
    pub newly: u32,
    /// One of them was sent after the last loss that began an epoch was reported: at most once in a round trip.
    pub begins_epoch: bool,
    /// Who says so.
    pub source: LossSource,
    /// How long the packet behind the hole took, by which the peer saw it: an acknowledgement is silent about that one.
    pub round_trip: Option<Duration>,
    /// What is known to be delivered with it, for controls with a model of the way.
    pub rate: Option<RateSample>,
}

/// Who says that packets were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSource {
    /// The peer.
    Report,
    /// The transport: the tail of what it sent stays without an answer.
    Timeout,
}

/// Packets that were handed to the network together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The first one's number.
    pub first: u64,
    /// How many, with numbers one after the other.
    pub packets: u32,
    /// They had been sent before.
    pub is_retransmission: bool,
}

/// Packets that arrived together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// How many, duplicates included.
    pub packets: u32,
    /// How many numbers were newly found missing.
    pub newly_missing: u32,
    /// When the kernel received the last of them.
    pub arrived: Instant,
}

/// A message from one end's control to the other's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The extended type, free for the control.
    pub kind: u16,
    /// What it says, in words of 32 bits: at most as long as a packet.
    pub body: Vec<u32>,
}
