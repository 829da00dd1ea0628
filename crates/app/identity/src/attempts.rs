//! Bounds of guessing: failed sign-ins per source, and per source and user.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use units::Instant;

use crate::Digest;

/// Failures of one source with one user at once, then one a minute: a person mistypes, a program guesses.
const PER_USER: Allowance = Allowance { burst: 5, interval: Duration::from_secs(60) };
/// Failures of one source with all users at once, then one in ten seconds: a laboratory behind one address.
const PER_SOURCE: Allowance = Allowance { burst: 30, interval: Duration::from_secs(10) };
/// The most sources and pairs that are remembered; the one with the least to wait for is forgotten.
const MAX_ENTRIES: usize = 4_096;

/// Failed sign-ins, by where they came from.
///
/// No bound is per user alone: anybody could lock the user out. Guesses from many sources are bounded by the time that
/// the verification of each takes.
#[derive(Debug, Default)]
pub struct Attempts(HashMap<Key, Instant>);

/// A source, or a source with one user.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    source: IpAddr,
    /// The name as it was given, which may be no user's.
    user: Option<Digest>,
}

/// Attempts allowed at once, and the time in which one more is.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    burst: u32,
    interval: Duration,
}

impl Attempts {
    /// Takes one attempt from what the source has left; returns the time to wait, if nothing is left.
    ///
    /// It is taken before the password is verified, so that attempts at the same time are counted too.
    ///
    /// # Errors
    /// The time to wait; then nothing was taken.
    pub fn take(&mut self, now: Instant, source: IpAddr, user: &str) -> Result<(), Duration> {
        let keys = keys(source, user);
        let wait = keys.iter().map(|(key, allowance)| allowance.wait(now, self.due(*key))).max();
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        for (key, allowance) in keys {
            self.make_room(now);
            let due = self.due(key).max(now) + allowance.interval;
            self.0.insert(key, due);
        }
        Ok(())
    }

    /// Gives back what an attempt took, and forgets the user's failures from this source.
    pub fn succeed(&mut self, source: IpAddr, user: &str) {
        self.give_back(source, user);
        let [_, (of_user, _)] = keys(source, user);
        self.0.remove(&of_user);
    }

    /// Gives back what an attempt took that was not verified.
    pub fn give_back(&mut self, source: IpAddr, user: &str) {
        for (key, allowance) in keys(source, user) {
            if let Some(due) = self.0.get_mut(&key) {
                let interval_ns = allowance.interval.as_nanos() as u64;
                *due = Instant::from_nanos(due.as_nanos().saturating_sub(interval_ns));
            }
        }
    }

    fn due(&self, key: Key) -> Instant {
        self.0.get(&key).copied().unwrap_or(Instant::ORIGIN)
    }

    fn make_room(&mut self, now: Instant) {
        if self.0.len() < MAX_ENTRIES {
            return;
        }
        self.0.retain(|_, due| *due > now);
        if self.0.len() >= MAX_ENTRIES
            && let Some(least) = self.0.iter().min_by_key(|(_, due)| **due).map(|(key, _)| *key)
        {
            self.0.remove(&least);
        }
    }
}

fn keys(source: IpAddr, user: &str) -> [(Key, Allowance); 2] {
    let source = network(source);
    [(Key { source, user: None }, PER_SOURCE), (Key { source, user: Some(Digest::of(user)) }, PER_USER)]
}

/// Returns an IPv6 address without its last 64 bits, which its host chooses (RFC 4291 §2.5.1).
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
}

impl Allowance {
    /// Returns the time until one more attempt, if the attempts so far are used up at `due`.
    ///
    /// Source: the virtual scheduling algorithm of ITU-T I.371 (GCRA).
    fn wait(self, now: Instant, due: Instant) -> Duration {
        due.since(now).saturating_sub(self.interval * (self.burst - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(1_000 + seconds)
    }

    fn source(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Takes attempts until one is refused; returns how many were not, and the time to wait.
    fn exhaust(
        attempts: &mut Attempts,
        now: Instant,
        from: &str,
        user: impl Fn(u32) -> String,
    ) -> (u32, Duration) {
        let mut taken = 0;
        loop {
            match attempts.take(now, source(from), &user(taken)) {
                Ok(()) => taken += 1,
                Err(wait) => return (taken, wait),
            }
        }
    }

    #[test]
    fn five_failures_with_a_user_then_one_a_minute() {
        let mut attempts = Attempts::default();
        let ada = |_| "ada".to_owned();
        assert_eq!(exhaust(&mut attempts, at(0), "192.0.2.7", ada), (5, Duration::from_secs(60)));
        assert_eq!(exhaust(&mut attempts, at(59), "192.0.2.7", ada), (0, Duration::from_secs(1)));
        assert_eq!(exhaust(&mut attempts, at(60), "192.0.2.7", ada), (1, Duration::from_secs(60)));
        // Others are not locked out, neither the user from elsewhere nor another user.
        assert_eq!(attempts.take(at(60), source("192.0.2.8"), "ada"), Ok(()));
        assert_eq!(attempts.take(at(60), source("192.0.2.7"), "grace"), Ok(()));
    }

    #[test]
    fn thirty_failures_of_a_source_with_all_users() {
        let mut attempts = Attempts::default();
        let users = |number: u32| format!("user{number}");
        assert_eq!(exhaust(&mut attempts, at(0), "2001:db8::1", users).0, 30);
        // The host chooses the last 64 bits of its address.
        assert_eq!(exhaust(&mut attempts, at(0), "2001:db8::2", users).0, 0);
        assert_eq!(attempts.take(at(0), source("2001:db8:0:1::1"), "ada"), Ok(()));
        assert_eq!(exhaust(&mut attempts, at(10), "2001:db8::2", users).0, 1);
    }

    #[test]
    fn a_success_gives_back_what_it_took() {
        let mut attempts = Attempts::default();
        for _ in 0..1_000 {
            assert_eq!(attempts.take(at(0), source("192.0.2.7"), "ada"), Ok(()));
            attempts.succeed(source("192.0.2.7"), "ada");
        }
    }

    #[test]
    fn an_attempt_that_was_not_verified_costs_nothing() {
        let mut attempts = Attempts::default();
        for _ in 0..1_000 {
            assert_eq!(attempts.take(at(0), source("192.0.2.7"), "ada"), Ok(()));
            attempts.give_back(source("192.0.2.7"), "ada");
        }
        assert_eq!(exhaust(&mut attempts, at(0), "192.0.2.7", |_| "ada".to_owned()).0, 5);
    }

    #[test]
    fn memory_is_bounded_and_those_who_wait_longest_are_remembered() {
        let mut attempts = Attempts::default();
        exhaust(&mut attempts, at(0), "192.0.2.7", |_| "ada".to_owned());
        for number in 0..2 * MAX_ENTRIES as u32 {
            let other = IpAddr::V4((0x0a00_0000 + number).into());
            assert_eq!(attempts.take(at(1), other, "ada"), Ok(()));
        }
        assert!(attempts.0.len() <= MAX_ENTRIES);
        assert!(attempts.take(at(1), source("192.0.2.7"), "ada").is_err());
    }
}
