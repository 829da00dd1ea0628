//! Westwood+: Reno that after a loss keeps the measured capacity of the path.
//!
//! Source: Mascolo and others, "TCP Westwood: bandwidth estimation for enhanced transport over wireless links", 2001;
//! Grieco, Mascolo 2004 for the samples of a round trip ("+"); the filter is Linux's.

use core::time::Duration;

use units::Instant;

use super::{LossBased, Response, Step};
use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, halved};
use crate::{Acked, Environment, OptionError, Options, Resized, RoundTrip};

/// Westwood+: for paths with random loss, such as radio. A loss cuts the window to the measured rate times the
/// minimum round trip, so a loss without a queue costs little.
#[derive(Clone, Debug, Default)]
pub(crate) struct Westwood {
    /// The current sample: its start, and its packets.
    sample: Option<(Instant, f64)>,
    /// The rate, filtered once and twice. Units: packets per second.
    rates: Option<[f64; 2]>,
}

/// Minimum length of a sample, which otherwise takes a round trip.
const LEAST_SAMPLE: Duration = Duration::from_millis(50);

impl Westwood {
    fn measure(&mut self, environment: &Environment<'_>, acked: &Acked) {
        let Some((began, packets)) = &mut self.sample else {
            self.sample = Some((environment.now, 0.0));
            return;
        };
        *packets += f64::from(acked.newly);
        let took = environment.now.since(*began);
        if took < environment.round_trip.smoothed.clamp(LEAST_SAMPLE, RoundTrip::LONGEST) {
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
}

impl FromOptions for LossBased<Westwood> {
    fn from_options(_: &mut Options) -> Result<Self, OptionError> {
        Ok(Self::new(START_WINDOW, Westwood::default()))
    }
}

impl Response for Westwood {
    fn grow(&mut self, step: &Step<'_>) -> f64 {
        step.widened_by(1.0)
    }

    /// Returns the window that fills the path at the measured rate without a queue; Reno's before the first
    /// measurement.
    fn cut(&mut self, window: f64, environment: &Environment<'_>) -> f64 {
        let Some([_, rate]) = self.rates else { return halved(window) };
        let least = environment.round_trip.least.unwrap_or(environment.round_trip.smoothed);
        (rate * least.min(RoundTrip::LONGEST).as_secs_f64()).max(LEAST_WINDOW)
    }

    /// Keeps a window that fills less than the path.
    fn keep(&self, window: f64, threshold: f64) -> f64 {
        window.min(threshold)
    }

    fn observe(&mut self, acked: &Acked, environment: &Environment<'_>) -> bool {
        self.measure(environment, acked);
        true
    }

    fn resize(&mut self, resized: &Resized) {
        self.sample = self.sample.map(|(began, packets)| (began, packets * resized.factor()));
        self.rates = self.rates.map(|rates| rates.map(|rate| rate * resized.factor()));
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("rate_packets_per_s", self.rates.map_or(f64::NAN, |[_, rate]| rate));
    }
}
