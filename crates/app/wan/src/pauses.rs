//! Pauses between attempts to connect.

use std::time::Duration;

/// First pause.
const FIRST: Duration = Duration::from_millis(250);
/// Longest pause: a link is back within seconds after its path.
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double from a quarter of a second to five seconds, for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(crate) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// Returns the pause after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_seconds_and_never_end() {
        let mut pauses = Pauses::new();
        let taken: Vec<u128> = (0..7).map(|_| pauses.next().as_millis()).collect();
        assert_eq!(taken, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    }
}
