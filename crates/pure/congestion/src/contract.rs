//! The contract itself, and what a control may look at while it is asked.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use units::{Instant, Random, RangeSet};

use crate::{Acked, Lost, Message, Policy, Received, Sent};

/// Decides how fast one connection sends.
///
/// Three methods are required; the others are for controls that need more. Calls are never nested. After each of
/// them the transport reads [`policy`](Self::policy) again, so that one must be cheap and change nothing.
///
/// # Examples
///
/// Additive increase, multiplicative decrease, and no more:
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
    /// Returns what the transport shall obey until the next event.
    fn policy(&self) -> Policy;

    /// Takes note of an acknowledgement, also of one that covers nothing new.
    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked);

    /// Takes note of packets that the peer reported as lost, or that the transport takes for lost.
    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>);

    /// Takes note that the connection is ready to send; the environment has the peer's window.
    fn on_start(&mut self, environment: &mut Environment<'_>) {
        let _ = environment;
    }

    /// Takes note that nothing was heard for the timeout while packets were in flight.
    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        let _ = environment;
    }

    /// Takes note of packets handed to the network, one train at a time.
    fn on_sent(&mut self, environment: &mut Environment<'_>, sent: &Sent) {
        let _ = (environment, sent);
    }

    /// Takes note of data that arrived, for controls whose receiver decides.
    fn on_received(&mut self, environment: &mut Environment<'_>, received: &Received) {
        let _ = (environment, received);
    }

    /// Takes a control message of the peer's control (UDT packet type `0x7FFF`).
    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        let _ = (environment, message);
    }

    /// Returns the next message for the peer's control; asked after every event until there is none.
    fn poll_message(&mut self) -> Option<Message> {
        None
    }

    /// Returns packets of this end's that the peer's control says are missing: the transport takes them for lost. Asked after
    /// every event until there are none.
    fn poll_missing(&mut self) -> Option<Range<u64>> {
        None
    }

    /// Returns when [`on_timer`](Self::on_timer) shall be called; asked after every event.
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Takes note that the moment of [`next_timer`](Self::next_timer) has come.
    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        let _ = environment;
    }

    /// Tells what it believes, each by name with its unit, for statistics and plots.
    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        let _ = tell;
    }
}

/// What a control may look at, and the chance it may use.
#[derive(Debug)]
pub struct Environment<'a> {
    /// The time of the event, for a batch of packets the time of the batch.
    pub now: Instant,
    /// How long a packet takes there and its acknowledgement back.
    pub round_trip: RoundTrip,
    /// What the peer last said about itself.
    pub peer: PeerReport,
    /// What is on its way.
    pub flight: Flight,
    /// What of the peer's packets is here. Both ends give a packet the same number.
    pub incoming: Incoming<'a>,
    /// The connection's own chance.
    pub random: &'a mut Random,
}

/// What of the peer's packets is here.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The first that is not here: every packet before it is.
    pub next: u64,
    /// One behind the newest.
    pub received_end: u64,
    /// What is missing between the two.
    pub missing: &'a RangeSet,
}

/// What is known of the round-trip time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTrip {
    /// The newest sample; none before the first.
    pub latest: Option<Duration>,
    /// The smoothed time; 100 ms before the first sample.
    pub smoothed: Duration,
    /// The smoothed difference from it; 50 ms before the first sample.
    pub variation: Duration,
    /// The smallest sample of the connection.
    pub least: Option<Duration>,
}

/// What the peer's acknowledgements say, smoothed as the transport does it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PeerReport {
    /// At which rate packets arrive there, in packets per second; none before it was told.
    pub arrival_packets_per_s: Option<f64>,
    /// What the way carries by packet pairs, in packets per second; none before it was told.
    pub capacity_packets_per_s: Option<f64>,
    /// Free packets of the peer's receive buffer.
    pub window_packets: u32,
}

/// What is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flight {
    /// The number of the next new packet.
    pub next: u64,
    /// Every packet before it is acknowledged.
    pub acked_to: u64,
    /// Packets sent and neither acknowledged nor reported lost.
    pub in_flight: u32,
    /// The application had nothing more to send when the window was not full.
    pub is_application_limited: bool,
    /// A full packet's size on the way, IP and UDP headers included.
    pub packet_bytes: u32,
    /// The most packets that the peer's buffer ever offered.
    pub max_window_packets: u32,
}

impl RoundTrip {
    /// What holds before the first sample.
    ///
    /// Source: libudt 4.11's initial values, which a peer sees in the first acknowledgement.
    pub const UNKNOWN: Self = Self {
        latest: None,
        smoothed: Duration::from_millis(100),
        variation: Duration::from_millis(50),
        least: None,
    };
}
