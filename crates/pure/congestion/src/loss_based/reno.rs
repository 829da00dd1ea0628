//! Reno, TCP's standard: one packet per round trip, halved at each congestion epoch.
//!
//! Source: RFC 5681, equations 3 and 4.

use super::{LossBased, Response, Step};
use crate::options::FromOptions;
use crate::window::{START_WINDOW, halved};
use crate::{Environment, OptionError, Options};

/// Reno: `w + 1/w` for each acknowledged packet, `w/2` after a loss.
#[derive(Clone, Debug)]
pub(crate) struct Reno;

impl FromOptions for LossBased<Reno> {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let start = options.number("start", START_WINDOW, 1.0, 1e6)?;
        Ok(Self::new(start, Reno))
    }
}

impl Response for Reno {
    fn grow(&mut self, step: &Step<'_>) -> f64 {
        step.widened_by(1.0)
    }

    fn cut(&mut self, window: f64, _: &Environment<'_>) -> f64 {
        halved(window)
    }
}
