//! The policy of a control, and the limits that keep absurd policies from doing harm.

use core::time::Duration;

use crate::RoundTrip;

/// The policy for the transport until the next event.
///
/// Windows and rates are the control's raw values: a transport applies them through [`Bounds::keep`], which excludes
/// every value that would stall or flood.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Policy {
    /// Maximum number of packets in flight; infinite for no limit.
    pub window_packets: f64,
    /// Maximum rate of packets per second, evenly spaced; infinite for no limit.
    pub packets_per_s: f64,
    /// Pace without a rate, as a multiple of a window in a round trip. Infinite disables pacing, and packets leave in
    /// bursts: one acknowledgement covers many packets.
    pub spread: f64,
    /// Maximum number of packets that leave back to back; the transport may choose fewer.
    pub burst_packets: u32,
    /// Acknowledging of received packets at this end.
    pub acknowledge: AckPolicy,
    /// Replacement for the transport's own timeout.
    pub timeout: Option<Duration>,
    /// Time of retransmissions.
    pub retransmission: Retransmission,
}

/// Acknowledging of received packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckPolicy {
    /// Interval of full acknowledgements; at most 10 ms takes effect, as in libudt.
    pub every: Duration,
    /// Number of packets after which a full acknowledgement is sent as well.
    pub after_packets: Option<u32>,
    /// Number of packets after which an acknowledgement with only a number is sent.
    pub light_after_packets: u32,
    /// Reporting of missing packets to the peer.
    pub reports: LossReports,
}

/// Reporting of missing packets to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossReports {
    /// At once, and repeatedly while packets are missing.
    AtOnce,
    /// Not by the transport: the controls have their own messages.
    Withheld,
}

/// Time of retransmissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retransmission {
    /// Before anything new, at the pace of the rest.
    First,
    /// Not until the control requests it: it sends in rounds, and asks the peer's control itself which packets
    /// arrived. The transport then counts no packet as lost for lack of an answer.
    Withheld,
    /// Like `First`, in a round of repetitions: no packet counts as lost for lack of an answer.
    Round,
}

/// Limits of the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Maximum window: the peer's buffer.
    pub max_window_packets: u32,
    /// Maximum time between two packets.
    pub max_spacing: Duration,
}

/// A policy within the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effective {
    /// Maximum number of packets in flight, at least 1.
    pub window_packets: u32,
    /// Time between two packets in picoseconds; 0 for no pacing.
    pub spacing_ps: u64,
    /// True if the control's policy was outside the limits.
    pub was_absurd: bool,
}

/// Interval of full acknowledgements, also the interval in which UDT's own control works: `SYN`.
pub const ACK_INTERVAL: Duration = Duration::from_millis(10);

/// Default of [`Policy::spread`]: a little faster than a window in a round trip, so that a window is sent before it
/// is acknowledged, and twice as fast where each acknowledgement lets two packets leave.
///
/// Source: the pace of Linux's TCP is 1.2 and 2 times the window in a round trip.
const SPREAD: f64 = 1.25;
const SPREAD_DOUBLING: f64 = 2.0;

const PICOS_PER_SECOND: f64 = 1e12;

impl Policy {
    /// No limits, and UDT's acknowledging.
    pub const OPEN: Self = Self {
        window_packets: f64::INFINITY,
        packets_per_s: f64::INFINITY,
        spread: f64::INFINITY,
        burst_packets: u32::MAX,
        acknowledge: AckPolicy::UDT,
        timeout: None,
        retransmission: Retransmission::First,
    };

    /// Returns the policy of a control with only a window: the transport spreads it over the round trip.
    #[must_use]
    pub const fn window(packets: f64) -> Self {
        Self { window_packets: packets, spread: SPREAD, ..Self::OPEN }
    }

    /// Returns the policy of a window that doubles in a round trip, and so must not be spread over all of it.
    #[must_use]
    pub const fn doubling_window(packets: f64) -> Self {
        Self { window_packets: packets, spread: SPREAD_DOUBLING, ..Self::OPEN }
    }

    /// Returns the policy of a control with only a rate.
    #[must_use]
    pub const fn rate(packets_per_s: f64) -> Self {
        Self { packets_per_s, ..Self::OPEN }
    }

    /// Returns the packets per second that may leave, by the rate or by the window spread over a round trip.
    #[must_use]
    pub fn pace(&self, round_trip: &RoundTrip) -> f64 {
        let seconds = round_trip.smoothed.as_secs_f64();
        if self.packets_per_s != f64::INFINITY || round_trip.latest.is_none() || seconds == 0.0 {
            return self.packets_per_s;
        }
        self.spread * self.window_packets.max(1.0) / seconds
    }

    /// Returns the policy with packets spaced evenly, `gain` times as fast as the window in a round trip.
    ///
    /// Units: `round_trip` as smoothed; a time of zero leaves the pace open.
    #[must_use]
    pub fn paced(mut self, gain: f64, round_trip: Duration) -> Self {
        let seconds = round_trip.as_secs_f64();
        if seconds > 0.0 {
            self.packets_per_s = gain * self.window_packets / seconds;
        }
        self
    }
}

impl AckPolicy {
    /// A full acknowledgement each 10 ms, a light one each 64 packets.
    pub const UDT: Self = Self {
        every: ACK_INTERVAL,
        after_packets: None,
        light_after_packets: 64,
        reports: LossReports::AtOnce,
    };
}

impl Bounds {
    /// Returns the policy within the limits: a window of at least one packet and at most the peer's buffer, and a
    /// positive pace.
    #[must_use]
    pub fn keep(&self, policy: &Policy, round_trip: &RoundTrip) -> Effective {
        let window = policy.window_packets;
        let pace = policy.pace(round_trip);
        let most = f64::from(self.max_window_packets.max(1));
        // A window that grows beyond the peer's buffer is usual; one below a packet stops the connection.
        let window_is_absurd = window.is_nan() || window < 1.0;
        let pace_is_absurd = pace.is_nan() || pace <= 0.0;
        // A small window over a long round trip gives a slow pace: that is the path's property, and not the control's
        // demand.
        let is_asked_for = policy.packets_per_s != f64::INFINITY;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a u32")]
        let window_packets = if window_is_absurd { 1 } else { window.min(most) as u32 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, and it is not negative"
        )]
        let spacing_ps = if pace_is_absurd { u64::MAX } else { (PICOS_PER_SECOND / pace) as u64 };
        let most_ps = u64::try_from(self.max_spacing.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1_000);
        Effective {
            window_packets,
            spacing_ps: spacing_ps.min(most_ps),
            was_absurd: window_is_absurd || pace_is_absurd || is_asked_for && spacing_ps > most_ps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { max_window_packets: 100, max_spacing: Duration::from_secs(1) };

    #[test]
    fn a_usual_policy_is_obeyed_as_it_is() {
        let policy = Policy { packets_per_s: 83_333.0, ..Policy::window(16.7) };
        let kept = BOUNDS.keep(&policy, &RoundTrip::UNKNOWN);
        assert_eq!(kept, Effective { window_packets: 16, spacing_ps: 12_000_048, was_absurd: false });
        assert_eq!(
            BOUNDS.keep(&Policy::OPEN, &RoundTrip::UNKNOWN),
            Effective { window_packets: 100, spacing_ps: 0, was_absurd: false }
        );
    }

    const TEN_MILLIS: RoundTrip = RoundTrip {
        latest: Some(Duration::from_millis(10)),
        smoothed: Duration::from_millis(10),
        ..RoundTrip::UNKNOWN
    };

    #[test]
    fn a_window_is_spread_over_the_round_trip_once_that_is_known_unless_there_is_a_rate() {
        let pace = |policy: Policy| policy.pace(&TEN_MILLIS);
        assert_eq!(pace(Policy::window(80.0)), 10_000.0);
        assert_eq!(pace(Policy::doubling_window(80.0)), 16_000.0);
        assert_eq!(pace(Policy { packets_per_s: 7.0, ..Policy::window(80.0) }), 7.0);
        assert_eq!(pace(Policy::OPEN), f64::INFINITY);
        assert_eq!(pace(Policy::window(f64::NAN)), 125.0, "what is absurd still has a pace");
        assert_eq!(Policy::window(80.0).pace(&RoundTrip::UNKNOWN), f64::INFINITY);
    }

    #[test]
    fn nothing_absurd_stops_or_floods() {
        for window in [f64::NAN, 0.0, -3.0, 0.99] {
            let kept = BOUNDS.keep(&Policy::window(window), &TEN_MILLIS);
            assert_eq!((kept.window_packets, kept.was_absurd), (1, true), "{window}");
        }
        for pace in [f64::NAN, 0.0, -1.0, 1e-9] {
            let kept = BOUNDS.keep(&Policy::rate(pace), &TEN_MILLIS);
            assert_eq!((kept.spacing_ps, kept.was_absurd), (1_000_000_000_000, true), "{pace}");
        }
    }
}
