//! Figures of one run: processor time, quantiles.

use rustix::time::{ClockId, clock_gettime};

/// Returns the quantiles of values at some shares of them.
///
/// # Panics
/// If there are no values.
#[must_use]
pub fn quantiles<const COUNT: usize>(mut values: Vec<f64>, shares: [f64; COUNT]) -> [f64; COUNT] {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    shares.map(|share| values[((last as f64) * share).round() as usize])
}

/// Returns the ratio within each run; runs in which the other system has no figure are left out.
#[must_use]
pub fn ratios(these: &[f64], those: &[f64]) -> Vec<f64> {
    let pairs = these.iter().zip(those).filter(|(_, that)| **that > 0.0);
    pairs.map(|(this, that)| this / that).collect()
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
pub fn cpu_seconds(whose: Whose) -> f64 {
    let clock = match whose {
        Whose::Process => ClockId::ProcessCPUTime,
        Whose::Thread => ClockId::ThreadCPUTime,
    };
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
