//! Whether this reader waited for a stream before an epoch of it began: then the epoch's account begins with sample 0, and what
//! it did not get of the beginning is missing in it.
//!
//! Two hosts' clocks are compared only where nothing else tells, and then the samples' own rate has to agree.
//!
//! Source: architecture, "The account, precisely", rule 16.

use core::time::Duration;
use std::collections::VecDeque;

use units::{Epoch, Instant, RangeSet, SampleRate, WallTime};
use wire::{Numbered, Waiting};

/// A reader that has listened for so long has heard of every epoch that was there before: announcements and tallies come at
/// least every second.
const HEARD_OF_ALL: Duration = Duration::from_millis(2_500);
/// How far ahead of this host's clock an epoch may seem to begin that began while this reader listened.
const CLOCKS_APART: Duration = Duration::from_secs(2);
/// The most runs of numbers that are remembered of what came before the description did; further ones are not named.
pub(super) const MAX_EARLY_RUNS: usize = 1_024;
/// The most epochs of a stream that are remembered; more come only from a forger.
const MAX_EPOCHS: usize = 8;

/// Since when a reader waits for streams, by both clocks of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitsSince {
    /// By the clock that never steps.
    pub since: Instant,
    /// The wall clock at that moment.
    pub wall: WallTime,
}

impl WaitsSince {
    /// Returns the same reader's waiting for something that it wants only since `now`.
    pub(super) fn restarted_at(self, now: Instant) -> Self {
        Self { since: now, wall: self.wall_at(now) }
    }

    /// Tells whether the reader waited when an epoch began.
    ///
    /// `heard` is when anything of the epoch was heard first; `first_index` and `rate` tell how old it is by its samples.
    pub(super) fn preceded(
        self,
        now: Instant,
        epoch: Epoch,
        heard: Instant,
        first_index: u64,
        rate: SampleRate,
    ) -> bool {
        // A burst is ahead of the rate.
        let is_as_young = || rate.duration_of(first_index) <= now.since(self.since) + CLOCKS_APART;
        heard.since(self.since) >= HEARD_OF_ALL || is_as_young() && self.is_within(now, epoch)
    }

    /// Tells whether the epoch says that it began while this reader listened.
    fn is_within(self, now: Instant, epoch: Epoch) -> bool {
        let Ok(start_ns) = i64::try_from(epoch.start_ns) else { return false };
        let latest = self.wall_at(now).as_nanos().saturating_add(nanos(CLOCKS_APART));
        (self.wall.as_nanos()..=latest).contains(&start_ns)
    }

    /// Returns the wall time at a moment, as if the clock had never been set since.
    pub(super) fn wall_at(self, now: Instant) -> WallTime {
        WallTime::from_nanos(self.wall.as_nanos().saturating_add(nanos(now.since(self.since))))
    }
}

/// What is known of the beginnings of one stream's epochs.
#[derive(Debug)]
pub(super) struct Beginnings {
    waiting: Option<WaitsSince>,
    /// The epochs that were heard of, in the order in which they were.
    heard: VecDeque<Heard>,
}

/// An epoch that was heard of.
#[derive(Debug)]
struct Heard {
    epoch: Epoch,
    /// When anything of it was heard first.
    first: Instant,
    /// An account of it was opened.
    has_begun: bool,
    /// Its datagrams that came before an account could begin, mostly for want of the description.
    early: RangeSet,
}

impl Beginnings {
    pub(super) const fn new(waiting: Option<WaitsSince>) -> Self {
        Self { waiting, heard: VecDeque::new() }
    }

    /// Notes that the stream is wanted again only since `now`.
    pub(super) fn wanted_from(&mut self, now: Instant) {
        self.waiting = self.waiting.map(|waiting| waiting.restarted_at(now));
        self.heard.clear();
    }

    /// Notes that something of an epoch was heard.
    pub(super) fn heard(&mut self, epoch: Epoch, now: Instant) {
        if self.of(epoch).is_none() {
            if self.heard.len() == MAX_EPOCHS {
                self.heard.pop_front();
            }
            self.heard.push_back(Heard { epoch, first: now, has_begun: false, early: RangeSet::new() });
        }
    }

    /// Notes a datagram that came before an account could begin.
    pub(super) fn came_too_early(&mut self, head: &Numbered) {
        if let Some(heard) = self.of_mut(head.epoch)
            && heard.early.range_count() < MAX_EARLY_RUNS
        {
            heard.early.insert(head.number..head.number.saturating_add(1));
        }
    }

    /// Tells whether the reader waits for the beginning of an epoch.
    pub(super) fn awaits(&self, epoch: Epoch) -> bool {
        self.waiting.is_some() && self.of(epoch).is_none_or(|heard| !heard.has_begun)
    }

    /// Returns what a request says of the reader's waiting.
    pub(super) fn wish(&self) -> Option<Waiting> {
        let waiting = self.waiting?;
        Some(Waiting { since: waiting.wall, from_beginning: true, deadline: None })
    }

    /// Tells whether the account that opens at this datagram has to begin with sample 0.
    pub(super) fn waited_for(&self, head: &Numbered, rate: SampleRate, now: Instant) -> bool {
        let heard = self.of(head.epoch).filter(|heard| !heard.has_begun);
        self.waiting.zip(heard).is_some_and(|(waiting, heard)| {
            waiting.preceded(now, heard.epoch, heard.first, head.first_index, rate)
        })
    }

    /// Notes that an account of this epoch is opened; returns the numbers that came too early to be used.
    pub(super) fn begun(&mut self, epoch: Epoch) -> RangeSet {
        let Some(heard) = self.of_mut(epoch) else { return RangeSet::new() };
        heard.has_begun = true;
        core::mem::take(&mut heard.early)
    }

    /// Notes that the account of this epoch rested on a single datagram that was none of its.
    pub(super) fn begins_again(&mut self, epoch: Epoch) {
        if let Some(heard) = self.of_mut(epoch) {
            heard.has_begun = false;
        }
    }

    fn of(&self, epoch: Epoch) -> Option<&Heard> {
        self.heard.iter().rfind(|heard| heard.epoch == epoch)
    }

    fn of_mut(&mut self, epoch: Epoch) -> Option<&mut Heard> {
        self.heard.iter_mut().rfind(|heard| heard.epoch == epoch)
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_S: u64 = 1_700_000_000;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// An epoch that says that it began so many milliseconds after the reader.
    fn epoch(millis: i64) -> Epoch {
        let start = i64::try_from(WALL_S).unwrap() * 1_000_000_000 + millis * 1_000_000;
        Epoch { start_ns: u64::try_from(start).unwrap(), life: 1 }
    }

    /// Tells whether a reader that began at 10 s waited for an epoch of 1,000 samples per second.
    fn preceded(now_ms: u64, epoch_ms: i64, heard_ms: u64, first_index: u64) -> bool {
        let wall = WallTime::from_nanos(i64::try_from(WALL_S).unwrap() * 1_000_000_000);
        let waiting = WaitsSince { since: at(10_000), wall };
        let rate = SampleRate::hz(1_000).unwrap();
        waiting.preceded(at(10_000 + now_ms), epoch(epoch_ms), at(10_000 + heard_ms), first_index, rate)
    }

    #[test]
    fn what_is_heard_of_first_after_long_listening_began_meanwhile_whatever_its_clock_says() {
        assert!(preceded(2_600, -3_600_000, 2_500, 50));
        assert!(!preceded(2_600, -3_600_000, 2_499, 50), "it may have been there before");
    }

    #[test]
    fn after_short_listening_the_epochs_start_tells() {
        assert!(preceded(300, 100, 150, 50));
        assert!(preceded(300, 0, 150, 50), "both at once");
        assert!(!preceded(300, -1, 150, 50), "it was there before");
        assert!(preceded(300, 2_300, 150, 50), "its clock is a little ahead");
        assert!(!preceded(300, 2_301, 150, 50), "its clock is wrong: nothing is claimed");
    }

    #[test]
    fn samples_that_take_longer_than_the_reader_listened_began_before_it() {
        assert!(preceded(300, 100, 150, 2_300));
        assert!(!preceded(300, 100, 150, 2_301));
        assert!(preceded(3_000, 100, 2_500, 300_000), "but a recording is played as fast as one likes");
    }
}
