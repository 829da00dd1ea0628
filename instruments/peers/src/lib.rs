//! Common parts of benchmarks: rows of medians and spread, printed for people or, with `--json`, one object per
//! line; and, for network measurements, places with processes on two sides and a way to end them.

#[cfg(feature = "network")]
pub mod interrupt;
#[cfg(feature = "network")]
pub mod place;
#[cfg(feature = "network")]
pub mod process;

use std::fmt::Write as _;

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Prints the rows of one benchmark.
pub struct Report {
    bench: &'static str,
    json: bool,
}

/// One metric of one case, over repeated runs.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Measured case, such as `loopback/1472B`.
    pub case: &'a str,
    /// `tallycast`, `limit`, or a peer's name.
    pub system: &'a str,
    /// Metric, such as `datagrams`.
    pub metric: &'a str,
    /// Unit, such as `1/s`.
    pub unit: &'a str,
    /// One value per run.
    pub runs: &'a [f64],
}

impl Report {
    /// Creates a report that follows the command line: `--json` prints objects.
    #[must_use]
    pub fn from_arguments(bench: &'static str) -> Self {
        Self { bench, json: std::env::args().any(|argument| argument == "--json") }
    }

    /// Prints a note on the figures; on standard error if programs read the rows.
    pub fn note(&self, text: &str) {
        if self.json {
            eprintln!("{}: {text}", self.bench);
        } else {
            println!("{text}");
        }
    }

    /// Prints one row.
    ///
    /// # Panics
    /// If it has no runs.
    pub fn row(&self, row: &Row<'_>) {
        let mut sorted = row.runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        let median = median(&sorted);
        if self.json {
            let object = json!({
                "bench": self.bench, "case": row.case, "system": row.system, "metric": row.metric,
                "unit": row.unit, "median": median, "min": min, "max": max, "runs": sorted.len(),
            });
            println!("{object}");
            return;
        }
        let mut line = format!("{:<30} {:<12} {:<24}", row.case, row.system, row.metric);
        let spread = format!("({} – {}, {} runs)", row.shown(min), row.shown(max), sorted.len());
        let space = if row.unit.starts_with('/') { "" } else { " " };
        let _ = write!(line, " {:>12}  {spread}", format!("{}{space}{}", row.shown(median), row.unit));
        println!("{line}");
    }
}

impl Row<'_> {
    /// Formats a value with three digits; only rates become so large that they need a prefix.
    fn shown(&self, value: f64) -> String {
        if self.unit.starts_with('/') { short(value) } else { three_digits(value) }
    }
}

/// Returns the median of sorted values.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

/// Formats a number with three digits and an SI prefix.
fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, " G"),
        large if large >= 1e6 => (value / 1e6, " M"),
        large if large >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{prefix}", three_digits(scaled))
}

fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 100.0 => 0,
        large if large >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Returns the quantile of sorted values at a share.
///
/// # Panics
/// If there are no values.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index"
)]
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    sorted[((last as f64) * share).round() as usize]
}

/// Scope of a processor time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// All threads of this process.
    Process,
    /// This thread alone.
    Thread,
}

/// Returns the processor time used so far, including system time. Units: seconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of some minutes")]
pub fn cpu_seconds(whose: Whose) -> f64 {
    let clock = match whose {
        Whose::Process => ClockId::ProcessCPUTime,
        Whose::Thread => ClockId::ThreadCPUTime,
    };
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_middle_ones() {
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(1_234_567.0), "1.23 M");
        assert_eq!(short(12.34), "12.3");
        assert_eq!(short(999.0), "999");
    }
}
