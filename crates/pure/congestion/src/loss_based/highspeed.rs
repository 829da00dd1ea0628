//! HighSpeed TCP: the wider the window, the larger its steps and the smaller its cuts.
//!
//! Source: RFC 3649, sections 5 and 6, with the formulas and not the table that they were rounded to.

use super::{LossBased, Response, Step};
use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW};
use crate::{Environment, OptionError, Options};

/// HighSpeed TCP: `w + a(w)/w` for each acknowledged packet, `w·(1 − b(w))` after a loss. Up to 38 packets it is Reno.
#[derive(Clone, Debug)]
pub(crate) struct HighSpeed;

const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

impl FromOptions for LossBased<HighSpeed> {
    fn from_options(_: &mut Options) -> Result<Self, OptionError> {
        Ok(Self::new(START_WINDOW, HighSpeed))
    }
}

impl Response for HighSpeed {
    fn grow(&mut self, step: &Step<'_>) -> f64 {
        step.widened_by(increase(step.window))
    }

    fn cut(&mut self, window: f64, _: &Environment<'_>) -> f64 {
        (window * (1.0 - decrease(window))).max(LEAST_WINDOW)
    }
}

/// Returns the fraction of a window that a loss removes: `b(w)`.
fn decrease(window: f64) -> f64 {
    let part = (window / LOW_WINDOW).ln() / (HIGH_WINDOW / LOW_WINDOW).ln();
    0.5 - (0.5 - HIGH_DECREASE) * part.clamp(0.0, 1.0)
}

/// Returns the growth of a window in a round trip, in packets: `a(w)`.
fn increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let probability = 0.078 / window.powf(1.2);
    let b = decrease(window);
    window * window * probability * 2.0 * b / (2.0 - b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_cuts_are_those_of_the_rfc() {
        // RFC 3649, appendix B.
        for (window, a, b) in [
            (38.0, 1.0, 0.50),
            (118.0, 2.0, 0.44),
            (221.0, 3.0, 0.41),
            (347.0, 4.0, 0.38),
            (1_058.0, 8.0, 0.33),
            (10_181.0, 29.3, 0.21),
            (83_000.0, 70.7, 0.10),
        ] {
            assert!((increase(window) / a - 1.0).abs() < 0.03, "{window}: {}", increase(window));
            assert!((decrease(window) - b).abs() < 0.006, "{window}: {}", decrease(window));
        }
    }
}
