//! Bounds of guessing: failed sign-ins per source and user, per source, per site, and of all together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use units::Instant;

use crate::Digest;

/// Failures of one source with one user at once, then one a minute: a person mistypes, a program guesses.
const PER_USER: Allowance = Allowance { burst: 5, interval: Duration::from_secs(60) };
/// Failures of one source with all users at once, then one in ten seconds: a laboratory behind one address.
const PER_SOURCE: Allowance = Allowance { burst: 30, interval: Duration::from_secs(10) };
/// Failures of one IPv6 site at once, then one in two seconds: it has 65,536 networks, each of which is a source.
const PER_SITE: Allowance = Allowance { burst: 60, interval: Duration::from_secs(2) };
/// Failures of all sources at once, near ones and far ones apart, then one a second: guesses take a tenth of one
/// processor at most for each. No single source or site can use them up.
const IN_ALL: Allowance = Allowance { burst: 120, interval: Duration::from_secs(1) };
/// Sources and users that are bounded by themselves alone; the one whose success is longest ago gives way.
const MAX_KNOWN: usize = 256;

/// Failed sign-ins, by where they came from.
///
/// No bound is per user alone: anybody could lock the user out. A user is bounded by its own failures alone where it
/// signed in before: no flood of others locks it out there. Where it signs in for the first time, a flood from the
/// Internet does not hold it up at an address of the site's own. Memory is bounded by the failures of all sources.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Moment at which the failures of each group are used up.
    due: HashMap<Key, Instant>,
    /// Sources and users that signed in, with the time of the last success.
    known: HashMap<Key, Instant>,
}

/// Group of attempts that is bounded as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Key {
    /// The name is as it was given, and may be no user's.
    User(IpAddr, Digest),
    Source(IpAddr),
    Site(u128),
    All(Origin),
}

/// Where a source is: what the other half of the Internet does is no business of a laboratory's own addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Origin {
    /// An address that no router of the Internet forwards.
    Near,
    /// Any other.
    Far,
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
        self.due.retain(|_, due| *due > now);
        let wait = self.keys(source, user).map(|(key, allowance)| allowance.wait(now, self.due(key))).max();
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        for (key, allowance) in self.keys(source, user) {
            let due = self.due(key).max(now) + allowance.interval;
            self.due.insert(key, due);
        }
        Ok(())
    }

    /// Gives back what an attempt took, forgets the user's failures from this source, and knows it there from now on.
    pub fn succeed(&mut self, now: Instant, source: IpAddr, user: &str) {
        self.give_back(source, user);
        let pair = Key::of_user(source, user);
        self.due.remove(&pair);
        self.known.insert(pair, now);
        if self.known.len() > MAX_KNOWN {
            let oldest = self.known.iter().min_by_key(|(_, success)| **success).map(|(key, _)| *key);
            oldest.map(|key| self.known.remove(&key));
        }
    }

    /// Gives back what an attempt took that was not verified.
    pub fn give_back(&mut self, source: IpAddr, user: &str) {
        for (key, allowance) in self.keys(source, user) {
            if let Some(due) = self.due.get_mut(&key) {
                let interval_ns = allowance.interval.as_nanos() as u64;
                *due = Instant::from_nanos(due.as_nanos().saturating_sub(interval_ns));
            }
        }
    }

    fn due(&self, key: Key) -> Instant {
        self.due.get(&key).copied().unwrap_or(Instant::ORIGIN)
    }

    /// Returns the groups by which an attempt is bounded.
    fn keys(&self, source: IpAddr, user: &str) -> impl Iterator<Item = (Key, Allowance)> + use<> {
        let (pair, origin, source) = (Key::of_user(source, user), Origin::of(source), network(source));
        let site = site(source).map(|site| (Key::Site(site), PER_SITE));
        let others = [(Key::Source(source), PER_SOURCE), (Key::All(origin), IN_ALL)].into_iter().chain(site);
        let is_known = self.known.contains_key(&pair);
        std::iter::once((pair, PER_USER)).chain(others.filter(move |_| !is_known))
    }
}

impl Key {
    fn of_user(source: IpAddr, user: &str) -> Self {
        Self::User(network(source), Digest::of(user))
    }
}

impl Origin {
    /// Source: RFC 1918 (private), RFC 3927 and RFC 4291 §2.5.6 (link-local), RFC 4193 (unique local).
    fn of(source: IpAddr) -> Self {
        let is_near = match source.to_canonical() {
            IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => {
                address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
            }
        };
        if is_near { Self::Near } else { Self::Far }
    }
}

/// Returns the first 48 bits of an IPv6 address: the largest usual assignment to a site (RFC 6177 §2).
fn site(address: IpAddr) -> Option<u128> {
    match address {
        IpAddr::V6(address) => Some(u128::from(address) >> 80),
        IpAddr::V4(_) => None,
    }
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
            attempts.succeed(at(0), source("192.0.2.7"), "ada");
        }
    }

    #[test]
    fn a_user_is_not_locked_out_by_others_where_it_signed_in_before() {
        let mut attempts = Attempts::default();
        attempts.succeed(at(0), source("192.0.2.7"), "ada");
        let strangers = (0..1_000_u32).map(|number| IpAddr::V4((0xc612_0000 + number).into()));
        assert_eq!(strangers.filter(|other| attempts.take(at(0), *other, "ada").is_ok()).count(), 120);
        assert!(attempts.take(at(0), source("192.0.2.7"), "grace").is_err());
        let ada = |_| "ada".to_owned();
        assert_eq!(exhaust(&mut attempts, at(0), "192.0.2.7", ada), (5, Duration::from_secs(60)));
    }

    #[test]
    fn the_success_longest_ago_gives_way() {
        let mut attempts = Attempts::default();
        for number in 0..=MAX_KNOWN as u64 {
            attempts.succeed(at(number), source("192.0.2.7"), &format!("user{number}"));
        }
        let is_known = |user| attempts.known.contains_key(&Key::of_user(source("192.0.2.7"), user));
        assert_eq!((attempts.known.len(), is_known("user0"), is_known("user1")), (MAX_KNOWN, false, true));
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
    fn a_site_with_many_networks_is_bounded_and_locks_nobody_else_out() {
        let mut attempts = Attempts::default();
        let mut taken = 0;
        for network in 0..1_000 {
            taken +=
                u32::from(attempts.take(at(0), source(&format!("2001:db8:7:{network}::1")), "ada").is_ok());
        }
        assert_eq!(taken, 60);
        assert_eq!(attempts.take(at(0), source("2001:db8:8::1"), "ada"), Ok(()));
        assert_eq!(attempts.take(at(0), source("192.0.2.7"), "ada"), Ok(()));
    }

    #[test]
    fn a_flood_from_afar_does_not_hold_up_a_first_sign_in_at_the_site_and_the_other_way_round() {
        for (flood, newcomers, others) in [
            // 198.18.0.0/15; 10.0.0.0/8.
            (0xc612_0000_u32, ["10.0.0.1", "192.168.0.7", "fd00::1"], ["192.0.2.7", "2001:db8::1"]),
            (0x0a00_0000, ["192.0.2.7", "198.51.100.1", "2001:db8::1"], ["::1", "::ffff:172.16.0.1"]),
        ] {
            let mut attempts = Attempts::default();
            let strangers = (0..1_000_u32).map(|number| IpAddr::V4((flood + number).into()));
            assert_eq!(strangers.filter(|other| attempts.take(at(0), *other, "ada").is_ok()).count(), 120);
            for newcomer in newcomers {
                assert_eq!(attempts.take(at(0), source(newcomer), "grace"), Ok(()), "{newcomer}");
            }
            for other in others {
                assert!(attempts.take(at(0), source(other), "grace").is_err(), "{other}");
            }
        }
    }

    #[test]
    fn all_sources_together_are_bounded_and_so_is_memory() {
        let mut attempts = Attempts::default();
        let (mut taken, mut most) = (0, 0);
        for number in 0..20_000_u32 {
            let other = IpAddr::V4((0x0a00_0000 + number).into());
            taken += u64::from(attempts.take(at(u64::from(number / 10)), other, "ada").is_ok());
            most = most.max(attempts.due.len());
        }
        assert_eq!(taken, 120 + 1_999);
        // For each failure of the last minute: a user and a source.
        assert!(most <= 2 * (120 + 60) + 1, "{most}");
    }
}
