//! Search for the largest size that still holds.
//!
//! Each question is a whole run, so questions are few: as many as the limit has binary digits. A search does not
//! ask twice to average out noise: a repeat is one whole search, and repeats show the spread.

/// Result of a run at the size that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The size holds.
    Good,
    /// The size does not hold.
    Bad,
}

/// Next step of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Try this size.
    Try(u64),
    /// The search is over.
    Done(Found),
}

/// Result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Not even the smallest size that was tried held.
    Nothing,
    /// The largest size that held; one larger by the step did not.
    Largest(u64),
    /// The limit itself held; larger sizes are unknown.
    Limit(u64),
}

/// A search by halving between a size that holds and one that does not.
///
/// Source: Scollo, §2.5: the first try is half the limit, each step half the one before, until it is
/// 2. Where nothing has failed the limit itself is tried last, which Scollo leaves out: there the greatest
/// possible answer is just below the limit.
///
/// ```
/// use probe::{Answer, Bisection, Found, Next};
///
/// let mut search = Bisection::new(1_000, 2);
/// let found = loop {
///     match search.next() {
///         Next::Try(size) => search.tell(if size <= 300 { Answer::Good } else { Answer::Bad }),
///         Next::Done(found) => break found,
///     }
/// };
/// assert_eq!(found, Found::Largest(300));
/// ```
#[derive(Clone, Debug)]
pub struct Bisection {
    limit: u64,
    step: u64,
    /// The largest size that held; zero, which always does, at first.
    good: u64,
    /// The smallest size that did not hold, if any.
    bad: Option<u64>,
}

impl Bisection {
    /// Begins a search up to `limit` that ends when the largest good and the smallest bad size are at most `step`
    /// apart.
    ///
    /// # Panics
    /// If either is zero.
    #[must_use]
    pub fn new(limit: u64, step: u64) -> Self {
        assert!(limit > 0 && step > 0, "a search needs a limit and a step above zero");
        Self { limit, step, good: 0, bad: None }
    }

    /// Returns the next step; the same until an answer is given.
    #[must_use]
    pub const fn next(&self) -> Next {
        let above = match self.bad {
            Some(bad) => bad,
            None => self.limit,
        };
        let apart = above - self.good;
        if apart > self.step {
            return Next::Try(self.good + apart / 2);
        }
        match (self.bad, self.good) {
            (None, _) if apart > 0 => Next::Try(self.limit),
            (None, limit) => Next::Done(Found::Limit(limit)),
            (Some(_), 0) => Next::Done(Found::Nothing),
            (Some(_), good) => Next::Done(Found::Largest(good)),
        }
    }

    /// Takes the answer to what [`next`](Self::next) asked for; ignored once the search is over.
    pub const fn tell(&mut self, answer: Answer) {
        if let Next::Try(size) = self.next() {
            match answer {
                Answer::Good => self.good = size,
                Answer::Bad => self.bad = Some(size),
            }
        }
    }

    /// Returns the maximum number of tries of a search.
    #[must_use]
    pub const fn tries_at_most(&self) -> u32 {
        // One for each halving down to the step, of which the larger half may remain, and one for the limit itself.
        self.limit.div_ceil(self.step).ilog2() + 2
    }
}

impl Found {
    /// Returns the size; zero if nothing held.
    #[must_use]
    pub const fn size(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Largest(size) | Self::Limit(size) => size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches with a judge, and returns what was found and what was tried.
    fn search(limit: u64, step: u64, mut holds: impl FnMut(u64) -> bool) -> (Found, Vec<u64>) {
        let mut search = Bisection::new(limit, step);
        let mut tried = Vec::new();
        loop {
            match search.next() {
                Next::Done(found) => return (found, tried),
                Next::Try(size) => {
                    tried.push(size);
                    assert!(tried.len() <= search.tries_at_most() as usize, "{tried:?}");
                    search.tell(if holds(size) { Answer::Good } else { Answer::Bad });
                }
            }
        }
    }

    #[test]
    fn the_first_tries_are_the_sources() {
        let (found, tried) = search(1_000_000, 2, |size| size <= 200_000);
        assert_eq!(tried[..4], [500_000, 250_000, 125_000, 187_500]);
        assert!((199_998..=200_000).contains(&found.size()), "{found:?}");
    }

    #[test]
    fn a_search_without_a_failure_ends_at_the_limit_itself() {
        let (found, tried) = search(1_000_000, 2, |_| true);
        assert_eq!((found, tried.last()), (Found::Limit(1_000_000), Some(&1_000_000)));
    }

    #[test]
    fn the_limit_may_fail_as_the_last_try() {
        assert_eq!(search(1_000_000, 2, |size| size < 1_000_000).0, Found::Largest(999_998));
    }

    #[test]
    fn a_search_without_success_finds_nothing() {
        let (found, tried) = search(1_000, 2, |_| false);
        assert_eq!((found, found.size(), tried.last()), (Found::Nothing, 0, Some(&1)));
    }

    #[test]
    fn the_smallest_limit_takes_one_try() {
        assert_eq!(search(1, 2, |_| true), (Found::Limit(1), vec![1]));
        assert_eq!(search(1, 2, |_| false), (Found::Nothing, vec![1]));
    }

    #[test]
    fn answers_after_the_end_change_nothing() {
        let mut done = Bisection::new(1, 2);
        done.tell(Answer::Good);
        done.tell(Answer::Bad);
        assert_eq!(done.next(), Next::Done(Found::Limit(1)));
    }

    proptest! {
        #[test]
        fn what_is_found_is_within_a_step_of_the_truth(
            limit in 1_u64..10_000_000,
            truth in 0_u64..10_000_000,
            step in 1_u64..100,
        ) {
            let (found, _) = search(limit, step, |size| size <= truth);
            let reachable = truth.min(limit);
            prop_assert!(found.size() <= reachable);
            prop_assert!(reachable - found.size() < step || reachable == 0, "{found:?} of {reachable}");
            prop_assert_eq!(matches!(found, Found::Limit(_)), truth >= limit);
        }

        #[test]
        fn noise_neither_lengthens_a_search_nor_makes_it_find_what_failed(
            limit in 1_u64..1_000_000,
            seed in any::<u64>(),
        ) {
            let mut random = units::Random::new(seed);
            let mut good = vec![0];
            let (found, _) = search(limit, 2, |size| {
                let holds = random.chance(0.5);
                if holds {
                    good.push(size);
                }
                holds
            });
            prop_assert_eq!(Some(found.size()), good.into_iter().max());
        }
    }
}
