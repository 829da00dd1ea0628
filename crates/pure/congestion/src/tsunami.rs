//! Tsunami-like: a rate near a target that the user sets, slowed down only when more than a few percent are lost.
//!
//! Source: the formulas and constants of the public tsunami-udp client and server, to our knowledge: the receiver
//! reports every 350 ms a smoothed error rate in thousandths of a percent, and the sender makes the distance between
//! two packets 6/5 times shorter, or up to 25/24 times longer. So the rate rises much faster than it falls: at a link
//! that is too narrow it stays where about as much is lost as the threshold allows, at rate/0.925, permanently.
//!
//! There the error rate is half the fraction of retransmissions and half the fill level of the receiver's ring; here
//! it is the fraction of missing packets, and UDT's window replaces the ring. If the peer does not report, such as
//! libudt, the sender takes the losses from its loss reports.

use core::time::Duration;

use units::Instant;

use crate::feedback::{Arrivals, Departures};
use crate::options::FromOptions;
use crate::{
    Acked, CongestionControl, Environment, Lost, Message, OptionError, Options, Policy, Received, Resized,
    Sent,
};

/// Tsunami-like: only for paths without other traffic. It does not yield below its threshold, and hardly above.
#[derive(Clone, Debug)]
pub(crate) struct Tsunami {
    target_bits_per_s: f64,
    /// Units: thousandths of a percent.
    threshold: f64,
    /// Weight of the last report in the next.
    memory: f64,
    /// Units: microseconds between two packets.
    target_us: f64,
    spacing_us: f64,
    arrivals: Arrivals,
    departures: Departures,
    /// Latest report: packets received, and packets missing.
    reported: (u64, u64),
    /// Smoothed error rate, as receiver and as sender. Units: thousandths of a percent.
    errors: f64,
    own_errors: f64,
    report: Option<Message>,
}

/// A report: the smoothed error rate in thousandths of a percent.
pub(crate) const REPORT: u16 = 0x5453;
const INTERVAL: Duration = Duration::from_millis(350);
/// Error rate at which all packets are lost. Units: thousandths of a percent.
const ALL: f64 = 100_000.0;
const SLOWER: f64 = 25.0 / 24.0;
const FASTER: f64 = 5.0 / 6.0;
/// Factor by which the initial rate is below the target.
const START: f64 = 3.0;
/// Maximum spacing. Units: microseconds between two packets.
const MOST_US: f64 = 10_000.0;

impl Tsunami {
    /// Computes the spacing of full packets at the target.
    fn aim(&mut self, environment: &Environment<'_>) {
        self.target_us = (environment.flight.packet_bits() / self.target_bits_per_s * 1e6).min(MOST_US);
    }

    /// Takes an error rate.
    fn learn(&mut self, errors: f64) {
        self.spacing_us *= if errors > self.threshold {
            1.0 + (SLOWER - 1.0) * (1.0 + errors - self.threshold) / (ALL - self.threshold)
        } else {
            FASTER
        };
        self.spacing_us = self.spacing_us.clamp(self.target_us, MOST_US);
    }

    fn smooth(&self, errors: f64, loss: f64) -> f64 {
        self.memory * errors + (1.0 - self.memory) * loss * ALL
    }

    /// Reports the packets missing since the last report.
    fn report(&mut self, (received, missing): (u64, u64)) {
        let came = received - self.reported.0;
        let missed = missing - self.reported.1;
        self.reported = (received, missing);
        #[expect(
            clippy::cast_precision_loss,
            reason = "what comes in an interval is far from what a f64 cannot say"
        )]
        let loss = missed as f64 / (came + missed).max(1) as f64;
        self.errors = self.smooth(self.errors, loss);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100,000")]
        let word = self.errors as u32;
        self.report = Some(Message { kind: REPORT, body: vec![word] });
    }
}

impl FromOptions for Tsunami {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let target_bits_per_s = options.rate("rate")?;
        let threshold = options.number("error", 7.5, 0.0, 99.0)? * ALL / 100.0;
        let memory = options.number("history", 25.0, 0.0, 99.0)? / 100.0;
        let target_us = (12_000.0 / target_bits_per_s * 1e6).min(MOST_US);
        Ok(Self {
            target_bits_per_s,
            threshold,
            memory,
            target_us,
            spacing_us: (target_us * START).min(MOST_US),
            arrivals: Arrivals::each(INTERVAL),
            departures: Departures::each(INTERVAL),
            reported: (0, 0),
            errors: 0.0,
            own_errors: 0.0,
            report: None,
        })
    }
}

impl CongestionControl for Tsunami {
    fn policy(&self) -> Policy {
        Policy::rate(1e6 / self.spacing_us)
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.aim(environment);
        self.spacing_us = (self.target_us * START).min(MOST_US);
    }

    fn on_packet_size(&mut self, environment: &mut Environment<'_>, resized: &Resized) {
        self.aim(environment);
        self.spacing_us = (self.spacing_us / resized.factor()).clamp(self.target_us, MOST_US);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        self.departures.lose(lost.newly);
    }

    fn on_sent(&mut self, environment: &mut Environment<'_>, sent: &Sent) {
        self.departures.send(environment.now, sent.packets);
    }

    fn on_received(&mut self, environment: &mut Environment<'_>, received: &Received) {
        self.arrivals.count(environment.now, received);
    }

    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        let (REPORT, &[errors]) = (message.kind, &message.body[..]) else { return };
        self.departures.hear(environment.now);
        self.learn(f64::from(errors).min(ALL));
    }

    fn poll_message(&mut self) -> Option<Message> {
        self.report.take()
    }

    fn next_timer(&self) -> Option<Instant> {
        Instant::earlier(self.arrivals.due(), self.departures.due())
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        if let Some(counts) = self.arrivals.take(environment.now) {
            self.report(counts);
        }
        let (now, round_trip) = (environment.now, &environment.round_trip);
        if let Some(loss) = self.departures.take(now, round_trip) {
            self.own_errors = self.smooth(self.own_errors, loss);
            if self.departures.is_alone(now, round_trip) {
                self.learn(self.own_errors);
            }
        }
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("spacing_us", self.spacing_us);
        self.departures.tell(tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::Bottleneck;
    use crate::harness::Pair;

    /// 12 Mbit/s: a packet of 1,500 bytes each millisecond.
    fn pair(reports: bool) -> Pair<Tsunami> {
        let make = || Tsunami::from_options(&mut Options::parse("rate=12m").unwrap()).unwrap();
        Pair::new(make(), make(), reports)
    }

    #[test]
    fn below_the_threshold_it_goes_to_its_target_by_a_fifth_a_report_and_stays() {
        for reports in [true, false] {
            let mut pair = pair(reports);
            assert!((pair.sender.spacing_us - 3_000.0).abs() < 1e-6);
            // Three times slower than the target: ln 3 / ln 1.2 reports, each 350 ms.
            pair.run(0.03, 5 * 36);
            let steps = (3_000.0_f64 / pair.sender.spacing_us).ln() / 1.2_f64.ln();
            // It waits for four reports before it uses its own account.
            let expected = if reports { 5.0 } else { 1.0 };
            assert!((steps - expected).abs() < 0.01, "{steps}");
            pair.run(0.03, 10 * 36);
            assert!((pair.sender.spacing_us - 1_000.0).abs() < 1e-6, "{}", pair.sender.spacing_us);
        }
    }

    #[test]
    fn above_the_threshold_it_falls_by_the_factor_of_its_formula() {
        for reports in [true, false] {
            let mut pair = pair(reports);
            pair.run(0.0, 20 * 36);
            pair.run(0.2, 4 * 36);
            let (before, began) = (pair.sender.spacing_us, pair.stage.now);
            pair.run(0.2, 100 * 36);
            let reports = pair.stage.now.since(began).as_secs_f64() / 0.35;
            let factor = (pair.sender.spacing_us / before).powf(1.0 / reports);
            // 0.56 % a report at 20 % of losses.
            let expected = 1.0 + (SLOWER - 1.0) * (0.2 - 0.075) / (1.0 - 0.075);
            assert!(((factor - 1.0) / (expected - 1.0) - 1.0).abs() < 0.1, "{factor} for {expected}");
        }
    }

    #[test]
    fn at_a_link_that_is_too_narrow_it_stays_above_what_the_link_carries() {
        let mut path = Bottleneck::new(8_333.3, 400).with(
            "tsunami",
            "rate=200m",
            Duration::from_millis(50),
            Duration::ZERO,
        );
        path.run(Duration::from_secs(60), Duration::ZERO);
        let (mut least, mut most, mut sum) = (f64::INFINITY, 0.0_f64, 0.0);
        for _ in 0..400 {
            path.run(Duration::from_millis(500), Duration::ZERO);
            let rate = 1e6 / path.told(0, "spacing_us") / 8_333.3;
            (least, most, sum) = (least.min(rate), most.max(rate), sum + rate);
        }
        // Where as much is lost as the threshold allows, or, after a step up, a fifth more and the losses seen late.
        let hovers = 1.0 / (1.0 - 0.075);
        assert!((least / hovers - 1.0).abs() < 0.02, "{least} of {hovers}");
        assert!(most < hovers * 1.2 * 1.2 * 1.02, "{most}");
        let mean = sum / 400.0;
        assert!((0.98..1.1).contains(&(mean / hovers)), "{mean} of {hovers}");
    }
}
