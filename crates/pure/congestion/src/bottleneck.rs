//! A path with one narrow link and a drop-tail queue before it, for the equilibria of tests: packet by packet.
//!
//! Each packet is acknowledged separately, so round trips are exact, and windows need not be spread over them. Drops
//! of the queue and random losses are reported when the acknowledgement would have arrived, and repaired at no cost.

use core::time::Duration;
use std::collections::BTreeMap;

use units::{Instant, Random};

use crate::harness::{Stage, reported};
use crate::{AckKind, Acked, Bounds, CongestionControl, RateSample, RoundTrip, Sent, named};

/// A path shared by several flows.
pub(crate) struct Bottleneck {
    packet_ns: u64,
    room_ns: u64,
    loss: f64,
    chance: Random,
    now_ns: u64,
    /// End of the simulated time.
    until_ns: u64,
    /// Time when the link will have sent all waiting packets.
    free_at_ns: u64,
    flows: Vec<Flow>,
    /// Pending events, by time and order of scheduling, each with its flow.
    agenda: BTreeMap<(u64, u64), (usize, Event)>,
    foreseen: u64,
    /// Queue length seen by arriving packets: sum and count. Units: packets.
    queued: (f64, u64),
    dropped: u64,
}

/// An event of a flow.
#[derive(Clone, Copy)]
enum Event {
    Begins,
    /// Its pace allows a packet.
    IsDue,
    /// The timer of its control is due.
    Timer,
    Returns(Return),
}

/// Feedback on a packet.
#[derive(Clone, Copy)]
struct Return {
    number: u64,
    is_lost: bool,
    mark: Mark,
}

/// State that a flow records for a packet.
#[derive(Clone, Copy)]
struct Mark {
    sent_ns: u64,
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    lost: u64,
    in_flight: u32,
}

/// One sender that always has data to send.
struct Flow {
    control: Box<dyn CongestionControl>,
    stage: Stage,
    base_ns: u64,
    round_end: u64,
    next_epoch: u64,
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    lost: u64,
    /// Due time of the next packet by its pace, and of its wake-up.
    due_ns: u64,
    wakes_ns: u64,
    timer_ns: u64,
}

/// Limits of the transport.
const BOUNDS: Bounds = Bounds { max_window_packets: u32::MAX, max_spacing: Duration::from_secs(1) };

/// Measured values of the flows and the queue.
pub(crate) struct Measured {
    /// Each flow's rate. Units: packets per second.
    pub(crate) rates: Vec<f64>,
    /// Mean queue found by the flows' packets on arrival. Units: packets.
    pub(crate) queue: f64,
    /// Packets that the queue dropped.
    pub(crate) dropped: u64,
}

impl Bottleneck {
    /// Creates a path of this many packets a second with a queue of this many.
    pub(crate) fn new(packets_per_s: f64, room: u64) -> Self {
        let packet_ns = (1e9 / packets_per_s) as u64;
        Self {
            packet_ns,
            room_ns: room * packet_ns,
            loss: 0.0,
            chance: Random::new(7),
            now_ns: 0,
            until_ns: 0,
            free_at_ns: 0,
            flows: Vec::new(),
            agenda: BTreeMap::new(),
            foreseen: 0,
            queued: (0.0, 0),
            dropped: 0,
        }
    }

    /// Adds random loss with a probability to the drops of the queue.
    pub(crate) fn losing(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Adds a flow of a built-in control that starts at a time.
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
            delivered_ns: 0,
            first_sent_ns: 0,
            lost: 0,
            due_ns: 0,
            wakes_ns: 0,
            timer_ns: 0,
        });
        self.foresee(starts_ns, self.flows.len() - 1, Event::Begins);
        self
    }

    fn foresee(&mut self, at_ns: u64, flow: usize, event: Event) {
        self.agenda.insert((at_ns, self.foreseen), (flow, event));
        self.foreseen += 1;
    }

    /// Runs for a time without measuring, then for one that is measured.
    pub(crate) fn run(&mut self, before: Duration, during: Duration) -> Measured {
        self.run_until(self.until_ns + before.as_nanos() as u64);
        let began: Vec<u64> = self.flows.iter().map(|flow| flow.delivered).collect();
        (self.queued, self.dropped) = ((0.0, 0), 0);
        self.run_until(self.until_ns + during.as_nanos() as u64);
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

    /// Returns a value reported by a flow's control.
    pub(crate) fn told(&self, flow: usize, what: &str) -> f64 {
        let mut told = f64::NAN;
        self.flows[flow].control.tell(&mut |name, value| {
            if name == what {
                told = value;
            }
        });
        told
    }

    fn run_until(&mut self, end_ns: u64) {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 < end_ns
        {
            let ((at, _), (index, event)) = entry.remove_entry();
            self.now_ns = at;
            self.flows[index].happen(at, event);
            self.send(index);
            self.note_timer(index);
        }
        self.until_ns = end_ns;
    }

    fn send(&mut self, index: usize) {
        loop {
            let flow = &mut self.flows[index];
            let effective = BOUNDS.keep(&flow.control.policy(), &RoundTrip::UNKNOWN);
            if flow.stage.flight.in_flight >= effective.window_packets {
                return;
            }
            let spacing_ns = effective.spacing_ps / 1_000;
            // A slow pace does not hold back a faster one that follows.
            flow.due_ns = flow.due_ns.min(self.now_ns + spacing_ns);
            if flow.due_ns > self.now_ns {
                let due_ns = flow.due_ns;
                if flow.wakes_ns != due_ns {
                    flow.wakes_ns = due_ns;
                    self.foresee(due_ns, index, Event::IsDue);
                }
                return;
            }
            flow.due_ns = self.now_ns + spacing_ns;
            self.send_one(index);
        }
    }

    fn send_one(&mut self, index: usize) {
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
        let is_lost = is_full || self.loss > 0.0 && self.chance.chance(self.loss);
        let flow = &mut self.flows[index];
        let returned = Return { number: flow.stage.flight.next, is_lost, mark: flow.leave(self.now_ns) };
        let returns_ns = leaves_ns + flow.base_ns;
        self.foresee(returns_ns, index, Event::Returns(returned));
    }

    fn note_timer(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Some(at) = flow.control.next_timer() else { return };
        let at_ns = at.as_nanos().saturating_sub(BEGINNING_NS).max(self.now_ns);
        if at_ns != flow.timer_ns {
            flow.timer_ns = at_ns;
            self.foresee(at_ns, index, Event::Timer);
        }
    }
}

/// Start of the controls' clock.
const BEGINNING_NS: u64 = 1_000_000_000;

impl Flow {
    fn happen(&mut self, now_ns: u64, event: Event) {
        self.stage.now = Instant::from_nanos(BEGINNING_NS + now_ns);
        match event {
            Event::Begins => self.control.on_start(&mut self.stage.environment()),
            Event::IsDue => {}
            Event::Timer => {
                if self.control.next_timer().is_some_and(|at| at <= self.stage.now) {
                    self.control.on_timer(&mut self.stage.environment());
                }
            }
            Event::Returns(returned) => {
                if returned.is_lost {
                    self.lose(returned.number);
                }
                self.acknowledge(now_ns, returned);
            }
        }
    }

    fn leave(&mut self, now_ns: u64) -> Mark {
        if self.stage.flight.in_flight == 0 {
            (self.first_sent_ns, self.delivered_ns) = (now_ns, now_ns);
        }
        let first = self.stage.flight.next;
        self.stage.flight.next += 1;
        self.stage.flight.in_flight += 1;
        let sent = Sent { first, packets: 1, is_retransmission: false };
        self.control.on_sent(&mut self.stage.environment(), &sent);
        Mark {
            sent_ns: now_ns,
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_sent_ns: self.first_sent_ns,
            lost: self.lost,
            in_flight: self.stage.flight.in_flight,
        }
    }

    fn lose(&mut self, number: u64) {
        self.lost += 1;
        let begins_epoch = number >= self.next_epoch;
        if begins_epoch {
            self.next_epoch = self.stage.flight.next;
        }
        let ranges = [number..number + 1];
        self.control.on_loss(&mut self.stage.environment(), &reported(&ranges, begins_epoch));
    }

    /// Samples the rate as the transport does.
    fn sample(&mut self, now_ns: u64, mark: &Mark) -> RateSample {
        self.delivered += 1;
        self.delivered_ns = now_ns;
        let interval = (mark.sent_ns - mark.first_sent_ns).max(now_ns - mark.delivered_ns);
        self.first_sent_ns = mark.sent_ns;
        RateSample {
            delivered: self.delivered - mark.delivered,
            interval: Duration::from_nanos(interval),
            prior_delivered: mark.delivered,
            total_delivered: self.delivered,
            lost: self.lost - mark.lost,
            in_flight_at_send: mark.in_flight,
            is_application_limited: false,
        }
    }

    fn acknowledge(&mut self, now_ns: u64, returned: Return) {
        let sample = Duration::from_nanos(now_ns - returned.mark.sent_ns);
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
        let acked = Acked {
            to: flight.acked_to,
            newly: 1,
            kind: AckKind::Full,
            round_trip: (!returned.is_lost).then_some(sample),
            ends_round,
            rate: (!returned.is_lost).then(|| self.sample(now_ns, &returned.mark)),
        };
        self.control.on_ack(&mut self.stage.environment(), &acked);
    }
}
