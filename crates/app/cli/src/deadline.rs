//! Time at which something ends, if limited.

use std::time::{Duration, Instant};

/// Time at which something ends, if limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Begins to count now; `None` never ends.
    pub(crate) fn after(duration: Option<Duration>) -> Self {
        Self(duration.and_then(|duration| Instant::now().checked_add(duration)))
    }

    /// Returns the remaining time, at most `most`; zero once it has passed.
    pub(crate) fn left(self, most: Duration) -> Duration {
        self.0.map_or(most, |end| end.saturating_duration_since(Instant::now()).min(most))
    }

    /// Returns whether the time has passed.
    pub(crate) fn is_over(self) -> bool {
        self.left(Duration::MAX).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_without_duration_is_never_over() {
        assert!(!Deadline::after(None).is_over());
        assert!(Deadline::after(Some(Duration::ZERO)).is_over());
    }
}
