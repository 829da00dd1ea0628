//! A second connection beside a silent one: when it is made, and which of the two goes on.
//!
//! Silence has two causes that look alike. After an outage of the path the connection goes on at once; a far relay that
//! was started again does not know it. So the first is kept while another is made beside it, and the one that answers
//! goes on: the second replaces the first only if the first stays silent on a path that has just carried the second.
//!
//! The far end needs no decision of its own: nothing is said on a second connection before it replaces the first.

use core::time::Duration;

use units::Instant;

/// Silence after which a second connection is made: the least, and the number of round trips. An idle connection is heard
/// more often: its ends send keep-alives when they hear nothing, and it is asked from half of this on.
const LEAST_SILENCE: Duration = Duration::from_millis(1_500);
const SILENT_ROUND_TRIPS: u32 = 4;
/// Interval of questions to a silent first connection.
const ASK_INTERVAL: Duration = Duration::from_millis(50);
/// Time in which the first has to answer once the second is connected, beyond the round trip.
const GRACE: Duration = Duration::from_millis(250);
/// Least interval of attempts to connect, each of which repeats its handshakes: of a peer that refuses them.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The first connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstConnection {
    /// When its peer was heard last.
    pub heard: Instant,
    /// Smoothed round trip.
    pub round_trip: Duration,
}

/// The second connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Second {
    /// There is none, or the attempt has failed.
    Missing,
    /// It is being made.
    Connecting,
    /// It is connected.
    Connected,
}

/// A thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ask the peer on the first connection for an answer.
    Ask,
    /// Begin to make a second one.
    Begin,
    /// End the second: the first is heard.
    GiveUp,
    /// End the first, and go on with the second.
    Replace,
}

/// Decision about a second connection beside a first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecondConnection {
    state: State,
    asks_at: Instant,
    begins_at: Instant,
    due: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// None is wanted.
    Unwanted,
    /// The first was silent from this instant on.
    Wanted { silent_since: Instant },
    /// The second is connected, and replaces the first unless that is heard until then.
    Waiting { silent_since: Instant, until: Instant },
}

/// Returns the silence of a first connection after which a second is made.
#[must_use]
pub fn silence_bound(round_trip: Duration) -> Duration {
    (round_trip * SILENT_ROUND_TRIPS).max(LEAST_SILENCE)
}

impl SecondConnection {
    /// Begins with a first connection alone.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self { state: State::Unwanted, asks_at: now, begins_at: now, due: Some(now) }
    }

    /// Returns the next step; to be called until there is none.
    pub fn poll(&mut self, now: Instant, first: &FirstConnection, second: Second) -> Option<Step> {
        let bound = silence_bound(first.round_trip);
        match self.state {
            State::Wanted { silent_since } | State::Waiting { silent_since, .. }
                if first.heard > silent_since =>
            {
                self.state = State::Unwanted;
                return Some(Step::GiveUp);
            }
            State::Unwanted if now >= first.heard + bound => {
                self.state = State::Wanted { silent_since: first.heard };
            }
            State::Waiting { silent_since, .. } if second != Second::Connected => {
                self.state = State::Wanted { silent_since };
            }
            State::Wanted { silent_since } if second == Second::Connected => {
                let until = now + first.round_trip + GRACE;
                self.state = State::Waiting { silent_since, until };
            }
            State::Unwanted | State::Wanted { .. } | State::Waiting { .. } => {}
        }
        match self.state {
            State::Unwanted if now < first.heard + bound / 2 => {
                self.due = Some(first.heard + bound / 2);
                None
            }
            State::Unwanted => self.ask(now, first.heard + bound),
            State::Wanted { .. } if second == Second::Missing && now >= self.begins_at => {
                self.begins_at = now + RETRY_INTERVAL;
                Some(Step::Begin)
            }
            State::Wanted { .. } => {
                self.due = (second == Second::Missing).then_some(self.begins_at);
                None
            }
            State::Waiting { until, .. } if now >= until => Some(Step::Replace),
            State::Waiting { until, .. } => self.ask(now, until),
        }
    }

    /// Returns when to poll even if nothing has changed.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn ask(&mut self, now: Instant, until: Instant) -> Option<Step> {
        self.due = Some(until.min(self.asks_at));
        (now >= self.asks_at).then(|| {
            self.asks_at = now + ASK_INTERVAL;
            Step::Ask
        })
    }
}

#[cfg(test)]
mod tests;
