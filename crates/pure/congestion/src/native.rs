//! UDT's own control: a rate that grows by the free capacity of the path, and falls by a ninth at each loss.
//!
//! Source: libudt 4.11's built-in control and draft-gg-udt-03, section 5. Deviations are marked.

use core::time::Duration;

use units::Instant;

use crate::options::FromOptions;
use crate::window::sized;
use crate::{
    ACK_INTERVAL, Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy, Resized,
};

/// UDT's own control.
///
/// The rate grows in each interval of 10 ms without loss, by a step that depends on the free capacity of the path and
/// not on the round trip; each congestion epoch takes a ninth of it, and several reports in one epoch take more.
///
/// Differences from libudt:
/// - A loss before the peer reported its arrival rate does not reduce the rate to 16 packets a second: the window of
///   a round trip replaces the unknown rate.
/// - The period is not rounded up to whole microseconds, which at 10 Gb/s halves the rate at one loss. The option
///   `quantised=1` does, for comparisons.
/// - Intervals follow one another: an acknowledgement that arrives a little early does not cost the next step.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    is_quantised: bool,
    is_slow_start: bool,
    window_packets: f64,
    period_us: f64,
    last_step: Option<Instant>,
    had_loss: bool,
    period_before_decrease_us: f64,
    /// Number of the next new packet when the rate was last decreased: losses from it on begin an epoch.
    decreased_at: u64,
    mean_reports: f64,
    reports: u32,
    considered: u32,
    decrease_each: u32,
}

const INTERVAL_US: f64 = 10_000.0;
const START_WINDOW: f64 = 16.0;
const START_PERIOD_US: f64 = 1.0;
/// Maximum period: with any number of losses, one packet a second still probes the path.
const MOST_PERIOD_US: f64 = 1e6;
/// Minimum period, a thousand million packets a second: beyond any path, and well within the range of an `f64`.
const LEAST_PERIOD_US: f64 = 1e-3;
const DECREASE: f64 = 1.125;
/// Minimum increase, in packets per interval.
const LEAST_INCREASE: f64 = 0.01;
/// Factor of the increase: applied to the next power of ten of the free capacity, by a packet's size.
const GAIN: f64 = 1.5e-6;
/// Maximum number of further reports of an epoch that are considered.
const MOST_REPORTS: u32 = 5;

impl Native {
    /// Creates a control before its first event; `is_quantised` rounds periods as libudt does.
    const fn new(is_quantised: bool) -> Self {
        Self {
            is_quantised,
            is_slow_start: true,
            window_packets: START_WINDOW,
            period_us: START_PERIOD_US,
            last_step: None,
            had_loss: false,
            period_before_decrease_us: START_PERIOD_US,
            decreased_at: 0,
            mean_reports: 0.0,
            reports: 0,
            considered: 0,
            decrease_each: 1,
        }
    }

    fn rate(&self) -> f64 {
        1e6 / self.period_us
    }

    /// Switches from a growing window to a rate: the arrival rate, or the window in a round trip.
    fn leave_slow_start(&mut self, environment: &Environment<'_>) {
        self.is_slow_start = false;
        self.period_us = match arrival(environment) {
            Some(rate) => 1e6 / rate,
            None => (round_trip_us(environment) + INTERVAL_US) / self.window_packets,
        };
        self.period_us = self.period_us.clamp(LEAST_PERIOD_US, MOST_PERIOD_US);
    }

    fn decrease(&mut self, next: u64) {
        let period_us = self.period_us * DECREASE;
        let period_us = if self.is_quantised { period_us.ceil() } else { period_us };
        self.period_us = period_us.min(MOST_PERIOD_US);
        self.decreased_at = next;
    }

    /// Returns the increase of an interval's budget. Units: packets.
    fn increase(&self, environment: &Environment<'_>) -> f64 {
        let capacity = environment.peer.capacity_packets_per_s.filter(|rate| rate.is_finite()).unwrap_or(0.0);
        let mut free = capacity - self.rate();
        // Below the excessive rate it may recover quickly, but in no larger steps than it fell.
        if self.period_us > self.period_before_decrease_us {
            free = free.min(capacity / 9.0);
        }
        let bytes = f64::from(environment.flight.packet_bytes.max(1));
        if free <= 0.0 {
            return LEAST_INCREASE;
        }
        let decade = (free * bytes * 8.0).log10().ceil();
        (10f64.powf(decade) * GAIN / bytes).max(LEAST_INCREASE)
    }

    /// Returns the number of finished intervals, and begins the next.
    ///
    /// An acknowledgement just before an interval's end leaves its step to the next one. After a longer silence there
    /// is one step, as in libudt: nothing was learned meanwhile.
    fn steps(&mut self, now: Instant) -> f64 {
        let Some(last) = self.last_step else {
            self.last_step = Some(now);
            return 1.0;
        };
        let passed = now.since(last);
        if passed < ACK_INTERVAL {
            return 0.0;
        }
        let (steps, begins) = if self.is_quantised || passed >= 3 * ACK_INTERVAL {
            (1.0, now)
        } else if passed >= 2 * ACK_INTERVAL {
            (2.0, last + 2 * ACK_INTERVAL)
        } else {
            (1.0, last + ACK_INTERVAL)
        };
        self.last_step = Some(begins);
        steps
    }
}

impl FromOptions for Native {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let quantised = options.number("quantised", 0.0, 0.0, 1.0)?;
        Ok(Self::new(quantised >= 0.5))
    }
}

impl CongestionControl for Native {
    fn policy(&self) -> Policy {
        Policy { packets_per_s: self.rate(), window_packets: self.window_packets, ..Policy::OPEN }
    }

    fn on_packet_size(&mut self, _: &mut Environment<'_>, resized: &Resized) {
        self.window_packets = sized(self.window_packets, resized);
        self.period_us = (self.period_us / resized.factor()).min(MOST_PERIOD_US);
        self.period_before_decrease_us =
            (self.period_before_decrease_us / resized.factor()).min(MOST_PERIOD_US);
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        if acked.newly == 0 {
            return;
        }
        if self.is_slow_start {
            self.window_packets += f64::from(acked.newly);
            if self.window_packets > f64::from(environment.flight.max_window_packets) {
                self.leave_slow_start(environment);
            }
        }
        let steps = self.steps(environment.now);
        if steps == 0.0 || self.is_slow_start {
            return;
        }
        if let Some(rate) = arrival(environment) {
            self.window_packets = rate * (round_trip_us(environment) + INTERVAL_US) / 1e6 + START_WINDOW;
        }
        if core::mem::take(&mut self.had_loss) {
            return;
        }
        let increase = steps * self.increase(environment);
        let period_us = self.period_us * INTERVAL_US / (self.period_us * increase + INTERVAL_US);
        self.period_us = period_us.max(LEAST_PERIOD_US);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        if self.is_slow_start {
            self.leave_slow_start(environment);
            if arrival(environment).is_some() {
                return;
            }
        }
        self.had_loss = true;
        let next = environment.flight.next;
        if lost.ranges.iter().any(|range| range.end > self.decreased_at) {
            self.period_before_decrease_us = self.period_us;
            self.decrease(next);
            self.mean_reports = (0.875 * self.mean_reports + 0.125 * f64::from(self.reports)).ceil();
            self.reports = 1;
            self.considered = 1;
            // Senders that share a bottleneck should not all take their further decreases at the same report.
            let drawn = (self.mean_reports * environment.random.unit()).ceil();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at most the five reports of an epoch"
            )]
            let drawn = drawn as u32;
            self.decrease_each = drawn.max(1);
        } else if self.considered < MOST_REPORTS {
            self.considered += 1;
            self.reports += 1;
            if self.reports.is_multiple_of(self.decrease_each) {
                self.decrease(next);
            }
        }
    }

    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        if self.is_slow_start {
            self.leave_slow_start(environment);
        }
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("period_us", self.period_us);
        tell("reports_per_epoch", self.mean_reports);
    }
}

/// Returns the arrival rate, if the peer reported a valid one.
fn arrival(environment: &Environment<'_>) -> Option<f64> {
    environment.peer.arrival_packets_per_s.filter(|rate| rate.is_finite() && *rate >= 1.0)
}

fn round_trip_us(environment: &Environment<'_>) -> f64 {
    environment.round_trip.smoothed.min(MOST_ROUND_TRIP).as_secs_f64() * 1e6
}

/// Maximum plausible round trip.
const MOST_ROUND_TRIP: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Stage;

    const GIGABIT: f64 = 1e9 / 12_000.0;

    /// A control that has left slow start with the given rate, and its environment.
    fn begun(is_quantised: bool, rate: f64, capacity: f64) -> (Native, Stage) {
        let mut stage = Stage::new(1, Duration::from_millis(10));
        stage.peer.capacity_packets_per_s = Some(capacity);
        stage.peer.arrival_packets_per_s = Some(rate);
        let mut control = Native::new(is_quantised);
        stage.lose(&mut control);
        (control, stage)
    }

    /// Runs for an interval; `is_lost` is called for each packet. Returns the rate in force.
    fn interval(control: &mut Native, stage: &mut Stage, mut is_lost: impl FnMut(&mut Stage) -> bool) -> f64 {
        let rate = control.policy().packets_per_s;
        stage.budget += rate * 0.01;
        while stage.budget >= 1.0 {
            stage.budget -= 1.0;
            stage.flight.next += 1;
            if is_lost(stage) {
                stage.lose(control);
            }
        }
        stage.now += ACK_INTERVAL;
        stage.peer.arrival_packets_per_s = Some(rate.max(1.0));
        stage.ack(control, 1);
        rate
    }

    #[test]
    fn ninety_percent_of_a_power_of_ten_take_seven_and_a_half_seconds() {
        for capacity in [1e7 / 12_000.0, 1e8 / 12_000.0, GIGABIT, 1e10 / 12_000.0] {
            let (mut control, mut stage) = begun(false, 1.0, capacity);
            let mut seconds = 0.0;
            while interval(&mut control, &mut stage, |_| false) < 0.9 * capacity {
                seconds += 0.01;
            }
            assert!((seconds - 7.5f64).abs() < 0.05, "{capacity} packets/s: {seconds} s");
        }
    }

    #[test]
    fn random_losses_hold_the_rate_at_three_hundred_roots_of_increase_by_probability() {
        for (capacity, increase, p) in
            [(GIGABIT, 1.0f64, 1e-3), (GIGABIT, 1.0, 1e-4), (GIGABIT / 10.0, 0.1, 1e-3)]
        {
            let expected = 300.0 * (increase / p).sqrt();
            let (mut control, mut stage) = begun(false, expected, capacity);
            let (mut sum, mut intervals, mut losses) = (0.0, 0.0, 0);
            while losses < 1_500 {
                sum += interval(&mut control, &mut stage, |stage| {
                    let is_lost = stage.random.chance(p);
                    losses += u32::from(is_lost);
                    is_lost
                });
                intervals += 1.0;
            }
            let mean: f64 = sum / intervals;
            assert!((mean / expected - 1.0).abs() < 0.1, "p={p}: {mean} for {expected} packets/s");
        }
    }

    /// Runs over a path of a gigabit that loses one packet as soon as the rate exceeds it; returns its utilisation.
    fn saw_tooth(estimate: f64) -> f64 {
        let (mut control, mut stage) = begun(false, GIGABIT * 0.95, estimate);
        let (mut sum, mut intervals) = (0.0, 0.0);
        for _ in 0..20_000 {
            let mut is_over = control.policy().packets_per_s > GIGABIT;
            sum += interval(&mut control, &mut stage, |_| core::mem::take(&mut is_over));
            intervals += 1.0;
        }
        sum / intervals / GIGABIT
    }

    #[test]
    fn a_full_way_is_used_to_ninety_four_percent() {
        // The closed form has one step size: an estimate above the path's capacity keeps it.
        let used = saw_tooth(2.0 * GIGABIT);
        assert!((used - 0.944).abs() < 0.005, "{used}");
        // An exact estimate makes the steps smaller near the top, where it then stays longer.
        let used = saw_tooth(GIGABIT);
        assert!((0.95..0.99).contains(&used), "{used}");
    }

    #[test]
    fn a_loss_before_anything_is_known_of_the_peer_does_not_stop_the_sender() {
        let mut stage = Stage::new(1, Duration::from_millis(100));
        let mut control = Native::new(false);
        stage.lose(&mut control);
        // 16 packets in 110 ms, and a ninth less for the loss. libudt sends 16 packets a second here.
        let expected = 16.0 / 0.110 / 1.125;
        let rate = control.policy().packets_per_s;
        assert!((rate / expected - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn only_the_quantised_variant_halves_a_rate_of_a_packet_a_microsecond() {
        for (is_quantised, expected) in [(true, 5e5), (false, 1e6 / 1.125)] {
            let (mut control, mut stage) = begun(is_quantised, 1e6, 1e6);
            stage.flight.next += 1;
            stage.lose(&mut control);
            let rate = control.policy().packets_per_s;
            assert!((rate / expected - 1.0).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn one_epoch_takes_between_one_and_five_ninths_steps() {
        for seed in 0..50 {
            let (mut control, mut stage) = begun(false, 1e4, 1e4);
            stage.random = units::Random::new(seed);
            stage.flight.next += 1;
            for _ in 0..100 {
                // The same packets repeatedly: the epoch does not end.
                stage.lose_again(&mut control);
            }
            let part = control.policy().packets_per_s / 1e4;
            assert!((0.554..0.8889).contains(&part), "seed {seed}: {part}");
        }
    }

    #[test]
    fn an_interval_in_which_something_was_lost_brings_no_increase() {
        let (mut control, mut stage) = begun(false, 1e3, 1e5);
        stage.flight.next += 1;
        stage.lose(&mut control);
        let before = control.policy().packets_per_s;
        stage.now += ACK_INTERVAL;
        stage.ack(&mut control, 1);
        assert!((control.policy().packets_per_s - before).abs() < 1e-9);
        stage.now += ACK_INTERVAL;
        stage.ack(&mut control, 1);
        assert!(control.policy().packets_per_s > before);
    }

    #[test]
    fn an_acknowledgement_a_little_early_costs_a_step_only_in_the_quantised_variant() {
        for (is_quantised, expected) in [(false, 100.0), (true, 51.0)] {
            let (mut control, mut stage) = begun(is_quantised, 1e3, 1e6);
            let before = control.policy().packets_per_s;
            // One arrives 9.9 ms after the previous one, the next 10.1 ms, and so on.
            for turn in 0..100 {
                stage.ack(&mut control, 1);
                stage.now += Duration::from_micros(if turn % 2 == 0 { 9_900 } else { 10_100 });
            }
            // The free capacity is worth 10 packets an interval: 1,000 packets a second each step.
            let steps: f64 = (control.policy().packets_per_s - before) / 1_000.0;
            assert!((steps - expected).abs() <= 2.0, "quantised {is_quantised}: {steps}");
        }
    }
}
