//! A member's side of the key service: when to ask, and what is held of the answers.
//!
//! Times are kept by the clock of the service and counted on by the monotonic one, so that a member's UTC may be wrong,
//! or be set, without any effect on when secrets change.

use core::fmt;
use core::time::Duration;

use units::{Instant, WallTime};

use super::schedule::nanos;
use super::{Answer, Content, Question, RefusedFor, Unreadable};
use crate::{GroupSecret, KeySet};

/// Interval of questions: a forced rotation is known before members send with its secret, also if a message is lost.
const ASK_INTERVAL: Duration = Duration::from_millis(300);
/// Time after which a question without an answer is repeated, [`QUICK_RETRIES`] times; then it is doubled up to
/// [`MAX_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(25);
/// Repeats within the 200 ms in which a new member is to read: of 30 % loss each way, eight questions leave 1 in 200
/// without an answer.
const QUICK_RETRIES: u32 = 7;
/// Longest interval of questions to a service that does not answer.
const MAX_RETRY: Duration = Duration::from_millis(500);
/// Shortest interval of questions because of unknown secrets: forged ones cost no more.
const EARLY_INTERVAL: Duration = Duration::from_millis(20);
/// Interval of questions of a station that is refused: it may be added again.
const REFUSED_INTERVAL: Duration = Duration::from_secs(2);
/// A way longer than this tells nothing about the difference of the clocks.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);

/// A member that asks for the secrets of its group.
pub struct Client {
    /// Number of the latest question.
    number: u32,
    asked: Option<Instant>,
    next: Instant,
    /// Number of the latest question that was answered.
    answered: u32,
    /// Questions since the latest answer, and the time of the first.
    waiting: Option<(u32, Instant)>,
    unanswered: u64,
    holding: Option<Holding>,
    refused: Option<RefusedFor>,
}

/// The secrets of the latest answer.
#[derive(Clone, PartialEq, Eq)]
struct Holding {
    kept: Duration,
    secrets: Vec<GroupSecret>,
    /// A moment by both clocks.
    anchor: (Instant, WallTime),
}

/// What a member holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The secrets, with times by the member's own clock.
    pub keys: KeySet,
    /// Time until the last of them ends: then nothing is sent any more. `None` without secrets.
    pub left: Option<Duration>,
}

impl Client {
    /// Creates a member that asks at once.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            number: 0,
            asked: None,
            next: now,
            answered: 0,
            waiting: None,
            unanswered: 0,
            holding: None,
            refused: None,
        }
    }

    /// Returns a question if one is due.
    pub fn poll(&mut self, now: Instant) -> Option<Question> {
        if now < self.next {
            return None;
        }
        self.number = self.number.wrapping_add(1).max(1);
        self.asked = Some(now);
        let (count, since) = self.waiting.unwrap_or((0, now));
        // The one before has got no answer.
        self.unanswered += u64::from(count > 0);
        self.waiting = Some((count.saturating_add(1), since));
        let doublings = count.saturating_sub(QUICK_RETRIES - 1).min(8);
        self.next = now + (FIRST_RETRY * 2_u32.pow(doublings)).min(MAX_RETRY);
        Some(Question { number: self.number })
    }

    /// Returns when the next question is due.
    #[must_use]
    pub const fn next_question(&self) -> Instant {
        self.next
    }

    /// Asks soon: a datagram came with a secret that is not held.
    pub fn hurry(&mut self, now: Instant) {
        let earliest = self.asked.map_or(now, |asked| asked + EARLY_INTERVAL);
        self.next = self.next.min(earliest.max(now));
    }

    /// Takes an answer; one that was overtaken, or comes twice, has no effect.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn handle(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Unreadable> {
        let Answer { number, now: service, content } = Answer::from_bytes(bytes)?;
        if number <= self.answered || number > self.number {
            return Ok(());
        }
        self.answered = number;
        self.waiting = None;
        let asked = self.asked.unwrap_or(now);
        match content {
            Content::Secrets { kept, secrets } => {
                let way = if number == self.number {
                    now.since(asked).min(MAX_ROUND_TRIP) / 2
                } else {
                    Duration::ZERO
                };
                let anchor = (now, service.offset(nanos(way)));
                self.holding = Some(Holding { kept, secrets, anchor });
                self.refused = None;
                self.next = asked + ASK_INTERVAL;
            }
            Content::Refused(reason) => {
                // It would not be read any more, and nobody else is to lose by what it sends.
                self.holding = None;
                self.refused = Some(reason);
                self.next = asked + REFUSED_INTERVAL;
            }
        }
        Ok(())
    }

    /// Returns the secrets that are accepted or come later, at a moment by both of the member's clocks.
    #[must_use]
    pub fn held(&self, now: Instant, wall: WallTime) -> Held {
        let Some(Holding { kept, secrets, anchor: (then, service) }) = &self.holding else {
            return Held { keys: KeySet::default(), left: None };
        };
        let service = service.offset(nanos(now.since(*then)));
        let ahead = wall.nanos_since(service);
        let own = |secret: &GroupSecret| {
            let until = secret.until?;
            (service < until.offset(nanos(*kept))).then(|| secret.shifted(ahead))
        };
        let keys = KeySet::new(secrets.iter().filter_map(own));
        let left = secrets.last().and_then(|last| last.until).map(|end| end.nanos_since(service));
        let left = left.and_then(|left| u64::try_from(left).ok()).map(Duration::from_nanos);
        Held { left: left.filter(|_| !keys.is_empty()), keys }
    }

    /// Returns why the service refused this station, if it did.
    #[must_use]
    pub const fn refused(&self) -> Option<RefusedFor> {
        self.refused
    }

    /// Returns the number of the latest question that was answered; 0 if none was.
    #[must_use]
    pub const fn answers(&self) -> u32 {
        self.answered
    }

    /// Returns since when the service has not answered: the first question after its latest answer.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Instant> {
        self.waiting.map(|(_, since)| since)
    }

    /// Returns how many questions were repeated because no answer came.
    #[must_use]
    pub const fn unanswered(&self) -> u64 {
        self.unanswered
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.holding.as_ref().map_or(0, |holding| holding.secrets.len());
        formatter
            .debug_struct("Client")
            .field("asked", &self.number)
            .field("held", &held)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
