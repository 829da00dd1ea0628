//! FAST TCP: moves directly to the window at which a given number of its packets wait in the queue.
//!
//! Source: Jin, Wei, Low, "FAST TCP: motivation, architecture, algorithms, performance", INFOCOM 2004.

use core::time::Duration;

use units::Instant;

use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, halved, limit, sized};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy, Resized, RoundTrip};

/// FAST TCP: for long fast paths with queues that are not shared with controls that fill them. A flow that starts
/// late, behind the queues of others, counts them as part of the path and gets more than its share.
#[derive(Clone, Debug)]
pub(crate) struct Fast {
    /// Packets of its own that it keeps in the queue.
    queued: f64,
    gain: f64,
    window: f64,
    /// Round trip, smoothed over about a third of the window. Units: seconds.
    smoothed: Option<f64>,
    last_update: Option<Instant>,
}

/// Minimum interval between two moves of the window.
const INTERVAL: Duration = Duration::from_millis(20);

impl Fast {
    /// Creates a control with the number of packets that it keeps in the queue, and the fraction of the distance to
    /// its target that it moves at once.
    const fn new(queued: f64, gain: f64) -> Self {
        Self { queued, gain, window: START_WINDOW, smoothed: None, last_update: None }
    }

    fn smooth(&mut self, sample: Duration) {
        let sample = sample.as_secs_f64();
        let weight = (3.0 / self.window).min(0.25);
        self.smoothed = Some(self.smoothed.map_or(sample, |old| old + (sample - old) * weight));
    }

    fn update(&mut self, environment: &Environment<'_>) {
        let (Some(smoothed), Some(least)) = (self.smoothed, environment.round_trip.least) else { return };
        let part = (least.as_secs_f64() / smoothed.max(1e-9)).min(1.0);
        let aim = part * self.window + self.queued;
        let moved = (1.0 - self.gain) * self.window + self.gain * aim;
        self.window = moved.min(2.0 * self.window).max(LEAST_WINDOW);
    }
}

impl FromOptions for Fast {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let queued = options.number("alpha", 20.0, 1.0, 10_000.0)?;
        let gain = options.number("gamma", 0.5, 0.01, 1.0)?;
        Ok(Self::new(queued, gain))
    }
}

impl CongestionControl for Fast {
    fn policy(&self) -> Policy {
        Policy::window(self.window)
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        if let Some(sample) = acked.round_trip {
            self.smooth(sample);
        }
        // The effect of a move is seen a round trip later.
        let patience = environment.round_trip.smoothed.clamp(INTERVAL, RoundTrip::LONGEST);
        let is_due = self.last_update.is_none_or(|last| environment.now.since(last) >= patience);
        if is_due && !environment.flight.is_application_limited {
            self.last_update = Some(environment.now);
            self.update(environment);
        }
        limit(&mut self.window, environment);
    }

    fn on_packet_size(&mut self, _: &mut Environment<'_>, resized: &Resized) {
        self.window = sized(self.window, resized);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.window = halved(self.window);
            self.last_update = Some(environment.now);
        }
    }

    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        self.window = LEAST_WINDOW;
        self.last_update = Some(environment.now);
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("smoothed_round_trip_s", self.smoothed.unwrap_or(f64::NAN));
    }
}
