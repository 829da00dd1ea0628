//! Liveness of a page: it is pinged, and its browser answers automatically, also while it is hidden.
//!
//! Counted in sent pings, not in time: after a pause of this process of any length, messages that arrived meanwhile
//! are read before another ping is due.

use std::time::{Duration, Instant};

/// One part of the patience passes between two pings, and the last one has as long.
const PINGS_IN_PATIENCE: u32 = 3;
/// Maximum number of unanswered pings: the next would be due after the patience.
const MOST_UNANSWERED: u32 = PINGS_IN_PATIENCE - 1;

/// Action that is due on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// A ping.
    Ping,
    /// The end: the page is gone.
    End,
}

/// The liveness state of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    period: Duration,
    next: Instant,
    unanswered: u32,
}

impl Liveness {
    /// Makes the liveness of a page that was heard now and may be silent for `patience`.
    pub(crate) fn new(patience: Duration, now: Instant) -> Self {
        let period = patience / PINGS_IN_PATIENCE;
        Self { period, next: now + period, unanswered: 0 }
    }

    /// Records that the page sent something.
    pub(crate) const fn heard(&mut self) {
        self.unanswered = 0;
    }

    /// Returns the time of the next action.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Returns the action that is due, and counts it as done. Call only after all received messages were read.
    pub(crate) fn due(&mut self, now: Instant) -> Due {
        if now < self.next {
            return Due::Nothing;
        }
        if self.unanswered >= MOST_UNANSWERED {
            return Due::End;
        }
        self.next = now + self.period;
        self.unanswered += 1;
        Due::Ping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn a_page_that_answers_no_ping_is_gone_after_the_patience() {
        let began = Instant::now();
        let mut liveness = Liveness::new(PATIENCE, began);
        let mut pings = 0;
        for ms in 0..30_000 {
            match liveness.due(began + Duration::from_millis(ms)) {
                Due::Nothing => {}
                Due::Ping => pings += 1,
                Due::End => panic!("given up after {ms} ms"),
            }
        }
        assert_eq!(pings, 2);
        assert_eq!(liveness.due(began + PATIENCE), Due::End);
    }

    #[test]
    fn a_page_that_answers_stays() {
        let began = Instant::now();
        let mut liveness = Liveness::new(PATIENCE, began);
        for second in 0..10_000 {
            let due = liveness.due(began + Duration::from_secs(second));
            assert_ne!(due, Due::End);
            if second % 20 == 19 {
                liveness.heard();
            }
        }
    }

    #[test]
    fn a_stop_of_this_process_is_not_the_pages_silence() {
        let began = Instant::now();
        let mut liveness = Liveness::new(PATIENCE, began);
        let later = began + Duration::from_secs(3_600);
        assert_eq!(liveness.due(later), Due::Ping);
        assert_eq!(liveness.due(later), Due::Nothing);
        assert_eq!(liveness.due(later + PATIENCE / 3), Due::Ping);
        assert_eq!(liveness.due(later + PATIENCE / 3 * 2), Due::End);
    }
}
