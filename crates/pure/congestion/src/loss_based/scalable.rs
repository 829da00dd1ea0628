//! Scalable TCP: a hundredth of a packet for each one acknowledged, an eighth of the window at a loss.
//!
//! Source: Kelly, "Scalable TCP: improving performance in highspeed wide area networks", CCR 2003.

use super::{LossBased, Response, Step};
use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW};
use crate::{Environment, OptionError, Options};

/// Scalable TCP: `w + a` for each acknowledged packet, `w·(1 − b)` after a loss. It recovers from a loss in 13.4 round
/// trips regardless of the window; two flows of it keep their initial shares, so it is for paths that are shared with
/// few.
#[derive(Clone, Debug)]
pub(crate) struct Scalable {
    increase: f64,
    decrease: f64,
}

/// Window below which it behaves like Reno.
const LEGACY_WINDOW: f64 = 16.0;

impl FromOptions for LossBased<Scalable> {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let increase = options.number("a", 0.01, 0.000_1, 1.0)?;
        let decrease = options.number("b", 0.125, 0.01, 0.9)?;
        Ok(Self::new(START_WINDOW, Scalable { increase, decrease }))
    }
}

impl Response for Scalable {
    fn grow(&mut self, step: &Step<'_>) -> f64 {
        let each = if step.window < LEGACY_WINDOW { 1.0 / step.window } else { self.increase };
        step.window + step.packets * each
    }

    fn cut(&mut self, window: f64, _: &Environment<'_>) -> f64 {
        let part = if window < LEGACY_WINDOW { 0.5 } else { self.decrease };
        (window * (1.0 - part)).max(LEAST_WINDOW)
    }
}
