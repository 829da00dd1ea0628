//! Percentiles of times in a report.

use probe::Percentiles;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::{Columns, decimals};

/// Times of many events. Units: microseconds.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Number of events.
    pub count: u64,
    /// The minimum.
    pub min_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
}

impl Times {
    /// Returns the times unchanged.
    pub(crate) fn of(it: &Percentiles) -> Self {
        Self::scaled(it, 1_000.0)
    }

    /// Returns half of each time.
    pub(crate) fn of_halves(it: &Percentiles) -> Self {
        Self::scaled(it, 2_000.0)
    }

    #[expect(clippy::cast_precision_loss, reason = "times of a measurement are far below 2^53 ns")]
    fn scaled(it: &Percentiles, divisor: f64) -> Self {
        let scaled = |nanos: u64| nanos as f64 / divisor;
        Self {
            count: it.count,
            min_us: scaled(it.min_ns),
            p50_us: scaled(it.p50_ns),
            p90_us: scaled(it.p90_ns),
            p99_us: scaled(it.p99_ns),
            p999_us: scaled(it.p999_ns),
            max_us: scaled(it.max_ns),
            mean_us: it.mean_ns / divisor,
        }
    }
}

impl<R> Columns<R> {
    /// Adds a column for each figure of times.
    pub(crate) fn times(self, of: impl Fn(&R) -> Option<Times> + Copy + 'static) -> Self {
        self.shared("least", "min_us", decimals::<1>, move |row| Some(of(row)?.min_us))
            .shared("p50", "p50_us", decimals::<1>, move |row| Some(of(row)?.p50_us))
            .csv("p90_us", move |row| Some(of(row)?.p90_us))
            .shared("p99", "p99_us", decimals::<1>, move |row| Some(of(row)?.p99_us))
            .shared("p99.9", "p999_us", decimals::<1>, move |row| Some(of(row)?.p999_us))
            .shared("most", "max_us", decimals::<1>, move |row| Some(of(row)?.max_us))
            .csv("mean_us", move |row| Some(of(row)?.mean_us))
    }
}
