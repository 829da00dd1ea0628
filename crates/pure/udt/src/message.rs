//! What a sender says of a message, and what both ends learn of it.

use units::Instant;

/// Terms of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// True if the message must not be delivered before earlier ones.
    pub is_ordered: bool,
    /// Time by which the message has to reach the peer; after it the undelivered rest is given up.
    pub deadline: Option<Instant>,
    /// Precedence of its repairs, with [`Repair::Timely`](crate::Repair::Timely): they leave before new messages of the same
    /// or a lower priority, and behind those of a higher one.
    pub priority: u8,
    /// The owner's name of the message, which [`Event::Expired`](crate::Event::Expired) repeats.
    pub tag: u64,
}

/// Outcome of offering a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    /// It is queued.
    Queued,
    /// There is no room for it now; [`Event::Writable`](crate::Event::Writable) tells when there is.
    NoRoom,
    /// It cannot arrive by its deadline any more, and was not queued. Only with
    /// [`Repair::Timely`](crate::Repair::Timely).
    TooLate,
}

/// Times of a received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Departure of its packet that arrived last, by the sender's [clock](crate::Endpoint::clock_us): of a packet that
    /// was sent again, the latest. Units: microseconds since the connection was opened; 32 bits that wrap.
    pub sent_us: u32,
    /// Arrival of that packet.
    pub arrived: Instant,
}
