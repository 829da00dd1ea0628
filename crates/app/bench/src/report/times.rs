//! Many times in a report.

use probe::Percentiles;
use serde::{Deserialize, Serialize};

/// Times of many events. Units: microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// How many there are.
    pub count: u64,
    /// The shortest.
    pub min_us: f64,
    /// Half are no longer.
    pub p50_us: f64,
    /// 9 of 10 are no longer.
    pub p90_us: f64,
    /// 99 of 100 are no longer.
    pub p99_us: f64,
    /// 999 of 1,000 are no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
}

impl Times {
    /// Returns times as they are.
    pub(crate) fn of(it: &Percentiles) -> Self {
        Self::scaled(it, 1_000.0)
    }

    /// Returns half of every time.
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
