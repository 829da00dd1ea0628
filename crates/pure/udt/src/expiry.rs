//! Keep-alive and timeout of a silent peer.

use core::time::Duration;

use units::Instant;

use crate::Silence;

/// Maximum wait per attempt: a peer that reports very long round trips, such as an hour, would otherwise be waited
/// for for days.
const MOST_PATIENCE: Duration = Duration::from_secs(1);

/// Measures the peer's silence.
#[derive(Debug)]
pub(crate) struct Expiry {
    silence: Silence,
    attempts: u32,
    since: Instant,
}

/// Action on silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Silent {
    /// Send a keep-alive.
    Ask,
    /// Give the peer up.
    Dead,
}

impl Expiry {
    pub(crate) const fn new(silence: Silence, now: Instant) -> Self {
        Self { silence, attempts: 1, since: now }
    }

    /// Records a packet of any kind from the peer.
    pub(crate) const fn heard(&mut self, now: Instant) {
        self.attempts = 1;
        self.since = now;
    }

    pub(crate) fn deadline(&self, patience: Duration) -> Instant {
        // Source: libudt's EXP, which counts attempts and not time: 46 s with its defaults.
        let step = patience.min(MOST_PATIENCE) * self.attempts + congestion::ACK_INTERVAL;
        self.since + step.max(self.silence.least_step * self.attempts)
    }

    pub(crate) fn advance(&mut self, now: Instant, patience: Duration) -> Option<Silent> {
        if self.deadline(patience) > now {
            return None;
        }
        if self.attempts > self.silence.attempts && now.since(self.since) > self.silence.last_step {
            return Some(Silent::Dead);
        }
        self.attempts += 1;
        self.since = now;
        Some(Silent::Ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_peer_is_given_up_after_forty_six_seconds() {
        let mut expiry = Expiry::new(Silence::UDT, Instant::ORIGIN);
        let mut asked = 0;
        loop {
            let now = expiry.deadline(Duration::from_millis(20));
            match expiry.advance(now, Duration::from_millis(20)) {
                Some(Silent::Ask) => asked += 1,
                Some(Silent::Dead) => break,
                None => panic!("the deadline is when something is due"),
            }
        }
        assert_eq!(asked, 16);
        let given_up_ms = expiry.deadline(Duration::ZERO).as_nanos() / 1_000_000;
        assert_eq!(given_up_ms, 300 * 17 * 18 / 2);
    }

    #[test]
    fn a_peer_that_says_its_answers_take_an_hour_is_given_up_in_three_minutes() {
        let mut expiry = Expiry::new(Silence::UDT, Instant::ORIGIN);
        let hour = Duration::from_secs(3_600);
        let end = loop {
            let now = expiry.deadline(hour);
            if expiry.advance(now, hour) == Some(Silent::Dead) {
                break now;
            }
        };
        assert_eq!(end.as_nanos() / 1_000_000_000, 153);
    }
}
