//! Counters of the cycles of one app.

use units::Histogram;

use crate::{InputCounters, TimerRule};

/// The counters of one cyclic app.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AppCounters {
    /// Cycles that ran.
    pub cycles: u64,
    /// Cycles that ended after the next one was due.
    pub overruns: u64,
    /// Cycles that were skipped because their time had passed.
    pub skipped: u64,
    /// Delay of each cycle's begin after its due time.
    pub lateness: Histogram,
    /// Run time of each cycle.
    pub run_time: Histogram,
    /// Dominion's timer rule.
    pub timer: TimerRule,
    /// Counters of its inputs, in the app's order.
    pub inputs: Vec<InputCounters>,
}
