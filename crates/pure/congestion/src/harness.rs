//! What tests of controls have in common: something to look at, and ways with known losses.

use core::time::Duration;

use units::{Instant, Random};

use crate::{
    AckKind, Acked, CongestionControl, Environment, Flight, LossSource, Lost, PeerReport, RoundTrip,
};

/// What a control looks at, moved by hand.
pub(crate) struct Stage {
    pub(crate) now: Instant,
    pub(crate) round_trip: RoundTrip,
    pub(crate) peer: PeerReport,
    pub(crate) flight: Flight,
    pub(crate) random: Random,
    /// Packets that may be sent and were not yet.
    pub(crate) budget: f64,
}

impl Stage {
    pub(crate) fn new(seed: u64, round_trip: Duration) -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            round_trip: RoundTrip {
                latest: Some(round_trip),
                smoothed: round_trip,
                variation: Duration::ZERO,
                least: Some(round_trip),
            },
            peer: PeerReport { window_packets: 1_000_000, ..PeerReport::default() },
            flight: Flight {
                next: 1,
                acked_to: 0,
                in_flight: 1,
                is_application_limited: false,
                packet_bytes: 1_500,
                max_window_packets: 1_000_000,
            },
            random: Random::new(seed),
            budget: 0.0,
        }
    }

    pub(crate) fn environment(&mut self) -> Environment<'_> {
        Environment {
            now: self.now,
            round_trip: self.round_trip,
            peer: self.peer,
            flight: self.flight,
            random: &mut self.random,
        }
    }

    /// Acknowledges `newly` packets more.
    pub(crate) fn ack(&mut self, control: &mut dyn CongestionControl, newly: u32) {
        self.flight.acked_to += u64::from(newly);
        self.flight.next = self.flight.next.max(self.flight.acked_to);
        let acked = Acked {
            to: self.flight.acked_to,
            newly,
            kind: AckKind::Full,
            round_trip: self.round_trip.latest,
            ends_round: false,
            rate: None,
        };
        control.on_ack(&mut self.environment(), &acked);
    }

    /// Reports the newest packet as lost.
    pub(crate) fn lose(&mut self, control: &mut dyn CongestionControl) {
        self.report_newest(control, true);
    }

    /// Reports the newest packet as lost, in the epoch that there is.
    pub(crate) fn lose_again(&mut self, control: &mut dyn CongestionControl) {
        self.report_newest(control, false);
    }

    fn report_newest(&mut self, control: &mut dyn CongestionControl, begins_epoch: bool) {
        let newest = self.flight.next - 1..self.flight.next;
        let ranges = [newest];
        let lost = Lost { ranges: &ranges, newly: 1, begins_epoch, source: LossSource::Report };
        control.on_loss(&mut self.environment(), &lost);
    }
}
