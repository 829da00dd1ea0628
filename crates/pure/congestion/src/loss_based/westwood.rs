//! Westwood+: Reno that after a loss keeps the measured capacity of the path.
//!
//! Source: Mascolo and others, "TCP Westwood: bandwidth estimation for enhanced transport over wireless links", 2001;
//! Grieco, Mascolo 2004 for the samples of a round trip ("+"); the filter is Linux's.

use core::time::Duration;

use units::Instant;

use super::reno::LastCut;
use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, limit, slow_start};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy};

/// Westwood+: for paths with random loss, such as radio. A loss cuts the window to the measured rate times the
/// minimum round trip, so a loss without a queue costs little.
#[derive(Clone, Debug)]
pub(crate) struct Westwood {
    window: f64,
    threshold: f64,
    cut: LastCut,
    /// The current sample: its start, and its packets.
    sample: Option<(Instant, f64)>,
    /// The rate, filtered once and twice. Units: packets per second.
    rates: Option<[f64; 2]>,
}

/// Minimum length of a sample, which otherwise takes a round trip.
const LEAST_SAMPLE: Duration = Duration::from_millis(50);
/// Maximum plausible round trip.
const LONGEST_SAMPLE: Duration = Duration::from_secs(10);

impl Westwood {
    const fn new() -> Self {
        let (window, threshold) = (START_WINDOW, f64::INFINITY);
        Self { window, threshold, cut: LastCut::NONE, sample: None, rates: None }
    }

    fn measure(&mut self, environment: &Environment<'_>, acked: &Acked) {
        let Some((began, packets)) = &mut self.sample else {
            self.sample = Some((environment.now, 0.0));
            return;
        };
        *packets += f64::from(acked.newly);
        let took = environment.now.since(*began);
        if took < environment.round_trip.smoothed.clamp(LEAST_SAMPLE, LONGEST_SAMPLE) {
            return;
        }
        let sample = *packets / took.as_secs_f64();
        self.sample = Some((environment.now, 0.0));
        let filter = |old: f64, new: f64| old * 0.875 + new * 0.125;
        self.rates = Some(self.rates.map_or([sample; 2], |[once, twice]| {
            let once = filter(once, sample);
            [once, filter(twice, once)]
        }));
    }

    /// Returns the window that fills the path at the measured rate without a queue.
    fn filled(&self, environment: &Environment<'_>) -> f64 {
        let rate = self.rates.map_or(0.0, |[_, twice]| twice);
        let least = environment.round_trip.least.unwrap_or(environment.round_trip.smoothed);
        let filled = (rate * least.min(LONGEST_SAMPLE).as_secs_f64()).max(LEAST_WINDOW);
        // Before the first measurement it behaves like Reno.
        if self.rates.is_some() { filled } else { (self.window / 2.0).max(LEAST_WINDOW) }
    }
}

impl FromOptions for Westwood {
    fn from_options(_: &mut Options) -> Result<Self, OptionError> {
        Ok(Self::new())
    }
}

impl CongestionControl for Westwood {
    fn policy(&self) -> Policy {
        if self.window < self.threshold {
            Policy::doubling_window(self.window)
        } else {
            Policy::window(self.window)
        }
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        self.measure(environment, acked);
        let rest = slow_start(&mut self.window, self.threshold, acked, environment);
        self.window += rest / self.cut.a_round(acked, self.window);
        limit(&mut self.window, environment);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.cut = LastCut::new(self.window, environment);
            self.threshold = self.filled(environment);
            self.window = self.window.min(self.threshold);
        }
    }

    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        self.threshold = self.filled(environment);
        self.window = 1.0;
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("rate_packets_per_s", self.rates.map_or(f64::NAN, |[_, twice]| twice));
        tell("slow_start_threshold_packets", self.threshold);
    }
}
