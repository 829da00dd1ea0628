//! The connection's side of the contract with its congestion control.

use core::ops::Range;
use core::time::Duration;

use congestion::{
    Bounds, CongestionControl, Effective, Environment, Flight, Incoming, Message, PeerReport, Policy,
    Received, Resized, Retransmission, RoundTrip,
};
use units::{Instant, Random};
use wire::udt::Progress;

use crate::config::SocketConfig;

/// Minimum timeout of a control, to prevent flooding.
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);
/// Maximum timeout of a control, that of RFC 6298.
const MOST_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum delay of a timer that has fired and is due again at once.
const LEAST_TIMER: Duration = Duration::from_micros(100);

/// Arrival rate and capacity that libudt announces before its first measurement.
const UNMEASURED_RATES: (u32, u32) = (1, 1_000);

/// Maximum spacing: a lower rate than one packet in this time is clamped.
const MAX_SPACING: Duration = Duration::from_secs(1);

/// A control, its view of the peer, and its policy.
#[derive(Debug)]
pub(crate) struct CongestionLink {
    control: Box<dyn CongestionControl>,
    random: Random,
    pub(crate) peer: PeerReport,
    effective: Effective,
    retransmission: Retransmission,
    timer: Option<Instant>,
    /// Time when its timer was last due.
    fired_at: Option<Instant>,
    /// The control's replacement for the transport's timeout.
    timeout: Option<Duration>,
    /// Arrivals since the control's last notification: it is notified once for a batch.
    received: Option<Received>,
    /// Minimum spacing by the socket's own rate limit.
    least_spacing_ps: u64,
    /// The socket's own rate limit. Units: bytes per second.
    max_bytes_per_s: Option<u64>,
    pub(crate) absurd_policies: u64,
}

/// State of the connection that a control may read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) round_trip: RoundTrip,
    pub(crate) flight: Flight,
    pub(crate) incoming: Incoming<'a>,
}

impl CongestionLink {
    pub(crate) fn new(config: &SocketConfig, packet_bytes: u32, window_packets: u32, random: Random) -> Self {
        let mut link = Self {
            control: config.congestion.create(),
            random,
            peer: PeerReport { window_packets, ..PeerReport::default() },
            effective: Effective { window_packets: 1, spacing_ps: 0, was_absurd: false },
            retransmission: Retransmission::First,
            timer: None,
            fired_at: None,
            timeout: None,
            received: None,
            least_spacing_ps: 0,
            max_bytes_per_s: config.max_bytes_per_s,
            absurd_policies: 0,
        };
        link.keep_rate_with(packet_bytes);
        link
    }

    /// Keeps the socket's own rate limit with full packets of this size.
    pub(crate) fn keep_rate_with(&mut self, packet_bytes: u32) {
        let picos = |rate: u64| u64::from(packet_bytes) * 1_000_000_000_000 / rate.max(1);
        self.least_spacing_ps = self.max_bytes_per_s.map_or(0, picos);
    }

    pub(crate) const fn effective(&self) -> Effective {
        self.effective
    }

    pub(crate) const fn retransmission(&self) -> Retransmission {
        self.retransmission
    }

    pub(crate) const fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Returns whether the control's timer is due, once.
    pub(crate) fn takes_timer(&mut self, now: Instant) -> bool {
        let is_due = self.timer.is_some_and(|at| at <= now);
        self.fired_at = is_due.then_some(now).or(self.fired_at);
        is_due
    }

    pub(crate) const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Takes the peer's report about itself.
    ///
    /// Source: libudt's weights of 1/8; the first value is used alone, where libudt starts with 16 packets per second
    /// and collapses to that if a loss comes early.
    pub(crate) fn peer_says(&mut self, progress: &Progress) {
        self.peer.window_packets = progress.window_packets;
        let smooth = |old: Option<f64>, new: u32| match old {
            _ if new == 0 => old,
            None => Some(f64::from(new)),
            Some(old) => Some((old * 7.0 + f64::from(new)) / 8.0),
        };
        if let Some((arrival, capacity)) = progress.rates.filter(|rates| *rates != UNMEASURED_RATES) {
            self.peer.arrival_packets_per_s = smooth(self.peer.arrival_packets_per_s, arrival);
            self.peer.capacity_packets_per_s = smooth(self.peer.capacity_packets_per_s, capacity);
        }
    }

    /// Keeps the bytes of the peer's rates with packets of another size: the next reports are averaged with them.
    pub(crate) fn resize(&mut self, resized: &Resized) {
        for rate in [&mut self.peer.arrival_packets_per_s, &mut self.peer.capacity_packets_per_s] {
            *rate = rate.map(|rate| rate * resized.factor());
        }
    }

    pub(crate) fn note_received(&mut self, received: Received) {
        let so_far =
            self.received.get_or_insert(Received { packets: 0, bytes: 0, newly_missing: 0, ..received });
        so_far.packets += received.packets;
        so_far.bytes += received.bytes;
        so_far.newly_missing += received.newly_missing;
        so_far.arrived = received.arrived;
    }

    pub(crate) const fn take_received(&mut self) -> Option<Received> {
        self.received.take()
    }

    pub(crate) fn poll_message(&mut self) -> Option<Message> {
        self.control.poll_message()
    }

    pub(crate) fn poll_missing(&mut self) -> Option<Range<u64>> {
        self.control.poll_missing()
    }

    /// Notifies the control of an event and adopts its policy, as far as it can be obeyed.
    pub(crate) fn consult(
        &mut self,
        now: Instant,
        view: View<'_>,
        ask: impl FnOnce(&mut dyn CongestionControl, &mut Environment<'_>),
    ) -> Policy {
        let View { round_trip, flight, incoming } = view;
        let max_window_packets = flight.max_window_packets;
        let mut environment =
            Environment { now, round_trip, peer: self.peer, flight, incoming, random: &mut self.random };
        ask(&mut *self.control, &mut environment);
        let policy = self.control.policy();
        self.effective = Bounds { max_window_packets, max_spacing: MAX_SPACING }.keep(&policy, &round_trip);
        self.timeout = policy.timeout.map(|timeout| timeout.clamp(LEAST_TIMEOUT, MOST_TIMEOUT));
        self.absurd_policies += u64::from(self.effective.was_absurd || self.timeout != policy.timeout);
        self.effective.spacing_ps = self.effective.spacing_ps.max(self.least_spacing_ps);
        self.retransmission = policy.retransmission;
        self.timer = self.control.next_timer();
        if self.timer.is_some_and(|at| at <= now) && self.fired_at == Some(now) {
            // Without a delay the timer would fire endlessly.
            self.timer = Some(now + LEAST_TIMER);
            self.absurd_policies += 1;
        }
        policy
    }
}

#[cfg(test)]
mod tests {
    use wire::udt::SocketType;

    use super::*;

    #[test]
    fn reported_rates_keep_their_bytes_with_larger_packets() {
        let config = SocketConfig::new(SocketType::Stream);
        let mut link = CongestionLink::new(&config, 576, 10, Random::new(1));
        link.peer.arrival_packets_per_s = Some(1_000.0);
        link.resize(&Resized { before_bytes: 576, after_bytes: 1_152 });
        assert_eq!((link.peer.arrival_packets_per_s, link.peer.capacity_packets_per_s), (Some(500.0), None));
    }
}
