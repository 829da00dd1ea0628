//! Results in the one form that all benches share, so that a table of several needs no knowledge of any.

use serde::{Deserialize, Serialize};

/// The median of repeats.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Which bench: `cycle`, `throughput`.
    pub bench: String,
    /// What of it, such as `10ms/0.3cpu`.
    pub case: String,
    /// What was measured: a transport.
    pub system: String,
    /// What of it, such as `multiplicity` or `bits_per_second`.
    pub metric: String,
    /// Its unit, such as `elements` or `bit/s`.
    pub unit: String,
    /// Median of the repeats.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many repeats.
    pub runs: u64,
}
