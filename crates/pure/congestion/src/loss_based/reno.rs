//! `TCP`'s standard control: one packet per round trip, halved at each congestion epoch.
//!
//! Source: RFC 5681 (slow start, avoidance), RFC 6928 (the first window). Losses are reported by number here, so the
//! inflation and deflation of fast recovery have no counterpart.

use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, limit, slow_start};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy};

/// Reno. Every acknowledged packet counts, even if one acknowledgement covers many (RFC 3465 without its limit).
#[derive(Clone, Debug)]
pub(crate) struct Reno {
    window: f64,
    threshold: f64,
    cut: LastCut,
}

/// The last time a window was cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastCut {
    next: u64,
    window_before: f64,
}

impl LastCut {
    /// No cut yet.
    pub(crate) const NONE: Self = Self { next: 0, window_before: 0.0 };

    /// Records a window that is about to be cut.
    pub(crate) const fn new(window: f64, environment: &Environment<'_>) -> Self {
        Self { next: environment.flight.next, window_before: window }
    }

    /// Returns the number of packets in the round trip in which an acknowledgement came.
    ///
    /// Packets sent before a cut fill the wider window: a round trip must bring one step there, too.
    pub(crate) const fn a_round(&self, acked: &Acked, window: f64) -> f64 {
        if acked.to <= self.next { self.window_before.max(window) } else { window }
    }
}

impl Reno {
    /// Creates a control before its first event, with its initial window.
    const fn new(start_window: f64) -> Self {
        Self { window: start_window, threshold: f64::INFINITY, cut: LastCut::NONE }
    }
}

impl FromOptions for Reno {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let start = options.number("start", START_WINDOW, 1.0, 1e6)?;
        Ok(Self::new(start))
    }
}

impl CongestionControl for Reno {
    fn policy(&self) -> Policy {
        if self.window < self.threshold {
            Policy::doubling_window(self.window)
        } else {
            Policy::window(self.window)
        }
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        let rest = slow_start(&mut self.window, self.threshold, acked, environment);
        self.window += rest / self.cut.a_round(acked, self.window);
        limit(&mut self.window, environment);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.cut = LastCut::new(self.window, environment);
            self.threshold = (self.window / 2.0).max(LEAST_WINDOW);
            self.window = self.threshold;
        }
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        self.threshold = (self.window / 2.0).max(LEAST_WINDOW);
        self.window = 1.0;
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("slow_start_threshold_packets", self.threshold);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::harness::Stage;

    #[test]
    fn slow_start_ends_at_the_threshold_and_what_is_left_counts_for_avoidance() {
        let mut stage = Stage::new(1, Duration::from_millis(100));
        let mut control = Reno { threshold: 20.0, ..Reno::new(10.0) };
        stage.ack(&mut control, 30);
        assert!((control.window - 21.0).abs() < 1e-9, "{control:?}");
    }

    #[test]
    fn an_application_that_does_not_fill_the_window_does_not_widen_it() {
        let mut stage = Stage::new(1, Duration::from_millis(100));
        stage.flight.is_application_limited = true;
        let mut control = Reno::new(10.0);
        stage.ack(&mut control, 10);
        assert!((control.window - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_timeout_begins_again_with_one_packet_up_to_half_the_window() {
        let mut stage = Stage::new(1, Duration::from_millis(100));
        let mut control = Reno::new(40.0);
        control.on_timeout(&mut stage.environment());
        assert!((control.window - 1.0).abs() < 1e-9);
        stage.ack(&mut control, 19);
        assert!((control.window - 20.0).abs() < 1e-9);
    }
}
