//! Search for the highest rate at which nothing is lost repeatedly.
//!
//! A [`Bisection`](crate::Bisection) trusts each answer. A rate to rely on must hold repeatedly: where the
//! bisection ends, further runs confirm the rate, and if one of them loses anything, the search continues below it.

use std::collections::BTreeMap;

use crate::bisection::{Answer, Found};

/// Number of failed confirmations after which the search gives up: then no rate is repeatable.
const FAILED_CONFIRMATIONS: u32 = 8;

/// Distance between the highest rate that held and the lowest that failed, at which a search ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// The same at every rate.
    Step(u64),
    /// A part of the rate that held: the figure has the same number of digits wherever it lies below the limit.
    Part {
        /// Number of such parts of the rate.
        parts: u64,
        /// Least distance: below it a search without success ends.
        least: u64,
    },
}

impl Resolution {
    /// Returns the resolution at a rate that held.
    #[must_use]
    pub fn at(self, rate: u64) -> u64 {
        match self {
            Self::Step(step) => step,
            Self::Part { parts, least } => (rate / parts).max(least),
        }
    }
}

/// Next step of a rate search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextRate {
    /// Run at this rate, to search for the limit.
    Try(u64),
    /// Run again at this rate, which held before.
    Confirm(u64),
    /// The search is over. A rate that was found held in every confirming run.
    Done(Found),
}

/// Search for the highest rate that holds in `confirmations` consecutive runs.
///
/// ```
/// use probe::{Answer, Found, NextRate, RateSearch, Resolution};
///
/// let mut search = RateSearch::new(1_000, Resolution::Step(10), 3);
/// let found = loop {
///     match search.next() {
///         NextRate::Try(rate) | NextRate::Confirm(rate) => {
///             search.tell(if rate <= 300 { Answer::Good } else { Answer::Bad });
///         }
///         NextRate::Done(found) => break found,
///     }
/// };
/// assert!((291..=300).contains(&found.size()));
/// ```
#[derive(Clone, Debug)]
pub struct RateSearch {
    limit: u64,
    resolution: Resolution,
    confirmations: u32,
    /// Number of runs each rate held in, for rates that have not failed.
    held: BTreeMap<u64, u32>,
    /// Lowest rate that failed, if any.
    failed: Option<u64>,
    failed_confirmations: u32,
}

impl RateSearch {
    /// Begins a search up to `limit` that ends when the highest good and the lowest bad rate are at most the resolution
    /// apart and the good rate held in `confirmations` runs.
    ///
    /// # Panics
    /// If any of them is zero.
    #[must_use]
    pub fn new(limit: u64, resolution: Resolution, confirmations: u32) -> Self {
        let has_parts = !matches!(resolution, Resolution::Part { parts: 0, .. });
        let is_set = limit > 0 && has_parts && confirmations > 0 && resolution.at(0) > 0;
        assert!(is_set, "a search needs a limit, a resolution and a run");
        Self {
            limit,
            resolution,
            confirmations,
            held: BTreeMap::new(),
            failed: None,
            failed_confirmations: 0,
        }
    }

    /// Returns what to run next; the same until an answer is given.
    #[must_use]
    pub fn next(&self) -> NextRate {
        if self.failed_confirmations > FAILED_CONFIRMATIONS {
            return NextRate::Done(Found::Nothing);
        }
        let (good, held) = self.held.last_key_value().map_or((0, u32::MAX), |(rate, held)| (*rate, *held));
        let above = self.failed.unwrap_or(self.limit);
        let apart = above - good;
        if apart > self.resolution.at(good) {
            return NextRate::Try(good + apart / 2);
        }
        if self.failed.is_none() && apart > 0 {
            return NextRate::Try(self.limit);
        }
        match good {
            0 => NextRate::Done(Found::Nothing),
            _ if held < self.confirmations => NextRate::Confirm(good),
            limit if self.failed.is_none() => NextRate::Done(Found::Limit(limit)),
            rate => NextRate::Done(Found::Largest(rate)),
        }
    }

    /// Takes the answer to what [`next`](Self::next) asked for; ignored once the search is over.
    pub fn tell(&mut self, answer: Answer) {
        let (rate, is_confirmation) = match self.next() {
            NextRate::Try(rate) => (rate, false),
            NextRate::Confirm(rate) => (rate, true),
            NextRate::Done(_) => return,
        };
        match answer {
            Answer::Good => *self.held.entry(rate).or_insert(0) += 1,
            Answer::Bad => {
                self.held.split_off(&rate);
                self.failed = Some(rate);
                self.failed_confirmations += u32::from(is_confirmation);
            }
        }
    }

    /// Returns the maximum number of runs of a search.
    #[must_use]
    pub fn runs_at_most(&self) -> u32 {
        let halvings = self.limit.div_ceil(self.resolution.at(0)).ilog2() + 2;
        (halvings + self.confirmations) * (FAILED_CONFIRMATIONS + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a search with a judge; returns the result and every run with its answer.
    fn search(mut search: RateSearch, mut holds: impl FnMut(u64) -> bool) -> (Found, Vec<(u64, bool)>) {
        let mut runs = Vec::new();
        loop {
            match search.next() {
                NextRate::Done(found) => return (found, runs),
                NextRate::Try(rate) | NextRate::Confirm(rate) => {
                    let held = holds(rate);
                    runs.push((rate, held));
                    assert!(runs.len() <= search.runs_at_most() as usize, "{runs:?}");
                    search.tell(if held { Answer::Good } else { Answer::Bad });
                }
            }
        }
    }

    #[test]
    fn a_rate_that_fails_its_confirmation_is_not_the_answer() {
        let mut runs_at_200 = 0;
        // 200 holds only once.
        let (found, runs) = search(RateSearch::new(400, Resolution::Step(10), 3), |rate| {
            runs_at_200 += u32::from(rate == 200);
            rate < 200 || (rate == 200 && runs_at_200 == 1)
        });
        assert!(runs.contains(&(200, true)) && runs.contains(&(200, false)), "{runs:?}");
        assert!((190..200).contains(&found.size()), "{found:?}");
        assert!(runs.iter().filter(|run| **run == (found.size(), true)).count() >= 3);
    }

    #[test]
    fn the_limit_is_confirmed_too() {
        let (found, runs) = search(RateSearch::new(1_000, Resolution::Step(100), 3), |_| true);
        assert_eq!(found, Found::Limit(1_000));
        assert_eq!(runs.iter().filter(|(rate, _)| *rate == 1_000).count(), 3);
    }

    #[test]
    fn where_nothing_holds_nothing_is_found() {
        assert_eq!(search(RateSearch::new(1_000, Resolution::Step(10), 3), |_| false).0, Found::Nothing);
        assert_eq!(search(RateSearch::new(1, Resolution::Step(1), 1), |_| true).0, Found::Limit(1));
    }

    #[test]
    fn the_resolution_is_a_part_of_the_figure_and_not_of_the_limit() {
        let part = Resolution::Part { parts: 100, least: 10 };
        // Far below the limit, of which a hundredth would be more than the figure.
        for edge in [1_777, 90_412, 919_000, 5_000_000] {
            let (found, _) = search(RateSearch::new(10_000_000, part, 3), |rate| rate <= edge);
            assert!(
                found.size() <= edge && edge - found.size() <= (edge / 100).max(10),
                "{found:?} of {edge}"
            );
        }
        let (found, runs) = search(RateSearch::new(10_000_000, part, 3), |_| false);
        assert_eq!(found, Found::Nothing);
        assert!(runs.last().unwrap().0 <= 10, "{runs:?}");
    }

    proptest! {
        #[test]
        fn a_sharp_edge_is_found_within_a_step(
            limit in 1_u64..10_000_000,
            edge in 0_u64..10_000_000,
            step in 1_u64..100_000,
            confirmations in 1_u32..5,
        ) {
            let (found, runs) = search(RateSearch::new(limit, Resolution::Step(step), confirmations), |rate| rate <= edge);
            let reachable = edge.min(limit);
            prop_assert!(found.size() <= reachable);
            prop_assert!(reachable - found.size() < step || found == Found::Nothing, "{found:?} of {reachable}");
            let confirmed = runs.iter().filter(|(rate, _)| *rate == found.size()).count();
            prop_assert!(found == Found::Nothing || confirmed >= confirmations as usize);
        }

        #[test]
        fn noise_does_not_make_it_find_what_has_failed(
            limit in 1_u64..1_000_000,
            seed in any::<u64>(),
        ) {
            let mut random = units::Random::new(seed);
            let (found, runs) = search(RateSearch::new(limit, Resolution::Step(10), 3), |_| random.chance(0.6));
            if found != Found::Nothing {
                prop_assert!(!runs.contains(&(found.size(), false)));
                prop_assert!(runs.iter().filter(|run| **run == (found.size(), true)).count() >= 3);
            }
        }
    }
}
