//! SABUL-like: a rate that changes by factors, by a smoothed fraction of losses that the receiver reports.
//!
//! Source: Gu, Grossman, "SABUL: a transport protocol for grid computing", 2003, has the scheme: the receiver reports
//! every 10 ms, and the sender multiplies its rate by a function of the smoothed losses. Its constants are not
//! public; these are this implementation's own. Below the threshold the rate grows without limit, above it falls to
//! the minimum: there is no equilibrium between. At a narrow link the losses of a full queue are seen late and
//! remembered long, so that the usual constants use a quarter of it.
//!
//! A peer that does not report, such as libudt, is supported: the sender then takes the losses from its loss reports.

use units::Instant;

use crate::feedback::{Arrivals, Departures, low_word};
use crate::options::FromOptions;
use crate::{
    ACK_INTERVAL, Acked, CongestionControl, Environment, Lost, Message, OptionError, Options, Policy,
    Received, Resized, Sent,
};

/// SABUL-like: the predecessor of UDT's own control, for comparison. Two flows of it keep their initial shares.
#[derive(Clone, Debug)]
pub(crate) struct Sabul {
    options: Factors,
    packets_per_s: f64,
    /// Smoothed fraction of lost packets.
    loss: f64,
    arrivals: Arrivals,
    departures: Departures,
    /// Latest report of the peer: packets received and missing, in words that wrap.
    told: (u32, u32),
    report: Option<Message>,
}

#[derive(Clone, Copy, Debug)]
struct Factors {
    up: f64,
    down: f64,
    threshold: f64,
    start_bits_per_s: f64,
}

/// A report: packets received and packets found missing, each since the connection began and wrapping.
pub(crate) const REPORT: u16 = 0x5341;
/// Weight of the previous loss in the smoothing.
const MEMORY: f64 = 0.875;
/// Minimum rate, one packet per interval, without which there would be no reports. Units: packets per second.
const LEAST_RATE: f64 = 100.0;
/// Maximum rate, beyond any path. Units: packets per second.
const MOST_RATE: f64 = 1e9;
/// Initial rate of the sender. Units: bits per second.
const START: f64 = 10e6;

impl Sabul {
    /// Takes the fraction that was lost in an interval.
    fn learn(&mut self, environment: &Environment<'_>, loss: f64) {
        self.loss = MEMORY * self.loss + (1.0 - MEMORY) * loss;
        let factor = if self.loss > self.options.threshold {
            1.0 / self.options.down
        } else if environment.flight.is_application_limited {
            // Packets that are not sent say nothing about the path.
            1.0
        } else {
            self.options.up
        };
        self.packets_per_s = (self.packets_per_s * factor).clamp(LEAST_RATE, MOST_RATE);
    }
}

impl FromOptions for Sabul {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let up = options.number("up", 1.005, 1.0, 2.0)?;
        let down = options.number("down", 1.125, 1.0, 10.0)?;
        let threshold = options.number("threshold", 0.001, 0.0, 1.0)?;
        let start_bits_per_s = options.rate_or("start", START)?;
        Ok(Self {
            options: Factors { up, down, threshold, start_bits_per_s },
            packets_per_s: start_bits_per_s / 12_000.0,
            loss: 0.0,
            arrivals: Arrivals::each(ACK_INTERVAL),
            departures: Departures::each(ACK_INTERVAL),
            told: (0, 0),
            report: None,
        })
    }
}

impl CongestionControl for Sabul {
    fn policy(&self) -> Policy {
        Policy::rate(self.packets_per_s)
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.packets_per_s =
            (self.options.start_bits_per_s / environment.flight.packet_bits()).clamp(LEAST_RATE, MOST_RATE);
    }

    fn on_packet_size(&mut self, _: &mut Environment<'_>, resized: &Resized) {
        self.packets_per_s = (self.packets_per_s * resized.factor()).clamp(LEAST_RATE, MOST_RATE);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        self.departures.lose(lost.newly);
    }

    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        self.learn(environment, 1.0);
    }

    fn on_sent(&mut self, environment: &mut Environment<'_>, sent: &Sent) {
        self.departures.send(environment.now, sent.packets);
    }

    fn on_received(&mut self, environment: &mut Environment<'_>, received: &Received) {
        self.arrivals.count(environment.now, received);
    }

    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        let (REPORT, &[received, missing]) = (message.kind, &message.body[..]) else { return };
        let (came, missed) = (received.wrapping_sub(self.told.0), missing.wrapping_sub(self.told.1));
        // A report that was overtaken by a later one is outdated.
        if came == 0 || came > u32::MAX / 2 || missed > u32::MAX / 2 {
            return;
        }
        self.told = (received, missing);
        self.departures.hear(environment.now);
        self.learn(environment, f64::from(missed) / (f64::from(came) + f64::from(missed)));
    }

    fn poll_message(&mut self) -> Option<Message> {
        self.report.take()
    }

    fn next_timer(&self) -> Option<Instant> {
        Instant::earlier(self.arrivals.due(), self.departures.due())
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        if let Some((received, missing)) = self.arrivals.take(environment.now) {
            let body = vec![low_word(received), low_word(missing)];
            self.report = Some(Message { kind: REPORT, body });
        }
        let (now, round_trip) = (environment.now, &environment.round_trip);
        if let Some(loss) = self.departures.take(now, round_trip)
            && self.departures.is_alone(now, round_trip)
        {
            self.learn(environment, loss);
        }
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("smoothed_loss", self.loss);
        self.departures.tell(tell);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::bottleneck::Bottleneck;
    use crate::harness::Pair;

    fn sabul(options: &str) -> Sabul {
        Sabul::from_options(&mut Options::parse(options).unwrap()).unwrap()
    }

    /// Runs a check with a peer that reports and with one that does not.
    fn both(mut look: impl FnMut(&mut Pair<Sabul>)) {
        for reports in [true, false] {
            look(&mut Pair::new(sabul("start=12m"), sabul(""), reports));
        }
    }

    #[test]
    fn without_losses_it_grows_by_half_a_percent_an_interval() {
        both(|pair| {
            pair.run(0.0, 200);
            let before = pair.sender.packets_per_s;
            pair.run(0.0, 100);
            let grown = pair.sender.packets_per_s / before;
            assert!((grown / 1.005_f64.powi(100) - 1.0).abs() < 0.02, "{grown}");
        });
    }

    #[test]
    fn far_below_the_threshold_it_grows_on_and_above_it_falls_to_the_least() {
        both(|pair| {
            // 1e-5: it grows a hundredfold between two losses, and falls by a few ninths at each.
            pair.run(1e-5, 1_500);
            assert!(pair.sender.packets_per_s > 100_000.0, "{}", pair.sender.packets_per_s);
            pair.run(1e-2, 300);
            // One packet in an interval is lost about every second.
            assert!(pair.sender.packets_per_s < 300.0, "{}", pair.sender.packets_per_s);
        });
    }

    #[test]
    fn at_a_narrow_link_it_saws_below_what_the_link_carries() {
        for (options, expected) in [("", 0.2..0.4), ("down=1.01", 0.85..1.0)] {
            let mut path = Bottleneck::new(8_333.3, 400).with(
                "sabul",
                options,
                Duration::from_millis(50),
                Duration::ZERO,
            );
            let measured = path.run(Duration::from_secs(60), Duration::from_secs(120));
            assert!(expected.contains(&(measured.rates[0] / 8_333.3)), "{options}: {:?}", measured.rates);
        }
    }

    #[test]
    fn a_report_of_the_past_changes_nothing() {
        both(|pair| {
            pair.run(0.0, 10);
            let before = pair.sender.packets_per_s;
            let old = Message { kind: REPORT, body: vec![0, 0] };
            pair.sender.on_message(&mut pair.stage.environment(), &old);
            let other = Message { kind: 0x1234, body: vec![1 << 20, 1 << 20] };
            pair.sender.on_message(&mut pair.stage.environment(), &other);
            assert!((pair.sender.packets_per_s - before).abs() < 1e-9);
        });
    }
}
