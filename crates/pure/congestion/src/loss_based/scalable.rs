//! Scalable TCP: a hundredth of a packet for each one acknowledged, an eighth of the window at a loss.
//!
//! Source: Kelly, "Scalable TCP: improving performance in highspeed wide area networks", CCR 2003.

use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, limit, slow_start};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy};

/// Scalable TCP. It recovers from a loss in 13.4 round trips regardless of the window; two flows of it keep their
/// initial shares, so it is for paths that are shared with few.
#[derive(Clone, Debug)]
pub(crate) struct Scalable {
    increase: f64,
    decrease: f64,
    window: f64,
    threshold: f64,
}

/// Window below which it behaves like Reno.
const LEGACY_WINDOW: f64 = 16.0;

impl Scalable {
    /// Creates a control with the increase for each packet and the fraction that a loss removes.
    const fn new(increase: f64, decrease: f64) -> Self {
        Self { increase, decrease, window: START_WINDOW, threshold: f64::INFINITY }
    }

    fn cut(&self) -> f64 {
        let part = if self.window < LEGACY_WINDOW { 0.5 } else { self.decrease };
        (self.window * (1.0 - part)).max(LEAST_WINDOW)
    }
}

impl FromOptions for Scalable {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let increase = options.number("a", 0.01, 0.000_1, 1.0)?;
        let decrease = options.number("b", 0.125, 0.01, 0.9)?;
        Ok(Self::new(increase, decrease))
    }
}

impl CongestionControl for Scalable {
    fn policy(&self) -> Policy {
        if self.window < self.threshold {
            Policy::doubling_window(self.window)
        } else {
            Policy::window(self.window)
        }
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        let rest = slow_start(&mut self.window, self.threshold, acked, environment);
        let each = if self.window < LEGACY_WINDOW { 1.0 / self.window } else { self.increase };
        self.window += rest * each;
        limit(&mut self.window, environment);
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.threshold = self.cut();
            self.window = self.threshold;
        }
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        self.threshold = self.cut();
        self.window = 1.0;
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("slow_start_threshold_packets", self.threshold);
    }
}
