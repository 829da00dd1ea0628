//! Judge of a run.

use serde::{Deserialize, Serialize};

use super::account::Account;

/// One million, the denominator of parts per million.
const MILLION: u64 = 1_000_000;

/// Limits a run must keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Callbacks of both sides that may come after their deadline.
    ///
    /// Source: Scollo, algorithm 3 and §2.5: none.
    pub late_allowed: u64,
    /// Share of the cycles that must arrive complete, rounded down to whole cycles. Units: parts per million.
    ///
    /// Source: Scollo, §2.5: 99.95 %.
    pub complete_ppm: u32,
}

/// Verdict on a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within both limits.
    Good,
    /// Too many late callbacks.
    Late,
    /// Too few complete cycles.
    Incomplete,
    /// Both too many late callbacks and too few complete cycles.
    LateAndIncomplete,
    /// The run was ended from outside before it was decided.
    Undecided,
}

impl Limits {
    /// Limits of Scollo.
    pub const SCOLLO: Self = Self { late_allowed: 0, complete_ppm: 999_500 };

    /// Returns how many of `cycles` must be complete.
    #[must_use]
    pub fn complete_needed(&self, cycles: u32) -> u64 {
        u64::from(cycles) * u64::from(self.complete_ppm).min(MILLION) / MILLION
    }

    /// Returns how many of `cycles` may be lost.
    #[must_use]
    pub fn lost_allowed(&self, cycles: u32) -> u64 {
        u64::from(cycles) - self.complete_needed(cycles)
    }

    /// Judges a run. Cycles that were not sent, because the run ended early, count as complete.
    #[must_use]
    pub fn judge(&self, account: &Account) -> Verdict {
        let cycles = &account.cycles;
        let planned = u32::try_from(cycles.planned).unwrap_or(u32::MAX);
        let unsent = cycles.planned.saturating_sub(cycles.sent);
        let late = account.callbacks.late() > self.late_allowed;
        let incomplete = cycles.complete + unsent < self.complete_needed(planned);
        match (late, incomplete) {
            (true, true) => Verdict::LateAndIncomplete,
            (true, false) => Verdict::Late,
            (false, true) => Verdict::Incomplete,
            (false, false) if unsent > 0 => Verdict::Undecided,
            (false, false) => Verdict::Good,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::SCOLLO
    }
}

impl Verdict {
    /// Returns the verdict's name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Late => "late",
            Self::Incomplete => "incomplete",
            Self::LateAndIncomplete => "late_and_incomplete",
            Self::Undecided => "undecided",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Callback, Callbacks, Cycles};

    /// A run of a thousand cycles.
    fn run(sent: u64, complete: u64, (writer_late, reader_late): (u64, u64)) -> Account {
        let callback = |count, late| Callback { count, late, least_slack_ns: None };
        Account {
            cycles: Cycles { planned: 1_000, sent, complete, incomplete: 0, missing: sent - complete },
            callbacks: Callbacks {
                writer: callback(sent, writer_late),
                reader: callback(complete, reader_late),
            },
            ..Account::default()
        }
    }

    #[test]
    fn both_sides_of_the_completeness_limit() {
        let limits = Limits::SCOLLO;
        assert_eq!(limits.complete_needed(1_000), 999, "floor(0.9995 · 1000)");
        assert_eq!(limits.judge(&run(1_000, 999, (0, 0))), Verdict::Good);
        assert_eq!(limits.judge(&run(1_000, 998, (0, 0))), Verdict::Incomplete);
        let all = Limits { complete_ppm: 1_000_000, ..limits };
        assert_eq!(all.judge(&run(1_000, 1_000, (0, 0))), Verdict::Good);
        assert_eq!(all.judge(&run(1_000, 999, (0, 0))), Verdict::Incomplete);
    }

    #[test]
    fn both_sides_of_the_lateness_limit_on_either_side() {
        for (allowed, good, bad) in [(0, (0, 0), (0, 1)), (0, (0, 0), (1, 0)), (2, (1, 1), (1, 2))] {
            let limits = Limits { late_allowed: allowed, ..Limits::SCOLLO };
            assert_eq!(limits.judge(&run(1_000, 1_000, good)), Verdict::Good);
            assert_eq!(limits.judge(&run(1_000, 1_000, bad)), Verdict::Late);
        }
        assert_eq!(Limits::SCOLLO.judge(&run(1_000, 0, (1, 0))), Verdict::LateAndIncomplete);
    }

    #[test]
    fn whole_numbers_of_cycles_are_not_lost_to_rounding() {
        let needed = |cycles| Limits::SCOLLO.complete_needed(cycles);
        assert_eq!(
            [needed(1), needed(100), needed(1_999), needed(2_000), needed(10_000)],
            [0, 99, 1_998, 1_999, 9_995]
        );
        assert_eq!(Limits::SCOLLO.lost_allowed(u32::MAX), 2_147_484);
    }

    #[test]
    fn a_run_that_was_ended_early_is_never_good() {
        let limits = Limits::SCOLLO;
        assert_eq!(limits.judge(&run(999, 999, (0, 0))), Verdict::Undecided);
        assert_eq!(limits.judge(&run(10, 8, (0, 0))), Verdict::Incomplete);
        assert_eq!(limits.judge(&run(10, 9, (0, 0))), Verdict::Undecided);
        assert_eq!(limits.judge(&run(10, 10, (0, 1))), Verdict::Late);
    }
}
