//! Delivery rate of the path, measured at the sender.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation, in packets.

use congestion::RateSample;
use units::Instant;

/// State recorded for each packet when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentMark {
    pub(crate) sent_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    in_flight: InFlight,
    is_application_limited: bool,
}

/// Packets in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InFlight {
    pub(crate) all: u32,
    /// Number of them that were sent again: some may have arrived already.
    pub(crate) resent: u64,
}

/// Samples the delivery rate of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSampler {
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    /// Number of delivered packets up to which samples are application-limited.
    limited_until: u64,
}

impl RateSampler {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { delivered: 0, delivered_at: now, first_sent_at: now, lost: 0, limited_until: 0 }
    }

    /// Marks `packets` that are sent now; `in_flight` counts them.
    pub(crate) fn mark(&mut self, now: Instant, packets: u32, in_flight: InFlight) -> SentMark {
        if in_flight.all <= packets {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        SentMark {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            in_flight,
            is_application_limited: self.delivered < self.limited_until,
        }
    }

    /// Records that the application has nothing more to send.
    pub(crate) const fn limit(&mut self, in_flight: u32) {
        self.limited_until = self.delivered + if in_flight == 0 { 1 } else { in_flight as u64 };
    }

    pub(crate) const fn lose(&mut self, packets: u64) {
        self.lost += packets;
    }

    /// Records that `delivered` packets in total are known to have arrived, at unknown times.
    pub(crate) fn fill(&mut self, delivered: u64) {
        // A timeout counts everything as lost, even packets known to have arrived.
        self.delivered = self.delivered.max(delivered);
    }

    /// Records that `delivered` packets in total are known to have arrived, the one marked `newest` just now, and
    /// computes its sample.
    pub(crate) fn deliver(&mut self, now: Instant, delivered: u64, newest: &SentMark) -> Option<RateSample> {
        self.fill(delivered);
        self.delivered_at = now;
        let sending = newest.sent_at.since(newest.first_sent_at);
        let acknowledging = now.since(newest.delivered_at);
        let interval = sending.max(acknowledging);
        self.first_sent_at = newest.sent_at;
        (!interval.is_zero()).then(|| RateSample {
            delivered: (self.delivered - newest.delivered).saturating_sub(newest.in_flight.resent),
            interval,
            prior_delivered: newest.delivered,
            total_delivered: self.delivered,
            lost: self.lost - newest.lost,
            in_flight_at_send: newest.in_flight.all,
            is_application_limited: newest.is_application_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn flying(all: u32) -> InFlight {
        InFlight { all, resent: 0 }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn what_is_delivered_between_sending_and_acknowledging_is_the_rate() {
        let mut sampler = RateSampler::new(at(0));
        // A packet each millisecond, acknowledged 20 ms later.
        let marks: Vec<SentMark> =
            (0..40).map(|n| sampler.mark(at(n), 1, flying(u32::try_from(n + 1).unwrap()))).collect();
        let mut last = None;
        for (n, mark) in (0..).zip(&marks) {
            last = sampler.deliver(at(n + 20), n + 1, mark);
        }
        let sample = last.unwrap();
        assert_eq!((sample.delivered, sample.interval), (40, Duration::from_millis(59)));
        // A round later the interval is exactly a round trip.
        let mark = sampler.mark(at(59), 1, flying(2));
        let sample = sampler.deliver(at(79), 60, &mark).unwrap();
        assert_eq!((sample.delivered, sample.interval), (20, Duration::from_millis(20)));
    }

    #[test]
    fn who_has_nothing_to_send_limits_what_is_in_flight() {
        let mut sampler = RateSampler::new(at(0));
        let before = sampler.mark(at(1), 1, flying(1));
        sampler.limit(1);
        let after = sampler.mark(at(2), 1, flying(2));
        assert!(!sampler.deliver(at(5), 1, &before).unwrap().is_application_limited);
        assert!(sampler.deliver(at(6), 2, &after).unwrap().is_application_limited);
        assert!(!sampler.mark(at(7), 1, flying(2)).is_application_limited);
    }
}
