//! The highest rate at which nothing is lost, repeatably: what is looked for, and what was found.

use serde::{Deserialize, Serialize};
use units::text;

use super::options::{Options, OptionsError, Protocol, Rate};
use super::report::Settings;
use crate::range::in_range;
use crate::report::Row;
use crate::without_effect::WithoutEffect;

/// How finely a search looks unless told otherwise, as a part of its limit.
const USUAL_PARTS: u64 = 100;

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossFree {
    /// The highest rate to try. Units: payload bits a second of each flow.
    pub limit: u64,
    /// How close a search comes. Units: as `limit`.
    pub step: u64,
    /// Up to which part of the datagrams may be lost, in millionths.
    pub most_lost_ppm: u32,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossFreeFound {
    /// What the search ended with.
    pub found: Found,
    /// Payload bits a second of each flow; 0 if no rate held.
    pub bits_per_second: u64,
    /// The highest rate that was to be tried.
    pub limit: u64,
    /// How close the search came.
    pub step: u64,
    /// In how many runs, of as many, nothing was lost at that rate.
    pub confirmations: u32,
}

/// What a search ended with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// No rate held repeatedly.
    Nothing,
    /// The highest that did.
    Largest,
    /// The limit held: more might.
    Limit,
}

impl LossFree {
    /// Returns the search that options ask for, with steps of so many bits a second.
    ///
    /// # Errors
    /// [`OptionsError::NoLimit`] if they name no rate to begin from.
    pub fn of(options: &Options, step: Option<u64>) -> Result<Self, OptionsError> {
        match options.rate {
            Some(Rate::Bits(limit @ 1..)) => Ok(Self {
                limit,
                step: step.unwrap_or_else(|| limit.div_ceil(USUAL_PARTS)),
                most_lost_ppm: 0,
            }),
            _ => Err(OptionsError::NoLimit),
        }
    }

    pub(crate) fn check(&self, options: &Options) -> Result<(), OptionsError> {
        in_range("--step in bits a second", self.step.into(), 1..=self.limit.into())?;
        if options.protocol == Protocol::Tcp {
            let (option, when) = ("--loss-free", "with TCP, which sends again what is lost");
            return Err(WithoutEffect { option, when, remedy: "add -u" }.into());
        }
        Ok(())
    }
}

impl LossFreeFound {
    pub(super) const fn of(found: probe::Found, search: &LossFree, confirmations: u32) -> Self {
        let word = match found {
            probe::Found::Nothing => Found::Nothing,
            probe::Found::Largest(_) => Found::Largest,
            probe::Found::Limit(_) => Found::Limit,
        };
        let LossFree { limit, step, .. } = *search;
        Self { found: word, bits_per_second: found.size(), limit, step, confirmations }
    }

    /// Says what was found.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn in_words(&self) -> String {
        let rate = |bits: u64| text::rate(bits as f64);
        let (found, step, runs) = (rate(self.bits_per_second), rate(self.step), self.confirmations);
        match self.found {
            Found::Nothing => format!("no rate down to {step} held without loss in {runs} runs of {runs}"),
            Found::Largest => {
                format!("highest rate without loss: {found} each, in {runs} runs of {runs}, to within {step}")
            }
            Found::Limit => {
                format!("the limit of the search, {found} each, held in {runs} runs of {runs}: raise -b")
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    pub(super) fn row(&self, settings: &Settings) -> Option<Row> {
        let rate = self.bits_per_second as f64;
        (self.found != Found::Nothing).then(|| Row {
            bench: "throughput".to_owned(),
            case: settings.case("loss_free"),
            system: settings.system(),
            metric: "bits_per_second".to_owned(),
            unit: "bit/s".to_owned(),
            median: rate,
            min: rate,
            max: rate,
            runs: self.confirmations.into(),
        })
    }
}
