//! The secrets of a group by the time of the key service: each follows the one before, and two are made ahead.
//!
//! Source: OPC UA part 14, Security Key Service: a current key, future keys, a lifetime; there members ask, too.

use core::time::Duration;

use units::WallTime;

use crate::{GroupSecret, MAX_SECRETS, Secret, Suite, Token};

/// Secrets that are made ahead of their time: members go on for as many lifetimes without the service.
pub const FUTURE_SECRETS: usize = 2;
/// Time from a forced rotation until members send with the new secret: each has asked twice before, and looked at what
/// was answered. With it a removed member is blind within 1 s.
pub const LEAD: Duration = Duration::from_millis(800);
/// Time from the return of a service that was away until the last secret had ended, until members send with another: in
/// its absence members begin another session every 4 s, so that each has asked before.
pub(super) const RETURN_LEAD: Duration = Duration::from_secs(5);

/// Shortest lifetime: members learn of the next secret in this time, also if messages are lost.
const MIN_LIFETIME: Duration = Duration::from_secs(1);
/// Longest lifetime: one secret opens what was sent in it.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Shortest time for which an old secret is kept: clocks of members agree with the service's to some milliseconds, and
/// datagrams are on their way for some.
const MIN_KEPT: Duration = Duration::from_secs(1);
/// Longest time for which an old secret is kept: it is accepted from a member that was removed, too.
const MAX_KEPT: Duration = Duration::from_secs(60);

/// How long secrets are used and kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Periods {
    lifetime: Duration,
    kept: Duration,
}

/// Reason why periods are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodsError {
    /// The lifetime is out of range.
    #[error("a lifetime of {0:?} is not between 1 s and 30 days\ngive another: --lifetime 1h")]
    Lifetime(Duration),
    /// An old secret would be kept for too long.
    #[error(
        "an old secret is kept for 1 s to 60 s, and at most three lifetimes, not for {0:?}\ngive another, or a longer lifetime: --lifetime 1h --kept 10s"
    )]
    Kept(Duration),
}

/// Secrets with their times, by the clock of the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    periods: Periods,
    suite: Suite,
    /// Sorted by `from`, each with an end and a token of its own; at most [`MAX_SECRETS`].
    secrets: Vec<GroupSecret>,
}

impl Periods {
    /// Takes the time for which members send with a secret, and that for which they accept it afterwards.
    ///
    /// # Errors
    /// [`PeriodsError`]
    pub fn new(lifetime: Duration, kept: Duration) -> Result<Self, PeriodsError> {
        if !(MIN_LIFETIME..=MAX_LIFETIME).contains(&lifetime) {
            return Err(PeriodsError::Lifetime(lifetime));
        }
        // More old ones would not fit into a set.
        if !(MIN_KEPT..=MAX_KEPT).contains(&kept) || kept > 3 * lifetime {
            return Err(PeriodsError::Kept(kept));
        }
        Ok(Self { lifetime, kept })
    }

    /// Returns the time for which members send with a secret.
    #[must_use]
    pub const fn lifetime(self) -> Duration {
        self.lifetime
    }

    /// Returns the time for which members accept a secret after its end.
    #[must_use]
    pub const fn kept(self) -> Duration {
        self.kept
    }
}

impl Default for Periods {
    fn default() -> Self {
        Self { lifetime: Duration::from_secs(3_600), kept: Duration::from_secs(10) }
    }
}

impl Schedule {
    /// Creates a schedule without secrets: [`advance`](Self::advance) makes them.
    #[must_use]
    pub const fn new(periods: Periods, suite: Suite) -> Self {
        Self { periods, suite, secrets: Vec::new() }
    }

    /// Takes secrets of a file; `None` if one has no end, two share a token, or there are too many.
    pub(super) fn with_secrets(self, mut secrets: Vec<GroupSecret>) -> Option<Self> {
        secrets.sort_by_key(|secret| secret.from);
        let is_taken = |at: usize| secrets[..at].iter().any(|other| other.token == secrets[at].token);
        let is_whole = secrets.len() <= MAX_SECRETS
            && secrets.iter().all(|secret| secret.until.is_some_and(|until| secret.from <= until))
            && !(0..secrets.len()).any(is_taken);
        is_whole.then_some(Self { secrets, ..self })
    }

    /// Returns the periods.
    #[must_use]
    pub const fn periods(&self) -> Periods {
        self.periods
    }

    /// Returns the encryption of datagrams with secrets that are made from now on.
    #[must_use]
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Returns the secrets, the earliest first.
    #[must_use]
    pub fn secrets(&self) -> &[GroupSecret] {
        &self.secrets
    }

    /// Returns the secret that members send with at `now`.
    #[must_use]
    pub fn in_use(&self, now: WallTime) -> Option<&GroupSecret> {
        self.secrets.iter().rev().find(|secret| secret.from <= now && secret.is_of_use(now))
    }

    /// Drops secrets that are not accepted any more and makes those that are missing, with random bits of `draw`;
    /// returns whether the schedule has changed. It must be stored before a member gets it.
    pub fn advance(&mut self, now: WallTime, mut draw: impl FnMut() -> (Token, Secret)) -> bool {
        let before = self.secrets.len();
        let mut ends = self.secrets.last().and_then(|secret| secret.until);
        let kept = nanos(self.periods.kept);
        self.secrets.retain(|secret| secret.until.is_some_and(|until| now < until.offset(kept)));
        let mut has_changed = self.secrets.len() != before;
        // Those of a rotation that is under way are not counted as ahead.
        let (soon, returned) = (now.offset(nanos(LEAD)), now.offset(nanos(RETURN_LEAD)));
        while self.secrets.len() < MAX_SECRETS && (self.lacks(now) || self.count_after(soon) < FUTURE_SECRETS)
        {
            // After a long pause nothing is in use that the next one could follow: readers have it before it is sent with.
            let from = ends.map_or(now, |ends| if ends > now { ends } else { returned });
            ends = Some(self.make(from, &mut draw));
            has_changed = true;
        }
        has_changed
    }

    /// Makes a secret that takes the place of the present one in [`LEAD`], and of all later ones.
    pub fn force(&mut self, now: WallTime, mut draw: impl FnMut() -> (Token, Secret)) {
        let from = now.offset(nanos(LEAD));
        // One whose time comes before may be in use by then: members that hear late go on with it.
        self.secrets.retain(|secret| secret.from <= from);
        while self.secrets.len() + 1 + FUTURE_SECRETS > MAX_SECRETS {
            self.secrets.remove(0);
        }
        for secret in &mut self.secrets {
            secret.until = secret.until.map(|until| until.min(from));
        }
        self.make(from, &mut draw);
        self.advance(now, draw);
    }

    /// Returns when [`advance`](Self::advance) has something to do next.
    #[must_use]
    pub fn due(&self, now: WallTime) -> WallTime {
        let kept = nanos(self.periods.kept);
        let ends = self.secrets.iter().filter_map(|secret| secret.until).map(|until| until.offset(kept));
        let begins = self.secrets.iter().map(|secret| secret.from.offset(-nanos(LEAD)));
        let begins = begins.filter(|begins| *begins > now);
        ends.chain(begins).min().unwrap_or(now)
    }

    fn count_after(&self, time: WallTime) -> usize {
        self.secrets.iter().filter(|secret| secret.from > time).count()
    }

    /// Returns whether there is no secret to send with, now or later.
    fn lacks(&self, now: WallTime) -> bool {
        !self.secrets.iter().any(|secret| secret.is_of_use(now))
    }

    /// Makes a secret; returns when it ends.
    fn make(&mut self, from: WallTime, draw: &mut impl FnMut() -> (Token, Secret)) -> WallTime {
        let (mut token, mut secret) = draw();
        while self.secrets.iter().any(|known| known.token == token) {
            (token, secret) = draw();
        }
        let until = from.offset(nanos(self.periods.lifetime));
        self.secrets.push(GroupSecret::new(token, self.suite, secret, from).ending(until));
        until
    }
}

pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn at(seconds: f64) -> WallTime {
        WallTime::from_nanos((seconds * 1e9) as i64)
    }

    fn drawn() -> impl FnMut() -> (Token, Secret) {
        let mut count = 0;
        move || {
            count += 1;
            (Token(count), Secret::new(Zeroizing::new([u8::try_from(count % 251).unwrap(); 32])))
        }
    }

    fn schedule() -> Schedule {
        let periods = Periods::new(Duration::from_secs(100), Duration::from_secs(10)).unwrap();
        Schedule::new(periods, Suite::default())
    }

    fn tokens(schedule: &Schedule) -> Vec<u32> {
        schedule.secrets().iter().map(|secret| secret.token.0).collect()
    }

    #[test]
    fn one_is_in_use_and_two_are_made_ahead_at_any_time() {
        let (mut schedule, mut draw) = (schedule(), drawn());
        assert!(schedule.advance(at(0.0), &mut draw));
        assert_eq!(tokens(&schedule), [1, 2, 3]);
        let due = at(100.0).offset(-nanos(LEAD));
        assert_eq!(schedule.due(at(0.0)), due);
        assert!(!schedule.advance(due.offset(-1), &mut draw), "nothing is due before");
        assert!(schedule.advance(due, &mut draw));
        assert_eq!(
            (tokens(&schedule), schedule.in_use(at(100.0)).unwrap().token),
            (vec![1, 2, 3, 4], Token(2))
        );
        assert!(!schedule.advance(at(109.9), &mut draw), "the old one is kept");
        assert!(schedule.advance(at(110.0), &mut draw));
        assert_eq!(tokens(&schedule), [2, 3, 4]);
        for step in 0..10_000 {
            let now = at(110.0 + f64::from(step));
            schedule.advance(now, &mut draw);
            assert!(schedule.in_use(now).is_some() && schedule.count_after(now) >= FUTURE_SECRETS);
            let pairs = schedule.secrets().windows(2);
            assert!(pairs.into_iter().all(|pair| pair[0].until == Some(pair[1].from)), "without gaps");
        }
    }

    #[test]
    fn a_forced_rotation_ends_the_present_and_all_future_ones() {
        let (mut schedule, mut draw) = (schedule(), drawn());
        schedule.advance(at(0.0), &mut draw);
        schedule.force(at(50.0), &mut draw);
        assert_eq!(tokens(&schedule), [1, 4, 5, 6]);
        let switch = at(50.0).offset(nanos(LEAD));
        assert_eq!(schedule.secrets()[0].until, Some(switch));
        assert_eq!(
            (schedule.secrets()[1].from, schedule.secrets()[1].until),
            (switch, Some(switch.offset(100_000_000_000)))
        );
        assert_eq!(schedule.in_use(switch.offset(-1)).unwrap().token, Token(1));
        assert_eq!(schedule.in_use(switch).unwrap().token, Token(4));
        // The next one within the lead: what may be in use already stays until then.
        schedule.force(at(50.5), &mut draw);
        assert_eq!(tokens(&schedule), [1, 4, 7, 8, 9]);
        for step in 0..100 {
            schedule.force(at(51.0 + f64::from(step) / 10.0), &mut draw);
            assert!(schedule.secrets().len() <= MAX_SECRETS, "{:?}", tokens(&schedule));
        }
    }

    #[test]
    fn after_a_pause_a_secret_is_in_use_at_once_or_once_members_have_asked_for_it() {
        let lead = nanos(RETURN_LEAD);
        for (pause, ended) in [
            (99.0, false),
            (100.0, false),
            (250.0, false),
            (299.9, false),
            (300.0, true),
            (305.0, true),
            (311.0, true),
            (1e6, true),
        ] {
            let (mut schedule, mut draw) = (schedule(), drawn());
            schedule.advance(at(0.0), &mut draw);
            schedule.advance(at(pause), &mut draw);
            assert_eq!(schedule.in_use(at(pause)).is_none(), ended, "{pause}: {schedule:?}");
            assert_eq!(schedule.in_use(at(pause).offset(lead - 1)).is_none(), ended, "{pause}");
            assert!(schedule.in_use(at(pause).offset(lead)).is_some(), "{pause}");
            assert!(schedule.count_after(at(pause)) >= FUTURE_SECRETS, "{pause}");
        }
    }

    #[test]
    fn no_two_secrets_have_one_token() {
        let mut schedule = schedule();
        let mut count = 0;
        schedule.advance(at(0.0), || {
            count += 1;
            (Token(count / 3), Secret::new(Zeroizing::new([9; 32])))
        });
        assert_eq!(tokens(&schedule), [0, 1, 2]);
    }

    #[test]
    fn periods_have_limits() {
        let periods = |lifetime, kept| {
            Periods::new(Duration::from_millis(lifetime), Duration::from_millis(kept)).is_ok()
        };
        assert!(periods(1_000, 3_000) && periods(3_600_000, 60_000) && periods(30 * 86_400_000, 1_000));
        assert!(
            !periods(999, 1_000)
                && !periods(1_000, 999)
                && !periods(1_000, 3_001)
                && !periods(3_600_000, 60_001)
        );
        assert!(!periods(30 * 86_400_000 + 1, 1_000));
    }
}
