//! Common parts of the tests of controls: an environment, and paths with known losses.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::{Instant, Random, RangeSet};

use crate::{
    AckKind, Acked, CongestionControl, Environment, Flight, Incoming, LossSource, Lost, PeerReport,
    RateSample, Received, RoundTrip, Sent,
};

/// The environment of a control, set by hand.
pub(crate) struct Stage {
    pub(crate) now: Instant,
    pub(crate) round_trip: RoundTrip,
    pub(crate) peer: PeerReport,
    pub(crate) flight: Flight,
    pub(crate) random: Random,
    /// Missing packets of the peer below `received_end`.
    pub(crate) missing: RangeSet,
    pub(crate) received_end: u64,
    /// Packets that may be sent and were not yet.
    pub(crate) budget: f64,
    /// Rate sample of the next acknowledgement, instead of the usual one.
    pub(crate) strange_rate: Option<RateSample>,
}

/// Packets delivered in a round trip, once there were that many.
const USUALLY_DELIVERED: u64 = 400;

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
            missing: RangeSet::new(),
            received_end: 0,
            budget: 0.0,
            strange_rate: None,
        }
    }

    pub(crate) fn environment(&mut self) -> Environment<'_> {
        Environment {
            now: self.now,
            round_trip: self.round_trip,
            peer: self.peer,
            flight: self.flight,
            incoming: Incoming {
                next: self.missing.first().map_or(self.received_end, |range| range.start),
                received_end: self.received_end,
                missing: &self.missing,
            },
            random: &mut self.random,
        }
    }

    /// Acknowledges `newly` more packets.
    pub(crate) fn ack(&mut self, control: &mut dyn CongestionControl, newly: u32) {
        self.flight.acked_to += u64::from(newly);
        self.flight.next = self.flight.next.max(self.flight.acked_to);
        let acked = Acked {
            to: self.flight.acked_to,
            newly,
            kind: AckKind::Full,
            round_trip: self.round_trip.latest,
            ends_round: false,
            rate: self.strange_rate.take().or_else(|| self.usual_rate()),
        };
        control.on_ack(&mut self.environment(), &acked);
    }

    fn usual_rate(&self) -> Option<RateSample> {
        let delivered = self.flight.acked_to.min(USUALLY_DELIVERED);
        self.round_trip.latest.filter(|_| delivered > 0).map(|interval| RateSample {
            delivered,
            interval,
            prior_delivered: self.flight.acked_to - delivered,
            total_delivered: self.flight.acked_to,
            lost: 0,
            in_flight_at_send: USUALLY_DELIVERED as u32,
            is_application_limited: false,
        })
    }

    /// Reports the newest packet as lost.
    pub(crate) fn lose(&mut self, control: &mut dyn CongestionControl) {
        self.report_newest(control, true);
    }

    /// Reports the newest packet as lost, in the current epoch.
    pub(crate) fn lose_again(&mut self, control: &mut dyn CongestionControl) {
        self.report_newest(control, false);
    }

    fn report_newest(&mut self, control: &mut dyn CongestionControl, begins_epoch: bool) {
        let ranges = [self.flight.next - 1..self.flight.next];
        control.on_loss(&mut self.environment(), &reported(&ranges, begins_epoch));
    }
}

/// Returns the loss of ranges that the peer has not reported before.
pub(crate) fn reported(ranges: &[Range<u64>], begins_epoch: bool) -> Lost<'_> {
    let newly = ranges.iter().map(|range| (range.end - range.start) as u32).sum();
    Lost { ranges, newly, begins_epoch, source: LossSource::Report, round_trip: None, rate: None }
}

/// A sender and a receiver whose controls exchange messages over a path with random loss, in steps of 10 ms.
pub(crate) struct Pair<C> {
    pub(crate) sender: C,
    pub(crate) stage: Stage,
    receiver: C,
    their_stage: Stage,
    /// True if messages of the receiver's control arrive.
    reports: bool,
}

impl<C: CongestionControl> Pair<C> {
    pub(crate) fn new(sender: C, receiver: C, reports: bool) -> Self {
        let [mut stage, mut their_stage] = [1, 2].map(|seed| Stage::new(seed, Duration::from_millis(20)));
        let (mut sender, mut receiver) = (sender, receiver);
        sender.on_start(&mut stage.environment());
        receiver.on_start(&mut their_stage.environment());
        Self { sender, stage, receiver, their_stage, reports }
    }

    /// Runs for this many steps, each packet lost with a probability.
    pub(crate) fn run(&mut self, loss: f64, steps: u32) {
        (0..steps).for_each(|_| self.step(loss));
    }

    fn step(&mut self, loss: f64) {
        self.stage.now += Duration::from_millis(10);
        self.their_stage.now = self.stage.now;
        self.stage.budget += self.sender.policy().packets_per_s * 0.01;
        let packets = self.stage.budget.floor() as u32;
        self.stage.budget -= f64::from(packets);
        if packets > 0 {
            self.send(packets, loss);
        }
        Self::let_time_pass(&mut self.sender, &mut self.stage);
        Self::let_time_pass(&mut self.receiver, &mut self.their_stage);
        while let Some(message) = self.receiver.poll_message() {
            if self.reports {
                self.sender.on_message(&mut self.stage.environment(), &message);
            }
        }
    }

    fn send(&mut self, packets: u32, loss: f64) {
        let first = self.stage.flight.next;
        self.stage.flight.next += u64::from(packets);
        let sent = Sent { first, packets, is_retransmission: false };
        self.sender.on_sent(&mut self.stage.environment(), &sent);
        let newly_missing = (0..packets).filter(|_| self.stage.random.chance(loss)).count() as u32;
        if newly_missing > 0 {
            let ranges = [first..first + u64::from(newly_missing)];
            self.sender.on_loss(&mut self.stage.environment(), &reported(&ranges, true));
        }
        let arrived = self.their_stage.now;
        let came = packets - newly_missing;
        let bytes = u64::from(came * self.their_stage.flight.packet_bytes);
        let received = Received { packets: came, bytes, newly_missing, arrived };
        self.receiver.on_received(&mut self.their_stage.environment(), &received);
    }

    fn let_time_pass(control: &mut C, stage: &mut Stage) {
        if control.next_timer().is_some_and(|at| at <= stage.now) {
            control.on_timer(&mut stage.environment());
        }
    }
}

/// A path with one round-trip time and no queue, whose sender always has data to send.
///
/// Lost packets are repaired at once and at no cost: the result is the window's response to losses.
pub(crate) struct EmptyPath {
    stage: Stage,
    /// Unacknowledged packets of each tick: the number after its last packet, and the time of the feedback.
    sent: VecDeque<(u64, u64)>,
    lost: VecDeque<u64>,
    losses: Losses,
    next_loss: u64,
    next_epoch: u64,
    round_end: u64,
    round_trip_ticks: u64,
    tick: u64,
    epochs: u32,
}

/// Losses of a path.
#[derive(Clone, Copy)]
pub(crate) enum Losses {
    /// Every packet whose number is a multiple of this.
    Every(u64),
    /// Each packet with a probability.
    Random(f64),
}

/// Length of a tick: acknowledgements come every ten of them, loss reports every one.
const TICK: Duration = Duration::from_millis(1);
const TICKS_A_FULL_ACK: u64 = 10;
/// Number of packets between light acknowledgements.
const LIGHT: u64 = 64;

impl EmptyPath {
    pub(crate) fn new(seed: u64, round_trip: Duration, losses: Losses) -> Self {
        let mut stage = Stage::new(seed, round_trip);
        stage.flight.next = 0;
        stage.flight.in_flight = 0;
        let mut path = Self {
            stage,
            sent: VecDeque::new(),
            lost: VecDeque::new(),
            losses,
            next_loss: 0,
            next_epoch: 0,
            round_end: 0,
            round_trip_ticks: u64::try_from(round_trip.as_millis()).unwrap(),
            tick: 0,
            epochs: 0,
        };
        path.next_loss = path.gap() - 1;
        path
    }

    /// Returns the mean window over time of `epochs` congestion epochs, after `skipped` of them.
    pub(crate) fn mean_window(
        &mut self,
        control: &mut dyn CongestionControl,
        skipped: u32,
        epochs: u32,
    ) -> f64 {
        control.on_start(&mut self.stage.environment());
        while self.epochs < skipped {
            self.step(control);
        }
        let (mut sum, mut ticks) = (0.0, 0.0);
        while self.epochs < skipped + epochs {
            self.step(control);
            sum += control.policy().window_packets;
            ticks += 1.0;
        }
        sum / ticks
    }

    fn gap(&mut self) -> u64 {
        match self.losses {
            Losses::Every(packets) => packets,
            Losses::Random(p) => {
                let unit = 1.0 - self.stage.random.unit();
                (unit.ln() / (1.0 - p).ln()).floor() as u64 + 1
            }
        }
    }

    fn step(&mut self, control: &mut dyn CongestionControl) {
        self.tick += 1;
        self.stage.now += TICK;
        let mut arrived = self.stage.flight.acked_to;
        while let Some((end, at)) = self.sent.front().copied()
            && at <= self.tick
        {
            self.sent.pop_front();
            arrived = end;
            self.report(control, end);
        }
        self.acknowledge(control, arrived);
        self.send(control);
    }

    fn report(&mut self, control: &mut dyn CongestionControl, end: u64) {
        while let Some(number) = self.lost.front().copied()
            && number < end
        {
            self.lost.pop_front();
            let begins_epoch = number >= self.next_epoch;
            if begins_epoch {
                self.next_epoch = self.stage.flight.next;
                self.epochs += 1;
            }
            let ranges = [number..number + 1];
            control.on_loss(&mut self.stage.environment(), &reported(&ranges, begins_epoch));
        }
    }

    fn acknowledge(&mut self, control: &mut dyn CongestionControl, arrived: u64) {
        let is_full = self.tick.is_multiple_of(TICKS_A_FULL_ACK);
        let newly = arrived - self.stage.flight.acked_to;
        let (newly, kind) =
            if is_full { (newly, AckKind::Full) } else { (newly / LIGHT * LIGHT, AckKind::Light) };
        self.unacknowledged_arrived(arrived, newly);
        if newly == 0 {
            return;
        }
        let flight = &mut self.stage.flight;
        flight.acked_to += newly;
        flight.in_flight = u32::try_from(flight.next - flight.acked_to).unwrap();
        let ends_round = flight.acked_to > self.round_end;
        if ends_round {
            self.round_end = flight.next;
        }
        let acked = Acked {
            to: flight.acked_to,
            newly: u32::try_from(newly).unwrap(),
            kind,
            round_trip: self.stage.round_trip.latest,
            ends_round,
            rate: None,
        };
        control.on_ack(&mut self.stage.environment(), &acked);
    }

    /// Received and unacknowledged packets are kept for the next acknowledgement.
    fn unacknowledged_arrived(&mut self, arrived: u64, newly: u64) {
        if self.stage.flight.acked_to + newly < arrived {
            self.sent.push_front((arrived, self.tick));
        }
    }

    fn send(&mut self, control: &mut dyn CongestionControl) {
        let window = control.policy().window_packets;
        let flight = &mut self.stage.flight;
        let in_flight = (flight.next - flight.acked_to) as f64;
        // The fraction of a packet counts in the mean: the sender is ahead by exactly the window.
        let packets = (window - in_flight).max(0.0).floor() as u64;
        if packets == 0 {
            return;
        }
        flight.next += packets;
        let next = flight.next;
        self.sent.push_back((next, self.tick + self.round_trip_ticks));
        while self.next_loss < next {
            self.lost.push_back(self.next_loss);
            self.next_loss += self.gap();
        }
    }
}
