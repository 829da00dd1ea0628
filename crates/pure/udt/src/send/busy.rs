//! Busy time of a connection: the time during which packets were unanswered.

use core::time::Duration;

use units::Instant;

/// Adds up busy times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    so_far: Duration,
    /// Start of the present busy time, and its latest record.
    since: Option<(Instant, Instant)>,
}

impl Busy {
    /// Records whether packets are unanswered now.
    pub(crate) fn note(&mut self, now: Instant, is_unanswered: bool) {
        let since = self.since.map_or(now, |(since, _)| since);
        if is_unanswered {
            self.since = Some((since, now));
        } else {
            self.so_far += now.since(since);
            self.since = None;
        }
    }

    /// Returns the busy time up to the latest record.
    pub(crate) fn time(&self) -> Duration {
        self.so_far + self.since.map_or(Duration::ZERO, |(since, seen)| seen.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_something_is_unanswered_is_counted() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut busy = Busy::default();
        busy.note(at(5), false);
        assert_eq!(busy.time(), Duration::ZERO);
        busy.note(at(10), true);
        busy.note(at(17), true);
        assert_eq!(busy.time(), Duration::from_millis(7));
        busy.note(at(20), false);
        busy.note(at(90), false);
        assert_eq!(busy.time(), Duration::from_millis(10));
        busy.note(at(100), true);
        busy.note(at(101), false);
        assert_eq!(busy.time(), Duration::from_millis(11));
    }
}
