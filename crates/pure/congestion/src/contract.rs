//! The contract itself, and the environment that a control may read.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use units::{Instant, Random, RangeSet};

use crate::{Acked, Lost, Message, Policy, Received, Resized, Sent};

/// A congestion control, which decides how fast one connection sends.
///
/// Three methods are required; the others are for controls that need more. Calls are never nested. After each of
/// them the transport reads [`policy`](Self::policy) again, so that one must be cheap and change nothing.
///
/// # Examples
///
/// Additive increase, multiplicative decrease, and nothing else:
///
/// ```
/// use congestion::{Acked, CongestionControl, Environment, Lost, Policy};
///
/// #[derive(Debug)]
/// struct Aimd {
///     window: f64,
/// }
///
/// impl CongestionControl for Aimd {
///     fn policy(&self) -> Policy {
///         Policy::window(self.window)
///     }
///
///     fn on_ack(&mut self, _: &mut Environment<'_>, acked: &Acked) {
///         self.window += f64::from(acked.newly) / self.window;
///     }
///
///     fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
///         if lost.begins_epoch {
///             self.window = (self.window / 2.0).max(2.0);
///         }
///     }
/// }
/// ```
pub trait CongestionControl: fmt::Debug + Send {
    /// Returns the policy for the transport until the next event.
    fn policy(&self) -> Policy;

    /// Handles an acknowledgement, also one that covers nothing new.
    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked);

    /// Handles packets that the peer reported lost, or that the transport counts as lost.
    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>);

    /// Handles the start of sending; the environment has the peer's window.
    fn on_start(&mut self, environment: &mut Environment<'_>) {
        let _ = environment;
    }

    /// Handles a new size of full packets: the bytes of windows and rates must not grow with it, so their packets
    /// become fewer.
    ///
    /// Source: RFC 8899 §3, requirement on the congestion window.
    fn on_packet_size(&mut self, environment: &mut Environment<'_>, resized: &Resized) {
        let _ = (environment, resized);
    }

    /// Handles a timeout: nothing was received although packets were in flight.
    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        let _ = environment;
    }

    /// Handles packets handed to the network, one train at a time.
    fn on_sent(&mut self, environment: &mut Environment<'_>, sent: &Sent) {
        let _ = (environment, sent);
    }

    /// Handles arrived data, for controls whose receiver decides.
    fn on_received(&mut self, environment: &mut Environment<'_>, received: &Received) {
        let _ = (environment, received);
    }

    /// Handles a message of the peer's control (UDT packet type `0x7FFF`).
    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        let _ = (environment, message);
    }

    /// Returns the next message for the peer's control; called after every event until there is none.
    fn poll_message(&mut self) -> Option<Message> {
        None
    }

    /// Returns packets of this end that the peer's control reports missing: the transport counts them as lost. Called
    /// after every event until there are none.
    fn poll_missing(&mut self) -> Option<Range<u64>> {
        None
    }

    /// Returns the time of the next [`on_timer`](Self::on_timer); called after every event.
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Handles the time of [`next_timer`](Self::next_timer).
    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        let _ = environment;
    }

    /// Reports its estimates, each by name with its unit, for statistics and plots.
    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        let _ = tell;
    }
}

/// Factory of the controls of connections; state shared between connections is kept here.
pub trait Factory: fmt::Debug + Send + Sync {
    /// Creates the control of a new connection.
    fn create(&self) -> Box<dyn CongestionControl>;
}

/// The state that a control may read, and its random numbers.
#[derive(Debug)]
pub struct Environment<'a> {
    /// Time of the event, for a batch of packets the time of the batch.
    pub now: Instant,
    /// Round-trip time from a packet to its acknowledgement.
    pub round_trip: RoundTrip,
    /// The peer's latest report about itself.
    pub peer: PeerReport,
    /// Packets in flight.
    pub flight: Flight,
    /// Received packets of the peer. Both ends give a packet the same number.
    pub incoming: Incoming<'a>,
    /// The connection's own random numbers.
    pub random: &'a mut Random,
}

/// Received packets of the peer.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The first missing packet: every packet before it was received.
    pub next: u64,
    /// One more than the newest.
    pub received_end: u64,
    /// The missing packets between the two.
    pub missing: &'a RangeSet,
}

/// Estimates of the round-trip time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTrip {
    /// The newest sample; `None` before the first.
    pub latest: Option<Duration>,
    /// The smoothed time; 100 ms before the first sample.
    pub smoothed: Duration,
    /// The smoothed difference from it; 50 ms before the first sample.
    pub variation: Duration,
    /// The smallest sample of the connection.
    pub least: Option<Duration>,
}

/// Contents of the peer's acknowledgements, smoothed by the transport.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PeerReport {
    /// Arrival rate at the peer, in packets per second; `None` before the first report.
    pub arrival_packets_per_s: Option<f64>,
    /// Capacity of the path by packet pairs, in packets per second; `None` before the first report.
    pub capacity_packets_per_s: Option<f64>,
    /// Free packets of the peer's receive buffer.
    pub window_packets: u32,
}

/// Packets in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flight {
    /// The number of the next new packet.
    pub next: u64,
    /// The first packet that is not acknowledged.
    pub acked_to: u64,
    /// Packets sent and neither acknowledged nor reported lost.
    pub in_flight: u32,
    /// True if the application had nothing more to send while the window was not full.
    pub is_application_limited: bool,
    /// Size of a full packet on the path, IP and UDP headers included. Units: bytes.
    pub packet_bytes: u32,
    /// Largest free space that the peer's buffer ever offered. Units: packets.
    pub max_window_packets: u32,
}

impl Flight {
    /// Returns the size of a full packet on the path. Units: bits.
    pub(crate) fn packet_bits(&self) -> f64 {
        f64::from(self.packet_bytes.max(1)) * 8.0
    }
}

impl RoundTrip {
    /// Maximum plausible round trip: controls derive no longer times from a longer one.
    pub(crate) const LONGEST: Duration = Duration::from_secs(10);

    /// Values before the first sample.
    ///
    /// Source: libudt 4.11's initial values, which a peer sees in the first acknowledgement.
    pub const UNKNOWN: Self = Self {
        latest: None,
        smoothed: Duration::from_millis(100),
        variation: Duration::from_millis(50),
        least: None,
    };
}
