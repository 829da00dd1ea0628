//! BIC: a binary search for the window of the last loss, then a careful probe beyond it.
//!
//! Source: Xu, Harfoush, Rhee, "Binary increase congestion control for fast long-distance networks", INFOCOM 2004.

use super::{LossBased, Response, Step};
use crate::options::FromOptions;
use crate::window::{START_WINDOW, halved};
use crate::{Environment, OptionError, Options, Resized};

/// BIC with the paper's constants; Linux has `smax=16&b=0.2`.
///
/// A round trip brings half the way to the target, from `smin` to `smax` packets; beyond the target 1, 2, 4 … up to
/// `smax`. A loss cuts to `w·(1 − b)`.
#[derive(Clone, Debug)]
pub(crate) struct Bic {
    largest_step: f64,
    least_step: f64,
    decrease: f64,
    /// The window of the search.
    target: f64,
    /// Step beyond it in a round trip; doubles with each.
    probing_step: f64,
    /// Packets acknowledged since it last doubled.
    probed: f64,
}

/// Window below which it behaves like Reno.
const LOW_WINDOW: f64 = 14.0;

impl Bic {
    /// Creates the response with the maximum and minimum step in a round trip, and the fraction that a loss removes.
    const fn new(largest_step: f64, least_step: f64, decrease: f64) -> Self {
        Self { largest_step, least_step, decrease, target: 0.0, probing_step: 1.0, probed: 0.0 }
    }

    /// Returns the growth of a window in a round trip.
    fn increase(&self, window: f64) -> f64 {
        if window < LOW_WINDOW {
            1.0
        } else if window < self.target {
            ((self.target - window) / 2.0).clamp(self.least_step, self.largest_step)
        } else {
            self.probing_step
        }
    }
}

impl FromOptions for LossBased<Bic> {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let largest = options.number("smax", 32.0, 1.0, 1_000.0)?;
        let least = options.number("smin", 0.01, 0.000_1, 1.0)?;
        let decrease = options.number("b", 0.125, 0.01, 0.8)?;
        Ok(Self::new(START_WINDOW, Bic::new(largest, least, decrease)))
    }
}

impl Response for Bic {
    fn grow(&mut self, step: &Step<'_>) -> f64 {
        let is_searching = step.window < self.target;
        let grown = step.widened_by(self.increase(step.window));
        self.probed += if is_searching { 0.0 } else { step.packets };
        // A whole round trip, counted from the start of probing and not from the transport's count.
        if self.probed >= step.round {
            self.probed = 0.0;
            self.probing_step = (self.probing_step * 2.0).min(self.largest_step);
        }
        if is_searching { grown.min(self.target) } else { grown }
    }

    fn cut(&mut self, window: f64, _: &Environment<'_>) -> f64 {
        (self.probing_step, self.probed) = (1.0, 0.0);
        if window < LOW_WINDOW {
            self.target = window;
            return halved(window);
        }
        // A flow that loses before it reaches the old window makes room for others.
        let is_less = window < self.target;
        self.target = if is_less { window * (2.0 - self.decrease) / 2.0 } else { window };
        window * (1.0 - self.decrease)
    }

    fn resize(&mut self, resized: &Resized) {
        self.target *= resized.factor();
        self.probed *= resized.factor();
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("target_packets", self.target);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::harness::Stage;
    use crate::loss_based::LastCut;

    /// A control that was cut at a window, and its environment.
    fn cut_at(window: f64) -> (LossBased<Bic>, Stage) {
        let mut stage = Stage::new(1, Duration::from_millis(100));
        let mut control = LossBased::new(window, Bic::new(32.0, 0.01, 0.125));
        stage.lose(&mut control);
        // The round trip of packets sent before is over.
        control.last_cut = LastCut::default();
        (control, stage)
    }

    /// Acknowledges a window, a packet at a time.
    fn round(control: &mut LossBased<Bic>, stage: &mut Stage) {
        for _ in 0..control.window.packets.round() as u32 {
            stage.ack(control, 1);
        }
    }

    #[test]
    fn far_away_it_takes_the_largest_step_and_near_by_half_of_what_is_left() {
        let (mut control, mut stage) = cut_at(1_000.0);
        assert_eq!((control.window.packets, control.response.target), (875.0, 1_000.0));
        round(&mut control, &mut stage);
        assert!((control.window.packets - 907.0).abs() < 1.0, "{}", control.window.packets);
        for _ in 0..2 {
            round(&mut control, &mut stage);
        }
        let left = 1_000.0 - control.window.packets;
        round(&mut control, &mut stage);
        // After many small steps of a half in total, e^-0.5 of the distance is left.
        assert!(
            ((1_000.0 - control.window.packets) / left - 0.607).abs() < 0.02,
            "{left} {}",
            control.window.packets
        );
    }

    #[test]
    fn beyond_the_target_its_steps_double_up_to_the_largest() {
        let (mut control, mut stage) = cut_at(1_000.0);
        control.window.packets = 1_000.0;
        for step in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 32.0] {
            let before = control.window.packets;
            round(&mut control, &mut stage);
            assert!(
                (control.window.packets - before - step).abs() < 0.1 * step + 0.1,
                "{} after {before}",
                control.window.packets
            );
        }
    }

    #[test]
    fn who_has_less_than_before_makes_room_and_small_windows_are_renos() {
        let (mut control, mut stage) = cut_at(1_000.0);
        stage.lose(&mut control);
        assert_eq!((control.window.packets, control.response.target), (765.625, 820.3125));
        let (mut control, mut stage) = cut_at(12.0);
        assert_eq!((control.window.packets, control.response.target), (6.0, 12.0));
        round(&mut control, &mut stage);
        assert!((control.window.packets - 7.0).abs() < 0.1, "{}", control.window.packets);
    }
}
