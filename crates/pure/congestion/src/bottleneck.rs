//! A way with one narrow link and a drop-tail queue before it, for the equilibria of tests: packet by packet.
//!
//! Each packet is acknowledged by itself, so round trips are exact. What the queue drops, or chance takes, is reported
//! when its acknowledgement would have come, and repaired for nothing.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;

use units::{Instant, Random};

use crate::harness::Stage;
use crate::{AckKind, Acked, CongestionControl, LossSource, Lost, RateSample, named};

/// A way that several flows share.
pub(crate) struct Bottleneck {
    packet_ns: u64,
    room_ns: u64,
    loss: f64,
    chance: Random,
    now_ns: u64,
    /// When the link has sent everything that waits.
    free_at_ns: u64,
    flows: Vec<Flow>,
    /// What arrives back, earliest first: when, of which flow, and what.
    returns: BinaryHeap<Reverse<(u64, usize, Return)>>,
    /// What a look at the queue on arrival found: sum and count. Units: packets.
    queued: (f64, u64),
    dropped: u64,
}

/// What comes back of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Return {
    number: u64,
    sent_ns: u64,
    is_lost: bool,
}

/// One sender, with always something to send.
struct Flow {
    control: Box<dyn CongestionControl>,
    stage: Stage,
    base_ns: u64,
    round_end: u64,
    next_epoch: u64,
    delivered: u64,
}

/// What was measured of one flow and the queue.
pub(crate) struct Measured {
    /// Each flow's rate. Units: packets per second.
    pub(crate) rates: Vec<f64>,
    /// What the flows' packets found before them on average. Units: packets.
    pub(crate) queue: f64,
    /// Packets that the queue dropped.
    pub(crate) dropped: u64,
}

impl Bottleneck {
    /// Makes a way of so many packets a second with room for so many.
    pub(crate) fn new(packets_per_s: f64, room: u64) -> Self {
        let packet_ns = (1e9 / packets_per_s) as u64;
        Self {
            packet_ns,
            room_ns: room * packet_ns,
            loss: 0.0,
            chance: Random::new(7),
            now_ns: 0,
            free_at_ns: 0,
            flows: Vec::new(),
            returns: BinaryHeap::new(),
            queued: (0.0, 0),
            dropped: 0,
        }
    }

    /// Loses each packet with a probability, beside what the queue drops.
    pub(crate) fn losing(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Adds a flow of a built-in control that begins at a time.
    pub(crate) fn with(mut self, control: &str, options: &str, base: Duration, starts: Duration) -> Self {
        let mut stage = Stage::new(self.flows.len() as u64, base);
        stage.flight.next = 0;
        stage.flight.in_flight = 0;
        stage.round_trip.least = None;
        let starts_ns = starts.as_nanos() as u64;
        self.flows.push(Flow {
            control: named(control, options).unwrap().create(),
            stage,
            base_ns: base.as_nanos() as u64,
            round_end: 0,
            next_epoch: 0,
            delivered: 0,
        });
        // Its first packet goes out when this comes back.
        let begin = Return { number: u64::MAX, sent_ns: starts_ns, is_lost: false };
        self.returns.push(Reverse((starts_ns, self.flows.len() - 1, begin)));
        self
    }

    /// Runs for a time that is not looked at, then for one that is measured.
    pub(crate) fn run(&mut self, before: Duration, during: Duration) -> Measured {
        self.run_until(before.as_nanos() as u64);
        let began: Vec<u64> = self.flows.iter().map(|flow| flow.delivered).collect();
        (self.queued, self.dropped) = ((0.0, 0), 0);
        self.run_until((before + during).as_nanos() as u64);
        let rate = |(flow, began): (&Flow, u64)| (flow.delivered - began) as f64 / during.as_secs_f64();
        Measured {
            rates: self.flows.iter().zip(began).map(rate).collect(),
            queue: self.queued.0 / (self.queued.1.max(1)) as f64,
            dropped: self.dropped,
        }
    }

    /// Returns a flow's window. Units: packets.
    pub(crate) fn window(&self, flow: usize) -> f64 {
        self.flows[flow].control.policy().window_packets
    }

    fn run_until(&mut self, end_ns: u64) {
        while let Some(Reverse((at, index, returned))) = self.returns.peek().copied()
            && at < end_ns
        {
            self.returns.pop();
            self.now_ns = at;
            self.hear(index, returned);
            self.send(index);
        }
    }

    fn hear(&mut self, index: usize, returned: Return) {
        let flow = &mut self.flows[index];
        flow.stage.now = Instant::from_nanos(1_000_000_000 + self.now_ns);
        if returned.number == u64::MAX {
            flow.control.on_start(&mut flow.stage.environment());
            return;
        }
        if returned.is_lost {
            flow.lose(returned.number);
        }
        flow.acknowledge(self.now_ns, returned);
    }

    fn send(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        while f64::from(flow.stage.flight.in_flight) + 1.0 <= flow.control.policy().window_packets.max(1.0) {
            let waits_ns = self.free_at_ns.saturating_sub(self.now_ns);
            self.queued.0 += waits_ns as f64 / self.packet_ns as f64;
            self.queued.1 += 1;
            let is_full = waits_ns > self.room_ns;
            let leaves_ns = self.now_ns + waits_ns + self.packet_ns;
            if is_full {
                self.dropped += 1;
            } else {
                self.free_at_ns = leaves_ns;
            }
            let number = flow.stage.flight.next;
            let is_lost = is_full || self.loss > 0.0 && self.chance.chance(self.loss);
            let returned = Return { number, sent_ns: self.now_ns, is_lost };
            self.returns.push(Reverse((leaves_ns + flow.base_ns, index, returned)));
            flow.stage.flight.next += 1;
            flow.stage.flight.in_flight += 1;
        }
    }
}

impl Flow {
    fn lose(&mut self, number: u64) {
        let begins_epoch = number >= self.next_epoch;
        if begins_epoch {
            self.next_epoch = self.stage.flight.next;
        }
        let ranges = [number..number + 1];
        let lost = Lost {
            ranges: &ranges,
            newly: 1,
            begins_epoch,
            source: LossSource::Report,
            round_trip: None,
            rate: None,
        };
        self.control.on_loss(&mut self.stage.environment(), &lost);
    }

    fn acknowledge(&mut self, now_ns: u64, returned: Return) {
        let sample = Duration::from_nanos(now_ns - returned.sent_ns);
        let round_trip = &mut self.stage.round_trip;
        round_trip.latest = Some(sample);
        round_trip.smoothed = (round_trip.smoothed * 7 + sample) / 8;
        round_trip.least = Some(round_trip.least.map_or(sample, |least| least.min(sample)));
        let flight = &mut self.stage.flight;
        flight.acked_to = flight.acked_to.max(returned.number + 1);
        flight.in_flight -= 1;
        let ends_round = returned.number >= self.round_end;
        if ends_round {
            self.round_end = flight.next;
        }
        self.delivered += u64::from(!returned.is_lost);
        let acked = Acked {
            to: flight.acked_to,
            newly: 1,
            kind: AckKind::Full,
            round_trip: (!returned.is_lost).then_some(sample),
            ends_round,
            rate: None::<RateSample>,
        };
        self.control.on_ack(&mut self.stage.environment(), &acked);
    }
}
