//! BIC: a binary search for the window of the last loss, then a careful probe beyond it.
//!
//! Source: Xu, Harfoush, Rhee, "Binary increase congestion control for fast long-distance networks", INFOCOM 2004.

use super::reno::LastCut;
use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, limit, slow_start};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy};

/// BIC with the paper's constants; Linux has `smax=16&b=0.2`.
#[derive(Clone, Debug)]
pub(crate) struct Bic {
    largest_step: f64,
    least_step: f64,
    decrease: f64,
    window: f64,
    threshold: f64,
    /// The window of the search.
    target: f64,
    /// Step beyond it in a round trip; doubles with each.
    probing_step: f64,
    /// Packets acknowledged since it last doubled.
    probed: f64,
    cut: LastCut,
}

/// Window below which it behaves like Reno.
const LOW_WINDOW: f64 = 14.0;

impl Bic {
    /// Creates a control with the maximum and minimum step in a round trip, and the fraction that a loss removes.
    const fn new(largest_step: f64, least_step: f64, decrease: f64) -> Self {
        Self {
            largest_step,
            least_step,
            decrease,
            window: START_WINDOW,
            threshold: f64::INFINITY,
            target: 0.0,
            probing_step: 1.0,
            probed: 0.0,
            cut: LastCut::NONE,
        }
    }

    fn step(&self) -> f64 {
        if self.window < LOW_WINDOW {
            1.0
        } else if self.window < self.target {
            ((self.target - self.window) / 2.0).clamp(self.least_step, self.largest_step)
        } else {
            self.probing_step
        }
    }

    fn cut_to(&mut self) -> f64 {
        (self.probing_step, self.probed) = (1.0, 0.0);
        if self.window < LOW_WINDOW {
            self.target = self.window;
            return (self.window / 2.0).max(LEAST_WINDOW);
        }
        // A flow that loses before it reaches the old window makes room for others.
        let is_less = self.window < self.target;
        self.target = if is_less { self.window * (2.0 - self.decrease) / 2.0 } else { self.window };
        self.window * (1.0 - self.decrease)
    }
}

impl FromOptions for Bic {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let largest = options.number("smax", 32.0, 1.0, 1_000.0)?;
        let least = options.number("smin", 0.01, 0.000_1, 1.0)?;
        let decrease = options.number("b", 0.125, 0.01, 0.8)?;
        Ok(Self::new(largest, least, decrease))
    }
}

impl CongestionControl for Bic {
    fn policy(&self) -> Policy {
        if self.window < self.threshold {
            Policy::doubling_window(self.window)
        } else {
            Policy::window(self.window)
        }
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        let rest = slow_start(&mut self.window, self.threshold, acked, environment);
        let is_searching = self.window < self.target;
        let round = self.cut.a_round(acked, self.window);
        let grown = self.window + rest * self.step() / round;
        self.window = if is_searching { grown.min(self.target) } else { grown };
        self.probed += if is_searching { 0.0 } else { rest };
        // A whole round trip, counted from the start of probing and not from the transport's count.
        if self.probed >= round {
            self.probed = 0.0;
            self.probing_step = (self.probing_step * 2.0).min(self.largest_step);
        }
        limit(&mut self.window, environment);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.cut = LastCut::new(self.window, environment);
            self.threshold = self.cut_to();
            self.window = self.threshold;
        }
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        self.threshold = self.cut_to();
        self.window = 1.0;
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("target_packets", self.target);
        tell("slow_start_threshold_packets", self.threshold);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::harness::Stage;

    /// A control that was cut at a window, and its environment.
    fn cut_at(window: f64) -> (Bic, Stage) {
        let mut stage = Stage::new(1, Duration::from_millis(100));
        let mut control = Bic { window, ..Bic::new(32.0, 0.01, 0.125) };
        stage.lose(&mut control);
        // The round trip of packets sent before is over.
        control.cut = LastCut::NONE;
        (control, stage)
    }

    /// Acknowledges a window, a packet at a time.
    fn round(control: &mut Bic, stage: &mut Stage) {
        for _ in 0..control.window.round() as u32 {
            stage.ack(control, 1);
        }
    }

    #[test]
    fn far_away_it_takes_the_largest_step_and_near_by_half_of_what_is_left() {
        let (mut control, mut stage) = cut_at(1_000.0);
        assert_eq!((control.window, control.target), (875.0, 1_000.0));
        round(&mut control, &mut stage);
        assert!((control.window - 907.0).abs() < 1.0, "{}", control.window);
        for _ in 0..2 {
            round(&mut control, &mut stage);
        }
        let left = 1_000.0 - control.window;
        round(&mut control, &mut stage);
        // After many small steps of a half in total, e^-0.5 of the distance is left.
        assert!(((1_000.0 - control.window) / left - 0.607).abs() < 0.02, "{left} {}", control.window);
    }

    #[test]
    fn beyond_the_target_its_steps_double_up_to_the_largest() {
        let (mut control, mut stage) = cut_at(1_000.0);
        control.window = 1_000.0;
        for step in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 32.0] {
            let before = control.window;
            round(&mut control, &mut stage);
            assert!(
                (control.window - before - step).abs() < 0.1 * step + 0.1,
                "{} after {before}",
                control.window
            );
        }
    }

    #[test]
    fn who_has_less_than_before_makes_room_and_small_windows_are_renos() {
        let (mut control, mut stage) = cut_at(1_000.0);
        stage.lose(&mut control);
        assert_eq!((control.window, control.target), (765.625, 820.3125));
        let (mut control, mut stage) = cut_at(12.0);
        assert_eq!((control.window, control.target), (6.0, 12.0));
        round(&mut control, &mut stage);
        assert!((control.window - 7.0).abs() < 0.1, "{}", control.window);
    }
}
