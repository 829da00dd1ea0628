//! What became of the cycles of one app.

use crate::{Histogram, InputCounters, TimerRule};

/// The counters of one cyclic app.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AppCounters {
    /// Cycles that ran.
    pub cycles: u64,
    /// Cycles that ended after the next one was due.
    pub overruns: u64,
    /// Cycles that were left out because their time had passed.
    pub skipped: u64,
    /// How long after its due time each cycle began.
    pub lateness: Histogram,
    /// How long each cycle ran.
    pub run_time: Histogram,
    /// Dominion's timer rule.
    pub timer: TimerRule,
    /// The counters of its inputs, in their order.
    pub inputs: Vec<InputCounters>,
}
