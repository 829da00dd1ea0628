//! LEDBAT: uses the capacity that others leave, guided by the delay that it adds itself.
//!
//! Source: RFC 6817. Delay is that of a round trip: UDT's acknowledgements do not give the one-way delay, so a queue
//! on the reverse path makes it yield, too.

use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, halved, limit, sized};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy, Resized};

/// LEDBAT: for background transfers, such as copies of an archive. It keeps a queue of at most `target`, so every
/// flow that fills queues takes precedence. A flow that starts behind its queue counts that as part of the path, and
/// displaces the first one.
#[derive(Clone, Debug)]
pub(crate) struct Ledbat {
    target: Duration,
    gain: f64,
    window: f64,
    /// Minimum delay of each of the last minutes.
    base: VecDeque<(Instant, Duration)>,
    /// The newest delays.
    current: VecDeque<Duration>,
}

/// Number of minutes for which the minimum delay is remembered.
const BASE_MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Number of delays of which the minimum is the current one.
const CURRENT_SAMPLES: usize = 4;

impl Ledbat {
    /// Creates a control with the delay that it may add, and the packets by which a window grows in a round trip
    /// without any.
    const fn new(target: Duration, gain: f64) -> Self {
        Self { target, gain, window: LEAST_WINDOW, base: VecDeque::new(), current: VecDeque::new() }
    }

    fn take(&mut self, now: Instant, sample: Duration) {
        match self.base.back_mut() {
            Some((began, least)) if now.since(*began) < MINUTE => *least = sample.min(*least),
            _ => self.base.push_back((now, sample)),
        }
        self.current.push_back(sample);
        if self.base.len() > BASE_MINUTES {
            self.base.pop_front();
        }
        if self.current.len() > CURRENT_SAMPLES {
            self.current.pop_front();
        }
    }

    /// Returns the distance of the delay below the target, as a fraction of it; negative above.
    fn distance(&self) -> f64 {
        let base = self.base.iter().map(|(_, least)| *least).min().unwrap_or_default();
        let current = self.current.iter().min().copied().unwrap_or_default();
        let queued = current.saturating_sub(base).as_secs_f64();
        // A delay above twice the target counts as twice.
        (1.0 - queued / self.target.as_secs_f64()).max(-1.0)
    }
}

impl FromOptions for Ledbat {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let target_ms = options.number("target", 100.0, 1.0, 100.0)?;
        let gain = options.number("gain", 1.0, 0.01, 1.0)?;
        Ok(Self::new(Duration::from_secs_f64(target_ms / 1e3), gain))
    }
}

impl CongestionControl for Ledbat {
    fn policy(&self) -> Policy {
        Policy::window(self.window)
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        if let Some(sample) = acked.round_trip {
            self.take(environment.now, sample);
        }
        let newly = f64::from(acked.newly);
        // The sum of the growth of each single packet, `1 / window` of it: the window may be small.
        let square = self.window * self.window + 2.0 * self.gain * self.distance() * newly;
        let moved = square.max(0.0).sqrt();
        // The RFC limits the growth of an unused window by the packets in flight, which here are fewer than the
        // window even while it waits for its pace. The transport reports itself when there was nothing to send.
        let most = if environment.flight.is_application_limited { self.window } else { f64::INFINITY };
        self.window = moved.min(most).max(LEAST_WINDOW);
        limit(&mut self.window, environment);
    }

    fn on_packet_size(&mut self, _: &mut Environment<'_>, resized: &Resized) {
        self.window = sized(self.window, resized);
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.window = halved(self.window);
        }
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        self.window = 1.0;
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("distance_from_target", self.distance());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Stage;

    #[test]
    fn a_window_that_is_not_used_does_not_grow_and_one_that_waits_for_its_pace_does() {
        let mut stage = Stage::new(1, Duration::from_millis(20));
        let mut ledbat = Ledbat::new(Duration::from_millis(100), 1.0);
        for _ in 0..10 {
            stage.ack(&mut ledbat, 1);
        }
        let grown = ledbat.window;
        assert!(grown > 4.0, "{grown} packets, though nothing else is in flight");
        stage.flight.is_application_limited = true;
        for _ in 0..10 {
            stage.ack(&mut ledbat, 1);
        }
        assert_eq!(ledbat.window, grown);
    }
}
