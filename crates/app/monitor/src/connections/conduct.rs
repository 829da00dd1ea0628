//! State of one connection, and its deadlines: values in, values out.
//!
//! ```text
//! Greeting --the TLS handshake ended--> Waiting
//! Waiting --a request was read--> Serving --it was answered--> Waiting
//!                                 Serving --it became a page--> Live, to the end
//! ```
//!
//! A TLS handshake, where there is one, must end within the patience; nothing restarts that time. While a connection
//! waits, a whole request must arrive within the patience; every part of an answer written meanwhile restarts
//! the time, so that a slow reader of a long answer does not count as idle. Written data must be accepted within the
//! patience, and an answer as a whole within ten times that. Pages have [`Liveness`](super::Liveness) instead.

use std::time::{Duration, Instant};

use super::tally::Closed;

/// Maximum time for a whole answer, in multiples of the patience: the longest have a few megabytes and then need 10
/// kB/s.
const PATIENCE_WITH_AN_ANSWER: u32 = 10;

/// Activity of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// The TLS handshake is in progress.
    Greeting { since: Instant },
    /// Waits for a request; the answer to an earlier one may still be in progress.
    Waiting { since: Instant, begun: bool },
    /// A request is being served.
    Serving,
    /// It is a page.
    Live,
}

/// The conduct of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conduct {
    patience: Duration,
    doing: Doing,
    wrote: Instant,
    stuck_since: Option<Instant>,
}

impl Conduct {
    /// Begins with a connection that is new.
    pub(super) const fn new(patience: Duration, now: Instant) -> Self {
        Self { patience, doing: Doing::Waiting { since: now, begun: false }, wrote: now, stuck_since: None }
    }

    /// Records that it begins with a TLS handshake.
    pub(super) const fn greets(&mut self, now: Instant) {
        self.doing = Doing::Greeting { since: now };
    }

    /// Records that its TLS handshake has ended well.
    pub(super) const fn greeted(&mut self, now: Instant) {
        self.doing = Doing::Waiting { since: now, begun: false };
    }

    /// Records that a part of a request arrived.
    pub(super) const fn read(&mut self) {
        if let Doing::Waiting { begun, .. } = &mut self.doing {
            *begun = true;
        }
    }

    /// Records that the other end accepts data.
    pub(super) const fn wrote(&mut self, now: Instant) {
        self.wrote = now;
        self.stuck_since = None;
    }

    /// Records that the other end currently accepts no data.
    pub(super) fn is_stuck(&mut self, now: Instant) {
        self.stuck_since.get_or_insert(now);
    }

    /// Notes that a request was read.
    pub(super) const fn serving(&mut self) {
        self.doing = Doing::Serving;
    }

    /// Records that the answer is being written, unless the connection has become a page.
    pub(super) fn answered(&mut self, now: Instant) {
        if self.doing == Doing::Serving {
            self.doing = Doing::Waiting { since: now, begun: false };
        }
    }

    /// Records that it is a page from now on.
    pub(super) const fn live(&mut self) {
        self.doing = Doing::Live;
    }

    /// Returns since when it waits, if nothing else is in progress: then it may be closed without harm.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        match self.doing {
            Doing::Waiting { since, .. } if self.stuck_since.is_none() => Some(since.max(self.wrote)),
            Doing::Greeting { since } => Some(since),
            Doing::Waiting { .. } | Doing::Serving | Doing::Live => None,
        }
    }

    /// Returns the deadline of a request, and the reason for closing if none has arrived by then.
    pub(super) fn request_due(&self) -> Option<(Instant, Closed)> {
        if let Doing::Greeting { since } = self.doing {
            return Some((since + self.patience, Closed::Handshake));
        }
        let Doing::Waiting { since, begun } = self.doing else { return None };
        let waits_since = self.waits_since()?;
        let due = (waits_since + self.patience).min(self.answer_due(since));
        Some((due, if begun { Closed::Slow } else { Closed::Idle }))
    }

    /// Returns how long is waited for what is due.
    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns the deadline for accepting data, and the reason for closing if none were accepted by then.
    pub(super) fn taking_due(&self) -> Option<(Instant, Closed)> {
        let due = self.stuck_since? + self.patience;
        match self.doing {
            // A message must be accepted as a whole: see `live`.
            Doing::Live => None,
            Doing::Greeting { since } => Some((since + self.patience, Closed::Handshake)),
            Doing::Serving => Some((due, Closed::Stalled)),
            Doing::Waiting { since, .. } => Some((due.min(self.answer_due(since)), Closed::Stalled)),
        }
    }

    fn answer_due(&self, since: Instant) -> Instant {
        since + self.patience * PATIENCE_WITH_AN_ANSWER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_connection_that_asks_for_nothing_or_slowly_has_so_long_and_no_longer() {
        let began = Instant::now();
        let mut conduct = Conduct::new(PATIENCE, began);
        assert_eq!(conduct.request_due(), Some((began + PATIENCE, Closed::Idle)));
        conduct.read();
        assert_eq!(conduct.request_due(), Some((began + PATIENCE, Closed::Slow)), "bytes win no time");
        assert_eq!(conduct.taking_due(), None);
    }

    #[test]
    fn a_handshake_has_so_long_whatever_is_sent_and_the_request_after_it_has_its_own_time() {
        let began = Instant::now();
        let mut conduct = Conduct::new(PATIENCE, began);
        conduct.greets(began);
        conduct.read();
        conduct.wrote(began + seconds(20));
        assert_eq!(conduct.request_due(), Some((began + PATIENCE, Closed::Handshake)));
        conduct.is_stuck(began + seconds(25));
        assert_eq!(conduct.taking_due(), Some((began + PATIENCE, Closed::Handshake)));
        assert_eq!(conduct.waits_since(), Some(began), "a newcomer may have its place");
        conduct.wrote(began + seconds(26));
        conduct.greeted(began + seconds(26));
        assert_eq!(conduct.request_due(), Some((began + seconds(56), Closed::Idle)));
    }

    #[test]
    fn a_request_that_is_served_is_not_hurried_and_the_next_one_has_its_own_time() {
        let began = Instant::now();
        let mut conduct = Conduct::new(PATIENCE, began);
        conduct.read();
        conduct.serving();
        assert_eq!((conduct.request_due(), conduct.waits_since()), (None, None));
        conduct.answered(began + seconds(50));
        assert_eq!(conduct.request_due(), Some((began + seconds(80), Closed::Idle)));
    }

    #[test]
    fn who_takes_an_answer_slowly_has_time_while_it_does_and_an_end() {
        let began = Instant::now();
        let mut conduct = Conduct::new(PATIENCE, began);
        conduct.serving();
        conduct.answered(began);
        for second in (20..=280).step_by(20) {
            conduct.is_stuck(began + seconds(second - 20));
            assert_eq!(conduct.request_due(), None, "it is not idle");
            let due = began + seconds((second - 20) + 30).min(seconds(300));
            assert_eq!(conduct.taking_due(), Some((due, Closed::Stalled)));
            conduct.wrote(began + seconds(second));
        }
        assert_eq!(conduct.request_due(), Some((began + seconds(300), Closed::Idle)));
    }

    #[test]
    fn being_stuck_again_and_again_is_being_stuck_since_the_first_time() {
        let began = Instant::now();
        let mut conduct = Conduct::new(PATIENCE, began);
        conduct.serving();
        (1..20).for_each(|second| conduct.is_stuck(began + seconds(second)));
        assert_eq!(conduct.taking_due(), Some((began + seconds(31), Closed::Stalled)));
    }

    #[test]
    fn a_page_is_left_to_its_pings() {
        let mut conduct = Conduct::new(PATIENCE, Instant::now());
        conduct.serving();
        conduct.live();
        conduct.answered(Instant::now());
        conduct.is_stuck(Instant::now());
        assert_eq!((conduct.request_due(), conduct.taking_due(), conduct.waits_since()), (None, None, None));
    }
}
