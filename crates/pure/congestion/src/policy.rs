//! What a control answers, and how the transport keeps absurd answers from doing harm.

use core::time::Duration;

/// What the transport shall obey until the next event.
///
/// Windows and rates are what the control computed: a transport takes them through [`Bounds::keep`], which no
/// value passes that would stall or flood.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Policy {
    /// Most packets in flight; infinite for none.
    pub window_packets: f64,
    /// Most packets a second, evenly spaced; infinite for none.
    pub packets_per_s: f64,
    /// Most packets that leave one directly behind the other; the transport may take fewer.
    pub burst_packets: u32,
    /// How this end acknowledges what it receives.
    pub acknowledge: AckPolicy,
    /// What shall stand for the transport's own timeout.
    pub timeout: Option<Duration>,
    /// When lost packets are sent again.
    pub retransmission: Retransmission,
}

/// How an end acknowledges what it receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckPolicy {
    /// The interval of full acknowledgements; at most 10 ms is obeyed, as libudt does.
    pub every: Duration,
    /// A full acknowledgement after so many packets, too.
    pub after_packets: Option<u32>,
    /// An acknowledgement with nothing but the number after so many packets.
    pub light_after_packets: u32,
    /// Whether the peer is told what is missing.
    pub reports: LossReports,
}

/// Whether the peer is told what is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossReports {
    /// At once, and again while it is missing.
    AtOnce,
    /// Not by the transport: the controls have their own way.
    Withheld,
}

/// When lost packets are sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retransmission {
    /// Before anything new, at the pace of the rest.
    First,
    /// Not until the control says otherwise: it sends in rounds, and asks the peer's by itself what of them arrived. Nor does
    /// the transport then take anything for lost because no answer comes.
    Withheld,
    /// As with `First`, in a round that repeats: nothing is taken for lost because no answer comes.
    Round,
}

/// What the transport can obey.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The largest window: the peer's buffer.
    pub max_window_packets: u32,
    /// The longest time between two packets.
    pub max_spacing: Duration,
}

/// A policy that can be obeyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effective {
    /// Most packets in flight, at least 1.
    pub window_packets: u32,
    /// Time between two packets in picoseconds; 0 for none.
    pub spacing_ps: u64,
    /// The control asked for something that cannot be obeyed.
    pub was_absurd: bool,
}

/// The interval of full acknowledgements, also the interval in which UDT's own control works: `SYN`.
pub const ACK_INTERVAL: Duration = Duration::from_millis(10);

const PICOS_PER_SECOND: f64 = 1e12;

impl Policy {
    /// No limits at all, and UDT's way of acknowledging.
    pub const OPEN: Self = Self {
        window_packets: f64::INFINITY,
        packets_per_s: f64::INFINITY,
        burst_packets: u32::MAX,
        acknowledge: AckPolicy::UDT,
        timeout: None,
        retransmission: Retransmission::First,
    };

    /// Returns the policy of a control that only knows a window.
    #[must_use]
    pub const fn window(packets: f64) -> Self {
        Self { window_packets: packets, ..Self::OPEN }
    }

    /// Returns the policy of a control that only knows a rate.
    #[must_use]
    pub const fn rate(packets_per_s: f64) -> Self {
        Self { packets_per_s, ..Self::OPEN }
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
    /// Returns what of a policy can be obeyed: a window of at least one packet and at most the peer's buffer, a
    /// pace that neither stops nor is nothing.
    #[must_use]
    pub fn keep(&self, policy: &Policy) -> Effective {
        let window = policy.window_packets;
        let pace = policy.packets_per_s;
        let most = f64::from(self.max_window_packets.max(1));
        // A window that grows beyond the peer's buffer is usual; one below a packet stops the connection.
        let window_is_absurd = window.is_nan() || window < 1.0;
        let pace_is_absurd = pace.is_nan() || pace <= 0.0;
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
            was_absurd: window_is_absurd || pace_is_absurd || spacing_ps > most_ps,
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
        let kept = BOUNDS.keep(&policy);
        assert_eq!(kept, Effective { window_packets: 16, spacing_ps: 12_000_048, was_absurd: false });
        assert_eq!(
            BOUNDS.keep(&Policy::OPEN),
            Effective { window_packets: 100, spacing_ps: 0, was_absurd: false }
        );
    }

    #[test]
    fn nothing_absurd_stops_or_floods() {
        for window in [f64::NAN, 0.0, -3.0, 0.99] {
            let kept = BOUNDS.keep(&Policy::window(window));
            assert_eq!((kept.window_packets, kept.was_absurd), (1, true), "{window}");
        }
        for pace in [f64::NAN, 0.0, -1.0, 1e-9] {
            let kept = BOUNDS.keep(&Policy::rate(pace));
            assert_eq!((kept.spacing_ps, kept.was_absurd), (1_000_000_000_000, true), "{pace}");
        }
    }
}
