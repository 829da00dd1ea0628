//! The highest rate at which nothing is lost: bisection between a rate that held and one that did not, with each
//! answer confirmed.
//!
//! A machine that is disturbed for a millisecond loses datagrams at rates that it can sustain, so a rate fails only
//! if it failed twice, and holds only if it held twice.

use anyhow::Result;

/// Ratio of failing to holding rate at which a search ends: the figure is accurate to 5 %.
const NEAR: f64 = 1.05;
/// Minimum rate of a search, as a share of the highest.
const LOWEST: f64 = 1.0 / 512.0;
/// Ratio between the last answer and the start of the next search.
const STRIDE: f64 = 1.2;

/// Searches below `highest`; `last` is the result of the previous search. Returns the rate and the result of the
/// last run at it; `None` if no rate holds.
pub(crate) fn highest_that_holds<T>(
    highest: f64,
    last: Option<f64>,
    mut holds: impl FnMut(f64) -> Result<Option<T>>,
) -> Result<Option<(f64, T)>> {
    let mut holds_twice = |rate| -> Result<Option<T>> {
        let (mut held, mut failed) = (0, 0);
        loop {
            match holds(rate)? {
                Some(run) if held == 1 => return Ok(Some(run)),
                Some(_) => held += 1,
                None if failed == 1 => return Ok(None),
                None => failed += 1,
            }
        }
    };
    let mut rate = last.unwrap_or(highest).min(highest);
    let (mut best, mut too_high) = (None, highest * NEAR);
    loop {
        match holds_twice(rate)? {
            Some(run) => best = Some((rate, run)),
            None => too_high = rate,
        }
        let Some((held, _)) = &best else {
            // Goes down until a rate holds: by strides near the last answer, by halves otherwise.
            let lowest = highest * LOWEST;
            if rate <= lowest {
                return Ok(None);
            }
            rate = if last.is_some() { rate / STRIDE } else { rate / 2.0 }.max(lowest);
            continue;
        };
        if too_high <= held * NEAR || *held >= highest {
            return Ok(best);
        }
        let middle = (held * too_high).sqrt();
        let next = if last.is_some() { middle.min(held * STRIDE) } else { middle };
        rate = next.min(highest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches where everything up to `truth` holds; returns the answer and the number of runs.
    fn search(truth: f64, highest: f64, last: Option<f64>) -> (Option<f64>, u32) {
        let mut runs = 0;
        let found = highest_that_holds(highest, last, |rate| {
            runs += 1;
            Ok((rate <= truth).then_some(()))
        });
        (found.unwrap().map(|(rate, ())| rate), runs)
    }

    #[test]
    fn the_answer_holds_and_is_near_the_truth_wherever_the_search_begins() {
        for truth in [2_000.0, 9_999.0, 50_000.0, 500_000.0, 999_000.0] {
            for last in [None, Some(2_500.0), Some(50_000.0), Some(900_000.0)] {
                let (found, _) = search(truth, 1e6, last);
                let found = found.unwrap();
                assert!(found <= truth && truth <= found * NEAR, "{found} for {truth} from {last:?}");
            }
        }
    }

    #[test]
    fn what_holds_at_the_highest_rate_is_found_at_once() {
        assert_eq!(search(2e6, 1e6, None), (Some(1e6), 2));
    }

    #[test]
    fn a_search_near_the_last_answer_is_short() {
        let (found, runs) = search(100_000.0, 1e6, Some(98_000.0));
        assert!(found.unwrap() >= 98_000.0);
        assert!(runs <= 8, "{runs}");
    }

    #[test]
    fn where_nothing_holds_there_is_no_answer() {
        assert_eq!(search(0.0, 1e6, None).0, None);
    }

    #[test]
    fn one_disturbed_run_does_not_make_a_rate_fail() {
        let mut runs = 0;
        let found = highest_that_holds(1e6, None, |_| {
            runs += 1;
            Ok((runs != 1).then_some(()))
        });
        assert_eq!(found.unwrap(), Some((1e6, ())));
    }
}
