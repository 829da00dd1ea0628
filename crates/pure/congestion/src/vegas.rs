//! Vegas: keeps a few packets of its own in the queue, and yields before anything is lost.
//!
//! Source: Brakmo, Peterson, "TCP Vegas: end to end congestion avoidance on a global Internet", 1995, with the constants
//! of Linux, and the least round trip of a round in place of the mean.

use core::time::Duration;

use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, Window, halved, limit};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy, Resized};

/// Vegas: for paths on which round trips reflect queues, and all flows use delay-based controls. Against controls
/// that fill the queue it gets little.
#[derive(Clone, Debug)]
pub(crate) struct Vegas {
    /// Minimum and maximum number of packets that it keeps in the queue.
    fewest: f64,
    most: f64,
    window: Window,
    /// Minimum round trip of this round.
    least: Option<Duration>,
    /// Slow start doubles every second round, so that its effect is seen in between.
    grows: bool,
}

/// Number of waiting packets at which slow start ends.
const SLOW_START_QUEUE: f64 = 1.0;

impl Vegas {
    /// Creates a control with the minimum and maximum number of packets that it keeps in the queue.
    const fn new(fewest: f64, most: f64) -> Self {
        Self { fewest, most, window: Window::new(START_WINDOW), least: None, grows: true }
    }

    /// Compares the minimum round trip of a finished round with the minimum of all.
    fn judge(&mut self, environment: &Environment<'_>) {
        let (Some(least), Some(base)) = (self.least.take(), environment.round_trip.least) else { return };
        let part = base.as_secs_f64() / least.as_secs_f64().max(1e-9);
        let window = &mut self.window;
        let queued = window.packets * (1.0 - part.min(1.0));
        if window.is_slow_start() {
            self.grows = !self.grows;
            if queued > SLOW_START_QUEUE {
                window.packets =
                    (window.packets * part + 1.0).clamp(LEAST_WINDOW, window.packets.max(LEAST_WINDOW));
                window.threshold = window.packets;
            }
        } else if queued < self.fewest {
            window.packets += 1.0;
        } else if queued > self.most {
            window.packets = (window.packets - 1.0).max(LEAST_WINDOW);
            // Otherwise the next acknowledgements would undo the step in slow start.
            window.threshold = window.threshold.min(window.packets);
        }
    }
}

impl FromOptions for Vegas {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let fewest = options.number("alpha", 2.0, 0.5, 1_000.0)?;
        let most = options.number("beta", 4.0, 0.5, 1_000.0)?;
        Ok(Self::new(fewest, most.max(fewest)))
    }
}

impl CongestionControl for Vegas {
    fn policy(&self) -> Policy {
        self.window.policy()
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        if let Some(sample) = acked.round_trip {
            self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
        }
        if environment.flight.is_application_limited {
            return;
        }
        if self.window.is_slow_start() && self.grows {
            self.window.slow_start(acked, environment);
        }
        if acked.ends_round {
            self.judge(environment);
        }
        limit(&mut self.window.packets, environment);
    }

    fn on_packet_size(&mut self, _: &mut Environment<'_>, resized: &Resized) {
        self.window.resize(resized);
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            let half = halved(self.window.packets);
            self.window = Window { packets: half, threshold: half };
            self.least = None;
        }
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        self.window.restart(halved(self.window.packets));
        (self.least, self.grows) = (None, true);
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("slow_start_threshold_packets", self.window.threshold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AckKind;
    use crate::harness::Stage;

    #[test]
    fn a_step_back_is_not_taken_back_by_slow_start() {
        let mut stage = Stage::new(1, Duration::from_millis(20));
        let mut vegas = Vegas { window: Window { packets: 60.0, threshold: 60.0 }, ..Vegas::new(2.0, 4.0) };
        for round in 1..=5 {
            let waited = Some(Duration::from_millis(30));
            let (to, kind) = (round * 60, AckKind::Light);
            let acked = Acked { to, newly: 60, kind, round_trip: waited, ends_round: true, rate: None };
            vegas.on_ack(&mut stage.environment(), &acked);
            assert_eq!(vegas.window.packets, 60.0 - round as f64);
        }
    }
}
