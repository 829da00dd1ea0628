//! The highest rate at which nothing is lost, repeatably: parameters and result of the search.

use probe::Resolution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::text;

use super::options::{Options, Protocol, Rate};
use super::report::Settings;
use crate::options::{OptionsError, check_effects, in_range};
use crate::report::{Names, Row};

/// Default resolution of a search, as a part of the rate found.
const USUAL_PARTS: u64 = 100;
/// Part of the limit below which a search by default gives up.
const LEAST_PARTS: u64 = 10_000;

/// Parameters of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossFree {
    /// The highest rate to try. Units: payload bits per second of each flow.
    pub limit: u64,
    /// Resolution of the search. Units: as `limit`.
    pub resolution: Resolution,
    /// Maximum lost part of the datagrams, in millionths.
    pub most_lost_ppm: u32,
}

/// Result of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossFreeFound {
    /// Outcome of the search.
    pub found: Found,
    /// Payload bits per second of each flow; 0 if no rate held.
    pub bits_per_second: u64,
    /// The highest rate to try.
    pub limit: u64,
    /// Resolution of the search at that rate.
    pub step: u64,
    /// Number of runs at that rate, all of them without loss.
    #[schemars(range(min = 1))]
    pub confirmations: u32,
}

/// Outcome of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// No rate held in all of its runs.
    Nothing,
    /// The highest rate that held was found.
    Largest,
    /// The limit held: a higher rate might hold, too.
    Limit,
}

impl LossFree {
    /// Returns the search for the given options, with a resolution of `step` bits per second; by default of a hundredth
    /// of the rate found.
    ///
    /// # Errors
    /// [`OptionsError::NoLimit`] if they have no rate to begin from.
    pub fn of(options: &Options, step: Option<u64>) -> Result<Self, OptionsError> {
        match options.rate {
            Some(Rate::Bits(limit @ 1..)) => Ok(Self {
                limit,
                resolution: step.map_or_else(
                    || Resolution::Part { parts: USUAL_PARTS, least: limit.div_ceil(LEAST_PARTS) },
                    Resolution::Step,
                ),
                most_lost_ppm: 0,
            }),
            _ => Err(OptionsError::NoLimit),
        }
    }

    pub(crate) fn check(&self, options: &Options) -> Result<(), OptionsError> {
        in_range("--step in bits a second", self.resolution.at(0), 1..=self.limit.into())?;
        let (is_tcp, when) = (options.protocol == Protocol::Tcp, "with TCP, which sends again what is lost");
        check_effects(&[(is_tcp, "--loss-free", when, "add -u")])
    }
}

impl LossFreeFound {
    pub(super) fn of(found: probe::Found, search: &LossFree, confirmations: u32) -> Self {
        let word = match found {
            probe::Found::Nothing => Found::Nothing,
            probe::Found::Largest(_) => Found::Largest,
            probe::Found::Limit(_) => Found::Limit,
        };
        let (limit, step) = (search.limit, search.resolution.at(found.size()));
        Self { found: word, bits_per_second: found.size(), limit, step, confirmations }
    }

    /// Describes the result.
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
        let (case, system) = (&*settings.case("loss_free"), &*settings.system());
        let names = Names { bench: "throughput", case, system };
        let confirmed = vec![self.bits_per_second as f64; self.confirmations as usize];
        Row::of(names, "bits_per_second", "bit/s", &confirmed).filter(|_| self.found != Found::Nothing)
    }
}
