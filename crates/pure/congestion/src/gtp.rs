//! GTP-like: the receiver assigns each of its senders a rate, so that together they use its capacity.
//!
//! Source: Wu, Chien, "GTP: group transport protocol for lambda-grids", 2004, has the idea: many senders, one
//! receiver whose host is the bottleneck. In each interval of control, a round trip but 10 ms at least, a receiver's
//! end of a connection derives a demand from its arrivals and losses, and all demands are served from the receiver's
//! capacity by max-min fairness. Each sender is sent its rate. The rule of the demand is this implementation's own.
//!
//! The shared state is in the factory: connections of one listener share its capacity.
//!
//! A sender whose peer sends no rates, such as libudt, computes its own, by the same rule from its loss reports; it
//! then takes no part in the sharing.

mod shares;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use units::Instant;

use crate::feedback::{Beat, Departures, low_word};
use crate::options::FromOptions;
use crate::{
    ACK_INTERVAL, Acked, CongestionControl, Environment, Factory, Lost, Message, OptionError, Options,
    Policy, Received, Resized, RoundTrip, Sent,
};
use shares::{Seat, Shares};

/// Makes controls whose receiving ends share a capacity.
#[derive(Debug)]
pub(crate) struct GtpFactory {
    /// The total rate at which this end receives from all its senders, and its maximum send rate.
    capacity_bits_per_s: f64,
    shares: Arc<Mutex<Shares>>,
}

/// GTP-like: for many senders to one receiver, over paths that carry more than the receiver takes.
#[derive(Debug)]
struct Gtp {
    /// Total receive rate of this end, and its maximum send rate. Units: bits per second.
    capacity: f64,
    packet_bits: f64,
    /// Send rate. Units: bits per second.
    rate: f64,
    departures: Departures,
    shares: Arc<Mutex<Shares>>,
    /// State of the receiver, once packets have arrived.
    receiving: Option<Receiving>,
    to_tell: Option<Message>,
}

/// A receiver's state of its sender.
#[derive(Debug)]
struct Receiving {
    seat: Seat,
    beat: Beat,
    began: Instant,
    packets: f64,
    missing: f64,
    /// Size of the peer's full packets, as far as it is known. A sender is paced by packets, so small ones count as full.
    packet_bits: f64,
    /// Granted rate, and demand. Units: bits per second.
    granted: f64,
    wish: f64,
    /// Number of intervals in which hardly half of the granted rate was used.
    idle: u32,
}

/// A rate in bits per second, all headers counted: the high word, and the low one.
pub(crate) const RATE: u16 = 0x4754;
/// Growth of the demand in an interval without loss.
const GROWTH: f64 = 1.05;
/// Fraction of the grant below which a sender leaves the rest to others after several intervals.
const HARDLY: f64 = 0.5;
const IDLE_INTERVALS: u32 = 3;
/// Initial rate of a sender, as a fraction of the capacity.
const START: f64 = 0.01;
/// Maximum plausible round trip.
const LONGEST: Duration = Duration::from_secs(1);
/// Minimum rate. Units: packets per second.
const LEAST_PACKETS: f64 = 10.0;
/// Size of a packet before the first one. Units: bits.
const USUAL_BITS: f64 = 12_000.0;

impl FromOptions for GtpFactory {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let capacity_bits_per_s = options.rate("rate")?;
        Ok(Self { capacity_bits_per_s, shares: Arc::new(Mutex::new(Shares::new(capacity_bits_per_s))) })
    }
}

impl Factory for GtpFactory {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(Gtp {
            capacity: self.capacity_bits_per_s,
            packet_bits: USUAL_BITS,
            rate: self.capacity_bits_per_s * START,
            departures: Departures::each(ACK_INTERVAL),
            shares: Arc::clone(&self.shares),
            receiving: None,
            to_tell: None,
        })
    }
}

/// Returns the length of an interval of control.
fn interval(round_trip: &RoundTrip) -> Duration {
    round_trip.smoothed.clamp(ACK_INTERVAL, LONGEST)
}

/// Returns a rate after the loss of a fraction: less by half of that, or a little more without loss. Units: bits per
/// second.
fn moved(rate: f64, loss: f64, packet_bits: f64) -> f64 {
    if loss > 0.0 { rate * (1.0 - loss / 2.0) } else { rate * GROWTH + packet_bits }
}

impl Receiving {
    fn new(shares: &Arc<Mutex<Shares>>, now: Instant, capacity: f64) -> Self {
        let seat = Seat::take(shares, capacity);
        let granted = seat.wish(capacity);
        Self {
            seat,
            beat: Beat::new(ACK_INTERVAL),
            began: now,
            packets: 0.0,
            missing: 0.0,
            packet_bits: USUAL_BITS,
            granted,
            wish: capacity,
            idle: 0,
        }
    }

    /// Ends an interval; returns the granted rate.
    fn decide(&mut self, now: Instant, capacity: f64) -> f64 {
        let seconds = now.since(self.began).as_secs_f64().max(1e-6);
        let packet_bits = self.packet_bits;
        let came = self.packets * packet_bits / seconds;
        let loss = self.missing / (self.packets + self.missing).max(1.0);
        (self.began, self.packets, self.missing) = (now, 0.0, 0.0);
        let was_idle = self.idle >= IDLE_INTERVALS;
        self.idle = if came < HARDLY * self.granted { self.idle + 1 } else { 0 };
        self.wish = if loss > 0.0 {
            moved(self.granted, loss, packet_bits)
        } else if self.idle >= IDLE_INTERVALS {
            2.0 * came
        } else if was_idle {
            capacity
        } else {
            moved(self.wish.max(self.granted), loss, packet_bits)
        };
        self.wish = self.wish.clamp(LEAST_PACKETS * packet_bits, capacity.max(LEAST_PACKETS * packet_bits));
        self.granted = self.seat.wish(self.wish);
        self.granted
    }
}

impl Gtp {
    fn send_at(&mut self, bits_per_s: f64) {
        let least = LEAST_PACKETS * self.packet_bits;
        self.rate = bits_per_s.clamp(least, self.capacity.max(least));
    }
}

impl CongestionControl for Gtp {
    fn policy(&self) -> Policy {
        Policy::rate(self.rate / self.packet_bits)
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.packet_bits = environment.flight.packet_bits();
        self.send_at(self.capacity * START);
    }

    fn on_packet_size(&mut self, environment: &mut Environment<'_>, _: &Resized) {
        self.packet_bits = environment.flight.packet_bits();
        self.send_at(self.rate);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        self.departures.lose(lost.newly);
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        self.send_at(self.rate / 2.0);
    }

    fn on_sent(&mut self, environment: &mut Environment<'_>, sent: &Sent) {
        self.departures.set_every(interval(&environment.round_trip));
        self.departures.send(environment.now, sent.packets);
    }

    fn on_received(&mut self, environment: &mut Environment<'_>, received: &Received) {
        let now = environment.now;
        let receiving =
            self.receiving.get_or_insert_with(|| Receiving::new(&self.shares, now, self.capacity));
        if receiving.beat.due().is_none() {
            receiving.began = now;
        }
        receiving.packets += f64::from(received.packets);
        #[expect(
            clippy::cast_precision_loss,
            reason = "the bytes of a batch are far from what a f64 cannot say"
        )]
        let packet_bits = received.bytes as f64 * 8.0 / f64::from(received.packets.max(1));
        receiving.packet_bits = receiving.packet_bits.max(environment.flight.packet_bits()).max(packet_bits);
        receiving.missing += f64::from(received.newly_missing);
        receiving.beat.set_every(interval(&environment.round_trip));
        receiving.beat.want(now);
    }

    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        let (RATE, &[high, low]) = (message.kind, &message.body[..]) else { return };
        self.departures.hear(environment.now);
        self.send_at(f64::from(high) * 4_294_967_296.0 + f64::from(low));
    }

    fn poll_message(&mut self) -> Option<Message> {
        self.to_tell.take()
    }

    fn next_timer(&self) -> Option<Instant> {
        let receiving = self.receiving.as_ref().and_then(|receiving| receiving.beat.due());
        Instant::earlier(receiving, self.departures.due())
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        let now = environment.now;
        if let Some(receiving) = self.receiving.as_mut().filter(|receiving| receiving.beat.is_due(now)) {
            let granted = receiving.decide(now, self.capacity);
            // An idle sender is polled once more, so that its unused share is not reserved for it.
            if receiving.beat.take(now) && receiving.granted > LEAST_PACKETS * receiving.packet_bits {
                receiving.beat.want(now);
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
            let bits = granted as u64;
            self.to_tell = Some(Message { kind: RATE, body: vec![low_word(bits >> 32), low_word(bits)] });
        }
        if let Some(loss) = self.departures.take(now, &environment.round_trip) {
            let is_limited = environment.flight.is_application_limited && loss <= 0.0;
            if self.departures.is_alone(now, &environment.round_trip) && !is_limited {
                self.send_at(moved(self.rate, loss, self.packet_bits));
            }
        }
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("rate_bits_per_s", self.rate);
        self.departures.tell(tell);
        tell("granted_bits_per_s", self.receiving.as_ref().map_or(f64::NAN, |receiving| receiving.granted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Stage;

    const MS: Duration = Duration::from_millis(1);
    const CAPACITY: f64 = 120e6;

    fn factory() -> GtpFactory {
        GtpFactory::from_options(&mut Options::parse("rate=120m").unwrap()).unwrap()
    }

    /// A receiver's end with this many arrivals in every 10 ms.
    struct End {
        control: Box<dyn CongestionControl>,
        stage: Stage,
    }

    impl End {
        fn new(factory: &GtpFactory) -> Self {
            let mut end = Self { control: factory.create(), stage: Stage::new(1, 10 * MS) };
            end.control.on_start(&mut end.stage.environment());
            end
        }

        /// Simulates arrivals and an interval; returns the rate sent to the sender. Units: bits per second.
        fn take(&mut self, packets: u32, newly_missing: u32) -> f64 {
            let bytes = u64::from(packets) * 1_500;
            let received = Received { packets, bytes, newly_missing, arrived: self.stage.now };
            if packets > 0 {
                self.control.on_received(&mut self.stage.environment(), &received);
            }
            self.stage.now += 10 * MS;
            if self.control.next_timer().is_some_and(|at| at <= self.stage.now) {
                self.control.on_timer(&mut self.stage.environment());
            }
            let body = self.control.poll_message().map_or(vec![0, 0], |message| message.body);
            f64::from(body[0]) * 4_294_967_296.0 + f64::from(body[1])
        }
    }

    #[test]
    fn a_sender_of_small_packets_is_not_idle() {
        let mut end = End::new(&factory());
        for _ in 0..6 {
            let arrived = end.stage.now;
            let small = Received { packets: 100, bytes: 14_400, newly_missing: 0, arrived };
            end.control.on_received(&mut end.stage.environment(), &small);
            let rate = end.take(0, 0);
            assert!((rate - CAPACITY).abs() < 1.0, "{rate}");
        }
    }

    #[test]
    fn senders_get_equal_shares_at_once_and_what_one_leaves() {
        let factory = factory();
        let mut ends: Vec<End> = (0..4).map(|_| End::new(&factory)).collect();
        assert!((ends[0].take(100, 0) - CAPACITY).abs() < 1.0, "alone it gets all");
        ends.iter_mut().for_each(|end| _ = end.take(25, 0));
        for end in &mut ends {
            assert!((end.take(25, 0) - CAPACITY / 4.0).abs() < 1.0);
        }
        // One ends, another has nothing to send for a while.
        ends.pop();
        for _ in 0..5 {
            ends[0].take(1, 0);
            (1..3).for_each(|index| _ = ends[index].take(40, 0));
        }
        let rate = ends[1].take(40, 0);
        assert!(rate > 0.45 * CAPACITY, "{rate}");
        // It then has more to send again.
        (0..3).for_each(|_| ends.iter_mut().for_each(|end| _ = end.take(40, 0)));
        assert!((ends[0].take(40, 0) - CAPACITY / 3.0).abs() < 1.0);
    }

    #[test]
    fn who_loses_gives_up_half_of_that_part_and_grows_by_a_twentieth() {
        let factory = factory();
        let mut end = End::new(&factory);
        end.take(100, 0);
        let less = end.take(90, 10);
        assert!((less / CAPACITY - 0.95).abs() < 1e-3, "{less}");
        let more = end.take(95, 0);
        assert!((more / CAPACITY - 0.9975 - 0.0001).abs() < 1e-3, "{more}");
    }

    #[test]
    fn a_receiver_counts_the_bytes_of_the_packets_that_come() {
        let mut end = End::new(&factory());
        end.stage.flight.packet_bytes = 576;
        end.control.on_start(&mut end.stage.environment());
        // Two thirds of the capacity: no idle sender, although as packets of 576 bytes it would be a quarter.
        let rates: Vec<f64> = (0..6).map(|_| end.take(67, 0)).collect();
        assert!(rates.iter().all(|rate| (rate - CAPACITY).abs() < 1.0), "{rates:?}");
    }

    #[test]
    fn a_sender_obeys_and_helps_itself_where_nobody_says_a_rate() {
        let factory = factory();
        let mut end = End::new(&factory);
        let told = Message { kind: RATE, body: vec![0, 60_000_000] };
        end.control.on_message(&mut end.stage.environment(), &told);
        let rate = |end: &End| end.control.policy().packets_per_s * 12_000.0;
        assert!((rate(&end) - 60e6).abs() < 1.0);
        let sent = Sent { first: 1, packets: 10, is_retransmission: false };
        let mut rates = Vec::new();
        for _ in 0..20 {
            end.control.on_sent(&mut end.stage.environment(), &sent);
            end.stage.now += 10 * MS;
            end.control.on_timer(&mut end.stage.environment());
            rates.push(rate(&end));
        }
        assert!((rates[5] - 60e6).abs() < 1.0, "it waits for four intervals and two round trips");
        assert!(rates[19] > 1.05 * 60e6, "{rates:?}");
    }
}
