//! The only time limit of tests: waiting ends with what is waited for, or with the test.
//!
//! A test never asserts how long something takes on a busy machine. It waits, and fails if the watchdog ends the wait.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Longest wait of a test for something that must happen: a test that reaches it has failed, under any load.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// First and longest pause between two looks at a condition that has no descriptor to wait for.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// A wait that is over within [`WATCHDOG`], for loops with work of their own.
#[derive(Clone, Debug)]
pub struct Watchdog {
    what: String,
    deadline: Instant,
}

impl Watchdog {
    /// Begins a wait for `what`, which completes the sentence "still waiting for …".
    #[must_use]
    pub fn new(what: impl Display) -> Self {
        Self { what: what.to_string(), deadline: Instant::now() + WATCHDOG }
    }

    /// Checks that the wait may continue, and returns for how long.
    ///
    /// # Panics
    /// If it has reached the limit.
    pub fn check(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "still waiting for {} after {WATCHDOG:?}", self.what);
        left
    }
}

/// Waits until `look` returns a value, and returns it.
///
/// # Panics
/// If it returns none within [`WATCHDOG`].
pub fn wait_until<T>(what: impl Display, mut look: impl FnMut() -> Option<T>) -> T {
    let (watchdog, [mut pause, longest]) = (Watchdog::new(what), PAUSES);
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(pause.min(watchdog.check()));
        pause = longest.min(2 * pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_first_value() {
        let mut looks = 0..;
        assert_eq!(wait_until("three looks", || looks.next().filter(|look| *look == 2)), 2);
        assert_eq!(looks.next(), Some(3));
    }

    #[test]
    #[should_panic(expected = "still waiting for a bus after 120s")]
    fn a_wait_beyond_the_limit_says_what_it_was_for() {
        Watchdog { deadline: Instant::now(), ..Watchdog::new("a bus") }.check();
    }
}
