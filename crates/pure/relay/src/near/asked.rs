//! Deadlines for which this end asks on its own bus, as a reader of streams that another relay publishes there.
//!
//! Over a chain of relays there is one deadline: the first link has to keep what readers behind the last one want. A
//! longer one is asked for at once, a shorter one once it was enough for a while: a reader that comes back, or whose first
//! report is on its way, finds the earlier relays as it left them.

use core::time::Duration;
use std::collections::BTreeMap;

use sample::StreamName;
use units::Instant;

/// Time after which a shorter deadline is asked for: readers' first reports come within 2.5 s.
const LOWERED_AFTER: Duration = Duration::from_secs(3);

/// Deadlines by stream, where they are not this end's own.
#[derive(Debug)]
pub(super) struct Asked {
    own: Duration,
    streams: BTreeMap<StreamName, Request>,
    is_due: bool,
}

#[derive(Debug)]
struct Request {
    deadline: Duration,
    /// Since when less has been enough.
    enough_since: Option<Instant>,
}

impl Asked {
    pub(super) const fn new(own: Duration) -> Self {
        Self { own, streams: BTreeMap::new(), is_due: false }
    }

    /// Calls for an update: a deadline has changed, or a stream is gone.
    pub(super) const fn call(&mut self) {
        self.is_due = true;
    }

    /// Returns whether an update is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.is_due || self.deadline().is_some_and(|at| at <= now)
    }

    /// Returns when a shorter deadline is asked for.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.streams.values().filter_map(|it| it.enough_since).min().map(|since| since + LOWERED_AFTER)
    }

    /// Takes the deadlines that are kept now, of every epoch of every stream; returns the requests that change, `None` for
    /// this end's own deadline.
    pub(super) fn update<'a>(
        &mut self,
        now: Instant,
        kept: impl Iterator<Item = (&'a StreamName, Duration)>,
    ) -> Vec<(StreamName, Option<Duration>)> {
        self.is_due = false;
        let mut longest = BTreeMap::<&StreamName, Duration>::new();
        for (name, deadline) in kept {
            let known = longest.entry(name).or_insert(deadline);
            *known = deadline.max(*known);
        }
        for (name, _) in longest.iter().filter(|(_, deadline)| **deadline != self.own) {
            if !self.streams.contains_key(*name) {
                let request = Request { deadline: self.own, enough_since: None };
                self.streams.insert((*name).clone(), request);
            }
        }
        let mut changes = Vec::new();
        let own = self.own;
        self.streams.retain(|name, request| {
            let wanted = longest.get(name).copied().unwrap_or(own);
            if request.takes(now, wanted) {
                changes.push((name.clone(), Some(wanted).filter(|wanted| *wanted != own)));
            }
            request.deadline != own || request.enough_since.is_some()
        });
        changes
    }
}

impl Request {
    /// Takes the deadline that is wanted now; returns whether another one is asked for.
    fn takes(&mut self, now: Instant, wanted: Duration) -> bool {
        let since = *self.enough_since.get_or_insert(now);
        let is_lower = wanted < self.deadline;
        if is_lower && now < since + LOWERED_AFTER {
            return false;
        }
        self.enough_since = None;
        core::mem::replace(&mut self.deadline, wanted) != wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const OWN: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Returns the requests that change, in milliseconds.
    fn update(asked: &mut Asked, ms: u64, kept: &[(&str, u32)]) -> Vec<(String, Option<u128>)> {
        let kept: Vec<(StreamName, Duration)> =
            kept.iter().map(|&(name, millis)| (name.parse().unwrap(), millis * MS)).collect();
        let changes = asked.update(at(ms), kept.iter().map(|(name, deadline)| (name, *deadline)));
        let in_ms = |(name, deadline): (StreamName, Option<Duration>)| {
            (name.to_string(), deadline.map(|deadline| deadline.as_millis()))
        };
        changes.into_iter().map(in_ms).collect()
    }

    fn of(name: &str, deadline: Option<u128>) -> (String, Option<u128>) {
        (name.to_owned(), deadline)
    }

    #[test]
    fn a_longer_deadline_is_asked_for_at_once_and_a_shorter_one_when_it_was_enough_for_a_while() {
        let mut asked = Asked::new(OWN);
        assert_eq!(update(&mut asked, 0, &[("x", 1_000), ("y", 1_000)]), []);
        assert_eq!(update(&mut asked, 1, &[("x", 3_000), ("y", 1_000)]), [of("x", Some(3_000))]);
        assert_eq!(asked.deadline(), None);
        assert_eq!(update(&mut asked, 10, &[("x", 1_000)]), []);
        assert_eq!(asked.deadline(), Some(at(3_010)));
        assert_eq!(update(&mut asked, 3_009, &[("x", 1_000)]), []);
        assert!(!asked.is_due(at(3_009)) && asked.is_due(at(3_010)));
        assert_eq!(update(&mut asked, 3_010, &[("x", 1_000)]), [of("x", None)]);
        assert!(asked.streams.is_empty() && asked.deadline().is_none());
    }

    #[test]
    fn readers_that_all_want_less_are_served_with_less_and_one_that_comes_back_finds_its_deadline() {
        let mut asked = Asked::new(OWN);
        assert_eq!(update(&mut asked, 0, &[("x", 300)]), [], "others may come yet");
        assert_eq!(update(&mut asked, 3_000, &[("x", 300)]), [of("x", Some(300))]);
        assert_eq!(update(&mut asked, 3_001, &[("x", 2_000)]), [of("x", Some(2_000))]);
        assert_eq!(update(&mut asked, 4_000, &[("x", 300)]), []);
        assert_eq!(update(&mut asked, 6_999, &[("x", 2_000)]), []);
        assert_eq!(asked.deadline(), None);
        assert_eq!(update(&mut asked, 9_000, &[("x", 2_500)]), [of("x", Some(2_500))]);
    }

    #[test]
    fn of_several_epochs_the_longest_counts_and_a_stream_that_is_gone_is_forgotten() {
        let mut asked = Asked::new(OWN);
        assert_eq!(update(&mut asked, 0, &[("x", 3_000), ("x", 1_000)]), [of("x", Some(3_000))]);
        assert_eq!(update(&mut asked, 5_000, &[]), []);
        assert_eq!(update(&mut asked, 8_000, &[]), [of("x", None)]);
        assert!(asked.streams.is_empty());
    }
}
